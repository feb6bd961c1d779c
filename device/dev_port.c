#include "device/dev_port.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES       4096u
#define RING_BYTES       (VNPU_RING_SLOTS * 64u)
#define COMPLETION_BYTES (VNPU_COMPLETION_SLOTS * 64u)
#define STAGING_BYTES    (VNPU_STAGING_CHUNK * VNPU_STAGING_CHUNKS)
#define BLOCK_SHIFT      40u

static_assert(sizeof(vnpu_control_page_t) <= PAGE_BYTES, "control page");

typedef struct dev_port_block {
    uint8_t *pointer; /* NULL: free */
    uint64_t bytes;
} dev_port_block_t;

struct dev_port {
    dev_chip_t *chip;
    uint32_t client;
    vnpu_control_page_t *control;
    uint8_t *ring; /* 64-byte slots */
    vnpu_completion_t *completion;
    uint8_t *staging_in, *staging_out;
    uint64_t head; /* own copies: the client may write the page */
    uint64_t done;
    bool client_waits;
    pthread_mutex_t block_lock; /* held while a pinned copy runs */
    dev_port_block_t block[DEV_PORT_MAX_BLOCKS];
};

uint32_t dev_port_shared_bytes(void) {
    return PAGE_BYTES + RING_BYTES + COMPLETION_BYTES + 2u * STAGING_BYTES;
}

sim_status_t dev_port_create(dev_chip_t *chip, uint32_t client, void *shared, dev_port_t **out_port,
                             sim_error_t *err) {
    *out_port = NULL;
    dev_port_t *port = calloc(1, sizeof *port);
    if (port == NULL) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "port of a client: out of host memory");
    }
    if (pthread_mutex_init(&port->block_lock, NULL) != 0) {
        free(port);
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "port of a client: no mutex");
    }
    uint8_t *base = shared;
    vnpu_control_page_t *control = shared;
    control->protocol_version = VNPU_PROTOCOL_VERSION;
    control->bytes_total = dev_port_shared_bytes();
    control->ring_offset = PAGE_BYTES;
    control->completion_offset = control->ring_offset + RING_BYTES;
    control->staging_in_offset = control->completion_offset + COMPLETION_BYTES;
    control->staging_out_offset = control->staging_in_offset + STAGING_BYTES;
    atomic_store(&control->client_cpu, -1);
    atomic_store(&control->chip_cpu, -1);
    port->chip = chip;
    port->client = client;
    port->control = control;
    port->ring = base + control->ring_offset;
    port->completion = (vnpu_completion_t *)(void *)(base + control->completion_offset);
    port->staging_in = base + control->staging_in_offset;
    port->staging_out = base + control->staging_out_offset;
    *out_port = port;
    return SIM_OK;
}

void dev_port_destroy(dev_port_t *port) {
    if (port == NULL) {
        return;
    }
    pthread_mutex_destroy(&port->block_lock);
    free(port);
}

/* Takes the next packet off the ring into `slots`; the ring is trusted only as far as it was
 * checked. */
static sim_status_t take_packet(dev_port_t *port, uint64_t tail, uint8_t *slots, sim_error_t *err) {
    uint64_t available = tail - port->head;
    memcpy(slots, port->ring + (port->head % VNPU_RING_SLOTS) * 64u, 64);
    vnpu_packet_t first;
    memcpy(&first, slots, sizeof first);
    if (first.slots == 0 || first.slots > VNPU_MAX_PACKET_SLOTS || first.slots > available) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "packet ring: a packet of %u slots where %llu were published",
                             (unsigned)first.slots, (unsigned long long)available);
    }
    if (first.seq != port->done + 1) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "packet ring: sequence %llu where %llu was due",
                             (unsigned long long)first.seq, (unsigned long long)(port->done + 1));
    }
    for (uint64_t i = 1; i < first.slots; i++) {
        memcpy(slots + i * 64u, port->ring + ((port->head + i) % VNPU_RING_SLOTS) * 64u, 64);
    }
    port->head += first.slots;
    atomic_store_explicit(&port->control->head, port->head, memory_order_release);
    return SIM_OK;
}

typedef enum payload_kind {
    PAYLOAD_NONE,
    PAYLOAD_IN,
    PAYLOAD_OUT,
    PAYLOAD_BAD_TYPE
} payload_kind_t;

