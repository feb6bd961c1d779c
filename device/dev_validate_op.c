#include "device/dev_validate_internal.h"

#include <string.h>

#include "device/dev_func_class.h"

/* What each opcode demands of its operands: spaces, element types, dimensions that must agree. */

#define FAIL_INSN(...) dev_check_fail_insn(check, SIM_ERROR_INVALID_IMAGE, __VA_ARGS__)

#define IN_DRAM          (1u << VNPU_SPACE_DRAM)
#define IN_SRAM          (1u << VNPU_SPACE_SRAM)
#define IN_ACC           (1u << VNPU_SPACE_ACC)
#define IN_VECTOR        (IN_SRAM | IN_ACC)
#define IN_VECTOR_SOURCE (IN_VECTOR | 1u << VNPU_SPACE_ARG | 1u << VNPU_SPACE_IOTA)

enum { DST = 0, SRC0 = 1, SRC1 = 2, SRC2 = 3, SRC3 = 4 };

static const vnpu_ap_t *operand_ap(const dev_check_t *check, uint32_t operand) {
    return &check->program->ap[dev_insn_operand(check->insn, operand)];
}

static bool has_operand(const dev_check_t *check, uint32_t operand) {
    return dev_insn_operand(check->insn, operand) != VNPU_NO_AP;
}

static sim_status_t check_in(dev_check_t *check, uint32_t operand, uint32_t spaces) {
    const vnpu_ap_t *ap = operand_ap(check, operand);
    if (spaces >> ap->space & 1u) return SIM_OK;
    return FAIL_INSN("%s: cannot be in %s", dev_operand_name(operand), dev_space_name(ap->space));
}

/* ---- dimensions that correspond ---- */

/* Values that one element of a pattern's dimension stands for: blocks lie along the innermost. */
static uint32_t values_per_elem(const vnpu_ap_t *ap, uint32_t dim) {
    return dim + 1u == ap->ndims ? vnpu_dtype_block((vnpu_dtype_t)ap->dtype) : 1;
}

static uint64_t clip_key(const vnpu_clip_t *clip, uint32_t values) {
    return ((uint64_t)clip->extent * values) << 16 | (uint64_t)clip->loop << 8 | clip->axis_mode;
}

/* The clips of one dimension, in ascending order. */
static uint32_t clips_of(const vnpu_ap_t *ap, uint32_t dim, uint64_t key[4]) {
    uint32_t count = 0;
    for (uint32_t c = 0; c < 4; c++) {
        if (!(ap->clip[c].axis_mode & VNPU_CLIP_USED) || ap->clip[c].dim != dim) continue;
        uint64_t k = clip_key(&ap->clip[c], values_per_elem(ap, dim));
        uint32_t at = count++;
        for (; at > 0 && key[at - 1] > k; at--)
            key[at] = key[at - 1];
        key[at] = k;
    }
    return count;
}

static bool is_clipped(const vnpu_ap_t *ap, uint32_t dim) {
    uint64_t key[4];
    return clips_of(ap, dim, key) > 0;
}

/* Dimension da of operand a and db of operand b have the same size at every point of every loop. */
static sim_status_t check_same_dim(dev_check_t *check, uint32_t a, uint32_t da, uint32_t b,
                                   uint32_t db) {
    const vnpu_ap_t *ap_a = operand_ap(check, a), *ap_b = operand_ap(check, b);
    uint64_t size_a = (uint64_t)ap_a->dim[da].size * values_per_elem(ap_a, da);
    uint64_t size_b = (uint64_t)ap_b->dim[db].size * values_per_elem(ap_b, db);
    if (size_a != size_b) {
        return FAIL_INSN("%s dimension %u has size %llu, %s dimension %u has %llu",
                         dev_operand_name(a), da, (unsigned long long)size_a, dev_operand_name(b),
                         db, (unsigned long long)size_b);
    }
    uint64_t key_a[4], key_b[4];
    uint32_t count_a = clips_of(ap_a, da, key_a), count_b = clips_of(ap_b, db, key_b);
    if (count_a != count_b || memcmp(key_a, key_b, count_a * sizeof key_a[0]) != 0) {
        return FAIL_INSN("%s dimension %u and %s dimension %u are clipped differently",
                         dev_operand_name(a), da, dev_operand_name(b), db);
    }
    return SIM_OK;
}

