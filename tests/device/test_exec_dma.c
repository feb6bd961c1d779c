/* DMA: copies, casts, transposes, fills, accumulation, gather and scatter, against an
 * element-by-element reference. */
#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"

enum { BUFFER = 1 << 16 };

/* A program of one DMA instruction per direction around it: data comes from and goes to DRAM
 * through the instruction itself. */
typedef struct dma_run {
    exec_env_t env;
    uint64_t address; /* BUFFER bytes of DRAM */
    uint8_t *dram;
} dma_run_t;

static void dma_open(dma_run_t *run, dev_exec_options_t options) {
    env_open(&run->env, 1, options);
    run->address = env_alloc(&run->env, BUFFER);
    run->dram = env_host(&run->env, run->address, BUFFER);
}

/*
 * SRAM [0, BUFFER) is loaded from a second DRAM buffer, `insn` runs, SRAM goes back: sram and dram
 * are host copies. aps are dst, src0, src1 (NULL: absent), bases relative to either buffer.
 */
static sim_status_t dma_execute(dma_run_t *run, vnpu_insn_t insn, const vnpu_ap_t *dst,
                                const vnpu_ap_t *src0, const vnpu_ap_t *src1, uint8_t *sram,
                                sim_error_t *err) {
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.sram_bytes = BUFFER;
    uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0);
    uint8_t data = prog_arg(&prog, VNPU_ARG_INOUT), image = prog_arg(&prog, VNPU_ARG_INOUT);
    uint16_t outside =
        prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_U8, 0, BUFFER, 0, 0), image));
    uint16_t inside = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_U8, 0, BUFFER, 0, 0));
    vnpu_insn_t *load = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    load->dst = inside;
    load->src[0] = outside;
    prog_insn(&prog, dma, VNPU_OP_FENCE);
    const vnpu_ap_t *ap[3] = {dst, src0, src1};
    uint16_t index[3] = {VNPU_NO_AP, VNPU_NO_AP, VNPU_NO_AP};
    for (uint32_t i = 0; i < 3; i++) {
        if (!ap[i]) continue;
        vnpu_ap_t copy = *ap[i];
        if (copy.space == VNPU_SPACE_DRAM) copy.arg = data;
        index[i] = prog_ap(&prog, copy);
    }
    vnpu_insn_t *it = prog_insn(&prog, dma, insn.op);
    *it = insn;
    it->line = 33;
    it->dst = index[0];
    it->src[0] = index[1];
    it->src[1] = index[2];
    prog_insn(&prog, dma, VNPU_OP_FENCE);
    vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    store->dst = outside;
    store->src[0] = inside;
    dev_program_t *program = prog_load(&prog, &run->env.machine);
    dev_launch_t launch = launch_of(program, &run->env.machine, 1, 1);
    launch.arg[0] = run->address;
    launch.arg[1] = env_alloc(&run->env, BUFFER);
    memcpy(env_host(&run->env, launch.arg[1], BUFFER), sram, BUFFER);
    sim_status_t status = dev_exec_run(run->env.exec, TEST_OWNER, &launch, err);
    memcpy(sram, env_host(&run->env, launch.arg[1], BUFFER), BUFFER);
    cr_assert_eq(dev_memory_free(run->env.memory, TEST_OWNER, launch.arg[1], NULL), SIM_OK);
    dev_program_destroy(program);
    return status;
}

static int64_t offset_of(const vnpu_ap_t *ap, uint64_t element) {
    int64_t offset = 0;
    for (uint32_t d = ap->ndims; d-- > 0;) {
        offset += (int64_t)(element % ap->dim[d].size) * ap->dim[d].stride;
        element /= ap->dim[d].size;
    }
    return ap->base + offset * vnpu_dtype_bytes((vnpu_dtype_t)ap->dtype);
}

static bool is_float(uint8_t dtype) {
    return dtype >= VNPU_F32 && dtype <= VNPU_F8E5M2;
}

