#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_expr.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_nest.h"

#define MIN_TILE_BYTES (128u << 10) /* of a long operand: what the host executor and DMA like */
#define MAX_TILE_BYTES (512u << 10)
#define MAX_EDGE       256u /* of a turned tile, along each of its two directions */
#define OP_OUT         0u
#define OP_INPUT(i)    (1u + (i))
#define OP_INDEX       (1u + KERN_MAX_INPUTS)

/* One launch's worth of a call: a collapsed space with an address per operand. */
typedef struct pointwise {
    kern_context_t *context;
    vnpu_stream_t stream;
    const kern_pointwise_t *call;
    kern_expr_t expr;
    kern_iter_t iter; /* operands: out, inputs, linear index */
    vnpu_addr_t address[1 + KERN_MAX_INPUTS];
    int64_t index_base;
} pointwise_t;

typedef struct plan {
    kern_nest_t nest;
    int64_t sram_stride[KERN_ITER_OPERANDS][KERN_NEST_DIMS]; /* out and inputs */
    uint64_t sram_elems[KERN_ITER_OPERANDS];
    bool is_fixed[KERN_MAX_INPUTS]; /* the tile never changes: loaded once */
} plan_t;

/* ---- tiling ---- */

static vnpu_dtype_t dtype_of(const pointwise_t *p, uint32_t operand) {
    return operand == OP_OUT ? p->call->out.dtype : p->call->input[operand - 1].dtype;
}

static bool is_loaded(const pointwise_t *p, uint32_t operand) {
    return operand == OP_OUT || (operand <= p->call->num_inputs && p->expr.uses_input[operand - 1]);
}

/* The dimension along which an operand is contiguous, when it is not the innermost one that it has;
 * else ndims. */
static uint32_t turned_dim(const kern_iter_t *iter, uint32_t operand) {
    uint32_t best = iter->ndims, inner = iter->ndims - 1;
    int64_t stride = iter->stride[operand][inner];
    if (stride == 0) return best;
    for (uint32_t d = 0; d < inner; d++) {
        int64_t s = iter->stride[operand][d];
        if (s == 0 || s >= stride) continue;
        stride = s;
        best = d;
    }
    return best;
}

/* Growth order: the innermost dimension, what some input needs for long runs, then outwards. */
static void growth_order(const pointwise_t *p, uint64_t elems, uint8_t order[KERN_NEST_DIMS],
                         uint32_t limit[KERN_NEST_DIMS]) {
    const kern_iter_t *iter = &p->iter;
    uint32_t turned = iter->ndims, count = 0;
    for (uint32_t i = 0; i < p->call->num_inputs && turned == iter->ndims; i++) {
        if (p->expr.uses_input[i]) turned = turned_dim(iter, OP_INPUT(i));
    }
    memset(limit, 0, KERN_NEST_DIMS * sizeof *limit);
    order[count++] = (uint8_t)(iter->ndims - 1);
    if (turned < iter->ndims) {
        limit[0] = limit[1] = kern_nest_edge(elems, MAX_EDGE);
        order[count++] = (uint8_t)turned;
    }
    for (uint32_t d = iter->ndims - 1; d-- > 0;) {
        if (d != turned) order[count++] = (uint8_t)d;
    }
}

/* Dense tile buffers, broadcast dimensions left out. */
static void lay_out(const pointwise_t *p, plan_t *plan) {
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        uint64_t elems = 1;
        for (uint32_t d = p->iter.ndims; d-- > 0;) {
            bool has_dim = p->iter.stride[o][d] != 0;
            plan->sram_stride[o][d] = has_dim ? (int64_t)elems : 0;
            if (has_dim) elems *= plan->nest.axis[d].tile;
        }
        plan->sram_elems[o] = elems;
    }
}

static uint32_t temp_bytes(const pointwise_t *p) {
    return p->call->is_integer ? 8 : 4;
}

