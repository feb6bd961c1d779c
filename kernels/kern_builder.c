#include "kernels/kern_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRAM_ALIGN 64u

_Noreturn static void misuse(const kern_builder_t *builder, const char *what, uint64_t value) {
    fprintf(stderr, "vnpu kernels: bug: program %s: %s (%llu)\n", builder->name, what,
            (unsigned long long)value);
    abort();
}

/* ---- life ---- */

void kern_builder_init(kern_builder_t *builder, const vnpu_machine_t *machine, const char *name) {
    *builder = (kern_builder_t){.machine = machine};
    snprintf(builder->name, sizeof builder->name, "%s", name);
}

void kern_builder_fini(kern_builder_t *builder) {
    for (uint32_t q = 0; q < KERN_QUEUE_COUNT; q++)
        free(builder->stream[q].insn);
    free(builder->ap);
    *builder = (kern_builder_t){0};
}

/* Room for one more element; false when out of memory (noted for kern_builder_image). */
static bool grow(kern_builder_t *builder, void **array, uint32_t count, uint32_t *capacity,
                 size_t bytes) {
    if (count < *capacity) return true;
    uint32_t wanted = *capacity ? 2 * *capacity : 32;
    void *larger = realloc(*array, wanted * bytes);
    if (!larger) {
        builder->is_out_of_memory = true;
        return false;
    }
    *array = larger;
    *capacity = wanted;
    return true;
}

/* ---- resources ---- */

uint8_t kern_arg(kern_builder_t *builder, vnpu_arg_kind_t kind) {
    if (builder->num_args == VNPU_MAX_ARGS) misuse(builder, "too many arguments", VNPU_MAX_ARGS);
    builder->arg_kind[builder->num_args] = (uint8_t)kind;
    return (uint8_t)builder->num_args++;
}

uint16_t kern_sem(kern_builder_t *builder) {
    if (builder->num_sems == VNPU_MAX_SEMS) misuse(builder, "too many semaphores", VNPU_MAX_SEMS);
    return (uint16_t)builder->num_sems++;
}

uint64_t kern_align(uint64_t bytes) {
    return (bytes + SRAM_ALIGN - 1) / SRAM_ALIGN * SRAM_ALIGN;
}

uint64_t kern_buffer_bytes(vnpu_dtype_t dtype, uint64_t elems) {
    uint64_t element = vnpu_dtype_bytes(dtype), bytes = vnpu_dtype_span(dtype, elems);
    uint64_t unit = element % 2 == 0 ? SRAM_ALIGN : SRAM_ALIGN * element; /* whole elements */
    return (bytes + unit - 1) / unit * unit;
}

uint64_t kern_buffer_elems(vnpu_dtype_t dtype, uint64_t elems) {
    return kern_buffer_bytes(dtype, elems) / vnpu_dtype_bytes(dtype) * vnpu_dtype_block(dtype);
}

static void check_sram(kern_builder_t *builder) {
    uint64_t bytes = builder->sram_bytes + builder->sram_far_bytes;
    if (bytes > builder->machine->sram_bytes) misuse(builder, "SRAM beyond the machine", bytes);
}

uint32_t kern_sram(kern_builder_t *builder, uint64_t bytes) {
    uint64_t at = builder->sram_bytes;
    builder->sram_bytes += kern_align(bytes);
    check_sram(builder);
    return (uint32_t)at;
}

uint32_t kern_sram_far(kern_builder_t *builder, uint64_t bytes) {
    if (builder->machine->sram_interleave_bytes == 0) return kern_sram(builder, bytes);
    builder->sram_far_bytes += kern_align(bytes);
    check_sram(builder);
    uint64_t end = builder->machine->sram_bytes / kern_align(1) * kern_align(1);
    return (uint32_t)(end - builder->sram_far_bytes);
}

uint32_t kern_acc(kern_builder_t *builder, uint64_t bytes) {
    uint64_t at = builder->acc_bytes;
    builder->acc_bytes += kern_align(bytes);
    if (builder->acc_bytes > builder->machine->acc_bytes)
        misuse(builder, "accumulator beyond the machine", builder->acc_bytes);
    return (uint32_t)at;
}

