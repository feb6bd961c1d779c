#include <criterion/criterion.h>
#include <signal.h>

#include "sim/sim_noc.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

#define TICKS 8u /* a cycle of noc.clock = 1 GHz */

/* 32 bytes a cycle everywhere, no headers, 5 + 9 per hop + 4. */
#define PLAIN                                                                                      \
    "noc.clock=1GHz,noc.latency_cycles=0,noc.bytes_per_cycle=32B,noc.memory_bytes_per_cycle=32B,"  \
    "noc.inject_cycles=5,noc.hop_cycles=9,noc.eject_cycles=4,noc.header_flits=0,grid.workers=0,"
#define MESH  PLAIN "noc.type=mesh,noc.columns=4,noc.rows=3,grid.cores=12"
#define TORUS PLAIN "noc.type=torus,noc.columns=4,noc.rows=3,grid.cores=12"
#define RING  PLAIN "noc.type=ring,noc.columns=6,grid.cores=6"
#define WITH_HEADER                                                                                \
    "noc.header_flits=1,noc.clock=1GHz,noc.latency_cycles=0,noc.bytes_per_cycle=32B,"              \
    "noc.memory_bytes_per_cycle=32B,noc.inject_cycles=5,noc.hop_cycles=9,noc.eject_cycles=4,"      \
    "noc.type=torus,noc.columns=4,noc.rows=3,grid.cores=12"
#define ENDS 9u
#define HOP  9u

