/*
 * Packets in, completions out. The order of every loop here: read what has completed, then look
 * whether there is room, then wait; so a bounded buffer never blocks while its emptying is already
 * known.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_internal.h"

#define NO_SEQ UINT64_MAX

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void vnpu__advance_to(vnpu__device_t *device, uint64_t ps) {
    device->clock_ps = max_u64(device->clock_ps, ps);
}

/* --- completions --- */

static void note_error(vnpu__device_t *device, const vnpu_completion_t *done, bool has_ticket) {
    vnpu_status_t status = (vnpu_status_t)done->status;
    /* Unknown values are no fault of the device: the chip goes on after them. */
    if (status >= VNPU_ERROR_ILLEGAL_ADDRESS && status != VNPU_ERROR_VALUE_UNKNOWN) {
        if (device->fault == VNPU_OK) {
            device->fault = status;
            device->fault_seq = done->seq;
        }
    } else if (!has_ticket && device->failure == VNPU_OK) {
        device->failure = status;
        device->failure_seq = done->seq;
    }
}

static void reopen(uint64_t *end_ps, uint64_t clock_ps) {
    if (*end_ps > clock_ps) {
        *end_ps = VNPU_TIME_OPEN;
    }
}

static void reopen_stream(vnpu__stream_t *stream, uint32_t depth, uint64_t clock_ps) {
    reopen(&stream->last_end_ps, clock_ps);
    for (uint64_t i = 0; stream->point != NULL && i < min_u64(stream->count, depth); i++) {
        reopen(&stream->point[i].end_ps, clock_ps);
    }
}

/* A packet submitted at clock_ps overlaps with others: what has not ended by then may end at
 * another time than was told. */
static void reopen_times(vnpu__device_t *device, uint64_t clock_ps) {
    uint32_t depth = device->machine.cmd_queue_depth;
    reopen(&device->max_end_ps, clock_ps);
    reopen_stream(&device->default_stream, depth, clock_ps);
    for (uint32_t i = 0; i < device->streams.count; i++) {
        if (device->streams.object[i]->is_live) {
            reopen_stream((vnpu__stream_t *)device->streams.object[i], depth, clock_ps);
        }
    }
    for (uint32_t i = 0; i < device->events.count; i++) {
        reopen(&((vnpu__event_t *)device->events.object[i])->end_ps, clock_ps);
    }
}

static void settle(vnpu__device_t *device, const vnpu_completion_t *done) {
    vnpu__inflight_t *inflight = &device->inflight[done->seq % VNPU_COMPLETION_SLOTS];
    vnpu__stream_t *stream = inflight->stream;
    if ((done->flags & VNPU_COMPLETION_RETIMED) != 0) {
        reopen_times(device, inflight->clock_ps);
    }
    if (stream != NULL) {
        device->max_end_ps = max_u64(device->max_end_ps, done->end_ps);
        if (stream->object.generation == inflight->stream_generation) {
            stream->point[inflight->position % device->machine.cmd_queue_depth].end_ps =
                done->end_ps;
            stream->last_end_ps = max_u64(stream->last_end_ps, done->end_ps);
        }
    }
    vnpu__event_t *event = inflight->event;
    if (event != NULL && event->object.generation == inflight->event_generation &&
        event->seq == done->seq) {
        event->end_ps = done->end_ps;
    }
    if (inflight->staging_end != 0) {
        device->staging_tail = inflight->staging_end;
    }
    if (inflight->ticket != NULL) {
        inflight->ticket->completion = *done;
    }
    if (done->status != VNPU_OK) {
        note_error(device, done, inflight->ticket != NULL);
    }
}

static void lose(vnpu__device_t *device) {
    if (!device->is_lost) {
        device->is_lost = true;
        device->transport->obituary(device, device->lost_text, sizeof device->lost_text);
    }
}

static void read_completions(vnpu__device_t *device) {
    if (device->is_lost) {
        return;
    }
    uint64_t done = atomic_load_explicit(&device->control->done, memory_order_acquire);
    if (done >= device->next_seq) {
        device->is_lost = true;
        memcpy(device->lost_text, "the device completed what was never submitted",
               sizeof "the device completed what was never submitted");
        return;
    }
    while (device->read_seq < done) {
        vnpu_completion_t completion =
            device->completions[device->read_seq % VNPU_COMPLETION_SLOTS];
        device->read_seq++;
        completion.seq = device->read_seq;
        settle(device, &completion);
    }
}

