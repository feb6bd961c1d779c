/*
 * Keys that no unit reads because of what other keys say: each is told with the place where it is
 * set, unless it has the value that means nothing anyway. (Keys that make no sense together are
 * errors: sim_config_check.c.)
 */
#include "sim/sim_config_internal.h"

#include <string.h>

#include "sim/sim_matrix.h"

static uint64_t get(const sim_config_t *config, const char *key) {
    return sim_config_u64(config, key);
}

static bool has_rate(const sim_config_t *config, const char *key) {
    return get(config, "matrix.count") > 0 && sim_config_ratio(config, key).num != 0;
}

static bool has_arrays(const sim_config_t *config) {
    return get(config, "matrix.count") != 1;
}
static bool has_native_f32(const sim_config_t *config) {
    return get(config, "matrix.f32") == 0 || get(config, "matrix.count") == 0;
}
static bool has_window(const sim_config_t *config) {
    return get(config, "dram.window") > 1;
}
static bool has_cache(const sim_config_t *config) {
    return get(config, "cache.bytes") > 0;
}
static bool refreshes_all(const sim_config_t *config) {
    return get(config, "dram.refresh") == 0;
}
static bool refreshes_one(const sim_config_t *config) {
    return get(config, "dram.refresh") == 1;
}
static bool refreshes(const sim_config_t *config) {
    return get(config, "dram.trefi") != 0 || refreshes_one(config);
}
static bool staggers(const sim_config_t *config) {
    return refreshes(config) && get(config, "dram.channels") > 1;
}
static bool loads_in_parts(const sim_config_t *config) {
    return get(config, "matrix.load_rows_per_cycle") < get(config, "matrix.rows");
}
static bool has_groups(const sim_config_t *config) {
    return get(config, "dram.bank_groups") > 1;
}
static bool has_banks(const sim_config_t *config) {
    return has_groups(config) || get(config, "dram.banks_per_group") > 1;
}
static bool has_places(const sim_config_t *config) {
    return has_banks(config) || get(config, "dram.channels") > 1;
}
static bool refreshes_beside_others(const sim_config_t *config) {
    return refreshes_one(config) && has_banks(config);
}
static bool has_headers(const sim_config_t *config) {
    return get(config, "link.header_bytes") > 0;
}
static bool multiplies_f32(const sim_config_t *config) {
    return get(config, "matrix.f32") == 0 && has_rate(config, "matrix.rate.f32");
}
static bool multiplies_bf16(const sim_config_t *config) {
    return has_rate(config, "matrix.rate.bf16");
}
static bool multiplies_f16(const sim_config_t *config) {
    return has_rate(config, "matrix.rate.f16");
}
static bool multiplies_i8(const sim_config_t *config) {
    return has_rate(config, "matrix.rate.i8");
}

static bool streams_rows_in_pieces(const sim_config_t *config) {
    return sim_config_has_pieces(config) && get(config, "matrix.dataflow") == SIM_WEIGHT_STATIONARY;
}
static bool loads_behind_streams(const sim_config_t *config) {
    return get(config, "matrix.dataflow") != SIM_OUTPUT_STATIONARY &&
           get(config, "matrix.weight_buffers") > 1;
}
static bool takes_turns_by_word(const sim_config_t *config) {
    return get(config, "sram.interleave_bytes") == 0;
}

static bool has_shared(const sim_config_t *config) {
    return get(config, "sram.shared_bytes") > 0;
}

static const char NO_CACHE[] = "cache.bytes = 0 B: there is no cache";
static const char IN_ORDER[] = "dram.window = 1 serves requests in order";
static const char ONE_GROUP[] = "banks of one group are apart by the long times";
static const char ONE_PLACE[] = "there is one bank";
/* `beside` of keys that a file must set whatever they do: told when changed from outside. */
static const char OVERRIDE[] = "override";

