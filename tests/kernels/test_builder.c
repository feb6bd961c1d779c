#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern_builder.h"
#include "tests/kernels/kern_test.h"

static vnpu_machine_t machine_with(uint32_t dma_queues) {
    return (vnpu_machine_t){.dma_queues = dma_queues, .sram_bytes = 4096, .acc_bytes = 1024};
}

static uint16_t row_ap(kern_builder_t *b, vnpu_space_t space, uint8_t arg, int64_t base) {
    vnpu_ap_t ap = kern_ap_make(space, VNPU_F32, base);
    kern_ap_dim(&ap, 16, 1);
    ap.arg = arg;
    return kern_ap(b, &ap);
}

/* A copy of 16 floats through SRAM in 3 trips, with an inner loop that stays empty. */
static void *make_copy(const vnpu_machine_t *machine, size_t *out_bytes) {
    kern_builder_t b;
    kern_builder_init(&b, machine, "copy16");
    uint8_t out = kern_arg(&b, VNPU_ARG_OUT), in = kern_arg(&b, VNPU_ARG_IN);
    uint32_t tile = kern_sram(&b, 64);
    kern_ring_t ring = kern_ring(&b, KERN_STORE, 1);
    kern_loop(&b, 3);
    vnpu_insn_t *load = kern_emit(&b, KERN_LOAD, VNPU_OP_DMA_COPY);
    load->dst = row_ap(&b, VNPU_SPACE_SRAM, VNPU_NO_ARG, tile);
    load->src[0] = row_ap(&b, VNPU_SPACE_DRAM, in, 0);
    kern_wait(load, ring.free, 1);
    kern_signal(load, ring.full, 1);
    kern_loop(&b, 7);
    kern_end(&b);
    vnpu_insn_t *store = kern_emit(&b, KERN_STORE, VNPU_OP_DMA_COPY);
    store->dst = row_ap(&b, VNPU_SPACE_DRAM, out, 0);
    store->src[0] = row_ap(&b, VNPU_SPACE_SRAM, VNPU_NO_ARG, tile);
    kern_wait(store, ring.full, 1);
    kern_signal(store, ring.free, 1);
    kern_end(&b);
    void *image = kern_builder_image(&b, out_bytes);
    kern_builder_fini(&b);
    return image;
}

Test(builder, image_is_valid) {
    for (uint32_t queues = 1; queues <= 2; queues++) {
        vnpu_machine_t machine = machine_with(queues);
        size_t bytes;
        void *image = make_copy(&machine, &bytes);
        dev_program_t *program;
        sim_error_t err = {0};
        cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
        cr_assert_str_eq(program->header.name, "copy16");
        cr_assert_eq(program->header.num_queues, queues, "roles share the one DMA queue");
        cr_assert_eq(program->header.num_aps, 3, "equal patterns share an entry: %u",
                     program->header.num_aps);
        /* two loops (or one), their ends, a load, a store, the credits; the empty loop is gone */
        cr_assert_eq(program->header.num_insns, queues == 2 ? 7u : 5u, "%u",
                     program->header.num_insns);
        cr_assert_eq(program->header.sram_bytes, 64);
        dev_program_destroy(program);
        ((uint8_t *)image)[bytes - 1] ^= 1;
        cr_assert_neq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK,
                      "the sum must not match");
        free(image);
    }
}

/* Kernels count values; the image counts blocks of 16. */
Test(builder, block_types_become_blocks) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b;
    kern_builder_init(&b, &machine, "blocks");
    uint8_t in = kern_arg(&b, VNPU_ARG_IN);
    vnpu_ap_t far = kern_ap_make(VNPU_SPACE_DRAM, VNPU_BFP8, 0), near;
    far.arg = in;
    kern_ap_dim(&far, 4, 320);
    kern_ap_dim(&far, 32, 1);
    far.loop_inc[0] = 64;
    far.grid_inc[1] = 1280;
    (void)kern_ap_clip(&far, (vnpu_clip_t){80, 1, 0, VNPU_CLIP_USED | VNPU_CLIP_LOOP, 0});
    near = kern_ap_make(VNPU_SPACE_SRAM, VNPU_BFP8, 64);
    kern_ap_dim(&near, 4, 32);
    kern_ap_dim(&near, 32, 1);
    (void)kern_ap_clip(&near, (vnpu_clip_t){80, 1, 0, VNPU_CLIP_USED | VNPU_CLIP_LOOP, 0});
    kern_ap_rotate(&near, 0, 2, kern_buffer_elems(VNPU_BFP8, 128));
    kern_loop(&b, 3);
    vnpu_insn_t *load = kern_emit(&b, KERN_LOAD, VNPU_OP_DMA_COPY);
    (void)kern_sram(&b, 64);
    (void)kern_sram(&b, 2 * kern_buffer_bytes(VNPU_BFP8, 128));
    load->dst = kern_ap(&b, &near);
    load->src[0] = kern_ap(&b, &far);
    kern_end(&b);
    size_t bytes;
    void *image = kern_builder_image(&b, &bytes);
    kern_builder_fini(&b);
    dev_program_t *program;
    sim_error_t err = {0};
    cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
    const vnpu_ap_t *got = program->ap;
    cr_assert(got[0].rot_stride == 64 && got[0].dim[0].stride == 2 && got[0].dim[1].size == 2);
    cr_assert(got[1].dim[0].size == 4 && got[1].dim[0].stride == 20 && got[1].dim[1].size == 2);
    cr_assert(got[1].loop_inc[0] == 4 && got[1].grid_inc[1] == 80 && got[1].clip[0].extent == 5);
    dev_program_destroy(program);
    free(image);
}

