#include <criterion/criterion.h>
#include <string.h>

#include "device/dev_memory.h"
#include "tests/device/dev_test_random.h"

enum { MIB = 1 << 20 };

static dev_memory_t *open_memory(uint64_t bytes, dev_backing_t backing, uint64_t limit) {
    dev_memory_t *memory;
    sim_error_t err = {0};
    cr_assert_eq(dev_memory_create(bytes, backing, limit, &memory, &err), SIM_OK, "%s", err.text);
    return memory;
}

static uint64_t alloc(dev_memory_t *memory, uint32_t owner, uint64_t bytes) {
    uint64_t address;
    sim_error_t err = {0};
    cr_assert_eq(dev_memory_alloc(memory, owner, bytes, &address, &err), SIM_OK, "%s", err.text);
    return address;
}

Test(memory, allocations_are_aligned_disjoint_and_deterministic) {
    uint64_t first[200];
    for (uint32_t round = 0; round < 2; round++) {
        dev_memory_t *memory = open_memory(64 * MIB, DEV_BACKING_FULL, 0);
        uint64_t live[200] = {0}, bytes[200] = {0}, seed = 1;
        for (uint32_t step = 0; step < 2000; step++) {
            uint32_t i = (uint32_t)(dev_test_random(&seed) % 200);
            if (live[i]) {
                cr_assert_eq(dev_memory_free(memory, 3, live[i], NULL), SIM_OK);
                live[i] = 0;
                continue;
            }
            bytes[i] = (uint64_t)dev_test_between(&seed, 1, 200000);
            live[i] = alloc(memory, 3, bytes[i]);
            cr_assert_eq(live[i] % DEV_MEMORY_ALIGN, 0);
            cr_assert_geq(live[i], DEV_MEMORY_BASE);
            for (uint32_t j = 0; j < 200; j++) {
                if (j == i || !live[j]) continue;
                cr_assert(live[i] + bytes[i] <= live[j] || live[j] + bytes[j] <= live[i]);
            }
        }
        for (uint32_t i = 0; i < 200; i++) {
            if (round == 0) first[i] = live[i];
            cr_assert_eq(live[i], first[i]);
            if (live[i]) cr_assert_eq(dev_memory_free(memory, 3, live[i], NULL), SIM_OK);
        }
        uint64_t left, total, peak;
        dev_memory_info(memory, &left, &total, &peak);
        cr_assert_eq(left, total);
        cr_assert_eq(total, 64 * MIB);
        cr_assert_gt(peak, 0);
        cr_assert_eq(alloc(memory, 3, total), DEV_MEMORY_BASE,
                     "all blocks have grown together again");
        dev_memory_destroy(memory);
    }
}

Test(memory, best_fit_takes_the_smallest_hole) {
    dev_memory_t *memory = open_memory(MIB, DEV_BACKING_FULL, 0);
    uint64_t a = alloc(memory, 1, 4096), keep1 = alloc(memory, 1, 512), b = alloc(memory, 1, 1024),
             keep2 = alloc(memory, 1, 512);
    cr_assert_eq(dev_memory_free(memory, 1, a, NULL), SIM_OK);
    cr_assert_eq(dev_memory_free(memory, 1, b, NULL), SIM_OK);
    cr_assert_eq(alloc(memory, 1, 1000), b);
    cr_assert_eq(alloc(memory, 1, 1000), a);
    cr_assert_lt(keep1, keep2);
    dev_memory_destroy(memory);
}