/* ---- patterns ---- */

vnpu_ap_t kern_ap_make(vnpu_space_t space, vnpu_dtype_t dtype, int64_t base) {
    return (vnpu_ap_t){.space = (uint8_t)space,
                       .dtype = (uint8_t)dtype,
                       .arg = VNPU_NO_ARG,
                       .base = base,
                       .rot_loop = VNPU_NO_LOOP,
                       .rot_count = 1};
}

void kern_ap_dim(vnpu_ap_t *ap, uint32_t size, int64_t stride) {
    if (ap->ndims == VNPU_MAX_DIMS || stride != (int32_t)stride || size == 0) abort();
    ap->dim[ap->ndims++] = (vnpu_dim_t){size, (int32_t)stride};
}

uint32_t kern_ap_clip(vnpu_ap_t *ap, vnpu_clip_t clip) {
    uint32_t c = 0;
    while (c < 4 && (ap->clip[c].axis_mode & VNPU_CLIP_USED))
        c++;
    if (c == 4) abort();
    clip.axis_mode |= VNPU_CLIP_USED;
    ap->clip[c] = clip;
    return c;
}

void kern_ap_rotate(vnpu_ap_t *ap, uint8_t level, uint32_t count, uint64_t elems) {
    if (level == VNPU_NO_LOOP || count <= 1) return;
    if (count > UINT8_MAX || elems > UINT32_MAX) abort();
    ap->rot_loop = level;
    ap->rot_count = (uint8_t)count;
    ap->rot_stride = (uint32_t)elems;
}

void kern_ap_rotate_nest(vnpu_ap_t *ap, uint8_t outer) {
    if (ap->rot_loop != VNPU_NO_LOOP && ap->rot_loop > outer)
        ap->rot_outer = (uint8_t)(ap->rot_loop - outer);
}

uint16_t kern_ap(kern_builder_t *builder, const vnpu_ap_t *ap) {
    if (ap->ndims == 0) misuse(builder, "a pattern without dimensions", 0);
    for (uint32_t i = 0; i < builder->num_aps; i++) {
        if (memcmp(&builder->ap[i], ap, sizeof *ap) == 0) return (uint16_t)i;
    }
    if (builder->num_aps == VNPU_NO_AP) misuse(builder, "too many patterns", VNPU_NO_AP);
    if (!grow(builder, (void **)&builder->ap, builder->num_aps, &builder->ap_capacity, sizeof *ap))
        return 0;
    builder->ap[builder->num_aps] = *ap;
    return (uint16_t)builder->num_aps++;
}

vnpu_ap_t kern_ap_of(const kern_builder_t *builder, uint16_t index) {
    if (index < builder->num_aps) return builder->ap[index];
    vnpu_ap_t none = kern_ap_make(VNPU_SPACE_SRAM, VNPU_F32, 0); /* out of memory */
    kern_ap_dim(&none, 1, 1);
    return none;
}

static bool has_clip(const vnpu_ap_t *ap, uint32_t dim) {
    for (uint32_t c = 0; c < 4; c++) {
        if ((ap->clip[c].axis_mode & VNPU_CLIP_USED) && ap->clip[c].dim == dim) return true;
    }
    return false;
}

/* Dimension d + 1 continues dimension d in this pattern. */
static bool can_merge(const vnpu_ap_t *ap, uint32_t d) {
    uint64_t size = (uint64_t)ap->dim[d].size * ap->dim[d + 1].size;
    if (has_clip(ap, d + 1) || size > UINT32_MAX) return false;
    for (uint32_t c = 0; c < 4; c++) {
        if ((ap->clip[c].axis_mode & VNPU_CLIP_WINDOW) && ap->clip[c].dim == d) return false;
        if ((ap->clip[c].axis_mode & VNPU_CLIP_USED) && ap->clip[c].dim == d &&
            (uint64_t)ap->clip[c].extent * ap->dim[d + 1].size > UINT32_MAX) {
            return false;
        }
    }
    return (int64_t)ap->dim[d].stride == (int64_t)ap->dim[d + 1].stride * ap->dim[d + 1].size ||
           (ap->dim[d].size == 1 && !has_clip(ap, d)) || ap->dim[d + 1].size == 1;
}

