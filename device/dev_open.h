/*
 * A chip as the environment asks for it: VNPU_CONFIG (name or path), VNPU_OPTIONS (overrides),
 * VNPU_CONFIG_DIR, and what dev_chip_options_from_env reads. Used by vnpud and by the in-process
 * device.
 */
#ifndef DEV_OPEN_H
#define DEV_OPEN_H

#include "device/dev_chip.h"

typedef struct dev_open {
    sim_config_t *config;
    dev_chip_t *chip;
    uint32_t client; /* the one client */
    const char
        *step; /* what was being done when it failed: "options", "config", "chip", "client" */
} dev_open_t;

/* anchor: path of the executable or library that configs are looked for beside (may be NULL). */
sim_status_t dev_open(dev_open_t *open, char *const *env, const char *anchor,
                      sim_error_t *err) SIM_MUST_USE;
void dev_open_close(dev_open_t *open); /* half open is fine */

#endif