static sim_noc_t *noc_new(const char *overrides) {
    sim_config_t *config = config_new("default", overrides);
    sim_noc_t *noc;
    sim_error_t err = {0};
    uint32_t cores = (uint32_t)sim_config_u64(config, "grid.cores");
    cr_assert_eq(sim_noc_create(config, cores, &noc, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    return noc;
}

static uint64_t cycles_of(sim_noc_t *noc, uint32_t src, uint32_t dst, uint64_t bytes) {
    sim_noc_path_t path = {.src_port = src, .dst_port = dst};
    return sim_noc_send(noc, path, bytes, 0) / TICKS;
}

static uint32_t apart(uint32_t a, uint32_t b) {
    return a > b ? a - b : b - a;
}

static uint32_t around(uint32_t a, uint32_t b, uint32_t size) {
    uint32_t way = apart(a, b);
    return way <= size - way ? way : size - way;
}

/* ---- zero load: inject + hops x hop + eject + serialisation ---- */

typedef uint32_t (*hops_fn)(uint32_t from, uint32_t to);

static uint32_t mesh_hops(uint32_t a, uint32_t b) {
    return apart(a % 4, b % 4) + apart(a / 4, b / 4);
}

static uint32_t torus_hops(uint32_t a, uint32_t b) {
    return around(a % 4, b % 4, 4) + around(a / 4, b / 4, 3);
}

static uint32_t ring_hops(uint32_t a, uint32_t b) {
    return around(a, b, 6);
}

Test(noc, zero_load_of_every_pair) {
    const struct {
        const char *overrides;
        uint32_t nodes;
        hops_fn hops;
    } cases[] = {{MESH, 12, mesh_hops}, {TORUS, 12, torus_hops}, {RING, 6, ring_hops}};
    const uint64_t bytes[] = {1, 32, 33, 4096};
    for (size_t c = 0; c < 3; c++) {
        sim_noc_t *noc = noc_new(cases[c].overrides);
        for (uint32_t a = 0; a < cases[c].nodes; a++)
            for (uint32_t b = 0; b < cases[c].nodes; b++)
                for (size_t i = 0; i < 4; i++) {
                    uint64_t want = ENDS + HOP * cases[c].hops(a, b) + (bytes[i] + 31) / 32;
                    sim_noc_reset(noc);
                    cr_assert_eq(cycles_of(noc, a, b, bytes[i]), want, "%s: %u to %u",
                                 cases[c].overrides, a, b);
                }
        sim_noc_destroy(noc);
    }
}

Test(noc, one_way_networks_go_round) {
    sim_noc_t *noc = noc_new(merged(TORUS, "noc.networks=2"));
    cr_assert_eq(sim_noc_networks(noc), 2);
    for (uint32_t a = 0; a < 12; a++)
        for (uint32_t b = 0; b < 12; b++) {
            uint32_t up = (b + 4 - a) % 4 + (b / 4 + 3 - a / 4) % 3;
            uint32_t down = (a + 4 - b) % 4 + (a / 4 + 3 - b / 4) % 3;
            sim_noc_path_t path = {.src_port = a, .dst_port = b};
            cr_assert_eq(sim_noc_hops(noc, path), up);
            path.network = 1;
            cr_assert_eq(sim_noc_hops(noc, path), down);
            sim_noc_reset(noc);
            cr_assert_eq(sim_noc_send(noc, path, 32, 0), (ENDS + HOP * down + 1) * TICKS);
        }
    sim_noc_destroy(noc);
}

Test(noc, a_header_is_a_flit_and_ends_on_an_edge) {
    sim_noc_t *noc = noc_new(merged(MESH, "noc.header_flits=1"));
    cr_assert_eq(cycles_of(noc, 0, 1, 0), ENDS + HOP + 1);
    cr_assert_eq(cycles_of(noc, 2, 3, 64), ENDS + HOP + 3);
    sim_noc_reset(noc);
    sim_noc_path_t path = {.src_port = 0, .dst_port = 1};
    cr_assert_eq(sim_noc_send(noc, path, 32, 3), (1 + ENDS + HOP + 2) * TICKS);
    sim_noc_destroy(noc);
}

Test(noc, ports_are_found_by_their_router) {
    sim_noc_t *noc =
        noc_new(merged(MESH, "noc.core_nodes=1-2:*  3:* 0:0-1 0:2 0:0,noc.memory_nodes=0:2"));
    uint32_t port;
    cr_assert(sim_noc_port_at(noc, 2, 1, &port));
    cr_assert_eq(port, 3);
    cr_assert(sim_noc_port_at(noc, 0, 2, &port)); /* a core, before the memory endpoint */
    cr_assert_eq(port, 11);
    cr_assert(!sim_noc_port_at(noc, 4, 0, &port));
    cr_assert(!sim_noc_port_at(noc, 0, 3, &port));
    sim_noc_destroy(noc);
}

/* ---- contention ---- */

Test(noc, a_shared_link_halves_a_disjoint_one_does_not) {
    sim_noc_t *noc = noc_new(MESH);
    /* row 0: 0 -> 2 and 1 -> 3 share the link 1 -> 2 */
    cr_assert_eq(cycles_of(noc, 0, 2, 3200), ENDS + 2 * HOP + 100);
    cr_assert_eq(cycles_of(noc, 1, 3, 3200), ENDS + 3 * HOP + 200);
    cr_assert_eq(cycles_of(noc, 4, 6, 3200), ENDS + 2 * HOP + 100); /* row 1 */
    cr_assert_eq(cycles_of(noc, 3, 0, 3200), ENDS + 3 * HOP + 100); /* the other way */
    sim_noc_reset(noc);
    uint64_t last = 0; /* 2 x 1000 messages of 100 cycles through one link */
    for (int i = 0; i < 1000; i++) {
        (void)cycles_of(noc, 0, 2, 3200);
        last = cycles_of(noc, 1, 3, 3200);
    }
    cr_assert_geq(last, 200000);
    cr_assert_leq(last, 200000 + ENDS + 3 * HOP);
    sim_noc_destroy(noc);
}

Test(noc, x_before_y) {
    sim_noc_t *noc = noc_new(MESH);
    /* 0 -> 5 takes 0-1-5; 1 -> 9 shares 1-5; 0 -> 8 goes 0-4-8 and shares nothing but the port */
    (void)cycles_of(noc, 0, 5, 3200);
    cr_assert_eq(cycles_of(noc, 1, 9, 3200), 5 + HOP + 100 + 100 + 2 * HOP + 4);
    cr_assert_eq(cycles_of(noc, 4, 8, 3200), ENDS + HOP + 100);
    sim_noc_destroy(noc);
}

Test(noc, ports_are_shared_in_both_directions) {
    sim_noc_t *noc = noc_new(MESH);
    cr_assert_eq(cycles_of(noc, 5, 4, 3200), ENDS + HOP + 100);
    cr_assert_eq(cycles_of(noc, 5, 6, 3200), ENDS + HOP + 200); /* one source */
    cr_assert_eq(cycles_of(noc, 9, 4, 3200), ENDS + HOP + 200); /* 9-8-4: one destination */
    sim_noc_destroy(noc);
}

Test(noc, an_early_message_passes_before_what_is_reserved_later) {
    sim_noc_t *noc = noc_new(MESH);
    for (int i = 0; i < 10; i++)
        (void)cycles_of(noc, 0, 3, 3200);
    /* The last of them enters the link 2-3 after 900 cycles: a short one from 2 goes first. */
    cr_assert_eq(cycles_of(noc, 2, 3, 64), ENDS + HOP + 2);
    sim_noc_destroy(noc);
}

Test(noc, classes_share_or_do_not) {
    const char *const overrides[] = {"noc.classes=shared", "noc.classes=separate"};
    for (uint64_t i = 0; i < 2; i++) {
        sim_noc_t *noc = noc_new(merged(MESH, overrides[i]));
        sim_noc_path_t path = {.src_port = 0, .dst_port = 1, .cls = SIM_NOC_RESPONSE};
        (void)cycles_of(noc, 0, 1, 3200);
        cr_assert_eq(sim_noc_send(noc, path, 3200, 0), (ENDS + HOP + 200 - 100 * i) * TICKS);
        sim_noc_destroy(noc);
    }
}

/* ---- rates ---- */

Test(noc, packet_rates_are_those_of_the_table) {
    sim_noc_t *noc =
        noc_new(merged(MESH, "noc.packet_rate=128:5.5 256:10.1 512:18.0 1024:27.4 2048:30.0,"
                             "noc.max_packet_bytes=8 KiB"));
    /* 5.5, 10.1, 18, 27.4, 30 bytes a cycle; 192: 7.8, 1536: 28.7; 64 bytes take as long as 128 */
    const uint64_t bytes[] = {128, 256, 512, 1024, 2048, 4096, 192, 1536, 64};
    const uint64_t rate[] = {5500, 10100, 18000, 27400, 30000, 30000, 7800, 28700, 2750};
    for (size_t i = 0; i < 9; i++) {
        uint64_t last = 0;
        sim_noc_reset(noc);
        cr_assert_eq(cycles_of(noc, 0, 1, bytes[i]),
                     ENDS + HOP + (bytes[i] * 1000 + rate[i] - 1) / rate[i], "%zu", i);
        for (int n = 1; n < 1000; n++)
            last = cycles_of(noc, 0, 1, bytes[i]);
        uint64_t want = 1000 * bytes[i] * 1000 / rate[i];
        cr_assert_geq(last, ENDS + HOP + want);
        cr_assert_leq(last, ENDS + HOP + want + want / 4096 + 4);
    }
    sim_noc_destroy(noc);
}

Test(noc, limits_of_endpoints) {
    sim_noc_t *noc =
        noc_new(merged(MESH, "noc.core_inject=25,noc.core_absorb=20,noc.memory_inject=16,"
                             "noc.memory_absorb=12.5"));
    uint32_t memory = sim_noc_memory_port(noc, 0); /* at 0:0, beside core 0 */
    cr_assert_eq(memory, 12);
    cr_assert_eq(sim_noc_memory_ports(noc), 6);
    cr_assert_eq(sim_noc_memory_port(noc, 7), 13);
    cr_assert_eq(cycles_of(noc, 0, memory, 1000), ENDS + 80);        /* 12.5 */
    cr_assert_eq(cycles_of(noc, memory, 1, 3200), ENDS + HOP + 200); /* 16 */
    cr_assert_eq(cycles_of(noc, 4, 5, 1000), ENDS + HOP + 50);       /* 20 */
    uint64_t last = 0;
    for (uint32_t i = 0; i < 100; i++) /* one source, two destinations: 25 */
        last = cycles_of(noc, 6, i % 2 == 0 ? 5 : 7, 1000);
    cr_assert_leq(apart((uint32_t)last, ENDS + HOP + 99 * 40 + 50), 1);
    sim_noc_destroy(noc);
}

Test(noc, long_messages_are_cut) {
    sim_noc_t *noc = noc_new(merged(MESH, "noc.header_flits=1,noc.max_packet_bytes=256"));
    cr_assert_eq(cycles_of(noc, 0, 1, 1024), ENDS + HOP + 4 * 9);
    cr_assert_eq(cycles_of(noc, 4, 5, 1000), ENDS + HOP + 36);
    sim_noc_destroy(noc);
}

/* ---- multicast ---- */

Test(noc, multicast_charges_a_link_once) {
    sim_noc_t *noc = noc_new(MESH);
    const uint32_t to[] = {3, 2, 7, 11, 6};
    sim_tick_t arrival[5];
    sim_noc_path_t path = {.src_port = 0};
    sim_noc_multicast(noc, path, to, 5, 3200, 0, arrival);
    const uint64_t hops[] = {3, 2, 4, 5, 3};
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(arrival[i], (ENDS + hops[i] * HOP + 100) * TICKS);
    /* 0-1-2-3, 3-7-11, 2-6: six links, one message */
    cr_assert_eq(sim_noc_stats(noc)->byte_hops, 6 * 3200);
    cr_assert_eq(sim_noc_stats(noc)->messages, 1);
    cr_assert_eq(cycles_of(noc, 1, 2, 3200), ENDS + HOP + 100 + 100 + HOP);
    sim_noc_destroy(noc);
}

Test(noc, multicast_over_a_crossbar) {
    sim_noc_t *noc = noc_new("noc.clock=1GHz,noc.bytes_per_cycle=256B,noc.latency_cycles=20");
    const uint32_t to[] = {1, 2, 3};
    sim_tick_t arrival[3];
    sim_noc_path_t path = {.src_port = 0};
    sim_noc_multicast(noc, path, to, 3, 4096, 0, arrival);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(arrival[i], 36 * TICKS);
    cr_assert_eq(cycles_of(noc, 0, 1, 4096), 52);
    cr_assert(!sim_noc_has_requests(noc));
    cr_assert_eq(sim_noc_memory_ports(noc), 1);
    cr_assert_eq(sim_noc_memory_port(noc, 31), 4);
    sim_noc_destroy(noc);
}

/* ---- the keys ---- */

Test(noc, every_key_of_a_routed_topology_has_an_effect) {
    static const char *const CASES[] = {"noc.type=ring,noc.columns=12,noc.rows=1",
                                        "noc.type=mesh",
                                        "noc.clock=500MHz",
                                        "noc.bytes_per_cycle=16B",
                                        "noc.memory_bytes_per_cycle=16B",
                                        "noc.columns=6,noc.rows=2",
                                        "noc.rows=4",
                                        "noc.networks=2",
                                        "noc.core_nodes=*:2 *:1 *:0",
                                        "noc.memory_nodes=1:1",
                                        "noc.inject_cycles=6",
                                        "noc.hop_cycles=8",
                                        "noc.eject_cycles=5",
                                        "noc.header_flits=2",
                                        "noc.max_packet_bytes=64B",
                                        "noc.packet_rate=128:5.5",
                                        "noc.core_inject=9.5",
                                        "noc.core_absorb=9",
                                        "noc.memory_inject=8",
                                        "noc.memory_absorb=8",
                                        "noc.classes=separate"};
    uint64_t base = 0;
    for (size_t i = 0; i <= sizeof CASES / sizeof CASES[0]; i++) {
        sim_config_t *config =
            config_new("default", merged(WITH_HEADER, i > 0 ? CASES[i - 1] : ""));
        sim_error_t err = {0};
        sim_noc_t *noc;
        cr_assert_eq(sim_noc_create(config, 12, &noc, &err), SIM_OK, "%s", err.text);
        uint64_t sum = 0;
        for (uint32_t n = 0; n < 200; n++) {
            uint32_t memory = sim_noc_memory_port(noc, n % 6);
            sim_noc_path_t out = {n % 12, memory, 0, SIM_NOC_REQUEST},
                           back = {memory, n % 12, 0, SIM_NOC_RESPONSE};
            sum = sum * 31 + sim_noc_send(noc, out, 128, 0) + sim_noc_send(noc, back, 1000, 0);
        }
        if (i == 0)
            base = sum;
        else
            cr_assert_neq(sum, base, "%s", CASES[i - 1]);
        sim_noc_destroy(noc);
        sim_config_destroy(config);
    }
}

static void expect_refusal(const char *base, const char *extra, const char *part) {
    const char *overrides = merged(base, extra);
    sim_config_t *config;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_load(VNPU_SOURCE_DIR "/configs/default.ini", overrides, &config, &err),
                 SIM_ERROR_CONFIG, "%s", overrides);
    cr_assert_null(config);
    cr_assert_not_null(strstr(err.text, part), "%s: %s", overrides, err.text);
}

Test(noc, wrong_placements_and_keys_without_effect_are_refused) {
    static const struct {
        const char *base, *extra, *part;
    } CASES[] = {
        {"", "noc.type=mesh", "noc.columns is needed by noc.type = mesh"},
        {"", "noc.type=mesh,noc.columns=4", "noc.latency_cycles = 20 has no effect"},
        {RING, "noc.rows=2", "a ring has one row"},
        {MESH, "noc.networks=2", "a mesh of one-way links is not connected"},
        {PLAIN, "noc.type=mesh,noc.columns=64,noc.rows=64", "more than 1024 nodes"},
        {MESH, "noc.core_nodes=0:0 1:0", "2 nodes for 12 cores"},
        {MESH, "noc.core_nodes=4:0", "\"4:0\": not x:y of the grid"},
        {MESH, "noc.core_nodes=0:3", "\"0:3\": not x:y of the grid"},
        {MESH, "noc.core_nodes=3", "\"3\": not x:y of the grid"},
        {MESH, "noc.memory_nodes=2-1:0", "\"2-1:0\": not x:y"},
        {MESH, "noc.memory_nodes=middle", "\"middle\": not x:y"},
        {MESH, "dram.channels=4", "6 memory endpoints, 1 .. 4 can be served"},
        {MESH, "noc.packet_rate=128", "\"128\": not bytes:bytes_per_cycle"},
        {MESH, "noc.packet_rate=128:0", "\"128:0\": not bytes:bytes_per_cycle"},
        {MESH, "noc.packet_rate=128:5 128:6", "rising sizes"},
    };
    static const char *const ROUTED[] = {"columns=4",         "rows=2",
                                         "networks=2",        "core_nodes=0:0",
                                         "memory_nodes=0:0",  "inject_cycles=2",
                                         "hop_cycles=2",      "eject_cycles=2",
                                         "header_flits=2",    "max_packet_bytes=64B",
                                         "packet_rate=128:5", "core_inject=2",
                                         "core_absorb=2",     "memory_inject=2",
                                         "memory_absorb=2",   "classes=separate"};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_refusal(CASES[i].base, CASES[i].extra, CASES[i].part);
    for (size_t i = 0; i < sizeof ROUTED / sizeof ROUTED[0]; i++) {
        char overrides[64];
        (void)snprintf(overrides, sizeof overrides, "noc.%s", ROUTED[i]);
        expect_refusal("", overrides, "has no effect with noc.type = crossbar");
    }
}

Test(noc, idle_cycles_of_a_read) {
    sim_config_t *config = config_new("default", "noc.latency_cycles=17");
    cr_assert_eq(sim_noc_read_cycles(config), 17);
    sim_config_destroy(config);
    /* one core at 0:0, one endpoint at 3:2: five hops there, five back */
    config = config_new("default", PLAIN "noc.type=mesh,noc.columns=4,noc.rows=3,grid.cores=1,"
                                         "noc.memory_nodes=3:2");
    cr_assert_eq(sim_noc_read_cycles(config), 2 * ENDS + 10 * HOP);
    sim_config_destroy(config);
    /* one-way: there and back is once round, in x (4) and y (3) */
    config = config_new("default", PLAIN "noc.type=torus,noc.columns=4,noc.rows=3,grid.cores=1,"
                                         "noc.memory_nodes=3:2,noc.networks=2");
    cr_assert_eq(sim_noc_read_cycles(config), 2 * ENDS + 7 * HOP);
    sim_config_destroy(config);
}

Test(noc, every_failing_allocation_is_reported_and_leaks_nothing) {
    const char *const overrides[] = {"", MESH, TORUS ",noc.networks=2,noc.classes=separate"};
    for (int i = 0; i < 3; i++) {
        alloc_count_reset();
        sim_config_t *config = config_new("default", overrides[i]);
        sim_noc_t *noc;
        unsigned long failures = 0;
        for (;; failures++) {
            alloc_count_reset();
            alloc_fail_from(failures);
            sim_status_t status = sim_noc_create(config, 4, &noc, NULL);
            if (status == SIM_OK) break;
            cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY);
            cr_assert_null(noc);
            cr_assert_eq(alloc_live(), 0);
            cr_assert_lt(failures, 10);
        }
        cr_assert_gt(failures, 0);
        alloc_count_reset();
        unsigned long before = alloc_count();
        for (uint32_t n = 0; n < 10000; n++)
            (void)cycles_of(noc, n % 4, (n / 4) % 5, 100 + n % 5000);
        cr_assert_eq(alloc_count(), before);
        sim_noc_destroy(noc);
        sim_config_destroy(config);
    }
}

Test(noc, back_in_time_is_a_bug, .signal = SIGABRT) {
    sim_noc_t *noc = noc_new(MESH);
    sim_noc_path_t path = {.src_port = 0, .dst_port = 1};
    (void)sim_noc_send(noc, path, 256, 10);
    (void)sim_noc_send(noc, path, 256, 9);
}

Test(noc, a_port_that_does_not_exist_is_a_bug, .signal = SIGABRT) {
    sim_noc_t *noc = noc_new(MESH);
    (void)cycles_of(noc, 0, 18, 1);
}
