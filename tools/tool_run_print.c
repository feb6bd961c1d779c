/* What one launch cost: text tables or JSON, from the profile blob. */
#include "tools/tool_run.h"

#include <inttypes.h>
#include <string.h>

typedef struct run_view {
    vnpu_profile_header_t header;
    vnpu_profile_launch_t launch;
    vnpu_profile_record_t record;
    const uint8_t *causes, *slices;
    const char *engine[4096], *cause[64];
} run_view_t;

static bool view_blob(const uint8_t *blob, run_view_t *view) {
    memcpy(&view->header, blob, sizeof view->header);
    if (view->header.num_launches == 0 || view->header.num_records == 0 ||
        view->header.num_engines > 4096)
        return false;
    memcpy(&view->launch, blob + view->header.launches_offset, sizeof view->launch);
    const uint8_t *record = blob + view->header.records_offset;
    memcpy(&view->record, record, sizeof view->record);
    view->causes = record + sizeof view->record;
    view->slices = view->causes +
                   (size_t)view->header.num_engines * view->header.num_causes * sizeof(uint64_t);
    const char *name = (const char *)blob + view->header.names_offset;
    for (uint32_t e = 0; e < view->header.num_engines; e++, name += strlen(name) + 1)
        view->engine[e] = name;
    for (uint32_t c = 0; c < view->header.num_causes && c < 64; c++, name += strlen(name) + 1)
        view->cause[c] = name;
    return true;
}

static uint64_t cause_ps(const run_view_t *view, uint32_t engine, uint32_t cause) {
    uint64_t ps;
    memcpy(&ps, view->causes + ((size_t)engine * view->header.num_causes + cause) * sizeof ps,
           sizeof ps);
    return ps;
}

static double cycles(uint64_t ps, uint64_t core_hz) {
    return (double)ps * (double)core_hz / 1e12;
}

static const char *const PART[VNPU_ENERGY_PARTS] = {"matrix", "vector", "dma", "noc", "dram"};

static void print_energy(const vnpu_profile_record_t *record) {
    uint64_t total = 0;
    for (uint32_t p = 0; p < VNPU_ENERGY_PARTS; p++)
        total += record->energy_fj[p];
    if (total == 0) return;
    printf("  energy %.1f nJ beside static power:", (double)total / 1e6);
    for (uint32_t p = 0; p < VNPU_ENERGY_PARTS; p++) {
        if (record->energy_fj[p] != 0)
            printf("  %s %.1f %%", PART[p], 100.0 * (double)record->energy_fj[p] / (double)total);
    }
    printf("\n");
}

static void print_text(const run_spec_t *spec, const run_view_t *view, uint64_t core_hz) {
    const vnpu_profile_record_t *record = &view->record;
    printf("%s  grid %u x %u\n", record->name, spec->grid[0], spec->grid[1]);
    printf("  %.0f core cycles, %" PRIu64 " ps (start %" PRIu64 " ps, end %" PRIu64 " ps)\n",
           cycles(record->duration_ps, core_hz), record->duration_ps, view->launch.start_ps,
           view->launch.end_ps);
    printf("  %" PRIu64 " instructions, %" PRIu64 " MACs (%" PRIu64 " padded), DRAM %" PRIu64
           " B read, %" PRIu64 " B written\n",
           record->insns, record->macs, record->padded_macs, record->dram_read_bytes,
           record->dram_written_bytes);
    printf("  rows: %" PRIu64 " hits, %" PRIu64 " closed, %" PRIu64 " conflicts\n",
           record->row_hits, record->row_closed, record->row_conflicts);
    if (record->cache_hits + record->cache_misses != 0)
        printf("  cache: %" PRIu64 " lines hit, %" PRIu64 " missed, %" PRIu64 " evicted dirty\n",
               record->cache_hits, record->cache_misses, record->cache_evicted);
    if (record->shared_read_bytes + record->shared_written_bytes != 0)
        printf("  shared scratchpad memory: %" PRIu64 " B read, %" PRIu64 " B written\n",
               record->shared_read_bytes, record->shared_written_bytes);
    print_energy(record);
    printf("\n");
    for (uint32_t e = 0; e < view->header.num_engines; e++) {
        printf("  %-14s", view->engine[e]);
        for (uint32_t c = 0; c < view->header.num_causes; c++) {
            uint64_t ps = cause_ps(view, e, c);
            if (ps != 0)
                printf("  %s %.1f %%", view->cause[c],
                       100.0 * (double)ps / (double)record->duration_ps);
        }
        printf("\n");
    }
    for (uint32_t s = 0; spec->with_slices && s < record->num_slices; s++) {
        vnpu_profile_slice_t slice;
        memcpy(&slice, view->slices + s * sizeof slice, sizeof slice);
        printf("  %-14s op 0x%02x  %12.1f .. %12.1f cycles\n", view->engine[slice.engine], slice.op,
               cycles(slice.start_ps, core_hz), cycles(slice.end_ps, core_hz));
    }
}

static void print_json(const run_view_t *view, uint64_t core_hz) {
    const vnpu_profile_record_t *record = &view->record;
    printf("{\"program\": \"%s\", \"duration_ps\": %" PRIu64
           ", \"cycles\": %.3f, \"insns\": %" PRIu64 ", \"macs\": %" PRIu64
           ", \"padded_macs\": %" PRIu64 ", \"dram_read_bytes\": %" PRIu64
           ", \"dram_written_bytes\": %" PRIu64 ", \"bus_read_bytes\": %" PRIu64
           ", \"bus_written_bytes\": %" PRIu64 ", \"vector_elems\": %" PRIu64 ", \"energy_fj\": {",
           record->name, record->duration_ps, cycles(record->duration_ps, core_hz), record->insns,
           record->macs, record->padded_macs, record->dram_read_bytes, record->dram_written_bytes,
           record->bus_read_bytes, record->bus_written_bytes, record->vector_elems);
    for (uint32_t p = 0; p < VNPU_ENERGY_PARTS; p++)
        printf("%s\"%s\": %" PRIu64, p == 0 ? "" : ", ", PART[p], record->energy_fj[p]);
    printf("}, \"engines\": [");
    for (uint32_t e = 0; e < view->header.num_engines; e++) {
        printf("%s{\"name\": \"%s\", \"total_ps\": %" PRIu64 ", \"causes_ps\": {",
               e == 0 ? "" : ", ", view->engine[e], record->duration_ps);
        for (uint32_t c = 0; c < view->header.num_causes; c++) {
            printf("%s\"%s\": %" PRIu64, c == 0 ? "" : ", ", view->cause[c], cause_ps(view, e, c));
        }
        printf("}}");
    }
    printf("]}\n");
}

void run_print(const run_spec_t *spec, const uint8_t *blob, uint64_t core_hz) {
    static run_view_t view; /* large */
    if (!view_blob(blob, &view)) {
        printf("values only: VNPU_MODE=functional has no time\n");
        return;
    }
    if (spec->is_json)
        print_json(&view, core_hz);
    else
        print_text(spec, &view, core_hz);
}