vnpu_status_t vnpu__wait(vnpu__device_t *device, uint64_t seq) {
    read_completions(device);
    while (device->read_seq < seq && !device->is_lost) {
        atomic_store_explicit(&device->control->client_blocked, 1, memory_order_relaxed);
        pthread_mutex_unlock(&device->lock);
        bool is_done = device->transport->wait(device, seq);
        pthread_mutex_lock(&device->lock);
        atomic_store_explicit(&device->control->client_blocked, 0, memory_order_relaxed);
        read_completions(device);
        if (!is_done && device->read_seq < seq) {
            lose(device);
        }
    }
    return device->read_seq >= seq ? VNPU_OK : vnpu__report_loss(device);
}

/* --- errors --- */

vnpu_status_t vnpu__report_loss(vnpu__device_t *device) {
    device->is_loss_reported = true;
    return vnpu__fail(VNPU_ERROR_DEVICE_LOST, "device lost: %s", device->lost_text);
}

/* The chip's own words on its last error; false when it has none. */
static bool fetch_error_text(vnpu__device_t *device, char *text, size_t text_bytes) {
    vnpu__ticket_t ticket;
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_ERROR_INFO}, .ticket = &ticket};
    request.packet.flags = VNPU_PACKET_BLOCKING;
    void *blob = NULL;
    text[0] = '\0';
    if (vnpu__submit(device, &request, NULL) != VNPU_OK ||
        vnpu__wait(device, ticket.seq) != VNPU_OK || ticket.completion.status != VNPU_OK ||
        ticket.completion.value[0] == 0 ||
        vnpu__read_blob(device, VNPU_BLOB_ERROR, ticket.completion.value[0], &blob) != VNPU_OK) {
        return false;
    }
    size_t length = strnlen(blob, min_u64(ticket.completion.value[0], text_bytes - 1));
    memcpy(text, blob, length);
    text[length] = '\0';
    free(blob);
    return length > 0;
}

vnpu_status_t vnpu__report_fault(vnpu__device_t *device) {
    if (!device->is_fault_reported) {
        char text[VNPU__TEXT];
        if (!fetch_error_text(device, text, sizeof text)) {
            if (device->is_lost) {
                return vnpu__report_loss(device);
            }
            memcpy(text, "no details", sizeof "no details");
        }
        memcpy(device->fault_text, text, sizeof text);
        device->is_fault_reported = true;
    }
    return vnpu__fail(device->fault, "%s", device->fault_text);
}

vnpu_status_t vnpu__async_status(vnpu__device_t *device, uint64_t seq) {
    if (device->fault != VNPU_OK && device->fault_seq <= seq) {
        return vnpu__report_fault(device);
    }
    if (device->failure != VNPU_OK && device->failure_seq <= seq) {
        vnpu_status_t status = device->failure;
        unsigned long long failed = (unsigned long long)device->failure_seq;
        device->failure = VNPU_OK;
        char text[VNPU__TEXT];
        if (fetch_error_text(device, text, sizeof text)) {
            return vnpu__fail(status, "%s", text);
        }
        return vnpu__fail(status, "packet %llu was refused by the device", failed);
    }
    return VNPU_OK;
}

vnpu_status_t vnpu__answer_status(vnpu__device_t *device, const vnpu_completion_t *done) {
    vnpu_status_t status = (vnpu_status_t)done->status;
    if (status == VNPU_OK) {
        return status;
    }
    if (device->fault != VNPU_OK && device->fault_seq <= done->seq) {
        return vnpu__report_fault(device);
    }
    char text[VNPU__TEXT];
    bool has_text = fetch_error_text(device, text, sizeof text);
    return device->is_lost ? vnpu__report_loss(device)
                           : vnpu__fail(status, "%s", has_text ? text : "no details");
}

/* --- times --- */

