#include "sim/sim_noc.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_noc_internal.h"
#include "sim/sim_xbar.h"

/* Servers are booked in parts of a cycle, so that 28.1 bytes a cycle stay 28.1. */
#define PARTS         UINT64_C(256)
#define MAX_INTERVALS 24u

__extension__ typedef unsigned __int128 wide_t;

/* When a server is busy: sorted intervals that do not touch, what has passed dropped. */
typedef struct calendar {
    uint32_t count;
    struct {
        uint64_t start, end;
    } busy[MAX_INTERVALS];
} calendar_t;

/* Bytes per cycle: of the wires, and what was measured to be slower (0: nothing). */
typedef struct port_limit {
    uint64_t width;
    sim_ratio_t limit;
} port_limit_t;

/* A packet on its way: where in time its head is at the next server, its tail behind the last. */
typedef struct flight {
    uint64_t head, tail;
} flight_t;

/* A link's part in the multicast that is being sent: the packet behind it. */
typedef struct branch {
    uint64_t stamp;
    flight_t flight;
} branch_t;

struct sim_noc {
    sim_xbar_t *xbar; /* crossbar: everything else but clock and statistics is unused */
    sim_clock_t clock;
    sim_noc_layout_t layout;
    sim_noc_rates_t rates;
    sim_noc_stats_t stats;
    uint64_t link_bytes, header_flits, max_packet_bytes;
    uint64_t inject, hop, eject; /* parts */
    port_limit_t out[2], in[2];  /* of a core, of a memory endpoint */
    uint32_t class_count;        /* of links and ports: 1 shared, 2 separate */
    sim_tick_t last;
    uint64_t stamp;
    uint32_t link_count, port_count; /* of a class */
    uint64_t *out_free;              /* [class][network][port]: messages leave in order */
    calendar_t *in_busy;             /* [class][network][port] */
    calendar_t *link_busy;           /* [class][network][node][direction] */
    branch_t *branch;                /* as link_busy */
};

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ---- servers --------------------------------------------------------------- */

/* Makes room by joining the two neighbours with the smallest gap. */
static void join_closest(calendar_t *calendar) {
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < calendar->count; i++)
        if (calendar->busy[i + 1].start - calendar->busy[i].end <
            calendar->busy[best + 1].start - calendar->busy[best].end)
            best = i;
    calendar->busy[best].end = calendar->busy[best + 1].end;
    calendar->count--;
    memmove(&calendar->busy[best + 1], &calendar->busy[best + 2],
            (calendar->count - best - 1) * sizeof calendar->busy[0]);
}

static void insert(calendar_t *calendar, uint32_t at, uint64_t start, uint64_t end) {
    bool meets_left = at > 0 && calendar->busy[at - 1].end == start;
    bool meets_right = at < calendar->count && calendar->busy[at].start == end;
    if (meets_left && meets_right) {
        calendar->busy[at - 1].end = calendar->busy[at].end;
        calendar->count--;
        memmove(&calendar->busy[at], &calendar->busy[at + 1],
                (calendar->count - at) * sizeof calendar->busy[0]);
    } else if (meets_left) {
        calendar->busy[at - 1].end = end;
    } else if (meets_right) {
        calendar->busy[at].start = start;
    } else {
        memmove(&calendar->busy[at + 1], &calendar->busy[at],
                (calendar->count - at) * sizeof calendar->busy[0]);
        calendar->busy[at].start = start;
        calendar->busy[at].end = end;
        calendar->count++;
    }
    if (calendar->count == MAX_INTERVALS) join_closest(calendar);
}

