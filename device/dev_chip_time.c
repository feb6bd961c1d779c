/*
 * Simulated time of packets: arrival, what each waits for, and when its times are final.
 *
 * A packet's times follow from those submitted up to now; a later one of another stream may still
 * overlap with it. Most do not: a packet that starts when nothing is in flight is timed at once, as
 * an epoch of its own. One that overlaps makes the times of what has not ended by its client's
 * clock open; they are worked out together (dev_chip_epoch.c) when somebody asks. Nothing that
 * arrives later can start before its client's clock, so what has ended by then is final.
 */
#include <stdlib.h>
#include <string.h>

#include "device/dev_chip_internal.h"

#define MAX_PENDING                                                                                \
    65536u /* more are drained: the list of a client that never asks must end somewhere */

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* --- nodes
 * ------------------------------------------------------------------------------------------------------------
 */

static chip_node_t *hold(chip_node_t *node) {
    if (node != NULL) node->refs++;
    return node;
}

static void let_go(dev_chip_t *chip, chip_node_t *node) {
    if (node == NULL || --node->refs > 0) return;
    node->next = chip->free_nodes;
    chip->free_nodes = node;
}

static chip_node_t *node_take(dev_chip_t *chip) {
    chip_node_t *node = chip->free_nodes;
    if (node != NULL)
        chip->free_nodes = node->next;
    else
        node = malloc(sizeof *node);
    if (node == NULL) sim_bug("chip", chip->next_order, "no memory for a packet in flight");
    memset(node, 0, sizeof *node);
    node->refs = 1; /* the pending list's */
    node->order = chip->next_order++;
    node->row = CHIP_NO_ROW;
    return node;
}

static bool is_over(const dev_chip_t *chip, const chip_stream_t *stream, uint64_t clock_ps) {
    return stream->tail == NULL && stream->pending == 0 && stream->host_end_ps <= clock_ps &&
           stream->marked_ps <= clock_ps &&
           stream->drained_ps + chip->machine.launch_gap_ps <= clock_ps;
}

static uint32_t stream_index(dev_chip_t *chip, uint32_t client, const vnpu_packet_t *packet) {
    uint32_t free_entry = chip->num_streams;
    for (uint32_t i = 0; i < chip->num_streams; i++) {
        chip_stream_t *stream = &chip->stream[i];
        if (stream->client == client && stream->id == packet->stream) return i;
        if (stream->client == client && is_over(chip, stream, packet->host_clock_ps))
            stream->client = 0;
        if (stream->client == 0) free_entry = i;
    }
    if (free_entry == chip->stream_capacity) {
        uint32_t capacity = chip->stream_capacity == 0 ? 16 : chip->stream_capacity * 2;
        chip_stream_t *grown = realloc(chip->stream, capacity * sizeof *grown);
        if (grown == NULL) sim_bug("chip", packet->seq, "no memory for %u streams", capacity);
        chip->stream = grown;
        chip->stream_capacity = capacity;
    }
    if (free_entry == chip->num_streams) chip->num_streams++;
    chip->stream[free_entry] = (chip_stream_t){.client = client, .id = packet->stream};
    return free_entry;
}

static uint64_t decode(dev_chip_t *chip, const vnpu_packet_t *packet) {
    const dev_machine_t *machine = &chip->machine;
    uint64_t *decoded = &chip->decoded_ps[packet->stream % machine->hardware_queues];
    *decoded = max_u64(*decoded, packet->host_clock_ps + machine->doorbell_ps) + machine->fetch_ps +
               machine->decode_ps;
    return *decoded;
}

static void follow_stream(chip_node_t *node, const chip_stream_t *stream) {
    node->drained_ps = stream->drained_ps;
    node->before[0] = hold(stream->tail);
}

chip_node_t *chip_node_new(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                           chip_node_kind_t kind) {
    chip_node_t *node = node_take(chip);
    node->kind = kind;
    node->client = client->id;
    node->seq = packet->seq;
    node->stream = stream_index(chip, client->id, packet);
    if (kind != CHIP_JOIN) node->decoded_ps = decode(chip, packet);
    node->with_slices = client->is_profiling && client->with_slices;
    if (kind == CHIP_LINK) {
        uint32_t way = packet->type == VNPU_PACKET_COPY_D2H ? 1 : 0;
        node->link_before = chip->link_last[way]; /* takes over the reference */
        node->link_free_ps = chip->link_free_ps[way];
        chip->link_last[way] = hold(node);
    }
    return node;
}

/* --- finality
 * ---------------------------------------------------------------------------------------------------------
 */

