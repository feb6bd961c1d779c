/*
 * The driver calls that the kernel library makes, served by the device library in this process: no
 * rings, no time, values only. Kernel tests link it instead of libvnpu, so that they also run in
 * the executor's chaos mode.
 */
#ifndef SHIM_H
#define SHIM_H

#include "device/dev_exec.h"
#include "driver/vnpu.h"

/* config: "default" or "tiny"; overrides as in sim_config_load, or NULL. Aborts the test on
 * failure. */
void shim_open(const char *config, const char *overrides, dev_exec_mode_t mode, uint64_t seed);
/* What the machine says of its memory's speed, for all that is opened later: 800 GB/s at first. */
void shim_set_dram(uint64_t bytes_per_s);
void shim_close(void);
vnpu_addr_t shim_alloc(size_t bytes);
void shim_free(vnpu_addr_t address);
/* Host pointer of device memory. */
void *shim_host(vnpu_addr_t address, size_t bytes);
/* Text of a failed launch or load; "" if none. */
const char *shim_detail(void);
/* The program of the last launch, and its grid. */
const dev_launch_t *shim_last_launch(void);
/* Launches, and instructions of all programs loaded, since shim_open. */
uint64_t shim_launches(void);
uint64_t shim_modules(void);

#endif
