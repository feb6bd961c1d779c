/* Inside the chip: clients, modules, the command processor's clocks and the profile under way. */
#ifndef DEV_CHIP_INTERNAL_H
#define DEV_CHIP_INTERNAL_H

#include "device/dev_chip.h"
#include "device/dev_place.h"
#include "device/dev_reuse.h"
#include "device/dev_timing.h"
#include "device/vnpu_machine.h"
#include "device/vnpu_profile.h"
#include "sim/sim_probe.h"

#define DEV_MAX_CLIENTS 64u
#define DEV_MAX_HARDWARE_QUEUES 64u

typedef struct chip_module {
    dev_program_t *program; /* NULL: free slot */
    bool is_dumped;
} chip_module_t;

/* A launch that the profile remembers. */
typedef struct chip_launch {
    vnpu_profile_launch_t row;
    const dev_record_t *record; /* NULL: none */
} chip_launch_t;

typedef struct chip_client {
    bool is_open;
    uint32_t id;
    chip_module_t *module; /* index = handle - 1 */
    uint32_t num_modules, module_capacity;
    uint8_t *image; /* module load under way */
    uint64_t image_bytes, image_capacity;
    sim_error_t sticky;     /* status != OK: every later piece of work fails with it */
    sim_error_t last_error; /* detail of the last failure, sticky or not */
    bool is_profiling, with_slices;
    uint64_t profile_start_ps;
    chip_launch_t *launch;
    uint32_t num_launches, launch_capacity;
    uint8_t *blob; /* profile */
    uint64_t blob_bytes;
} chip_client_t;

struct dev_chip {
    const sim_config_t *config;
    dev_chip_options_t options;
    dev_machine_t machine;
    vnpu_machine_t properties[DEV_MAX_CLASSES]; /* one per class */
    char *config_text;
    size_t config_text_bytes;
    dev_memory_t *memory;
    dev_exec_t *exec;
    dev_timing_t *timing;     /* NULL in functional mode */
    dev_reuse_table_t *reuse; /* all clients: the key holds everything that matters */
    chip_client_t client[DEV_MAX_CLIENTS];
    FILE *dump_log;
    bool has_probe;
    sim_probe_t probe; /* of VNPU_PACKET_MEASURE */
    /* The command processor in simulated time. */
    uint64_t drain_ps;                               /* everything started so far has ended */
    uint64_t decoded_ps[DEV_MAX_HARDWARE_QUEUES];    /* a hardware queue fetches and decodes one packet after the other */
};

/* Launch path (dev_chip_launch.c). */
void chip_kernel(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet, vnpu_completion_t *completion);
void chip_program_time(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet, vnpu_completion_t *completion);
void chip_move(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet, vnpu_completion_t *completion);
void chip_link_copy(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet, const void *payload_in,
                    void *payload_out, vnpu_completion_t *completion);

/* Start of a packet by the command path: max(drain + launch gap, arrival + doorbell + fetch + decode). */
uint64_t chip_start_ps(dev_chip_t *chip, const vnpu_packet_t *packet);
/* Fails a packet: status and detail; a program's fault becomes sticky. */
void chip_fail(chip_client_t *client, vnpu_completion_t *completion, sim_status_t status, const sim_error_t *err);

/* Profile (dev_chip_profile.c). */
void chip_profile_add(chip_client_t *client, const vnpu_packet_t *packet, const vnpu_completion_t *completion,
                      vnpu_launch_kind_t kind, uint64_t bytes, const dev_record_t *record, bool is_reused);
sim_status_t chip_profile_start(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet) SIM_MUST_USE;
sim_status_t chip_profile_stop(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet) SIM_MUST_USE;

/* VNPU_DUMP (dev_chip_dump.c). */
sim_status_t chip_dump_open(dev_chip_t *chip, sim_error_t *err) SIM_MUST_USE;
void chip_dump_launch(dev_chip_t *chip, chip_module_t *module, const dev_launch_t *launch, const vnpu_packet_t *packet);
void chip_dump_copy(dev_chip_t *chip, const vnpu_packet_t *packet, const char *kind, uint64_t device, uint64_t bytes);

/* dev_chip_machine.c: what the client learns of the chip, as cores of a class see it. */
/* Measured memory bandwidth into value[0], value[1]; measured once. */
sim_status_t chip_measure(dev_chip_t *chip, vnpu_completion_t *completion);
void chip_properties(const dev_chip_t *chip, uint32_t class_index, vnpu_machine_t *out_properties);

#endif
