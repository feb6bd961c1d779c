/* Private to sim_noc*.c: where everything sits, what a packet costs. */
#ifndef SIM_NOC_INTERNAL_H
#define SIM_NOC_INTERNAL_H

#include "sim/sim_noc.h"

#define SIM_NOC_MAX_NODES 1024u
#define SIM_NOC_MAX_PORTS 1024u
#define SIM_NOC_MAX_RATES 16u

typedef enum sim_noc_type { /* order of the choices of noc.type */
                            SIM_NOC_CROSSBAR = 0,
                            SIM_NOC_RING,
                            SIM_NOC_MESH,
                            SIM_NOC_TORUS
} sim_noc_type_t;

typedef struct sim_noc_layout {
    sim_noc_type_t type;
    uint32_t columns, rows, networks;
    uint32_t cores, ports;
    uint16_t node[SIM_NOC_MAX_PORTS]; /* of each port */
} sim_noc_layout_t;

/* Reads and checks noc.type, columns, rows, networks, core_nodes, memory_nodes. */
sim_status_t sim_noc_layout_init(const sim_config_t *config, uint32_t cores,
                                 sim_noc_layout_t *out_layout, sim_error_t *err) SIM_MUST_USE;

typedef enum sim_noc_direction { /* of a link, seen from the router that it leaves */
                                 SIM_NOC_EAST,
                                 SIM_NOC_WEST,
                                 SIM_NOC_SOUTH,
                                 SIM_NOC_NORTH,
                                 SIM_NOC_DIRECTIONS
} sim_noc_direction_t;

/* The next router on the way from `from` to `to`, which differ, and the link to it. */
uint32_t sim_noc_next(const sim_noc_layout_t *layout, uint32_t network, uint32_t from, uint32_t to,
                      sim_noc_direction_t *out_direction);

/* Measured bytes per cycle by packet size, in millionths; rising sizes. */
typedef struct sim_noc_rates {
    uint32_t count;
    uint64_t bytes[SIM_NOC_MAX_RATES], rate[SIM_NOC_MAX_RATES];
} sim_noc_rates_t;
#define SIM_NOC_RATE_UNIT UINT64_C(1000000)

/* noc.packet_rate: "128:5.5 256:10.1", or "none" (count 0). */
sim_status_t sim_noc_rates_init(const sim_config_t *config, sim_noc_rates_t *out_rates,
                                sim_error_t *err) SIM_MUST_USE;
/* Below the first size a packet takes as long as one of that size; above the last its rate holds.
 */
uint64_t sim_noc_rate_at(const sim_noc_rates_t *rates, uint64_t bytes);

#endif
