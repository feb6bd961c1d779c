/* The real chip behind both transports: values, faults in words, the same times. */
#include "tests/driver/driver_test.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "device/vnpu_profile.h"

#define N 5000u

static const char add_text[] =
    ".program add_two\n.arg x in\n.arg out out\n.sem full\n.sem done\n.const TILE 512\n"
    ".sram 2*4*TILE\n"
    ".ap x_far   dram f32 arg=x   dims=[TILE:1] loop0=+TILE clip=0:5000:loop:0\n"
    ".ap out_far dram f32 arg=out dims=[TILE:1] loop0=+TILE clip=0:5000:loop:0\n"
    ".ap x_near  sram f32 base=0 dims=[TILE:1] clip=0:5000:loop:0\n"
    ".queue dma0\n  loop 10\n"
    "    dma_copy dst=x_near src0=x_far signal=full\n"
    "    dma_copy dst=out_far src0=x_near wait=done\n"
    "    fence\n"
    "  endloop\n"
    ".queue vector0\n  loop 10\n"
    "    v_binary.add dst=x_near src0=x_near src1=x_near wait=full signal=done\n"
    "  endloop\n";

static const char trap_text[] = ".program trapper\n.queue ctrl\n  trap 7\n";

static const char stuck_text[] = ".program stuck\n.sem never\n.queue ctrl\n  sync wait=never\n";

/* tiny.ini behind the transport, freshly started. */
static void start_real(const char *transport, const char *mode) {
    unsetenv("VNPU_DAEMON");
    unsetenv("VNPU_DEVICE_LIBRARY");
    setenv("VNPU_TRANSPORT", transport, 1);
    setenv("VNPU_CONFIG", "tiny", 1);
    setenv("VNPU_MODE", mode, 1);
    OK(vnpu_init(0));
}

static vnpu_module_t assemble(const char *text) {
    vnpu_module_t module;
    OK(vnpu_module_load_text(0, text, "test.s", &module));
    return module;
}

/* Runs x + x; returns the host clock at the end. */
static uint64_t add_once(int sleep_ms) {
    static float x[N], out[N];
    for (uint32_t i = 0; i < N; i++) {
        x[i] = (float)i * 0.25f;
        out[i] = -1;
    }
    vnpu_addr_t from, to;
    vnpu_module_t add = assemble(add_text);
    OK(vnpu_mem_alloc(0, sizeof x, &from));
    OK(vnpu_mem_alloc(0, sizeof x, &to));
    OK(vnpu_memcpy_h2d(from, x, sizeof x, 0, 0));
    for (int i = 0; i < 3; i++) {
        OK(launch(add, 0, (uint64_t[]){from, to}, 2));
        poll(NULL, 0, sleep_ms); /* wall time: none of it may show */
    }
    OK(vnpu_memcpy_d2h(out, to, sizeof out, 0, 0));
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(out[i], x[i] + x[i], "element %u", i);
    }
    OK(vnpu_mem_free(0, from));
    OK(vnpu_mem_free(0, to));
    OK(vnpu_module_unload(add));
    return host_clock();
}

/* Rounds of add_two on two streams with the given cores, and a fill; simulated ps until all is
 * done. */
static uint64_t on_streams(const char *transport, uint64_t left, uint64_t right, int sleep_ms) {
    setenv("VNPU_OPTIONS", "grid.cores=4", 1);
    start_real(transport, "full");
    unsetenv("VNPU_OPTIONS");
    vnpu_module_t add = assemble(add_text);
    vnpu_addr_t memory;
    vnpu_stream_t stream[2];
    OK(vnpu_mem_alloc(0, 4 * N * sizeof(float), &memory));
    OK(vnpu_memset(memory, 0, 1, 4 * N * sizeof(float), 0));
    for (int s = 0; s < 2; s++) {
        OK(vnpu_stream_create(0, 0, &stream[s]));
        OK(vnpu_stream_set_cores(stream[s], s == 0 ? left : right));
    }
    OK(vnpu_device_synchronize(0));
    uint64_t before = host_clock();
    for (int i = 0; i < 6; i++) {
        uint64_t from = memory + (uint64_t)(i % 2) * 2 * N * sizeof(float);
        OK(launch(add, stream[i % 2], (uint64_t[]){from, from + N * sizeof(float)}, 2));
        poll(NULL, 0, sleep_ms);
    }
    OK(vnpu_memset(memory, 0, 1, 100, stream[1]));
    OK(vnpu_stream_synchronize(stream[0]));
    OK(vnpu_stream_synchronize(stream[1]));
    uint64_t ps = host_clock() - before;
    OK(vnpu_shutdown());
    return ps;
}