/* Books the first `length` parts from `from` on that are free; nothing is asked before `now`. */
static uint64_t reserve(calendar_t *calendar, uint64_t now, uint64_t from, uint64_t length) {
    uint32_t passed = 0;
    while (passed < calendar->count && calendar->busy[passed].end <= now)
        passed++;
    if (passed > 0) {
        calendar->count -= passed;
        memmove(&calendar->busy[0], &calendar->busy[passed],
                calendar->count * sizeof calendar->busy[0]);
    }
    uint64_t start = from;
    uint32_t at = 0;
    for (; at < calendar->count && calendar->busy[at].start < start + length; at++)
        start = later(start, calendar->busy[at].end);
    insert(calendar, at, start, start + length);
    return start;
}

static uint64_t flit_parts(const sim_noc_t *noc, uint64_t bytes, uint64_t width) {
    uint64_t flits = noc->header_flits + (bytes + width - 1) / width;
    return (flits > 0 ? flits : 1) * PARTS;
}

static uint64_t port_parts(const sim_noc_t *noc, const port_limit_t *port, uint64_t bytes) {
    uint64_t parts = flit_parts(noc, bytes, port->width);
    if (port->limit.num == 0) return parts;
    wide_t slow = ((wide_t)bytes * PARTS * port->limit.den + port->limit.num - 1) / port->limit.num;
    return later(parts, (uint64_t)slow);
}

static uint64_t source_parts(const sim_noc_t *noc, const port_limit_t *port, uint64_t bytes) {
    uint64_t parts = port_parts(noc, port, bytes);
    if (noc->rates.count == 0 || bytes == 0) return parts;
    uint64_t rate = later(sim_noc_rate_at(&noc->rates, bytes), 1);
    return later(parts, (bytes * PARTS * SIM_NOC_RATE_UNIT + rate - 1) / rate);
}

/* ---- packets ---------------------------------------------------------------- */

/* One server of the way: the head waits for it, the tail follows at its speed. */
static void pass(flight_t *flight, uint64_t start, uint64_t busy, uint64_t latency) {
    flight->tail = later(flight->tail, start + busy) + latency;
    flight->head = start + latency;
}

static uint32_t plane_of(const sim_noc_t *noc, sim_noc_path_t path) {
    return (noc->class_count == 2 ? (uint32_t)path.cls : 0) * noc->layout.networks + path.network;
}

static flight_t leave_source(sim_noc_t *noc, sim_noc_path_t path, uint64_t bytes, uint64_t from) {
    uint32_t port = plane_of(noc, path) * noc->layout.ports + path.src_port;
    uint64_t busy = source_parts(noc, &noc->out[path.src_port >= noc->layout.cores], bytes);
    uint64_t start = later(from, noc->out_free[port]);
    flight_t flight = {start, start};
    noc->out_free[port] = start + busy;
    pass(&flight, start, busy, noc->inject);
    return flight;
}

/* The links of the way; those that this multicast has passed already are not passed again. */
static flight_t follow_links(sim_noc_t *noc, sim_noc_path_t path, flight_t flight, uint64_t bytes,
                             uint64_t now) {
    uint32_t node = noc->layout.node[path.src_port], to = noc->layout.node[path.dst_port];
    uint32_t nodes = noc->layout.columns * noc->layout.rows;
    uint64_t busy = flit_parts(noc, bytes, noc->link_bytes);
    while (node != to) {
        sim_noc_direction_t direction;
        uint32_t next = sim_noc_next(&noc->layout, path.network, node, to, &direction);
        uint32_t link =
            (plane_of(noc, path) * nodes + node) * SIM_NOC_DIRECTIONS + (uint32_t)direction;
        branch_t *branch = &noc->branch[link];
        if (branch->stamp != noc->stamp) {
            pass(&flight, reserve(&noc->link_busy[link], now, flight.head, busy), busy, noc->hop);
            *branch = (branch_t){noc->stamp, flight};
            noc->stats.byte_hops += bytes;
        } else {
            flight = branch->flight;
        }
        node = next;
    }
    return flight;
}