static payload_kind_t payload_of(uint8_t type) {
    if (type >= VNPU_PACKET_TYPE_COUNT) {
        return PAYLOAD_BAD_TYPE;
    }
    switch ((vnpu_packet_type_t)type) {
    case VNPU_PACKET_COPY_H2D:
    case VNPU_PACKET_MODULE_LOAD: return PAYLOAD_IN;
    case VNPU_PACKET_COPY_D2H:
    case VNPU_PACKET_BLOB_READ: return PAYLOAD_OUT;
    case VNPU_PACKET_NOP:
    case VNPU_PACKET_KERNEL:
    case VNPU_PACKET_COPY_D2D:
    case VNPU_PACKET_FILL:
    case VNPU_PACKET_ALLOC:
    case VNPU_PACKET_FREE:
    case VNPU_PACKET_MODULE_UNLOAD:
    case VNPU_PACKET_EVENT_RECORD:
    case VNPU_PACKET_EVENT_WAIT:
    case VNPU_PACKET_MEM_INFO:
    case VNPU_PACKET_ERROR_INFO:
    case VNPU_PACKET_PROFILE_START:
    case VNPU_PACKET_PROFILE_STOP:
    case VNPU_PACKET_PROGRAM_TIME:
    case VNPU_PACKET_RESET:
    case VNPU_PACKET_MACHINE:
    case VNPU_PACKET_MEASURE:
    case VNPU_PACKET_TIME: return PAYLOAD_NONE;
    case VNPU_PACKET_TYPE_COUNT: break;
    }
    return PAYLOAD_BAD_TYPE;
}

/* [offset, offset + bytes) inside an area of `area` bytes. */
static bool lies_inside(uint64_t offset, uint64_t bytes, uint64_t area) {
    return offset <= area && bytes <= area - offset;
}

/* Host side of a copy; NULL when it lies outside the client's memory. The block lock is held for
 * pinned copies. */
static uint8_t *find_payload(dev_port_t *port, const vnpu_packet_t *packet, payload_kind_t kind) {
    uint64_t host = packet->u.copy.host, bytes = packet->u.copy.bytes;
    if ((packet->flags & VNPU_PACKET_PINNED) != 0) {
        uint64_t block = host >> BLOCK_SHIFT, offset = host & ((UINT64_C(1) << BLOCK_SHIFT) - 1);
        if (block == 0 || block > DEV_PORT_MAX_BLOCKS) {
            return NULL;
        }
        const dev_port_block_t *entry = &port->block[block - 1];
        bool is_ok = entry->pointer != NULL && lies_inside(offset, bytes, entry->bytes);
        return is_ok ? entry->pointer + offset : NULL;
    }
    uint8_t *area = kind == PAYLOAD_IN ? port->staging_in : port->staging_out;
    return lies_inside(host, bytes, STAGING_BYTES) ? area + host : NULL;
}

static void execute(dev_port_t *port, const vnpu_packet_t *packet, vnpu_completion_t *completion) {
    payload_kind_t kind = payload_of(packet->type);
    if (kind == PAYLOAD_IN && (packet->flags & VNPU_PACKET_LENGTH_ONLY) != 0) {
        kind = PAYLOAD_NONE;
    }
    bool has_payload = kind == PAYLOAD_IN || kind == PAYLOAD_OUT;
    bool is_pinned = has_payload && (packet->flags & VNPU_PACKET_PINNED) != 0;
    bool is_copy = packet->type == VNPU_PACKET_COPY_H2D || packet->type == VNPU_PACKET_COPY_D2H;
    if (is_pinned) {
        pthread_mutex_lock(&port->block_lock);
    }
    uint8_t *payload = has_payload ? find_payload(port, packet, kind) : NULL;
    if (kind == PAYLOAD_BAD_TYPE) {
        completion->status = SIM_ERROR_UNSUPPORTED;
    } else if ((has_payload && payload == NULL) || (is_pinned && !is_copy)) {
        completion->status = SIM_ERROR_INVALID_VALUE;
    } else {
        dev_chip_execute(port->chip, port->client, packet, kind == PAYLOAD_IN ? payload : NULL,
                         kind == PAYLOAD_OUT ? payload : NULL, completion);
    }
    if (is_pinned) {
        pthread_mutex_unlock(&port->block_lock);
    }
}