Test(device, streams_on_disjoint_cores_overlap) {
    uint64_t apart = on_streams("inproc", 3, 12, 0), shared = on_streams("inproc", 3, 3, 0);
    cr_assert_lt(apart * 100, shared * 65, "%llu ps, %llu ps on shared cores",
                 (unsigned long long)apart, (unsigned long long)shared);
    cr_assert_eq(on_streams("process", 3, 12, 0), apart);
    cr_assert_eq(on_streams("process", 3, 12, 20), apart); /* wall time: none of it may show */
}

Test(device, values_and_times_do_not_depend_on_transport_or_wall_clock) {
    uint64_t first = 0;
    for (int run = 0; run < 6; run++) {
        start_real(transports[run % 2], "full");
        uint64_t clock = add_once(run >= 4 ? 50 : 0);
        first = run == 0 ? clock : first;
        cr_assert_gt(clock, 0);
        cr_assert_eq(clock, first, "run %d, %s", run, transports[run % 2]);
        OK(vnpu_shutdown());
    }
}

Test(device, faults_are_reported_in_words) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start_real(transports[t], "full");
        vnpu_module_t trap = assemble(trap_text), stuck = assemble(stuck_text);
        vnpu_module_t add = assemble(add_text), module;
        OK(launch(trap, 0, NULL, 0));
        IS(vnpu_device_synchronize(0), VNPU_ERROR_TRAP);
        cr_assert(strstr(detail(), "trapper") != NULL, "%s", detail());
        IS(launch(trap, 0, NULL, 0), VNPU_ERROR_TRAP);
        OK(vnpu_device_reset(0));
        OK(launch(stuck, 0, NULL, 0));
        IS(vnpu_stream_synchronize(0), VNPU_ERROR_DEADLOCK);
        cr_assert(strstr(detail(), "stuck") != NULL &&
                      strstr(detail(), "waits for semaphore") != NULL,
                  "%s", detail());
        OK(vnpu_device_reset(0));
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, 4 * N, &address));
        OK(launch(add, 0, (uint64_t[]){address, address + 512}, 2)); /* passes the end */
        IS(vnpu_device_synchronize(0), VNPU_ERROR_ILLEGAL_ADDRESS);
        cr_assert(strstr(detail(), "add_two") != NULL, "%s", detail());
        OK(vnpu_device_reset(0));
        IS(vnpu_module_load_text(0, ".program p\n.queue dma0\n trapp 1\n", "x.s", &module),
           VNPU_ERROR_INVALID_VALUE);
        cr_assert(strstr(detail(), "x.s:3") != NULL, "%s", detail());
        vnpu_addr_t none;
        vnpu_machine_t machine;
        OK(vnpu_device_machine(0, &machine));
        IS(vnpu_mem_alloc(0, machine.dram_bytes + 1, &none), VNPU_ERROR_OUT_OF_MEMORY);
        cr_assert_neq(detail()[0], '\0');
        add_once(0); /* nothing of all that stays */
        OK(vnpu_shutdown());
    }
}

Test(device, profiles_and_program_times) {
    uint64_t times[TRANSPORTS];
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start_real(transports[t], "full");
        const void *blob;
        size_t bytes;
        OK(vnpu_profile_begin(0, 1));
        add_once(0);
        OK(vnpu_profile_end(0, &blob, &bytes));
        vnpu_profile_header_t header;
        cr_assert_geq(bytes, sizeof header);
        memcpy(&header, blob, sizeof header);
        cr_assert_eq(header.magic, VNPU_PROFILE_MAGIC);
        cr_assert_eq(header.bytes, bytes);
        cr_assert_eq(header.num_launches, 5); /* in, three launches, out */
        vnpu_module_t add = assemble(add_text);
        vnpu_launch_config_t config = {.size = sizeof config, .grid = {1, 1}};
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, 8 * N, &address));
        uint64_t clock = host_clock();
        OK(vnpu_program_time(add, &config, (uint64_t[]){address, address + 4 * N}, 2, &times[t]));
        cr_assert_eq(host_clock(), clock, "asking takes no simulated time");
        cr_assert_gt(times[t], 0);
        cr_assert_eq(times[t], times[0]);
        const char *text;
        OK(vnpu_sim_config_text(0, &text));
        cr_assert(strstr(text, "[dram]") != NULL);
        OK(vnpu_shutdown());
    }
}

