/*
 * Loads that are not copied at once must look like copies. Random programs of loads, stores, fills,
 * vector and matrix instructions over overlapping scratchpad and DRAM ranges, every step after the
 * one before: the executor's normal mode (which aliases) against chaos mode (which copies).
 */
#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"

enum { DRAM_FLOATS = 24 * 1024, SRAM_FLOATS = 20 * 1024, STEPS = 14, SEM_PRODUCT = STEPS + 1 };

/* A pattern of rows x cols in a memory of `room` floats, rows `pitch` apart, at a coarse random
 * place, so that ranges meet. */
static vnpu_ap_t random_tile(vnpu_space_t space, uint32_t room, uint32_t rows, uint32_t cols,
                             bool is_dense, uint64_t *seed) {
    vnpu_ap_t ap = ap_dense(space, VNPU_F32, 0, rows, cols, 0);
    uint32_t pitch = is_dense ? cols : cols + 64u * (uint32_t)dev_test_between(seed, 0, 1);
    ap.dim[0].stride = (int32_t)pitch;
    uint32_t span = pitch * rows;
    uint32_t places = (room - span) / 512 + 1;
    ap.base = 4 * 512 * dev_test_between(seed, 0, places - 1);
    return ap;
}

/* One step: waits for the step before, signals the next. */
static void add_step(prog_t *prog, const uint32_t queue[3], uint32_t step, uint64_t *seed) {
    static const uint32_t shapes[][2] = {{64, 64}, {32, 128}, {16, 256}, {1, 4096}, {40, 64}};
    uint32_t kind = (uint32_t)dev_test_between(seed, 0, 9),
             shape = (uint32_t)dev_test_between(seed, 0, 4);
    uint32_t rows = shapes[shape][0], cols = shapes[shape][1];
    uint32_t q = kind < 6 ? 0 : kind < 9 ? 1 : 2;
    vnpu_insn_t *insn;
    vnpu_ap_t sram = random_tile(VNPU_SPACE_SRAM, SRAM_FLOATS, rows, cols,
                                 dev_test_between(seed, 0, 3) > 0, seed);
    vnpu_ap_t dram = ap_arg(random_tile(VNPU_SPACE_DRAM, DRAM_FLOATS, rows, cols, false, seed), 0);
    if (kind < 3) { /* load */
        insn = prog_insn(prog, queue[q], VNPU_OP_DMA_COPY);
        insn->dst = prog_ap(prog, sram);
        insn->src[0] = prog_ap(prog, dram);
        if (dev_test_between(seed, 0, 9) == 0) insn->flags = VNPU_F_ACCUMULATE;
    } else if (kind < 5) { /* store */
        insn = prog_insn(prog, queue[q], VNPU_OP_DMA_COPY);
        insn->dst = prog_ap(prog, dram);
        insn->src[0] = prog_ap(prog, sram);
    } else if (kind == 5) {
        insn = prog_insn(prog, queue[q], VNPU_OP_DMA_FILL);
        insn->dst = prog_ap(prog, dev_test_between(seed, 0, 1) ? sram : dram);
        insn->imm[0] = dev_f32_bits((float)step);
    } else if (kind < 8) { /* halves of sums: values stay small */
        insn = prog_insn(prog, queue[q], VNPU_OP_V_BINARY);
        insn->func = VNPU_B_SUB;
        vnpu_ap_t other = random_tile(VNPU_SPACE_SRAM, SRAM_FLOATS, rows, cols, true, seed);
        if (dev_test_between(seed, 0, 3) == 0) other.dim[0].stride = 0;
        insn->src[0] = prog_ap(prog, other);
        insn->src[1] =
            prog_ap(prog, random_tile(VNPU_SPACE_SRAM, SRAM_FLOATS, rows, cols, true, seed));
        /* The destination is apart from the sources, or one of them. */
        vnpu_ap_t apart = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 4 * SRAM_FLOATS, rows, cols, 0);
        insn->dst = dev_test_between(seed, 0, 1) ? prog_ap(prog, apart) : insn->src[1];
        if (other.dim[0].stride == 0 || insn->dst == insn->src[1]) insn->src[0] = insn->src[1];
    } else if (kind == 8) {
        insn = prog_insn(prog, queue[q], VNPU_OP_V_REDUCE);
        insn->func = VNPU_R_ADD;
        insn->src[0] = prog_ap(prog, sram);
        insn->dst = prog_ap(prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 4 * SRAM_FLOATS, rows, 0, 0));
    } else {
        insn = prog_insn(prog, queue[q], VNPU_OP_MM);
        uint32_t k = cols < 128 ? cols : 128;
        vnpu_ap_t left = sram;
        left.dim[1].size = k;
        insn->src[0] = prog_ap(prog, left);
        insn->src[1] = prog_ap(prog, random_tile(VNPU_SPACE_SRAM, SRAM_FLOATS, k, 32, true, seed));
        insn->dst = prog_ap(prog, ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, rows, 32, 0));
    }
    insn_wait(insn, 0, (uint16_t)(step - 1), 1);
    if (q < 2) {
        insn_signal(insn, 0, (uint16_t)step, 1);
        return;
    }
    insn_signal(insn, 0, SEM_PRODUCT,
                1); /* the product goes back into the scratchpad before the next step */
    vnpu_insn_t *move = prog_insn(prog, queue[1], VNPU_OP_V_UNARY);
    move->func = VNPU_U_COPY;
    move->src[0] = insn->dst;
    move->dst = prog_ap(prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 4 * SRAM_FLOATS, rows, 32, 0));
    insn_wait(move, 0, SEM_PRODUCT, 1);
    insn_signal(move, 0, (uint16_t)step, 1);
}

