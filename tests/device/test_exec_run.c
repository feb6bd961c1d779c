/* Launches: queues and semaphores, cores and threads, chaos, faults and the deadlock report. */
#include <math.h>

#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"

/* ---- a double-buffered GEMM with bias over the cores ---- */

enum { TM = 32, TN = 48, TK = 16 };
/* Semaphores: tiles loaded, buffers free, product ready, accumulator free, result ready, result
 * buffer free. */
enum { S_LOADED, S_FREE, S_PRODUCT, S_ACC_FREE, S_RESULT, S_OUT_FREE, NUM_SEMS };

typedef struct gemm {
    uint32_t m, n, k;
    bool drops_signal, races; /* leave a semaphore out */
} gemm_t;

static uint32_t tiles(uint32_t extent, uint32_t tile) {
    return (extent + tile - 1) / tile;
}

static vnpu_ap_t clip(vnpu_ap_t ap, uint32_t slot, uint8_t dim, uint32_t extent, uint8_t loop,
                      uint8_t axis_mode) {
    ap.clip[slot] = (vnpu_clip_t){extent, dim, loop, (uint8_t)(VNPU_CLIP_USED | axis_mode), 0};
    return ap;
}

/*
 * C[m][n] = A[m][k] B[k][n] + bias[n]. Grid 0 deals rows of tiles to the instances (cyclic), loop 0
 * walks them, loop 1 the columns, loop 2 k. Buffers rotate with one loop's counter, so loops 1 and
 * 2 must make an even number of trips.
 */