static vnpu_status_t ask_time(vnpu__device_t *device, vnpu_time_of_t of, uint64_t which,
                              uint64_t *out_ps) {
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_TIME}};
    request.packet.u.mem.address = of;
    request.packet.u.mem.bytes = which;
    vnpu_completion_t done;
    vnpu_status_t status = vnpu__call(device, &request, &done);
    *out_ps = status == VNPU_OK ? done.value[0] : 0;
    return status;
}

vnpu_status_t vnpu__all_end(vnpu__device_t *device, uint64_t *out_ps) {
    vnpu_status_t status = vnpu__wait(device, device->next_seq - 1);
    *out_ps = device->max_end_ps;
    if (status == VNPU_OK && *out_ps == VNPU_TIME_OPEN) {
        status = ask_time(device, VNPU_TIME_OF_ALL, 0, out_ps);
        device->max_end_ps = *out_ps;
    }
    return status;
}

vnpu_status_t vnpu__stream_end(vnpu__device_t *device, vnpu__stream_t *stream, uint64_t *out_ps) {
    uint32_t generation = stream->object.generation, id = stream->id;
    vnpu_status_t status = vnpu__wait(device, device->next_seq - 1);
    bool is_same = stream->object.generation == generation;
    *out_ps = is_same ? stream->last_end_ps : 0; /* destroyed by another thread: nothing to wait */
    if (status == VNPU_OK && *out_ps == VNPU_TIME_OPEN) {
        status = ask_time(device, VNPU_TIME_OF_STREAM, id, out_ps);
        if (stream->object.generation == generation) {
            stream->last_end_ps = *out_ps;
        }
    }
    return status;
}

vnpu_status_t vnpu__event_end(vnpu__device_t *device, vnpu__event_t *event, uint64_t *out_ps) {
    *out_ps = event->end_ps;
    if (*out_ps != VNPU_TIME_OPEN) {
        return VNPU_OK;
    }
    uint32_t generation = event->object.generation;
    uint64_t seq = event->seq;
    vnpu_status_t status = ask_time(device, VNPU_TIME_OF_PACKET, seq, out_ps);
    if (event->object.generation == generation && event->seq == seq) {
        event->end_ps = *out_ps;
    }
    return status;
}

/* --- submission --- */

/* The oldest packet of a full stream, NULL when it can take one more. */
static vnpu__point_t *full_stream(const vnpu__device_t *device, const vnpu__request_t *request) {
    const vnpu__stream_t *stream = request->stream;
    uint32_t depth = device->machine.cmd_queue_depth;
    if (stream == NULL || request->is_partial || stream->count < depth) {
        return NULL;
    }
    return &stream->point[stream->count % depth];
}

/* The packet to wait for before the stream can take one more, NO_SEQ if it can. Blocks in simulated
 * time, too. With packets of other streams behind the oldest, all of them have a say in when it
 * ends. */
static uint64_t blocked_by_depth(vnpu__device_t *device, const vnpu__request_t *request) {
    const vnpu__point_t *oldest = full_stream(device, request);
    if (oldest == NULL) {
        return NO_SEQ;
    }
    uint64_t needed = device->switch_seq > oldest->seq ? device->next_seq - 1 : oldest->seq;
    if (needed > device->read_seq) {
        return needed;
    }
    if (oldest->end_ps != VNPU_TIME_OPEN) {
        vnpu__advance_to(device, oldest->end_ps);
    }
    return NO_SEQ;
}

/* Asks for the end of the oldest packet where it is open. *out_has_asked: look at everything again.
 */
static vnpu_status_t close_oldest(vnpu__device_t *device, const vnpu__request_t *request,
                                  bool *out_has_asked) {
    vnpu__point_t *oldest = full_stream(device, request);
    *out_has_asked = oldest != NULL && oldest->end_ps == VNPU_TIME_OPEN;
    if (!*out_has_asked) {
        return VNPU_OK;
    }
    uint64_t seq = oldest->seq, end_ps = 0;
    uint32_t generation = request->stream->object.generation;
    vnpu_status_t status = ask_time(device, VNPU_TIME_OF_PACKET, seq, &end_ps);
    bool is_same = request->stream->object.generation == generation &&
                   full_stream(device, request) == oldest && oldest->seq == seq;
    if (is_same) {
        oldest->end_ps = end_ps;
    }
    return status;
}

