/*
 * Rows: a tensor seen as kept dimensions and one dimension R that is reduced or normalised. Tiles
 * in SRAM are dense, kept dimensions outside, R innermost, whatever the order in DRAM (the DMA
 * turns them). A row that fits is a tile's width; a longer one is walked in chunks of a multiple of
 * VNPU_PARTIALS by the innermost loop.
 */
#ifndef KERN_ROWSET_H
#define KERN_ROWSET_H

#include "kernels/kern_internal.h"
#include "kernels/kern_nest.h"

#define KERN_ROWSET_KEPT 3u /* kept dimensions at most: with R four loops */

/* What a tile costs in SRAM. */
typedef struct kern_rowset_need {
    uint32_t elem_bytes;   /* per element of the tile, all buffers together */
    uint32_t column_bytes; /* per element of R (weights), all buffers together */
    uint32_t row_bytes;    /* per row */
    uint32_t fixed_bytes;  /* blocks' alignment and such */
    bool has_one_buffer;   /* a tile may fill the scratchpad; else it has two, of a size that
                              overlaps well */
} kern_rowset_need_t;

typedef struct kern_rowset {
    uint32_t kept; /* kept dimensions; the axis of R has this index */
    int64_t size[KERN_NEST_DIMS];
    kern_nest_t nest;
    uint32_t rows, width; /* of a tile */
} kern_rowset_t;

/*
 * iter: kept dimensions, then R; operand 0 is the large one. may_split_r: R's chunks may be dealt
 * to instances. passes: R's loop is run more than once per row tile (its trips are padded to
 * pairs). False: nothing fits.
 */
bool kern_rowset_plan(const vnpu_machine_t *machine, const kern_iter_t *iter, uint32_t kept,
                      const kern_rowset_need_t *need, bool may_split_r, bool passes,
                      kern_rowset_t *out_rows);

static inline const kern_axis_t *kern_rowset_r(const kern_rowset_t *rows) {
    return &rows->nest.axis[rows->kept];
}
/* Loop mask of R (0: no loop). */
uint8_t kern_rowset_r_mask(const kern_rowset_t *rows);

typedef enum kern_shape {
    KERN_TILE,     /* rows x width */
    KERN_ROW,      /* one value per row: rows */
    KERN_ROW_B,    /* the same, broadcast along R */
    KERN_COLUMN_B, /* one value per column, broadcast over the rows */
    KERN_PARTIAL,  /* rows x 16 */
    KERN_ONE_ROW,  /* one value for all rows (a scalar argument), shaped like KERN_ROW */
    KERN_ONE_TILE  /* one value for the whole tile */
} kern_shape_t;
/* Pattern of a buffer. buffers > 1: turned by `level`. */
vnpu_ap_t kern_rowset_ap(const kern_rowset_t *rows, vnpu_space_t space, vnpu_dtype_t dtype,
                         int64_t base, kern_shape_t shape, uint8_t level, uint32_t buffers);
/* Elements between two buffers of a tile, a row vector or a column vector. */
uint64_t kern_rowset_pitch(const kern_rowset_t *rows, vnpu_dtype_t dtype, kern_shape_t shape);

/* Moves a tile (KERN_TILE), a value per row (KERN_ROW) or per column (KERN_COLUMN_B) between DRAM
 * and a buffer. stride: per axis. */
typedef struct kern_rowset_move {
    kern_queue_t queue;
    kern_shape_t shape;
    vnpu_dtype_t dram_dtype, sram_dtype;
    uint8_t arg;
    const int64_t *stride;
    int64_t sram;
    uint8_t level;
    uint32_t buffers;
} kern_rowset_move_t;
vnpu_insn_t *kern_rowset_emit_move(const kern_rowset_t *rows, kern_builder_t *builder,
                                   const kern_rowset_move_t *move);

/* Opens and closes the loops of the kept dimensions, and that of R. */
void kern_rowset_open_kept(const kern_rowset_t *rows, kern_builder_t *builder);
void kern_rowset_close_kept(const kern_rowset_t *rows, kern_builder_t *builder);
void kern_rowset_open_r(const kern_rowset_t *rows, kern_builder_t *builder);
void kern_rowset_close_r(const kern_rowset_t *rows, kern_builder_t *builder);

/*
 * Tensors over kept dimensions and R: `dim_mask` names R's dimensions, which must continue each
 * other in every operand. False: they do not. Operand 0 has the full sizes; others may have 1 where
 * they do not vary.
 */
bool kern_rowset_iter(const kern_tensor_t *const *operand, uint32_t count, uint32_t dim_mask,
                      kern_iter_t *out_iter, uint32_t *out_kept);
/*
 * The kept dimension at which a launch must be cut (too many of them, or out of reach) and the size
 * of a part; -1: none, -2: R itself is out of reach.
 */
int32_t kern_rowset_cut(const kern_iter_t *iter, uint32_t kept, int64_t *out_part);

#endif
