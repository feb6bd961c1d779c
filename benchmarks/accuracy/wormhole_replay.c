/*
 * wormhole_replay FILE.jsonl -c CONFIG [-o OVERRIDES] [--gaps] [--summary] [--at-most PERCENT]
 *
 * Replays recorded NoC reads (data/README.md) through the interconnect and DRAM of a configuration
 * and prints, per trace, {"name", "kind": "dram"|"l1", "predicted": cycles}. The measured column is
 * read by --summary alone; with
 * --at-most the exit status says whether both kinds have a mean error of at most so many per cent.
 *
 * An agent is one network interface of one core. Its reads issue in order, at their recorded time
 * at the earliest
 * (--gaps: with the recorded gaps, so that what holds one up moves the later ones), while at most
 * dma.outstanding_bytes of it are in flight; a barrier waits for all of them. A read is a request
 * to the node that it names, there DRAM or scratchpad, and a response on the same network. DRAM
 * endpoint i of noc.memory_nodes is served by channel i, each agent reading its own stretch of it.
 */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_config.h"
#include "sim/sim_dram.h"
#include "sim/sim_noc.h"

#define MAX_ENDPOINTS 64u

typedef struct options {
    const char *file, *config, *overrides;
    double at_most; /* 0: any error will do */
    bool keeps_gaps, is_summary;
} options_t;

typedef struct replay replay_t;
typedef struct agent agent_t;

typedef struct read_op {
    sim_event_t event;
    sim_dram_request_t request;
    agent_t *agent;
    uint64_t at; /* recorded cycle */
    uint64_t bytes, address;
    uint32_t port;
    bool is_barrier;
} read_op_t;

struct agent {
    replay_t *replay;
    sim_event_t event; /* the next operation may go */
    uint32_t port, network, index;
    uint32_t count, next;
    uint64_t in_flight_bytes, in_flight, last_at;
    bool is_waiting; /* in a barrier */
    sim_tick_t last_tick, issue_tick;
    read_op_t *op;
};

struct replay {
    const options_t *options;
    sim_engine_t *engine;
    sim_noc_t *noc;
    sim_dram_t *dram;
    sim_clock_t clock;
    uint64_t outstanding_bytes, issue_ticks, local_ticks;
    uint32_t first_memory_port;
    uint64_t channel_bytes; /* consecutive addresses of one channel */
    agent_t *agent;
    uint32_t agent_count, agents_left;
    bool has_dram;
};

static void fail(const char *what, const char *detail) {
    (void)fprintf(stderr, "wormhole_replay: %s: %s\n", what, detail);
    exit(1);
}

/* --- one trace
 * ------------------------------------------------------------------------------------------------------
 */

static void try_agent(agent_t *agent);

static void on_response(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    read_op_t *op = SIM_CONTAINER_OF(event, read_op_t, event);
    op->agent->in_flight--;
    op->agent->in_flight_bytes -= op->bytes;
    try_agent(op->agent);
}

static void on_data(sim_engine_t *engine, sim_event_t *event) {
    read_op_t *op = SIM_CONTAINER_OF(event, read_op_t, event);
    agent_t *agent = op->agent;
    sim_noc_path_t back = {op->port, agent->port, agent->network, SIM_NOC_RESPONSE};
    sim_tick_t arrival = sim_noc_send(agent->replay->noc, back, op->bytes, sim_now(engine));
    sim_event_init(&op->event, SIM_PHASE_COMPLETE, on_response);
    sim_event_schedule(engine, &op->event, arrival);
}

/* The n-th piece of addresses of an endpoint's channel: every stripe of addresses has one, at a
 * place that a hash may move. */
static uint64_t piece_address(const replay_t *replay, uint32_t endpoint, uint64_t piece) {
    uint32_t channels = sim_dram_channels(replay->dram);
    uint64_t address = piece * channels * replay->channel_bytes, left;
    for (uint32_t i = 0; i < channels; i++, address += replay->channel_bytes)
        if (sim_dram_channel_at(replay->dram, address, &left) == endpoint % channels) break;
    return address;
}

