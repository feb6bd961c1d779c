/*
 * The event core against a plain heap keyed (tick, phase, sequence), written here: the same random
 * script of schedules, reschedules and cancellations must dispatch in the same order. A handler
 * draws its random numbers in dispatch order, so one difference changes everything behind it. Also:
 * nothing is allocated once the heap is warm.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "sim/sim_event.h"
#include "tests/sim/alloc_count.h"

#define MAX_DEPTH 4096u

typedef struct item {
    sim_event_t event;
    sim_tick_t tick; /* the reference's key */
    uint64_t seq;
    sim_phase_t phase;
    uint32_t id;
    bool is_pending;
} item_t;

typedef struct world {
    sim_engine_t *engine; /* NULL: the reference runs */
    item_t item[MAX_DEPTH];
    item_t *heap[MAX_DEPTH];
    uint32_t heap_count, depth;
    uint64_t seq, random, checksum, dispatched, limit;
    sim_tick_t now;
    sim_phase_t phase;
    int dist;
    uint32_t warm_up;
    unsigned long warm_allocations;
} world_t;

static world_t *world; /* the handler has no other way to it */

/* ---- the reference ------------------------------------------------------- */

static bool is_before(const item_t *a, const item_t *b) {
    if (a->tick != b->tick) return a->tick < b->tick;
    if (a->phase != b->phase) return a->phase < b->phase;
    return a->seq < b->seq;
}

static void swap(uint32_t a, uint32_t b) {
    item_t *t = world->heap[a];
    world->heap[a] = world->heap[b];
    world->heap[b] = t;
}

static void sift(uint32_t at) {
    for (; at > 0 && is_before(world->heap[at], world->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(at, (at - 1) / 2);
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < world->heap_count; child++)
            if (is_before(world->heap[child], world->heap[least])) least = child;
        if (least == at) return;
        swap(at, least);
        at = least;
    }
}

static void reference_remove(item_t *item) {
    uint32_t at = 0;
    while (world->heap[at] != item)
        at++;
    world->heap[at] = world->heap[--world->heap_count];
    if (at < world->heap_count) sift(at);
    item->is_pending = false;
}

static void reference_add(item_t *item) {
    item->seq = world->seq++;
    item->is_pending = true;
    world->heap[world->heap_count] = item;
    sift(world->heap_count++);
}

/* ---- the script ---------------------------------------------------------- */

static uint32_t draw(uint32_t below) {
    world->random = world->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((world->random >> 33) % below);
}

#define DIST_COUNT 10

static sim_tick_t delay(void) {
    switch (world->dist) {
    case 0: return 1 + draw(64);
    case 1: return 1 + draw(1024);
    case 2: { /* the mix of an NPU: short, DRAM, beyond the wheel */
        uint32_t kind = draw(16);
        return kind < 14 ? 1 + draw(32) : kind == 14 ? 200 + draw(256) : 2000 + draw(8192);
    }
    case 3: return draw(4) == 0 ? 0 : 1 + draw(16);
    case 4: return 4090 + draw(12);            /* the edge of the wheel */
    case 5: return 1 + draw(1000000);          /* nearly all in the heap */
    case 6: return UINT64_C(1) << draw(20);    /* all scales */
    case 7: return 4096;                       /* always just beyond */
    case 8: return 512 * (sim_tick_t)draw(20); /* many in one tick, wheel and heap mixed */
    case 9: return ((sim_tick_t)draw(8) << 40) + draw(3); /* epochs apart */
    }
    cr_assert_fail();
    return 0;
}

static void dispatched(item_t *item);

static void on_event(sim_engine_t *engine, sim_event_t *event) {
    world->now = sim_now(engine);
    world->phase = sim_now_phase(engine);
    dispatched(SIM_CONTAINER_OF(event, item_t, event));
}

static bool is_pending(const item_t *item) {
    return world->engine != NULL ? sim_event_is_pending(&item->event) : item->is_pending;
}

static void schedule(item_t *item) {
    sim_tick_t after = delay();
    item->phase = (sim_phase_t)draw(SIM_PHASE_COUNT);
    if (after == 0 && item->phase < world->phase) after = 1;
    item->tick = world->now + after;
    if (world->engine == NULL) {
        reference_add(item);
        return;
    }
    sim_event_init(&item->event, item->phase, on_event);
    sim_event_schedule(world->engine, &item->event, item->tick);
}

static void cancel(item_t *item) {
    if (!is_pending(item)) return;
    if (world->engine == NULL)
        reference_remove(item);
    else
        sim_event_cancel(world->engine, &item->event);
}