static sim_status_t check_ndims(dev_check_t *check, uint32_t operand, uint32_t ndims) {
    if (operand_ap(check, operand)->ndims == ndims) return SIM_OK;
    return FAIL_INSN("%s has %u dimensions, %u are needed", dev_operand_name(operand),
                     operand_ap(check, operand)->ndims, ndims);
}

/* Dimensions [0, count) of both agree. */
static sim_status_t check_same_leading(dev_check_t *check, uint32_t a, uint32_t b, uint32_t count) {
    for (uint32_t d = 0; d < count; d++) {
        sim_status_t status = check_same_dim(check, a, d, b, d);
        if (status != SIM_OK) return status;
    }
    return SIM_OK;
}

static sim_status_t check_same_shape(dev_check_t *check, uint32_t a, uint32_t b) {
    uint32_t ndims = operand_ap(check, a)->ndims;
    sim_status_t status = check_ndims(check, b, ndims);
    return status == SIM_OK ? check_same_leading(check, a, b, ndims) : status;
}

static sim_status_t check_plain_dim(dev_check_t *check, uint32_t operand, uint32_t dim,
                                    uint32_t size) {
    const vnpu_ap_t *ap = operand_ap(check, operand);
    if (ap->dim[dim].size == size && !is_clipped(ap, dim)) return SIM_OK;
    return FAIL_INSN("%s dimension %u must have size %u and no clip", dev_operand_name(operand),
                     dim, size);
}

/*
 * `rows` holds one result per row of `full` (its dimensions without the innermost; one of size 1
 * when nothing is left), or VNPU_PARTIALS of them in one more dimension.
 */
static sim_status_t check_rows(dev_check_t *check, uint32_t full, uint32_t rows, bool is_partial) {
    uint32_t leading = operand_ap(check, full)->ndims - 1u;
    uint32_t row_dims = leading > 0 ? leading : 1;
    sim_status_t status = check_ndims(check, rows, row_dims + is_partial);
    if (status != SIM_OK) return status;
    if (leading == 0) {
        status = check_plain_dim(check, rows, 0, 1);
    } else {
        status = check_same_leading(check, full, rows, leading);
    }
    if (status == SIM_OK && is_partial) {
        status = check_plain_dim(check, rows, row_dims, VNPU_PARTIALS);
    }
    return status;
}

/* Sums and partials are kept in the type that the unit computes in. */
static sim_status_t check_partial_dtype(dev_check_t *check, uint32_t operand) {
    uint32_t dtype = operand_ap(check, operand)->dtype;
    bool is_integer = check->insn->flags & VNPU_F_INTEGER;
    if (is_integer ? (dtype == VNPU_I64 || dtype == VNPU_I32) : dtype == VNPU_F32) return SIM_OK;
    return FAIL_INSN("%s: partial results and row sums are %s, not %s", dev_operand_name(operand),
                     is_integer ? "i64 or i32" : "f32", dev_dtype_name(dtype));
}

/* ---- opcodes ---- */

static sim_status_t check_value(dev_check_t *check) {
    if (dev_dtype_is_float(operand_ap(check, DST)->dtype) && check->insn->imm[1] != 0) {
        return FAIL_INSN("the value of a float is imm[0] alone, imm[1] must be 0");
    }
    return SIM_OK;
}

static bool is_window(const vnpu_ap_t *ap, uint32_t c) {
    return ap->clip[c].axis_mode & VNPU_CLIP_WINDOW;
}

/* The window of a dimension, or -1. */
static int window_of(const vnpu_ap_t *ap, uint32_t dim) {
    for (uint32_t c = 0; c < 4; c++) {
        if (is_window(ap, c) && ap->clip[c].dim == dim) return (int)c;
    }
    return -1;
}

static bool has_blocks(const dev_check_t *check) {
    return check->insn->op == VNPU_OP_DMA_COPY &&
           operand_ap(check, DST)->ndims == operand_ap(check, SRC0)->ndims + 1u;
}

