/*
 * The chip: memory, modules, executor, timing engine and command processor behind one call. vnpud's
 * chip thread and the in-process transport both drive it; it knows no sockets, rings or loops. One
 * thread at a time.
 */
#ifndef DEV_CHIP_H
#define DEV_CHIP_H

#include <stdio.h>

#include "device/dev_exec.h"
#include "device/vnpu_packet.h"
#include "sim/sim_config.h"

typedef struct dev_chip dev_chip_t;

typedef enum dev_mode {
    DEV_MODE_FULL = 0,
    DEV_MODE_TIMING = 1,
    DEV_MODE_FUNCTIONAL = 2,
    DEV_MODE_CHAOS = 3
} dev_mode_t;
typedef enum dev_reuse { DEV_REUSE_ON = 0, DEV_REUSE_OFF = 1, DEV_REUSE_CHECK = 2 } dev_reuse_t;

typedef struct dev_chip_options {
    dev_mode_t mode;
    dev_reuse_t reuse;
    uint32_t threads;     /* executor threads, 0: automatic */
    int isa_level;        /* 0, 2 (avx2) or 5 (avx512) */
    uint64_t seed;        /* chaos */
    uint64_t host_limit;  /* bytes of memory to back at most, 0: automatic */
    const char *dump_dir; /* VNPU_DUMP, or NULL */
} dev_chip_options_t;

/* Fills options from a NULL-terminated environment ("VNPU_MODE=timing", VNPU_REUSE, VNPU_THREADS,
 * VNPU_ISA, VNPU_SEED, VNPU_DUMP, VNPU_HOST_LIMIT). A bad value is an error that names variable,
 * value and what would be right. */
sim_status_t dev_chip_options_from_env(char *const *env, dev_chip_options_t *options,
                                       sim_error_t *err) SIM_MUST_USE;

/*
 * Finds a configuration: `name_or_path` is a path, or a name looked up as <dir>/<name>.ini in
 * config_dir. overrides: see sim_config_load. NULL name: "default".
 */
sim_status_t dev_chip_load_config(const char *name_or_path, const char *overrides,
                                  const char *config_dir, sim_config_t **out_config,
                                  sim_error_t *err) SIM_MUST_USE;

/* config is borrowed for the chip's life. */
sim_status_t dev_chip_create(const sim_config_t *config, const dev_chip_options_t *options,
                             dev_chip_t **out_chip, sim_error_t *err) SIM_MUST_USE;
void dev_chip_destroy(dev_chip_t *chip);

/* A client: its memory, modules, sticky error, profile and clock. id >= 1. */
sim_status_t dev_chip_client_open(dev_chip_t *chip, uint32_t *out_client) SIM_MUST_USE;
void dev_chip_client_close(dev_chip_t *chip, uint32_t client); /* frees everything it had */

/*
 * Executes one packet to its end, values and time, and fills the completion. `packet` is a private
 * copy of packet->slots slots (arguments included). payload_in: bytes of an H2D or MODULE_LOAD
 * chunk (packet.u.copy.bytes, checked by the caller to lie in the client's shared memory);
 * payload_out likewise for D2H and BLOB_READ. Never fails itself: bad packets complete with a
 * status on that client alone. Errors of programs are sticky: later work completes with the same
 * status until RESET.
 */
void dev_chip_execute(dev_chip_t *chip, uint32_t client, const vnpu_packet_t *packet,
                      const void *payload_in, void *payload_out, vnpu_completion_t *out_completion);

#endif