static void merge(vnpu_ap_t *ap, uint32_t d) {
    uint32_t inner = ap->dim[d + 1].size;
    int32_t stride = inner == 1 ? ap->dim[d].stride : ap->dim[d + 1].stride;
    ap->dim[d] = (vnpu_dim_t){ap->dim[d].size * inner, stride};
    for (uint32_t e = d + 1; e + 1 < ap->ndims; e++)
        ap->dim[e] = ap->dim[e + 1];
    ap->dim[--ap->ndims] = (vnpu_dim_t){0, 0};
    for (uint32_t c = 0; c < 4; c++) {
        if (!(ap->clip[c].axis_mode & VNPU_CLIP_USED)) continue;
        if (ap->clip[c].dim == d) ap->clip[c].extent *= inner;
        if (ap->clip[c].dim > d) ap->clip[c].dim--;
    }
}

void kern_ap_merge(vnpu_ap_t **ap, uint32_t count, uint32_t keep) {
    for (uint32_t d = ap[0]->ndims; d-- > 1;) {
        if (d + keep >= ap[0]->ndims) continue;
        bool is_possible = true;
        for (uint32_t i = 0; i < count; i++)
            is_possible = is_possible && can_merge(ap[i], d - 1);
        for (uint32_t i = 0; i < count && is_possible; i++)
            merge(ap[i], d - 1);
    }
}

/* ---- streams ---- */

kern_queue_t kern_physical(const kern_builder_t *builder, kern_queue_t queue) {
    return queue == KERN_STORE && builder->machine->dma_queues < 2 ? KERN_LOAD : queue;
}

static vnpu_insn_t spare; /* written when out of memory; the image is refused then */

vnpu_insn_t *kern_emit(kern_builder_t *builder, kern_queue_t queue, vnpu_op_t op) {
    kern_stream_t *stream = &builder->stream[kern_physical(builder, queue)];
    bool has_room = grow(builder, (void **)&stream->insn, stream->count, &stream->capacity,
                         sizeof *stream->insn);
    vnpu_insn_t *insn = has_room ? &stream->insn[stream->count++] : &spare;
    *insn = (vnpu_insn_t){.op = (uint8_t)op,
                          .wait = {{VNPU_NO_SEM, 0}, {VNPU_NO_SEM, 0}},
                          .signal = {{VNPU_NO_SEM, 0}, {VNPU_NO_SEM, 0}},
                          .dst = VNPU_NO_AP,
                          .src = {VNPU_NO_AP, VNPU_NO_AP, VNPU_NO_AP, VNPU_NO_AP}};
    return insn;
}

uint32_t kern_last(const kern_builder_t *builder, kern_queue_t queue) {
    const kern_stream_t *stream = &builder->stream[kern_physical(builder, queue)];
    return stream->count > 0 ? stream->count - 1 : 0;
}

vnpu_insn_t *kern_insn(kern_builder_t *builder, kern_queue_t queue, uint32_t number) {
    kern_stream_t *stream = &builder->stream[kern_physical(builder, queue)];
    if (builder->is_out_of_memory) {
        for (int i = 0; i < 2; i++)
            spare.wait[i].sem = spare.signal[i].sem = VNPU_NO_SEM;
        return &spare;
    }
    return &stream->insn[number];
}

void kern_queue_loop(kern_builder_t *builder, kern_queue_t queue, uint32_t trips) {
    kern_stream_t *stream = &builder->stream[kern_physical(builder, queue)];
    if (trips == 0 || stream->depth == VNPU_MAX_LOOPS) misuse(builder, "bad loop", trips);
    stream->depth++;
    kern_emit(builder, queue, VNPU_OP_LOOP)->imm[0] = trips;
}

