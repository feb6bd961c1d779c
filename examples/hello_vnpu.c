/*
 * hello_vnpu: a kernel as text, loaded, launched, its result read and its cycles printed. Build and
 * run: cmake -S . -B build/release -G Ninja && ninja -C build/release hello_vnpu &&
 * build/release/bin/hello_vnpu VNPU_CONFIG=tiny chooses another chip, VNPU_TRANSPORT=inproc keeps
 * it in this process.
 */
#include <inttypes.h>
#include <stdio.h>

#include "driver/vnpu.h"
#include "driver/vnpu_sim.h"

#define N 10000

/* out = a + b, tile by tile: two buffers each way, so that loading, adding and storing overlap. */
static const char kernel[] =
    ".program vector_add\n"
    ".arg a in\n"
    ".arg b in\n"
    ".arg out out\n"
    ".sem in_full\n"
    ".sem in_free\n"
    ".sem out_full\n"
    ".sem out_free\n"
    ".const TILE 1024\n"
    ".const N 10000\n"
    ".sram 6*4*TILE\n"
    ".ap a_far   dram f32 arg=a   dims=[TILE:1] loop0=+TILE clip=0:N:loop:0\n"
    ".ap b_far   dram f32 arg=b   dims=[TILE:1] loop0=+TILE clip=0:N:loop:0\n"
    ".ap out_far dram f32 arg=out dims=[TILE:1] loop0=+TILE clip=0:N:loop:0\n"
    ".ap a_near   sram f32 base=0        dims=[TILE:1] rot=0:2:TILE clip=0:N:loop:0\n"
    ".ap b_near   sram f32 base=2*4*TILE dims=[TILE:1] rot=0:2:TILE clip=0:N:loop:0\n"
    ".ap out_near sram f32 base=4*4*TILE dims=[TILE:1] rot=0:2:TILE clip=0:N:loop:0\n"
    ".queue dma0\n"
    "  loop 10\n"
    "    dma_copy dst=a_near src0=a_far wait=in_free signal=in_full\n"
    "    dma_copy dst=b_near src0=b_far signal=in_full\n"
    "  endloop\n"
    ".queue vector0\n"
    "  sync signal=in_free+2\n"
    "  loop 10\n"
    "    v_binary.add dst=out_near src0=a_near src1=b_near wait=in_full>=2 wait=out_free"
    " signal=in_free signal=out_full\n"
    "  endloop\n"
    ".queue dma1\n"
    "  sync signal=out_free+2\n"
    "  loop 10\n"
    "    dma_copy dst=out_far src0=out_near wait=out_full signal=out_free\n"
    "  endloop\n";

static vnpu_status_t tell(vnpu_status_t status, const char *call) {
    if (status != VNPU_OK) {
        char text[2048];
        vnpu_error_detail(text, sizeof text);
        fprintf(stderr, "%s: %s: %s\n", call, vnpu_status_name(status), text);
    }
    return status;
}

/* The first failure ends the run; vnpu_shutdown frees what is left. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (tell(call, #call) != VNPU_OK) return 1;                                                \
    } while (0)

static int run(void) {
    static float a[N], b[N], out[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 0.5f;
    }
    vnpu_addr_t device_a, device_b, device_out;
    vnpu_module_t module;
    vnpu_event_t start, end;
    vnpu_machine_t machine;
    TRY(vnpu_device_machine(0, &machine));
    TRY(vnpu_mem_alloc(0, sizeof a, &device_a));
    TRY(vnpu_mem_alloc(0, sizeof b, &device_b));
    TRY(vnpu_mem_alloc(0, sizeof out, &device_out));
    TRY(vnpu_memcpy_h2d(device_a, a, sizeof a, 0, 0));
    TRY(vnpu_memcpy_h2d(device_b, b, sizeof b, 0, 0));
    TRY(vnpu_module_load_text(0, kernel, "vector_add", &module));
    TRY(vnpu_event_create(0, &start));
    TRY(vnpu_event_create(0, &end));

    vnpu_launch_config_t config = {.size = sizeof config, .grid = {1, 1}};
    const uint64_t args[] = {device_a, device_b, device_out};
    TRY(vnpu_event_record(start, 0));
    TRY(vnpu_launch(module, &config, args, 3));
    TRY(vnpu_event_record(end, 0));
    TRY(vnpu_memcpy_d2h(out, device_out, sizeof out, 0, 0));

    for (int i = 0; i < N; i++) {
        if (out[i] != a[i] + b[i]) {
            fprintf(stderr, "out[%d] = %g, not %g\n", i, (double)out[i], (double)(a[i] + b[i]));
            return 1;
        }
    }
    double ms = 0;
    uint64_t kernel_ps = 0;
    TRY(vnpu_event_elapsed_ms(start, end, &ms));
    TRY(vnpu_program_time(module, &config, args, 3, &kernel_ps));
    double cycles = (double)kernel_ps * 1e-12 * (double)machine.core_clock_hz;
    printf("%s: %d sums are right\n", machine.name, N);
    printf("kernel: %.0f cycles at %" PRIu64 " MHz; between the events, with launch: %.6f ms\n",
           cycles, machine.core_clock_hz / 1000000, ms);
    return 0;
}

int main(void) {
    int code = run();
    vnpu_status_t status = vnpu_shutdown();
    return code != 0 || tell(status, "vnpu_shutdown") != VNPU_OK;
}
