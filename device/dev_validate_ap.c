#include "device/dev_validate_internal.h"

#include <string.h>

#define MAX_BASE       ((int64_t)1 << 48)
#define FAIL_AP(...)   dev_check_fail_ap(check, index, __VA_ARGS__)
#define FAIL_INSN(...) dev_check_fail_insn(check, SIM_ERROR_INVALID_IMAGE, __VA_ARGS__)

/* A range of element offsets, relative to a pattern's base. */
typedef struct range {
    int64_t low, high;
} range_t;

/* Adds a term that runs from a to b. False: beyond DEV_MAX_REACH. */
static bool range_add(range_t *range, int64_t a, int64_t b) {
    int64_t low = a < b ? a : b, high = a < b ? b : a;
    if (low < -DEV_MAX_REACH || high > DEV_MAX_REACH) return false;
    range->low += low;
    range->high += high;
    return range->low >= -DEV_MAX_REACH && range->high <= DEV_MAX_REACH;
}

static bool range_add_dims(range_t *range, const vnpu_ap_t *ap) {
    for (uint32_t d = 0; d < ap->ndims; d++) {
        int64_t reach = (int64_t)ap->dim[d].stride * (int64_t)(ap->dim[d].size - 1);
        if (!range_add(range, 0, reach)) return false;
    }
    return true;
}

/* ---- one pattern by itself ---- */

static sim_status_t check_dims(dev_check_t *check, uint32_t index, const vnpu_ap_t *ap) {
    if (ap->ndims < 1 || ap->ndims > VNPU_MAX_DIMS) {
        return FAIL_AP("%u dimensions, 1 to %u are possible", ap->ndims, VNPU_MAX_DIMS);
    }
    uint64_t count = 1;
    for (uint32_t d = 0; d < VNPU_MAX_DIMS; d++) {
        const vnpu_dim_t *dim = &ap->dim[d];
        if (d >= ap->ndims) {
            if (dim->size || dim->stride)
                return FAIL_AP("dimension %u beyond ndims is not zero", d);
            continue;
        }
        if (dim->size == 0) return FAIL_AP("dimension %u has size 0", d);
        if (count > (uint64_t)DEV_MAX_REACH / dim->size) return FAIL_AP("more than 2^46 elements");
        count *= dim->size;
    }
    range_t range = {0};
    if (!range_add_dims(&range, ap))
        return FAIL_AP("reaches more than 2^46 elements from its base");
    return SIM_OK;
}

static sim_status_t check_space(dev_check_t *check, uint32_t index, const vnpu_ap_t *ap) {
    const vnpu_program_header_t *header = &check->program->header;
    bool is_dram = ap->space == VNPU_SPACE_DRAM;
    if (dev_space_name(ap->space) == NULL) return FAIL_AP("space %u does not exist", ap->space);
    if (dev_dtype_name(ap->dtype) == NULL) return FAIL_AP("dtype %u does not exist", ap->dtype);
    if (!is_dram && ap->arg != VNPU_NO_ARG) {
        return FAIL_AP("argument %u in space %s", ap->arg, dev_space_name(ap->space));
    }
    if (is_dram && ap->arg >= header->num_args) {
        return FAIL_AP("a DRAM pattern needs an argument: %u of %u", ap->arg, header->num_args);
    }
    if (is_dram && header->arg_kind[ap->arg] == VNPU_ARG_SCALAR) {
        return FAIL_AP("argument %u is a scalar, not an address", ap->arg);
    }
    if (ap->space == VNPU_SPACE_IOTA && ap->dtype != VNPU_I32 && ap->dtype != VNPU_I64) {
        return FAIL_AP("iota counts in i32 or i64, not %s", dev_dtype_name(ap->dtype));
    }
    return SIM_OK;
}

static sim_status_t check_base(dev_check_t *check, uint32_t index, const vnpu_ap_t *ap) {
    bool is_block = vnpu_dtype_block((vnpu_dtype_t)ap->dtype) > 1; /* a run of bytes */
    int64_t elem = is_block ? 1 : vnpu_dtype_bytes((vnpu_dtype_t)ap->dtype);
    if (ap->base > MAX_BASE || ap->base < -MAX_BASE) return FAIL_AP("base beyond 2^48");
    if (ap->space == VNPU_SPACE_IOTA) return SIM_OK;
    if (ap->base % elem != 0) {
        return FAIL_AP("base %lld is not a multiple of %lld bytes (%s)", (long long)ap->base,
                       (long long)elem, dev_dtype_name(ap->dtype));
    }
    if (ap->space == VNPU_SPACE_DRAM) return SIM_OK;
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        if (ap->grid_inc[a] != 0) {
            return FAIL_AP("a pattern in %s cannot move with the grid (axis %u)",
                           dev_space_name(ap->space), a);
        }
    }
    return SIM_OK;
}

