/*
 * Crossbar between cores and memory: every port is a server of `bytes_per_cycle` in each direction;
 * a message occupies its source and its destination port for its serialisation time (virtual
 * cut-through) and arrives `latency` cycles later. First come, first served in call order; calls
 * must come in non-decreasing time. Zero-load: latency + ceil(bytes / width). Two messages into one
 * port share it as bandwidth (each finishes as if queued); disjoint ports do not disturb each
 * other.
 */
#ifndef SIM_XBAR_H
#define SIM_XBAR_H

#include "sim/sim_config.h"
#include "sim/sim_op.h"

typedef struct sim_xbar sim_xbar_t;
/* Ports 0..cores-1 are the cores; port `cores` is the memory side (dram.channels wide enough:
 * noc.memory_bytes_per_cycle). */
sim_status_t sim_xbar_create(const sim_config_t *config, uint32_t cores,
                             sim_xbar_t **out_xbar) SIM_MUST_USE;
void sim_xbar_destroy(sim_xbar_t *xbar);
void sim_xbar_reset(sim_xbar_t *xbar);
/* Message of `bytes` entering at `now`; returns arrival of its last byte. */
sim_tick_t sim_xbar_send(sim_xbar_t *xbar, uint32_t src_port, uint32_t dst_port, uint64_t bytes,
                         sim_tick_t now);
/* The same to `count` ports: the source port carries it once. */
void sim_xbar_multicast(sim_xbar_t *xbar, uint32_t src_port, const uint32_t *dst_port,
                        uint32_t count, uint64_t bytes, sim_tick_t now, sim_tick_t *out_arrival);

#endif
