#include "device/dev_isa_names.h"

#include "device/dev_dtype.h"

#define ON_ANY 0x0fu
#define ON_DMA (1u << VNPU_QUEUE_DMA)
#define ON_MTX (1u << VNPU_QUEUE_MATRIX)
#define ON_VEC (1u << VNPU_QUEUE_VECTOR)

#define D  DEV_OPERAND_DST
#define S0 DEV_OPERAND_SRC(0)
#define S1 DEV_OPERAND_SRC(1)
#define S2 DEV_OPERAND_SRC(2)
#define S3 DEV_OPERAND_SRC(3)

#define HOLD VNPU_F_NO_CONSUME
#define INT  VNPU_F_INTEGER
#define PART VNPU_F_PARTIAL

#define FN(kind) DEV_FUNC_##kind

/* clang-format off */
static const dev_op_info_t op_table[] = {
    /* op, name, queues, required, optional, imms, flags, func, func2, reserved */
    {VNPU_OP_NOP, "nop", ON_ANY, 0, 0, 0, HOLD, FN(NONE), FN(NONE), false},
    {VNPU_OP_LOOP, "loop", ON_ANY, 0, 0, 1, 0, FN(NONE), FN(NONE), false},
    {VNPU_OP_ENDLOOP, "endloop", ON_ANY, 0, 0, 0, 0, FN(NONE), FN(NONE), false},
    {VNPU_OP_SYNC, "sync", ON_ANY, 0, 0, 0, HOLD, FN(NONE), FN(NONE), false},
    {VNPU_OP_FENCE, "fence", ON_ANY, 0, 0, 0, HOLD, FN(NONE), FN(NONE), false},
    {VNPU_OP_TRAP, "trap", ON_ANY, 0, 0, 1, HOLD, FN(NONE), FN(NONE), false},
    {VNPU_OP_MARK, "mark", ON_ANY, 0, 0, 1, HOLD, FN(NONE), FN(NONE), false},
    {VNPU_OP_DMA_COPY, "dma_copy", ON_DMA, D | S0, 0, 2, HOLD | VNPU_F_ACCUMULATE | VNPU_F_PAD,
     FN(NONE), FN(NONE), false},
    {VNPU_OP_DMA_TRANSPOSE, "dma_transpose", ON_DMA, D | S0, 0, 2,
     HOLD | VNPU_F_ACCUMULATE | VNPU_F_PAD, FN(NONE), FN(NONE), false},
    {VNPU_OP_DMA_FILL, "dma_fill", ON_DMA, D, 0, 2, HOLD, FN(NONE), FN(NONE), false},
    {VNPU_OP_DMA_GATHER, "dma_gather", ON_DMA, D | S0 | S1, 0, 1, HOLD | VNPU_F_WRAP_NEGATIVE,
     FN(OOB), FN(NONE), false},
    {VNPU_OP_DMA_SCATTER, "dma_scatter", ON_DMA, D | S0 | S1, 0, 1,
     HOLD | VNPU_F_WRAP_NEGATIVE | VNPU_F_ACCUMULATE, FN(OOB), FN(NONE), false},
    {VNPU_OP_MM, "mm", ON_MTX, D | S0 | S1, 0, 0,
     HOLD | VNPU_F_KEEP_WEIGHTS | VNPU_F_ACCUMULATE, FN(KDIMS), FN(NONE), false},
    {VNPU_OP_V_UNARY, "v_unary", ON_VEC, D | S0, S3, 2, HOLD | VNPU_F_SCALE | INT | PART,
     FN(UNARY), FN(NONE), false},
    {VNPU_OP_V_BINARY, "v_binary", ON_VEC, D | S0 | S1, S2 | S3, 0,
     HOLD | VNPU_F_REVERSE | VNPU_F_REVERSE2 | INT | PART, FN(BINARY), FN(BINARY_OPTIONAL), false},
    {VNPU_OP_V_SELECT, "v_select", ON_VEC, D | S0 | S1 | S2, 0, 0, HOLD | INT, FN(NONE),
     FN(NONE), false},
    {VNPU_OP_V_REDUCE, "v_reduce", ON_VEC, D | S0, 0, 0, HOLD | INT | PART, FN(REDUCE),
     FN(MAP), false},
    {VNPU_OP_V_FOLD, "v_fold", ON_VEC, D | S0, 0, 0, HOLD | INT, FN(REDUCE), FN(NONE), false},
    {VNPU_OP_V_ARGRED, "v_argred", ON_VEC, D | S0, 0, 0, HOLD, FN(REDUCE), FN(NONE), true},
    {VNPU_OP_V_RANDOM, "v_random", ON_VEC, D, 0, 0, HOLD, FN(NONE), FN(NONE), true},
    {VNPU_OP_V_SCAN, "v_scan", ON_VEC, D | S0, 0, 0, HOLD, FN(REDUCE), FN(NONE), true},
    {VNPU_OP_REMOTE, "remote", ON_DMA, D | S0, 0, 0, HOLD, FN(NONE), FN(NONE), true},
};
/* clang-format on */