static sim_status_t check_rotation(dev_check_t *check, uint32_t index, const vnpu_ap_t *ap) {
    if (ap->rot_loop == VNPU_NO_LOOP) {
        if (ap->rot_count > 1 || ap->rot_stride != 0 || ap->rot_outer != 0)
            return FAIL_AP("rotation is off but has values");
        return SIM_OK;
    }
    if (ap->rot_loop >= VNPU_MAX_LOOPS) return FAIL_AP("rotation by loop level %u", ap->rot_loop);
    if (ap->rot_count == 0) return FAIL_AP("rotation over 0 buffers");
    if (ap->rot_outer > ap->rot_loop)
        return FAIL_AP("rotation by %u loops outside level %u", ap->rot_outer, ap->rot_loop);
    if (ap->rot_outer > 0 && ap->space != VNPU_SPACE_SRAM && ap->space != VNPU_SPACE_ACC)
        return FAIL_AP("rotation by several loops in %s", dev_space_name(ap->space));
    return SIM_OK;
}

static sim_status_t check_clip(dev_check_t *check, uint32_t index, const vnpu_ap_t *ap,
                               uint32_t c) {
    static const vnpu_clip_t unused;
    const vnpu_clip_t *clip = &ap->clip[c];
    if (!(clip->axis_mode & VNPU_CLIP_USED)) {
        if (memcmp(clip, &unused, sizeof unused) != 0 || ap->pad[c] != 0)
            return FAIL_AP("clip %u is unused, not zero", c);
        return SIM_OK;
    }
    uint32_t mode = clip->axis_mode & 3u, axis = clip->axis_mode >> 2 & 1u;
    if (c > 0 && !(ap->clip[c - 1].axis_mode & VNPU_CLIP_USED)) {
        return FAIL_AP("clip %u is used, clip %u is not: used clips come first", c, c - 1);
    }
    if (clip->axis_mode & 0x70u) return FAIL_AP("clip %u: reserved bits", c);
    if (!(clip->axis_mode & VNPU_CLIP_WINDOW) && (clip->overlap || ap->pad[c])) {
        return FAIL_AP("clip %u: an overlap or a pad, but no window", c);
    }
    if (clip->dim >= ap->ndims)
        return FAIL_AP("clip %u: dimension %u of %u", c, clip->dim, ap->ndims);
    if (clip->overlap > 0 && (uint32_t)clip->overlap >= ap->dim[clip->dim].size) {
        return FAIL_AP("clip %u: an overlap of %d, the tile has %u", c, clip->overlap,
                       ap->dim[clip->dim].size);
    }
    bool is_still = mode == VNPU_CLIP_LOOP && (clip->axis_mode & VNPU_CLIP_WINDOW) &&
                    clip->loop == VNPU_NO_LOOP;
    bool has_loop =
        mode == VNPU_CLIP_GRID ? clip->loop == VNPU_NO_LOOP : clip->loop < VNPU_MAX_LOOPS;
    if (!has_loop && !is_still) {
        return FAIL_AP("clip %u: loop level %u in mode %s", c, clip->loop,
                       dev_clip_mode_name(mode));
    }
    if (mode == VNPU_CLIP_LOOP && axis != 0) return FAIL_AP("clip %u: a grid axis in mode loop", c);
    return SIM_OK;
}

sim_status_t dev_check_ap(dev_check_t *check, uint32_t index) {
    const vnpu_ap_t *ap = &check->program->ap[index];
    uint32_t scale_bits;
    memcpy(&scale_bits, &ap->scale, sizeof scale_bits);
    if (ap->reserved1 || ap->reserved2 || scale_bits || ap->zero_point || ap->sparsity) {
        return FAIL_AP("a reserved field is not zero");
    }
    sim_status_t status = check_space(check, index, ap);
    if (status == SIM_OK) status = check_dims(check, index, ap);
    if (status == SIM_OK) status = check_base(check, index, ap);
    if (status == SIM_OK) status = check_rotation(check, index, ap);
    for (uint32_t c = 0; c < 4 && status == SIM_OK; c++)
        status = check_clip(check, index, ap, c);
    return status;
}

/* ---- a pattern in an instruction ---- */

static bool uses_loop(const vnpu_ap_t *ap, uint32_t level) {
    bool rotates = ap->rot_loop != VNPU_NO_LOOP && level <= ap->rot_loop &&
                   level + ap->rot_outer >= ap->rot_loop;
    if (ap->loop_inc[level] != 0 || rotates) return true;
    for (uint32_t c = 0; c < 4; c++) {
        if ((ap->clip[c].axis_mode & VNPU_CLIP_USED) && ap->clip[c].loop == level) return true;
    }
    return false;
}

