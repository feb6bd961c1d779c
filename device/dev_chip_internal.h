/* Inside the chip: clients, modules, the command processor in simulated time (dev_chip_time.c,
 * dev_chip_epoch.c) and the profile under way. */
#ifndef DEV_CHIP_INTERNAL_H
#define DEV_CHIP_INTERNAL_H

#include "device/dev_chip.h"
#include "device/dev_place.h"
#include "device/dev_reuse.h"
#include "device/dev_timing.h"
#include "device/vnpu_machine.h"
#include "device/vnpu_profile.h"
#include "sim/sim_probe.h"

#define DEV_MAX_CLIENTS         64u
#define DEV_MAX_HARDWARE_QUEUES 64u

typedef struct chip_module {
    dev_program_t *program; /* NULL: free slot */
    bool is_dumped;
} chip_module_t;

typedef enum chip_node_kind {
    CHIP_KERNEL,
    CHIP_MOVE, /* copy or fill inside DRAM */
    CHIP_LINK, /* copy between host and device */
    CHIP_JOIN  /* no work: has ended when all before it has (an event's record or wait) */
} chip_node_kind_t;

/*
 * A packet on its way through simulated time. It stays in the list of pending nodes until nothing
 * that may still arrive can change its times; what other nodes and streams point to lives on until
 * the last of them lets go.
 */
typedef struct chip_node {
    struct chip_node *next;           /* pending, in the order of submission; free list */
    struct chip_node *next_in_stream; /* while times are worked out */
    chip_node_kind_t kind;
    uint32_t refs;
    uint32_t client, stream; /* stream: index of its chip_stream_t */
    uint64_t order;          /* of submission, over all clients */
    uint64_t seq;
    /* what it waits for */
    uint64_t decoded_ps;
    uint64_t drained_ps;         /* end of what came before it, as far as that has left the list */
    struct chip_node *before[2]; /* the rest; NULL: none */
    struct chip_node *link_before; /* the copy before it in the same direction */
    uint64_t link_free_ps;         /* without one: when the direction is free */
    /* what it does */
    dev_launch_t launch;
    dev_row_set_t *rows;
    uint64_t rows_hash;
    dev_move_t move;
    uint64_t link_ps;
    uint32_t row; /* of the client's profile, CHIP_NO_ROW: none */
    bool with_slices;
    /* its times, as far as the packets up to now decide them */
    bool is_started, is_ended;
    bool is_final; /* nothing can change them */
    bool is_reused;
    uint64_t start_ps, end_ps;
    uint64_t host_end_ps;     /* when the host can see the end */
    uint64_t epoch_end_ps;    /* when the host can see that its whole epoch has ended */
    uint64_t forced_drain_ps; /* its epoch was full: nothing starts before this, and a launch gap */
    const dev_record_t *record; /* NULL: none, or nobody profiles */
} chip_node_t;
#define CHIP_NO_ROW UINT32_MAX

typedef struct chip_stream {
    uint32_t client, id; /* client 0: free entry */
    chip_node_t
        *tail; /* what the next packet waits for; NULL: it has left the list, see drained_ps */
    uint64_t drained_ps, host_end_ps;
    uint64_t marked_ps; /* latest time at which an event of it was seen by the command processor */
    uint32_t pending;
    chip_node_t *head, *last; /* while times are worked out: next to start, last of the chain */
} chip_stream_t;

/* When the engines are free. */
typedef struct chip_engines {
    uint64_t core_free_ps[DEV_MAX_CORES]; /* CHIP_BUSY: a packet holds the core */
    uint64_t drained_ps; /* nothing starts before this and a launch gap: a forced drain */
    uint64_t last_start_ps, last_end_ps; /* of all packets that held cores */
} chip_engines_t;
#define CHIP_BUSY UINT64_MAX

/* The time of an event's record, for those who wait for it or ask. */
typedef struct chip_mark {
    uint64_t seq;
    chip_node_t *node;   /* NULL: final, the times below hold */
    uint64_t drained_ps; /* what a waiting stream waits for */
    uint64_t seen_ps;    /* not before the command processor has seen the record */
    bool was_open;       /* the client does not know its time and may ask */
} chip_mark_t;

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
    chip_mark_t *mark; /* by seq */
    uint32_t first_mark, num_marks, mark_capacity;
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
    uint64_t decoded_ps[DEV_MAX_HARDWARE_QUEUES]; /* a hardware queue fetches and decodes one packet
                                                     after the other */
    chip_stream_t *stream;
    uint32_t num_streams, stream_capacity;
    chip_node_t *first, *last; /* pending */
    uint32_t num_pending;
    chip_node_t *free_nodes;
    uint64_t next_order;
    chip_node_t *link_last[2]; /* latest copy to the device, to the host */
    uint64_t link_free_ps[2];
    chip_engines_t settled; /* by the final nodes */
    chip_engines_t engines; /* by all nodes; holds unless is_dirty */
    bool
        is_dirty; /* a packet overlaps with pending ones: times are worked out when somebody asks */
    bool was_retimed;                 /* the completion under way is to say so */
    uint64_t drain_ps, host_drain_ps; /* everything so far has ended; holds unless is_dirty */
    uint64_t settled_drain_ps, settled_host_drain_ps; /* of the final nodes */
    struct chip_walk *walk;
};