static void build_gemm(prog_t *prog, const gemm_t *g, uint32_t grid) {
    memset(prog, 0, sizeof *prog);
    prog->name = "gemm";
    prog->num_sems = NUM_SEMS;
    uint32_t load = prog_queue(prog, VNPU_QUEUE_DMA, 0),
             matrix = prog_queue(prog, VNPU_QUEUE_MATRIX, 0);
    uint32_t vector = prog_queue(prog, VNPU_QUEUE_VECTOR, 0),
             store = prog_queue(prog, VNPU_QUEUE_DMA, 1);
    uint8_t a = prog_arg(prog, VNPU_ARG_IN), b = prog_arg(prog, VNPU_ARG_IN),
            c = prog_arg(prog, VNPU_ARG_OUT), bias = prog_arg(prog, VNPU_ARG_IN);
    int64_t at_a = 0, at_b = at_a + 2 * TM * TK * 4, at_bias = at_b + 2 * TK * TN * 4,
            at_c = at_bias + 4 * (int64_t)g->n;
    prog->sram_bytes = (uint32_t)(at_c + 2 * TM * TN * 4);
    prog->acc_bytes = TM * TN * 4;
    uint32_t rows = tiles(tiles(g->m, TM), grid), cols = tiles(g->n, TN), depth = tiles(g->k, TK);
    const uint8_t cyclic = VNPU_CLIP_CYCLIC;

    vnpu_ap_t dram_a = ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, TM, TK, 0), a);
    dram_a.dim[0].stride = (int32_t)g->k;
    dram_a.loop_inc[0] = (int32_t)(TM * g->k * grid);
    dram_a.grid_inc[0] = (int32_t)(TM * g->k);
    dram_a.loop_inc[2] = TK;
    dram_a = clip(clip(dram_a, 0, 0, g->m, 0, cyclic), 1, 1, g->k, 2, VNPU_CLIP_LOOP);
    vnpu_ap_t sram_a = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, at_a, TM, TK, 0);
    sram_a.rot_loop = 2;
    sram_a.rot_count = 2;
    sram_a.rot_stride = TM * TK;
    sram_a = clip(clip(sram_a, 0, 0, g->m, 0, cyclic), 1, 1, g->k, 2, VNPU_CLIP_LOOP);
    vnpu_ap_t dram_b = ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, TK, TN, 0), b);
    dram_b.dim[0].stride = (int32_t)g->n;
    dram_b.loop_inc[1] = TN;
    dram_b.loop_inc[2] = (int32_t)(TK * g->n);
    dram_b = clip(clip(dram_b, 0, 0, g->k, 2, VNPU_CLIP_LOOP), 1, 1, g->n, 1, VNPU_CLIP_LOOP);
    vnpu_ap_t sram_b = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, at_b, TK, TN, 0);
    sram_b.rot_loop = 2;
    sram_b.rot_count = 2;
    sram_b.rot_stride = TK * TN;
    sram_b = clip(clip(sram_b, 0, 0, g->k, 2, VNPU_CLIP_LOOP), 1, 1, g->n, 1, VNPU_CLIP_LOOP);
    vnpu_ap_t acc = ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, TM, TN, 0);
    acc = clip(clip(acc, 0, 0, g->m, 0, cyclic), 1, 1, g->n, 1, VNPU_CLIP_LOOP);
    vnpu_ap_t bias_row = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, at_bias, TM, TN, 0);
    bias_row.dim[0].stride = 0;
    bias_row.loop_inc[1] = TN;
    bias_row = clip(clip(bias_row, 0, 0, g->m, 0, cyclic), 1, 1, g->n, 1, VNPU_CLIP_LOOP);
    vnpu_ap_t sram_c = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, at_c, TM, TN, 0);
    sram_c.rot_loop = 1;
    sram_c.rot_count = 2;
    sram_c.rot_stride = TM * TN;
    sram_c = clip(clip(sram_c, 0, 0, g->m, 0, cyclic), 1, 1, g->n, 1, VNPU_CLIP_LOOP);
    vnpu_ap_t dram_c = ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, TM, TN, 0), c);
    dram_c.dim[0].stride = (int32_t)g->n;
    dram_c.loop_inc[0] = (int32_t)(TM * g->n * grid);
    dram_c.grid_inc[0] = (int32_t)(TM * g->n);
    dram_c.loop_inc[1] = TN;
    dram_c = clip(clip(dram_c, 0, 0, g->m, 0, cyclic), 1, 1, g->n, 1, VNPU_CLIP_LOOP);
    uint16_t i_dram_a = prog_ap(prog, dram_a), i_sram_a = prog_ap(prog, sram_a),
             i_dram_b = prog_ap(prog, dram_b), i_sram_b = prog_ap(prog, sram_b),
             i_acc = prog_ap(prog, acc), i_bias = prog_ap(prog, bias_row),
             i_sram_c = prog_ap(prog, sram_c), i_dram_c = prog_ap(prog, dram_c);

    vnpu_insn_t *insn =
        prog_insn(prog, load, VNPU_OP_DMA_COPY); /* the whole bias, before the loops */
    insn->src[0] = prog_ap(prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, g->n, 0, 0), bias));
    insn->dst = prog_ap(prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, at_bias, g->n, 0, 0));
    prog_loop(prog, load, rows);
    prog_loop(prog, load, cols);
    prog_loop(prog, load, depth);
    insn = prog_insn(prog, load, VNPU_OP_DMA_COPY);
    insn->src[0] = i_dram_a;
    insn->dst = i_sram_a;
    if (!g->races) insn_wait(insn, 0, S_FREE, 1);
    insn = prog_insn(prog, load, VNPU_OP_DMA_COPY);
    insn->src[0] = i_dram_b;
    insn->dst = i_sram_b;
    insn_signal(insn, 0, S_LOADED, 1);
    for (uint32_t l = 0; l < 3; l++)
        prog_end(prog, load);

    if (!g->races)
        insn_signal(prog_insn(prog, matrix, VNPU_OP_SYNC), 0, S_FREE, 2); /* two buffers */
    prog_loop(prog, matrix, rows);
    prog_loop(prog, matrix, cols);
    insn_wait(prog_insn(prog, matrix, VNPU_OP_SYNC), 0, S_ACC_FREE, 1);
    prog_loop(prog, matrix, depth);
    insn = prog_insn(prog, matrix, VNPU_OP_MM);
    insn->dst = i_acc;
    insn->src[0] = i_sram_a;
    insn->src[1] = i_sram_b;
    insn->not_first = 1u << 2;
    insn_wait(insn, 0, S_LOADED, 1);
    if (!g->drops_signal && !g->races) insn_signal(insn, 0, S_FREE, 1);
    prog_end(prog, matrix);
    insn_signal(prog_insn(prog, matrix, VNPU_OP_SYNC), 0, S_PRODUCT, 1);
    prog_end(prog, matrix);
    prog_end(prog, matrix);

    insn_signal(prog_insn(prog, vector, VNPU_OP_SYNC), 0, S_ACC_FREE, 1);
    prog_loop(prog, vector, rows);
    prog_loop(prog, vector, cols);
    insn = prog_insn(prog, vector, VNPU_OP_V_BINARY);
    insn->func = VNPU_B_ADD;
    insn->dst = i_sram_c;
    insn->src[0] = i_acc;
    insn->src[1] = i_bias;
    insn_wait(insn, 0, S_PRODUCT, 1);
    insn_wait(insn, 1, S_OUT_FREE, 1);
    insn_signal(insn, 0, S_RESULT, 1);
    insn_signal(insn, 1, S_ACC_FREE, 1);
    prog_end(prog, vector);
    prog_end(prog, vector);

    insn_signal(prog_insn(prog, store, VNPU_OP_SYNC), 0, S_OUT_FREE, 2);
    prog_loop(prog, store, rows);
    prog_loop(prog, store, cols);
    insn = prog_insn(prog, store, VNPU_OP_DMA_COPY);
    insn->src[0] = i_sram_c;
    insn->dst = i_dram_c;
    insn_wait(insn, 0, S_RESULT, 1);
    insn_signal(insn, 0, S_OUT_FREE, 1);
    prog_end(prog, store);
    prog_end(prog, store);
}

