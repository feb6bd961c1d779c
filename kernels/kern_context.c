#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_internal.h"

vnpu_status_t kern_context_create(int device, kern_context_t **out_context) {
    *out_context = NULL;
    vnpu_machine_t machine = {.size = sizeof machine};
    vnpu_status_t status = vnpu_device_machine(device, &machine);
    if (status != VNPU_OK) return status;
    kern_context_t *context = calloc(1, sizeof *context);
    if (!context) return VNPU_ERROR_OUT_OF_MEMORY;
    context->device = device;
    context->machine = context->class_machine[0] = machine;
    context->num_classes = machine.num_classes > 1 ? machine.num_classes : 1;
    for (uint32_t c = 1; c < context->num_classes; c++) {
        status = vnpu_device_class(device, c, &context->class_machine[c]);
        if (status == VNPU_OK) continue;
        free(context);
        return status;
    }
    *out_context = context;
    return VNPU_OK;
}

bool kern_has_functions(const vnpu_machine_t *machine, uint32_t function_class) {
    return machine->vector_passes_num[function_class] != 0 ||
           machine->vector_passes_den[function_class] == 0;
}

bool kern_has_all_functions(const vnpu_machine_t *machine) {
    for (uint32_t c = KERN_CLASS_ALU; c <= KERN_CLASS_REDUCE; c++)
        if (!kern_has_functions(machine, c)) return false;
    return true;
}

/* Work a second, in units that are equal for all classes: elements, or multiply-adds in
 * thousandths. */
static uint64_t throughput(const vnpu_machine_t *machine, vnpu_dtype_t matrix_dtype) {
    uint64_t per_cycle = machine->vector_lanes;
    if (matrix_dtype != VNPU_DTYPE_NONE && matrix_dtype < VNPU_DTYPE_COUNT) {
        uint64_t step = machine->matrix_step ? machine->matrix_step : 1;
        uint64_t count = machine->matrix_count ? machine->matrix_count : 1;
        uint64_t den = machine->matrix_rate_den[matrix_dtype];
        per_cycle = (uint64_t)machine->matrix_rows * machine->matrix_cols * step * count *
                    machine->matrix_rate_num[matrix_dtype] / (den ? den : 1);
    }
    return per_cycle * machine->workers * (machine->core_clock_hz / 1000000);
}

uint32_t kern_class_for(const kern_context_t *context, vnpu_dtype_t matrix_dtype) {
    uint32_t best = 0;
    uint64_t most = 0;
    bool is_whole = false; /* the best one so far has every kind of function */
    for (uint32_t c = 0; c < context->num_classes; c++) {
        const vnpu_machine_t *machine = &context->class_machine[c];
        bool has_all = matrix_dtype != VNPU_DTYPE_NONE || kern_has_all_functions(machine);
        uint64_t here = throughput(machine, matrix_dtype);
        if (is_whole > has_all || (is_whole == has_all && here <= most)) continue;
        is_whole = has_all;
        most = here;
        best = c;
    }
    return best;
}

uint32_t kern_class_enter(kern_context_t *context, vnpu_dtype_t matrix_dtype) {
    uint32_t before = context->machine.class_index;
    uint32_t wanted = context->num_classes > 1 ? kern_class_for(context, matrix_dtype) : 0;
    kern_class_leave(context, wanted);
    return before;
}

void kern_class_leave(kern_context_t *context, uint32_t before) {
    if (context->machine.class_index != before) context->machine = context->class_machine[before];
}

uint32_t kern_launch_class(const kern_context_t *context) {
    return context->num_classes > 1 ? context->machine.class_index + 1 : 0;
}

void kern_unload(vnpu_module_t module) {
    vnpu_status_t status = vnpu_module_unload(module);
    (void)status; /* the device may be gone already: then its modules are too */
}

void kern_context_destroy(kern_context_t *context) {
    if (!context) return;
    kern_cache_fini(&context->cache, kern_unload);
    free(context);
}

const vnpu_machine_t *kern_machine(const kern_context_t *context) {
    return &context->class_machine[0];
}
const char *kern_error_detail(const kern_context_t *context) {
    return context->detail;
}
void kern_set_tag(kern_context_t *context, uint32_t tag) {
    context->tag = tag;
    context->last_plan = NULL;
}

void kern_stats(const kern_context_t *context, uint64_t *out_programs, uint64_t *out_launches) {
    *out_programs = context->programs;
    *out_launches = context->launches;
}

vnpu_status_t kern_fail(kern_context_t *context, vnpu_status_t status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(context->detail, sizeof context->detail, format, args);
    va_end(args);
    return status;
}

vnpu_status_t kern_fail_driver(kern_context_t *context, vnpu_status_t status, const char *what) {
    char text[400];
    (void)vnpu_error_detail(text, sizeof text);
    return kern_fail(context, status, "%s: %s", what, text);
}

vnpu_status_t kern_load_program(kern_context_t *context, kern_builder_t *builder,
                                vnpu_module_t *out_module) {
    *out_module = 0;
    size_t bytes;
    void *image = kern_builder_image(builder, &bytes);
    if (!image)
        return kern_fail(context, VNPU_ERROR_OUT_OF_MEMORY, "%s: no host memory for the program",
                         builder->name);
    vnpu_status_t status = vnpu_module_load(context->device, image, bytes, out_module);
    free(image);
    return status == VNPU_OK ? VNPU_OK : kern_fail_driver(context, status, builder->name);
}

vnpu_status_t kern_keep_program(kern_context_t *context, const kern_key_t *key,
                                const kern_entry_t *entry, const char *name,
                                const kern_entry_t **out_entry) {
    *out_entry = kern_cache_add(&context->cache, key, entry);
    if (!*out_entry) {
        kern_unload(entry->module);
        return kern_fail(context, VNPU_ERROR_OUT_OF_MEMORY, "%s: no host memory for the cache",
                         name);
    }
    context->programs++;
    return VNPU_OK;
}

vnpu_status_t kern_add_program(kern_context_t *context, const kern_key_t *key,
                               kern_builder_t *builder, const uint32_t grid[2],
                               const kern_entry_t **out_entry) {
    *out_entry = NULL;
    kern_entry_t entry = {.grid = {grid[0], grid[1]}};
    vnpu_status_t status = kern_load_program(context, builder, &entry.module);
    if (status != VNPU_OK) return status;
    return kern_keep_program(context, key, &entry, builder->name, out_entry);
}

vnpu_status_t kern_launch(kern_context_t *context, vnpu_stream_t stream, const kern_entry_t *entry,
                          const uint64_t *args, uint32_t num_args) {
    vnpu_launch_config_t config = {.size = sizeof config,
                                   .grid = {entry->grid[0], entry->grid[1]},
                                   .tag = context->tag,
                                   .stream = stream,
                                   .core_class = kern_launch_class(context)};
    vnpu_status_t status = vnpu_launch(entry->module, &config, args, num_args);
    if (status != VNPU_OK) return kern_fail_driver(context, status, "launch");
    context->launches++;
    if (entry->mapping.family) context->last_plan = &entry->mapping;
    return VNPU_OK;
}