static void on_request(sim_engine_t *engine, sim_event_t *event) {
    read_op_t *op = SIM_CONTAINER_OF(event, read_op_t, event);
    replay_t *replay = op->agent->replay;
    sim_event_init(&op->event, SIM_PHASE_COMPLETE, on_data);
    if (op->port < replay->first_memory_port) {
        sim_event_schedule(engine, &op->event, sim_now(engine) + replay->local_ticks);
        return;
    }
    sim_dram_begin(replay->dram, &op->request, false, &op->event, sim_now(engine));
    uint64_t at = op->address % replay->channel_bytes, piece = op->address / replay->channel_bytes;
    for (uint64_t left = op->bytes; left > 0; piece++, at = 0) {
        uint64_t bytes = replay->channel_bytes - at < left ? replay->channel_bytes - at : left;
        uint64_t address = piece_address(replay, op->port - replay->first_memory_port, piece) + at;
        sim_dram_add(replay->dram, &op->request, address, bytes);
        left -= bytes;
    }
    sim_dram_end(replay->dram, &op->request);
}

/* False: the agent waits for a response. */
static bool issue(agent_t *agent, read_op_t *op) {
    replay_t *replay = agent->replay;
    uint64_t after = agent->in_flight_bytes + op->bytes;
    if (agent->in_flight > 0 && after > replay->outstanding_bytes) return false;
    sim_noc_path_t there = {agent->port, op->port, agent->network, SIM_NOC_REQUEST};
    sim_tick_t now = sim_now(replay->engine), arrival = sim_noc_send(replay->noc, there, 0, now);
    agent->in_flight++;
    agent->in_flight_bytes = after;
    agent->issue_tick = now + replay->issue_ticks;
    sim_event_init(&op->event, SIM_PHASE_COMPLETE, on_request);
    sim_event_schedule(replay->engine, &op->event, arrival);
    return true;
}

static void on_agent(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    try_agent(SIM_CONTAINER_OF(event, agent_t, event));
}

/* Does what may be done now, in order; waits for the recorded time or for a response. */
static void try_agent(agent_t *agent) {
    replay_t *replay = agent->replay;
    sim_tick_t now = sim_now(replay->engine);
    while (agent->next < agent->count && !sim_event_is_pending(&agent->event)) {
        read_op_t *op = &agent->op[agent->next];
        sim_tick_t at = sim_clock_tick(&replay->clock, op->at);
        if (replay->options->keeps_gaps)
            at = agent->last_tick + at - sim_clock_tick(&replay->clock, agent->last_at);
        if (at < agent->issue_tick) at = agent->issue_tick;
        if (at > now && !agent->is_waiting) {
            sim_event_schedule(replay->engine, &agent->event, at);
            return;
        }
        /* A recorded barrier is its beginning: the gap behind it holds the wait. */
        if (op->is_barrier && !agent->is_waiting) agent->last_tick = now;
        agent->is_waiting = op->is_barrier && agent->in_flight > 0;
        if (agent->is_waiting || (!op->is_barrier && !issue(agent, op))) return;
        agent->last_at = op->at;
        if (!op->is_barrier) agent->last_tick = now;
        agent->next++;
        if (agent->next == agent->count) replay->agents_left--;
    }
}

static uint64_t run_trace(replay_t *replay) {
    sim_engine_reset(replay->engine);
    sim_noc_reset(replay->noc);
    sim_dram_reset(replay->dram);
    replay->agents_left = replay->agent_count;
    for (uint32_t i = 0; i < replay->agent_count; i++) {
        agent_t *agent = &replay->agent[i];
        sim_event_init(&agent->event, SIM_PHASE_ISSUE, on_agent);
        if (agent->count == 0)
            replay->agents_left--;
        else
            sim_event_schedule(replay->engine, &agent->event, 0);
    }
    sim_tick_t end = sim_engine_run(replay->engine);
    if (replay->agents_left > 0) fail("a trace", "agents that never end");
    return sim_clock_cycle_up(&replay->clock, end);
}

/* --- reading
 * ----------------------------------------------------------------------------------------------------------
 */

static uint64_t number(json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        fail("a trace", "a number is missing");
    return (uint64_t)json_integer_value(value);
}

static uint32_t port_of(const replay_t *replay, json_t *x, json_t *y) {
    uint32_t port;
    if (!sim_noc_port_at(replay->noc, (uint32_t)number(x), (uint32_t)number(y), &port))
        fail("a trace", "a node that noc.core_nodes and noc.memory_nodes do not have");
    return port;
}

