/*
 * Launches: instances are dealt to cores, cores to host threads. A core's instances run in order on
 * one thread; which thread takes which core does not matter to the values.
 */
#include "device/dev_exec_internal.h"
#include "device/dev_isa_names.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES        (2ull << 20)
#define VECTOR_TEMP_BYTES (5u * 2048u * 8u)
#define PARALLEL_NS                                                                                \
    100000.0 /* waking a thread costs microseconds: less work than this stays on one */
#define STREAM_NS 1000000.0 /* launches shorter than this write little */
#define STREAM_BYTES                                                                               \
    (16ll << 20) /* written through one argument: more than a cache keeps for the reader */

/* ---- creation ---- */

static uint32_t default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* Scratchpad and accumulator of a host thread, large enough for a core of any class, and its vector
 * blocks. Touched by the kernel's zero pages at first use. */
static sim_status_t worker_init(exec_worker_t *worker, dev_exec_t *exec, sim_error_t *err) {
    worker->exec = exec;
    uint64_t sram = 0, acc = 0;
    for (uint32_t c = 0; c < exec->machine.num_classes; c++) {
        const dev_class_t *cls = &exec->machine.cls[c];
        if (cls->sram_bytes > sram) sram = cls->sram_bytes;
        if (cls->acc_bytes > acc) acc = cls->acc_bytes;
    }
    sram = round_up(sram, HUGE_BYTES);
    acc = round_up(acc, HUGE_BYTES);
    worker->map_bytes = sram + acc + HUGE_BYTES;
    void *map = mmap(NULL, worker->map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY,
                             "no host memory for a core of %" PRIu64 " bytes", sram + acc);
    }
    worker->map = map;
    (void)madvise(map, worker->map_bytes, MADV_HUGEPAGE); /* a hint */
    worker->sram = (uint8_t *)map + (HUGE_BYTES - (uintptr_t)map % HUGE_BYTES) % HUGE_BYTES;
    worker->acc = worker->sram + sram;
    worker->vector_temp = aligned_alloc(64, VECTOR_TEMP_BYTES);
    if (!worker->vector_temp) return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory");
    return SIM_OK;
}

static void worker_fini(exec_worker_t *worker) {
    if (worker->map) munmap(worker->map, worker->map_bytes);
    for (uint32_t s = 0; s < SCRATCH_COUNT; s++)
        free(worker->scratch[s].data);
    free(worker->vector_temp);
}

static void *helper_main(void *argument);

sim_status_t dev_exec_create(const dev_machine_t *machine, dev_memory_t *memory,
                             const dev_exec_options_t *options, dev_exec_t **out_exec,
                             sim_error_t *err) {
    *out_exec = NULL;
    const dev_vec_level_t *level = dev_vec_choose(options->isa_level);
    if (!level) {
        return sim_error_set(
            err, SIM_ERROR_UNSUPPORTED,
            "this host lacks the instruction set of level %d (AVX2 and FMA are the least: without "
            "fused multiply-add results would have other bits)",
            options->isa_level);
    }
    dev_exec_t *exec = calloc(1, sizeof *exec);
    if (!exec)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory for the executor");
    pthread_mutex_init(&exec->lock, NULL);
    pthread_cond_init(&exec->work, NULL);
    pthread_cond_init(&exec->done, NULL);
    exec->machine = *machine;
    exec->memory = memory;
    exec->options = *options;
    exec->level = level;
    uint32_t wanted = options->threads ? options->threads : default_threads();
    uint32_t most = 0; /* cores of one launch: those of one class */
    for (uint32_t c = 0; c < machine->num_classes; c++)
        if (machine->cls[c].workers > most) most = machine->cls[c].workers;
    uint32_t threads = wanted < most ? wanted : most;
    if (threads == 0) threads = 1;
    sim_status_t status = exec_mm_init(level, err);
    exec->worker = calloc(threads, sizeof *exec->worker);
    if (status == SIM_OK && !exec->worker)
        status = sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory");
    for (uint32_t t = 0; t < threads && status == SIM_OK; t++) {
        exec->threads = t + 1;
        status = worker_init(&exec->worker[t], exec, err);
        if (status == SIM_OK && t > 0) {
            exec_worker_t *worker = &exec->worker[t];
            worker->has_thread = pthread_create(&worker->thread, NULL, helper_main, worker) == 0;
            if (!worker->has_thread)
                status = sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "cannot start a thread");
        }
    }
    if (status != SIM_OK) {
        dev_exec_destroy(exec);
        return status;
    }
    *out_exec = exec;
    return SIM_OK;
}