Test(memory, refusals_name_the_reason) {
    dev_memory_t *memory = open_memory(MIB, DEV_BACKING_FULL, MIB / 2);
    uint64_t address;
    sim_error_t err = {0};
    cr_assert_eq(dev_memory_alloc(memory, 1, 0, &address, &err), SIM_ERROR_INVALID_VALUE);
    err = (sim_error_t){0};
    cr_assert_eq(dev_memory_alloc(memory, 1, UINT64_MAX, &address, &err), SIM_ERROR_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(err.text, "no free range is large enough"), "%s", err.text);
    err = (sim_error_t){0};
    cr_assert_eq(dev_memory_alloc(memory, 1, MIB * 3 / 4, &address, &err), SIM_ERROR_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(err.text, "the host backs at most"), "%s", err.text);
    cr_assert_eq(address, 0);
    uint64_t mine = alloc(memory, 1, 1000);
    cr_assert_eq(dev_memory_free(memory, 2, mine, NULL), SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(dev_memory_free(memory, 1, mine + 512, NULL), SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(dev_memory_free(memory, 1, 4096, NULL), SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(dev_memory_free(memory, 1, mine, NULL), SIM_OK);
    cr_assert_eq(dev_memory_free(memory, 1, mine, NULL), SIM_ERROR_INVALID_VALUE);
    dev_memory_t *none;
    cr_assert_eq(dev_memory_create(0, DEV_BACKING_FULL, 0, &none, NULL), SIM_ERROR_INVALID_VALUE);
    cr_assert_null(none);
    dev_memory_destroy(NULL);
    dev_memory_destroy(memory);
}

Test(memory, translation_is_exact_to_the_byte) {
    dev_memory_t *memory = open_memory(MIB, DEV_BACKING_FULL, 0);
    uint64_t a = alloc(memory, 1, 1000), b = alloc(memory, 2, 512);
    uint8_t *host = dev_memory_translate(memory, 1, a, 1000, NULL);
    cr_assert_not_null(host);
    memset(host, 1, 1000);
    cr_assert_eq(dev_memory_translate(memory, 1, a + 10, 990, NULL), host + 10);
    cr_assert_not_null(dev_memory_translate(memory, 0, b, 512, NULL), "owner 0 is any");
    const struct {
        uint32_t owner;
        uint64_t address, bytes;
        const char *reason;
    } bad[] = {
        {1, a, 1001, "past the end of the allocation"},
        {1, a + 1000, 1, "past the end of the allocation"},
        {1, a - 1, 2, "not a device address"},
        {1, b, 1, "another client's allocation"},
        {1, b + 512, 1, "outside every allocation"},
        {1, 0x1234, 8, "not a device address (host pointer?)"},
        {1, DEV_MEMORY_BASE + MIB, 1, "not a device address"},
        {1, a, UINT64_MAX, "past the end"},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sim_error_t err = {0};
        cr_assert_null(
            dev_memory_translate(memory, bad[i].owner, bad[i].address, bad[i].bytes, &err));
        cr_assert_eq(err.status, SIM_ERROR_ILLEGAL_ADDRESS);
        cr_assert_not_null(strstr(err.text, bad[i].reason), "case %u: %s", i, err.text);
        cr_assert_not_null(strstr(err.text, "nearest allocation [0x"), "case %u: %s", i, err.text);
    }
    cr_assert_eq(dev_memory_free(memory, 1, a, NULL), SIM_OK);
    sim_error_t err = {0};
    cr_assert_null(dev_memory_translate(memory, 1, a, 1, &err));
    cr_assert_not_null(strstr(err.text, "not allocated (freed?)"), "%s", err.text);
    uint64_t start, bytes;
    cr_assert_not(dev_memory_find(memory, a, &start, &bytes));
    cr_assert(dev_memory_find(memory, b + 100, &start, &bytes));
    cr_assert_eq(start, b);
    cr_assert_eq(bytes, 512);
    dev_memory_destroy(memory);
}

Test(memory, an_owners_end_frees_its_memory_and_its_bytes) {
    dev_memory_t *memory = open_memory(64 * MIB, DEV_BACKING_FULL, 0);
    uint64_t keep = 0, last = 0;
    for (uint32_t i = 0; i < 8; i++) {
        last = alloc(memory, i == 3 ? 2 : 1, 4 * MIB);
        memset(dev_memory_translate(memory, 0, last, 4 * MIB, NULL), 0xab, 4 * MIB);
        if (i == 3) keep = last;
    }
    dev_memory_free_owner(memory, 1);
    uint64_t left, total, peak;
    dev_memory_info(memory, &left, &total, &peak);
    cr_assert_eq(left, total - 4 * MIB);
    cr_assert_eq(peak, 32 * MIB);
    cr_assert_eq(*(uint8_t *)dev_memory_translate(memory, 2, keep, 1, NULL), 0xab);
    uint64_t next = alloc(memory, 5, 12 * MIB); /* the hole before the kept block */
    cr_assert_eq(next, DEV_MEMORY_BASE);
    const uint8_t *byte = dev_memory_translate(memory, 5, next, 12 * MIB, NULL);
    for (uint32_t i = 0; i < 12 * MIB; i += 4096)
        cr_assert_eq(byte[i], 0, "the next owner reads zeros");
    dev_memory_destroy(memory);
}

/* Unknown ranges against a byte map. */
Test(memory, unknown_ranges) {
    enum { BYTES = 2000 };
    dev_memory_t *memory = open_memory(MIB, DEV_BACKING_TIMING, 0);
    uint64_t base = alloc(memory, 1, BYTES), seed = 7;
    uint8_t map[BYTES] = {0};
    for (uint32_t step = 0; step < 5000; step++) {
        uint32_t low = (uint32_t)dev_test_between(&seed, 0, BYTES - 1),
                 bytes = (uint32_t)dev_test_between(&seed, 0, step % 5 ? 30 : 900);
        if (low + bytes > BYTES) bytes = BYTES - low;
        uint32_t what = (uint32_t)dev_test_between(&seed, 0, 2);
        if (what == 0) dev_memory_mark_unknown(memory, base + low, bytes);
        if (what == 1) dev_memory_mark_known(memory, base + low, bytes);
        if (what < 2) memset(map + low, what == 0, bytes);
        bool is_known = memchr(map + low, 1, bytes) == NULL;
        cr_assert_eq(dev_memory_is_known(memory, base + low, bytes), is_known, "step %u [%u, +%u)",
                     step, low, bytes);
    }
    dev_memory_mark_unknown(memory, base, BYTES);
    cr_assert_eq(dev_memory_free(memory, 1, base, NULL), SIM_OK);
    cr_assert_eq(alloc(memory, 1, BYTES), base);
    cr_assert(dev_memory_is_known(memory, base, BYTES), "a new allocation starts known");
    dev_memory_destroy(memory);
}

/* A timing-only memory may be far larger than the host's. */
Test(memory, timing_backing_reserves_only) {
    dev_memory_t *memory = open_memory(4ull << 40, DEV_BACKING_TIMING, 0);
    uint64_t big = alloc(memory, 1, 3ull << 40);
    int64_t *integers = dev_memory_translate(memory, 1, big + (2ull << 40), 4096, NULL);
    cr_assert_eq(integers[7], 0);
    integers[7] = 11;
    cr_assert_eq(integers[7], 11);
    dev_memory_destroy(memory);
}

#define STRIPE (12u * 2048u)

/* DRAM and shared scratchpad memory: allocations of one never lie in the other, whatever was freed
 * beside the border. */
Test(memory, shared_memory_is_apart_in_whole_stripes) {
    dev_memory_t *memory;
    sim_error_t err = {0};
    uint64_t first = dev_memory_shared_base(MIB), left, total, peak, address;
    cr_assert_eq(
        dev_memory_create_shared(MIB, 4 * STRIPE, STRIPE, 12, DEV_BACKING_FULL, 0, &memory, &err),
        SIM_OK);
    for (int round = 0; round < 2; round++) {
        uint64_t dram = alloc(memory, 1, MIB), shared[4];
        for (uint32_t i = 0; i < 4; i++) {
            cr_assert_eq(
                dev_memory_alloc_shared(memory, 1, i % 2 == 0 ? 1 : STRIPE, NULL, &shared[i], &err),
                SIM_OK);
            cr_assert_eq(shared[i], first + (uint64_t)i * STRIPE);
        }
        err = (sim_error_t){0};
        cr_assert_eq(dev_memory_alloc_shared(memory, 1, 1, NULL, &address, &err),
                     SIM_ERROR_OUT_OF_MEMORY);
        cr_assert_not_null(
            strstr(err.text, "shared scratchpad memory: 1 bytes asked for, 0 of 98304 free"), "%s",
            err.text);
        cr_assert_eq(dev_memory_alloc(memory, 1, 1, &address, NULL), SIM_ERROR_OUT_OF_MEMORY);
        dev_memory_info(memory, &left, &total, &peak);
        cr_assert(left == 0 && total == MIB && peak == MIB);
        uint8_t *host = dev_memory_translate(memory, 1, shared[1], STRIPE, NULL);
        cr_assert_not_null(host);
        memset(host, 7, STRIPE);
        cr_assert_null(dev_memory_translate(memory, 1, shared[0], 2, NULL),
                       "one byte was asked for");
        cr_assert_eq(dev_memory_free(memory, 1, dram, NULL), SIM_OK);
        for (uint32_t i = 0; i < 4; i++)
            cr_assert_eq(dev_memory_free(memory, 1, shared[3 - i], NULL), SIM_OK);
        cr_assert_eq(dev_memory_alloc(memory, 1, MIB + 1, &address, NULL), SIM_ERROR_OUT_OF_MEMORY);
        cr_assert_eq(dev_memory_alloc_shared(memory, 1, 4 * STRIPE, NULL, &address, NULL), SIM_OK);
        dev_memory_free_owner(memory, 1);
    }
    dev_memory_destroy(memory);
    memory = open_memory(MIB, DEV_BACKING_FULL, 0);
    err = (sim_error_t){0};
    cr_assert_eq(dev_memory_alloc_shared(memory, 1, 512, NULL, &address, &err),
                 SIM_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(err.text, "sram.shared_bytes"), "%s", err.text);
    dev_memory_destroy(memory);
}

/* 100 x 3000 bytes in 3 x 4 blocks of 34 rows x 750 bytes: 25500 bytes are 13 pages of every core.
 */
Test(memory, shards_take_whole_pages_of_every_core) {
    dev_memory_t *memory;
    sim_error_t err = {0};
    const sim_shards_t shards = {3000, 34, 750, 4, 1}, other = {3000, 34, 750, 1, 3},
                       wrong = {3000, 34, 750, 0, 0};
    uint64_t first = dev_memory_shared_base(MIB), x, y, z;
    cr_assert_eq(
        dev_memory_create_shared(MIB, 40 * STRIPE, STRIPE, 12, DEV_BACKING_FULL, 0, &memory, &err),
        SIM_OK);
    cr_assert_eq(dev_memory_alloc_shared(memory, 1, 300000, &shards, &x, &err), SIM_OK, "%s",
                 err.text);
    cr_assert_eq(dev_memory_alloc_shared(memory, 1, 300000, &other, &y, &err), SIM_OK);
    cr_assert(x == first && y == first + 13 * STRIPE);
    cr_assert_eq(dev_memory_home(memory, x + 5).start, x);
    cr_assert_eq(dev_memory_home(memory, y + 299999).start, y);
    const sim_shards_t *table = dev_memory_shards(memory);
    cr_assert_eq(memcmp(&table[dev_memory_home(memory, y).shards], &other, sizeof other), 0);
    cr_assert_eq(dev_memory_alloc_shared(memory, 1, 1, NULL, &z, &err), SIM_OK);
    cr_assert_eq(dev_memory_home(memory, z).shards, 0);
    cr_assert_null(dev_memory_translate(memory, 1, x, 300001, NULL),
                   "as many bytes as were asked for");
    cr_assert_eq(dev_memory_alloc_shared(memory, 1, 300000, &wrong, &z, &err),
                 SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(dev_memory_free(memory, 1, x, NULL), SIM_OK);
    cr_assert_eq(dev_memory_home(memory, x).shards, 0);
    cr_assert_eq(dev_memory_alloc_shared(memory, 1, 300000, &shards, &z, NULL), SIM_OK);
    cr_assert(z == x && dev_memory_home(memory, z).shards == 1, "the table has the same entry");
    dev_memory_destroy(memory);
}