static bool ring_is_full(const vnpu__device_t *device, uint32_t slots) {
    uint64_t head = atomic_load_explicit(&device->control->head, memory_order_acquire);
    return device->tail + slots - head > VNPU_RING_SLOTS ||
           device->next_seq - device->read_seq > VNPU_COMPLETION_SLOTS;
}

/* A contiguous region of the staging ring; false when what is in flight leaves no room. */
static bool reserve_staging(vnpu__device_t *device, uint32_t bytes, uint64_t *out_start) {
    uint64_t rounded = ((uint64_t)bytes + 63) & ~UINT64_C(63);
    uint64_t start = device->staging_head, offset = start % VNPU__STAGING_BYTES;
    if (offset + rounded > VNPU__STAGING_BYTES) {
        start += VNPU__STAGING_BYTES - offset;
    }
    if (start + rounded - device->staging_tail > VNPU__STAGING_BYTES) {
        return false;
    }
    device->staging_head = start + rounded;
    *out_start = start;
    return true;
}

/* Returns with the lock held all along since the last check: ring, completions, depth and staging
 * have room. */
static vnpu_status_t make_room(vnpu__device_t *device, const vnpu__request_t *request,
                               uint32_t slots, uint64_t *out_staging) {
    uint32_t generation = request->stream != NULL ? request->stream->object.generation : 0;
    for (;;) {
        read_completions(device);
        if (device->is_lost) {
            return vnpu__report_loss(device);
        }
        if (request->stream != NULL && request->stream->object.generation != generation) {
            return vnpu__fail(VNPU_ERROR_INVALID_HANDLE,
                              "the stream was destroyed by another thread");
        }
        uint64_t wait_for = blocked_by_depth(device, request);
        if (wait_for == NO_SEQ) {
            bool has_asked;
            vnpu_status_t status = close_oldest(device, request, &has_asked);
            if (status != VNPU_OK) {
                return status;
            }
            if (has_asked) {
                continue;
            }
        }
        if (wait_for == NO_SEQ && ring_is_full(device, slots)) {
            /* Half of what is under way: neither one wake-up a packet nor an empty ring. */
            uint64_t pending = device->next_seq - 1 - device->read_seq;
            wait_for = device->read_seq + pending / 2 + (pending % 2);
        }
        if (wait_for == NO_SEQ && request->payload != NULL &&
            !reserve_staging(device, request->payload_bytes, out_staging)) {
            wait_for = device->read_seq + 1;
        }
        if (wait_for == NO_SEQ) {
            return VNPU_OK;
        }
        vnpu_status_t status = vnpu__wait(device, wait_for);
        if (status != VNPU_OK) {
            return status;
        }
    }
}

static void write_slots(vnpu__device_t *device, const vnpu__request_t *request, uint32_t slots) {
    memcpy(device->ring + (device->tail % VNPU_RING_SLOTS) * 64u, &request->packet, 64);
    for (uint32_t i = 1; i < slots; i++) {
        memcpy(device->ring + ((device->tail + i) % VNPU_RING_SLOTS) * 64u,
               &request->args[8u * (i - 1u)], 64);
    }
}

static void track(vnpu__device_t *device, const vnpu__request_t *request, uint64_t seq,
                  uint64_t staging_end) {
    vnpu__inflight_t *inflight = &device->inflight[seq % VNPU_COMPLETION_SLOTS];
    *inflight = (vnpu__inflight_t){
        .ticket = request->ticket, .staging_end = staging_end, .clock_ps = device->clock_ps};
    vnpu__stream_t *stream = request->stream;
    if (stream != NULL && !request->is_partial) {
        inflight->stream = stream;
        inflight->stream_generation = stream->object.generation;
        inflight->position = stream->count;
        stream->point[stream->count % device->machine.cmd_queue_depth] =
            (vnpu__point_t){.seq = seq};
        stream->count++;
        stream->last_seq = seq;
        if (stream->id != device->last_stream_id) {
            device->switch_seq = seq;
        }
        device->last_stream_id = stream->id;
    }
    if (request->event != NULL) {
        inflight->event = request->event;
        inflight->event_generation = request->event->object.generation;
        request->event->seq = seq;
        request->event->end_ps = 0;
    }
    if (request->ticket != NULL) {
        request->ticket->seq = seq;
    }
}