void dev_exec_destroy(dev_exec_t *exec) {
    if (!exec) return;
    pthread_mutex_lock(&exec->lock);
    exec->is_stopping = true;
    pthread_cond_broadcast(&exec->work);
    pthread_mutex_unlock(&exec->lock);
    for (uint32_t t = 0; exec->worker && t < exec->threads; t++) {
        if (exec->worker[t].has_thread) pthread_join(exec->worker[t].thread, NULL);
        worker_fini(&exec->worker[t]);
    }
    for (uint32_t t = 0; t < exec->team_room; t++)
        worker_fini(&exec->team_worker[t]);
    free(exec->team_worker);
    free(exec->team);
    dev_row_set_destroy(exec->rows);
    free(exec->worker);
    pthread_mutex_destroy(&exec->lock);
    pthread_cond_destroy(&exec->work);
    pthread_cond_destroy(&exec->done);
    free(exec);
}

/* ---- one core ---- */

/* The fault that counts is the one of the lowest instance: the same whichever thread came first. */
static void record_fault(dev_exec_t *exec, uint32_t instance, const sim_error_t *fault) {
    pthread_mutex_lock(&exec->lock);
    if (instance < atomic_load(&exec->fault_instance)) {
        atomic_store(&exec->fault_instance, instance);
        exec->fault = *fault;
    }
    pthread_mutex_unlock(&exec->lock);
}

static void set_up(exec_worker_t *worker, uint64_t index, uint32_t position, sim_error_t *fault,
                   exec_instance_t *instance) {
    dev_exec_t *exec = worker->exec;
    instance->exec = exec;
    instance->worker = worker;
    instance->launch = exec->launch;
    instance->program = exec->launch->program;
    instance->owner = exec->owner;
    instance->index = (uint32_t)index;
    instance->core = exec->core[position];
    instance->grid_pos[0] = (uint32_t)(index % exec->launch->grid[0]);
    instance->grid_pos[1] = (uint32_t)(index / exec->launch->grid[0]);
    instance->team = NULL;
    instance->team_size = 0;
    instance->err = fault;
}

static void run_core(exec_worker_t *worker, uint32_t position) {
    dev_exec_t *exec = worker->exec;
    exec_instance_t instance;
    for (uint64_t i = position; i < exec->instances; i += exec->takers) {
        if (i >= atomic_load(&exec->fault_instance)) return;
        sim_error_t fault = {0};
        set_up(worker, i, position, &fault, &instance);
        sim_status_t status = exec_run_instance(&instance);
        if (exec->streamed_args) __builtin_ia32_sfence();
        if (status == SIM_OK) continue;
        record_fault(exec, (uint32_t)i, &fault);
        return;
    }
}

static void run_cores(exec_worker_t *worker) {
    dev_exec_t *exec = worker->exec;
    for (;;) {
        uint32_t position = atomic_fetch_add(&exec->next_core, 1u);
        if (position >= exec->takers) return;
        run_core(worker, position);
    }
}

/* Room for a team: memories of all its cores at once. */
static sim_status_t reserve_team(dev_exec_t *exec, uint32_t size, sim_error_t *err) {
    if (size <= exec->team_room) return SIM_OK;
    exec_worker_t *worker = realloc(exec->team_worker, size * sizeof *worker);
    if (worker) exec->team_worker = worker;
    exec_instance_t *team = realloc(exec->team, size * sizeof *team);
    if (team) exec->team = team;
    if (!worker || !team)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory for a team of %u", size);
    while (exec->team_room < size) {
        exec_worker_t *next = &exec->team_worker[exec->team_room];
        memset(next, 0, sizeof *next);
        sim_status_t status = worker_init(next, exec, err);
        if (status != SIM_OK) {
            worker_fini(next);
            return status;
        }
        exec->team_room++;
    }
    return SIM_OK;
}

