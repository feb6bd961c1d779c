/*
 * A chip for tests of the command path: it moves bytes and answers every packet as dev_chip.h says,
 * at made-up times that tests can compute. A "program" is a bare program header whose name says
 * what a launch does: add1   args address, count: adds 1 to count u32 work   args ps: takes that
 * long in simulated time slow   args ms: takes that long on the wall clock fault  no args:
 * ILLEGAL_ADDRESS die    no args: the process ends by SIGKILL late   args ps: as work, but its end
 * is told only when asked for, and what has not ended by then is to be asked for, too. Times: start
 * = max(end of the stream, host clock + FAKE_ARRIVAL_PS), end = start + FAKE_BASE_PS + bytes of a
 * copy or fill (ps).
 */
#include "tests/driver/fake_chip.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/dev_chip.h"
#include "driver/vnpu.h"

#define STREAMS   4096u
#define EVENTS    65536u
#define MODULES   64u
#define MAX_IMAGE (2u * 1024 * 1024)

typedef struct fake_block {
    uint64_t offset, bytes;
} fake_block_t;

struct dev_chip {
    uint8_t *memory;
    fake_block_t block[4096]; /* sorted by offset */
    uint32_t num_blocks;
    uint64_t used, peak;
    vnpu_program_header_t module[MODULES]; /* magic 0: free */
    uint8_t *image;
    uint64_t image_bytes;
    uint64_t stream_end[STREAMS], event_end[EVENTS], max_end;
    bool is_late; /* the packet in work */
    sim_error_t sticky, last;
    uint8_t *profile;
    vnpu_machine_t machine;
};

sim_status_t dev_chip_options_from_env(char *const *env, dev_chip_options_t *options,
                                       sim_error_t *err) {
    memset(options, 0, sizeof *options);
    for (; *env != NULL; env++) {
        if (strcmp(*env, "VNPU_MODE=bogus") == 0) {
            return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                                 "VNPU_MODE=bogus: full, timing, functional or chaos");
        }
    }
    return SIM_OK;
}

sim_status_t dev_chip_load_config(const char *name, const char *overrides, const char *config_dir,
                                  sim_config_t **out_config, sim_error_t *err) {
    (void)overrides;
    *out_config = NULL;
    if (name != NULL && strcmp(name, "bad") == 0) {
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "%s/bad.ini:3: unknown key core.coutn (core.count?)", config_dir);
    }
    if (name != NULL && strcmp(name, "dies") == 0) {
        _exit(7);
    }
    return SIM_OK;
}

sim_status_t dev_chip_create(const sim_config_t *config, const dev_chip_options_t *options,
                             dev_chip_t **out_chip, sim_error_t *err) {
    (void)config, (void)options;
    dev_chip_t *chip = *out_chip = calloc(1, sizeof *chip);
    if (chip == NULL || (chip->memory = calloc(1, FAKE_DRAM_BYTES)) == NULL ||
        (chip->image = malloc(MAX_IMAGE)) == NULL ||
        (chip->profile = malloc(FAKE_PROFILE_BYTES)) == NULL) {
        dev_chip_destroy(chip);
        *out_chip = NULL;
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "fake chip");
    }
    chip->machine = (vnpu_machine_t){.size = sizeof(vnpu_machine_t),
                                     .cores = 2,
                                     .workers = 2,
                                     .num_classes = 1,
                                     .chip_cores = 2,
                                     .dram_bytes = FAKE_DRAM_BYTES,
                                     .host_submit_ps = FAKE_SUBMIT_PS,
                                     .host_launch_ps = FAKE_LAUNCH_PS,
                                     .host_query_ps = FAKE_QUERY_PS,
                                     .host_sync_ps = FAKE_SYNC_PS,
                                     .name = "fake",
                                     .cmd_queue_depth = FAKE_DEPTH};
    for (uint64_t i = 0; i < FAKE_PROFILE_BYTES; i++) {
        chip->profile[i] = (uint8_t)(i * 7 + i / 251);
    }
    return SIM_OK;
}

void dev_chip_destroy(dev_chip_t *chip) {
    if (chip != NULL) {
        free(chip->memory);
        free(chip->image);
        free(chip->profile);
        free(chip);
    }
}

sim_status_t dev_chip_client_open(dev_chip_t *chip, uint32_t *out_client) {
    (void)chip;
    *out_client = 1;
    return SIM_OK;
}

void dev_chip_client_close(dev_chip_t *chip, uint32_t client) {
    (void)chip, (void)client;
}