vnpu_status_t vnpu__submit(vnpu__device_t *device, vnpu__request_t *request, uint64_t *out_seq) {
    uint32_t slots = 1 + (request->num_args + 7u) / 8u;
    uint64_t staging = 0, staging_end = 0;
    vnpu_status_t status = make_room(device, request, slots, &staging);
    if (status != VNPU_OK) {
        return status;
    }
    uint64_t seq = device->next_seq++;
    vnpu_packet_t *packet = &request->packet;
    if (request->payload != NULL) {
        packet->u.copy.host = staging % VNPU__STAGING_BYTES;
        memcpy(device->staging_in + packet->u.copy.host, request->payload, request->payload_bytes);
        staging_end = device->staging_head;
    }
    packet->flags = (uint8_t)(packet->flags | VNPU_PACKET_BARRIER);
    packet->slots = (uint16_t)slots;
    packet->stream = request->stream != NULL ? request->stream->id : 0;
    packet->seq = seq;
    packet->host_clock_ps = device->clock_ps;
    track(device, request, seq, staging_end);
    write_slots(device, request, slots);
    device->tail += slots;
    atomic_store_explicit(&device->control->client_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&device->control->host_clock_ps, device->clock_ps, memory_order_relaxed);
    atomic_exchange(&device->control->tail,
                    device->tail); /* publishes, and orders the look at `state` behind it */
    device->transport->published(device, device->tail);
    if (out_seq != NULL) {
        *out_seq = seq;
    }
    return VNPU_OK;
}

vnpu_status_t vnpu__call(vnpu__device_t *device, vnpu__request_t *request,
                         vnpu_completion_t *out_completion) {
    vnpu__ticket_t ticket = {0};
    memset(out_completion, 0, sizeof *out_completion);
    request->ticket = &ticket;
    request->packet.flags = (uint8_t)(request->packet.flags | VNPU_PACKET_BLOCKING);
    vnpu_status_t status = vnpu__submit(device, request, NULL);
    if (status == VNPU_OK) {
        status = vnpu__wait(device, ticket.seq);
    }
    if (status != VNPU_OK) {
        return status;
    }
    *out_completion = ticket.completion;
    return vnpu__answer_status(device, &ticket.completion);
}

/* --- chunks --- */

vnpu_status_t vnpu__write_in(vnpu__device_t *device, const vnpu__request_t *model, const void *src,
                             uint64_t bytes, vnpu_completion_t *out_last) {
    const uint8_t *next = src;
    for (uint64_t offset = 0; offset < bytes;) {
        uint64_t chunk = min_u64(bytes - offset, VNPU_STAGING_CHUNK);
        vnpu__request_t request = *model;
        request.packet.u.copy.device += offset;
        request.packet.u.copy.bytes = chunk;
        request.packet.u.copy.total = bytes;
        request.payload = next + offset;
        request.payload_bytes = (uint32_t)chunk;
        offset += chunk;
        request.is_partial = offset < bytes;
        if (request.is_partial) {
            request.packet.flags = (uint8_t)(request.packet.flags | VNPU_PACKET_MORE);
        }
        vnpu_status_t status = offset == bytes && out_last != NULL
                                   ? vnpu__call(device, &request, out_last)
                                   : vnpu__submit(device, &request, NULL);
        if (status != VNPU_OK) {
            return status;
        }
    }
    return VNPU_OK;
}

static vnpu_status_t submit_chunk_out(vnpu__device_t *device, const vnpu__request_t *model,
                                      uint64_t index, uint64_t bytes, vnpu__ticket_t *ticket) {
    uint64_t offset = index * VNPU_STAGING_CHUNK,
             chunk = min_u64(bytes - offset, VNPU_STAGING_CHUNK);
    vnpu__request_t request = *model;
    bool is_blob = request.packet.type == VNPU_PACKET_BLOB_READ;
    request.packet.u.copy.device += is_blob ? offset << 8 : offset;
    request.packet.u.copy.host = index % VNPU_STAGING_CHUNKS * VNPU_STAGING_CHUNK;
    request.packet.u.copy.bytes = chunk;
    request.packet.u.copy.total = bytes;
    request.is_partial = offset + chunk < bytes;
    uint32_t flags =
        request.packet.flags | VNPU_PACKET_BLOCKING | (request.is_partial ? VNPU_PACKET_MORE : 0u);
    request.packet.flags = (uint8_t)flags;
    request.ticket = ticket;
    return vnpu__submit(device, &request, NULL);
}