static uint64_t enter_destination(sim_noc_t *noc, sim_noc_path_t path, flight_t flight,
                                  uint64_t bytes, uint64_t now) {
    uint32_t port = plane_of(noc, path) * noc->layout.ports + path.dst_port;
    uint64_t busy = port_parts(noc, &noc->in[path.dst_port >= noc->layout.cores], bytes);
    pass(&flight, reserve(&noc->in_busy[port], now, flight.head, busy), busy, noc->eject);
    return flight.tail;
}

static void check_call(sim_noc_t *noc, sim_noc_path_t path, sim_tick_t now) {
    if (now < noc->last) sim_bug("sim_noc", now, "called back in time");
    if (path.src_port >= noc->layout.ports || path.dst_port >= noc->layout.ports ||
        path.network >= noc->layout.networks)
        sim_bug("sim_noc", now, "port %u to %u of %u, network %u", path.src_port, path.dst_port,
                noc->layout.ports, path.network);
    noc->last = now;
}

static sim_tick_t tick_of(const sim_noc_t *noc, uint64_t parts) {
    return sim_clock_tick(&noc->clock, (parts + PARTS - 1) / PARTS);
}

void sim_noc_multicast(sim_noc_t *noc, sim_noc_path_t path, const uint32_t *dst_port,
                       uint32_t count, uint64_t bytes, sim_tick_t now, sim_tick_t *out_arrival) {
    path.dst_port = path.src_port;
    check_call(noc, path, now);
    noc->stats.messages++;
    noc->stats.bytes += bytes;
    if (noc->xbar != NULL) {
        noc->stats.byte_hops += bytes;
        sim_xbar_multicast(noc->xbar, path.src_port, dst_port, count, bytes, now, out_arrival);
        return;
    }
    uint64_t from = sim_clock_cycle_up(&noc->clock, now) * PARTS, left = bytes;
    do {
        uint64_t packet = left < noc->max_packet_bytes ? left : noc->max_packet_bytes;
        flight_t flight = leave_source(noc, path, packet, from);
        noc->stamp++;
        for (uint32_t i = 0; i < count; i++) {
            path.dst_port = dst_port[i];
            check_call(noc, path, now);
            flight_t there = follow_links(noc, path, flight, packet, from);
            out_arrival[i] = tick_of(noc, enter_destination(noc, path, there, packet, from));
        }
        left -= packet;
    } while (left > 0);
}

sim_tick_t sim_noc_send(sim_noc_t *noc, sim_noc_path_t path, uint64_t bytes, sim_tick_t now) {
    sim_tick_t arrival;
    sim_noc_multicast(noc, path, &path.dst_port, 1, bytes, now, &arrival);
    return arrival;
}

/* ---- questions -------------------------------------------------------------- */

uint32_t sim_noc_networks(const sim_noc_t *noc) {
    return noc->layout.networks;
}

uint32_t sim_noc_memory_ports(const sim_noc_t *noc) {
    return noc->layout.ports - noc->layout.cores;
}

uint32_t sim_noc_memory_port(const sim_noc_t *noc, uint32_t channel) {
    return noc->layout.cores + channel % sim_noc_memory_ports(noc);
}

bool sim_noc_has_requests(const sim_noc_t *noc) {
    return noc->xbar == NULL;
}

static uint32_t hops_of(const sim_noc_layout_t *layout, sim_noc_path_t path) {
    uint32_t hops = 0, node = layout->node[path.src_port], to = layout->node[path.dst_port];
    for (sim_noc_direction_t direction; node != to; hops++)
        node = sim_noc_next(layout, path.network, node, to, &direction);
    return hops;
}

uint32_t sim_noc_hops(const sim_noc_t *noc, sim_noc_path_t path) {
    return noc->xbar != NULL ? 1 : hops_of(&noc->layout, path);
}

bool sim_noc_port_at(const sim_noc_t *noc, uint32_t column, uint32_t row, uint32_t *out_port) {
    if (noc->xbar != NULL || column >= noc->layout.columns || row >= noc->layout.rows) return false;
    for (uint32_t port = 0; port < noc->layout.ports; port++)
        if (noc->layout.node[port] == row * noc->layout.columns + column) {
            *out_port = port;
            return true;
        }
    return false;
}