/* dst (+)= cast(src), one element. */
static void move_element(uint8_t *to, uint8_t dst_type, const uint8_t *from, uint8_t src_type,
                         bool accumulate) {
    uint8_t element[8];
    vnpu_dtype_t d = (vnpu_dtype_t)dst_type, s = (vnpu_dtype_t)src_type;
    if (d == s)
        memcpy(element, from, vnpu_dtype_bytes(d));
    else if (!is_float(dst_type) && !is_float(src_type))
        dev_store_i64(d, element, dev_load_i64(s, from));
    else
        dev_store_f32(d, element, dev_load_f32(s, from));
    if (!accumulate)
        memcpy(to, element, vnpu_dtype_bytes(d));
    else if (is_float(dst_type))
        dev_store_f32(d, to, dev_load_f32(d, to) + dev_load_f32(d, element));
    else
        dev_store_i64(
            d, to, (int64_t)((uint64_t)dev_load_i64(d, to) + (uint64_t)dev_load_i64(d, element)));
}

/* Small integers in the type: every cast and sum of a few is exact or rounds the same way. */
static void fill_values(uint8_t *data, uint8_t dtype, uint64_t seed) {
    uint32_t bytes = vnpu_dtype_bytes((vnpu_dtype_t)dtype);
    for (uint32_t i = 0; i < BUFFER / bytes; i++) {
        int64_t v = dev_test_between(&seed, -100, 100);
        if (is_float(dtype))
            dev_store_f32((vnpu_dtype_t)dtype, data + i * bytes, (float)v / 8.0f);
        else
            dev_store_i64((vnpu_dtype_t)dtype, data + i * bytes, v);
    }
}

/* A random pattern over `size`; dimensions in a random order of nesting, so that transposes come
 * up. */