static uint64_t sram_need(const pointwise_t *p, const plan_t *plan) {
    uint64_t need =
        p->expr.num_temps * kern_align(kern_nest_tile_elems(&plan->nest) * temp_bytes(p));
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        if (!is_loaded(p, o)) continue;
        need += 2 * kern_align(plan->sram_elems[o] * vnpu_dtype_bytes(dtype_of(p, o)));
    }
    return need;
}

/* ---- values of fewer dimensions ---- */

/* Dimensions that the instructions walk, and along which their sources vary: a temporary made of
 * broadcast operands is computed once, not once for each element. */
typedef struct dims {
    uint32_t walk[KERN_MAX_NODES + 1], src[KERN_MAX_NODES + 1][3];
} dims_t;

static uint32_t dims_of_ref(const pointwise_t *p, kern_ref_t ref, const uint32_t *temp_dims) {
    uint32_t mask = 0, operand = OP_INDEX;
    switch (ref.kind) {
    case KERN_REF_NONE:
    case KERN_REF_SCALAR: return 0;
    case KERN_REF_TEMP: return temp_dims[ref.index];
    case KERN_REF_OUT: return (1u << p->iter.ndims) - 1u;
    case KERN_REF_INPUT: operand = OP_INPUT(ref.index); break;
    case KERN_REF_INDEX: break;
    }
    for (uint32_t d = 0; d < p->iter.ndims; d++)
        mask |= (uint32_t)(p->iter.stride[operand][d] != 0) << d;
    return mask;
}

/* One pass over the instructions; those in `wide` walk all dimensions. Returns the instruction that
 * must join them: its result is replaced in place by one of other dimensions. -1: none. */
static int32_t find_dims(const pointwise_t *p, uint32_t wide, dims_t *dims) {
    uint32_t temp_dims[KERN_MAX_NODES + 1] = {0}, producer[KERN_MAX_NODES + 1] = {0};
    uint32_t all = (1u << p->iter.ndims) - 1u;
    for (uint32_t i = 0; i < p->expr.num_insns; i++) {
        const kern_expr_insn_t *insn = &p->expr.insn[i];
        bool is_wide = (wide >> i & 1u) || insn->dst.kind == KERN_REF_OUT;
        dims->walk[i] = is_wide ? all : 0;
        for (uint32_t s = 0; s < 3; s++) {
            dims->src[i][s] = dims_of_ref(p, insn->src[s], temp_dims);
            dims->walk[i] |= dims->src[i][s];
        }
        if (insn->dst.kind != KERN_REF_TEMP) continue;
        for (uint32_t s = 0; s < 3; s++) {
            bool is_in_place =
                insn->src[s].kind == KERN_REF_TEMP && insn->src[s].index == insn->dst.index;
            if (is_in_place && dims->src[i][s] != dims->walk[i])
                return (int32_t)producer[insn->dst.index];
        }
        temp_dims[insn->dst.index] = dims->walk[i];
        producer[insn->dst.index] = i;
    }
    return -1;
}

static dims_t dims_of(const pointwise_t *p) {
    dims_t dims = {0};
    uint32_t wide = 0;
    for (int32_t next; (next = find_dims(p, wide, &dims)) >= 0;)
        wide |= 1u << next;
    return dims;
}

static uint64_t vector_cost(const pointwise_t *p, const kern_nest_t *nest) {
    uint64_t cycles = 0;
    dims_t dims = dims_of(p);
    for (uint32_t i = 0; i < p->expr.num_insns; i++) {
        const kern_expr_insn_t *insn = &p->expr.insn[i];
        uint64_t elems = 1;
        for (uint32_t d = 0; d < nest->ndims; d++)
            elems *= dims.walk[i] >> d & 1u ? nest->axis[d].tile : 1;
        kern_class_t cls = KERN_CLASS_ALU;
        if (insn->op == VNPU_OP_V_UNARY) cls = kern_class_unary(insn->func);
        if (insn->op == VNPU_OP_V_BINARY) cls = kern_class_binary(insn->func);
        cycles += kern_cost_vector(&p->context->machine, 1, elems, cls);
        if (insn->func2 != 0)
            cycles +=
                kern_cost_vector(&p->context->machine, 1, elems, kern_class_binary(insn->func2));
    }
    return cycles;
}