const sim_noc_stats_t *sim_noc_stats(const sim_noc_t *noc) {
    return &noc->stats;
}

/* Keys of the routed topologies, with their defaults as the schema writes them. */
static const struct {
    const char *key, *unset;
} ROUTED[] = {{"noc.columns", "0"},
              {"noc.rows", "1"},
              {"noc.networks", "1"},
              {"noc.core_nodes", "all"},
              {"noc.memory_nodes", "left_right"},
              {"noc.inject_cycles", "1"},
              {"noc.hop_cycles", "1"},
              {"noc.eject_cycles", "1"},
              {"noc.header_flits", "1"},
              {"noc.max_packet_bytes", "4 KiB"},
              {"noc.packet_rate", "none"},
              {"noc.core_inject", "0"},
              {"noc.core_absorb", "0"},
              {"noc.memory_inject", "0"},
              {"noc.memory_absorb", "0"},
              {"noc.classes", "shared"}};

static sim_status_t no_effect(const sim_config_t *config, const char *key, sim_error_t *err) {
    return sim_error_set(err, SIM_ERROR_CONFIG, "%s = %s has no effect with noc.type = %s", key,
                         sim_config_text(config, key), sim_config_text(config, "noc.type"));
}

sim_status_t sim_noc_check(const sim_config_t *config, sim_error_t *err) {
    sim_noc_layout_t layout;
    sim_noc_rates_t rates;
    sim_status_t status = sim_noc_layout_init(config, sim_config_cores(config), &layout, err);
    if (status == SIM_OK) status = sim_noc_rates_init(config, &rates, err);
    if (status != SIM_OK) return status;
    if (layout.type != SIM_NOC_CROSSBAR)
        return sim_config_u64(config, "noc.latency_cycles") == 0
                   ? SIM_OK
                   : no_effect(config, "noc.latency_cycles", err);
    for (size_t i = 0; i < sizeof ROUTED / sizeof ROUTED[0]; i++)
        if (strcmp(sim_config_text(config, ROUTED[i].key), ROUTED[i].unset) != 0)
            return no_effect(config, ROUTED[i].key, err);
    return SIM_OK;
}

uint32_t sim_noc_endpoints_of(const sim_config_t *config) {
    sim_noc_layout_t layout;
    uint32_t cores = sim_config_cores(config);
    return sim_noc_layout_init(config, cores, &layout, NULL) == SIM_OK ? layout.ports - cores : 0;
}

uint64_t sim_noc_read_cycles(const sim_config_t *config) {
    sim_noc_layout_t layout;
    uint32_t cores = sim_config_cores(config);
    if (sim_noc_layout_init(config, cores, &layout, NULL) != SIM_OK) return 0;
    if (layout.type == SIM_NOC_CROSSBAR) return sim_config_u64(config, "noc.latency_cycles");
    uint64_t hops = 0, pairs = (uint64_t)cores * (layout.ports - cores) * layout.networks;
    for (uint32_t network = 0; network < layout.networks; network++)
        for (uint32_t core = 0; core < cores; core++)
            for (uint32_t port = cores; port < layout.ports; port++)
                hops += hops_of(&layout, (sim_noc_path_t){core, port, network, SIM_NOC_REQUEST}) +
                        hops_of(&layout, (sim_noc_path_t){port, core, network, SIM_NOC_RESPONSE});
    uint64_t ends =
        sim_config_u64(config, "noc.inject_cycles") + sim_config_u64(config, "noc.eject_cycles");
    return 2 * ends + hops * sim_config_u64(config, "noc.hop_cycles") / pairs;
}

/* ---- life cycle --------------------------------------------------------------- */