typedef struct gemm_data {
    uint64_t address[4];
    float *a, *b, *c, *bias, *want;
    uint32_t c_bytes;
} gemm_data_t;

static void make_data(exec_env_t *env, const gemm_t *g, gemm_data_t *data) {
    uint32_t bytes[4] = {4 * g->m * g->k, 4 * g->k * g->n, 4 * g->m * g->n, 4 * g->n};
    for (uint32_t i = 0; i < 4; i++)
        data->address[i] = env_alloc(env, bytes[i]);
    data->a = env_host(env, data->address[0], bytes[0]);
    data->b = env_host(env, data->address[1], bytes[1]);
    data->c = env_host(env, data->address[2], bytes[2]);
    data->bias = env_host(env, data->address[3], bytes[3]);
    data->c_bytes = bytes[2];
    uint64_t seed = 99;
    for (uint32_t i = 0; i < bytes[0] / 4; i++)
        data->a[i] = (float)dev_test_between(&seed, -99999, 99999) * 0x1p-15f;
    for (uint32_t i = 0; i < bytes[1] / 4; i++)
        data->b[i] = (float)dev_test_between(&seed, -99999, 99999) * 0x1p-15f;
    for (uint32_t i = 0; i < bytes[3] / 4; i++)
        data->bias[i] = (float)dev_test_between(&seed, -99999, 99999) * 0x1p-15f;
    data->want = malloc(bytes[2]);
    for (uint32_t i = 0; i < g->m * g->n; i++) {
        float sum = 0.0f;
        for (uint32_t p = 0; p < g->k; p++)
            sum = fmaf(data->a[i / g->n * g->k + p], data->b[p * g->n + i % g->n], sum);
        data->want[i] = sum + data->bias[i % g->n];
    }
}

static sim_status_t run_gemm(exec_env_t *env, const gemm_t *g, gemm_data_t *data, uint32_t grid,
                             sim_error_t *err) {
    static prog_t prog;
    build_gemm(&prog, g, grid);
    dev_program_t *program = prog_load(&prog, &env->machine);
    dev_launch_t launch = launch_of(program, &env->machine, grid, 1);
    for (uint32_t i = 0; i < 4; i++)
        launch.arg[i] = data->address[i];
    memset(data->c, 0xff, data->c_bytes);
    sim_status_t status = dev_exec_run(env->exec, TEST_OWNER, &launch, err);
    dev_program_destroy(program);
    return status;
}