static sim_status_t fail(dev_chip_t *chip, sim_status_t status, const char *text) {
    chip->last = (sim_error_t){0};
    return sim_error_set(&chip->last, status, "%s", text);
}

static sim_status_t alloc(dev_chip_t *chip, uint64_t bytes, uint64_t *out_address) {
    uint64_t rounded = (bytes + DEV_MEMORY_ALIGN - 1) / DEV_MEMORY_ALIGN * DEV_MEMORY_ALIGN, at = 0;
    uint32_t i = 0;
    for (; i < chip->num_blocks && chip->block[i].offset - at < rounded; i++) {
        at = chip->block[i].offset + chip->block[i].bytes;
    }
    if (bytes > FAKE_DRAM_BYTES || at + rounded > FAKE_DRAM_BYTES || chip->num_blocks == 4096) {
        return fail(chip, SIM_ERROR_OUT_OF_MEMORY, "fake memory: too little is free (dram.bytes)");
    }
    memmove(&chip->block[i + 1], &chip->block[i], (chip->num_blocks - i) * sizeof chip->block[0]);
    chip->block[i] = (fake_block_t){.offset = at, .bytes = rounded};
    chip->num_blocks++;
    chip->used += rounded;
    chip->peak = chip->used > chip->peak ? chip->used : chip->peak;
    *out_address = DEV_MEMORY_BASE + at;
    return SIM_OK;
}

static sim_status_t release(dev_chip_t *chip, uint64_t address) {
    for (uint32_t i = 0; i < chip->num_blocks; i++) {
        if (DEV_MEMORY_BASE + chip->block[i].offset == address) {
            chip->used -= chip->block[i].bytes;
            chip->num_blocks--;
            memmove(&chip->block[i], &chip->block[i + 1],
                    (chip->num_blocks - i) * sizeof chip->block[0]);
            return SIM_OK;
        }
    }
    return fail(chip, SIM_ERROR_INVALID_VALUE, "fake memory: not allocated");
}

static uint8_t *at(dev_chip_t *chip, uint64_t address, uint64_t bytes) {
    uint64_t offset = address - DEV_MEMORY_BASE;
    return offset <= FAKE_DRAM_BYTES && bytes <= FAKE_DRAM_BYTES - offset ? chip->memory + offset
                                                                          : NULL;
}

static sim_status_t load(dev_chip_t *chip, const vnpu_packet_t *packet, const void *payload,
                         uint64_t *out_module) {
    if (chip->image_bytes + packet->u.copy.bytes > MAX_IMAGE) {
        return fail(chip, SIM_ERROR_INVALID_IMAGE, "fake program: too large");
    }
    memcpy(chip->image + chip->image_bytes, payload, packet->u.copy.bytes);
    chip->image_bytes += packet->u.copy.bytes;
    if ((packet->flags & VNPU_PACKET_MORE) != 0) {
        return SIM_OK;
    }
    vnpu_program_header_t header;
    memcpy(&header, chip->image, sizeof header);
    uint64_t bytes = chip->image_bytes;
    chip->image_bytes = 0;
    if (header.magic != VNPU_ISA_MAGIC || header.bytes != bytes || bytes != packet->u.copy.total) {
        return fail(chip, SIM_ERROR_INVALID_IMAGE, "fake program: bad magic or size");
    }
    for (uint32_t i = 0; i < MODULES; i++) {
        if (chip->module[i].magic == 0) {
            chip->module[i] = header;
            *out_module = i + 1;
            return SIM_OK;
        }
    }
    return fail(chip, SIM_ERROR_OUT_OF_MEMORY, "fake program: too many modules");
}

static sim_status_t launch(dev_chip_t *chip, const vnpu_packet_t *packet, uint64_t *duration) {
    uint32_t id = packet->u.kernel.module;
    if (id == 0 || id > MODULES || chip->module[id - 1].magic == 0) {
        return fail(chip, SIM_ERROR_INVALID_HANDLE, "fake program: no such module");
    }
    uint64_t arg[2] = {0};
    memcpy(arg, packet + 1, packet->u.kernel.num_args > 2 ? 16 : packet->u.kernel.num_args * 8u);
    const char *name = chip->module[id - 1].name;
    if (strcmp(name, "add1") == 0) {
        uint8_t *data = at(chip, arg[0], arg[1] * 4);
        for (uint64_t i = 0; data != NULL && i < arg[1]; i++) {
            uint32_t value;
            memcpy(&value, data + i * 4, 4);
            value++;
            memcpy(data + i * 4, &value, 4);
        }
        return data != NULL
                   ? SIM_OK
                   : fail(chip, SIM_ERROR_ILLEGAL_ADDRESS, "fake add1: outside the memory");
    }
    chip->is_late = strcmp(name, "late") == 0;
    if (strcmp(name, "work") == 0 || chip->is_late) {
        *duration = arg[0];
    } else if (strcmp(name, "slow") == 0) {
        nanosleep(&(struct timespec){.tv_sec = (time_t)(arg[0] / 1000),
                                     .tv_nsec = (long)(arg[0] % 1000) * 1000000},
                  NULL);
    } else if (strcmp(name, "die") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(name, "fault") == 0) {
        return fail(chip, SIM_ERROR_ILLEGAL_ADDRESS, "fake fault: core 0, queue dma0, insn 3");
    }
    return SIM_OK;
}

