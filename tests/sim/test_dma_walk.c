/* The order of the runs of a transfer. */
#include <criterion/criterion.h>

#include "sim/sim_dma_walk.h"

/* Lines of runs that are longer than a command is wide: blocks of rows, each one part after the
 * other. */
typedef struct walk_case {
    uint32_t lines, runs, rows;
    uint64_t run_bytes, longest;
} walk_case_t;

static const walk_case_t cases[] = {
    {3, 23, 16, 240, 64}, /* 16 + 7 rows in parts of 64, 64, 64, 48 */
    {2, 16, 16, 128, 64}, {1, 5, 16, 65, 64}, {4, 2, 2, 200, 64}, {2, 7, 3, 64, 64},
    {2, 7, 3, 48, 64},    {2, 7, 0, 240, 64}, {2, 7, 3, 240, 0},
};

static sim_dma_walk_t walk_of(const walk_case_t *t) {
    sim_dma_walk_t walk;
    sim_dma_walk_strided(&walk, 1 << 20, 2, (uint32_t[]){t->lines, t->runs},
                         (int64_t[]){100000, 1000}, t->run_bytes, false);
    walk.longest = t->longest;
    walk.rows = t->rows;
    return walk;
}

static void expect(sim_dma_walk_t *walk, uint64_t limit, uint64_t address, uint64_t bytes,
                   bool begins_line) {
    sim_dma_piece_t piece;
    for (uint64_t at = 0; at < bytes; at += piece.bytes) {
        cr_assert(sim_dma_walk_peek(walk, limit, &piece));
        cr_assert_eq(piece.address, address + at);
        cr_assert_eq(piece.bytes, bytes - at < limit ? bytes - at : limit);
        cr_assert_eq(piece.begins_run, at == 0);
        cr_assert_eq(piece.begins_line, at == 0 && begins_line);
        sim_dma_walk_take(walk, &piece);
    }
}

Test(dma_walk, parts_of_long_runs_come_in_blocks) {
    static const uint64_t limits[] = {16, 24, 64, 4096};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
            const walk_case_t *t = &cases[i];
            sim_dma_walk_t walk = walk_of(t);
            bool is_cut = t->longest > 0 && t->run_bytes > t->longest;
            uint64_t part = is_cut ? t->longest : t->run_bytes;
            /* without blocks every run is a block of its own */
            bool has_blocks = is_cut && t->rows > 0;
            uint32_t rows = has_blocks ? t->rows : 1;
            for (uint32_t line = 0; line < t->lines; line++)
                for (uint32_t first = 0; first < t->runs; first += rows)
                    for (uint64_t from = 0; from < t->run_bytes; from += part)
                        for (uint32_t r = first; r < t->runs && r < first + rows; r++) {
                            uint64_t left = t->run_bytes - from;
                            bool begins = has_blocks ? r == first : r == 0 && from == 0;
                            expect(&walk, limits[l],
                                   (1 << 20) + line * 100000ull + r * 1000ull + from,
                                   left < part ? left : part, begins);
                        }
            sim_dma_piece_t piece;
            cr_assert_not(sim_dma_walk_peek(&walk, 64, &piece), "case %zu", i);
        }
}