static uint64_t cost_of(const pointwise_t *p, const plan_t *plan) {
    const vnpu_machine_t *machine = &p->context->machine;
    kern_stream_cost_t cost = {.tiles = plan->nest.trips,
                               .instances = (uint64_t)plan->nest.grid[0] * plan->nest.grid[1]};
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        if (!is_loaded(p, o)) continue;
        uint64_t bytes = plan->sram_elems[o] * vnpu_dtype_bytes(dtype_of(p, o));
        uint64_t cycles = kern_cost_dma(machine, bytes, bytes);
        if (o == OP_OUT) cost.store_cycles += cycles;
        if (o != OP_OUT) cost.load_cycles += cycles;
        cost.dram_bytes += bytes;
    }
    cost.vector_cycles = vector_cost(p, &plan->nest);
    return kern_cost_stream(machine, &cost);
}

static bool try_plan(const pointwise_t *p, uint64_t elems, plan_t *plan) {
    uint8_t order[KERN_NEST_DIMS];
    uint32_t limit[KERN_NEST_DIMS];
    growth_order(p, elems, order, limit);
    memset(plan, 0, sizeof *plan);
    plan->nest.ndims = p->iter.ndims;
    kern_nest_tile(&plan->nest, p->iter.size, order, limit, elems, 16);
    if (!kern_nest_plan(&plan->nest, p->context->machine.workers, (1u << p->iter.ndims) - 1u))
        return false;
    lay_out(p, plan);
    return sram_need(p, plan) <= p->context->machine.sram_bytes;
}

static uint32_t widest(const pointwise_t *p) {
    uint32_t bytes = p->expr.num_temps > 0 ? temp_bytes(p) : 1;
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        if (is_loaded(p, o) && vnpu_dtype_bytes(dtype_of(p, o)) > bytes)
            bytes = vnpu_dtype_bytes(dtype_of(p, o));
    }
    return bytes;
}

static uint64_t total_elems(const kern_iter_t *iter) {
    uint64_t total = 1;
    for (uint32_t d = 0; d < iter->ndims; d++)
        total *= (uint64_t)iter->size[d];
    return total;
}

/* The best tile size among powers of two; ties go to the larger one. */
static bool choose(const pointwise_t *p, plan_t *plan) {
    uint32_t bytes = widest(p);
    uint64_t total = total_elems(&p->iter), best = UINT64_MAX;
    uint64_t most = MAX_TILE_BYTES / bytes, least = 16;
    if (total / p->context->machine.workers >= 4ull * MIN_TILE_BYTES / bytes)
        least = MIN_TILE_BYTES / bytes;
    bool is_found = false;
    for (uint64_t elems = most; elems >= 1; elems /= 2) {
        if (is_found && elems < least) break;
        plan_t candidate;
        if (!try_plan(p, elems, &candidate)) continue;
        uint64_t cost = cost_of(p, &candidate);
        if (is_found && cost >= best) continue;
        *plan = candidate;
        best = cost;
        is_found = true;
    }
    for (uint32_t i = 0; i < p->call->num_inputs && is_found; i++) {
        plan->is_fixed[i] = true;
        for (uint32_t d = 0; d < p->iter.ndims; d++) {
            if (plan->nest.axis[d].level != VNPU_NO_LOOP && p->iter.stride[OP_INPUT(i)][d] != 0)
                plan->is_fixed[i] = false;
        }
    }
    return is_found;
}

/* ---- code ---- */

typedef struct coder {
    const pointwise_t *p;
    const plan_t *plan;
    kern_builder_t *builder;
    uint8_t arg[1 + KERN_MAX_INPUTS];
    uint8_t scalar_arg[KERN_MAX_SCALARS];
    uint32_t sram[1 + KERN_MAX_INPUTS];
    uint32_t temp[KERN_MAX_NODES + 1];
    kern_ring_t in, out;
    uint16_t fixed; /* semaphore of the inputs that are loaded once */
} coder_t;

