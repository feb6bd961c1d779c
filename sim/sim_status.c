#include "sim/sim_status.h"

#include <stdio.h>
#include <stdlib.h>

sim_status_t sim_error_set(sim_error_t *err, sim_status_t status, const char *format, ...) {
    if (err == NULL || err->status != SIM_OK) return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return status;
}

const char *sim_status_name(sim_status_t status) {
    switch (status) {
    case SIM_OK: return "OK";
    case SIM_ERROR_INVALID_VALUE: return "INVALID_VALUE";
    case SIM_ERROR_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case SIM_ERROR_NOT_INITIALIZED: return "NOT_INITIALIZED";
    case SIM_ERROR_NOT_FOUND: return "NOT_FOUND";
    case SIM_ERROR_INVALID_HANDLE: return "INVALID_HANDLE";
    case SIM_ERROR_NOT_READY: return "NOT_READY";
    case SIM_ERROR_NOT_PERMITTED: return "NOT_PERMITTED";
    case SIM_ERROR_FORKED: return "FORKED";
    case SIM_ERROR_ABI_MISMATCH: return "ABI_MISMATCH";
    case SIM_ERROR_CONFIG: return "CONFIG";
    case SIM_ERROR_INVALID_IMAGE: return "INVALID_IMAGE";
    case SIM_ERROR_QUEUE_FULL: return "QUEUE_FULL";
    case SIM_ERROR_IO: return "IO";
    case SIM_ERROR_UNSUPPORTED: return "UNSUPPORTED";
    case SIM_ERROR_ILLEGAL_ADDRESS: return "ILLEGAL_ADDRESS";
    case SIM_ERROR_ILLEGAL_INSTRUCTION: return "ILLEGAL_INSTRUCTION";
    case SIM_ERROR_SRAM_OVERFLOW: return "SRAM_OVERFLOW";
    case SIM_ERROR_DEADLOCK: return "DEADLOCK";
    case SIM_ERROR_TRAP: return "TRAP";
    case SIM_ERROR_INDEX_OUT_OF_RANGE: return "INDEX_OUT_OF_RANGE";
    case SIM_ERROR_VALUE_UNKNOWN: return "VALUE_UNKNOWN";
    case SIM_ERROR_DEVICE_LOST: return "DEVICE_LOST";
    case SIM_ERROR_INTERNAL: return "INTERNAL";
    }
    return "UNKNOWN"; /* a code from elsewhere: the enum above is complete (-Wswitch) */
}

_Noreturn void sim_bug(const char *component, unsigned long long tick, const char *format, ...) {
    (void)fprintf(stderr, "vnpu: simulator bug in %s at tick %llu: ", component, tick);
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    abort();
}