/* The innermost dimension of src0 lies in blocks in the two innermost ones of dst. */
static sim_status_t check_blocks(dev_check_t *check) {
    const vnpu_ap_t *src = operand_ap(check, SRC0), *dst = operand_ap(check, DST);
    uint32_t inner = src->ndims - 1u, elems = src->dim[inner].size;
    if (check->insn->flags & VNPU_F_ACCUMULATE)
        return FAIL_INSN("blocks and acc exclude each other");
    if (vnpu_dtype_block((vnpu_dtype_t)src->dtype) > 1 ||
        vnpu_dtype_block((vnpu_dtype_t)dst->dtype) > 1)
        return FAIL_INSN("blocks of a type that has blocks of its own");
    if (window_of(src, inner) >= 0)
        return FAIL_INSN("src0 dimension %u: a window in blocks", inner);
    uint32_t size = dst->dim[inner + 1].size;
    sim_status_t status = check_in(check, DST, IN_SRAM);
    if (status == SIM_OK) status = check_in(check, SRC0, IN_DRAM);
    if (status == SIM_OK) status = check_plain_dim(check, DST, inner + 1, size);
    if (status == SIM_OK)
        status = check_plain_dim(check, DST, inner, elems / size + (elems % size != 0));
    return status;
}

/* A copy that pads: whole tiles in SRAM for windows in DRAM. */
static sim_status_t check_dma_pad(dev_check_t *check) {
    if (check->insn->flags & VNPU_F_ACCUMULATE) return FAIL_INSN("pad and acc exclude each other");
    sim_status_t status = check_in(check, DST, IN_SRAM);
    if (status == SIM_OK) status = check_in(check, SRC0, IN_DRAM);
    if (status == SIM_OK) status = check_value(check);
    const vnpu_ap_t *src = operand_ap(check, SRC0);
    uint32_t shared = src->ndims;
    if (has_blocks(check)) {
        if (status == SIM_OK) status = check_blocks(check);
        shared--;
    } else if (status == SIM_OK) {
        status = check_ndims(check, DST, src->ndims);
    }
    for (uint32_t d = 0; status == SIM_OK && d < shared; d++) {
        uint64_t key[4];
        if (window_of(src, d) < 0) {
            status = check_same_dim(check, DST, d, SRC0, d);
        } else if (clips_of(src, d, key) > 1) {
            return FAIL_INSN("src0 dimension %u has a window and another clip", d);
        } else {
            status = check_plain_dim(check, DST, d, src->dim[d].size);
        }
    }
    return status;
}

static sim_status_t check_no_window(dev_check_t *check, uint32_t operand) {
    bool may_have = operand == SRC0 && (check->insn->flags & VNPU_F_PAD);
    for (uint32_t c = 0; c < 4 && !may_have; c++) {
        if (!is_window(operand_ap(check, operand), c)) continue;
        return FAIL_INSN("%s: clip %u is a window; only src0 of a copy with flag pad has windows",
                         dev_operand_name(operand), c);
    }
    return SIM_OK;
}

/* A copy between accumulator and DRAM: chips whose engines reach the accumulator. */
static bool is_with_acc(const dev_check_t *check) {
    uint32_t dst = operand_ap(check, DST)->space, src = operand_ap(check, SRC0)->space;
    return check->insn->op == VNPU_OP_DMA_COPY && !(check->insn->flags & VNPU_F_ACCUMULATE) &&
           ((dst == VNPU_SPACE_ACC && src == VNPU_SPACE_DRAM) ||
            (dst == VNPU_SPACE_DRAM && src == VNPU_SPACE_ACC));
}

static sim_status_t check_with_acc(dev_check_t *check) {
    if (check->cls != NULL && check->cls->dma.accumulator_bytes_per_cycle == 0)
        return dev_check_fail_insn(check, SIM_ERROR_UNSUPPORTED,
                                   "the DMA engines of this device do not reach acc");
    return check_same_shape(check, DST, SRC0);
}

static sim_status_t check_dma_move(dev_check_t *check) {
    if (check->insn->flags & VNPU_F_PAD) return check_dma_pad(check);
    if (check->insn->imm[0] || check->insn->imm[1]) return FAIL_INSN("immediates without flag pad");
    if (is_with_acc(check)) return check_with_acc(check);
    sim_status_t status = check_in(check, DST, IN_DRAM | IN_SRAM);
    if (status == SIM_OK) status = check_in(check, SRC0, IN_DRAM | IN_SRAM);
    if (status != SIM_OK) return status;
    if (operand_ap(check, DST)->space == VNPU_SPACE_DRAM &&
        operand_ap(check, SRC0)->space == VNPU_SPACE_DRAM) {
        return FAIL_INSN("DRAM to DRAM: a DMA queue moves through SRAM");
    }
    if (!has_blocks(check)) return check_same_shape(check, DST, SRC0);
    status = check_blocks(check);
    uint32_t shared = operand_ap(check, SRC0)->ndims - 1u;
    return status == SIM_OK ? check_same_leading(check, DST, SRC0, shared) : status;
}