static bool is_fixed(const plan_t *plan, uint32_t operand) {
    return operand != OP_OUT && plan->is_fixed[operand - 1];
}

/* Tile buffer of out or an input as the vector unit walks it, along the dimensions in `walk`. */
static vnpu_ap_t tile_ap(const coder_t *c, uint32_t operand, uint32_t walk) {
    const kern_nest_t *nest = &c->plan->nest;
    kern_term_t term[KERN_NEST_DIMS];
    uint32_t count = 0;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        if (!(walk >> d & 1u)) continue;
        term[count++] = (kern_term_t){&nest->axis[d], c->plan->sram_stride[operand][d], false};
    }
    vnpu_ap_t ap = kern_ap_terms(VNPU_SPACE_SRAM, dtype_of(c->p, operand), c->sram[operand], term,
                                 count, false);
    if (!is_fixed(c->plan, operand)) {
        uint64_t bytes = c->plan->sram_elems[operand] * vnpu_dtype_bytes(dtype_of(c->p, operand));
        kern_ap_rotate(&ap, nest->inner, nest->buffers,
                       kern_align(bytes) / vnpu_dtype_bytes(dtype_of(c->p, operand)));
    }
    return ap;
}

/* Temporaries are dense, scalars have no strides, the index moves like memory. walk: dimensions of
 * the instruction; own: those along which the value varies. */
static vnpu_ap_t value_ap(const coder_t *c, kern_ref_t ref, uint32_t walk, uint32_t own) {
    const kern_nest_t *nest = &c->plan->nest;
    vnpu_dtype_t compute = c->p->call->is_integer ? VNPU_I64 : VNPU_F32;
    if (ref.kind == KERN_REF_OUT) return tile_ap(c, OP_OUT, walk);
    if (ref.kind == KERN_REF_INPUT) return tile_ap(c, OP_INPUT(ref.index), walk);
    kern_term_t term[KERN_NEST_DIMS];
    uint32_t count = 0;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        if (!(walk >> d & 1u)) continue;
        int64_t stride = own >> d & 1u ? c->plan->sram_stride[OP_OUT][d] : 0;
        if (ref.kind == KERN_REF_SCALAR) stride = 0;
        if (ref.kind == KERN_REF_INDEX) stride = c->p->iter.stride[OP_INDEX][d];
        term[count++] = (kern_term_t){&nest->axis[d], stride, false};
    }
    if (ref.kind == KERN_REF_SCALAR)
        return kern_ap_terms(VNPU_SPACE_ARG, compute, 8 * (int64_t)c->scalar_arg[ref.index], term,
                             count, false);
    if (ref.kind == KERN_REF_INDEX)
        return kern_ap_terms(VNPU_SPACE_IOTA, VNPU_I64, c->p->index_base, term, count, true);
    return kern_ap_terms(VNPU_SPACE_SRAM, compute, c->temp[ref.index], term, count, false);
}

