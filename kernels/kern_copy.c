#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_nest.h"

#define MIN_TILE_BYTES (128u << 10)
#define MAX_TILE_BYTES (512u << 10)
#define MAX_EDGE       256u /* of a turned tile, along each of its two directions */

enum { OUT = 0, IN = 1 };

typedef struct copy {
    kern_context_t *context;
    vnpu_stream_t stream;
    kern_iter_t iter;
    vnpu_dtype_t dtype[2];
    vnpu_addr_t address[2];
} copy_t;

/* Dimension with the shortest stride of `in` (its contiguous direction). */
static uint32_t contiguous_dim(const kern_iter_t *iter) {
    uint32_t best = iter->ndims - 1;
    for (uint32_t d = 0; d + 1 < iter->ndims; d++) {
        int64_t s = iter->stride[IN][d];
        if (s < iter->stride[IN][best]) best = d;
    }
    return best;
}

static bool try_plan(const copy_t *copy, uint64_t elems, kern_nest_t *nest) {
    const kern_iter_t *iter = &copy->iter;
    uint32_t inner = iter->ndims - 1, turned = contiguous_dim(iter);
    uint8_t order[KERN_NEST_DIMS] = {(uint8_t)inner};
    uint32_t limit[KERN_NEST_DIMS] = {0}, count = 1;
    if (turned != inner) {
        order[count++] = (uint8_t)turned;
        limit[0] = limit[1] = kern_nest_edge(elems, MAX_EDGE);
    }
    for (uint32_t d = inner; d-- > 0;) {
        if (d != turned) order[count++] = (uint8_t)d;
    }
    *nest = (kern_nest_t){.ndims = iter->ndims};
    kern_nest_tile(nest, iter->size, order, limit, elems, 16);
    if (!kern_nest_plan(nest, copy->context->machine.workers, (1u << iter->ndims) - 1u))
        return false;
    uint64_t bytes = kern_nest_tile_elems(nest) * vnpu_dtype_bytes(copy->dtype[OUT]);
    return nest->buffers * kern_align(bytes) <= copy->context->machine.sram_bytes;
}

static uint64_t cost_of(const copy_t *copy, const kern_nest_t *nest) {
    const vnpu_machine_t *machine = &copy->context->machine;
    const kern_iter_t *iter = &copy->iter;
    uint64_t elems = kern_nest_tile_elems(nest);
    uint64_t in = elems * vnpu_dtype_bytes(copy->dtype[IN]);
    uint64_t out = elems * vnpu_dtype_bytes(copy->dtype[OUT]);
    uint64_t run_in =
        (uint64_t)nest->axis[contiguous_dim(iter)].tile * vnpu_dtype_bytes(copy->dtype[IN]);
    uint64_t run_out =
        (uint64_t)nest->axis[iter->ndims - 1].tile * vnpu_dtype_bytes(copy->dtype[OUT]);
    kern_stream_cost_t cost = {.tiles = nest->trips,
                               .instances = (uint64_t)nest->grid[0] * nest->grid[1],
                               .load_cycles = kern_cost_dma(machine, in, run_in),
                               .store_cycles = kern_cost_dma(machine, out, run_out),
                               .dram_bytes = in + out};
    return kern_cost_stream(machine, &cost);
}

static bool choose(const copy_t *copy, kern_nest_t *nest) {
    uint32_t bytes = vnpu_dtype_bytes(copy->dtype[OUT]);
    if (vnpu_dtype_bytes(copy->dtype[IN]) > bytes) bytes = vnpu_dtype_bytes(copy->dtype[IN]);
    uint64_t total = 1, best = UINT64_MAX, least = 16;
    for (uint32_t d = 0; d < copy->iter.ndims; d++)
        total *= (uint64_t)copy->iter.size[d];
    bool is_turned = contiguous_dim(&copy->iter) != copy->iter.ndims - 1;
    uint64_t wanted = is_turned ? (uint64_t)MAX_EDGE * MAX_EDGE : MIN_TILE_BYTES / bytes;
    if (total / copy->context->machine.workers >= 4 * wanted) least = wanted;
    bool is_found = false;
    for (uint64_t elems = MAX_TILE_BYTES / bytes; elems >= 1; elems /= 2) {
        if (is_found && elems < least) break;
        kern_nest_t candidate;
        if (!try_plan(copy, elems, &candidate)) continue;
        uint64_t cost = cost_of(copy, &candidate);
        if (is_found && cost >= best) continue;
        *nest = candidate;
        best = cost;
        is_found = true;
    }
    return is_found;
}

/* One side of the copy: dimensions by descending stride in DRAM; the tile is dense in out's order.
 */
