/* Every allocation of the driver fails once: OUT_OF_MEMORY, nothing leaks, and the next try works.
 */
#include "tests/driver/driver_test.h"

#include "tests/sim/alloc_count.h"

/* One of everything that allocates; the first failure ends it. */
static vnpu_status_t use_everything(void) {
    vnpu_stream_t stream;
    vnpu_event_t event;
    vnpu_module_t module;
    vnpu_addr_t address;
    void *pinned;
    const void *blob;
    size_t bytes;
    vnpu_program_header_t header = {
        .magic = VNPU_ISA_MAGIC, .bytes = sizeof header, .name = "work"};
    vnpu_status_t status = vnpu_init(0);
    status = status == VNPU_OK ? vnpu_mem_alloc(0, 100, &address) : status;
    status = status == VNPU_OK ? vnpu_stream_create(0, 0, &stream) : status;
    status = status == VNPU_OK ? vnpu_event_create(0, &event) : status;
    status = status == VNPU_OK ? vnpu_event_record(event, stream) : status;
    status = status == VNPU_OK ? vnpu_module_load(0, &header, sizeof header, &module) : status;
    status = status == VNPU_OK ? vnpu_host_alloc(100, &pinned) : status;
    status = status == VNPU_OK ? vnpu_profile_begin(0, 0) : status;
    return status == VNPU_OK ? vnpu_profile_end(0, &blob, &bytes) : status;
}

Test(driver_alloc, every_allocation_may_fail) {
    setenv("VNPU_TRANSPORT", "inproc", 1);
    setenv("VNPU_DEVICE_LIBRARY", FAKE_LIBRARY, 1);
    for (int run = 0; run < 2; run++) { /* the second run finds the handle tables grown */
        unsigned long total = 0;
        for (unsigned long n = 0; n <= total; n++) {
            alloc_count_reset();
            alloc_fail_from(n);
            vnpu_status_t status = use_everything();
            total = n == total && status != VNPU_OK ? total + 1 : total;
            IS(status, n < total ? VNPU_ERROR_OUT_OF_MEMORY : VNPU_OK);
            if (status != VNPU_OK) {
                cr_assert(strstr(detail(), "memory") != NULL, "allocation %lu: %s", n, detail());
            }
            OK(vnpu_shutdown());
            cr_assert(run == 0 || alloc_live() == 0, "allocation %lu leaks %ld", n, alloc_live());
        }
        cr_assert_geq(total, 6);
    }
}