static sim_status_t run_team(dev_exec_t *exec, sim_error_t *err) {
    sim_status_t status = reserve_team(exec, exec->instances, err);
    if (status != SIM_OK) return status;
    sim_error_t fault = {0};
    exec_instance_t *culprit;
    for (uint32_t i = 0; i < exec->instances; i++) {
        set_up(&exec->team_worker[i], i, i, &fault, &exec->team[i]);
        exec->team[i].team = exec->team;
        exec->team[i].team_size = exec->instances;
    }
    status = exec_run_team(exec->team, exec->instances, &culprit);
    if (exec->streamed_args) __builtin_ia32_sfence();
    if (status != SIM_OK) record_fault(exec, culprit->index, &fault);
    return SIM_OK; /* a fault is told as that of any launch */
}

static void *helper_main(void *argument) {
    exec_worker_t *worker = argument;
    dev_exec_t *exec = worker->exec;
    uint64_t seen = 0;
    pthread_mutex_lock(&exec->lock);
    for (;;) {
        while (exec->generation == seen && !exec->is_stopping)
            pthread_cond_wait(&exec->work, &exec->lock);
        if (exec->is_stopping) break;
        seen = exec->generation;
        pthread_mutex_unlock(&exec->lock);
        run_cores(worker);
        pthread_mutex_lock(&exec->lock);
        if (--exec->busy_helpers == 0) pthread_cond_signal(&exec->done);
    }
    pthread_mutex_unlock(&exec->lock);
    return NULL;
}

/* ---- a launch ---- */

static double insn_ns(const dev_program_t *program, const vnpu_insn_t *insn) {
    if ((insn->op & 0xf0u) == 0 || insn->dst == VNPU_NO_AP) return 10.0;
    const vnpu_ap_t *ap = &program->ap[insn->op == VNPU_OP_V_REDUCE ? insn->src[0] : insn->dst];
    double elements = 1.0;
    for (uint32_t d = 0; d < ap->ndims; d++)
        elements *= ap->dim[d].size;
    if (insn->op != VNPU_OP_MM) return 20.0 + 0.3 * elements;
    const vnpu_ap_t *weights = &program->ap[insn->src[1]];
    double depth = 1.0;
    for (uint32_t d = 0; d <= insn->func && d < weights->ndims; d++)
        depth *= weights->dim[d].size;
    return 100.0 + 0.02 * elements * depth;
}

/* Rough host time of the whole launch, from the loops alone: decides only whether helpers are
 * woken. */
static double estimate_ns(const dev_launch_t *launch, uint64_t instances) {
    const dev_program_t *program = launch->program;
    double total = 0.0;
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        double trips[VNPU_MAX_LOOPS + 1] = {1.0};
        uint32_t depth = 0;
        for (uint32_t i = 0; i < program->queue[q].count; i++) {
            const vnpu_insn_t *insn = &program->insn[program->queue[q].first + i];
            if (insn->op == VNPU_OP_LOOP && depth < VNPU_MAX_LOOPS) {
                trips[depth + 1] = trips[depth] * insn->imm[0];
                depth++;
            } else if (insn->op == VNPU_OP_ENDLOOP && depth > 0) {
                depth--;
            } else {
                total += trips[depth] * insn_ns(program, insn);
            }
        }
    }
    return total * (double)instances;
}

static uint32_t streamed_args(const dev_launch_t *launch) {
    uint32_t streamed = 0;
    const vnpu_program_header_t *header = &launch->program->header;
    for (uint32_t a = 0; a < header->num_args; a++) {
        if (header->arg_kind[a] != VNPU_ARG_OUT)
            continue; /* INOUT: read as well, so the caches help */
        dev_arg_extent_t extent;
        dev_program_arg_extent(launch->program, a, launch->grid, &extent);
        if (extent.write_high - extent.write_low >= STREAM_BYTES) streamed |= 1u << a;
    }
    return streamed;
}