static void make_final(dev_chip_t *chip, chip_node_t *node) {
    if (node->is_final) return;
    node->is_final = true;
    chip->settled_drain_ps = max_u64(chip->settled_drain_ps, node->end_ps);
    chip->settled_host_drain_ps = max_u64(chip->settled_host_drain_ps, node->host_end_ps);
    if (chip_is_engine(node)) {
        chip_keep_cores(chip, &chip->settled, node);
        chip->settled.last_start_ps = max_u64(chip->settled.last_start_ps, node->start_ps);
        chip->settled.last_end_ps = max_u64(chip->settled.last_end_ps, node->end_ps);
        chip->settled.drained_ps = max_u64(chip->settled.drained_ps, node->forced_drain_ps);
    }
}

/* A final node leaves the list; who still points to it reads its times. */
static void pop_first(dev_chip_t *chip) {
    chip_node_t *node = chip->first;
    chip->first = node->next;
    if (chip->first == NULL) chip->last = NULL;
    chip->num_pending--;
    make_final(chip, node);
    chip_stream_t *stream = &chip->stream[node->stream];
    stream->pending--;
    if (stream->tail == node) {
        stream->drained_ps = max_u64(stream->drained_ps, node->end_ps);
        stream->host_end_ps = max_u64(stream->host_end_ps, node->host_end_ps);
        stream->tail = NULL;
        let_go(chip, node);
    }
    for (uint32_t way = 0; way < 2; way++) {
        if (chip->link_last[way] != node) continue;
        chip->link_free_ps[way] = max_u64(chip->link_free_ps[way], node->end_ps);
        chip->link_last[way] = NULL;
        let_go(chip, node);
    }
    chip_client_t *client = &chip->client[node->client - 1];
    if (node->row != CHIP_NO_ROW) chip_profile_set(client, node);
    let_go(chip, node->before[0]);
    let_go(chip, node->before[1]);
    let_go(chip, node->link_before);
    dev_row_set_destroy(node->rows);
    if (node->kind == CHIP_KERNEL)
        dev_program_destroy((dev_program_t *)(uintptr_t)node->launch.program);
    node->rows = NULL;
    let_go(chip, node);
}

static uint64_t mark_ps(const chip_mark_t *mark) {
    uint64_t drained =
        mark->node == NULL ? mark->drained_ps : max_u64(mark->drained_ps, mark->node->end_ps);
    return max_u64(drained, mark->seen_ps);
}

/* Marks of final nodes get their values; those that nobody can still ask or wait for go. */
static void settle_marks(dev_chip_t *chip, chip_client_t *client, uint64_t clock_ps) {
    uint64_t gap = chip->machine.launch_gap_ps;
    for (uint32_t i = client->first_mark; i < client->num_marks; i++) {
        chip_mark_t *mark = &client->mark[i];
        if (mark->node != NULL && !mark->node->is_final) break;
        if (mark->node != NULL) {
            mark->drained_ps = max_u64(mark->drained_ps, mark->node->end_ps);
            let_go(chip, mark->node);
            mark->node = NULL;
        }
        bool is_first = i == client->first_mark;
        if (is_first && !mark->was_open && mark_ps(mark) + gap <= clock_ps) client->first_mark++;
    }
}

/* Nothing that arrives from now on can change what has ended by the client's clock. */
static void retire(dev_chip_t *chip, chip_client_t *client, uint64_t clock_ps) {
    if (chip->is_dirty) return;
    while (chip->first != NULL && chip->first->is_ended && chip->first->epoch_end_ps <= clock_ps)
        pop_first(chip);
    settle_marks(chip, client, clock_ps);
}

static void make_dirty(dev_chip_t *chip, uint64_t clock_ps) {
    chip->is_dirty = chip->was_retimed = true;
    for (chip_node_t *node = chip->first; node != NULL; node = node->next) {
        if (node->is_ended && node->epoch_end_ps <= clock_ps) make_final(chip, node);
    }
    for (uint32_t c = 0; c < DEV_MAX_CLIENTS; c++) {
        chip_client_t *client = &chip->client[c];
        for (uint32_t i = client->first_mark; i < client->num_marks; i++) {
            chip_mark_t *mark = &client->mark[i];
            if (mark_ps(mark) > clock_ps) mark->was_open = true;
        }
    }
}

static void make_clean(dev_chip_t *chip) {
    if (!chip->is_dirty) return;
    chip_work_out(chip);
    chip->is_dirty = false;
    chip->drain_ps = chip->settled_drain_ps;
    chip->host_drain_ps = chip->settled_host_drain_ps;
    for (chip_node_t *node = chip->first; node != NULL; node = node->next) {
        chip->drain_ps = max_u64(chip->drain_ps, node->end_ps);
        chip->host_drain_ps = max_u64(chip->host_drain_ps, node->host_end_ps);
    }
}