/* Moves one operand's tile. Dimensions are walked by descending DRAM stride. */
static vnpu_insn_t *emit_move(coder_t *c, uint32_t operand, kern_queue_t queue) {
    const kern_nest_t *nest = &c->plan->nest;
    const int64_t *stride = c->p->iter.stride[operand];
    uint32_t order[KERN_NEST_DIMS], count = 0;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        if (stride[d] == 0 && operand != OP_OUT) continue;
        uint32_t at = count++;
        for (; at > 0 && stride[order[at - 1]] < stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    kern_term_t far[KERN_NEST_DIMS], near[KERN_NEST_DIMS];
    for (uint32_t i = 0; i < count; i++) {
        far[i] = (kern_term_t){&nest->axis[order[i]], stride[order[i]], false};
        near[i] =
            (kern_term_t){&nest->axis[order[i]], c->plan->sram_stride[operand][order[i]], false};
    }
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, dtype_of(c->p, operand), 0, far, count, true);
    vnpu_ap_t sram = kern_ap_terms(VNPU_SPACE_SRAM, dtype_of(c->p, operand), c->sram[operand], near,
                                   count, false);
    vnpu_ap_t whole = tile_ap(c, operand, UINT32_MAX);
    sram.rot_loop = whole.rot_loop;
    sram.rot_count = whole.rot_count;
    sram.rot_stride = whole.rot_stride;
    dram.arg = c->arg[operand];
    kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    bool is_turned = sram.ndims > 1 && sram.dim[sram.ndims - 1].stride != 1;
    vnpu_insn_t *insn =
        kern_emit(c->builder, queue, is_turned ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
    insn->dst = kern_ap(c->builder, operand == OP_OUT ? &dram : &sram);
    insn->src[0] = kern_ap(c->builder, operand == OP_OUT ? &sram : &dram);
    return insn;
}

static uint32_t emit_loads(coder_t *c, bool fixed) {
    uint32_t loads = 0;
    for (uint32_t i = 0; i < c->p->call->num_inputs; i++) {
        if (!c->p->expr.uses_input[i] || c->plan->is_fixed[i] != fixed) continue;
        vnpu_insn_t *insn = emit_move(c, OP_INPUT(i), KERN_LOAD);
        if (!fixed && loads == 0) kern_wait(insn, c->in.free, 1);
        kern_signal(insn, fixed ? c->fixed : c->in.full, 1);
        loads++;
    }
    return loads;
}

static void emit_expr(coder_t *c, uint32_t loads) {
    const kern_expr_t *expr = &c->p->expr;
    dims_t dims = dims_of(c->p);
    for (uint32_t i = 0; i < expr->num_insns; i++) {
        const kern_expr_insn_t *from = &expr->insn[i];
        vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, from->op);
        insn->func = from->func;
        insn->func2 = from->func2;
        insn->flags = from->flags;
        vnpu_ap_t ap[4] = {value_ap(c, from->dst, dims.walk[i], dims.walk[i])};
        vnpu_ap_t *list[4] = {&ap[0]};
        uint32_t count = 1;
        for (uint32_t s = 0; s < 3 && from->src[s].kind != KERN_REF_NONE; s++) {
            ap[count] = value_ap(c, from->src[s], dims.walk[i], dims.src[i][s]);
            list[count] = &ap[count];
            count++;
        }
        kern_ap_merge(list, count, 0);
        insn->dst = kern_ap(c->builder, &ap[0]);
        for (uint32_t s = 1; s < count; s++)
            insn->src[s - 1] = kern_ap(c->builder, &ap[s]);
        if (i == 0) {
            if (loads > 0) kern_wait(insn, c->in.full, loads);
            kern_wait(insn, c->out.free, 1);
        }
        if (i == expr->num_insns - 1) {
            kern_signal(insn, c->out.full, 1);
            if (loads > 0) kern_signal(insn, c->in.free, 1);
        }
    }
}

static void declare(coder_t *c) {
    const pointwise_t *p = c->p;
    uint32_t buffers = c->plan->nest.buffers;
    uint64_t temp = kern_nest_tile_elems(&c->plan->nest) * temp_bytes(p);
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        if (!is_loaded(p, o)) continue;
        c->arg[o] = kern_arg(c->builder, o == OP_OUT ? VNPU_ARG_OUT : VNPU_ARG_IN);
        uint64_t bytes = kern_align(c->plan->sram_elems[o] * vnpu_dtype_bytes(dtype_of(p, o)));
        c->sram[o] = kern_sram(c->builder, bytes * (is_fixed(c->plan, o) ? 1 : buffers));
    }
    for (uint32_t s = 0; s < p->call->num_scalars; s++)
        c->scalar_arg[s] = kern_arg(c->builder, VNPU_ARG_SCALAR);
    for (uint32_t t = 0; t < p->expr.num_temps; t++)
        c->temp[t] = kern_sram(c->builder, temp);
    c->in = kern_ring(c->builder, KERN_VECTOR, buffers);
    c->out = kern_ring(c->builder, KERN_STORE, buffers);
    c->fixed = kern_sem(c->builder);
}