static sim_status_t deal(dev_exec_t *exec, const dev_launch_t *launch, sim_error_t *err) {
    const vnpu_program_header_t *header = &launch->program->header;
    uint64_t instances = (uint64_t)launch->grid[0] * launch->grid[1];
    exec->takers = 0;
    for (uint32_t c = 0; c < exec->machine.cores && c < DEV_MAX_CORES; c++) {
        if (launch->core_mask[c / 64] >> (c % 64) & 1u) exec->core[exec->takers++] = (uint16_t)c;
    }
    if (exec->takers == 0 || instances == 0 || instances > UINT32_MAX - 1) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "program %s: grid %u x %u on %u cores of this chip", header->name,
                             launch->grid[0], launch->grid[1], exec->takers);
    }
    uint32_t class = dev_machine_class_of(&exec->machine, exec->core[0]);
    const dev_class_t *cls = &exec->machine.cls[class];
    if (exec->core[exec->takers - 1] >= cls->first_core + cls->cores) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "program %s: cores %u and %u are of two classes", header->name,
                             exec->core[0], exec->core[exec->takers - 1]);
    }
    if (header->sram_bytes > cls->sram_bytes || header->acc_bytes > cls->acc_bytes) {
        return sim_error_set(
            err, SIM_ERROR_SRAM_OVERFLOW,
            "program %s: needs %u bytes of SRAM and %u of ACC, a core has %" PRIu64 " and %" PRIu64,
            header->name, header->sram_bytes, header->acc_bytes, cls->sram_bytes, cls->acc_bytes);
    }
    exec->instances = (uint32_t)instances;
    return dev_launch_check_team(launch, err);
}

static sim_status_t prepare_rows(dev_exec_t *exec, const dev_launch_t *launch, sim_error_t *err) {
    const dev_program_t *program = launch->program;
    dev_row_set_destroy(exec->rows);
    exec->rows = NULL;
    bool has_rows = false;
    for (uint32_t i = 0; i < program->header.num_insns; i++) {
        uint8_t op = program->insn[i].op;
        has_rows |= op == VNPU_OP_DMA_GATHER || op == VNPU_OP_DMA_SCATTER;
    }
    if (!has_rows) return SIM_OK;
    exec->rows = calloc(1, sizeof *exec->rows + (size_t)exec->instances * VNPU_MAX_QUEUES *
                                                    sizeof exec->rows->rows[0]);
    if (!exec->rows)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory for row lists");
    exec->rows->instances = exec->instances;
    return SIM_OK;
}

/* Types that have time but no values. */
static sim_status_t check_types(const dev_exec_t *exec, const dev_program_t *program,
                                sim_error_t *err) {
    for (uint32_t i = 0; exec->options.mode != DEV_EXEC_TIMING && i < program->header.num_aps;
         i++) {
        vnpu_dtype_t dtype = (vnpu_dtype_t)program->ap[i].dtype;
        if (vnpu_dtype_block(dtype) == 1) continue;
        return sim_error_set(err, SIM_ERROR_UNSUPPORTED,
                             "%s: pattern %u is %s, which is timed, not computed: VNPU_MODE=timing",
                             program->header.name, i, dev_dtype_name(dtype));
    }
    return SIM_OK;
}

/* Wakes the helpers, works along, waits for the last one. */
static void run_parallel(dev_exec_t *exec) {
    pthread_mutex_lock(&exec->lock);
    exec->busy_helpers = exec->threads - 1;
    exec->generation++;
    pthread_cond_broadcast(&exec->work);
    pthread_mutex_unlock(&exec->lock);
    run_cores(&exec->worker[0]);
    pthread_mutex_lock(&exec->lock);
    while (exec->busy_helpers > 0)
        pthread_cond_wait(&exec->done, &exec->lock);
    pthread_mutex_unlock(&exec->lock);
}

