/*
 * Status codes and error texts shared by every layer. A fallible function returns a must-use
 * sim_status_t (0 = OK); the reason in words goes into a caller-owned sim_error_t when one is
 * given. Public codes are those of driver/vnpu.h, which must stay equal (asserted in driver/).
 */
#ifndef SIM_STATUS_H
#define SIM_STATUS_H

#include <stdarg.h>
#include <stddef.h>

typedef enum sim_status {
    SIM_OK = 0,
    SIM_ERROR_INVALID_VALUE = 1,
    SIM_ERROR_OUT_OF_MEMORY = 2,
    SIM_ERROR_NOT_INITIALIZED = 3,
    SIM_ERROR_NOT_FOUND = 4,
    SIM_ERROR_INVALID_HANDLE = 5,
    SIM_ERROR_NOT_READY = 6,
    SIM_ERROR_NOT_PERMITTED = 7,
    SIM_ERROR_FORKED = 8,
    SIM_ERROR_ABI_MISMATCH = 9,
    SIM_ERROR_CONFIG = 10,
    SIM_ERROR_INVALID_IMAGE = 11,
    SIM_ERROR_QUEUE_FULL = 12,
    SIM_ERROR_IO = 13,
    SIM_ERROR_UNSUPPORTED = 14,
    SIM_ERROR_ILLEGAL_ADDRESS = 32, /* 32..47: faults of a program, sticky */
    SIM_ERROR_ILLEGAL_INSTRUCTION = 33,
    SIM_ERROR_SRAM_OVERFLOW = 34,
    SIM_ERROR_DEADLOCK = 35,
    SIM_ERROR_TRAP = 36,
    SIM_ERROR_INDEX_OUT_OF_RANGE = 37,
    SIM_ERROR_VALUE_UNKNOWN = 38, /* timing mode: a float value was asked for */
    SIM_ERROR_DEVICE_LOST = 48,
    SIM_ERROR_INTERNAL = 63
} sim_status_t;

#define SIM_MUST_USE     __attribute__((warn_unused_result))
#define SIM_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* A reason in words. Zero-initialise; the first failure wins, later ones are kept out. */
typedef struct sim_error {
    sim_status_t status;
    char text[1000]; /* one line, or a multi-line report (deadlock) */
} sim_error_t;

/* Records status and text unless one is recorded already; err may be NULL. Returns status. */
sim_status_t sim_error_set(sim_error_t *err, sim_status_t status, const char *format, ...)
    SIM_PRINTF(3, 4);

/* "INVALID_VALUE" etc.; never NULL. */
const char *sim_status_name(sim_status_t status);

/* A bug of the simulator itself: prints component, simulated tick and text on stderr and aborts. */
_Noreturn void sim_bug(const char *component, unsigned long long tick, const char *format, ...)
    SIM_PRINTF(3, 4);

#endif