static vnpu_ap_t random_ap(vnpu_space_t space, uint8_t dtype, uint8_t ndims, const uint32_t *size,
                           bool may_repeat, uint64_t *seed) {
    vnpu_ap_t ap = dev_image_ap(space, (vnpu_dtype_t)dtype);
    ap.ndims = ndims;
    uint32_t order[5], bytes = vnpu_dtype_bytes((vnpu_dtype_t)dtype);
    for (uint32_t i = 0; i < ndims; i++)
        order[i] = ndims - 1u - i;
    if (dev_test_between(seed, 0, 1)) {
        for (uint32_t i = 0; i < ndims; i++) {
            uint32_t j = (uint32_t)dev_test_between(seed, 0, ndims - 1), t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
    }
    int64_t stride = dev_test_between(seed, 0, 5) == 0 ? 2 : 1, start = 0;
    for (uint32_t i = 0; i < ndims; i++) {
        uint32_t d = order[i];
        int64_t s = stride;
        stride = stride * size[d] + (dev_test_between(seed, 0, 3) == 0 ? 3 : 0);
        if (may_repeat && dev_test_between(seed, 0, 7) == 0) s = 0;
        if (dev_test_between(seed, 0, 9) == 0) {
            start += s * (size[d] - 1);
            s = -s;
        }
        ap.dim[d] = (vnpu_dim_t){size[d], (int32_t)s};
    }
    ap.base = (start + dev_test_between(seed, 0, 7)) * bytes;
    return ap;
}

static const uint8_t all_types[] = {VNPU_F32,    VNPU_BF16, VNPU_F16, VNPU_F8E4M3,
                                    VNPU_F8E5M2, VNPU_I8,   VNPU_U8,  VNPU_I16,
                                    VNPU_I32,    VNPU_I64,  VNPU_BOOL};

static void check_moves(dev_exec_options_t options, bool same_type, bool accumulate,
                        uint32_t trials) {
    dma_run_t run;
    dma_open(&run, options);
    static uint8_t sram[BUFFER], want_sram[BUFFER], want_dram[BUFFER];
    uint64_t seed = same_type + 2u * accumulate;
    for (uint32_t trial = 0; trial < trials; trial++) {
        uint8_t dst_type = all_types[dev_test_random(&seed) % sizeof all_types];
        uint8_t src_type =
            same_type ? dst_type : all_types[dev_test_random(&seed) % sizeof all_types];
        uint8_t ndims = (uint8_t)dev_test_between(&seed, 1, 5);
        uint32_t size[5];
        for (uint32_t d = 0; d < ndims; d++)
            size[d] = (uint32_t)dev_test_between(&seed, 1, ndims <= 2 ? 50 : 5);
        bool into_dram = dev_test_between(&seed, 0, 1);
        vnpu_space_t to = into_dram ? VNPU_SPACE_DRAM : VNPU_SPACE_SRAM,
                     from = into_dram ? VNPU_SPACE_SRAM : VNPU_SPACE_DRAM;
        vnpu_ap_t dst = random_ap(to, dst_type, ndims, size, false, &seed);
        vnpu_ap_t src = random_ap(from, src_type, ndims, size, true, &seed);
        fill_values(into_dram ? run.dram : sram, dst_type, seed);
        fill_values(into_dram ? sram : run.dram, src_type, seed + 1);
        memcpy(want_sram, sram, BUFFER);
        memcpy(want_dram, run.dram, BUFFER);
        uint64_t count = 1;
        for (uint32_t d = 0; d < ndims; d++)
            count *= size[d];
        for (uint64_t e = 0; e < count; e++) {
            uint8_t *element = (into_dram ? want_dram : want_sram) + offset_of(&dst, e);
            move_element(element, dst_type,
                         (into_dram ? want_sram : want_dram) + offset_of(&src, e), src_type,
                         accumulate);
        }
        vnpu_insn_t insn =
            dev_image_insn(trial % 2 && !accumulate ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
        insn.flags = accumulate ? VNPU_F_ACCUMULATE : 0;
        sim_error_t err = {0};
        cr_assert_eq(dma_execute(&run, insn, &dst, &src, NULL, sram, &err), SIM_OK, "%s", err.text);
        cr_assert(memcmp(sram, want_sram, BUFFER) == 0 && memcmp(run.dram, want_dram, BUFFER) == 0,
                  "trial %u: dtype %d <- %d", trial, dst_type, src_type);
    }
    env_close(&run.env);
}

Test(exec_dma, strided_copies_and_transposes_of_one_type) {
    check_moves((dev_exec_options_t){0}, true, false, 600);
}
Test(exec_dma, casts_between_all_types) {
    check_moves((dev_exec_options_t){0}, false, false, 600);
}
Test(exec_dma, casts_at_level_avx2) {
    check_moves((dev_exec_options_t){.isa_level = 2}, false, false, 200);
}
Test(exec_dma, casts_at_level_exact) {
    check_moves((dev_exec_options_t){.isa_level = 1}, false, false, 200);
}
Test(exec_dma, accumulation) {
    check_moves((dev_exec_options_t){0}, false, true, 200);
}
Test(exec_dma, chaos_moves_the_same) {
    check_moves((dev_exec_options_t){.mode = DEV_EXEC_CHAOS, .seed = 3}, false, false, 200);
}

/* The shapes that have their own path: large transposes of every element size, long casts. */
Test(exec_dma, large_transposes) {
    dma_run_t run;
    dma_open(&run, (dev_exec_options_t){0});
    static uint8_t sram[BUFFER], want[BUFFER];
    static const uint8_t types[] = {VNPU_U8, VNPU_BF16, VNPU_F32, VNPU_I64};
    static const uint32_t shapes[][2] = {{64, 64}, {67, 61}, {8, 500}, {1, 77}, {90, 9}};
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t s = 0; s < 5; s++) {
            uint32_t rows = shapes[s][0], cols = shapes[s][1];
            fill_values(run.dram, types[t], s);
            memset(sram, 0xee, BUFFER);
            memset(want, 0xee, BUFFER);
            vnpu_ap_t src = ap_dense(VNPU_SPACE_DRAM, types[t], 0, rows, cols, 0);
            vnpu_ap_t dst = ap_dense(VNPU_SPACE_SRAM, types[t], 0, rows, cols, 0);
            dst.dim[0].stride = 1;
            dst.dim[1].stride = (int32_t)rows + 1;
            uint32_t bytes = vnpu_dtype_bytes(types[t]);
            for (uint32_t e = 0; e < rows * cols; e++)
                memcpy(want + offset_of(&dst, e), run.dram + offset_of(&src, e), bytes);
            sim_error_t err = {0};
            cr_assert_eq(dma_execute(&run, dev_image_insn(VNPU_OP_DMA_TRANSPOSE), &dst, &src, NULL,
                                     sram, &err),
                         SIM_OK, "%s", err.text);
            cr_assert_eq(memcmp(sram, want, BUFFER), 0, "dtype %d, %u x %u", types[t], rows, cols);
        }
    }
    env_close(&run.env);
}