static void dispatched(item_t *item) {
    uint64_t mixed = item->id ^ world->now * 8191 ^ (uint64_t)world->phase << 60;
    world->checksum = (world->checksum ^ mixed) * UINT64_C(0x100000001b3);
    if (++world->dispatched == world->warm_up) world->warm_allocations = alloc_count();
    if (world->dispatched >= world->limit) return; /* let it run dry */
    schedule(item);
    uint32_t kind = draw(8);
    item_t *other = &world->item[draw(world->depth)];
    if (kind == 0 && other != item) cancel(other); /* not itself: one must stay */
    if (kind == 1) {
        cancel(other);
        schedule(other);
    }
    if (kind == 2 && !is_pending(other)) schedule(other); /* what kind 0 took out comes back */
}

static void run_reference(void) {
    while (world->heap_count > 0) {
        item_t *item = world->heap[0];
        reference_remove(item);
        world->now = item->tick;
        world->phase = item->phase;
        dispatched(item);
    }
}

/* Returns the checksum of the dispatch order. */
static uint64_t run(sim_engine_t *engine, int dist, uint32_t depth, sim_tick_t start,
                    uint64_t steps) {
    *world = (world_t){
        .engine = engine, .depth = depth, .random = 77, .limit = steps, .dist = dist, .now = start};
    world->warm_up = (uint32_t)(steps / 2);
    for (uint32_t i = 0; i < depth; i++)
        world->item[i].id = i;
    for (uint32_t i = 0; i < depth; i++)
        schedule(&world->item[i]);
    if (engine != NULL)
        (void)sim_engine_run(engine);
    else
        run_reference();
    cr_assert_geq(world->dispatched, steps);
    return world->checksum;
}

static void compare(int dist, uint32_t depth, sim_tick_t start, uint64_t steps) {
    sim_engine_t *engine;
    world = calloc(1, sizeof *world);
    cr_assert_not_null(world);
    cr_assert_eq(sim_engine_create(&engine), SIM_OK);
    uint64_t expected = run(NULL, dist, depth, start, steps);
    uint64_t count = world->dispatched;
    cr_assert_eq(run(engine, dist, depth, start, steps), expected, "distribution %d, depth %u",
                 dist, depth);
    cr_assert_eq(world->dispatched, count);
    /* Once more on the same engine: a reset leaves nothing behind, and warm means no allocation. */
    sim_engine_reset(engine);
    alloc_count_reset();
    cr_assert_eq(run(engine, dist, depth, start, steps), expected, "after a reset");
    cr_assert_eq(alloc_count(), 0, "distribution %d, depth %u", dist, depth);
    sim_engine_destroy(engine);
    free(world);
}

Test(event_order, equals_the_reference_at_every_depth) {
    static const uint32_t DEPTHS[] = {1, 2, 16, 256, 4096};
    for (int dist = 0; dist < DIST_COUNT; dist++)
        for (size_t i = 0; i < sizeof DEPTHS / sizeof DEPTHS[0]; i++)
            compare(dist, DEPTHS[i], 0, 40000);
}

Test(event_order, equals_the_reference_near_the_end_of_time) {
    for (int dist = 0; dist < DIST_COUNT; dist++) {
        compare(dist, 64, (UINT64_C(1) << 63) - 5000, 20000); /* across 2^63 */
        if (dist != 9) compare(dist, 64, UINT64_MAX - (UINT64_C(1) << 40), 20000);
    }
}

/* In one run: the heap grows while it fills up; after half of the run it does no longer. */
Test(event_order, nothing_is_allocated_while_events_run) {
    sim_engine_t *engine;
    world = calloc(1, sizeof *world);
    cr_assert_not_null(world);
    cr_assert_eq(sim_engine_create(&engine), SIM_OK);
    alloc_count_reset();
    (void)run(engine, 5, MAX_DEPTH, 0, 50000);
    cr_assert_gt(alloc_count(), 0); /* the heap grew to hold 4096: the counter counts */
    cr_assert_eq(alloc_count(), world->warm_allocations);
    sim_engine_destroy(engine);
    free(world);
}

Test(event_order, create_fails_cleanly_at_every_allocation) {
    sim_engine_t *engine;
    unsigned long n = 0;
    for (;; n++) {
        alloc_count_reset();
        alloc_fail_from(n);
        engine = (sim_engine_t *)1;
        sim_status_t status = sim_engine_create(&engine);
        if (status == SIM_OK) break;
        cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY);
        cr_assert_null(engine);
        cr_assert_eq(alloc_live(), 0);
    }
    cr_assert_eq(n, 2); /* the engine and its heap */
    sim_engine_destroy(engine);
    cr_assert_eq(alloc_live(), 0);
    sim_engine_destroy(NULL);
}