static vnpu_insn_t *emit_move(const copy_t *copy, const kern_nest_t *nest, kern_builder_t *builder,
                              uint32_t side, uint8_t arg, uint32_t sram_at) {
    const int64_t *stride = copy->iter.stride[side];
    uint32_t order[KERN_NEST_DIMS], count = 0;
    int64_t dense[KERN_NEST_DIMS], elems = 1;
    for (uint32_t d = nest->ndims; d-- > 0;) {
        dense[d] = elems;
        elems *= nest->axis[d].tile;
    }
    for (uint32_t d = 0; d < nest->ndims; d++) {
        uint32_t at = count++;
        for (; at > 0 && stride[order[at - 1]] < stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    kern_term_t far[KERN_NEST_DIMS], near[KERN_NEST_DIMS];
    for (uint32_t i = 0; i < count; i++) {
        far[i] = (kern_term_t){&nest->axis[order[i]], stride[order[i]], false};
        near[i] = (kern_term_t){&nest->axis[order[i]], dense[order[i]], false};
    }
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, copy->dtype[side], 0, far, count, true);
    vnpu_ap_t sram = kern_ap_terms(VNPU_SPACE_SRAM, copy->dtype[OUT], sram_at, near, count, false);
    dram.arg = arg;
    uint32_t bytes = vnpu_dtype_bytes(copy->dtype[OUT]);
    kern_ap_rotate(&sram, nest->inner, nest->buffers, kern_align((uint64_t)elems * bytes) / bytes);
    kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    bool is_turned = sram.ndims > 1 && sram.dim[sram.ndims - 1].stride != 1;
    vnpu_insn_t *insn = kern_emit(builder, side == IN ? KERN_LOAD : KERN_STORE,
                                  is_turned ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
    insn->dst = kern_ap(builder, side == IN ? &sram : &dram);
    insn->src[0] = kern_ap(builder, side == IN ? &dram : &sram);
    return insn;
}

static void generate(const copy_t *copy, const kern_nest_t *nest, kern_builder_t *builder) {
    uint8_t arg_out = kern_arg(builder, VNPU_ARG_OUT), arg_in = kern_arg(builder, VNPU_ARG_IN);
    uint64_t bytes = kern_nest_tile_elems(nest) * vnpu_dtype_bytes(copy->dtype[OUT]);
    uint32_t sram = kern_sram(builder, nest->buffers * kern_align(bytes));
    kern_ring_t ring = kern_ring(builder, KERN_STORE, nest->buffers);
    kern_nest_open(nest, builder);
    vnpu_insn_t *load = emit_move(copy, nest, builder, IN, arg_in, sram);
    kern_wait(load, ring.free, 1);
    kern_signal(load, ring.full, 1);
    vnpu_insn_t *store = emit_move(copy, nest, builder, OUT, arg_out, sram);
    kern_wait(store, ring.full, 1);
    kern_signal(store, ring.free, 1);
    kern_nest_close(nest, builder);
}

static vnpu_status_t launch_part(const copy_t *copy) {
    kern_key_t key;
    kern_key_init(&key, "copy");
    kern_key_add_u64(&key, (uint64_t)copy->dtype[OUT] | (uint64_t)copy->dtype[IN] << 8);
    for (uint32_t d = 0; d < copy->iter.ndims; d++) {
        kern_key_add_u64(&key, (uint64_t)copy->iter.size[d]);
        kern_key_add_u64(&key, (uint64_t)copy->iter.stride[OUT][d]);
        kern_key_add_u64(&key, (uint64_t)copy->iter.stride[IN][d]);
    }
    const kern_entry_t *entry = kern_cache_find(&copy->context->cache, &key);
    if (!entry) {
        kern_nest_t nest;
        if (!choose(copy, &nest))
            return kern_fail(copy->context, VNPU_ERROR_UNSUPPORTED, "copy: no tile fits the SRAM");
        kern_builder_t builder;
        kern_builder_init(&builder, &copy->context->machine, "copy");
        generate(copy, &nest, &builder);
        vnpu_status_t status = kern_add_program(copy->context, &key, &builder, nest.grid, &entry);
        kern_builder_fini(&builder);
        if (status != VNPU_OK) return status;
    }
    return kern_launch(copy->context, copy->stream, entry, copy->address, 2);
}

static vnpu_status_t run(const copy_t *whole) {
    int64_t part;
    int32_t cut = kern_iter_cut(&whole->iter, KERN_NEST_DIMS - 1, &part);
    if (cut < 0) return launch_part(whole);
    for (int64_t at = 0; at < whole->iter.size[cut]; at += part) {
        copy_t copy = *whole;
        int64_t left = whole->iter.size[cut] - at;
        copy.iter.size[cut] = left < part ? left : part;
        for (uint32_t side = OUT; side <= IN; side++) {
            copy.address[side] += (uint64_t)(at * whole->iter.stride[side][cut]) *
                                  vnpu_dtype_bytes(whole->dtype[side]);
        }
        kern_iter_collapse(&copy.iter, false);
        vnpu_status_t status = run(&copy);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

/* What the DMA cannot do well: truth values (anything but 0 is true) and broadcasts (each element
 * is read once). */
static bool needs_vector(const kern_tensor_t *out, const kern_tensor_t *in) {
    if (out->dtype == VNPU_BOOL && in->dtype != VNPU_BOOL) return true;
    for (uint32_t d = 0; d < in->ndims; d++) {
        if (in->size[d] > 1 && in->stride[d] == 0) return true;
    }
    return false;
}

static vnpu_status_t copy_by_vector(kern_context_t *context, vnpu_stream_t stream,
                                    const kern_tensor_t *out, const kern_tensor_t *in) {
    kern_pointwise_t call = {.name = "copy",
                             .out = *out,
                             .num_inputs = 1,
                             .input = {*in},
                             .is_integer = !kern_dtype_is_float(in->dtype) &&
                                           !kern_dtype_is_float(out->dtype),
                             .num_nodes = 1,
                             .node = {{KERN_NODE_UNARY,
                                       out->dtype == VNPU_BOOL ? VNPU_U_NE0 : VNPU_U_COPY,
                                       {KERN_INPUT(0), 0, 0}}}};
    return kern_pointwise(context, stream, &call);
}

static vnpu_status_t run_copy(kern_context_t *context, vnpu_stream_t stream,
                              const kern_tensor_t *out, const kern_tensor_t *in) {
    vnpu_status_t status = kern_check_output(context, "copy", out);
    if (status == VNPU_OK) status = kern_check_tensor(context, "copy", "in", in);
    if (status != VNPU_OK) return status;
    if (!kern_same_sizes(out, in)) {
        char a[160], b[160];
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "copy: in is %s, out is %s: sizes must agree",
                         kern_describe(in, a, sizeof a), kern_describe(out, b, sizeof b));
    }
    if (kern_numel(out) == 0) return VNPU_OK;
    if (needs_vector(out, in)) return copy_by_vector(context, stream, out, in);
    copy_t copy = {.context = context,
                   .stream = stream,
                   .iter = {.ndims = out->ndims, .num_operands = 2},
                   .dtype = {out->dtype, in->dtype},
                   .address = {out->address, in->address}};
    for (uint32_t d = 0; d < out->ndims; d++) {
        copy.iter.size[d] = out->size[d];
        copy.iter.stride[OUT][d] = out->stride[d];
        copy.iter.stride[IN][d] = in->stride[d];
    }
    kern_iter_collapse(&copy.iter, true);
    return run(&copy);
}

vnpu_status_t kern_copy(kern_context_t *context, vnpu_stream_t stream, const kern_tensor_t *out,
                        const kern_tensor_t *in) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = run_copy(context, stream, out, in);
    kern_class_leave(context, before);
    return status;
}

/* ---- fill ---- */

/* The element's bytes; false: this type needs the vector unit to convert. */
static bool fill_pattern(vnpu_dtype_t dtype, double value_f, int64_t value_i,
                         uint64_t *out_pattern) {
    uint64_t bits = kern_arg_f32(value_f);
    switch (dtype) {
    case VNPU_F32: *out_pattern = bits; return true;
    case VNPU_BF16:
        if (value_f != value_f) {
            *out_pattern = 0x7fc0;
        } else {
            *out_pattern = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* round to nearest even */
        }
        return true;
    case VNPU_BOOL: *out_pattern = value_i != 0; return true;
    case VNPU_I8:
    case VNPU_U8:
    case VNPU_I16:
    case VNPU_I32:
    case VNPU_I64: *out_pattern = (uint64_t)value_i; return true;
    case VNPU_F16:
    case VNPU_F8E4M3:
    case VNPU_F8E5M2:
    case VNPU_BFP8:
    case VNPU_BFP4:
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: break;
    }
    return false;
}

vnpu_status_t kern_fill(kern_context_t *context, vnpu_stream_t stream, const kern_tensor_t *out,
                        double value_f, int64_t value_i) {
    vnpu_status_t status = kern_check_output(context, "fill", out);
    if (status != VNPU_OK || kern_numel(out) == 0) return status;
    kern_iter_t iter = {.ndims = out->ndims, .num_operands = 1};
    memcpy(iter.size, out->size, sizeof iter.size);
    memcpy(iter.stride[0], out->stride, sizeof iter.stride[0]);
    kern_iter_collapse(&iter, true);
    uint64_t pattern;
    bool is_dense = iter.ndims == 1 && (iter.stride[0][0] == 1 || iter.size[0] == 1);
    if (is_dense && fill_pattern(out->dtype, value_f, value_i, &pattern)) {
        status = vnpu_memset(out->address, pattern, vnpu_dtype_bytes(out->dtype),
                             (size_t)kern_numel(out), stream);
        return status == VNPU_OK ? status : kern_fail_driver(context, status, "fill");
    }
    kern_pointwise_t call = {.name = "fill",
                             .out = *out,
                             .is_integer = !kern_dtype_is_float(out->dtype),
                             .num_scalars = 1,
                             .scalar_f = {value_f},
                             .scalar_i = {value_i},
                             .num_nodes = 1,
                             .node = {{KERN_NODE_UNARY, VNPU_U_COPY, {KERN_SCALAR(0), 0, 0}}}};
    return kern_pointwise(context, stream, &call);
}