static void read_op(replay_t *replay, agent_t *agent, json_t *entry, read_op_t *op,
                    uint64_t *stretch) {
    *op = (read_op_t){.agent = agent};
    op->is_barrier = json_is_string(json_array_get(entry, 0));
    op->at = number(json_array_get(entry, op->is_barrier ? 1 : 0));
    if (op->is_barrier) return;
    op->port = port_of(replay, json_array_get(entry, 1), json_array_get(entry, 2));
    op->bytes = number(json_array_get(entry, 3));
    if (op->port < replay->first_memory_port) return;
    replay->has_dram = true;
    op->address = *stretch;
    *stretch += op->bytes;
}

/* Every agent reads on in its own MiB of each channel. */
static void read_agent(replay_t *replay, json_t *entry, agent_t *agent, uint32_t index) {
    json_t *core = json_object_get(entry, "core"), *ops = json_object_get(entry, "ops");
    const char *noc = json_string_value(json_object_get(entry, "noc"));
    uint64_t stretch[MAX_ENDPOINTS];
    for (uint32_t i = 0; i < MAX_ENDPOINTS; i++)
        stretch[i] = (uint64_t)index << 20;
    if (noc == NULL || !json_is_array(ops)) fail("a trace", "an agent without noc or ops");
    *agent = (agent_t){.replay = replay, .index = index, .count = (uint32_t)json_array_size(ops)};
    agent->port = port_of(replay, json_array_get(core, 0), json_array_get(core, 1));
    agent->network = strcmp(noc, "NOC_1") == 0 && sim_noc_networks(replay->noc) > 1;
    agent->op = calloc(agent->count + 1, sizeof *agent->op);
    if (agent->op == NULL) fail("a trace", "out of memory");
    for (uint32_t i = 0; i < agent->count; i++) {
        json_t *op = json_array_get(ops, i);
        uint32_t endpoint = 0;
        if (!json_is_string(json_array_get(op, 0))) {
            uint32_t port = port_of(replay, json_array_get(op, 1), json_array_get(op, 2));
            if (port >= replay->first_memory_port) endpoint = port - replay->first_memory_port;
        }
        read_op(replay, agent, op, &agent->op[i], &stretch[endpoint]);
    }
}

static void read_trace(replay_t *replay, json_t *trace) {
    json_t *agents = json_object_get(trace, "agents");
    replay->agent_count = (uint32_t)json_array_size(agents);
    replay->has_dram = false;
    replay->agent = calloc(replay->agent_count + 1, sizeof *replay->agent);
    if (replay->agent == NULL) fail("a trace", "out of memory");
    for (uint32_t i = 0; i < replay->agent_count; i++)
        read_agent(replay, json_array_get(agents, i), &replay->agent[i], i);
}

static void free_trace(replay_t *replay) {
    for (uint32_t i = 0; i < replay->agent_count; i++)
        free(replay->agent[i].op);
    free(replay->agent);
}

/* --- the machine
 * ------------------------------------------------------------------------------------------------------
 */

static void make_machine(replay_t *replay, const options_t *options) {
    sim_error_t err = {0};
    sim_config_t *config;
    if (sim_config_load(options->config, options->overrides, &config, &err) != SIM_OK)
        fail(options->config, err.text);
    uint32_t cores = sim_config_cores(config);
    *replay = (replay_t){.options = options, .first_memory_port = cores};
    sim_status_t status = sim_engine_create(&replay->engine);
    if (status == SIM_OK) status = sim_noc_create(config, cores, &replay->noc, &err);
    if (status == SIM_OK) status = sim_dram_create(config, &replay->dram, &err);
    if (status == SIM_OK)
        status = sim_clock_init(&replay->clock, sim_config_u64(config, "noc.clock"));
    if (status != SIM_OK) fail(options->config, err.text);
    if (sim_noc_memory_ports(replay->noc) > MAX_ENDPOINTS)
        fail(options->config, "more than 64 memory endpoints");
    if (!sim_noc_has_requests(replay->noc))
        fail(options->config, "noc.type = crossbar: reads name nodes");
    sim_clock_t core;
    if (sim_clock_init(&core, sim_config_u64(config, "core.clock")) != SIM_OK)
        fail(options->config, "core.clock");
    replay->outstanding_bytes = sim_config_u64(config, "dma.outstanding_bytes");
    replay->issue_ticks = sim_clock_tick(&core, sim_config_u64(config, "dma.run_cycles"));
    replay->local_ticks = sim_clock_tick(&core, sim_config_u64(config, "sram.latency_cycles"));
    sim_dram_attach(replay->dram, replay->engine);
    (void)sim_dram_channel_at(replay->dram, 0, &replay->channel_bytes);
    sim_config_destroy(config);
}