/* Timing mode: floats are reserved, not stored; asking for one is refused by name, and work goes
 * on. */
Test(device, timing_mode_knows_no_float_values) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start_real(transports[t], "timing");
        vnpu_addr_t from, to;
        float x[4] = {0};
        vnpu_module_t add = assemble(add_text);
        OK(vnpu_mem_alloc(0, 4 * N, &from));
        OK(vnpu_mem_alloc(0, 4 * N, &to));
        OK(vnpu_sim_memcpy_h2d_length(from, 4 * N, 0));
        OK(launch(add, 0, (uint64_t[]){from, to}, 2));
        IS(vnpu_memcpy_d2h(x, to, sizeof x, 0, 0), VNPU_ERROR_VALUE_UNKNOWN);
        cr_assert_neq(detail()[0], '\0');
        OK(vnpu_device_synchronize(0));
        const uint64_t integers[2] = {3, 4};
        uint64_t back[2] = {0};
        OK(vnpu_memcpy_h2d(from, integers, sizeof integers, 0, 0));
        OK(vnpu_memcpy_d2h(back, from, sizeof back, 0, 0));
        cr_assert_eq(back[1], 4);
        OK(vnpu_shutdown());
    }
    start_real("inproc", "full");
    vnpu_addr_t address;
    OK(vnpu_mem_alloc(0, 64, &address));
    vnpu_status_t status = vnpu_sim_memcpy_h2d_length(address, 64, 0);
    cr_assert(status != VNPU_OK, "a length is no value in full mode");
    OK(vnpu_shutdown());
}

/* Same cycles while both sides are squeezed onto one CPU. */
static void *burn(void *opaque) {
    atomic_bool *stop = opaque;
    while (!atomic_load_explicit(stop, memory_order_relaxed)) {
    }
    return NULL;
}

Test(device, times_do_not_depend_on_load) {
    start_real("process", "full");
    uint64_t calm = add_once(0);
    OK(vnpu_shutdown());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0); /* vnpud inherits it */
    atomic_bool stop = false;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, burn, &stop), 0);
    start_real("process", "full");
    cr_assert_eq(add_once(0), calm);
    OK(vnpu_shutdown());
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

static const char product_text[] =
    ".program product\n.sram 4096\n.acc 4096\n.ap a sram f32 base=0 dims=[8:8, 8:1]\n"
    ".ap b sram f32 base=1024 dims=[8:8, 8:1]\n.ap c acc f32 base=0 dims=[8:8, 8:1]\n"
    ".queue matrix0\n  mm dst=c src0=a src1=b\n";

static vnpu_status_t launch_on(vnpu_module_t module, uint32_t core_class, uint64_t mask) {
    vnpu_launch_config_t config = {
        .size = sizeof config, .grid = {1, 1}, .core_mask = mask, .core_class = core_class};
    return vnpu_launch(module, &config, NULL, 0);
}