Test(exec_run, gemm_has_one_result_whatever_the_threads_levels_and_grid) {
    static const gemm_t shapes[] = {{.m = 1, .n = 1, .k = 1},
                                    {.m = 32, .n = 48, .k = 16},
                                    {.m = 33, .n = 49, .k = 17},
                                    {.m = 257, .n = 150, .k = 55}};
    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (int level = 2; level <= (__builtin_cpu_supports("avx512f") ? 5 : 2); level += 3) {
            exec_env_t env;
            env_open(&env, 4, (dev_exec_options_t){.threads = threads, .isa_level = level});
            cr_assert_eq(dev_exec_threads(env.exec), threads);
            cr_assert_str_eq(dev_exec_isa_name(env.exec), level == 2 ? "avx2" : "avx512");
            for (uint32_t s = 0; s < 4; s++) {
                gemm_data_t data;
                make_data(&env, &shapes[s], &data);
                for (uint32_t grid = 1; grid <= 7; grid += 2) {
                    sim_error_t err = {0};
                    cr_assert_eq(run_gemm(&env, &shapes[s], &data, grid, &err), SIM_OK, "%s",
                                 err.text);
                    cr_assert_eq(memcmp(data.c, data.want, data.c_bytes), 0,
                                 "shape %u grid %u threads %u", s, grid, threads);
                }
                free(data.want);
            }
            env_close(&env);
        }
    }
}

Test(exec_run, chaos_gives_the_same_bits_on_a_sound_program) {
    const gemm_t g = {.m = 100, .n = 90, .k = 60};
    for (uint64_t seed = 0; seed < 20; seed++) {
        exec_env_t env;
        env_open(&env, 2, (dev_exec_options_t){.threads = 1, .mode = DEV_EXEC_CHAOS, .seed = seed});
        gemm_data_t data;
        make_data(&env, &g, &data);
        for (uint32_t run = 0; run < 3; run++) {
            sim_error_t err = {0};
            cr_assert_eq(run_gemm(&env, &g, &data, 2, &err), SIM_OK, "%s", err.text);
            cr_assert_eq(memcmp(data.c, data.want, data.c_bytes), 0, "seed %d run %u", (int)seed,
                         run);
        }
        free(data.want);
        env_close(&env);
    }
}

Test(exec_run, chaos_finds_a_missing_semaphore) {
    const gemm_t g = {.m = 100, .n = 90, .k = 60, .races = true};
    uint32_t wrong = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        exec_env_t env;
        env_open(&env, 1, (dev_exec_options_t){.mode = DEV_EXEC_CHAOS, .seed = seed});
        gemm_data_t data;
        make_data(&env, &g, &data);
        sim_error_t err = {0};
        cr_assert_eq(run_gemm(&env, &g, &data, 1, &err), SIM_OK, "%s", err.text);
        wrong += memcmp(data.c, data.want, data.c_bytes) != 0;
        free(data.want);
        env_close(&env);
    }
    cr_assert_geq(wrong, 8, "only %u of 10 seeds saw the race", wrong);
}

/* A load that reads what the same queue has just stored, with no fence between: right only with a
 * fence. */
static uint32_t run_store_then_load(dev_exec_mode_t mode, bool has_fence) {
    uint32_t wrong = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        exec_env_t env;
        env_open(&env, 1, (dev_exec_options_t){.mode = mode, .seed = seed});
        static prog_t prog;
        memset(&prog, 0, sizeof prog);
        prog.sram_bytes = 128;
        uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0);
        uint8_t in = prog_arg(&prog, VNPU_ARG_IN), scratch = prog_arg(&prog, VNPU_ARG_INOUT),
                out = prog_arg(&prog, VNPU_ARG_OUT);
        uint16_t first = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, 16, 0, 0));
        uint16_t second = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 64, 16, 0, 0));
        uint8_t args[4] = {in, scratch, scratch, out};
        uint16_t sram[4] = {first, first, second, second};
        for (uint32_t i = 0; i < 4; i++) {
            if (has_fence && i > 0) prog_insn(&prog, dma, VNPU_OP_FENCE);
            vnpu_insn_t *insn = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
            uint16_t dram =
                prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_I32, 0, 16, 0, 0), args[i]));
            insn->src[0] = i % 2 ? sram[i] : dram;
            insn->dst = i % 2 ? dram : sram[i];
        }
        dev_program_t *program = prog_load(&prog, &env.machine);
        dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
        for (uint32_t a = 0; a < 3; a++)
            launch.arg[a] = env_alloc(&env, 64);
        memset(env_host(&env, launch.arg[0], 64), 0x5a, 64);
        sim_error_t err = {0};
        cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
        wrong +=
            memcmp(env_host(&env, launch.arg[2], 64), env_host(&env, launch.arg[0], 64), 64) != 0;
        dev_program_destroy(program);
        env_close(&env);
    }
    return wrong;
}

