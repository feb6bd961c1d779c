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
                             .workers = cores,
                             .dma_queues = 2,
                             .sram_bytes = 4u << 20,
                             .acc_bytes = 1u << 20,
                             .dram_bytes = 256u << 20};
    for (uint32_t d = 1; d < VNPU_DTYPE_COUNT; d++)
        machine.matrix_rate[d] = (sim_ratio_t){1, 1};
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
    for (uint32_t c = 0; c < machine->workers; c++)
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

/*
 * Runs `insn` (func, flags, masks and immediates set) once: operands dst, src0..src3 where
 * ops[i].bytes != 0. ARG and IOTA operands have no data. Memory of SRAM and ACC operands is loaded
 * before and stored after.
 */
static inline sim_status_t run_insn(exec_env_t *env, vnpu_insn_t insn, test_operand_t *ops[5],
                                    const uint64_t *args, uint32_t num_args, sim_error_t *err) {
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0),
             vector = prog_queue(&prog, VNPU_QUEUE_VECTOR, 0);
    bool is_mm = insn.op == VNPU_OP_MM;
    uint32_t matrix = is_mm ? prog_queue(&prog, VNPU_QUEUE_MATRIX, 0) : vector;
    prog.num_sems = 4;
    for (uint32_t a = 0; a < num_args; a++)
        prog_arg(&prog, VNPU_ARG_SCALAR);
    uint64_t address[5] = {0};
    int64_t sram[5] = {0}, acc[5] = {0};
    uint16_t index[5] = {VNPU_NO_AP, VNPU_NO_AP, VNPU_NO_AP, VNPU_NO_AP, VNPU_NO_AP};
    vnpu_insn_t copy = dev_image_insn(VNPU_OP_V_UNARY);
    copy.flags = VNPU_F_INTEGER;
    for (uint32_t i = 0; i < 5; i++) {
        if (!ops[i]) continue;
        vnpu_ap_t ap = ops[i]->ap;
        bool in_acc = ap.space == VNPU_SPACE_ACC;
        if (ap.space == VNPU_SPACE_SRAM || in_acc) {
            uint32_t bytes = ops[i]->bytes, room = (bytes + 127) / 64 * 64;
            address[i] = env_alloc(env, bytes);
            memcpy(env_host(env, address[i], bytes), ops[i]->data, bytes);
            sram[i] = prog.sram_bytes;
            prog.sram_bytes += room;
            acc[i] = prog.acc_bytes;
            if (in_acc) prog.acc_bytes += room;
            uint8_t arg = prog_arg(&prog, VNPU_ARG_INOUT);
            vnpu_insn_t *load = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
            load->src[0] =
                prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_U8, 0, bytes, 0, 0), arg));
            load->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_U8, sram[i], bytes, 0, 0));
            ap.base += in_acc ? acc[i] : sram[i];
        }
        index[i] = prog_ap(&prog, ap);
    }
    insn_signal(prog_insn(&prog, dma, VNPU_OP_SYNC), 0, 0, 1);
    insn_wait(prog_insn(&prog, vector, VNPU_OP_SYNC), 0, 0, 1);
    for (uint32_t pass = 0; pass < 2; pass++) { /* into ACC, the instruction, out of ACC */
        for (uint32_t i = 0; i < 5; i++) {
            if (!ops[i] || ops[i]->ap.space != VNPU_SPACE_ACC) continue;
            vnpu_insn_t *move = prog_insn(&prog, vector, VNPU_OP_V_UNARY);
            *move = copy;
            uint16_t staged = prog_ap(
                &prog, ap_dense(VNPU_SPACE_SRAM, VNPU_I32, sram[i], ops[i]->bytes / 4, 0, 0));
            uint16_t inside =
                prog_ap(&prog, ap_dense(VNPU_SPACE_ACC, VNPU_I32, acc[i], ops[i]->bytes / 4, 0, 0));
            move->dst = pass ? staged : inside;
            move->src[0] = pass ? inside : staged;
        }
        if (pass) break;
        if (is_mm) insn_signal(prog_insn(&prog, vector, VNPU_OP_SYNC), 0, 1, 1);
        if (is_mm && insn.not_first)
            prog_loop(&prog, matrix, 2); /* level 0: the second trip accumulates */
        vnpu_insn_t *it = prog_insn(&prog, matrix, insn.op);
        uint32_t line = it->line;
        *it = insn;
        it->line = line;
        it->dst = index[0];
        for (uint32_t s = 0; s < 4; s++)
            it->src[s] = index[1 + s];
        if (is_mm) {
            if (insn.not_first) {
                it->first_only = 0;
                it->last_only = 1; /* only the accumulating trip runs */
            }
            insn_wait(it, 0, 1, 1);
            insn_signal(it, 0, 2, 1);
            if (insn.not_first) prog_end(&prog, matrix);
            insn_wait(prog_insn(&prog, vector, VNPU_OP_SYNC), 0, 2, 1);
        }
    }
    insn_signal(prog_insn(&prog, vector, VNPU_OP_SYNC), 0, 3, 1);
    insn_wait(prog_insn(&prog, dma, VNPU_OP_SYNC), 0, 3, 1);
    uint32_t arg = num_args;
    for (uint32_t i = 0; i < 5; i++) {
        if (!address[i]) continue;
        vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
        store->src[0] =
            prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_U8, sram[i], ops[i]->bytes, 0, 0));
        store->dst =
            prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_U8, 0, ops[i]->bytes, 0, 0),
                                  (uint8_t)arg++));
    }
    dev_program_t *program = prog_load(&prog, &env->machine);
    dev_launch_t launch = launch_of(program, &env->machine, 1, 1);
    for (uint32_t a = 0; a < num_args; a++)
        launch.arg[a] = args[a];
    arg = num_args;
    for (uint32_t i = 0; i < 5; i++) {
        if (address[i]) launch.arg[arg++] = address[i];
    }
    sim_status_t status = dev_exec_run(env->exec, TEST_OWNER, &launch, err);
    for (uint32_t i = 0; i < 5; i++) {
        if (!address[i]) continue;
        memcpy(ops[i]->data, env_host(env, address[i], ops[i]->bytes), ops[i]->bytes);
        cr_assert_eq(dev_memory_free(env->memory, TEST_OWNER, address[i], NULL), SIM_OK);
    }
    dev_program_destroy(program);
    return status;
}

static inline void run_insn_ok(exec_env_t *env, vnpu_insn_t insn, test_operand_t *ops[5]) {
    sim_error_t err = {0};
    sim_status_t status = run_insn(env, insn, ops, NULL, 0, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
}

#endif
