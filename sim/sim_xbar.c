#include "sim/sim_xbar.h"

#include <stdlib.h>

typedef struct port {
    uint64_t bytes_per_cycle;
    uint64_t out_free_cycle, in_free_cycle;
} port_t;

struct sim_xbar {
    sim_clock_t clock;
    uint64_t latency_cycles;
    sim_tick_t last; /* of the calls, which come in order */
    uint32_t port_count;
    port_t port[];
};

sim_status_t sim_xbar_create(const sim_config_t *config, uint32_t cores, sim_xbar_t **out_xbar) {
    *out_xbar = NULL;
    if (cores == 0 || cores == UINT32_MAX) return SIM_ERROR_INVALID_VALUE;
    sim_xbar_t *xbar = calloc(1, sizeof *xbar + ((size_t)cores + 1) * sizeof xbar->port[0]);
    if (xbar == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    sim_status_t status = sim_clock_init(&xbar->clock, sim_config_u64(config, "noc.clock"));
    if (status != SIM_OK) {
        sim_xbar_destroy(xbar);
        return status;
    }
    xbar->latency_cycles = sim_config_u64(config, "noc.latency_cycles");
    xbar->port_count = cores + 1;
    for (uint32_t i = 0; i < cores; i++)
        xbar->port[i].bytes_per_cycle = sim_config_u64(config, "noc.bytes_per_cycle");
    xbar->port[cores].bytes_per_cycle = sim_config_u64(config, "noc.memory_bytes_per_cycle");
    *out_xbar = xbar;
    return SIM_OK;
}

void sim_xbar_destroy(sim_xbar_t *xbar) {
    free(xbar);
}

void sim_xbar_reset(sim_xbar_t *xbar) {
    xbar->last = 0;
    for (uint32_t i = 0; i < xbar->port_count; i++)
        xbar->port[i].out_free_cycle = xbar->port[i].in_free_cycle = 0;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/*
 * The head leaves as soon as the source port is free and enters each destination as soon as that
 * one is free; each port is busy for the message at its own width, the tail arrives when the slower
 * of the two has passed it.
 */
void sim_xbar_multicast(sim_xbar_t *xbar, uint32_t src_port, const uint32_t *dst_port,
                        uint32_t count, uint64_t bytes, sim_tick_t now, sim_tick_t *out_arrival) {
    if (now < xbar->last) sim_bug("sim_xbar", now, "called back in time");
    if (src_port >= xbar->port_count)
        sim_bug("sim_xbar", now, "port %u of %u", src_port, xbar->port_count);
    xbar->last = now;
    port_t *src = &xbar->port[src_port];
    uint64_t out = later(sim_clock_cycle_up(&xbar->clock, now), src->out_free_cycle);
    src->out_free_cycle = out + (bytes + src->bytes_per_cycle - 1) / src->bytes_per_cycle;
    for (uint32_t i = 0; i < count; i++) {
        if (dst_port[i] >= xbar->port_count)
            sim_bug("sim_xbar", now, "port %u to %u of %u", src_port, dst_port[i],
                    xbar->port_count);
        port_t *dst = &xbar->port[dst_port[i]];
        uint64_t in = later(out, dst->in_free_cycle);
        dst->in_free_cycle = in + (bytes + dst->bytes_per_cycle - 1) / dst->bytes_per_cycle;
        uint64_t tail = later(src->out_free_cycle, dst->in_free_cycle);
        out_arrival[i] = sim_clock_tick(&xbar->clock, tail + xbar->latency_cycles);
    }
}

sim_tick_t sim_xbar_send(sim_xbar_t *xbar, uint32_t src_port, uint32_t dst_port, uint64_t bytes,
                         sim_tick_t now) {
    sim_tick_t arrival;
    sim_xbar_multicast(xbar, src_port, &dst_port, 1, bytes, now, &arrival);
    return arrival;
}