/* Adds what loop level l contributes while its counter runs from low to high. */
static bool range_add_loop(range_t *range, const vnpu_ap_t *ap, uint32_t l, uint32_t low,
                           uint32_t high) {
    int64_t inc = ap->loop_inc[l];
    if (!range_add(range, inc * low, inc * high)) return false;
    if (ap->rot_loop != l) return true;
    uint32_t first = low % ap->rot_count, last = high % ap->rot_count;
    bool is_any = ap->rot_outer > 0 || high - low >= ap->rot_count;
    if (is_any || first > last) { /* passes the last buffer */
        first = 0;
        last = ap->rot_count - 1u;
    }
    return range_add(range, (int64_t)first * ap->rot_stride, (int64_t)last * ap->rot_stride);
}

/* All offsets of the pattern in the current instruction. *out_runs false: it never executes. */
static sim_status_t use_range(dev_check_t *check, uint32_t operand, const vnpu_ap_t *ap,
                              range_t *out_range, bool *out_runs) {
    const char *name = dev_operand_name(operand);
    *out_range = (range_t){0};
    *out_runs = true;
    bool fits = range_add_dims(out_range, ap);
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS && fits; l++) {
        if (l >= check->nest.depth) {
            if (uses_loop(ap, l)) {
                return FAIL_INSN("%s: the pattern moves with loop level %u, %u are open here", name,
                                 l, check->nest.depth);
            }
            continue;
        }
        uint32_t low, high;
        if (!dev_nest_range(&check->nest, check->insn, l, &low, &high)) {
            *out_runs = false;
            continue;
        }
        fits = range_add_loop(out_range, ap, l, low, high);
    }
    if (!fits) return FAIL_INSN("%s: reaches more than 2^46 elements from its base", name);
    return SIM_OK;
}

static sim_status_t check_bounds(dev_check_t *check, uint32_t operand, const vnpu_ap_t *ap,
                                 const range_t *range) {
    const vnpu_program_header_t *header = &check->program->header;
    const char *name = dev_operand_name(operand);
    int64_t elem = vnpu_dtype_bytes((vnpu_dtype_t)ap->dtype);
    int64_t low = ap->base + range->low * elem, high = ap->base + (range->high + 1) * elem;
    int64_t limit = 8 * (int64_t)header->num_args;
    if (ap->space == VNPU_SPACE_SRAM) limit = header->sram_bytes;
    if (ap->space == VNPU_SPACE_ACC) limit = header->acc_bytes;
    if (low < 0 || high > limit) {
        return FAIL_INSN("%s: bytes %lld to %lld of %s, the program has %lld", name, (long long)low,
                         (long long)high, dev_space_name(ap->space), (long long)limit);
    }
    if (ap->space != VNPU_SPACE_ARG) return SIM_OK;
    for (int64_t a = low / 8; a * 8 < high; a++) {
        if (header->arg_kind[a] != VNPU_ARG_SCALAR) {
            return FAIL_INSN("%s: reads argument %lld, which is an address, as a value", name,
                             (long long)a);
        }
    }
    return SIM_OK;
}

static sim_status_t check_direction(dev_check_t *check, uint32_t operand, const vnpu_ap_t *ap,
                                    bool is_read, bool is_written) {
    const char *name = dev_operand_name(operand);
    for (uint32_t d = 0; d < ap->ndims && is_written; d++) {
        if (ap->dim[d].stride == 0 && ap->dim[d].size > 1) {
            return FAIL_INSN("%s: stride 0 on dimension %u writes one place many times", name, d);
        }
    }
    if (ap->space != VNPU_SPACE_DRAM) return SIM_OK;
    uint32_t kind = check->program->header.arg_kind[ap->arg];
    if (is_read && kind == VNPU_ARG_OUT) {
        return FAIL_INSN("%s: reads argument %u, declared out", name, ap->arg);
    }
    if (is_written && kind == VNPU_ARG_IN) {
        return FAIL_INSN("%s: writes argument %u, declared in", name, ap->arg);
    }
    return SIM_OK;
}

sim_status_t dev_check_use(dev_check_t *check, uint32_t operand, bool is_read, bool is_written) {
    const vnpu_ap_t *ap = &check->program->ap[dev_insn_operand(check->insn, operand)];
    range_t range;
    bool runs;
    sim_status_t status = use_range(check, operand, ap, &range, &runs);
    if (status != SIM_OK) return status;
    bool is_sized = ap->space != VNPU_SPACE_DRAM && ap->space != VNPU_SPACE_IOTA;
    if (is_sized && runs) status = check_bounds(check, operand, ap, &range);
    if (status != SIM_OK) return status;
    return check_direction(check, operand, ap, is_read, is_written);
}
