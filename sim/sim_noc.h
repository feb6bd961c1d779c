/*
 * Interconnect between cores and memory: one interface, four topologies (noc.type).
 *
 * crossbar: sim_xbar.h, with one memory port.
 * ring, mesh, torus: a grid of noc.columns x noc.rows routers, numbered row by row; each core and
 * each memory endpoint sits at a router (noc.core_nodes, noc.memory_nodes; several may share one).
 * Messages go along x, then along y; a ring and a torus take the shorter way round, the rising one
 * on a tie. With noc.networks = 2 a ring or a torus is two networks of one-way links: network 0
 * goes +x then +y, network 1 -y then -x (as on Tensix); a message names its network.
 *
 * A message is cut in packets of at most max_packet_bytes. A packet of b bytes passes the port of
 * its source, the links, the port of its destination; each is a server, busy for
 *   link  header_flits + ceil(b / bytes_per_cycle) cycles,
 *   port  the same at the port's width (bytes_per_cycle of a core, memory_bytes_per_cycle of a
 *         memory endpoint), or b / limit where core_inject, core_absorb, memory_inject or
 *         memory_absorb is slower,
 *   and at the source b / rate(b), rate interpolated linearly between the points of packet_rate.
 * Virtual cut-through: the head goes on after inject_cycles, hop_cycles per link and eject_cycles,
 * waits where a server is busy; the tail is as slow as the slowest server. Zero load:
 *   inject + hops x hop + eject + max(servers), rounded up to a cycle.
 * The whole way is reserved when a message is sent, with no event: an earlier message keeps what it
 * reserved, a later one may pass through the gaps (as on other virtual channels).
 * With classes = separate, requests and responses have links and ports of their own.
 *
 * Source of the form: Tenstorrent's tt-npe (message-level, checked on silicon), docs/timing.md.
 * Calls come in non-decreasing time.
 */
#ifndef SIM_NOC_H
#define SIM_NOC_H

#include "sim/sim_config.h"
#include "sim/sim_op.h"

typedef enum sim_noc_class {
    SIM_NOC_REQUEST,
    SIM_NOC_RESPONSE,
    SIM_NOC_CLASS_COUNT
} sim_noc_class_t;

/* Ports 0 .. cores - 1 are the cores, then come the memory endpoints. */
typedef struct sim_noc_path {
    uint32_t src_port, dst_port;
    uint32_t network; /* below sim_noc_networks */
    sim_noc_class_t cls;
} sim_noc_path_t;

typedef struct sim_noc_stats {
    uint64_t messages, bytes; /* payload; a multicast counts once */
    uint64_t byte_hops;       /* payload times links passed; a crossbar is one link */
} sim_noc_stats_t;

typedef struct sim_noc sim_noc_t;
sim_status_t sim_noc_create(const sim_config_t *config, uint32_t cores, sim_noc_t **out_noc,
                            sim_error_t *err) SIM_MUST_USE;
void sim_noc_destroy(sim_noc_t *noc);
void sim_noc_reset(sim_noc_t *noc); /* new epoch; statistics back to zero */

uint32_t sim_noc_networks(const sim_noc_t *noc);
uint32_t sim_noc_memory_ports(const sim_noc_t *noc);
/* The port that serves a DRAM channel: channels take turns over the memory endpoints. */
uint32_t sim_noc_memory_port(const sim_noc_t *noc, uint32_t channel);
/* True: a read sends a request to the memory first. False (crossbar): its latency is the one of
 * the data. */
bool sim_noc_has_requests(const sim_noc_t *noc);
uint32_t sim_noc_hops(const sim_noc_t *noc, sim_noc_path_t path);
/* The first port at a router. False: there is none, or no router (crossbar). */
bool sim_noc_port_at(const sim_noc_t *noc, uint32_t column, uint32_t row, uint32_t *out_port);

/* Message of `bytes` entering at `now`; 0 bytes: a header alone. Returns arrival of its last byte.
 */
sim_tick_t sim_noc_send(sim_noc_t *noc, sim_noc_path_t path, uint64_t bytes, sim_tick_t now);
/* One message to `count` ports (path.dst_port is not read): injected once, every distinct link of
 * the ways carries it once. Arrival of its last byte at each in out_arrival. */
void sim_noc_multicast(sim_noc_t *noc, sim_noc_path_t path, const uint32_t *dst_port,
                       uint32_t count, uint64_t bytes, sim_tick_t now, sim_tick_t *out_arrival);
const sim_noc_stats_t *sim_noc_stats(const sim_noc_t *noc);

/* Memory endpoints of a configuration; 0 of a wrong one. */
uint32_t sim_noc_endpoints_of(const sim_config_t *config);
/* Checks the keys of the section together; the reason in err. */
sim_status_t sim_noc_check(const sim_config_t *config, sim_error_t *err) SIM_MUST_USE;
/* Idle cycles of noc.clock that the interconnect adds to a read, payload aside: latency_cycles, or
 * the way there and back averaged over cores, endpoints and networks, rounded down. 0 on a wrong
 * configuration. */
uint64_t sim_noc_read_cycles(const sim_config_t *config);

#endif
