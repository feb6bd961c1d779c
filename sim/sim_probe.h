/*
 * Measured memory bandwidth of a configuration: the DMA engines of every core that computes read
 * through interconnect and DRAM, in time alone, until the work is done. What a chip achieves beside
 * its peak, whichever part limits it: engines (bytes in flight, requests), ports, links, rows,
 * refresh.
 *
 *   stream  64 MiB from address 0 in transfers of 64 KiB, dealt to the engines in turn
 *   random  32768 reads of 64 bytes at addresses that a fixed generator draws from the first 4 GiB
 *           (or all of the memory), in transfers of 256 rows
 * Both start with every bank precharged, as an epoch does. Pure functions of the configuration.
 * A run takes 0.05 to 1 s of a host's time, so nothing runs it when a configuration is loaded:
 * `vnpu info` does, and a report.
 */
#ifndef SIM_PROBE_H
#define SIM_PROBE_H

#include "sim/sim_config.h"

typedef struct sim_probe {
    uint64_t stream_bytes_per_s, random_bytes_per_s; /* rounded down */
} sim_probe_t;

/* Fails where the units refuse the configuration, or memory is out. */
sim_status_t sim_probe_run(const sim_config_t *config, sim_probe_t *out_probe,
                           sim_error_t *err) SIM_MUST_USE;

#endif