Test(exec_dma, fill) {
    dma_run_t run;
    dma_open(&run, (dev_exec_options_t){0});
    static uint8_t sram[BUFFER], want[BUFFER];
    static const uint64_t values[] = {0, 1, 0xffffffffffffffff, 0x123456789abcdef0};
    for (uint32_t t = 0; t < sizeof all_types; t++) {
        for (uint32_t v = 0; v < 4; v++) {
            vnpu_insn_t insn = dev_image_insn(VNPU_OP_DMA_FILL);
            uint8_t element[8];
            if (is_float(all_types[t])) {
                float value = (float)v * -1.25f;
                insn.imm[0] = dev_f32_bits(value);
                dev_store_f32(all_types[t], element, value);
            } else {
                insn.imm[0] = (uint32_t)values[v];
                insn.imm[1] = (uint32_t)(values[v] >> 32);
                dev_store_i64(all_types[t], element, (int64_t)values[v]);
            }
            vnpu_ap_t dst = ap_dense(VNPU_SPACE_SRAM, all_types[t], 16, 7, 13, 0);
            dst.dim[0].stride = 17;
            memset(sram, 0x33, BUFFER);
            memset(want, 0x33, BUFFER);
            for (uint32_t e = 0; e < 7 * 13; e++)
                memcpy(want + offset_of(&dst, e), element, vnpu_dtype_bytes(all_types[t]));
            sim_error_t err = {0};
            cr_assert_eq(dma_execute(&run, insn, &dst, NULL, NULL, sram, &err), SIM_OK, "%s",
                         err.text);
            cr_assert_eq(memcmp(sram, want, BUFFER), 0, "dtype %d value %u", all_types[t], v);
        }
    }
    env_close(&run.env);
}

/* ---- gather and scatter ---- */

enum { TABLE_ROWS = 50, WIDTH = 24, PICKS = 37, INDEX_AT = 40000, ROWS_AT = 1024 };

typedef struct pick_case {
    bool is_gather, accumulate, wrap;
    vnpu_oob_t policy;
    vnpu_dtype_t index_type, packed_type;
    int64_t low, high;
} pick_case_t;

static int64_t chosen_row(const pick_case_t *t, int64_t index) {
    if (t->wrap && index < 0) index += TABLE_ROWS;
    if (index >= 0 && index < TABLE_ROWS) return index;
    return t->policy == VNPU_OOB_CLAMP ? (index < 0 ? 0 : TABLE_ROWS - 1) : -1;
}

static vnpu_insn_t pick_insn(const pick_case_t *t) {
    vnpu_insn_t insn = dev_image_insn(t->is_gather ? VNPU_OP_DMA_GATHER : VNPU_OP_DMA_SCATTER);
    insn.func = (uint8_t)t->policy;
    insn.imm[0] = TABLE_ROWS;
    insn.flags =
        (uint16_t)((t->accumulate ? VNPU_F_ACCUMULATE : 0) | (t->wrap ? VNPU_F_WRAP_NEGATIVE : 0));
    return insn;
}

static vnpu_ap_t table_ap(void) {
    vnpu_ap_t ap = ap_dense(VNPU_SPACE_DRAM, VNPU_F32, ROWS_AT, TABLE_ROWS, 4, WIDTH / 4);
    ap.dim[0].stride = WIDTH + 2;
    return ap;
}