Test(exec_run, chaos_holds_writes_back_until_a_fence) {
    cr_assert_eq(run_store_then_load(DEV_EXEC_VALUES, false), 0);
    cr_assert_eq(run_store_then_load(DEV_EXEC_CHAOS, true), 0);
    cr_assert_gt(run_store_then_load(DEV_EXEC_CHAOS, false), 0);
}

Test(exec_run, deadlock_report_names_waiter_semaphore_and_signaller) {
    for (int mode = DEV_EXEC_VALUES; mode <= DEV_EXEC_CHAOS; mode++) {
        exec_env_t env;
        env_open(&env, 1, (dev_exec_options_t){.mode = (dev_exec_mode_t)mode});
        const gemm_t g = {.m = 64, .n = 48, .k = 64, .drops_signal = true};
        gemm_data_t data;
        make_data(&env, &g, &data);
        sim_error_t err = {0};
        cr_assert_eq(run_gemm(&env, &g, &data, 1, &err), SIM_ERROR_DEADLOCK);
        static const char *const parts[] = {
            "deadlock: program gemm, core 0, instance 0",
            "dma0 insn 4 (line 5) in loop 0/2, 0/1, 2/4",
            "waits for semaphore 1 >= 1, it is 0; signalled by matrix0 (blocked, past its last "
            "signal)",
            "matrix0 insn 5 (line 106) in loop 0/2, 0/1, 2/4 waits for semaphore 0 >= 1, it is 0; "
            "signalled by dma0 (blocked before its signal)",
            "vector0 insn 3",
            "waits for semaphore 2 >= 1, it is 0",
            "dma1 insn 3",
            "waits for semaphore 4 >= 1"};
        for (uint32_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            cr_assert_not_null(strstr(err.text, parts[p]), "\"%s\" is not in\n%s", parts[p],
                               err.text);
        }
        free(data.want);
        env_close(&env);
    }
}

Test(exec_run, deadlock_without_any_signal) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.num_sems = 1;
    uint32_t ctrl = prog_queue(&prog, VNPU_QUEUE_VECTOR, 0);
    insn_wait(prog_insn(&prog, ctrl, VNPU_OP_SYNC), 0, 0, 3);
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_ERROR_DEADLOCK);
    cr_assert_not_null(strstr(err.text, "semaphore 0 >= 3, it is 0; no instruction signals it"),
                       "%s", err.text);
    dev_program_destroy(program);
    env_close(&env);
}

/* NO_CONSUME leaves the semaphore, two waits are taken together, negative deltas count down. */
Test(exec_run, semaphore_arithmetic) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.num_sems = 2;
    uint32_t from = prog_queue(&prog, VNPU_QUEUE_DMA, 0),
             to = prog_queue(&prog, VNPU_QUEUE_VECTOR, 0);
    vnpu_insn_t *insn = prog_insn(&prog, from, VNPU_OP_SYNC);
    insn_signal(insn, 0, 0, 5);
    insn_signal(insn, 1, 1, 1);
    insn_signal(prog_insn(&prog, from, VNPU_OP_SYNC), 0, 0, -2); /* 3 left */
    insn = prog_insn(&prog, to, VNPU_OP_SYNC);
    insn_wait(insn, 0, 0, 3);
    insn_wait(insn, 1, 1, 1);
    insn->flags = VNPU_F_NO_CONSUME;
    insn = prog_insn(&prog, to, VNPU_OP_SYNC);
    insn_wait(insn, 0, 0, 3);
    insn_wait(insn, 1, 1, 1);
    insn_wait(prog_insn(&prog, to, VNPU_OP_SYNC), 0, 0, 1); /* nothing is left */
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_ERROR_DEADLOCK);
    cr_assert_not_null(strstr(err.text, "vector0 insn 2"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "semaphore 0 >= 1, it is 0; signalled by dma0 (ended)"),
                       "%s", err.text);
    dev_program_destroy(program);
    env_close(&env);
}

