/* Every allocation of the memory map fails once. (The executor cannot be linked with counted
 * allocations: libxsmm has its own wrappers of malloc.) */
#include <criterion/criterion.h>
#include <string.h>

#include "device/dev_memory.h"
#include "tests/sim/alloc_count.h"

Test(memory_alloc, creating_memory_survives_each_failing_allocation) {
    dev_memory_t *memory;
    alloc_count_reset();
    cr_assert_eq(dev_memory_create(1 << 20, DEV_BACKING_FULL, 1 << 20, &memory, NULL), SIM_OK);
    unsigned long total = alloc_count();
    dev_memory_destroy(memory);
    cr_assert_gt(total, 1);
    for (unsigned long n = 0; n < total; n++) {
        alloc_count_reset();
        alloc_fail_from(n);
        cr_assert_eq(dev_memory_create(1 << 20, DEV_BACKING_FULL, 1 << 20, &memory, NULL),
                     SIM_ERROR_OUT_OF_MEMORY);
        cr_assert_null(memory);
        cr_assert_eq(alloc_live(), 0);
        alloc_count_reset();
    }
}

Test(memory_alloc, a_map_of_memory_that_cannot_grow_refuses) {
    dev_memory_t *memory;
    cr_assert_eq(dev_memory_create(1 << 20, DEV_BACKING_FULL, 0, &memory, NULL), SIM_OK);
    uint64_t address, last = 0, count = 0;
    sim_error_t err = {0};
    alloc_count_reset();
    alloc_fail_from(0);
    while (dev_memory_alloc(memory, 1, 512, &address, &err) == SIM_OK) {
        last = address;
        count++;
    }
    alloc_count_reset();
    cr_assert_eq(err.status, SIM_ERROR_OUT_OF_MEMORY);
    cr_assert_lt(count, 2048, "the map had to grow before the memory was full");
    cr_assert_eq(address, 0);
    cr_assert_eq(dev_memory_free(memory, 1, last, NULL), SIM_OK, "and still works");
    cr_assert_eq(dev_memory_alloc(memory, 1, 512, &address, NULL), SIM_OK);
    cr_assert_eq(address, last);
    dev_memory_destroy(memory);
}