static void check_pick(dma_run_t *run, const pick_case_t *t, uint64_t seed) {
    static uint8_t sram[BUFFER], want_sram[BUFFER], want_dram[BUFFER];
    vnpu_ap_t table = table_ap(),
              packed = ap_dense(VNPU_SPACE_SRAM, t->packed_type, 64, PICKS, 4, WIDTH / 4);
    vnpu_ap_t index = ap_dense(VNPU_SPACE_SRAM, t->index_type, INDEX_AT, PICKS, 0, 0);
    fill_values(run->dram, VNPU_F32, seed);
    fill_values(sram, (uint8_t)t->packed_type, seed + 1);
    int64_t row[PICKS];
    uint64_t expected[PICKS], count = 0;
    for (uint32_t i = 0; i < PICKS; i++) {
        int64_t value = dev_test_between(&seed, t->low, t->high);
        dev_store_i64(t->index_type, sram + INDEX_AT + i * vnpu_dtype_bytes(t->index_type), value);
        row[i] = chosen_row(t, value);
        if (row[i] >= 0)
            expected[count++] = run->address + ROWS_AT + (uint64_t)row[i] * (WIDTH + 2) * 4;
    }
    memcpy(want_sram, sram, BUFFER);
    memcpy(want_dram, run->dram, BUFFER);
    for (uint32_t i = 0; i < PICKS; i++) {
        for (uint32_t e = 0; e < WIDTH && row[i] >= 0; e++) {
            uint8_t *in_table = want_dram + offset_of(&table, (uint64_t)row[i] * WIDTH + e),
                    *in_packed = want_sram + offset_of(&packed, i * WIDTH + e);
            if (t->is_gather)
                move_element(in_packed, (uint8_t)t->packed_type, in_table, VNPU_F32, t->accumulate);
            else
                move_element(in_table, VNPU_F32, in_packed, (uint8_t)t->packed_type, t->accumulate);
        }
    }
    sim_error_t err = {0};
    sim_status_t status = dma_execute(run, pick_insn(t), t->is_gather ? &packed : &table,
                                      t->is_gather ? &table : &packed, &index, sram, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    cr_assert_eq(memcmp(sram, want_sram, BUFFER), 0);
    cr_assert_eq(memcmp(run->dram, want_dram, BUFFER), 0);
    cr_assert_eq(dev_exec_row_lists(run->env.exec, 0, 0), 1);
    dev_rows_t rows = dev_exec_rows(run->env.exec, 0, 0, 0);
    cr_assert_eq(rows.count, count);
    for (uint64_t i = 0; i < count; i++)
        cr_assert_eq(rows.address[i], expected[i]);
    cr_assert_neq(dev_exec_rows_hash(run->env.exec), 0);
}

Test(exec_dma, gather_and_scatter_policies) {
    for (int mode = DEV_EXEC_VALUES; mode <= DEV_EXEC_CHAOS; mode++) {
        dma_run_t run;
        dma_open(&run, (dev_exec_options_t){.mode = (dev_exec_mode_t)mode});
        for (uint32_t v = 0; v < 64; v++) {
            pick_case_t t = {.is_gather = v & 1u,
                             .accumulate = v & 2u,
                             .wrap = v & 4u,
                             .index_type = v & 8u ? VNPU_I32 : VNPU_I64,
                             .packed_type = v & 16u ? VNPU_F32 : VNPU_BF16,
                             .policy = v & 32u ? VNPU_OOB_CLAMP : VNPU_OOB_SKIP,
                             .low = -60,
                             .high = 70};
            if (t.is_gather) t.accumulate = false;
            check_pick(&run, &t, v);
            t.policy = VNPU_OOB_ERROR;
            t.low = t.wrap ? -TABLE_ROWS : 0;
            t.high = TABLE_ROWS - 1;
            check_pick(&run, &t, v + 100);
        }
        env_close(&run.env);
    }
}

Test(exec_dma, index_out_of_range_is_named) {
    dma_run_t run;
    dma_open(&run, (dev_exec_options_t){0});
    static uint8_t sram[BUFFER];
    static const int64_t bad[] = {TABLE_ROWS, -1, INT64_MAX, INT64_MIN};
    vnpu_ap_t table = table_ap(),
              packed = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 64, PICKS, 4, WIDTH / 4);
    vnpu_ap_t index = ap_dense(VNPU_SPACE_SRAM, VNPU_I64, INDEX_AT, PICKS, 0, 0);
    for (uint32_t b = 0; b < 4; b++) {
        memset(sram, 0, BUFFER);
        dev_store_i64(VNPU_I64, sram + INDEX_AT + 8 * 5, bad[b]);
        pick_case_t t = {.is_gather = true};
        sim_error_t err = {0};
        cr_assert_eq(dma_execute(&run, pick_insn(&t), &packed, &table, &index, sram, &err),
                     SIM_ERROR_INDEX_OUT_OF_RANGE);
        char want[200];
        (void)snprintf(want, sizeof want,
                       "queue dma0 insn 2 (line 33), core 0, instance 0: index %lld at position 5, "
                       "the table has 50 rows",
                       (long long)bad[b]);
        cr_assert_not_null(strstr(err.text, want), "%s", err.text);
    }
    env_close(&run.env);
}

