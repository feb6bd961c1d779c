#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_dram_internal.h"

#define MAX_MAPPING_FIELDS 9u

typedef struct parser {
    sim_dram_map_t *map;
    const char *text;
    sim_error_t *err;
    uint8_t bits_of_channel, bits_of_group, bits_of_bank, bits_of_column, bits_of_row;
    bool has_channel, has_group, has_bank, has_row, has_rest;
    uint8_t column_bits_named;
} parser_t;

static bool is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

static uint8_t log2_of(uint64_t value) {
    return (uint8_t)__builtin_ctzll(value);
}

static sim_status_t bits_of(const sim_config_t *config, const char *key, uint8_t *out_bits,
                            sim_error_t *err) {
    uint64_t value = sim_config_u64(config, key);
    if (!is_power_of_two(value))
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "%s: %s = %" PRIu64 ": the address mapping needs a power of two",
                             sim_config_origin(config, key), key, value);
    *out_bits = log2_of(value);
    return SIM_OK;
}

/* Any number: one that is no power of two takes no bits, the rest of a division names it. */
static void count_channels(parser_t *parser, const sim_config_t *config) {
    sim_dram_map_t *map = parser->map;
    uint64_t channels = sim_config_u64(config, "dram.channels");
    map->channels = (uint32_t)channels;
    if (is_power_of_two(channels))
        parser->bits_of_channel = log2_of(channels);
    else
        map->divisor = (uint32_t)channels;
}

static sim_status_t bad(const parser_t *parser, const char *field, const char *reason) {
    return sim_error_set(parser->err, SIM_ERROR_CONFIG, "dram.mapping = %s: field \"%s\": %s",
                         parser->text, field, reason);
}

/* "co8" takes 3 bits, "co" what the row has left. First pass: names, counts and the bits that "co"
 * stands for. */
static sim_status_t check_field(parser_t *parser, const char *field) {
    bool *seen = strcmp(field, "ch") == 0   ? &parser->has_channel
                 : strcmp(field, "bg") == 0 ? &parser->has_group
                 : strcmp(field, "ba") == 0 ? &parser->has_bank
                 : strcmp(field, "ro") == 0 ? &parser->has_row
                 : strcmp(field, "co") == 0 ? &parser->has_rest
                                            : NULL;
    if (seen != NULL) {
        if (*seen) return bad(parser, field, "named twice");
        *seen = true;
        return SIM_OK;
    }
    if (strncmp(field, "co", 2) != 0)
        return bad(parser, field, "not one of ro, ba, bg, ch, co, coN");
    char *end;
    unsigned long bursts = strtoul(field + 2, &end, 10);
    if (field[2] < '0' || field[2] > '9' || *end != '\0' || !is_power_of_two(bursts))
        return bad(parser, field, "N of coN is a power of two");
    parser->column_bits_named = (uint8_t)(parser->column_bits_named + log2_of(bursts));
    return SIM_OK;
}

static sim_status_t check_all(parser_t *parser, char *const field[], uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        sim_status_t status = check_field(parser, field[i]);
        if (status != SIM_OK) return status;
    }
    if (!parser->has_row) return bad(parser, "ro", "missing");
    if (!parser->has_channel && parser->map->channels > 1) return bad(parser, "ch", "missing");
    if (!parser->has_group && parser->bits_of_group > 0) return bad(parser, "bg", "missing");
    if (!parser->has_bank && parser->bits_of_bank > 0) return bad(parser, "ba", "missing");
    if (parser->column_bits_named > parser->bits_of_column)
        return bad(parser, "co", "more bursts than a row has");
    if (!parser->has_rest && parser->column_bits_named < parser->bits_of_column)
        return bad(parser, "co", "missing: a row has more bursts than the mapping names");
    return SIM_OK;
}