Test(builder, buffers_of_blocks_are_aligned) {
    static const vnpu_dtype_t types[] = {VNPU_BFP8, VNPU_BFP4, VNPU_BF16, VNPU_F32};
    for (uint32_t t = 0; t < 4; t++) {
        for (uint64_t values = 1; values < 3000; values += 37) {
            uint64_t bytes = kern_buffer_bytes(types[t], values);
            cr_assert_eq(bytes % 64, 0);
            cr_assert_geq(bytes, vnpu_dtype_span(types[t], values));
            cr_assert_eq(vnpu_dtype_span(types[t], kern_buffer_elems(types[t], values)), bytes);
            if (t > 1) cr_assert_eq(bytes, kern_align(values * vnpu_dtype_bytes(types[t])));
        }
    }
}

Test(builder, a_cut_block, .signal = SIGABRT) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b;
    kern_builder_init(&b, &machine, "cut");
    vnpu_ap_t ap = kern_ap_make(VNPU_SPACE_SRAM, VNPU_BFP4, 0);
    kern_ap_dim(&ap, 24, 1);
    (void)kern_ap(&b, &ap);
    size_t bytes;
    (void)kern_builder_image(&b, &bytes);
}

Test(builder, last_instruction_stays_reachable) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b;
    kern_builder_init(&b, &machine, "many");
    kern_emit(&b, KERN_VECTOR, VNPU_OP_MARK)->imm[0] = 77;
    uint32_t at = kern_last(&b, KERN_VECTOR);
    for (int i = 0; i < 1000; i++)
        (void)kern_emit(&b, KERN_VECTOR, VNPU_OP_NOP);
    cr_assert_eq(kern_insn(&b, KERN_VECTOR, at)->imm[0], 77);
    kern_builder_fini(&b);
}

static vnpu_ap_t shape(uint32_t ndims, const uint32_t *size, const int64_t *stride) {
    vnpu_ap_t ap = kern_ap_make(VNPU_SPACE_SRAM, VNPU_F32, 0);
    for (uint32_t d = 0; d < ndims; d++)
        kern_ap_dim(&ap, size[d], stride[d]);
    return ap;
}

Test(builder, merge) {
    uint32_t size[4] = {2, 3, 4, 5};
    vnpu_ap_t dense = shape(4, size, (int64_t[]){60, 20, 5, 1}),
              row = shape(4, size, (int64_t[]){0, 0, 5, 1});
    vnpu_ap_t *both[2] = {&dense, &row};
    kern_ap_merge(both, 2, 0);
    cr_assert_eq(dense.ndims, 2);
    cr_assert_eq(dense.dim[0].size, 6);
    cr_assert_eq(dense.dim[0].stride, 20);
    cr_assert_eq(dense.dim[1].size, 20);
    cr_assert_eq(row.dim[0].stride, 0);
    cr_assert_eq(dense.dim[2].size, 0, "unused dimensions are zero");
    /* a clip on the outer dimension scales; one on an inner dimension hinders */
    vnpu_ap_t outer = shape(3, size, (int64_t[]){12, 4, 1}), inner = outer, *list = &outer;
    vnpu_clip_t clip = {.extent = 7, .dim = 0, .loop = 0};
    kern_ap_clip(&outer, clip);
    kern_ap_merge(&list, 1, 0);
    cr_assert_eq(outer.ndims, 1);
    cr_assert_eq(outer.clip[0].extent, 84);
    clip.dim = 1;
    kern_ap_clip(&inner, clip);
    list = &inner;
    kern_ap_merge(&list, 1, 0);
    cr_assert_eq(inner.ndims, 2);
    cr_assert_eq(inner.dim[1].size, 12);
    cr_assert_eq(inner.clip[0].extent, 28);
    /* the innermost dimension is kept when asked */
    vnpu_ap_t kept = shape(3, size, (int64_t[]){12, 4, 1});
    list = &kept;
    kern_ap_merge(&list, 1, 1);
    cr_assert_eq(kept.ndims, 2);
    cr_assert_eq(kept.dim[1].size, 4);
}

static kern_builder_t misused(const vnpu_machine_t *machine) {
    kern_builder_t b;
    kern_builder_init(&b, machine, "misuse");
    return b;
}

Test(builder, beyond_sram, .signal = SIGABRT) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b = misused(&machine);
    (void)kern_sram(&b, 4097);
}

Test(builder, too_many_loops, .signal = SIGABRT) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b = misused(&machine);
    for (int i = 0; i < 5; i++)
        kern_queue_loop(&b, KERN_VECTOR, 2);
}

Test(builder, open_loop, .signal = SIGABRT) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b = misused(&machine);
    kern_queue_loop(&b, KERN_VECTOR, 2);
    (void)kern_emit(&b, KERN_VECTOR, VNPU_OP_NOP);
    size_t bytes;
    (void)kern_builder_image(&b, &bytes);
}

Test(builder, too_many_semaphores, .signal = SIGABRT) {
    vnpu_machine_t machine = machine_with(2);
    kern_builder_t b = misused(&machine);
    for (int i = 0; i < 65; i++)
        (void)kern_sem(&b);
}