static sim_status_t check_dma_fill(dev_check_t *check) {
    sim_status_t status = check_in(check, DST, IN_DRAM | IN_SRAM);
    return status == SIM_OK ? check_value(check) : status;
}

/* table: the operand with the rows of a table in DRAM; packed: the one with a row per index. */
static sim_status_t check_dma_rows(dev_check_t *check, uint32_t table, uint32_t packed) {
    sim_status_t status = check_in(check, table, IN_DRAM);
    if (status == SIM_OK) status = check_in(check, packed, IN_SRAM);
    if (status == SIM_OK) status = check_in(check, SRC1, IN_SRAM);
    if (status != SIM_OK) return status;
    const vnpu_ap_t *rows = operand_ap(check, table), *index = operand_ap(check, SRC1);
    if (index->dtype != VNPU_I32 && index->dtype != VNPU_I64) {
        return FAIL_INSN("src1: indices are i32 or i64, not %s", dev_dtype_name(index->dtype));
    }
    if (rows->ndims < 2)
        return FAIL_INSN("%s: a table has 2 dimensions or more", dev_operand_name(table));
    if (check->insn->imm[0] != rows->dim[0].size) {
        return FAIL_INSN("imm[0] says %u rows, the table has %u", check->insn->imm[0],
                         rows->dim[0].size);
    }
    status = check_ndims(check, SRC1, 1);
    if (status == SIM_OK) status = check_plain_dim(check, table, 0, rows->dim[0].size);
    if (status == SIM_OK) status = check_ndims(check, packed, rows->ndims);
    if (status == SIM_OK) status = check_same_dim(check, packed, 0, SRC1, 0);
    for (uint32_t d = 1; d < rows->ndims && status == SIM_OK; d++) {
        status = check_same_dim(check, packed, d, table, d);
    }
    return status;
}

static sim_status_t check_mm_dtypes(dev_check_t *check) {
    uint32_t a = operand_ap(check, SRC0)->dtype, b = operand_ap(check, SRC1)->dtype;
    uint32_t result = operand_ap(check, DST)->dtype;
    bool is_int8 = (a == VNPU_I8 || a == VNPU_U8) && (b == VNPU_I8 || b == VNPU_U8);
    if (!is_int8 && !(dev_dtype_is_float(a) && a == b)) {
        return FAIL_INSN(
            "multiplies two operands of one float type, or i8/u8 by i8/u8, not %s by %s",
            dev_dtype_name(a), dev_dtype_name(b));
    }
    uint32_t want = is_int8 ? VNPU_I32 : VNPU_F32;
    if (result != want) {
        return FAIL_INSN("dst: the result of %s by %s is %s, not %s", dev_dtype_name(a),
                         dev_dtype_name(b), dev_dtype_name(want), dev_dtype_name(result));
    }
    const uint32_t operand[2] = {a, b};
    for (int i = 0; i < 2 && check->cls; i++) {
        if (check->cls->matrix_rate[operand[i]].num == 0) {
            return dev_check_fail_insn(check, SIM_ERROR_UNSUPPORTED,
                                       "the matrix unit of this device lacks %s",
                                       dev_dtype_name(operand[i]));
        }
    }
    return SIM_OK;
}

/* src0 [m..][k..], src1 [k..][n..], dst [m..][n..]. */
static sim_status_t check_mm_dims(dev_check_t *check) {
    uint32_t k = check->insn->func + 1u;
    uint32_t left = operand_ap(check, SRC0)->ndims, right = operand_ap(check, SRC1)->ndims;
    if (left <= k || right <= k) {
        return FAIL_INSN("%s has %u dimensions, %u of k and 1 or more of %s are needed",
                         dev_operand_name(left <= k ? SRC0 : SRC1), left <= k ? left : right, k,
                         left <= k ? "m" : "n");
    }
    uint32_t m = left - k, n = right - k;
    sim_status_t status = check_ndims(check, DST, m + n);
    if (status == SIM_OK) status = check_same_leading(check, DST, SRC0, m);
    for (uint32_t d = 0; d < k && status == SIM_OK; d++)
        status = check_same_dim(check, SRC0, m + d, SRC1, d);
    for (uint32_t d = 0; d < n && status == SIM_OK; d++)
        status = check_same_dim(check, DST, m + d, SRC1, k + d);
    return status;
}