/* Simulated time (dev_chip_time.c). All do nothing in functional mode. */
chip_node_t *chip_node_new(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                           chip_node_kind_t kind);
/* The packet arrives: fills the completion's times and the profile. Takes the node. */
void chip_arrive(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                 chip_node_t *node, vnpu_launch_kind_t kind, uint64_t bytes,
                 vnpu_completion_t *completion);
void chip_event(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                vnpu_completion_t *completion);
void chip_time(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
               vnpu_completion_t *completion);
/* Everything pending is timed for good: what arrives later starts after it. */
void chip_close_times(dev_chip_t *chip);
void chip_time_fini(dev_chip_t *chip);
void chip_forget_client(dev_chip_t *chip, uint32_t client); /* nothing is pending */

/* Epochs (dev_chip_epoch.c). */
sim_status_t chip_walk_create(dev_chip_t *chip) SIM_MUST_USE;
void chip_walk_destroy(struct chip_walk *walk);
/* Works out the times of all pending nodes that are not final. */
void chip_work_out(dev_chip_t *chip);
bool chip_is_engine(const chip_node_t *node);
/* Earliest start by what it waits for (all ended); with the engines: by its cores, too. */
uint64_t chip_ready_ps(const dev_chip_t *chip, const chip_node_t *node);
uint64_t chip_start_ps(const dev_chip_t *chip, const chip_engines_t *engines,
                       const chip_node_t *node);
/* Times a copy over the link, or a node without work, whose predecessors have ended. */
void chip_settle_plain(const dev_chip_t *chip, chip_node_t *node);
/* A node that starts when nothing else is in flight: its own epoch. */
void chip_run_alone(dev_chip_t *chip, chip_node_t *node, uint64_t start_ps);
/* The cores of a node that has ended are not free before that. */
void chip_keep_cores(const dev_chip_t *chip, chip_engines_t *engines, const chip_node_t *node);

/* Launch path (dev_chip_launch.c). */
void chip_kernel(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                 vnpu_completion_t *completion);
void chip_program_time(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                       vnpu_completion_t *completion);
void chip_move(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
               vnpu_completion_t *completion);
void chip_link_copy(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                    const void *payload_in, void *payload_out, vnpu_completion_t *completion);

/* Times one launch or copy on its own, by the reuse table or the timing engine. rows_hash: of
 * job->rows. */
sim_status_t chip_time_alone(dev_chip_t *chip, const dev_job_t *job,
                             const dev_record_t **out_record, bool *out_reused,
                             sim_error_t *err) SIM_MUST_USE;
dev_place_options_t chip_place_options(const dev_chip_t *chip, uint64_t rows_hash);

/* Fails a packet: status and detail; a program's fault becomes sticky. */
void chip_fail(chip_client_t *client, vnpu_completion_t *completion, sim_status_t status,
               const sim_error_t *err);

/* Profile (dev_chip_profile.c). */
/* Adds a row without times; CHIP_NO_ROW unless the client profiles. */
uint32_t chip_profile_add(chip_client_t *client, const vnpu_packet_t *packet,
                          vnpu_launch_kind_t kind, uint64_t bytes);
void chip_profile_set(chip_client_t *client, const chip_node_t *node); /* the times of node->row */
sim_status_t chip_profile_start(dev_chip_t *chip, chip_client_t *client,
                                const vnpu_packet_t *packet) SIM_MUST_USE;
sim_status_t chip_profile_stop(dev_chip_t *chip, chip_client_t *client,
                               const vnpu_packet_t *packet) SIM_MUST_USE;

/* VNPU_DUMP (dev_chip_dump.c). */
sim_status_t chip_dump_open(dev_chip_t *chip, sim_error_t *err) SIM_MUST_USE;
void chip_dump_launch(dev_chip_t *chip, chip_module_t *module, const dev_launch_t *launch,
                      const vnpu_packet_t *packet);
void chip_dump_copy(dev_chip_t *chip, const vnpu_packet_t *packet, const char *kind,
                    uint64_t device, uint64_t bytes);

/* dev_chip_machine.c: what the client learns of the chip, as cores of a class see it. */
/* Measured memory bandwidth into value[0], value[1]; measured once. */
sim_status_t chip_measure(dev_chip_t *chip, vnpu_completion_t *completion);
void chip_properties(const dev_chip_t *chip, uint32_t class_index, vnpu_machine_t *out_properties);

#endif