static sim_status_t read_blob(dev_chip_t *chip, const vnpu_packet_t *packet, void *out) {
    uint64_t offset = packet->u.copy.device >> 8, bytes = packet->u.copy.bytes;
    static const char config_text[] = "[chip]\nname = fake\n";
    const void *from = NULL;
    uint64_t size = 0;
    switch ((vnpu_blob_t)(packet->u.copy.device & 0xff)) {
    case VNPU_BLOB_ERROR: from = chip->last.text, size = strlen(chip->last.text); break;
    case VNPU_BLOB_PROFILE: from = chip->profile, size = FAKE_PROFILE_BYTES; break;
    case VNPU_BLOB_MACHINE: from = &chip->machine, size = sizeof chip->machine; break;
    case VNPU_BLOB_CONFIG: from = config_text, size = sizeof config_text - 1; break;
    }
    if (offset > size || bytes > size - offset) {
        return fail(chip, SIM_ERROR_INVALID_VALUE, "fake blob: outside");
    }
    memcpy(out, (const uint8_t *)from + offset, bytes);
    return SIM_OK;
}

/* Copies and fills; *duration grows with the bytes. */
static sim_status_t move(dev_chip_t *chip, const vnpu_packet_t *packet, const void *in, void *out,
                         uint64_t *duration) {
    uint64_t bytes = packet->type == VNPU_PACKET_FILL ? packet->u.fill.count * packet->u.fill.width
                                                      : packet->u.copy.bytes;
    uint8_t *memory = at(chip, packet->u.copy.device, bytes);
    if (memory == NULL) {
        return fail(chip, SIM_ERROR_ILLEGAL_ADDRESS, "fake copy: outside the memory");
    }
    *duration = FAKE_BASE_PS + (packet->type == VNPU_PACKET_FILL ? bytes : packet->u.copy.total);
    if (packet->type == VNPU_PACKET_COPY_H2D) {
        if ((packet->flags & VNPU_PACKET_LENGTH_ONLY) == 0) {
            memcpy(memory, in, bytes);
        }
    } else if (packet->type == VNPU_PACKET_COPY_D2H) {
        memcpy(out, memory, bytes);
    } else if (packet->type == VNPU_PACKET_COPY_D2D) {
        const uint8_t *source = at(chip, packet->u.copy.host, bytes);
        if (source == NULL) {
            return fail(chip, SIM_ERROR_ILLEGAL_ADDRESS, "fake copy: source outside the memory");
        }
        memmove(memory, source, bytes);
    } else {
        for (uint64_t i = 0; i < packet->u.fill.count; i++) {
            memcpy(memory + i * packet->u.fill.width, &packet->u.fill.pattern,
                   packet->u.fill.width);
        }
    }
    return SIM_OK;
}

static uint64_t time_of(const dev_chip_t *chip, const vnpu_packet_t *packet) {
    switch ((vnpu_time_of_t)packet->u.mem.address) {
    case VNPU_TIME_OF_ALL: return chip->max_end;
    case VNPU_TIME_OF_STREAM: return chip->stream_end[packet->u.mem.bytes % STREAMS];
    case VNPU_TIME_OF_PACKET: return chip->event_end[packet->u.mem.bytes % EVENTS];
    }
    return 0;
}