static void generate(const pointwise_t *p, const plan_t *plan, kern_builder_t *builder) {
    coder_t c = {.p = p, .plan = plan, .builder = builder};
    declare(&c);
    uint32_t fixed = emit_loads(&c, true);
    if (fixed > 0) kern_sync_wait(builder, KERN_VECTOR, c.fixed, fixed);
    kern_nest_open(&plan->nest, builder);
    uint32_t loads = emit_loads(&c, false);
    emit_expr(&c, loads);
    vnpu_insn_t *store = emit_move(&c, OP_OUT, KERN_STORE);
    kern_wait(store, c.out.full, 1);
    kern_signal(store, c.out.free, 1);
    kern_nest_close(&plan->nest, builder);
}

/* ---- launches ---- */

static void make_key(const pointwise_t *p, kern_key_t *key) {
    const kern_pointwise_t *call = p->call;
    kern_key_init(key, "pointwise");
    kern_key_add_u64(key, p->iter.ndims | (uint64_t)call->num_inputs << 8 |
                              (uint64_t)call->num_scalars << 16 | (uint64_t)call->num_nodes << 24 |
                              (uint64_t)call->is_integer << 32 | (uint64_t)call->out.dtype << 40);
    for (uint32_t d = 0; d < p->iter.ndims; d++) {
        kern_key_add_u64(key, (uint64_t)p->iter.size[d]);
        for (uint32_t o = 0; o <= call->num_inputs; o++)
            kern_key_add_u64(key, (uint64_t)p->iter.stride[o][d]);
        if (p->expr.uses_index) kern_key_add_u64(key, (uint64_t)p->iter.stride[OP_INDEX][d]);
    }
    for (uint32_t i = 0; i < call->num_inputs; i++)
        kern_key_add_u64(key, call->input[i].dtype);
    for (uint32_t n = 0; n < call->num_nodes; n++) {
        const kern_node_t *node = &call->node[n];
        uint8_t bytes[5] = {(uint8_t)node->kind, node->func, node->operand[0], node->operand[1],
                            node->operand[2]};
        kern_key_add(key, bytes, sizeof bytes);
    }
    kern_key_add_u64(key, p->expr.uses_index ? (uint64_t)p->index_base : 0);
}

static vnpu_status_t build(const pointwise_t *p, const kern_key_t *key,
                           const kern_entry_t **out_entry) {
    plan_t plan;
    *out_entry = NULL;
    if (!choose(p, &plan)) {
        return kern_fail(p->context, VNPU_ERROR_UNSUPPORTED,
                         "%s: the SRAM of %llu bytes is too small for a tile", p->call->name,
                         (unsigned long long)p->context->machine.sram_bytes);
    }
    kern_builder_t builder;
    kern_builder_init(&builder, &p->context->machine, p->call->name);
    generate(p, &plan, &builder);
    vnpu_status_t status = kern_add_program(p->context, key, &builder, plan.nest.grid, out_entry);
    kern_builder_fini(&builder);
    return status;
}

static vnpu_status_t launch_part(const pointwise_t *p) {
    kern_key_t key;
    make_key(p, &key);
    const kern_entry_t *entry = kern_cache_find(&p->context->cache, &key);
    if (!entry) {
        vnpu_status_t status = build(p, &key, &entry);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[VNPU_MAX_ARGS];
    uint32_t count = 0;
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        if (is_loaded(p, o)) args[count++] = p->address[o];
    }
    for (uint32_t s = 0; s < p->call->num_scalars; s++) {
        args[count++] = p->call->is_integer ? kern_arg_i64(p->call->scalar_i[s])
                                            : kern_arg_f32(p->call->scalar_f[s]);
    }
    return kern_launch(p->context, p->stream, entry, args, count);
}