static const struct rule {
    const char *key;
    const char *neutral; /* says nothing; NULL: the schema's default */
    bool (*is_read)(const sim_config_t *config);
    const char *why;
    const char *beside; /* a table for several chips may hold it: told only beside this key */
} RULES[] = {
    {"matrix.partial_folds", NULL, loads_in_parts, "all rows load in one cycle", NULL},
    {"matrix.split", NULL, has_arrays, "there is one array", NULL},
    {"matrix.rate.f32", "0", has_native_f32, "matrix.f32 makes f32 products of bf16", NULL},
    {"matrix.stream_rows", NULL, streams_rows_in_pieces, "pieces of a stream make no difference",
     NULL},
    {"matrix.load_beside", NULL, loads_behind_streams, "no load passes beside a stream", NULL},
    {"sram.conflicts", NULL, takes_turns_by_word,
     "sram.interleave_bytes: a bank is a block of bytes", NULL},
    {"sram.shared_page_bytes", NULL, has_shared, "sram.shared_bytes = 0 B: there is no shared part",
     NULL},
    {"cache.ways", NULL, has_cache, NO_CACHE, NULL},
    {"cache.line_bytes", NULL, has_cache, NO_CACHE, NULL},
    {"cache.banks", NULL, has_cache, NO_CACHE, NULL},
    {"cache.bytes_per_cycle", NULL, has_cache, NO_CACHE, NULL},
    {"cache.hit_cycles", NULL, has_cache, NO_CACHE, NULL},
    {"cache.write", NULL, has_cache, NO_CACHE, NULL},
    {"energy.cache_byte", NULL, has_cache, NO_CACHE, "cache.bytes"},
    {"dram.max_row_hits", NULL, has_window, IN_ORDER, NULL},
    {"dram.write_high", NULL, has_window, IN_ORDER, NULL},
    {"dram.write_low", NULL, has_window, IN_ORDER, NULL},
    {"dram.trfc", "0", refreshes_all, "one bank refreshes at a time", NULL},
    {"dram.trefi", "0", refreshes_all, "one bank refreshes at a time", NULL},
    {"dram.trfcpb", NULL, refreshes_one, "all banks refresh together", NULL},
    {"dram.trefipb", NULL, refreshes_one, "all banks refresh together", NULL},
    {"dram.trrefd", NULL, refreshes_beside_others, "no bank goes on beside a refresh", NULL},
    {"dram.tccd_s", NULL, has_groups, ONE_GROUP, OVERRIDE},
    {"dram.trrd_s", NULL, has_groups, ONE_GROUP, OVERRIDE},
    {"dram.twtr_s", NULL, has_groups, ONE_GROUP, OVERRIDE},
    {"dram.mapping", NULL, has_places, ONE_PLACE, OVERRIDE},
    {"dram.hash", NULL, has_places, ONE_PLACE, OVERRIDE},
    {"link.payload_bytes", NULL, has_headers, "link.header_bytes = 0 B", OVERRIDE},
    {"dram.refresh_stagger", NULL, staggers, "one channel, or no refresh", NULL},
    {"energy.dram_refresh", NULL, refreshes, "there is no refresh", "dram.refresh"},
    {"energy.mac.f32", NULL, multiplies_f32, "no products of f32", "matrix.rate.f32"},
    {"energy.mac.bf16", NULL, multiplies_bf16, "no products of bf16", "matrix.rate.bf16"},
    {"energy.mac.f16", NULL, multiplies_f16, "no products of f16", "matrix.rate.f16"},
    {"energy.mac.i8", NULL, multiplies_i8, "no products of i8", "matrix.rate.i8"},
};

static const struct rule *rule_of(const char *name) {
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (strcmp(name, RULES[i].key) == 0) return &RULES[i];
    return NULL;
}

static bool is_of_same_file(const char *a, const char *b) {
    const char *colon = strrchr(b, ':');
    size_t length = colon != NULL ? (size_t)(colon - b) : strlen(b);
    return strncmp(a, b, length) == 0 && (a[length] == ':' || a[length] == '\0');
}

static bool is_dead(const sim_config_t *config, const sim_key_t *key, const char *name,
                    const struct rule **out_rule) {
    const struct rule *rule = *out_rule = rule_of(name);
    if (rule == NULL || rule->is_read(config)) return false;
    const char *neutral = rule->neutral != NULL ? rule->neutral : key->default_text;
    if (neutral != NULL && strcmp(sim_config_text(config, name), neutral) == 0) return false;
    const char *origin = sim_config_origin(config, name);
    if (rule->beside == NULL || strcmp(origin, "override") == 0) return true;
    return rule->beside != OVERRIDE &&
           is_of_same_file(origin, sim_config_origin(config, rule->beside));
}

void sim_config_tell_effects(const sim_config_t *config, uint32_t index, sim_tell_fn tell,
                             void *context) {
    const sim_config_t *view = sim_config_class(config, index);
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < count; i++) {
        char name[SIM_KEY_LABEL_BYTES];
        (void)snprintf(name, sizeof name, "%s.%s", keys[i].section, keys[i].name);
        const struct rule *rule;
        bool is_own = index == 0 || (sim_key_is_per_class(&keys[i]) &&
                                     sim_config_class_sets(config, index, name));
        if (is_own && is_dead(view, &keys[i], name, &rule))
            tell(context, sim_config_origin(view, name), name, rule->why);
    }
}