/* Second pass, from the least significant field: where each one lies. */
static sim_status_t place(parser_t *parser, const char *field, uint8_t *shift) {
    sim_dram_map_t *map = parser->map;
    uint8_t bits;
    if (strcmp(field, "ch") == 0) {
        bits = parser->bits_of_channel;
        map->channel = (sim_dram_field_t){*shift, bits};
    } else if (strcmp(field, "bg") == 0) {
        bits = parser->bits_of_group;
        map->group = (sim_dram_field_t){*shift, bits};
    } else if (strcmp(field, "ba") == 0) {
        bits = parser->bits_of_bank;
        map->bank = (sim_dram_field_t){*shift, bits};
    } else if (strcmp(field, "ro") == 0) {
        bits = parser->bits_of_row;
        map->row = (sim_dram_field_t){*shift, bits};
    } else {
        bits = field[2] == '\0' ? (uint8_t)(parser->bits_of_column - parser->column_bits_named)
                                : log2_of(strtoul(field + 2, NULL, 10));
        if (bits > 0) {
            if (map->column_fields == SIM_DRAM_MAX_COLUMN_FIELDS)
                return bad(parser, field, "the column is in more than four pieces");
            map->column[map->column_fields++] = (sim_dram_field_t){*shift, bits};
        }
    }
    *shift = (uint8_t)(*shift + bits);
    return SIM_OK;
}

/* Low bits that are column or bank group: a channel's and a row's worth of consecutive bursts. */
static uint8_t segment_bits(const sim_dram_map_t *map) {
    uint8_t end = map->row.shift;
    if (map->channels > 1 && map->channel.shift < end) end = map->channel.shift;
    if (map->bank.bits > 0 && map->bank.shift < end) end = map->bank.shift;
    return end;
}

static sim_status_t parse(parser_t *parser) {
    char copy[64];
    char *field[MAX_MAPPING_FIELDS];
    uint32_t count = 0;
    if (strlen(parser->text) >= sizeof copy) return bad(parser, "", "too long");
    strcpy(copy, parser->text);
    char *save = NULL;
    for (char *part = strtok_r(copy, "-", &save); part != NULL; part = strtok_r(NULL, "-", &save)) {
        if (count == MAX_MAPPING_FIELDS) return bad(parser, part, "too many fields");
        field[count++] = part;
    }
    sim_status_t status = check_all(parser, field, count);
    uint8_t shift = 0;
    for (uint32_t i = count; i-- > 0 && status == SIM_OK;)
        status = place(parser, field[i], &shift);
    parser->map->total_bits = shift;
    return status;
}

/* Rows fill what the other fields leave of dram.bytes; on top of the mapping their number need not
 * be a power of two. */
static sim_status_t count_rows(parser_t *parser, const sim_config_t *config) {
    uint8_t others =
        (uint8_t)(parser->map->burst_shift + parser->bits_of_channel + parser->bits_of_group +
                  parser->bits_of_bank + parser->bits_of_column);
    uint64_t row_of_every_bank = (parser->map->divisor == 0 ? 1 : (uint64_t)parser->map->divisor)
                                 << others;
    uint64_t rows = sim_config_u64(config, "dram.bytes") / row_of_every_bank;
    if (rows == 0 || rows * row_of_every_bank != sim_config_u64(config, "dram.bytes"))
        return sim_error_set(parser->err, SIM_ERROR_CONFIG,
                             "dram.bytes is not a multiple of one row of every bank");
    if (!is_power_of_two(rows) && strncmp(parser->text, "ro", 2) != 0)
        return bad(parser, "ro", "below other fields, and the number of rows is no power of two");
    while (UINT64_C(1) << parser->bits_of_row < rows)
        parser->bits_of_row++;
    return SIM_OK;
}

sim_status_t sim_dram_map_init(const sim_config_t *config, sim_dram_map_t *out_map,
                               sim_error_t *err) {
    *out_map = (sim_dram_map_t){0};
    parser_t parser = {.map = out_map, .text = sim_config_str(config, "dram.mapping"), .err = err};
    uint8_t row_bits = 0;
    count_channels(&parser, config);
    sim_status_t status = bits_of(config, "dram.burst_bytes", &out_map->burst_shift, err);
    if (status == SIM_OK) status = bits_of(config, "dram.bank_groups", &parser.bits_of_group, err);
    if (status == SIM_OK)
        status = bits_of(config, "dram.banks_per_group", &parser.bits_of_bank, err);
    if (status == SIM_OK) status = bits_of(config, "dram.row_bytes", &row_bits, err);
    if (status != SIM_OK) return status;
    if (row_bits < out_map->burst_shift)
        return sim_error_set(err, SIM_ERROR_CONFIG, "dram.row_bytes is less than dram.burst_bytes");
    parser.bits_of_column = (uint8_t)(row_bits - out_map->burst_shift);
    status = count_rows(&parser, config);
    if (status == SIM_OK) status = parse(&parser);
    if (status != SIM_OK) return status;
    out_map->segment_bits = segment_bits(out_map);
    if (sim_config_u64(config, "dram.hash") != 0) {
        out_map->hash_mask = (UINT64_C(1) << out_map->row.bits) - 1;
        out_map->channel_hash_mask = (UINT64_C(1) << out_map->channel.bits) - 1;
        out_map->is_channel_hashed = true;
    }
    return SIM_OK;
}