/* ---- faults ---- */

Test(exec_run, trap_ends_the_launch) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.name = "trapper";
    prog_insn(&prog, prog_queue(&prog, VNPU_QUEUE_VECTOR, 0), VNPU_OP_TRAP)->imm[0] = 42;
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 3, 1);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_ERROR_TRAP);
    cr_assert_str_eq(err.text,
                     "program trapper: queue vector0 insn 0 (line 1), core 0, instance 0: trap 42");
    dev_program_destroy(program);
    env_close(&env);
}

/* Each instance copies 64 bytes, grid_inc apart: instances 3.. leave the allocation of 200 bytes.
 */
static dev_program_t *build_walker(exec_env_t *env, bool writes) {
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.name = "walker";
    prog.sram_bytes = 64;
    uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0);
    uint8_t arg = prog_arg(&prog, VNPU_ARG_INOUT);
    vnpu_ap_t dram = ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, 16, 0, 0), arg);
    dram.grid_inc[0] = 16;
    vnpu_insn_t *insn = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    uint16_t in_dram = prog_ap(&prog, dram),
             in_sram = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, 16, 0, 0));
    insn->src[0] = writes ? in_sram : in_dram;
    insn->dst = writes ? in_dram : in_sram;
    return prog_load(&prog, &env->machine);
}

Test(exec_run, address_faults_name_everything) {
    for (uint32_t threads = 1; threads <= 2; threads++) {
        exec_env_t env;
        env_open(&env, 4, (dev_exec_options_t){.threads = threads});
        uint64_t address = env_alloc(&env, 200);
        for (uint32_t writes = 0; writes < 2; writes++) {
            dev_program_t *program = build_walker(&env, writes);
            dev_launch_t launch = launch_of(program, &env.machine, 40, 1);
            launch.arg[0] = address;
            sim_error_t err = {0};
            cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err),
                         SIM_ERROR_ILLEGAL_ADDRESS);
            char want[300];
            (void)snprintf(
                want, sizeof want,
                "program walker: queue dma0 insn 0 (line 1), core 3, instance 3: %s of [0x%llx, "
                "+64 bytes): past the "
                "end of the allocation; nearest allocation [0x%llx, 0x%llx) of 200 bytes",
                writes ? "dst: write" : "src0: read", (unsigned long long)address + 192,
                (unsigned long long)address, (unsigned long long)address + 200);
            cr_assert_str_eq(err.text, want);
            launch.arg[0] = 0x7f0012345678; /* a host pointer */
            memset(&err, 0, sizeof err);
            cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err),
                         SIM_ERROR_ILLEGAL_ADDRESS);
            cr_assert_not_null(strstr(err.text, "not a device address (host pointer?)"), "%s",
                               err.text);
            launch.arg[0] = address; /* another client's memory */
            memset(&err, 0, sizeof err);
            cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER + 1, &launch, &err),
                         SIM_ERROR_ILLEGAL_ADDRESS);
            cr_assert_not_null(strstr(err.text, "another client's allocation"), "%s", err.text);
            launch.grid[0] = 3;
            memset(&err, 0, sizeof err);
            cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
            dev_program_destroy(program);
        }
        env_close(&env);
    }
}