/* The hash sees which rows, not where the table lies. */
Test(exec_dma, rows_hash_is_relative_to_the_table) {
    uint64_t hash[3];
    for (uint32_t i = 0; i < 3; i++) {
        dma_run_t run;
        env_open(&run.env, 1, (dev_exec_options_t){0});
        if (i == 1) (void)env_alloc(&run.env, 12345);
        run.address = env_alloc(&run.env, BUFFER);
        run.dram = env_host(&run.env, run.address, BUFFER);
        pick_case_t t = {.is_gather = true,
                         .index_type = VNPU_I64,
                         .packed_type = VNPU_F32,
                         .high = TABLE_ROWS - 1};
        check_pick(&run, &t, i == 2 ? 6 : 5);
        hash[i] = dev_exec_rows_hash(run.env.exec);
        env_close(&run.env);
    }
    cr_assert_eq(hash[0], hash[1]);
    cr_assert_neq(hash[0], hash[2]);
}

/* ---- timing mode ---- */

Test(exec_dma, timing_mode_moves_integers_and_leaves_floats_unknown) {
    dma_run_t run;
    dma_open(&run, (dev_exec_options_t){.mode = DEV_EXEC_TIMING});
    static uint8_t sram[BUFFER];
    sim_error_t err = {0};
    vnpu_ap_t in_dram = ap_dense(VNPU_SPACE_DRAM, VNPU_I64, 0, 16, 0, 0),
              in_sram = ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, 16, 0, 0);
    for (uint32_t i = 0; i < 16; i++)
        dev_store_i64(VNPU_I64, sram + 8 * i, (int64_t)i + 5);
    memset(run.dram, 0x77, BUFFER);
    /* Integers are stored and known. */
    cr_assert_eq(
        dma_execute(&run, dev_image_insn(VNPU_OP_DMA_COPY), &in_dram, &in_sram, NULL, sram, &err),
        SIM_OK, "%s", err.text);
    cr_assert_eq(((int64_t *)(void *)run.dram)[3], 8);
    cr_assert(dev_memory_is_known(run.env.memory, run.address, 128));
    /* Floats are not stored: the range is unknown, its neighbours stay. */
    vnpu_ap_t f_dram = ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 256, 16, 0, 0),
              f_sram = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, 16, 0, 0);
    cr_assert_eq(
        dma_execute(&run, dev_image_insn(VNPU_OP_DMA_COPY), &f_dram, &f_sram, NULL, sram, &err),
        SIM_OK);
    cr_assert_eq(run.dram[256], 0x77);
    cr_assert_not(dev_memory_is_known(run.env.memory, run.address + 256, 64));
    cr_assert(dev_memory_is_known(run.env.memory, run.address + 320, 64));
    /* Unknown memory read as integers is zero. */
    vnpu_ap_t as_int = ap_dense(VNPU_SPACE_DRAM, VNPU_I32, 256, 16, 0, 0),
              int_sram = ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 512, 16, 0, 0);
    memset(sram + 512, 0x11, 64);
    cr_assert_eq(
        dma_execute(&run, dev_image_insn(VNPU_OP_DMA_COPY), &int_sram, &as_int, NULL, sram, &err),
        SIM_OK);
    for (uint32_t i = 0; i < 64; i++)
        cr_assert_eq(sram[512 + i], 0);
    /* Writing integers makes it known again. */
    vnpu_insn_t fill = dev_image_insn(VNPU_OP_DMA_FILL);
    fill.imm[0] = 9;
    cr_assert_eq(dma_execute(&run, fill, &as_int, NULL, NULL, sram, &err), SIM_OK);
    cr_assert(dev_memory_is_known(run.env.memory, run.address + 256, 64));
    cr_assert_eq(((int32_t *)(void *)(run.dram + 256))[15], 9);
    env_close(&run.env);
}

