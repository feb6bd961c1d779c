/* Where cores and memory sit on the interconnect, the ways between them, and the texts of keys. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_noc_internal.h"

/* ---- nodes --------------------------------------------------------------- */

static sim_status_t bad_nodes(const sim_config_t *config, const char *key, const char *item,
                              const char *reason, sim_error_t *err) {
    return sim_error_set(err, SIM_ERROR_CONFIG, "%s = %s: \"%s\": %s", key,
                         sim_config_text(config, key), item, reason);
}

/* "3", "1-4" or "*" below `limit`; returns what follows it, NULL if it is none of these. */
static const char *read_range(const char *text, uint32_t limit, uint32_t *out_first,
                              uint32_t *out_last) {
    if (*text == '*') {
        *out_first = 0;
        *out_last = limit - 1;
        return text + 1;
    }
    char *end;
    if (*text < '0' || *text > '9') return NULL;
    unsigned long first = strtoul(text, &end, 10), last = first;
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9') return NULL;
        last = strtoul(end + 1, &end, 10);
    }
    if (last < first || last >= limit) return NULL;
    *out_first = (uint32_t)first;
    *out_last = (uint32_t)last;
    return end;
}

typedef struct node_list {
    uint32_t count, limit;
    uint16_t *node;
} node_list_t;

/* Nodes of columns x0 .. x1 and rows y0 .. y1, row by row. False: no room. */
static bool add_block(const sim_noc_layout_t *layout, node_list_t *list, const uint32_t x[2],
                      const uint32_t y[2]) {
    for (uint32_t row = y[0]; row <= y[1]; row++)
        for (uint32_t column = x[0]; column <= x[1]; column++) {
            if (list->count == list->limit) return false;
            list->node[list->count++] = (uint16_t)(row * layout->columns + column);
        }
    return true;
}

/* "x:y x:y ...", each x and y a number, a range or "*"; or a rule by name. */
static sim_status_t read_nodes(const sim_config_t *config, const sim_noc_layout_t *layout,
                               const char *key, node_list_t *list, sim_error_t *err) {
    const uint32_t right = layout->columns - 1, bottom = layout->rows - 1;
    const char *text = sim_config_str(config, key);
    char rule[32], copy[1024];
    if (strcmp(text, "all") == 0)
        text = "*:*";
    else if (strcmp(text, "left_right") == 0) {
        (void)snprintf(rule, sizeof rule, right == 0 ? "0:*" : "0:* %u:*", right);
        text = rule;
    } else if (strcmp(text, "top_bottom") == 0) {
        (void)snprintf(rule, sizeof rule, bottom == 0 ? "*:0" : "*:0 *:%u", bottom);
        text = rule;
    }
    (void)snprintf(copy, sizeof copy, "%s", text);
    char *save = NULL;
    for (char *item = strtok_r(copy, " ", &save); item != NULL; item = strtok_r(NULL, " ", &save)) {
        uint32_t x[2] = {0}, y[2] = {0};
        const char *at = read_range(item, layout->columns, &x[0], &x[1]);
        at = at != NULL && *at == ':' ? read_range(at + 1, layout->rows, &y[0], &y[1]) : NULL;
        if (at == NULL || *at != '\0')
            return bad_nodes(config, key, item,
                             "not x:y of the grid (a number, a-b or * each), all, left_right or "
                             "top_bottom",
                             err);
        if (!add_block(layout, list, x, y))
            return bad_nodes(config, key, item, "more nodes than are served", err);
    }
    return SIM_OK;
}

static sim_status_t place_ports(const sim_config_t *config, sim_noc_layout_t *layout,
                                sim_error_t *err) {
    uint16_t memory[SIM_NOC_MAX_PORTS], core[SIM_NOC_MAX_NODES];
    node_list_t cores = {0, SIM_NOC_MAX_NODES, core},
                endpoints = {0, SIM_NOC_MAX_PORTS - layout->cores, memory};
    sim_status_t status = read_nodes(config, layout, "noc.core_nodes", &cores, err);
    if (status == SIM_OK) status = read_nodes(config, layout, "noc.memory_nodes", &endpoints, err);
    if (status != SIM_OK) return status;
    if (cores.count < layout->cores)
        return sim_error_set(err, SIM_ERROR_CONFIG, "noc.core_nodes = %s: %u nodes for %u cores",
                             sim_config_text(config, "noc.core_nodes"), cores.count, layout->cores);
    uint64_t channels = sim_config_u64(config, "dram.channels");
    if (endpoints.count == 0 || endpoints.count > channels)
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "noc.memory_nodes = %s: %u memory endpoints, 1 .. %" PRIu64
                             " can be served (dram.channels)",
                             sim_config_text(config, "noc.memory_nodes"), endpoints.count,
                             channels);
    memcpy(layout->node, core, layout->cores * sizeof core[0]);
    memcpy(layout->node + layout->cores, memory, endpoints.count * sizeof memory[0]);
    layout->ports = layout->cores + endpoints.count;
    return SIM_OK;
}