void kern_queue_end(kern_builder_t *builder, kern_queue_t queue) {
    kern_stream_t *stream = &builder->stream[kern_physical(builder, queue)];
    if (stream->depth == 0) misuse(builder, "no loop is open", queue);
    stream->depth--;
    if (stream->count > 0 && stream->insn[stream->count - 1].op == VNPU_OP_LOOP) {
        stream->count--; /* nothing inside */
        return;
    }
    (void)kern_emit(builder, queue, VNPU_OP_ENDLOOP);
}

void kern_loop(kern_builder_t *builder, uint32_t trips) {
    for (uint32_t q = 0; q < KERN_QUEUE_COUNT; q++) {
        if (kern_physical(builder, (kern_queue_t)q) == q)
            kern_queue_loop(builder, (kern_queue_t)q, trips);
    }
}

void kern_end(kern_builder_t *builder) {
    for (uint32_t q = 0; q < KERN_QUEUE_COUNT; q++) {
        if (kern_physical(builder, (kern_queue_t)q) == q) kern_queue_end(builder, (kern_queue_t)q);
    }
}

void kern_wait(vnpu_insn_t *insn, uint16_t sem, uint32_t value) {
    if (sem == VNPU_NO_SEM) return;
    int slot = insn->wait[0].sem == VNPU_NO_SEM ? 0 : 1;
    if (insn->wait[slot].sem != VNPU_NO_SEM || value == 0 || value > UINT16_MAX) abort();
    insn->wait[slot] = (vnpu_sem_wait_t){sem, (uint16_t)value};
}

void kern_signal(vnpu_insn_t *insn, uint16_t sem, int32_t delta) {
    if (sem == VNPU_NO_SEM) return;
    int slot = insn->signal[0].sem == VNPU_NO_SEM ? 0 : 1;
    if (insn->signal[slot].sem != VNPU_NO_SEM || delta == 0 || delta != (int16_t)delta) abort();
    insn->signal[slot] = (vnpu_sem_signal_t){sem, (int16_t)delta};
}

vnpu_insn_t *kern_sync_wait(kern_builder_t *builder, kern_queue_t queue, uint16_t sem,
                            uint32_t value) {
    vnpu_insn_t *insn = kern_emit(builder, queue, VNPU_OP_SYNC);
    kern_wait(insn, sem, value);
    return insn;
}

void kern_sync_signal(kern_builder_t *builder, kern_queue_t queue, uint16_t sem, int32_t delta) {
    kern_signal(kern_emit(builder, queue, VNPU_OP_SYNC), sem, delta);
}

kern_ring_t kern_ring(kern_builder_t *builder, kern_queue_t consumer, uint32_t buffers) {
    kern_ring_t ring;
    ring.full = kern_sem(builder);
    ring.free = kern_sem(builder);
    kern_sync_signal(builder, consumer, ring.free, (int32_t)buffers);
    return ring;
}

/* ---- image ---- */

static uint32_t crc32_of(const uint8_t *bytes, size_t count) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static vnpu_queue_section_t section_of(uint32_t queue, uint32_t first, uint32_t count) {
    static const uint8_t kind[KERN_QUEUE_COUNT] = {VNPU_QUEUE_DMA, VNPU_QUEUE_DMA,
                                                   VNPU_QUEUE_MATRIX, VNPU_QUEUE_VECTOR};
    return (vnpu_queue_section_t){
        .kind = kind[queue], .index = queue == KERN_STORE, .first = first, .count = count};
}

static uint32_t sram_bytes(const kern_builder_t *builder) {
    bool has_far = builder->sram_far_bytes > 0;
    return (uint32_t)(has_far ? builder->machine->sram_bytes : builder->sram_bytes);
}