Test(exec_dma, timing_mode_follows_indices_of_a_float_table) {
    dma_run_t run;
    dma_open(&run, (dev_exec_options_t){.mode = DEV_EXEC_TIMING});
    static uint8_t sram[BUFFER];
    vnpu_ap_t table = table_ap(),
              packed = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 64, PICKS, 4, WIDTH / 4);
    vnpu_ap_t index = ap_dense(VNPU_SPACE_SRAM, VNPU_I64, INDEX_AT, PICKS, 0, 0);
    for (uint32_t i = 0; i < PICKS; i++)
        dev_store_i64(VNPU_I64, sram + INDEX_AT + 8 * i, (int64_t)(i * 7 % TABLE_ROWS));
    pick_case_t t = {.is_gather = true};
    sim_error_t err = {0};
    cr_assert_eq(dma_execute(&run, pick_insn(&t), &packed, &table, &index, sram, &err), SIM_OK,
                 "%s", err.text);
    dev_rows_t rows = dev_exec_rows(run.env.exec, 0, 0, 0);
    cr_assert_eq(rows.count, PICKS);
    for (uint32_t i = 0; i < PICKS; i++) {
        cr_assert_eq(rows.address[i], run.address + ROWS_AT + i * 7 % TABLE_ROWS * (WIDTH + 2) * 4);
    }
    env_close(&run.env);
}

/* ---- out of the accumulator ---- */

/* Values go to the accumulator by the vector unit and from there to DRAM, cast on the way. */
static void check_from_acc(dev_exec_options_t options, vnpu_dtype_t from, vnpu_dtype_t to) {
    enum { ROWS = 9, COLS = 21, PITCH = 40 };
    exec_env_t env;
    env_open(&env, 1, options);
    env.machine.cls[0].dma.accumulator_bytes_per_cycle = 64;
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.sram_bytes = prog.acc_bytes = 4 * ROWS * COLS;
    prog.num_sems = 2;
    uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0),
             vector = prog_queue(&prog, VNPU_QUEUE_VECTOR, 0);
    uint8_t in = prog_arg(&prog, VNPU_ARG_IN), out = prog_arg(&prog, VNPU_ARG_OUT);
    vnpu_ap_t wide = ap_dense(VNPU_SPACE_DRAM, to, 0, ROWS, COLS, 0);
    wide.dim[0].stride = PITCH;
    vnpu_insn_t *load = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    load->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, from, 0, ROWS, COLS, 0));
    load->src[0] = prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, from, 0, ROWS, COLS, 0), in));
    insn_signal(load, 0, 0, 1);
    vnpu_insn_t *move = prog_insn(&prog, vector, VNPU_OP_V_UNARY);
    move->func = VNPU_U_COPY;
    if (from == VNPU_I32) move->flags = VNPU_F_INTEGER;
    move->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_ACC, from, 0, ROWS, COLS, 0));
    move->src[0] = load->dst;
    insn_wait(move, 0, 0, 1);
    insn_signal(move, 0, 1, 1);
    vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    store->dst = prog_ap(&prog, ap_arg(wide, out));
    store->src[0] = move->dst;
    insn_wait(store, 0, 1, 1);
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
    launch.arg[0] = env_alloc(&env, 4 * ROWS * COLS);
    launch.arg[1] = env_alloc(&env, 4 * ROWS * PITCH);
    uint8_t *source = env_host(&env, launch.arg[0], 4 * ROWS * COLS),
            *result = env_host(&env, launch.arg[1], 4 * ROWS * PITCH);
    memset(result, 0x55, 4 * ROWS * PITCH);
    static uint8_t values[BUFFER];
    fill_values(values, (uint8_t)from, 5);
    memcpy(source, values, 4 * ROWS * COLS);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
    uint32_t bytes = vnpu_dtype_bytes(to);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < PITCH; c++) {
            uint8_t want[8];
            memset(want, 0x55, sizeof want);
            if (c < COLS)
                move_element(want, (uint8_t)to, source + 4 * (r * COLS + c), (uint8_t)from, false);
            cr_assert_arr_eq(result + bytes * (r * PITCH + c), want, bytes, "row %u column %u", r,
                             c);
        }
    dev_program_destroy(program);
    env_close(&env);
}