static sim_status_t check_mm(dev_check_t *check) {
    sim_status_t status = check_in(check, DST, IN_ACC);
    if (status == SIM_OK) status = check_in(check, SRC0, IN_SRAM);
    if (status == SIM_OK) status = check_in(check, SRC1, IN_SRAM);
    if (status == SIM_OK) status = check_mm_dtypes(check);
    if (status == SIM_OK) status = check_mm_dims(check);
    if (status != SIM_OK) return status;
    if (!(check->insn->flags & VNPU_F_KEEP_WEIGHTS)) {
        check->has_weights = true;
    } else if (!check->has_weights) {
        return FAIL_INSN("keep: no earlier mm of this queue has loaded weights");
    }
    return SIM_OK;
}

/* Functions that exist for integers (VNPU_F_INTEGER), and those that exist for integers only. */
static sim_status_t check_unary_type(dev_check_t *check, uint32_t func) {
    static const uint64_t integer = 1ull << VNPU_U_COPY | 1ull << VNPU_U_NEG | 1ull << VNPU_U_ABS |
                                    1ull << VNPU_U_SQUARE | 1ull << VNPU_U_SIGN |
                                    1ull << VNPU_U_RELU | 1ull << VNPU_U_NOT |
                                    1ull << VNPU_U_BITNOT | 1ull << VNPU_U_NE0;
    bool is_integer = check->insn->flags & VNPU_F_INTEGER;
    if (is_integer && !(integer >> func & 1u)) {
        return FAIL_INSN("%s does not exist with flag int", dev_func_name(DEV_FUNC_UNARY, func));
    }
    if (!is_integer && func == VNPU_U_BITNOT) return FAIL_INSN("bitnot needs flag int");
    return SIM_OK;
}

static sim_status_t check_binary_type(dev_check_t *check, uint32_t func) {
    bool is_integer = check->insn->flags & VNPU_F_INTEGER;
    const char *name = dev_func_name(DEV_FUNC_BINARY, func);
    if (is_integer && func == VNPU_B_ATAN2)
        return FAIL_INSN("%s does not exist with flag int", name);
    if (!is_integer && func >= VNPU_B_AND && func <= VNPU_B_SHR) {
        return FAIL_INSN("%s needs flag int", name);
    }
    return SIM_OK;
}

/* dst and the sources [SRC0, SRC0 + count) lie where the vector unit reaches and have one shape. */
static sim_status_t check_elementwise(dev_check_t *check, uint32_t count) {
    sim_status_t status = check_in(check, DST, IN_VECTOR);
    for (uint32_t s = SRC0; s < SRC0 + count && status == SIM_OK; s++) {
        status = check_in(check, s, IN_VECTOR_SOURCE);
        if (status == SIM_OK) status = check_same_shape(check, DST, s);
    }
    return status;
}

static sim_status_t check_row_sums(dev_check_t *check) {
    bool is_partial = check->insn->flags & VNPU_F_PARTIAL;
    if (!has_operand(check, SRC3)) {
        if (is_partial) return FAIL_INSN("flag partial without row sums (src3)");
        return SIM_OK;
    }
    sim_status_t status = check_in(check, SRC3, IN_VECTOR);
    if (status == SIM_OK) status = check_partial_dtype(check, SRC3);
    if (status == SIM_OK) status = check_rows(check, DST, SRC3, is_partial);
    return status;
}

static sim_status_t check_unary(dev_check_t *check) {
    const vnpu_insn_t *insn = check->insn;
    bool is_scaled = insn->flags & VNPU_F_SCALE;
    if (is_scaled && (insn->flags & VNPU_F_INTEGER))
        return FAIL_INSN("scale does not exist with flag int");
    if (!is_scaled && (insn->imm[0] || insn->imm[1])) {
        return FAIL_INSN("immediates without flag scale");
    }
    sim_status_t status = check_unary_type(check, insn->func);
    if (status == SIM_OK) status = check_elementwise(check, 1);
    if (status == SIM_OK) status = check_row_sums(check);
    return status;
}