/* Moves a part's operands to element `at` of dimension d. */
static void advance(pointwise_t *p, const kern_iter_t *whole, uint32_t d, int64_t at) {
    for (uint32_t o = 0; o <= p->call->num_inputs; o++) {
        if (!is_loaded(p, o)) continue;
        p->address[o] += (uint64_t)(at * whole->stride[o][d]) * vnpu_dtype_bytes(dtype_of(p, o));
    }
    p->index_base += at * whole->stride[OP_INDEX][d];
}

static vnpu_status_t run(const pointwise_t *whole) {
    int64_t part;
    int32_t cut = kern_iter_cut(&whole->iter, KERN_NEST_DIMS - 1, &part);
    if (cut < 0) return launch_part(whole);
    for (int64_t at = 0; at < whole->iter.size[cut]; at += part) {
        pointwise_t p = *whole;
        int64_t left = whole->iter.size[cut] - at;
        p.iter.size[cut] = left < part ? left : part;
        advance(&p, &whole->iter, (uint32_t)cut, at);
        kern_iter_collapse(&p.iter, false);
        vnpu_status_t status = run(&p);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

static vnpu_status_t check_call(kern_context_t *context, const kern_pointwise_t *call) {
    vnpu_status_t status = kern_check_output(context, call->name, &call->out);
    for (uint32_t i = 0; i < call->num_inputs && status == VNPU_OK; i++) {
        status = kern_check_tensor(context, call->name, "an input", &call->input[i]);
        if (status == VNPU_OK && !kern_same_sizes(&call->out, &call->input[i])) {
            char a[160], b[160];
            status = kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                               "%s: input %u is %s, out is %s: sizes must agree", call->name, i,
                               kern_describe(&call->input[i], a, sizeof a),
                               kern_describe(&call->out, b, sizeof b));
        }
    }
    return status;
}

static vnpu_status_t run_pointwise(kern_context_t *context, vnpu_stream_t stream,
                                   const kern_pointwise_t *call) {
    pointwise_t p = {.context = context, .stream = stream, .call = call};
    const char *reason = kern_expr_compile(call, &p.expr);
    if (reason)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "%s: expression: %s", call->name,
                         reason);
    vnpu_status_t status = check_call(context, call);
    if (status != VNPU_OK || kern_numel(&call->out) == 0) return status;
    p.iter.ndims = call->out.ndims;
    p.iter.num_operands = OP_INDEX + 1;
    int64_t linear = 1;
    for (uint32_t d = call->out.ndims; d-- > 0;) {
        p.iter.size[d] = call->out.size[d];
        p.iter.stride[OP_OUT][d] = call->out.stride[d];
        for (uint32_t i = 0; i < call->num_inputs; i++)
            p.iter.stride[OP_INPUT(i)][d] = p.expr.uses_input[i] ? call->input[i].stride[d] : 0;
        p.iter.stride[OP_INDEX][d] = p.expr.uses_index ? linear : 0;
        linear *= call->out.size[d];
    }
    p.address[OP_OUT] = call->out.address;
    for (uint32_t i = 0; i < call->num_inputs; i++)
        p.address[OP_INPUT(i)] = call->input[i].address;
    for (uint32_t o = call->num_inputs + 1; o < OP_INDEX; o++)
        memset(p.iter.stride[o], 0, sizeof p.iter.stride[o]);
    for (uint32_t i = 0; i < call->num_inputs; i++) { /* unused inputs must not hinder merging */
        if (!p.expr.uses_input[i]) memset(p.iter.stride[OP_INPUT(i)], 0, sizeof p.iter.stride[0]);
    }
    kern_iter_collapse(&p.iter, true);
    return run(&p);
}

vnpu_status_t kern_pointwise(kern_context_t *context, vnpu_stream_t stream,
                             const kern_pointwise_t *call) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = run_pointwise(context, stream, call);
    kern_class_leave(context, before);
    return status;
}