void chip_close_times(dev_chip_t *chip) {
    if (chip->timing == NULL) return;
    make_clean(chip);
    while (chip->first != NULL)
        pop_first(chip);
    chip->settled.drained_ps = max_u64(chip->settled.drained_ps, chip->settled.last_end_ps);
    chip->engines = chip->settled;
    for (uint32_t c = 0; c < DEV_MAX_CLIENTS; c++) {
        if (chip->client[c].is_open) settle_marks(chip, &chip->client[c], 0);
    }
}

/* --- arrival
 * ----------------------------------------------------------------------------------------------------------
 */

static void append(dev_chip_t *chip, chip_node_t *node) {
    node->next = NULL;
    if (chip->last == NULL)
        chip->first = node;
    else
        chip->last->next = node;
    chip->last = node;
    chip->num_pending++;
    chip->stream[node->stream].pending++;
}

/* Adds a node; its times are known afterwards unless the chip is dirty. */
static void enter(dev_chip_t *chip, chip_node_t *node, uint64_t clock_ps) {
    append(chip, node);
    if (chip->is_dirty) return;
    if (!chip_is_engine(node)) {
        chip_settle_plain(chip, node);
    } else {
        const chip_engines_t *engines = &chip->engines;
        uint64_t start = chip_start_ps(chip, engines, node);
        bool is_alone =
            chip_ready_ps(chip, node) >= engines->last_start_ps && start >= engines->last_end_ps;
        if (!is_alone) {
            make_dirty(chip, clock_ps);
            return;
        }
        chip_run_alone(chip, node, start);
    }
    chip->drain_ps = max_u64(chip->drain_ps, node->end_ps);
    chip->host_drain_ps = max_u64(chip->host_drain_ps, node->host_end_ps);
}

static void set_tail(dev_chip_t *chip, chip_stream_t *stream, chip_node_t *node) {
    let_go(chip, stream->tail);
    stream->tail = hold(node);
}

/* A node without work behind what the stream waits for now, and `other`. */
static void join(dev_chip_t *chip, uint32_t index, chip_node_t *other, uint64_t other_ps,
                 uint64_t clock_ps) {
    chip_stream_t *stream = &chip->stream[index];
    stream->drained_ps = max_u64(stream->drained_ps, other_ps);
    if (other == NULL) return;
    chip_node_t *node = node_take(chip);
    node->kind = CHIP_JOIN;
    node->client = stream->client;
    node->stream = index;
    follow_stream(node, stream);
    node->before[1] = hold(other);
    enter(chip, node, clock_ps);
    set_tail(chip, stream, node);
}

static void fill_times(dev_chip_t *chip, uint64_t start_ps, uint64_t end_ps,
                       vnpu_completion_t *completion) {
    completion->start_ps = chip->is_dirty ? VNPU_TIME_OPEN : start_ps;
    completion->end_ps = chip->is_dirty ? VNPU_TIME_OPEN : end_ps;
    if (chip->was_retimed) completion->flags |= VNPU_COMPLETION_RETIMED;
}

void chip_arrive(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                 chip_node_t *node, vnpu_launch_kind_t kind, uint64_t bytes,
                 vnpu_completion_t *completion) {
    uint64_t clock_ps = packet->host_clock_ps;
    chip->was_retimed = false;
    if (chip->num_pending >= MAX_PENDING) chip_close_times(chip);
    retire(chip, client, clock_ps);
    bool is_barrier = (packet->flags & VNPU_PACKET_BARRIER) != 0;
    if (is_barrier) follow_stream(node, &chip->stream[node->stream]);
    node->row = chip_profile_add(client, packet, kind, bytes);
    hold(node); /* until its times are in the completion */
    enter(chip, node, clock_ps);
    if (is_barrier)
        set_tail(chip, &chip->stream[node->stream], node);
    else
        join(chip, node->stream, node, 0, clock_ps);
    if (chip->is_dirty && packet->type == VNPU_PACKET_COPY_D2H &&
        (packet->flags & VNPU_PACKET_BLOCKING))
        make_clean(chip);
    fill_times(chip, node->start_ps, node->host_end_ps, completion);
    let_go(chip, node);
    if (chip->options.reuse == DEV_REUSE_OFF && !client->is_profiling && !chip->is_dirty)
        dev_reuse_drop_kept(chip->reuse);
}

/* --- events
 * -----------------------------------------------------------------------------------------------------------
 */