Test(exec_dma, results_leave_the_accumulator_cast) {
    const dev_exec_options_t modes[] = {{.threads = 1},
                                        {.threads = 1, .mode = DEV_EXEC_CHAOS, .seed = 3}};
    for (int i = 0; i < 2; i++) {
        check_from_acc(modes[i], VNPU_I32, VNPU_I8);
        check_from_acc(modes[i], VNPU_I32, VNPU_I32);
        check_from_acc(modes[i], VNPU_F32, VNPU_BF16);
        check_from_acc(modes[i], VNPU_F32, VNPU_F32);
    }
}

/* A bias that is loaded to the accumulator, and a product that adds to it. */
static void check_to_acc(dev_exec_options_t options) {
    enum { M = 5, K = 7, N = 3 };
    exec_env_t env;
    env_open(&env, 1, options);
    env.machine.cls[0].dma.accumulator_bytes_per_cycle = 64;
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.sram_bytes = M * K + K * N + 64;
    prog.acc_bytes = 4 * M * N;
    prog.num_sems = 2;
    uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0),
             matrix = prog_queue(&prog, VNPU_QUEUE_MATRIX, 0);
    uint8_t in = prog_arg(&prog, VNPU_ARG_IN), out = prog_arg(&prog, VNPU_ARG_OUT);
    vnpu_ap_t a = ap_dense(VNPU_SPACE_SRAM, VNPU_I8, 0, M, K, 0),
              b = ap_dense(VNPU_SPACE_SRAM, VNPU_I8, 64, K, N, 0);
    vnpu_ap_t far_a = ap_dense(VNPU_SPACE_DRAM, VNPU_I8, 0, M, K, 0),
              far_b = ap_dense(VNPU_SPACE_DRAM, VNPU_I8, 64, K, N, 0),
              bias = ap_dense(VNPU_SPACE_DRAM, VNPU_I32, 128, M, N, 0);
    bias.dim[0].stride = 0;
    prog.sram_bytes = 64 + K * N;
    uint16_t sums = prog_ap(&prog, ap_dense(VNPU_SPACE_ACC, VNPU_I32, 0, M, N, 0));
    uint16_t to[3] = {prog_ap(&prog, a), prog_ap(&prog, b), sums};
    vnpu_ap_t from[3] = {far_a, far_b, bias};
    for (int i = 0; i < 3; i++) {
        vnpu_insn_t *load = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
        load->dst = to[i];
        load->src[0] = prog_ap(&prog, ap_arg(from[i], in));
        insn_signal(load, 0, 0, 1);
    }
    vnpu_insn_t *mm = prog_insn(&prog, matrix, VNPU_OP_MM);
    mm->flags = VNPU_F_ACCUMULATE;
    mm->dst = sums;
    mm->src[0] = to[0];
    mm->src[1] = to[1];
    insn_wait(mm, 0, 0, 3);
    insn_signal(mm, 0, 1, 1);
    vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    store->dst = prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_I32, 0, M, N, 0), out));
    store->src[0] = sums;
    insn_wait(store, 0, 1, 1);
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
    launch.arg[0] = env_alloc(&env, 256);
    launch.arg[1] = env_alloc(&env, 4 * M * N);
    int8_t *data = env_host(&env, launch.arg[0], 256);
    int32_t *result = env_host(&env, launch.arg[1], 4 * M * N);
    uint64_t seed = 9;
    for (int i = 0; i < 256; i++)
        data[i] = (int8_t)dev_test_random(&seed);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int32_t want;
            memcpy(&want, data + 128 + 4 * j, sizeof want);
            for (int k = 0; k < K; k++)
                want += data[i * K + k] * data[64 + k * N + j];
            cr_assert_eq(result[i * N + j], want, "%d %d", i, j);
        }
    dev_program_destroy(program);
    env_close(&env);
}

Test(exec_dma, products_add_to_what_was_loaded_to_the_accumulator) {
    check_to_acc((dev_exec_options_t){.threads = 1});
    check_to_acc((dev_exec_options_t){.threads = 1, .mode = DEV_EXEC_CHAOS, .seed = 5});
}