static sim_status_t check_binary(dev_check_t *check) {
    const vnpu_insn_t *insn = check->insn;
    bool has_second = insn->func2 != VNPU_B_NONE;
    if (has_second != has_operand(check, SRC2)) {
        return FAIL_INSN("a second function and src2 come together");
    }
    if (!has_second && (insn->flags & VNPU_F_REVERSE2)) return FAIL_INSN("reverse2 without func2");
    sim_status_t status = check_binary_type(check, insn->func);
    if (status == SIM_OK && has_second) status = check_binary_type(check, insn->func2);
    if (status == SIM_OK) status = check_elementwise(check, has_second ? 3 : 2);
    if (status == SIM_OK) status = check_row_sums(check);
    return status;
}

static sim_status_t check_reduce(dev_check_t *check) {
    bool is_partial = check->insn->flags & VNPU_F_PARTIAL;
    sim_status_t status = check_in(check, DST, IN_VECTOR);
    if (status == SIM_OK) status = check_in(check, SRC0, IN_VECTOR_SOURCE);
    if (status == SIM_OK && is_partial) status = check_partial_dtype(check, DST);
    if (status == SIM_OK) status = check_rows(check, SRC0, DST, is_partial);
    return status;
}

static sim_status_t check_fold(dev_check_t *check) {
    sim_status_t status = check_in(check, DST, IN_VECTOR);
    if (status == SIM_OK) status = check_in(check, SRC0, IN_VECTOR);
    if (status == SIM_OK) status = check_partial_dtype(check, SRC0);
    if (status == SIM_OK) {
        status = check_plain_dim(check, SRC0, operand_ap(check, SRC0)->ndims - 1u, VNPU_PARTIALS);
    }
    if (status == SIM_OK) status = check_rows(check, SRC0, DST, false);
    return status;
}

static sim_status_t check_operands(dev_check_t *check) {
    switch (check->info->op) {
    case VNPU_OP_NOP:
    case VNPU_OP_LOOP:
    case VNPU_OP_ENDLOOP:
    case VNPU_OP_SYNC:
    case VNPU_OP_FENCE:
    case VNPU_OP_TRAP:
    case VNPU_OP_MARK: return SIM_OK;
    case VNPU_OP_DMA_COPY:
    case VNPU_OP_DMA_TRANSPOSE: return check_dma_move(check);
    case VNPU_OP_DMA_FILL: return check_dma_fill(check);
    case VNPU_OP_DMA_GATHER: return check_dma_rows(check, SRC0, DST);
    case VNPU_OP_DMA_SCATTER: return check_dma_rows(check, DST, SRC0);
    case VNPU_OP_MM: return check_mm(check);
    case VNPU_OP_V_UNARY: return check_unary(check);
    case VNPU_OP_V_BINARY: return check_binary(check);
    case VNPU_OP_V_SELECT: return check_elementwise(check, 3);
    case VNPU_OP_V_REDUCE: return check_reduce(check);
    case VNPU_OP_V_FOLD: return check_fold(check);
    case VNPU_OP_V_ARGRED:
    case VNPU_OP_V_RANDOM:
    case VNPU_OP_V_SCAN:
    case VNPU_OP_REMOTE: break; /* refused before, as reserved */
    }
    return dev_check_fail_insn(check, SIM_ERROR_UNSUPPORTED, "not supported by this device");
}

/* ---- what every opcode has ---- */

static sim_status_t check_func(dev_check_t *check, dev_func_kind_t kind, uint32_t func,
                               const char *name) {
    if (kind == DEV_FUNC_NONE) {
        if (func != 0) return FAIL_INSN("%s %u: there is none here", name, func);
        return SIM_OK;
    }
    if (kind == DEV_FUNC_BINARY_OPTIONAL && func == 0) return SIM_OK;
    if (dev_func_name(kind, func) == NULL)
        return FAIL_INSN("%s %u does not exist here", name, func);
    return SIM_OK;
}