/* Store, full fence, look at the waiters: the client does the same the other way round, so no
 * wake-up is lost. */
static void publish(dev_port_t *port, const vnpu_completion_t *completion) {
    vnpu_control_page_t *control = port->control;
    port->completion[port->done % VNPU_COMPLETION_SLOTS] = *completion;
    port->done++;
    atomic_store(&control->done, port->done);
    atomic_store(&control->done_futex, (uint32_t)port->done);
    if (atomic_load(&control->waiters) != 0) {
        syscall(SYS_futex, &control->done_futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

sim_status_t dev_port_drain(dev_port_t *port, uint32_t max_packets, uint32_t *out_count,
                            sim_error_t *err) {
    *out_count = 0;
    _Alignas(vnpu_packet_t) uint8_t slots[VNPU_MAX_PACKET_SLOTS * 64u];
    while (*out_count < max_packets) {
        uint64_t tail = atomic_load_explicit(&port->control->tail, memory_order_acquire);
        if (tail == port->head) {
            break;
        }
        if (tail - port->head > VNPU_RING_SLOTS) {
            return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                                 "packet ring: tail %llu does not fit head %llu",
                                 (unsigned long long)tail, (unsigned long long)port->head);
        }
        if (*out_count % 16u == 0) {
            atomic_store_explicit(&port->control->chip_cpu, sched_getcpu(), memory_order_relaxed);
        }
        sim_status_t status = take_packet(port, tail, slots, err);
        if (status != SIM_OK) {
            return status;
        }
        const vnpu_packet_t *packet = (const vnpu_packet_t *)(const void *)slots;
        vnpu_completion_t completion = {.start_ps = packet->host_clock_ps,
                                        .end_ps = packet->host_clock_ps};
        execute(port, packet, &completion);
        completion.seq = packet->seq;
        port->client_waits = (packet->flags & VNPU_PACKET_BLOCKING) != 0;
        publish(port, &completion);
        (*out_count)++;
    }
    return SIM_OK;
}

bool dev_port_has_work(const dev_port_t *port) {
    return atomic_load(&port->control->tail) != port->head;
}

bool dev_port_client_waits(const dev_port_t *port) {
    return port->client_waits;
}

bool dev_port_client_is_elsewhere(const dev_port_t *port) {
    int cpu = atomic_load_explicit(&port->control->client_cpu, memory_order_relaxed);
    return cpu >= 0 && cpu != sched_getcpu();
}

void dev_port_set_state(dev_port_t *port, dev_port_state_t state) {
    atomic_exchange(&port->control->state, (uint32_t)state);
}

sim_status_t dev_port_pin(dev_port_t *port, void *pointer, uint64_t bytes, uint32_t *out_block,
                          sim_error_t *err) {
    *out_block = 0;
    pthread_mutex_lock(&port->block_lock);
    for (uint32_t i = 0; i < DEV_PORT_MAX_BLOCKS && *out_block == 0; i++) {
        if (port->block[i].pointer == NULL) {
            port->block[i] = (dev_port_block_t){.pointer = pointer, .bytes = bytes};
            *out_block = i + 1;
        }
    }
    pthread_mutex_unlock(&port->block_lock);
    if (*out_block == 0) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "more than %u pinned blocks",
                             DEV_PORT_MAX_BLOCKS);
    }
    return SIM_OK;
}

void *dev_port_unpin(dev_port_t *port, uint32_t block, uint64_t *out_bytes) {
    *out_bytes = 0;
    if (block == 0 || block > DEV_PORT_MAX_BLOCKS) {
        return NULL;
    }
    pthread_mutex_lock(&port->block_lock);
    void *pointer = port->block[block - 1].pointer;
    *out_bytes = port->block[block - 1].bytes;
    port->block[block - 1] = (dev_port_block_t){0};
    pthread_mutex_unlock(&port->block_lock);
    return pointer;
}

uint32_t dev_port_first_block(dev_port_t *port) {
    uint32_t block = 0;
    pthread_mutex_lock(&port->block_lock);
    for (uint32_t i = 0; i < DEV_PORT_MAX_BLOCKS && block == 0; i++) {
        block = port->block[i].pointer != NULL ? i + 1 : 0;
    }
    pthread_mutex_unlock(&port->block_lock);
    return block;
}
