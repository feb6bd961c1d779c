#include "tests/kernels/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_sim.h"

#define MAX_MODULES 4096u

static struct {
    sim_config_t *config;
    dev_machine_t machine;
    dev_memory_t *memory;
    dev_exec_t *exec;
    dev_program_t *program[MAX_MODULES];
    uint32_t modules;
    uint64_t launches;
    dev_launch_t last;
    sim_error_t err;
} shim;

static void must(sim_status_t status, const char *what) {
    if (status == SIM_OK) return;
    fprintf(stderr, "shim: %s: %s\n", what, shim.err.text);
    abort();
}

void shim_open(const char *config, const char *overrides, dev_exec_mode_t mode, uint64_t seed) {
    char path[512];
    memset(&shim, 0, sizeof shim);
    snprintf(path, sizeof path, "%s/configs/%s.ini", VNPU_SOURCE_DIR, config);
    must(sim_config_load(path, overrides, &shim.config, &shim.err), path);
    must(dev_machine_init(&shim.machine, shim.config, &shim.err), "machine");
    must(dev_memory_create(8ull << 30, DEV_BACKING_FULL, 2ull << 30, &shim.memory, &shim.err),
         "memory");
    dev_exec_options_t options = {.mode = mode, .threads = 1, .seed = seed};
    must(dev_exec_create(&shim.machine, shim.memory, &options, &shim.exec, &shim.err), "executor");
}

void shim_close(void) {
    for (uint32_t i = 0; i < shim.modules; i++)
        dev_program_destroy(shim.program[i]);
    dev_exec_destroy(shim.exec);
    dev_memory_destroy(shim.memory);
    sim_config_destroy(shim.config);
    memset(&shim, 0, sizeof shim);
}

vnpu_addr_t shim_alloc(size_t bytes) {
    uint64_t address = 0;
    must(dev_memory_alloc(shim.memory, 1, bytes ? bytes : 1, &address, &shim.err), "alloc");
    return address;
}

void shim_free(vnpu_addr_t address) {
    must(dev_memory_free(shim.memory, 1, address, &shim.err), "free");
}

void *shim_host(vnpu_addr_t address, size_t bytes) {
    void *pointer = dev_memory_translate(shim.memory, 1, address, bytes ? bytes : 1, &shim.err);
    if (!pointer) must(SIM_ERROR_ILLEGAL_ADDRESS, "translate");
    return pointer;
}

const char *shim_detail(void) {
    return shim.err.text;
}
const dev_launch_t *shim_last_launch(void) {
    return &shim.last;
}
uint64_t shim_launches(void) {
    return shim.launches;
}
uint64_t shim_modules(void) {
    return shim.modules;
}

/* ---- what the library calls ---- */

static uint64_t dram_bytes_per_s = 800000000000;

void shim_set_dram(uint64_t bytes_per_s) {
    dram_bytes_per_s = bytes_per_s;
}

vnpu_status_t vnpu_device_machine(int device, vnpu_machine_t *out) {
    return vnpu_device_class(device, 0, out);
}

vnpu_status_t vnpu_device_class(int device, uint32_t index, vnpu_machine_t *out) {
    if (device != 0 || index >= shim.machine.num_classes) return VNPU_ERROR_INVALID_VALUE;
    const dev_class_t *m = &shim.machine.cls[index];
    *out =
        (vnpu_machine_t){.size = sizeof *out,
                         .cores = m->cores,
                         .workers = m->workers,
                         .matrix_rows = m->matrix.rows,
                         .matrix_cols = m->matrix.cols,
                         .matrix_load_rows_per_cycle = m->matrix.load_rows_per_cycle,
                         .matrix_weight_buffers = m->matrix.weight_buffers,
                         .matrix_min_stream_cycles = m->matrix.min_stream_cycles,
                         .matrix_dataflow = m->matrix.dataflow,
                         .matrix_step = m->matrix.step,
                         .matrix_count = m->matrix.count,
                         .matrix_split = m->matrix.split,
                         .matrix_fill_cycles = (uint32_t)sim_matrix_fill_cycles(&m->matrix, 1),
                         .matrix_gap_cycles = m->matrix.gap_cycles,
                         .matrix_stream_elems = m->matrix.stream_elems,
                         .matrix_operand_bytes_per_cycle = m->matrix.operand_bytes,
                         .matrix_switch_cycles = m->matrix.switch_cycles,
                         .matrix_has_full_folds = m->matrix.has_full_folds,
                         .matrix_f32_pieces = m->matrix_f32_pieces,
                         .sram_interleave_bytes = (uint32_t)m->sram_banks.part_bytes,
                         .matrix_f32_passes = m->matrix_f32_passes,
                         .vector_lanes = m->vector.lanes,
                         .vector_startup_cycles = m->vector.startup_cycles,
                         .dma_queues = m->dma_queues,
                         .dma_bytes_per_cycle = m->dma.bytes_per_cycle,
                         .dma_descriptor_cycles = m->dma.descriptor_cycles,
                         .dma_run_cycles = m->dma.run_cycles,
                         .dma_completion_cycles = m->dma.completion_cycles,
                         .issue_cycles = m->issue_cycles,
                         .semaphore_cycles = m->semaphore_cycles,
                         .instance_cycles = m->instance_cycles,
                         .core_clock_hz = 1000000000,
                         .sram_bytes = m->sram_bytes,
                         .acc_bytes = m->acc_bytes,
                         .dram_bytes = shim.machine.dram_bytes,
                         .dram_bytes_per_s = dram_bytes_per_s,
                         .dram_latency_ps = 100000,
                         .layout_tile = {shim.machine.layout_tile[0], shim.machine.layout_tile[1]},
                         .mapping_profile = shim.machine.mapping_profile,
                         .mapping_multicast = shim.machine.mapping_multicast,
                         .num_classes = shim.machine.num_classes,
                         .class_index = index,
                         .first_core = m->first_core,
                         .chip_cores = shim.machine.cores,
                         .dma_keeps_rows = m->dma.keeps_rows,
                         .dma_accumulator_bytes_per_cycle = m->dma.accumulator_bytes_per_cycle,
                         .name = "shim"};
    for (uint32_t d = 0; d < VNPU_DTYPE_COUNT; d++) {
        out->matrix_rate_num[d] = m->matrix_rate[d].num;
        out->matrix_rate_den[d] = m->matrix_rate[d].den;
    }
    for (uint32_t c = 1; c < SIM_VECTOR_CLASS_COUNT; c++) {
        out->vector_passes_num[c] = m->vector.passes[c].num;
        out->vector_passes_den[c] = m->vector.passes[c].den;
    }
    return VNPU_OK;
}