static chip_mark_t *find_mark(chip_client_t *client, uint64_t seq) {
    uint32_t low = client->first_mark, high = client->num_marks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (client->mark[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < client->num_marks && client->mark[low].seq == seq ? &client->mark[low] : NULL;
}

static void add_mark(chip_client_t *client, chip_mark_t mark) {
    if (client->num_marks == client->mark_capacity &&
        client->first_mark > client->mark_capacity / 2) {
        client->num_marks -= client->first_mark;
        memmove(client->mark, client->mark + client->first_mark,
                client->num_marks * sizeof *client->mark);
        client->first_mark = 0;
    }
    if (client->num_marks == client->mark_capacity) {
        uint32_t capacity = client->mark_capacity == 0 ? 64 : client->mark_capacity * 2;
        chip_mark_t *grown = realloc(client->mark, capacity * sizeof *grown);
        if (grown == NULL) sim_bug("chip", mark.seq, "no memory for %u event records", capacity);
        client->mark = grown;
        client->mark_capacity = capacity;
    }
    client->mark[client->num_marks++] = mark;
}

/* A record is the time at which its stream drains; a wait lets the stream wait for that. */
void chip_event(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                vnpu_completion_t *completion) {
    const dev_machine_t *machine = &chip->machine;
    uint64_t seen =
        packet->host_clock_ps + machine->doorbell_ps + machine->fetch_ps + machine->decode_ps;
    completion->start_ps = completion->end_ps = seen;
    if (chip->timing == NULL) return;
    chip->was_retimed = false;
    retire(chip, client, packet->host_clock_ps);
    uint32_t index = stream_index(chip, client->id, packet);
    if (packet->type == VNPU_PACKET_EVENT_WAIT) {
        const chip_mark_t *mark = find_mark(client, packet->u.mem.bytes);
        if (mark != NULL) join(chip, index, mark->node, mark->drained_ps, packet->host_clock_ps);
    }
    chip_stream_t *stream = &chip->stream[index];
    stream->marked_ps = max_u64(stream->marked_ps, seen);
    chip_mark_t now = {.seq = packet->seq,
                       .node = stream->tail,
                       .drained_ps = stream->drained_ps,
                       .seen_ps = seen,
                       .was_open = chip->is_dirty};
    fill_times(chip, mark_ps(&now), mark_ps(&now), completion);
    if (packet->type == VNPU_PACKET_EVENT_WAIT) return;
    hold(now.node);
    add_mark(client, now);
}

/* --- questions
 * --------------------------------------------------------------------------------------------------------
 */

static uint64_t packet_ps(const dev_chip_t *chip, chip_client_t *client, uint64_t seq) {
    const chip_mark_t *mark = find_mark(client, seq);
    if (mark != NULL) return mark_ps(mark);
    for (const chip_node_t *node = chip->first; node != NULL; node = node->next) {
        if (node->client == client->id && node->seq == seq) return node->host_end_ps;
    }
    return 0;
}

static uint64_t stream_ps(const dev_chip_t *chip, const chip_client_t *client, uint32_t id) {
    for (uint32_t i = 0; i < chip->num_streams; i++) {
        const chip_stream_t *stream = &chip->stream[i];
        if (stream->client != client->id || stream->id != id) continue;
        uint64_t end = stream->tail == NULL
                           ? stream->host_end_ps
                           : max_u64(stream->tail->host_end_ps, stream->tail->end_ps);
        return max_u64(end, stream->marked_ps);
    }
    return 0;
}

void chip_time(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
               vnpu_completion_t *completion) {
    if (chip->timing == NULL) return;
    make_clean(chip);
    switch ((vnpu_time_of_t)packet->u.mem.address) {
    case VNPU_TIME_OF_ALL: completion->value[0] = chip->host_drain_ps; return;
    case VNPU_TIME_OF_STREAM:
        completion->value[0] = stream_ps(chip, client, (uint32_t)packet->u.mem.bytes);
        return;
    case VNPU_TIME_OF_PACKET:
        completion->value[0] = packet_ps(chip, client, packet->u.mem.bytes);
        return;
    }
    sim_error_t err = {0};
    sim_error_set(&err, SIM_ERROR_INVALID_VALUE,
                  "packet %llu asks for time %llu: 0 all, 1 stream, 2 packet",
                  (unsigned long long)packet->seq, (unsigned long long)packet->u.mem.address);
    chip_fail(client, completion, SIM_ERROR_INVALID_VALUE, &err);
}

/* --- end
 * --------------------------------------------------------------------------------------------------------------
 */

void chip_forget_client(dev_chip_t *chip, uint32_t id) {
    chip_client_t *client = &chip->client[id - 1];
    for (uint32_t i = client->first_mark; i < client->num_marks; i++)
        let_go(chip, client->mark[i].node);
    free(client->mark);
    client->mark = NULL;
    client->first_mark = client->num_marks = client->mark_capacity = 0;
    for (uint32_t i = 0; i < chip->num_streams; i++) {
        if (chip->stream[i].client == id) chip->stream[i].client = 0;
    }
}

void chip_time_fini(dev_chip_t *chip) {
    while (chip->free_nodes != NULL) {
        chip_node_t *node = chip->free_nodes;
        chip->free_nodes = node->next;
        free(node);
    }
    free(chip->stream);
    chip_walk_destroy(chip->walk);
}