/* tiny.ini's core and three others without matrix engine, two of which compute. */
Test(device, classes_of_cores) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        setenv("VNPU_OPTIONS",
               "class vec.count=3,class vec.workers=2,class vec.matrix.count=0,"
               "class vec.vector.lanes=32",
               1);
        start_real(transports[t], "full");
        vnpu_machine_t machine;
        OK(vnpu_device_machine(0, &machine));
        cr_assert_eq(machine.num_classes, 2);
        cr_assert_eq(machine.matrix_rows, 8);
        OK(vnpu_device_class(0, 1, &machine));
        cr_assert_eq(machine.class_index, 1);
        cr_assert_eq(machine.first_core, 1);
        cr_assert_eq(machine.workers, 2);
        cr_assert_eq(machine.vector_lanes, 32);
        cr_assert_str_eq(machine.class_name, "vec");
        IS(vnpu_device_class(0, 2, &machine), VNPU_ERROR_INVALID_VALUE);
        cr_assert(strstr(detail(), "class 2 of 2") != NULL, "%s", detail());
        vnpu_module_t product = assemble(product_text);
        OK(launch_on(product, 0, 0));
        OK(launch_on(product, 1, 1));
        OK(vnpu_device_synchronize(0));
        IS(launch_on(product, 0, 3), VNPU_ERROR_INVALID_VALUE);
        cr_assert(strstr(detail(), "other cores than the 1 workers from core 0 on (class core)"),
                  "%s", detail());
        IS(launch_on(product, 0, 12), VNPU_ERROR_INVALID_VALUE);
        cr_assert(strstr(detail(), "the 2 workers from core 1 on (class vec)"), "%s", detail());
        IS(launch_on(product, 1, 2), VNPU_ERROR_INVALID_VALUE);
        IS(launch_on(product, 3, 0), VNPU_ERROR_INVALID_VALUE);
        cr_assert(strstr(detail(), "core_class 3"), "%s", detail());
        OK(vnpu_device_synchronize(0)); /* nothing of that reached the chip */
        OK(launch_on(product, 2, 0));
        IS(vnpu_device_synchronize(0), VNPU_ERROR_UNSUPPORTED);
        cr_assert(strstr(detail(), "cores 1 to 3 (class vec) cannot run product"), "%s", detail());
        uint64_t ps;
        vnpu_launch_config_t config = {.size = sizeof config, .grid = {1, 1}, .core_class = 2};
        IS(vnpu_program_time(product, &config, NULL, 0, &ps), VNPU_ERROR_UNSUPPORTED);
        OK(vnpu_shutdown());
        unsetenv("VNPU_OPTIONS");
    }
}

Test(device, memory_in_the_scratchpads) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        vnpu_addr_t address = 1;
        start_real(transports[t], "full");
        IS(vnpu_mem_alloc_shared(0, 64, &address), VNPU_ERROR_UNSUPPORTED);
        cr_assert(address == 0 && strstr(detail(), "sram.shared_bytes") != NULL, "%s", detail());
        OK(vnpu_shutdown());
        setenv("VNPU_OPTIONS", "grid.cores=2,sram.shared_bytes=24KiB", 1);
        start_real(transports[t], "full");
        unsetenv("VNPU_OPTIONS");
        vnpu_machine_t machine;
        OK(vnpu_device_machine(0, &machine));
        cr_assert(machine.shared_bytes == 49152 && machine.shared_page_bytes == 2048 &&
                  machine.sram_bytes == 40 * 1024);
        IS(vnpu_mem_alloc_shared(0, 49153, &address), VNPU_ERROR_OUT_OF_MEMORY);
        cr_assert(strstr(detail(), "shared scratchpad memory") != NULL, "%s", detail());
        vnpu_module_t add = assemble(add_text);
        OK(vnpu_mem_alloc_shared(0, 2 * N * sizeof(float), &address));
        float x[N], z[N];
        for (uint32_t i = 0; i < N; i++)
            x[i] = (float)i;
        OK(vnpu_memcpy_h2d(address, x, sizeof x, 0, 0));
        OK(launch(add, 0, (uint64_t[]){address, address + sizeof x}, 2));
        OK(vnpu_memcpy_d2h(z, address + sizeof x, sizeof z, 0, 0));
        for (uint32_t i = 0; i < N; i++)
            cr_assert_eq(z[i], x[i] + x[i]);
        IS(vnpu_memset(address, 0, 1, 2 * sizeof x + 1, 0), VNPU_ERROR_INVALID_VALUE);
        OK(vnpu_mem_free(0, address));
        vnpu_shards_t shards = {sizeof shards, 16, 512, 1, 1, 1024};
        OK(vnpu_mem_alloc_shards(0, 16384, &shards,
                                 &address)); /* 16 x 1024: a half of every row a core */
        OK(vnpu_memset(address, 0, 1, 16384, 0));
        OK(vnpu_mem_free(0, address));
        IS(vnpu_mem_alloc_shards(0, 32768, &shards, &address), VNPU_ERROR_INVALID_VALUE);
        cr_assert(strstr(detail(), "2 x 2 shards") != NULL, "%s", detail());
        IS(vnpu_mem_alloc_shards(0, 16384, NULL, &address), VNPU_ERROR_INVALID_VALUE);
        OK(vnpu_shutdown());
    }
}