/* --- the command
 * ------------------------------------------------------------------------------------------------------
 */

typedef struct sums {
    uint32_t count;
    double sum, worst;
} sums_t;

static void add_error(sums_t *sums, json_t *trace, uint64_t predicted, bool is_dram) {
    double golden = (double)number(json_object_get(trace, "golden_cycles"));
    double error = 100.0 * ((double)predicted / golden - 1.0), size = error < 0 ? -error : error;
    (void)fprintf(stderr, "%-28s %6.0f %6" PRIu64 " %+6.1f %%\n",
                  json_string_value(json_object_get(trace, "trace")), golden, predicted, error);
    sums[is_dram].count++;
    sums[is_dram].sum += size;
    if (size > sums[is_dram].worst) sums[is_dram].worst = size;
}

/* False: a kind has no traces, or a mean error above the bound. */
static bool replay_file(replay_t *replay) {
    FILE *file = fopen(replay->options->file, "r");
    if (file == NULL) fail(replay->options->file, "cannot be read");
    sums_t sums[2] = {{0}};
    char *line = NULL;
    size_t bytes = 0;
    while (getline(&line, &bytes, file) > 1) {
        json_error_t error;
        json_t *trace = json_loads(line, 0, &error);
        if (trace == NULL) fail(replay->options->file, error.text);
        read_trace(replay, trace);
        uint64_t predicted = run_trace(replay);
        printf("{\"name\": \"%s\", \"kind\": \"%s\", \"predicted\": %" PRIu64 "}\n",
               json_string_value(json_object_get(trace, "trace")), replay->has_dram ? "dram" : "l1",
               predicted);
        if (replay->options->is_summary) add_error(sums, trace, predicted, replay->has_dram);
        free_trace(replay);
        json_decref(trace);
    }
    double bound = replay->options->at_most;
    bool is_good = true;
    for (int i = 0; i < 2 && replay->options->is_summary; i++) {
        double mean = sums[i].count > 0 ? sums[i].sum / sums[i].count : 0;
        if (sums[i].count > 0)
            (void)fprintf(stderr, "%s: %u traces, mean %.2f %%, worst %.1f %%\n",
                          i == 0 ? "l1" : "dram", sums[i].count, mean, sums[i].worst);
        if (bound > 0 && (sums[i].count == 0 || mean > bound)) is_good = false;
    }
    free(line);
    (void)fclose(file);
    return is_good;
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    options_t *options = state->input;
    switch (key) {
    case 'c': options->config = text; return 0;
    case 'o': options->overrides = text; return 0;
    case 'g': options->keeps_gaps = true; return 0;
    case 's': options->is_summary = true; return 0;
    case 'm':
        options->is_summary = true;
        options->at_most = strtod(text, NULL);
        return 0;
    case ARGP_KEY_ARG:
        if (options->file != NULL) argp_usage(state);
        options->file = text;
        return 0;
    case ARGP_KEY_END:
        if (options->file == NULL || options->config == NULL) argp_usage(state);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv) {
    static const struct argp_option OPTIONS[] = {
        {"config", 'c', "FILE", 0, "Configuration of the chip", 0},
        {"override", 'o', "KEYS", 0, "Overrides, a.b=1,c.d=2", 0},
        {"gaps", 'g', NULL, 0, "Keep the recorded gaps instead of the recorded times", 0},
        {"summary", 's', NULL, 0, "Compare with the measured column, on stderr", 0},
        {"at-most", 'm', "PERCENT", 0, "As --summary; fail above this mean error", 0},
        {0},
    };
    static const struct argp ARGP = {
        OPTIONS, parse_option, "FILE.jsonl", "Replays recorded NoC reads.", NULL, NULL, NULL};
    options_t options = {0};
    replay_t replay;
    argp_parse(&ARGP, argc, argv, 0, NULL, &options);
    make_machine(&replay, &options);
    bool is_good = replay_file(&replay);
    sim_dram_destroy(replay.dram);
    sim_noc_destroy(replay.noc);
    sim_engine_destroy(replay.engine);
    return is_good ? 0 : 1;
}
