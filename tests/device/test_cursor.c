#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_image.h"
#include "device/dev_program.h"
#include "tests/device/dev_test_random.h"

#define MAX_INSNS 64u
#define MAX_STEPS 200000u

typedef struct step {
    uint32_t insn;
    uint32_t counter[VNPU_MAX_LOOPS], trips[VNPU_MAX_LOOPS];
} step_t;

typedef struct trace {
    step_t *step;
    size_t count;
} trace_t;

/* ---- recursive reference: what nested loops mean ---- */

static bool runs_now(const vnpu_insn_t *insn, const step_t *at) {
    for (int l = 0; l < 4; l++) {
        if ((insn->first_only & 1 << l) && at->counter[l] != 0) return false;
        if ((insn->last_only & 1 << l) && at->counter[l] != at->trips[l] - 1) return false;
    }
    return true;
}

/* Runs from `pc` at `depth` until the ENDLOOP of this level or the end; returns its index. */
static uint32_t reference_run(const vnpu_insn_t *insn, uint32_t count, uint32_t pc, uint32_t depth,
                              step_t at, trace_t *trace) {
    while (pc < count && insn[pc].op != VNPU_OP_ENDLOOP) {
        if (insn[pc].op != VNPU_OP_LOOP) {
            if (runs_now(&insn[pc], &at)) {
                cr_assert_lt(trace->count, MAX_STEPS);
                trace->step[trace->count] = at;
                trace->step[trace->count++].insn = pc;
            }
            pc++;
            continue;
        }
        uint32_t end = pc;
        step_t inner = at;
        inner.trips[depth] = insn[pc].imm[0];
        for (uint32_t i = 0; i < insn[pc].imm[0]; i++) {
            inner.counter[depth] = i;
            end = reference_run(insn, count, pc + 1, depth + 1, inner, trace);
        }
        pc = end + 1;
    }
    return pc;
}

/* A random stream: loops nested up to four deep, no empty one, masks over the open levels. */
static uint32_t random_stream(uint64_t *seed, vnpu_insn_t *insn) {
    uint32_t count = 0, depth = 0;
    bool is_fresh = false; /* the loop just opened has nothing inside yet */
    while (count < 24 || depth > 0) {
        uint64_t pick = dev_test_random(seed) % 8;
        if (depth < 4 && pick < 2 && count < 24) {
            insn[count] = dev_image_insn(VNPU_OP_LOOP);
            insn[count++].imm[0] = (uint32_t)dev_test_between(seed, 1, 4);
            depth++;
            is_fresh = true;
        } else if (depth > 0 && !is_fresh && (pick < 4 || count >= 24)) {
            insn[count++] = dev_image_insn(VNPU_OP_ENDLOOP);
            depth--;
        } else {
            uint8_t open = (uint8_t)((1u << depth) - 1u);
            insn[count] = dev_image_insn(VNPU_OP_SYNC);
            if (pick == 5) insn[count].first_only = (uint8_t)(dev_test_random(seed) & open);
            if (pick == 6) insn[count].last_only = (uint8_t)(dev_test_random(seed) & open);
            insn[count++].not_first = (uint8_t)(dev_test_random(seed) & open);
            is_fresh = false;
        }
        cr_assert_lt(count, MAX_INSNS);
    }
    return count;
}

static void compare_walk(const vnpu_insn_t *insn, uint32_t count, trace_t *trace, int round) {
    dev_program_t program = {.insn = (vnpu_insn_t *)insn};
    vnpu_queue_section_t section = {.kind = VNPU_QUEUE_CTRL, .count = count};
    dev_cursor_t cursor;
    trace->count = 0;
    reference_run(insn, count, 0, 0, (step_t){.trips = {1, 1, 1, 1}}, trace);
    dev_cursor_init(&cursor, &program, &section);
    for (size_t n = 0; n < trace->count; n++) {
        const step_t *want = &trace->step[n];
        const vnpu_insn_t *got = dev_cursor_next(&cursor);
        cr_assert_not_null(got, "round %d step %zu", round, n);
        cr_assert_eq(got - insn, (ptrdiff_t)want->insn, "round %d step %zu", round, n);
        cr_assert_arr_eq(cursor.counter, want->counter, sizeof want->counter);
        cr_assert_arr_eq(cursor.trips, want->trips, sizeof want->trips);
        bool accumulates = false;
        for (int l = 0; l < 4; l++) {
            if (got->not_first & 1 << l) accumulates |= want->counter[l] > 0;
        }
        cr_assert_eq(dev_cursor_accumulates(&cursor, got), accumulates, "round %d", round);
    }
    cr_assert_null(dev_cursor_next(&cursor), "round %d: the stream goes on", round);
    cr_assert_null(dev_cursor_next(&cursor), "the end stays the end");
}

Test(cursor, walks_nested_loops_and_masks_as_the_recursive_reference) {
    uint64_t seed = 4;
    trace_t trace = {.step = malloc(MAX_STEPS * sizeof(step_t))};
    size_t total = 0;
    for (int round = 0; round < 500; round++) {
        vnpu_insn_t insn[MAX_INSNS];
        uint32_t count = random_stream(&seed, insn);
        compare_walk(insn, count, &trace, round);
        total += trace.count;
    }
    free(trace.step);
    cr_assert_gt(total, 20000u);
}

Test(cursor, four_levels_count_like_digits) {
    vnpu_insn_t insn[9];
    static const uint32_t trips[4] = {2, 3, 4, 5};
    for (int l = 0; l < 4; l++) {
        insn[l] = dev_image_insn(VNPU_OP_LOOP);
        insn[l].imm[0] = trips[l];
        insn[8 - l] = dev_image_insn(VNPU_OP_ENDLOOP);
    }
    insn[4] = dev_image_insn(VNPU_OP_NOP);
    dev_program_t program = {.insn = insn};
    vnpu_queue_section_t section = {.count = 9};
    dev_cursor_t cursor;
    dev_cursor_init(&cursor, &program, &section);
    for (uint32_t n = 0; n < 120; n++) {
        cr_assert_eq(dev_cursor_next(&cursor), &insn[4]);
        const uint32_t *i = cursor.counter;
        cr_assert_eq(((i[0] * 3 + i[1]) * 4 + i[2]) * 5 + i[3], n);
    }
    cr_assert_null(dev_cursor_next(&cursor));
}

Test(cursor, an_empty_stream_ends_at_once) {
    dev_program_t program = {0};
    vnpu_queue_section_t section = {0};
    dev_cursor_t cursor;
    dev_cursor_init(&cursor, &program, &section);
    cr_assert_null(dev_cursor_next(&cursor));
}

Test(cursor, sections_start_at_their_first_instruction) {
    vnpu_insn_t insn[3] = {dev_image_insn(VNPU_OP_NOP), dev_image_insn(VNPU_OP_MARK),
                           dev_image_insn(VNPU_OP_SYNC)};
    dev_program_t program = {.insn = insn};
    vnpu_queue_section_t section = {.first = 1, .count = 1};
    dev_cursor_t cursor;
    dev_cursor_init(&cursor, &program, &section);
    cr_assert_eq(dev_cursor_next(&cursor), &insn[1]);
    cr_assert_null(dev_cursor_next(&cursor));
}