static sim_status_t execute(dev_chip_t *chip, const vnpu_packet_t *packet, const void *in,
                            void *out, vnpu_completion_t *done, uint64_t *duration) {
    switch ((vnpu_packet_type_t)packet->type) {
    case VNPU_PACKET_KERNEL: return launch(chip, packet, duration);
    case VNPU_PACKET_COPY_H2D:
    case VNPU_PACKET_COPY_D2H:
    case VNPU_PACKET_COPY_D2D:
    case VNPU_PACKET_FILL: return move(chip, packet, in, out, duration);
    case VNPU_PACKET_ALLOC: return alloc(chip, packet->u.mem.bytes, &done->value[0]);
    case VNPU_PACKET_FREE: return release(chip, packet->u.mem.address);
    case VNPU_PACKET_MODULE_LOAD: return load(chip, packet, in, &done->value[0]);
    case VNPU_PACKET_MODULE_UNLOAD:
        chip->module[packet->u.mem.address - 1].magic = 0;
        return SIM_OK;
    case VNPU_PACKET_EVENT_WAIT: {
        uint64_t *end = &chip->stream_end[packet->stream % STREAMS],
                 event = chip->event_end[packet->u.mem.bytes % EVENTS];
        *end = event > *end ? event : *end;
        return SIM_OK;
    }
    case VNPU_PACKET_MEM_INFO:
        done->value[0] = FAKE_DRAM_BYTES - chip->used;
        done->value[1] = FAKE_DRAM_BYTES;
        done->value[2] = chip->peak;
        return SIM_OK;
    case VNPU_PACKET_ERROR_INFO: done->value[0] = strlen(chip->last.text); return SIM_OK;
    case VNPU_PACKET_PROFILE_STOP: done->value[0] = FAKE_PROFILE_BYTES; return SIM_OK;
    case VNPU_PACKET_PROGRAM_TIME: done->value[0] = FAKE_BASE_PS; return SIM_OK;
    case VNPU_PACKET_BLOB_READ: return read_blob(chip, packet, out);
    case VNPU_PACKET_RESET: chip->sticky = (sim_error_t){0}; return SIM_OK;
    case VNPU_PACKET_TIME: done->value[0] = time_of(chip, packet); return SIM_OK;
    case VNPU_PACKET_MACHINE:
        done->value[0] = sizeof chip->machine;
        done->value[1] = 19;
        return SIM_OK;
    case VNPU_PACKET_MEASURE:
        done->value[0] = FAKE_STREAM_RATE;
        done->value[1] = FAKE_RANDOM_RATE;
        return SIM_OK;
    case VNPU_PACKET_NOP:
    case VNPU_PACKET_EVENT_RECORD:
    case VNPU_PACKET_PROFILE_START:
    case VNPU_PACKET_TYPE_COUNT: break;
    }
    return SIM_OK;
}

static bool works_after_a_fault(uint8_t type) {
    return type == VNPU_PACKET_RESET || type == VNPU_PACKET_ERROR_INFO ||
           type == VNPU_PACKET_BLOB_READ || type == VNPU_PACKET_FREE;
}

void dev_chip_execute(dev_chip_t *chip, uint32_t client, const vnpu_packet_t *packet,
                      const void *payload_in, void *payload_out, vnpu_completion_t *done) {
    (void)client;
    uint64_t *end = &chip->stream_end[packet->stream % STREAMS], duration = FAKE_BASE_PS;
    sim_status_t status = chip->sticky.status;
    chip->is_late = false;
    if (status == SIM_OK || works_after_a_fault(packet->type)) {
        status = execute(chip, packet, payload_in, payload_out, done, &duration);
        if (status >= SIM_ERROR_ILLEGAL_ADDRESS) {
            chip->sticky = chip->last;
        }
    }
    bool is_timed = packet->type == VNPU_PACKET_KERNEL || packet->type == VNPU_PACKET_FILL ||
                    (packet->type >= VNPU_PACKET_COPY_H2D && packet->type <= VNPU_PACKET_COPY_D2D);
    uint64_t arrival = packet->host_clock_ps + FAKE_ARRIVAL_PS;
    done->status = (int32_t)status;
    done->start_ps = arrival > *end ? arrival : *end;
    done->end_ps =
        done->start_ps + (is_timed && (packet->flags & VNPU_PACKET_MORE) == 0 ? duration : 0);
    bool is_event =
        packet->type == VNPU_PACKET_EVENT_RECORD || packet->type == VNPU_PACKET_EVENT_WAIT;
    if ((is_timed || is_event) && (packet->flags & VNPU_PACKET_MORE) == 0) {
        *end = done->end_ps;
    }
    chip->event_end[packet->seq % EVENTS] = done->end_ps;
    chip->max_end = done->end_ps > chip->max_end ? done->end_ps : chip->max_end;
    if (chip->is_late) {
        done->start_ps = done->end_ps = VNPU_TIME_OPEN;
        done->flags = VNPU_COMPLETION_RETIMED;
    }
}