#define NUM_OPS  (sizeof op_table / sizeof op_table[0])
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char *const unary_names[VNPU_U_COUNT] = {
    [VNPU_U_COPY] = "copy",
    [VNPU_U_NEG] = "neg",
    [VNPU_U_ABS] = "abs",
    [VNPU_U_SQUARE] = "square",
    [VNPU_U_SIGN] = "sign",
    [VNPU_U_RELU] = "relu",
    [VNPU_U_FLOOR] = "floor",
    [VNPU_U_CEIL] = "ceil",
    [VNPU_U_TRUNC] = "trunc",
    [VNPU_U_ROUND] = "round",
    [VNPU_U_RECIP] = "recip",
    [VNPU_U_SQRT] = "sqrt",
    [VNPU_U_RSQRT] = "rsqrt",
    [VNPU_U_EXP] = "exp",
    [VNPU_U_EXPM1] = "expm1",
    [VNPU_U_LOG] = "log",
    [VNPU_U_LOG1P] = "log1p",
    [VNPU_U_SIN] = "sin",
    [VNPU_U_COS] = "cos",
    [VNPU_U_TANH] = "tanh",
    [VNPU_U_SIGMOID] = "sigmoid",
    [VNPU_U_ERF] = "erf",
    [VNPU_U_SILU] = "silu",
    [VNPU_U_GELU_ERF] = "gelu_erf",
    [VNPU_U_GELU_TANH] = "gelu_tanh",
    [VNPU_U_SOFTPLUS] = "softplus",
    [VNPU_U_NOT] = "not",
    [VNPU_U_BITNOT] = "bitnot",
    [VNPU_U_NE0] = "ne0",
    [VNPU_U_ISNAN] = "isnan",
    [VNPU_U_ISINF] = "isinf",
    [VNPU_U_ISNEGINF] = "isneginf",
    [VNPU_U_ISPOSINF] = "isposinf",
};

static const char *const binary_names[VNPU_B_COUNT] = {
    [VNPU_B_ADD] = "add",
    [VNPU_B_SUB] = "sub",
    [VNPU_B_MUL] = "mul",
    [VNPU_B_DIV] = "div",
    [VNPU_B_MAX] = "max",
    [VNPU_B_MIN] = "min",
    [VNPU_B_POW] = "pow",
    [VNPU_B_FMOD] = "fmod",
    [VNPU_B_REMAINDER] = "remainder",
    [VNPU_B_FLOORDIV] = "floordiv",
    [VNPU_B_ATAN2] = "atan2",
    [VNPU_B_EQ] = "eq",
    [VNPU_B_NE] = "ne",
    [VNPU_B_LT] = "lt",
    [VNPU_B_LE] = "le",
    [VNPU_B_GT] = "gt",
    [VNPU_B_GE] = "ge",
    [VNPU_B_AND] = "and",
    [VNPU_B_OR] = "or",
    [VNPU_B_XOR] = "xor",
    [VNPU_B_SHL] = "shl",
    [VNPU_B_SHR] = "shr",
    [VNPU_B_LAND] = "land",
    [VNPU_B_LOR] = "lor",
    [VNPU_B_LXOR] = "lxor",
};

static const char *const reduce_names[VNPU_R_COUNT] = {
    [VNPU_R_ADD] = "add", [VNPU_R_MAX] = "max", [VNPU_R_MIN] = "min", [VNPU_R_MUL] = "mul"};

static const char *const oob_names[] = {
    [VNPU_OOB_ERROR] = "error", [VNPU_OOB_CLAMP] = "clamp", [VNPU_OOB_SKIP] = "skip"};

static const char *const dtype_names[VNPU_DTYPE_COUNT] = {
    [VNPU_F32] = "f32",       [VNPU_BF16] = "bf16", [VNPU_F16] = "f16",   [VNPU_F8E4M3] = "f8e4m3",
    [VNPU_F8E5M2] = "f8e5m2", [VNPU_I8] = "i8",     [VNPU_U8] = "u8",     [VNPU_I16] = "i16",
    [VNPU_I32] = "i32",       [VNPU_I64] = "i64",   [VNPU_BOOL] = "bool", [VNPU_BFP8] = "bfp8",
    [VNPU_BFP4] = "bfp4"};