static void fill_header(const kern_builder_t *builder, vnpu_program_header_t *header,
                        size_t bytes) {
    *header = (vnpu_program_header_t){.magic = VNPU_ISA_MAGIC,
                                      .version = VNPU_ISA_VERSION,
                                      .bytes = (uint32_t)bytes,
                                      .num_args = (uint16_t)builder->num_args,
                                      .num_sems = (uint16_t)builder->num_sems,
                                      .num_aps = builder->num_aps,
                                      .sram_bytes = sram_bytes(builder),
                                      .acc_bytes = (uint32_t)builder->acc_bytes};
    memcpy(header->arg_kind, builder->arg_kind, sizeof header->arg_kind);
    memcpy(header->name, builder->name, strlen(builder->name));
    for (uint32_t q = 0; q < KERN_QUEUE_COUNT; q++) {
        header->num_insns += builder->stream[q].count;
        header->num_queues = (uint16_t)(header->num_queues + (builder->stream[q].count > 0));
    }
}

static int32_t in_blocks(kern_builder_t *builder, int64_t values, int64_t block) {
    if (values % block != 0) misuse(builder, "a pattern cuts a block", (uint64_t)values);
    return (int32_t)(values / block);
}

/* From values, as kernels count, to elements, which are blocks for block types. */
static vnpu_ap_t in_elements(kern_builder_t *builder, const vnpu_ap_t *values) {
    int64_t block = vnpu_dtype_block((vnpu_dtype_t)values->dtype);
    vnpu_ap_t ap = *values;
    if (block == 1) return ap;
    uint32_t last = ap.ndims - 1u;
    if (ap.dim[last].stride != 1) misuse(builder, "blocks apart", last);
    for (uint32_t d = 0; d < last; d++)
        ap.dim[d].stride = in_blocks(builder, ap.dim[d].stride, block);
    ap.dim[last].size = (uint32_t)in_blocks(builder, ap.dim[last].size, block);
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++)
        ap.loop_inc[l] = in_blocks(builder, ap.loop_inc[l], block);
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++)
        ap.grid_inc[a] = in_blocks(builder, ap.grid_inc[a], block);
    ap.rot_stride = (uint32_t)in_blocks(builder, ap.rot_stride, block);
    for (uint32_t c = 0; c < 4; c++) {
        if ((ap.clip[c].axis_mode & VNPU_CLIP_USED) && ap.clip[c].dim == last)
            ap.clip[c].extent = (uint32_t)in_blocks(builder, ap.clip[c].extent, block);
    }
    return ap;
}

void *kern_builder_image(kern_builder_t *builder, size_t *out_bytes) {
    *out_bytes = 0;
    if (builder->is_out_of_memory) return NULL;
    size_t bytes = sizeof(vnpu_program_header_t) + builder->num_aps * sizeof(vnpu_ap_t);
    for (uint32_t q = 0; q < KERN_QUEUE_COUNT; q++) {
        const kern_stream_t *stream = &builder->stream[q];
        if (stream->depth != 0) misuse(builder, "a loop is open", q);
        if (stream->count > 0)
            bytes += sizeof(vnpu_queue_section_t) + stream->count * sizeof(vnpu_insn_t);
    }
    uint8_t *image = calloc(1, bytes);
    if (!image) return NULL;
    vnpu_program_header_t header;
    fill_header(builder, &header, bytes);
    uint8_t *section_at = image + sizeof header;
    uint8_t *insn_at = section_at + header.num_queues * sizeof(vnpu_queue_section_t);
    uint32_t first = 0;
    for (uint32_t q = 0; q < KERN_QUEUE_COUNT; q++) {
        const kern_stream_t *stream = &builder->stream[q];
        if (stream->count == 0) continue;
        vnpu_queue_section_t section = section_of(q, first, stream->count);
        memcpy(section_at, &section, sizeof section);
        memcpy(insn_at, stream->insn, stream->count * sizeof(vnpu_insn_t));
        section_at += sizeof section;
        insn_at += stream->count * sizeof(vnpu_insn_t);
        first += stream->count;
    }
    for (uint32_t i = 0; i < builder->num_aps; i++) {
        vnpu_ap_t ap = in_elements(builder, &builder->ap[i]);
        memcpy(insn_at + i * sizeof ap, &ap, sizeof ap);
    }
    memcpy(image, &header, sizeof header);
    header.crc32 = crc32_of(image, bytes);
    memcpy(image, &header, sizeof header);
    *out_bytes = bytes;
    return image;
}

uint32_t kern_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