vnpu_status_t vnpu_module_load(int device, const void *image, size_t bytes,
                               vnpu_module_t *out_module) {
    *out_module = 0;
    if (device != 0 || shim.modules == MAX_MODULES) return VNPU_ERROR_INVALID_VALUE;
    sim_status_t status =
        dev_program_load(image, bytes, &shim.machine, &shim.program[shim.modules], &shim.err);
    if (status != SIM_OK)
        return status == SIM_ERROR_UNSUPPORTED ? VNPU_ERROR_UNSUPPORTED : VNPU_ERROR_INVALID_IMAGE;
    *out_module = ++shim.modules;
    return VNPU_OK;
}

vnpu_status_t vnpu_module_unload(vnpu_module_t module) {
    return module >= 1 && module <= shim.modules ? VNPU_OK : VNPU_ERROR_INVALID_HANDLE;
}

vnpu_status_t vnpu_launch(vnpu_module_t module, const vnpu_launch_config_t *config,
                          const uint64_t *args, uint32_t num_args) {
    if (module < 1 || module > shim.modules) return VNPU_ERROR_INVALID_HANDLE;
    const dev_program_t *program = shim.program[module - 1];
    if (num_args != program->header.num_args) return VNPU_ERROR_INVALID_VALUE;
    shim.last = (dev_launch_t){.program = program, .grid = {config->grid[0], config->grid[1]}};
    memcpy(shim.last.arg, args, num_args * sizeof *args);
    uint32_t class =
        config->core_class ? config->core_class - 1 : (uint32_t)__builtin_ctz(program->class_mask);
    const dev_class_t *cls = &shim.machine.cls[class];
    if ((program->class_mask >> class & 1) == 0) return VNPU_ERROR_UNSUPPORTED;
    for (uint32_t c = cls->first_core; c < cls->first_core + cls->workers; c++)
        shim.last.core_mask[c / 64] |= 1ull << c % 64;
    shim.launches++;
    sim_status_t status = dev_exec_run(shim.exec, 1, &shim.last, &shim.err);
    return status == SIM_OK ? VNPU_OK : (vnpu_status_t)status;
}

/* Values only, as VNPU_MODE=functional: the closed form decides. */
vnpu_status_t vnpu_program_time(vnpu_module_t module, const vnpu_launch_config_t *config,
                                const uint64_t *args, uint32_t num_args, uint64_t *out_ps) {
    (void)module, (void)config, (void)args, (void)num_args;
    *out_ps = 0;
    return VNPU_ERROR_NOT_PERMITTED;
}

vnpu_status_t vnpu_mem_alloc(int device, size_t bytes, vnpu_addr_t *out_address) {
    *out_address = 0;
    if (device != 0) return VNPU_ERROR_INVALID_VALUE;
    *out_address = shim_alloc(bytes);
    return VNPU_OK;
}

vnpu_status_t vnpu_mem_free(int device, vnpu_addr_t address) {
    if (device != 0) return VNPU_ERROR_INVALID_VALUE;
    if (address != 0) shim_free(address);
    return VNPU_OK;
}

vnpu_status_t vnpu_memset(vnpu_addr_t dst, uint64_t pattern, uint32_t width, size_t count,
                          vnpu_stream_t stream) {
    (void)stream;
    uint8_t *bytes = shim_host(dst, width * count);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * width, &pattern, width);
    return VNPU_OK;
}

size_t vnpu_error_detail(char *text, size_t text_bytes) {
    return (size_t)snprintf(text, text_bytes, "%s", shim.err.text);
}