static const char *const space_names[VNPU_SPACE_COUNT] = {[VNPU_SPACE_DRAM] = "dram",
                                                          [VNPU_SPACE_SRAM] = "sram",
                                                          [VNPU_SPACE_ACC] = "acc",
                                                          [VNPU_SPACE_ARG] = "arg",
                                                          [VNPU_SPACE_IOTA] = "iota"};

static const char *const kdims_names[] = {"k1", "k2", "k3", "k4"};

static const char *const queue_names[VNPU_QUEUE_KIND_COUNT] = {[VNPU_QUEUE_CTRL] = "ctrl",
                                                               [VNPU_QUEUE_DMA] = "dma",
                                                               [VNPU_QUEUE_MATRIX] = "matrix",
                                                               [VNPU_QUEUE_VECTOR] = "vector"};

static const char *const arg_names[] = {[VNPU_ARG_SCALAR] = "scalar",
                                        [VNPU_ARG_IN] = "in",
                                        [VNPU_ARG_OUT] = "out",
                                        [VNPU_ARG_INOUT] = "inout"};

static const char *const clip_names[] = {[VNPU_CLIP_LOOP] = "loop",
                                         [VNPU_CLIP_GRID] = "grid",
                                         [VNPU_CLIP_BLOCK] = "block",
                                         [VNPU_CLIP_CYCLIC] = "cyclic"};

/* By bit: accumulate, keep weights, scale, reverse, reverse2, partial, integer, wrap negative, no
 * consume, pad. */
static const char *const flag_names[] = {"acc",     "keep", "scale", "reverse", "reverse2",
                                         "partial", "int",  "wrap",  "hold",    "pad"};
static_assert((1u << COUNT(flag_names)) - 1u == VNPU_F_ALL, "a name per flag");

const dev_op_info_t *dev_op_info(uint32_t op) {
    for (size_t i = 0; i < NUM_OPS; i++) {
        if (op_table[i].op == op) return &op_table[i];
    }
    return NULL;
}

const dev_op_info_t *dev_op_row(size_t i) {
    return i < NUM_OPS ? &op_table[i] : NULL;
}

static const char *name_at(const char *const *names, size_t count, uint32_t code) {
    return code < count ? names[code] : NULL;
}

const char *dev_func_name(dev_func_kind_t kind, uint32_t func) {
    switch (kind) {
    case DEV_FUNC_UNARY: return name_at(unary_names, COUNT(unary_names), func);
    case DEV_FUNC_MAP:
        if (func != VNPU_U_COPY && func != VNPU_U_SQUARE && func != VNPU_U_ABS &&
            func != VNPU_U_NE0) {
            return NULL;
        }
        return unary_names[func];
    case DEV_FUNC_BINARY:
    case DEV_FUNC_BINARY_OPTIONAL: return name_at(binary_names, COUNT(binary_names), func);
    case DEV_FUNC_REDUCE: return name_at(reduce_names, COUNT(reduce_names), func);
    case DEV_FUNC_OOB: return name_at(oob_names, COUNT(oob_names), func);
    case DEV_FUNC_KDIMS: return name_at(kdims_names, COUNT(kdims_names), func);
    case DEV_FUNC_NONE:
    case DEV_FUNC_KIND_COUNT: return NULL;
    }
    return NULL;
}

const char *dev_dtype_name(uint32_t dtype) {
    return name_at(dtype_names, COUNT(dtype_names), dtype);
}

const char *dev_space_name(uint32_t space) {
    return name_at(space_names, COUNT(space_names), space);
}

const char *dev_queue_kind_name(uint32_t kind) {
    return name_at(queue_names, COUNT(queue_names), kind);
}

const char *dev_arg_kind_name(uint32_t kind) {
    return name_at(arg_names, COUNT(arg_names), kind);
}

const char *dev_clip_mode_name(uint32_t mode) {
    return name_at(clip_names, COUNT(clip_names), mode);
}

const char *dev_flag_name(uint32_t bit) {
    return name_at(flag_names, COUNT(flag_names), bit);
}

uint16_t dev_insn_operand(const vnpu_insn_t *insn, uint32_t i) {
    return i == 0 ? insn->dst : insn->src[i - 1];
}

const char *dev_operand_name(uint32_t i) {
    static const char *const names[DEV_NUM_OPERANDS] = {"dst", "src0", "src1", "src2", "src3"};
    return name_at(names, COUNT(names), i);
}

bool dev_dtype_is_float(uint32_t dtype) {
    return dev_is_float((vnpu_dtype_t)dtype);
}