sim_status_t sim_noc_layout_init(const sim_config_t *config, uint32_t cores,
                                 sim_noc_layout_t *out_layout, sim_error_t *err) {
    *out_layout = (sim_noc_layout_t){
        .type = (sim_noc_type_t)sim_config_u64(config, "noc.type"),
        .columns = (uint32_t)sim_config_u64(config, "noc.columns"),
        .rows = (uint32_t)sim_config_u64(config, "noc.rows"),
        .networks = (uint32_t)sim_config_u64(config, "noc.networks"),
        .cores = cores,
        .ports = cores + 1,
    };
    const char *name = sim_config_text(config, "noc.type");
    if (cores == 0 || cores >= SIM_NOC_MAX_PORTS)
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE, "noc: %u cores", cores);
    if (out_layout->type == SIM_NOC_CROSSBAR) return SIM_OK;
    if (out_layout->columns == 0)
        return sim_error_set(err, SIM_ERROR_CONFIG, "noc.columns is needed by noc.type = %s", name);
    if (out_layout->columns * out_layout->rows > SIM_NOC_MAX_NODES)
        return sim_error_set(err, SIM_ERROR_CONFIG, "noc.columns x noc.rows: more than %u nodes",
                             SIM_NOC_MAX_NODES);
    if (out_layout->type == SIM_NOC_RING && out_layout->rows != 1)
        return sim_error_set(err, SIM_ERROR_CONFIG, "noc.rows = %u: a ring has one row",
                             out_layout->rows);
    if (out_layout->type == SIM_NOC_MESH && out_layout->networks != 1)
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "noc.networks = %u: a mesh of one-way links is not connected",
                             out_layout->networks);
    return place_ports(config, out_layout, err);
}

/* ---- ways ---------------------------------------------------------------- */

/* True: along one dimension of `size` the way from a to b rises. */
static bool does_rise(const sim_noc_layout_t *layout, uint32_t network, uint32_t a, uint32_t b,
                      uint32_t size) {
    if (layout->networks == 2) return network == 0;
    if (layout->type == SIM_NOC_MESH) return b > a;
    uint32_t up = b > a ? b - a : b + size - a;
    return up <= size - up;
}

static uint32_t step(uint32_t at, uint32_t size, bool rises) {
    if (rises) return at + 1 == size ? 0 : at + 1;
    return at == 0 ? size - 1 : at - 1;
}

uint32_t sim_noc_next(const sim_noc_layout_t *layout, uint32_t network, uint32_t from, uint32_t to,
                      sim_noc_direction_t *out_direction) {
    uint32_t x = from % layout->columns, y = from / layout->columns;
    uint32_t to_x = to % layout->columns, to_y = to / layout->columns;
    bool is_y_first = network == 1;
    if (x != to_x && (!is_y_first || y == to_y)) {
        bool rises = does_rise(layout, network, x, to_x, layout->columns);
        *out_direction = rises ? SIM_NOC_EAST : SIM_NOC_WEST;
        x = step(x, layout->columns, rises);
    } else {
        bool rises = does_rise(layout, network, y, to_y, layout->rows);
        *out_direction = rises ? SIM_NOC_SOUTH : SIM_NOC_NORTH;
        y = step(y, layout->rows, rises);
    }
    return y * layout->columns + x;
}

/* ---- measured rates ------------------------------------------------------- */

/* A decimal in millionths; returns what follows it, NULL if there is none or it is too large. */
static const char *read_millionths(const char *text, uint64_t *out_value) {
    char *end;
    if (*text < '0' || *text > '9') return NULL;
    unsigned long long whole = strtoull(text, &end, 10);
    if (whole > UINT64_C(1) << 20) return NULL;
    uint64_t value = whole * SIM_NOC_RATE_UNIT, digit = SIM_NOC_RATE_UNIT / 10;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++, digit /= 10)
            value += (uint64_t)(*end - '0') * digit;
    *out_value = value;
    return end;
}

sim_status_t sim_noc_rates_init(const sim_config_t *config, sim_noc_rates_t *out_rates,
                                sim_error_t *err) {
    *out_rates = (sim_noc_rates_t){0};
    const char *text = sim_config_str(config, "noc.packet_rate");
    if (strcmp(text, "none") == 0) return SIM_OK;
    char copy[1024];
    (void)snprintf(copy, sizeof copy, "%s", text);
    char *save = NULL;
    for (char *item = strtok_r(copy, " ", &save); item != NULL; item = strtok_r(NULL, " ", &save)) {
        uint32_t i = out_rates->count;
        char *end = item;
        uint64_t rate = 0, bytes = *item >= '0' && *item <= '9' ? strtoull(item, &end, 10) : 0;
        const char *rest = *end == ':' ? read_millionths(end + 1, &rate) : NULL;
        if (rest == NULL || *rest != '\0' || bytes == 0 || bytes > UINT32_MAX || rate == 0)
            return bad_nodes(config, "noc.packet_rate", item, "not bytes:bytes_per_cycle", err);
        if (i == SIM_NOC_MAX_RATES || (i > 0 && bytes <= out_rates->bytes[i - 1]))
            return bad_nodes(config, "noc.packet_rate", item, "at most 16 rising sizes", err);
        out_rates->bytes[i] = bytes;
        out_rates->rate[i] = rate;
        out_rates->count = i + 1;
    }
    return SIM_OK;
}

uint64_t sim_noc_rate_at(const sim_noc_rates_t *rates, uint64_t bytes) {
    if (bytes < rates->bytes[0]) return rates->rate[0] * bytes / rates->bytes[0];
    uint32_t i = 1;
    while (i < rates->count && rates->bytes[i] < bytes)
        i++;
    if (i == rates->count) return rates->rate[i - 1];
    uint64_t span = rates->bytes[i] - rates->bytes[i - 1], above = bytes - rates->bytes[i - 1];
    return (rates->rate[i - 1] * (span - above) + rates->rate[i] * above) / span;
}
