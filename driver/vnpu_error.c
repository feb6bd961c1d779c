#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/vnpu_internal.h"
#include "sim/sim_status.h"

#define SAME(name)                                                                                 \
    static_assert((int)VNPU_##name == (int)SIM_##name, "status codes of driver and simulator")
SAME(OK);
SAME(ERROR_INVALID_VALUE);
SAME(ERROR_OUT_OF_MEMORY);
SAME(ERROR_NOT_INITIALIZED);
SAME(ERROR_NOT_FOUND);
SAME(ERROR_INVALID_HANDLE);
SAME(ERROR_NOT_READY);
SAME(ERROR_NOT_PERMITTED);
SAME(ERROR_FORKED);
SAME(ERROR_ABI_MISMATCH);
SAME(ERROR_CONFIG);
SAME(ERROR_INVALID_IMAGE);
SAME(ERROR_QUEUE_FULL);
SAME(ERROR_IO);
SAME(ERROR_UNSUPPORTED);
SAME(ERROR_ILLEGAL_ADDRESS);
SAME(ERROR_ILLEGAL_INSTRUCTION);
SAME(ERROR_SRAM_OVERFLOW);
SAME(ERROR_DEADLOCK);
SAME(ERROR_TRAP);
SAME(ERROR_INDEX_OUT_OF_RANGE);
SAME(ERROR_VALUE_UNKNOWN);
SAME(ERROR_DEVICE_LOST);
SAME(ERROR_INTERNAL);

static _Thread_local char detail[VNPU__TEXT];

vnpu_status_t vnpu__fail(vnpu_status_t status, const char *format, ...) {
    char text[VNPU__TEXT]; /* arguments may point into the old detail */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(detail, text, sizeof text);
    return status;
}

size_t vnpu_error_detail(char *text, size_t text_bytes) {
    if (text != NULL && text_bytes > 0) {
        snprintf(text, text_bytes, "%s", detail);
    }
    return strlen(detail);
}

const char *vnpu_status_name(vnpu_status_t status) {
#define NAME(name)                                                                                 \
    case VNPU_##name: return "VNPU_" #name
    switch (status) {
        NAME(OK);
        NAME(ERROR_INVALID_VALUE);
        NAME(ERROR_OUT_OF_MEMORY);
        NAME(ERROR_NOT_INITIALIZED);
        NAME(ERROR_NOT_FOUND);
        NAME(ERROR_INVALID_HANDLE);
        NAME(ERROR_NOT_READY);
        NAME(ERROR_NOT_PERMITTED);
        NAME(ERROR_FORKED);
        NAME(ERROR_ABI_MISMATCH);
        NAME(ERROR_CONFIG);
        NAME(ERROR_INVALID_IMAGE);
        NAME(ERROR_QUEUE_FULL);
        NAME(ERROR_IO);
        NAME(ERROR_UNSUPPORTED);
        NAME(ERROR_ILLEGAL_ADDRESS);
        NAME(ERROR_ILLEGAL_INSTRUCTION);
        NAME(ERROR_SRAM_OVERFLOW);
        NAME(ERROR_DEADLOCK);
        NAME(ERROR_TRAP);
        NAME(ERROR_INDEX_OUT_OF_RANGE);
        NAME(ERROR_VALUE_UNKNOWN);
        NAME(ERROR_DEVICE_LOST);
        NAME(ERROR_INTERNAL);
    }
#undef NAME
    return "VNPU_ERROR_UNKNOWN";
}