sim_status_t dev_exec_run(dev_exec_t *exec, uint32_t owner, const dev_launch_t *launch,
                          sim_error_t *err) {
    sim_status_t status = check_types(exec, launch->program, err);
    if (status == SIM_OK) status = deal(exec, launch, err);
    if (status == SIM_OK) status = prepare_rows(exec, launch, err);
    if (status != SIM_OK) return status;
    exec->launch = launch;
    exec->owner = owner;
    exec->fault = (sim_error_t){0};
    atomic_store(&exec->next_core, 0u);
    atomic_store(&exec->fault_instance, UINT32_MAX);
    double estimate = estimate_ns(launch, exec->instances);
    exec->streamed_args = estimate >= STREAM_NS ? streamed_args(launch) : 0;
    uint32_t busy = exec->takers < exec->instances ? exec->takers : exec->instances;
    bool is_worth = exec->threads > 1 && busy > 1 && estimate >= PARALLEL_NS;
    if (launch->program->is_team) {
        status = run_team(exec, err);
    } else if (is_worth) {
        run_parallel(exec);
    } else {
        run_cores(&exec->worker[0]);
    }
    exec->runs++;
    exec->launch = NULL;
    if (status != SIM_OK) return status;
    if (exec->fault.status == SIM_OK) return SIM_OK;
    return sim_error_set(err, exec->fault.status, "%s", exec->fault.text);
}

/* ---- row lists ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value;
    hash *= 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

void exec_rows_record(exec_instance_t *instance, const uint64_t *address, uint64_t count,
                      uint64_t base) {
    exec_rows_t *rows =
        &instance->exec->rows
             ->rows[(uint64_t)instance->index * VNPU_MAX_QUEUES + instance->running];
    if (rows->count == rows->room) {
        rows->room = rows->room ? 2 * rows->room : 4;
        dev_rows_t *grown = realloc(rows->list, rows->room * sizeof *grown);
        if (!grown) sim_bug("executor", 0, "no host memory for row lists");
        rows->list = grown;
    }
    uint64_t *copy = malloc((count ? count : 1) * sizeof *copy);
    if (!copy) sim_bug("executor", 0, "no host memory for row lists");
    rows->hash = mix(rows->hash, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        copy[i] = address[i];
        rows->hash = mix(rows->hash,
                         address[i] - base); /* where the table lies is another part of the key */
    }
    rows->list[rows->count++] = (dev_rows_t){copy, count};
}

static const exec_rows_t *rows_of(const dev_row_set_t *set, uint32_t instance, uint32_t queue) {
    if (!set || instance >= set->instances || queue >= VNPU_MAX_QUEUES) return NULL;
    return &set->rows[(uint64_t)instance * VNPU_MAX_QUEUES + queue];
}

uint64_t dev_exec_row_lists(const dev_exec_t *exec, uint32_t instance, uint32_t queue) {
    const exec_rows_t *rows = rows_of(exec->rows, instance, queue);
    return rows ? rows->count : 0;
}

dev_rows_t dev_row_set_get(const dev_row_set_t *set, uint32_t instance, uint32_t queue,
                           uint64_t n) {
    const exec_rows_t *rows = rows_of(set, instance, queue);
    return rows && n < rows->count ? rows->list[n] : (dev_rows_t){NULL, 0};
}

dev_rows_t dev_exec_rows(const dev_exec_t *exec, uint32_t instance, uint32_t queue, uint64_t n) {
    return dev_row_set_get(exec->rows, instance, queue, n);
}

dev_row_set_t *dev_exec_take_rows(dev_exec_t *exec) {
    dev_row_set_t *set = exec->rows;
    exec->rows = NULL;
    return set;
}

void dev_row_set_destroy(dev_row_set_t *set) {
    if (!set) return;
    uint64_t lists = (uint64_t)set->instances * VNPU_MAX_QUEUES;
    for (uint64_t i = 0; i < lists; i++) {
        for (uint32_t n = 0; n < set->rows[i].count; n++)
            free((void *)(uintptr_t)set->rows[i].list[n].address);
        free(set->rows[i].list);
    }
    free(set);
}

uint64_t dev_exec_rows_hash(const dev_exec_t *exec) {
    uint64_t hash = 0;
    uint64_t lists = exec->rows ? (uint64_t)exec->rows->instances * VNPU_MAX_QUEUES : 0;
    for (uint64_t i = 0; i < lists; i++) {
        if (exec->rows->rows[i].count) hash = mix(mix(hash, i + 1), exec->rows->rows[i].hash);
    }
    return hash;
}

const char *dev_exec_isa_name(const dev_exec_t *exec) {
    return exec->level->name;
}
uint32_t dev_exec_threads(const dev_exec_t *exec) {
    return exec->threads;
}