static void take_chunk(vnpu__device_t *device, const vnpu_completion_t *done, uint64_t index,
                       uint8_t *dst, uint64_t bytes) {
    const uint8_t *staged = device->staging_out + index % VNPU_STAGING_CHUNKS * VNPU_STAGING_CHUNK;
    bool is_inline = done->inline_bytes == bytes && bytes <= sizeof done->value;
    const void *source = is_inline ? (const void *)done->value : staged;
    pthread_mutex_unlock(&device->lock); /* the staging area is ours until is_reading_out falls */
    memcpy(dst, source, bytes);
    pthread_mutex_lock(&device->lock);
}

vnpu_status_t vnpu__read_out(vnpu__device_t *device, const vnpu__request_t *model, void *dst,
                             uint64_t bytes, vnpu_completion_t *out_last) {
    vnpu__ticket_t ticket[VNPU_STAGING_CHUNKS];
    vnpu_status_t status = VNPU_OK;
    uint64_t chunks = (bytes + VNPU_STAGING_CHUNK - 1) / VNPU_STAGING_CHUNK, sent = 0, taken = 0;
    memset(out_last, 0, sizeof *out_last);
    while (device->is_reading_out) {
        pthread_cond_wait(&device->changed, &device->lock);
    }
    device->is_reading_out = true;
    while (taken < chunks && status == VNPU_OK) {
        while (sent < chunks && sent - taken < VNPU_STAGING_CHUNKS && status == VNPU_OK) {
            status =
                submit_chunk_out(device, model, sent, bytes, &ticket[sent % VNPU_STAGING_CHUNKS]);
            sent += status == VNPU_OK ? 1 : 0;
        }
        if (status == VNPU_OK) {
            status = vnpu__wait(device, ticket[taken % VNPU_STAGING_CHUNKS].seq);
        }
        if (status == VNPU_OK) {
            *out_last = ticket[taken % VNPU_STAGING_CHUNKS].completion;
            if (out_last->status != VNPU_OK) {
                break;
            }
            uint64_t offset = taken * VNPU_STAGING_CHUNK;
            take_chunk(device, out_last, taken, (uint8_t *)dst + offset,
                       min_u64(bytes - offset, VNPU_STAGING_CHUNK));
            taken++;
        }
    }
    if (sent > 0 && !device->is_lost) { /* tickets lie on this stack: none may stay in flight */
        vnpu_status_t drained = vnpu__wait(device, ticket[(sent - 1) % VNPU_STAGING_CHUNKS].seq);
        status = status == VNPU_OK ? drained : status;
    }
    device->is_reading_out = false;
    pthread_cond_broadcast(&device->changed);
    if (status == VNPU_OK && model->packet.type == VNPU_PACKET_BLOB_READ) {
        /* Blobs are read to report errors: they must not report errors themselves. */
        status = (vnpu_status_t)out_last->status;
        return status == VNPU_OK ? status
                                 : vnpu__fail(status, "the device gave no blob of %llu bytes",
                                              (unsigned long long)bytes);
    }
    return status != VNPU_OK ? status : vnpu__answer_status(device, out_last);
}

vnpu_status_t vnpu__read_blob(vnpu__device_t *device, vnpu_blob_t blob, uint64_t bytes,
                              void **out_data) {
    *out_data = NULL;
    char *data = malloc(bytes + 1);
    if (data == NULL) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "no host memory for %llu bytes from the device",
                          (unsigned long long)bytes);
    }
    vnpu__request_t model = {.packet = {.type = VNPU_PACKET_BLOB_READ}};
    model.packet.u.copy.device = (uint64_t)blob;
    vnpu_completion_t last;
    vnpu_status_t status = bytes > 0 ? vnpu__read_out(device, &model, data, bytes, &last) : VNPU_OK;
    if (status != VNPU_OK) {
        free(data);
        return status;
    }
    data[bytes] = '\0';
    *out_data = data;
    return VNPU_OK;
}