static void run_steps(uint64_t seed, dev_exec_mode_t mode, float *out) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.mode = mode, .seed = seed});
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.sram_bytes = 4 * (SRAM_FLOATS + 4096);
    prog.acc_bytes = 64 * 32 * 4;
    prog.num_sems = STEPS + 2;
    prog_arg(&prog, VNPU_ARG_INOUT);
    uint32_t queue[3] = {prog_queue(&prog, VNPU_QUEUE_DMA, 0),
                         prog_queue(&prog, VNPU_QUEUE_VECTOR, 0),
                         prog_queue(&prog, VNPU_QUEUE_MATRIX, 0)};
    /* The scratchpad starts with known values. */
    vnpu_insn_t *first = prog_insn(&prog, queue[0], VNPU_OP_DMA_FILL);
    first->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, SRAM_FLOATS + 4096, 0, 0));
    first->imm[0] = dev_f32_bits(0.5f);
    insn_signal(first, 0, 0, 1);
    for (uint32_t step = 1; step <= STEPS; step++)
        add_step(&prog, queue, step, &seed);
    vnpu_insn_t *end = prog_insn(&prog, queue[0], VNPU_OP_DMA_COPY); /* everything is looked at */
    end->src[0] = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, SRAM_FLOATS + 4096, 0, 0));
    end->dst = prog_ap(
        &prog,
        ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 4 * DRAM_FLOATS, SRAM_FLOATS + 4096, 0, 0), 0));
    insn_wait(end, 0, STEPS, 1);
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
    uint32_t bytes = 4 * (DRAM_FLOATS + SRAM_FLOATS + 4096);
    launch.arg[0] = env_alloc(&env, bytes);
    float *dram = env_host(&env, launch.arg[0], bytes);
    for (uint32_t i = 0; i < bytes / 4; i++)
        dram[i] = (float)(i % 1021) * 0.001f;
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
    memcpy(out, dram, bytes);
    dev_program_destroy(program);
    env_close(&env);
}

Test(exec_alias, loads_look_like_copies) {
    static float copied[DRAM_FLOATS + SRAM_FLOATS + 4096],
        aliased[DRAM_FLOATS + SRAM_FLOATS + 4096];
    for (uint64_t seed = 0; seed < 500; seed++) {
        run_steps(seed, DEV_EXEC_CHAOS, copied);
        run_steps(seed, DEV_EXEC_VALUES, aliased);
        cr_assert_eq(memcmp(copied, aliased, sizeof copied), 0, "seed %d", (int)seed);
    }
}
