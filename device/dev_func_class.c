#include "device/dev_func_class.h"

static sim_vector_class_t unary_class(uint8_t func) {
    switch ((vnpu_unary_t)func) {
    case VNPU_U_COPY: return SIM_VECTOR_CAST;
    case VNPU_U_SQUARE: return SIM_VECTOR_MUL;
    case VNPU_U_RECIP:
    case VNPU_U_SQRT:
    case VNPU_U_RSQRT: return SIM_VECTOR_DIV;
    case VNPU_U_EXP:
    case VNPU_U_EXPM1:
    case VNPU_U_LOG:
    case VNPU_U_LOG1P:
    case VNPU_U_SIN:
    case VNPU_U_COS:
    case VNPU_U_TANH:
    case VNPU_U_SIGMOID:
    case VNPU_U_ERF:
    case VNPU_U_SILU:
    case VNPU_U_GELU_ERF:
    case VNPU_U_GELU_TANH:
    case VNPU_U_SOFTPLUS: return SIM_VECTOR_TRANSCENDENTAL;
    case VNPU_U_NEG:
    case VNPU_U_ABS:
    case VNPU_U_SIGN:
    case VNPU_U_RELU:
    case VNPU_U_FLOOR:
    case VNPU_U_CEIL:
    case VNPU_U_TRUNC:
    case VNPU_U_ROUND:
    case VNPU_U_NOT:
    case VNPU_U_BITNOT:
    case VNPU_U_NE0:
    case VNPU_U_ISNAN:
    case VNPU_U_ISINF:
    case VNPU_U_ISNEGINF:
    case VNPU_U_ISPOSINF:
    case VNPU_U_COUNT: return SIM_VECTOR_ALU;
    }
    return SIM_VECTOR_ALU;
}

static sim_vector_class_t binary_class(uint8_t func) {
    switch ((vnpu_binary_t)func) {
    case VNPU_B_NONE: return SIM_VECTOR_NONE;
    case VNPU_B_MUL: return SIM_VECTOR_MUL;
    case VNPU_B_DIV:
    case VNPU_B_FMOD:
    case VNPU_B_REMAINDER:
    case VNPU_B_FLOORDIV: return SIM_VECTOR_DIV;
    case VNPU_B_POW:
    case VNPU_B_ATAN2: return SIM_VECTOR_TRANSCENDENTAL;
    case VNPU_B_ADD:
    case VNPU_B_SUB:
    case VNPU_B_MAX:
    case VNPU_B_MIN:
    case VNPU_B_EQ:
    case VNPU_B_NE:
    case VNPU_B_LT:
    case VNPU_B_LE:
    case VNPU_B_GT:
    case VNPU_B_GE:
    case VNPU_B_AND:
    case VNPU_B_OR:
    case VNPU_B_XOR:
    case VNPU_B_SHL:
    case VNPU_B_SHR:
    case VNPU_B_LAND:
    case VNPU_B_LOR:
    case VNPU_B_LXOR:
    case VNPU_B_COUNT: return SIM_VECTOR_ALU;
    }
    return SIM_VECTOR_ALU;
}

void dev_vector_classes(const vnpu_insn_t *insn, sim_vector_class_t *out_cls,
                        sim_vector_class_t *out_cls2) {
    *out_cls2 = SIM_VECTOR_NONE;
    switch ((vnpu_op_t)insn->op) {
    case VNPU_OP_V_UNARY:
        *out_cls = unary_class(insn->func);
        break; /* scale and bias ride along, as on NKI's engine */
    case VNPU_OP_V_BINARY:
        *out_cls = binary_class(insn->func);
        *out_cls2 = binary_class(insn->func2);
        break;
    case VNPU_OP_V_SELECT: *out_cls = SIM_VECTOR_ALU; break;
    default: *out_cls = SIM_VECTOR_REDUCE; break;
    }
}

const char *dev_vector_class_text(sim_vector_class_t cls) {
    switch (cls) {
    case SIM_VECTOR_ALU: return "alu";
    case SIM_VECTOR_MUL: return "mul";
    case SIM_VECTOR_DIV: return "div";
    case SIM_VECTOR_TRANSCENDENTAL: return "transcendental";
    case SIM_VECTOR_CAST: return "cast";
    case SIM_VECTOR_REDUCE: return "reduce";
    case SIM_VECTOR_NONE:
    case SIM_VECTOR_CLASS_COUNT: break;
    }
    return "?";
}
