/*
 * Loads that are not copied. A DMA load into the scratchpad without cast or transpose is only
 * remembered: which scratchpad bytes stand for which DRAM bytes. Readers that take strides read
 * DRAM in place; everything else sees the same bytes: a read that cannot be mapped, and a write
 * that covers only a part, first copy what the load would have copied; a write that covers all of
 * it forgets it; a write to the DRAM bytes copies first, so that the scratchpad keeps the old ones.
 * So values are those of a copy, whatever the program does. Off in chaos and timing mode. Other
 * cores' writes to bytes that this core has loaded in the same launch are races in either case.
 */
#include "device/dev_exec_internal.h"

#include <string.h>

#define LEAST_BYTES 8192u /* below, a copy into the first-level cache is as good */

static void forget(exec_instance_t *instance, uint32_t at) {
    instance->alias[at] = instance->alias[--instance->num_aliases];
}

static void copy_now(exec_instance_t *instance, uint32_t at) {
    const exec_alias_t *alias = &instance->alias[at];
    uint8_t *to = instance->worker->sram + alias->low;
    for (uint64_t r = 0; r < alias->rows; r++) {
        memcpy(to + r * alias->row_bytes, alias->src + (int64_t)r * alias->pitch, alias->row_bytes);
    }
    forget(instance, at);
}

static bool overlaps(uint64_t low, uint64_t high, uint64_t other_low, uint64_t other_high) {
    return low < other_high && other_low < high;
}

void exec_alias_write_dram(exec_instance_t *instance, uint64_t low, uint64_t high) {
    for (uint32_t i = instance->num_aliases; i-- > 0;) {
        const exec_alias_t *alias = &instance->alias[i];
        if (overlaps(low, high, alias->dram_low, alias->dram_high)) copy_now(instance, i);
    }
}

/* No holes between low and high. */
static bool is_dense(const exec_operand_t *operand) {
    return operand->view.count * operand->view.elem_bytes == operand->high - operand->low;
}

void exec_alias_write_sram(exec_instance_t *instance, const exec_operand_t *operand,
                           bool is_read_too) {
    for (uint32_t i = instance->num_aliases; i-- > 0;) {
        const exec_alias_t *alias = &instance->alias[i];
        if (!overlaps(operand->low, operand->high, alias->low, alias->high)) continue;
        bool covers =
            operand->low <= alias->low && alias->high <= operand->high && is_dense(operand);
        if (covers && !is_read_too) {
            forget(instance, i);
        } else {
            copy_now(instance, i);
        }
    }
}

/* The operand's strides over the aliased DRAM bytes; false if they are not strides there. */
static bool map_operand(const exec_alias_t *alias, exec_operand_t *operand) {
    const dev_view_t *view = &operand->view;
    int64_t bytes = view->elem_bytes, row = (int64_t)alias->row_bytes;
    int64_t offset = (int64_t)(view->base - alias->low);
    if (alias->rows == 1) {
        operand->ptr = (uint8_t *)(uintptr_t)alias->src + offset;
        return true;
    }
    if (alias->pitch % bytes != 0) return false;
    int64_t stride[VNPU_MAX_DIMS], first = offset % row, last = first + bytes;
    for (uint32_t d = 0; d < view->ndims; d++) {
        int64_t step = view->stride[d] * bytes, reach = step * (int64_t)(view->size[d] - 1);
        if (step % row == 0) {
            stride[d] = step / row * alias->pitch / bytes;
            continue;
        }
        stride[d] = view->stride[d]; /* within a row */
        if (reach < 0) {
            first += reach;
        } else {
            last += reach;
        }
    }
    if (first < 0 || last > row) return false;
    operand->ptr = (uint8_t *)(uintptr_t)alias->src + offset / row * alias->pitch + offset % row;
    memcpy(operand->view.stride, stride, sizeof stride[0] * view->ndims);
    return true;
}

void exec_alias_read(exec_instance_t *instance, exec_operand_t *operand, bool may_map) {
    for (uint32_t i = instance->num_aliases; i-- > 0;) {
        const exec_alias_t *alias = &instance->alias[i];
        if (!overlaps(operand->low, operand->high, alias->low, alias->high)) continue;
        bool is_inside = alias->low <= operand->low && operand->high <= alias->high;
        if (may_map && is_inside && map_operand(alias, operand)) return;
        copy_now(instance, i);
    }
}

/* Rows of `run` bytes, `pitch` apart in DRAM, that lie end to end in the scratchpad; false if the
 * load is not of that form. */
static bool rows_of_load(const exec_operand_t *dst, const exec_operand_t *src,
                         exec_alias_t *alias) {
    exec_walk_t walk;
    exec_walk_begin(&walk, &dst->view);
    exec_walk_add(&walk, dst->view.stride);
    exec_walk_add(&walk, src->view.stride);
    exec_walk_merge(&walk, 0);
    uint32_t last = walk.ndims - 1;
    if (walk.ndims > 2 || walk.stride[0][last] != 1 || walk.stride[1][last] != 1) return false;
    alias->row_bytes = walk.size[last] * dst->view.elem_bytes;
    alias->rows = 1;
    alias->pitch = 0;
    if (walk.ndims == 1) return true;
    alias->rows = walk.size[0];
    alias->pitch = walk.stride[1][0] * dst->view.elem_bytes;
    return walk.stride[0][0] == (int64_t)walk.size[1] && alias->row_bytes >= 64;
}

bool exec_alias_load(exec_instance_t *instance, const exec_operand_t *dst,
                     const exec_operand_t *src) {
    if (instance->exec->options.mode != DEV_EXEC_VALUES ||
        instance->num_aliases == EXEC_MAX_ALIASES)
        return false;
    if (instance->team != NULL) return false; /* another instance may write the rows, in order */
    if (dst->view.space != VNPU_SPACE_SRAM || src->view.space != VNPU_SPACE_DRAM) return false;
    if (dst->view.dtype != src->view.dtype || dst->high - dst->low < LEAST_BYTES) return false;
    exec_alias_t *alias = &instance->alias[instance->num_aliases];
    if (!rows_of_load(dst, src, alias)) return false;
    alias->low = dst->low;
    alias->high = dst->high;
    alias->src = src->ptr;
    alias->dram_low = src->low;
    alias->dram_high = src->high;
    instance->num_aliases++;
    return true;
}
