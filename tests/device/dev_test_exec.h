/* What the executor's tests share: a small machine, programs from tables, and one instruction run
 * on given bytes. */
#ifndef DEV_TEST_EXEC_H
#define DEV_TEST_EXEC_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_dtype.h"
#include "device/dev_exec.h"
#include "device/dev_image.h"

#define TEST_OWNER 7u

typedef struct exec_env {
    dev_machine_t machine;
    dev_memory_t *memory;
    dev_exec_t *exec;
} exec_env_t;

static inline dev_machine_t test_machine(uint32_t cores) {
    dev_machine_t machine = {.cores = cores,
                             .num_classes = 1,
                             .cls = {{.cores = cores,
                                      .workers = cores,
                                      .dma_queues = 2,
                                      .sram_bytes = 4u << 20,
                                      .acc_bytes = 1u << 20,
                                      .has_matrix = true}},
                             .dram_bytes = 256u << 20};
    for (uint32_t d = 1; d < VNPU_DTYPE_COUNT; d++)
        machine.cls[0].matrix_rate[d] = (sim_ratio_t){1, 1};
    return machine;
}

static inline void env_open(exec_env_t *env, uint32_t cores, dev_exec_options_t options) {
    sim_error_t err = {0};
    env->machine = test_machine(cores);
    dev_backing_t backing = options.mode == DEV_EXEC_TIMING ? DEV_BACKING_TIMING : DEV_BACKING_FULL;
    sim_status_t status =
        dev_memory_create(env->machine.dram_bytes, backing, 0, &env->memory, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    status = dev_exec_create(&env->machine, env->memory, &options, &env->exec, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
}

static inline void env_close(exec_env_t *env) {
    dev_exec_destroy(env->exec);
    dev_memory_destroy(env->memory);
}

static inline uint64_t env_alloc(exec_env_t *env, uint64_t bytes) {
    sim_error_t err = {0};
    uint64_t address;
    sim_status_t status = dev_memory_alloc(env->memory, TEST_OWNER, bytes, &address, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    return address;
}

static inline void *env_host(exec_env_t *env, uint64_t address, uint64_t bytes) {
    sim_error_t err = {0};
    void *host = dev_memory_translate(env->memory, TEST_OWNER, address, bytes, &err);
    cr_assert_not_null(host, "%s", err.text);
    return host;
}

/* ---- programs ---- */

enum { PROG_INSNS = 64, PROG_APS = 64 };

typedef struct prog {
    const char *name;
    vnpu_queue_section_t queue[VNPU_MAX_QUEUES];
    vnpu_insn_t insn[VNPU_MAX_QUEUES][PROG_INSNS];
    vnpu_ap_t ap[PROG_APS];
    uint8_t arg_kind[VNPU_MAX_ARGS];
    uint32_t num_queues, num_aps, num_args, num_sems, sram_bytes, acc_bytes;
} prog_t;

static inline uint32_t prog_queue(prog_t *prog, vnpu_queue_kind_t kind, uint8_t index) {
    prog->queue[prog->num_queues] = (vnpu_queue_section_t){.kind = (uint8_t)kind, .index = index};
    return prog->num_queues++;
}

static inline vnpu_insn_t *prog_insn(prog_t *prog, uint32_t queue, vnpu_op_t op) {
    cr_assert_lt(prog->queue[queue].count, PROG_INSNS);
    vnpu_insn_t *insn = &prog->insn[queue][prog->queue[queue].count++];
    *insn = dev_image_insn(op);
    insn->line = 100 * queue + prog->queue[queue].count;
    return insn;
}

static inline void prog_loop(prog_t *prog, uint32_t queue, uint32_t trips) {
    prog_insn(prog, queue, VNPU_OP_LOOP)->imm[0] = trips;
}

static inline void prog_end(prog_t *prog, uint32_t queue) {
    prog_insn(prog, queue, VNPU_OP_ENDLOOP);
}

static inline void insn_wait(vnpu_insn_t *insn, uint32_t slot, uint16_t sem, uint16_t value) {
    insn->wait[slot] = (vnpu_sem_wait_t){sem, value};
}

static inline void insn_signal(vnpu_insn_t *insn, uint32_t slot, uint16_t sem, int16_t delta) {
    insn->signal[slot] = (vnpu_sem_signal_t){sem, delta};
}

static inline uint16_t prog_ap(prog_t *prog, vnpu_ap_t ap) {
    cr_assert_lt(prog->num_aps, PROG_APS);
    prog->ap[prog->num_aps] = ap;
    return (uint16_t)prog->num_aps++;
}

static inline uint8_t prog_arg(prog_t *prog, vnpu_arg_kind_t kind) {
    prog->arg_kind[prog->num_args] = (uint8_t)kind;
    return (uint8_t)prog->num_args++;
}

/* A dense row-major pattern; sizes of 0 end the list. */
static inline vnpu_ap_t ap_dense(vnpu_space_t space, vnpu_dtype_t dtype, int64_t base, uint32_t n0,
                                 uint32_t n1, uint32_t n2) {
    vnpu_ap_t ap = dev_image_ap(space, dtype);
    uint32_t size[3] = {n0, n1, n2};
    ap.ndims = (uint8_t)(n2 ? 3 : n1 ? 2 : 1);
    ap.base = base;
    int32_t stride = 1;
    for (uint32_t d = ap.ndims; d-- > 0;) {
        ap.dim[d] = (vnpu_dim_t){size[d], stride};
        stride *= (int32_t)size[d];
    }
    return ap;
}

static inline vnpu_ap_t ap_arg(vnpu_ap_t ap, uint8_t arg) {
    ap.arg = arg;
    return ap;
}

static inline dev_program_t *prog_load(const prog_t *prog, const dev_machine_t *machine) {
    static vnpu_insn_t flat[VNPU_MAX_QUEUES * PROG_INSNS];
    uint32_t count = 0;
    for (uint32_t q = 0; q < prog->num_queues; q++) {
        memcpy(flat + count, prog->insn[q], prog->queue[q].count * sizeof *flat);
        count += prog->queue[q].count;
    }
    dev_image_tables_t tables = {.name = prog->name ? prog->name : "test",
                                 .queue = prog->queue,
                                 .insn = flat,
                                 .ap = prog->ap,
                                 .arg_kind = prog->arg_kind,
                                 .num_queues = prog->num_queues,
                                 .num_insns = count,
                                 .num_aps = prog->num_aps,
                                 .num_args = prog->num_args,
                                 .num_sems = prog->num_sems,
                                 .sram_bytes = prog->sram_bytes,
                                 .acc_bytes = prog->acc_bytes};
    void *image;
    size_t bytes;
    sim_error_t err = {0};
    sim_status_t status = dev_image_write(&tables, &image, &bytes, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    dev_program_t *program;
    status = dev_program_load(image, bytes, machine, &program, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    free(image);
    return program;
}

static inline dev_launch_t launch_of(const dev_program_t *program, const dev_machine_t *machine,
                                     uint32_t grid0, uint32_t grid1) {
    dev_launch_t launch = {.program = program, .grid = {grid0, grid1}};
    for (uint32_t c = 0; c < machine->cls[0].workers; c++)
        launch.core_mask[c / 64] |= 1ull << (c % 64);
    return launch;
}

/* ---- one instruction on given bytes ---- */

/* An operand: a pattern whose base counts from the start of `data`. data is read before and written
 * back after. */
typedef struct test_operand {
    vnpu_ap_t ap;
    void *data;
    uint32_t bytes;
} test_operand_t;

/* Where the operands of one instruction lie. */
typedef struct one_insn {
    prog_t prog;
    uint32_t dma, vector, matrix; /* queues */
    test_operand_t **ops;         /* dst, src0..src3 */
    uint64_t address[5];          /* 0: not in memory */
    int64_t sram[5], acc[5];
    uint16_t index[5];
} one_insn_t;

/* The operand's bytes into the scratchpad. */
static inline void one_load(exec_env_t *env, one_insn_t *one, uint32_t i) {
    prog_t *prog = &one->prog;
    const test_operand_t *op = one->ops[i];
    vnpu_ap_t ap = op->ap;
    bool in_acc = ap.space == VNPU_SPACE_ACC;
    if (ap.space == VNPU_SPACE_SRAM || in_acc) {
        uint32_t bytes = op->bytes, room = (bytes + 127) / 64 * 64;
        one->address[i] = env_alloc(env, bytes);
        memcpy(env_host(env, one->address[i], bytes), op->data, bytes);
        one->sram[i] = prog->sram_bytes;
        prog->sram_bytes += room;
        one->acc[i] = prog->acc_bytes;
        if (in_acc) prog->acc_bytes += room;
        vnpu_ap_t dram = ap_dense(VNPU_SPACE_DRAM, VNPU_U8, 0, bytes, 0, 0);
        vnpu_insn_t *load = prog_insn(prog, one->dma, VNPU_OP_DMA_COPY);
        load->src[0] = prog_ap(prog, ap_arg(dram, prog_arg(prog, VNPU_ARG_INOUT)));
        load->dst = prog_ap(prog, ap_dense(VNPU_SPACE_SRAM, VNPU_U8, one->sram[i], bytes, 0, 0));
        ap.base += in_acc ? one->acc[i] : one->sram[i];
    }
    one->index[i] = prog_ap(prog, ap);
}

/* Accumulator operands: from the scratchpad before the instruction, back after it. */
static inline void one_move(one_insn_t *one, bool is_back) {
    prog_t *prog = &one->prog;
    for (uint32_t i = 0; i < 5; i++) {
        if (!one->ops[i] || one->ops[i]->ap.space != VNPU_SPACE_ACC) continue;
        uint32_t words = one->ops[i]->bytes / 4;
        vnpu_ap_t sram = ap_dense(VNPU_SPACE_SRAM, VNPU_I32, one->sram[i], words, 0, 0);
        vnpu_ap_t acc = ap_dense(VNPU_SPACE_ACC, VNPU_I32, one->acc[i], words, 0, 0);
        vnpu_insn_t *move = prog_insn(prog, one->vector, VNPU_OP_V_UNARY);
        move->flags = VNPU_F_INTEGER;
        move->dst = prog_ap(prog, is_back ? sram : acc);
        move->src[0] = prog_ap(prog, is_back ? acc : sram);
    }
}

static inline vnpu_insn_t *one_place(one_insn_t *one, uint32_t queue, const vnpu_insn_t *insn) {
    vnpu_insn_t *it = prog_insn(&one->prog, queue, insn->op);
    uint32_t line = it->line;
    *it = *insn;
    it->line = line;
    it->dst = one->index[0];
    for (uint32_t s = 0; s < 4; s++)
        it->src[s] = one->index[1 + s];
    return it;
}

/* A product that accumulates is the second trip of a loop: only that one runs. */
static inline void one_product(one_insn_t *one, const vnpu_insn_t *insn) {
    prog_t *prog = &one->prog;
    insn_signal(prog_insn(prog, one->vector, VNPU_OP_SYNC), 0, 1, 1);
    if (insn->not_first) prog_loop(prog, one->matrix, 2);
    vnpu_insn_t *it = one_place(one, one->matrix, insn);
    if (insn->not_first) it->last_only = 1;
    insn_wait(it, 0, 1, 1);
    insn_signal(it, 0, 2, 1);
    if (insn->not_first) prog_end(prog, one->matrix);
    insn_wait(prog_insn(prog, one->vector, VNPU_OP_SYNC), 0, 2, 1);
}

static inline void one_store(one_insn_t *one, uint32_t first_arg) {
    prog_t *prog = &one->prog;
    for (uint32_t i = 0; i < 5; i++) {
        if (!one->address[i]) continue;
        uint32_t bytes = one->ops[i]->bytes;
        vnpu_ap_t dram = ap_dense(VNPU_SPACE_DRAM, VNPU_U8, 0, bytes, 0, 0);
        vnpu_ap_t sram = ap_dense(VNPU_SPACE_SRAM, VNPU_U8, one->sram[i], bytes, 0, 0);
        vnpu_insn_t *store = prog_insn(prog, one->dma, VNPU_OP_DMA_COPY);
        store->src[0] = prog_ap(prog, sram);
        store->dst = prog_ap(prog, ap_arg(dram, (uint8_t)first_arg++));
    }
}

/* Launches the program and takes the operands' bytes back. */
static inline sim_status_t one_run(exec_env_t *env, one_insn_t *one, const uint64_t *args,
                                   uint32_t num_args, sim_error_t *err) {
    dev_program_t *program = prog_load(&one->prog, &env->machine);
    dev_launch_t launch = launch_of(program, &env->machine, 1, 1);
    uint32_t arg = 0;
    while (arg < num_args) {
        launch.arg[arg] = args[arg];
        arg++;
    }
    for (uint32_t i = 0; i < 5; i++) {
        if (one->address[i]) launch.arg[arg++] = one->address[i];
    }
    sim_status_t status = dev_exec_run(env->exec, TEST_OWNER, &launch, err);
    for (uint32_t i = 0; i < 5; i++) {
        if (!one->address[i]) continue;
        uint32_t bytes = one->ops[i]->bytes;
        memcpy(one->ops[i]->data, env_host(env, one->address[i], bytes), bytes);
        cr_assert_eq(dev_memory_free(env->memory, TEST_OWNER, one->address[i], NULL), SIM_OK);
    }
    dev_program_destroy(program);
    return status;
}

/*
 * Runs `insn` (func, flags, masks and immediates set) once: operands dst, src0..src3 where ops[i]
 * is not NULL. ARG and IOTA operands have no data. Memory of SRAM and ACC operands is loaded before
 * and stored after. args: the first arguments of the launch.
 */
static inline sim_status_t run_insn(exec_env_t *env, vnpu_insn_t insn, test_operand_t *ops[5],
                                    const uint64_t *args, uint32_t num_args, sim_error_t *err) {
    static one_insn_t one;
    memset(&one, 0, sizeof one);
    prog_t *prog = &one.prog;
    bool is_product = insn.op == VNPU_OP_MM;
    one.ops = ops;
    one.dma = prog_queue(prog, VNPU_QUEUE_DMA, 0);
    one.vector = prog_queue(prog, VNPU_QUEUE_VECTOR, 0);
    if (is_product) one.matrix = prog_queue(prog, VNPU_QUEUE_MATRIX, 0);
    prog->num_sems = 4;
    for (uint32_t a = 0; a < num_args; a++)
        prog_arg(prog, VNPU_ARG_SCALAR);
    for (uint32_t i = 0; i < 5; i++) {
        one.index[i] = VNPU_NO_AP;
        if (ops[i]) one_load(env, &one, i);
    }
    insn_signal(prog_insn(prog, one.dma, VNPU_OP_SYNC), 0, 0, 1);
    insn_wait(prog_insn(prog, one.vector, VNPU_OP_SYNC), 0, 0, 1);
    one_move(&one, false);
    if (is_product) {
        one_product(&one, &insn);
    } else {
        one_place(&one, one.vector, &insn);
    }
    one_move(&one, true);
    insn_signal(prog_insn(prog, one.vector, VNPU_OP_SYNC), 0, 3, 1);
    insn_wait(prog_insn(prog, one.dma, VNPU_OP_SYNC), 0, 3, 1);
    one_store(&one, num_args);
    return one_run(env, &one, args, num_args, err);
}

static inline void run_insn_ok(exec_env_t *env, vnpu_insn_t insn, test_operand_t *ops[5]) {
    sim_error_t err = {0};
    sim_status_t status = run_insn(env, insn, ops, NULL, 0, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
}

#endif