static sim_status_t check_encoding(dev_check_t *check) {
    const vnpu_insn_t *insn = check->insn;
    const dev_op_info_t *info = check->info;
    for (uint32_t bit = 0; bit < 16; bit++) {
        if (!(insn->flags >> bit & 1u) || (info->flags >> bit & 1u)) continue;
        const char *name = dev_flag_name(bit);
        return FAIL_INSN("flag %s (bit %u) does not exist here", name ? name : "?", bit);
    }
    sim_status_t status = check_func(check, info->func, insn->func, "func");
    if (status == SIM_OK) status = check_func(check, info->func2, insn->func2, "func2");
    if (status != SIM_OK) return status;
    for (uint32_t i = info->num_imm; i < 4; i++) {
        if (insn->imm[i] != 0) return FAIL_INSN("imm[%u] must be 0", i);
    }
    bool accumulates = insn->op == VNPU_OP_MM || (insn->flags & VNPU_F_PARTIAL);
    if (insn->not_first != 0 && insn->op == VNPU_OP_MM && (insn->flags & VNPU_F_ACCUMULATE))
        return FAIL_INSN("mask notfirst and flag acc exclude each other");
    if (insn->not_first != 0 && !accumulates) {
        return FAIL_INSN("mask notfirst, but nothing here accumulates");
    }
    return SIM_OK;
}

void dev_insn_access(const vnpu_insn_t *insn, const dev_op_info_t *info, uint32_t *out_read,
                     uint32_t *out_written) {
    uint32_t present = 0;
    for (uint32_t i = 0; i < DEV_NUM_OPERANDS; i++) {
        if (((info->required | info->optional) >> i & 1u) &&
            dev_insn_operand(insn, i) != VNPU_NO_AP) {
            present |= 1u << i;
        }
    }
    bool has_sums = insn->op == VNPU_OP_V_UNARY || insn->op == VNPU_OP_V_BINARY;
    uint32_t outputs = DEV_OPERAND_DST | (has_sums ? DEV_OPERAND_SRC(3) : 0);
    *out_written = present & outputs;
    *out_read = present & ~outputs;
    if (insn->flags & VNPU_F_ACCUMULATE) *out_read |= present & DEV_OPERAND_DST;
}

/* vector.passes.* = 0: the cores' engine has no such functions. */
static sim_status_t check_vector_classes(dev_check_t *check) {
    if (check->cls == NULL || check->insn->op < VNPU_OP_V_UNARY) return SIM_OK;
    sim_vector_class_t cls[2];
    dev_vector_classes(check->insn, &cls[0], &cls[1]);
    for (int i = 0; i < 2; i++) {
        sim_ratio_t passes =
            check->cls->vector.passes[cls[i]]; /* 0/1; 0/0 is none of a configuration */
        if (cls[i] == SIM_VECTOR_NONE || passes.num != 0 || passes.den == 0) continue;
        return dev_check_fail_insn(check, SIM_ERROR_UNSUPPORTED,
                                   "the vector engine of these cores lacks functions of class %s "
                                   "(vector.passes.%s = 0)",
                                   dev_vector_class_text(cls[i]), dev_vector_class_text(cls[i]));
    }
    return SIM_OK;
}

sim_status_t dev_check_op(dev_check_t *check) {
    const dev_op_info_t *info = check->info;
    sim_status_t status = check_encoding(check);
    if (status != SIM_OK) return status;
    for (uint32_t i = 0; i < DEV_NUM_OPERANDS; i++) {
        uint32_t ap = dev_insn_operand(check->insn, i);
        bool is_required = info->required >> i & 1u, is_optional = info->optional >> i & 1u;
        if (ap == VNPU_NO_AP) {
            if (is_required) return FAIL_INSN("%s is missing", dev_operand_name(i));
            continue;
        }
        if (!is_required && !is_optional)
            return FAIL_INSN("there is no %s here", dev_operand_name(i));
        if (ap >= check->program->header.num_aps) {
            return FAIL_INSN("%s: pattern %u of %u", dev_operand_name(i), ap,
                             check->program->header.num_aps);
        }
        status = check_no_window(check, i);
        if (status != SIM_OK) return status;
    }
    status = check_operands(check);
    if (status == SIM_OK) status = check_vector_classes(check);
    uint32_t read, written;
    dev_insn_access(check->insn, info, &read, &written);
    for (uint32_t i = 0; i < DEV_NUM_OPERANDS && status == SIM_OK; i++) {
        if (!((read | written) >> i & 1u)) continue;
        status = dev_check_use(check, i, read >> i & 1u, written >> i & 1u);
    }
    return status;
}