static void read_spec(sim_noc_t *noc, const sim_config_t *config) {
    noc->link_bytes = sim_config_u64(config, "noc.bytes_per_cycle");
    noc->header_flits = sim_config_u64(config, "noc.header_flits");
    noc->max_packet_bytes = sim_config_u64(config, "noc.max_packet_bytes");
    noc->inject = sim_config_u64(config, "noc.inject_cycles") * PARTS;
    noc->hop = sim_config_u64(config, "noc.hop_cycles") * PARTS;
    noc->eject = sim_config_u64(config, "noc.eject_cycles") * PARTS;
    noc->class_count = strcmp(sim_config_str(config, "noc.classes"), "separate") == 0 ? 2 : 1;
    uint64_t memory = sim_config_u64(config, "noc.memory_bytes_per_cycle");
    noc->out[0] = (port_limit_t){noc->link_bytes, sim_config_ratio(config, "noc.core_inject")};
    noc->out[1] = (port_limit_t){memory, sim_config_ratio(config, "noc.memory_inject")};
    noc->in[0] = (port_limit_t){noc->link_bytes, sim_config_ratio(config, "noc.core_absorb")};
    noc->in[1] = (port_limit_t){memory, sim_config_ratio(config, "noc.memory_absorb")};
}

static sim_status_t allocate(sim_noc_t *noc) {
    uint32_t planes = noc->class_count * noc->layout.networks;
    noc->port_count = planes * noc->layout.ports;
    noc->link_count = planes * noc->layout.columns * noc->layout.rows * SIM_NOC_DIRECTIONS;
    noc->out_free = calloc(noc->port_count, sizeof *noc->out_free);
    noc->in_busy = calloc(noc->port_count, sizeof *noc->in_busy);
    noc->link_busy = calloc(noc->link_count, sizeof *noc->link_busy);
    noc->branch = calloc(noc->link_count, sizeof *noc->branch);
    bool is_whole = noc->out_free != NULL && noc->in_busy != NULL && noc->link_busy != NULL &&
                    noc->branch != NULL;
    return is_whole ? SIM_OK : SIM_ERROR_OUT_OF_MEMORY;
}

sim_status_t sim_noc_create(const sim_config_t *config, uint32_t cores, sim_noc_t **out_noc,
                            sim_error_t *err) {
    *out_noc = NULL;
    sim_noc_t *noc = calloc(1, sizeof *noc);
    if (noc == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    sim_status_t status = sim_noc_layout_init(config, cores, &noc->layout, err);
    if (status == SIM_OK) status = sim_noc_rates_init(config, &noc->rates, err);
    if (status == SIM_OK) status = sim_clock_init(&noc->clock, sim_config_u64(config, "noc.clock"));
    if (status == SIM_OK && noc->layout.type == SIM_NOC_CROSSBAR) {
        status = sim_xbar_create(config, cores, &noc->xbar);
    } else if (status == SIM_OK) {
        read_spec(noc, config);
        status = allocate(noc);
    }
    if (status != SIM_OK) {
        sim_noc_destroy(noc);
        return status;
    }
    *out_noc = noc;
    return SIM_OK;
}

void sim_noc_destroy(sim_noc_t *noc) {
    if (noc == NULL) return;
    sim_xbar_destroy(noc->xbar);
    free(noc->out_free);
    free(noc->in_busy);
    free(noc->link_busy);
    free(noc->branch);
    free(noc);
}

void sim_noc_reset(sim_noc_t *noc) {
    noc->stats = (sim_noc_stats_t){0};
    noc->last = 0;
    if (noc->xbar != NULL) {
        sim_xbar_reset(noc->xbar);
        return;
    }
    for (uint32_t i = 0; i < noc->port_count; i++) {
        noc->out_free[i] = 0;
        noc->in_busy[i].count = 0;
    }
    for (uint32_t i = 0; i < noc->link_count; i++)
        noc->link_busy[i].count = 0;
}