sim_dram_place_t sim_dram_map_decode(const sim_dram_map_t *map, uint64_t address) {
    uint64_t burst = address >> map->burst_shift;
    sim_dram_place_t place = sim_dram_map_bank(map, burst);
    uint64_t channel;
    if (map->divisor != 0) burst = sim_dram_map_divide(map, burst, &channel);
    uint32_t at = 0;
    for (uint32_t i = 0; i < map->column_fields; i++) {
        place.column |= (uint32_t)(sim_dram_field_get(map->column[i], burst) << at);
        at += map->column[i].bits;
    }
    return place;
}

uint64_t sim_dram_map_stripe_bytes(const sim_dram_map_t *map) {
    uint32_t end = (uint32_t)map->channel.shift + map->channel.bits;
    uint32_t group_end = (uint32_t)map->group.shift + map->group.bits;
    if (group_end > end) end = group_end;
    for (uint32_t i = 0; i < map->column_fields; i++) {
        uint32_t column_end = (uint32_t)map->column[i].shift + map->column[i].bits;
        if (column_end > end) end = column_end;
    }
    return (map->divisor == 0 ? 1 : (uint64_t)map->divisor) << (end + map->burst_shift);
}

static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/*
 * Cycles of a channel from opening the rows of a segment to opening others at a random place:
 * activates keep their spacing, and a bank is ready again after tRC. Served in order, a channel
 * waits at the first bank that comes twice, on the mean after sqrt(pi / 2 x banks) segments
 * (Burnett and Coffman, "Analysis of interleaved memory systems using blockage buffers", 1975).
 */
static uint64_t open_cycles(const sim_config_t *config, uint64_t groups) {
    uint64_t banks = sim_config_u64(config, "dram.banks_per_group"), tenths = 10;
    while ((tenths + 1) * (tenths + 1) <= banks * 157)
        tenths++;
    if (sim_config_u64(config, "dram.window") > 1) tenths = 10 * banks;
    uint64_t spacing =
        max64(sim_config_u64(config, "dram.trrd_s"), sim_config_u64(config, "dram.tfaw") / 4);
    uint64_t again = sim_config_u64(config, "dram.tras") + sim_config_u64(config, "dram.trp");
    return max64(groups * spacing, again * 10 / tenths);
}

sim_status_t sim_dram_rows(const sim_config_t *config, sim_dram_rows_t *out_rows,
                           sim_error_t *err) {
    sim_dram_map_t map;
    *out_rows = (sim_dram_rows_t){0};
    sim_status_t status = sim_dram_map_init(config, &map, err);
    if (status != SIM_OK) return status;
    bool has_groups = map.group.bits > 0 && map.group.shift < map.segment_bits;
    uint64_t groups = has_groups ? UINT64_C(1) << map.group.bits : 1;
    uint64_t hz = sim_config_u64(config, "dram.clock") * sim_config_u64(config, "dram.channels");
    *out_rows = (sim_dram_rows_t){
        .segment_bytes = (uint32_t)(UINT64_C(1) << (map.segment_bits + map.burst_shift)),
        .open_bytes = (uint32_t)(sim_config_u64(config, "dram.row_bytes") * groups),
        .stripe_bytes = (uint32_t)sim_dram_map_stripe_bytes(&map),
        .open_ps = (uint32_t)(open_cycles(config, groups) * 1000000000000ull / hz)};
    return SIM_OK;
}
