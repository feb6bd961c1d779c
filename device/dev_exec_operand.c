#include "device/dev_exec_internal.h"

#include <inttypes.h>
#include <stdlib.h>

void *exec_scratch(exec_worker_t *worker, int which, size_t bytes) {
    exec_scratch_t *scratch = &worker->scratch[which];
    if (bytes > scratch->bytes) {
        free(scratch->data);
        scratch->bytes = (bytes + 65535) / 65536 * 65536;
        scratch->data = aligned_alloc(64, scratch->bytes);
        if (!scratch->data)
            sim_bug("executor", 0, "no host memory for %zu bytes of scratch", bytes);
    }
    return scratch->data;
}

static sim_status_t check_core_memory(exec_instance_t *instance, const char *memory, uint64_t low,
                                      uint64_t high, uint64_t limit, const char *name) {
    if (low <= high && high <= limit) return SIM_OK;
    return exec_fault(instance, SIM_ERROR_SRAM_OVERFLOW,
                      "%s: bytes [%" PRId64 ", %" PRId64 ") of %s, the program has %" PRIu64, name,
                      (int64_t)low, (int64_t)high, memory, limit);
}

static sim_status_t translate_dram(exec_instance_t *instance, uint64_t low, uint64_t high,
                                   bool is_write, const char *name, uint8_t **out_ptr) {
    sim_error_t reason = {0};
    *out_ptr =
        dev_memory_translate(instance->exec->memory, instance->owner, low, high - low, &reason);
    if (*out_ptr) return SIM_OK;
    return exec_fault(instance, SIM_ERROR_ILLEGAL_ADDRESS, "%s: %s of %s", name,
                      is_write ? "write" : "read", reason.text);
}

sim_status_t exec_translate(exec_instance_t *instance, vnpu_space_t space, uint64_t low,
                            uint64_t high, bool is_write, const char *name, uint8_t **out_ptr) {
    const vnpu_program_header_t *header = &instance->program->header;
    sim_status_t status = SIM_OK;
    *out_ptr = NULL;
    switch (space) {
    case VNPU_SPACE_DRAM:
        if (is_write) exec_alias_write_dram(instance, low, high);
        return translate_dram(instance, low, high, is_write, name, out_ptr);
    case VNPU_SPACE_SRAM:
        status = check_core_memory(instance, "SRAM", low, high, header->sram_bytes, name);
        if (status == SIM_OK) *out_ptr = instance->worker->sram + low;
        return status;
    case VNPU_SPACE_ACC:
        status = check_core_memory(instance, "ACC", low, high, header->acc_bytes, name);
        if (status == SIM_OK) *out_ptr = instance->worker->acc + low;
        return status;
    case VNPU_SPACE_ARG:
        status = check_core_memory(instance, "ARG", low, high, 8ull * header->num_args, name);
        if (status == SIM_OK) *out_ptr = (uint8_t *)(uintptr_t)instance->launch->arg + low;
        return status;
    case VNPU_SPACE_IOTA: return SIM_OK;
    case VNPU_SPACE_NONE:
    case VNPU_SPACE_COUNT: break;
    }
    return exec_fault(instance, SIM_ERROR_ILLEGAL_INSTRUCTION, "%s: space %d", name, (int)space);
}

static const char *operand_name(const vnpu_insn_t *insn, uint16_t ap, bool is_write) {
    static const char *const names[4] = {"src0", "src1", "src2", "src3"};
    if (is_write && ap == insn->dst) return "dst";
    for (uint32_t s = 0; s < 4; s++) {
        if (insn->src[s] == ap) return names[s];
    }
    return "dst";
}

static void meet_aliases(exec_instance_t *instance, exec_operand_t *operand, exec_access_t access) {
    switch (access) {
    case ACCESS_READ: exec_alias_read(instance, operand, true); return;
    case ACCESS_READ_LOCAL: exec_alias_read(instance, operand, false); return;
    case ACCESS_WRITE: exec_alias_write_sram(instance, operand, false); return;
    case ACCESS_UPDATE: exec_alias_write_sram(instance, operand, true); return;
    }
}

sim_status_t exec_operand_make(exec_instance_t *instance, uint16_t ap, exec_access_t access,
                               exec_operand_t *out_operand) {
    exec_operand_t *operand = out_operand;
    bool is_write = access == ACCESS_WRITE || access == ACCESS_UPDATE;
    dev_view_make(&operand->view, &instance->program->ap[ap], instance->cursor, instance->launch,
                  instance->grid_pos);
    operand->ptr = NULL;
    operand->low = operand->high = 0;
    if (operand->view.count == 0 || operand->view.space == VNPU_SPACE_IOTA) return SIM_OK;
    dev_view_extent(&operand->view, &operand->low, &operand->high);
    sim_status_t status =
        exec_translate(instance, operand->view.space, operand->low, operand->high, is_write,
                       operand_name(instance->insn, ap, is_write), &operand->ptr);
    if (status != SIM_OK) return status;
    operand->ptr += operand->view.base - operand->low;
    if (instance->num_aliases && operand->view.space == VNPU_SPACE_SRAM)
        meet_aliases(instance, operand, access);
    return SIM_OK;
}

bool exec_is_unknown(const exec_instance_t *instance, const exec_operand_t *operand) {
    if (instance->exec->options.mode != DEV_EXEC_TIMING || !dev_is_float(operand->view.dtype))
        return false;
    return operand->view.space != VNPU_SPACE_ARG && operand->view.space != VNPU_SPACE_IOTA;
}