/* Instances go to the cores of the mask in turn; each knows its grid position. */
Test(exec_run, instances_and_core_mask) {
    exec_env_t env;
    env_open(&env, 4, (dev_exec_options_t){.threads = 2});
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.sram_bytes = 64;
    prog.num_sems = 1;
    uint32_t vector = prog_queue(&prog, VNPU_QUEUE_VECTOR, 0),
             dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0);
    uint8_t out = prog_arg(&prog, VNPU_ARG_OUT);
    vnpu_ap_t iota = ap_dense(VNPU_SPACE_IOTA, VNPU_I64, 0, 1, 0, 0);
    iota.grid_inc[0] = 1;
    iota.grid_inc[1] = 1000;
    vnpu_insn_t *insn = prog_insn(&prog, vector, VNPU_OP_V_UNARY);
    insn->flags = VNPU_F_INTEGER;
    insn->src[0] = prog_ap(&prog, iota);
    insn->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, 1, 0, 0));
    insn_signal(insn, 0, 0, 1);
    vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    vnpu_ap_t dram = ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_I64, 0, 1, 0, 0), out);
    dram.grid_inc[0] = 1;
    dram.grid_inc[1] = 7;
    store->src[0] = insn->dst;
    store->dst = prog_ap(&prog, dram);
    insn_wait(store, 0, 0, 1);
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 7, 3);
    launch.core_mask[0] = 0xa;
    launch.arg[0] = env_alloc(&env, 8 * 21);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
    const int64_t *got = env_host(&env, launch.arg[0], 8 * 21);
    for (uint32_t i = 0; i < 21; i++)
        cr_assert_eq(got[i], i % 7 + 1000 * (i / 7));
    launch.core_mask[0] = 1ull << 60; /* a core that this chip lacks */
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_ERROR_INVALID_VALUE);
    dev_program_destroy(program);
    env_close(&env);
}

/* Launches that write much bypass the caches: rows at odd addresses, two threads. */
Test(exec_run, large_outputs_are_streamed) {
    enum { ROWS = 4096, COLS = 1283, TILE = 32 };
    for (uint32_t threads = 1; threads <= 2; threads++) {
        exec_env_t env;
        env_open(&env, 2, (dev_exec_options_t){.threads = threads});
        static prog_t prog;
        memset(&prog, 0, sizeof prog);
        prog.sram_bytes = TILE * COLS * 4;
        uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0);
        uint8_t in = prog_arg(&prog, VNPU_ARG_IN), out = prog_arg(&prog, VNPU_ARG_OUT);
        vnpu_ap_t from = ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, TILE, COLS, 0), in);
        from.grid_inc[0] = TILE * COLS;
        vnpu_ap_t to = ap_arg(from, out);
        to.dim[0].stride = COLS + 2; /* rows do not fill lines */
        to.grid_inc[0] = TILE * (COLS + 2);
        uint16_t tile = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, TILE, COLS, 0));
        vnpu_insn_t *load = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
        load->src[0] = prog_ap(&prog, from);
        load->dst = tile;
        vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
        store->src[0] = tile;
        store->dst = prog_ap(&prog, to);
        dev_program_t *program = prog_load(&prog, &env.machine);
        dev_launch_t launch = launch_of(program, &env.machine, ROWS / TILE, 1);
        uint64_t in_bytes = 4ull * ROWS * COLS, out_bytes = 4ull * ROWS * (COLS + 2);
        launch.arg[0] = env_alloc(&env, in_bytes);
        launch.arg[1] = env_alloc(&env, out_bytes);
        uint32_t *a = env_host(&env, launch.arg[0], in_bytes),
                 *b = env_host(&env, launch.arg[1], out_bytes);
        for (uint32_t i = 0; i < ROWS * COLS; i++)
            a[i] = i * 2654435761u;
        sim_error_t err = {0};
        cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
        for (uint32_t r = 0; r < ROWS; r++) {
            cr_assert_eq(memcmp(b + r * (COLS + 2), a + r * COLS, 4 * COLS), 0, "row %u", r);
            cr_assert_eq(b[r * (COLS + 2) + COLS], 0);
        }
        dev_program_destroy(program);
        env_close(&env);
    }
}

Test(exec_run, levels_that_the_host_lacks_are_refused) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    dev_exec_options_t options = {.isa_level = 3};
    sim_error_t err = {0};
    dev_exec_t *exec;
    cr_assert_eq(dev_exec_create(&env.machine, env.memory, &options, &exec, &err),
                 SIM_ERROR_UNSUPPORTED);
    cr_assert_null(exec);
    env_close(&env);
}
