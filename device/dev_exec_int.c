/* The integer functions of the vector engine: i64, wrapping (docs/numerics.md, "Integers"). */
#include "device/dev_exec_internal.h"

static int64_t wrap(uint64_t x) {
    return (int64_t)x;
}

static int64_t divide(int64_t a, int64_t b) {
    return b == -1 ? wrap(0u - (uint64_t)a) : a / b; /* INT64_MIN / -1 wraps */
}

static int64_t fmod_int(int64_t a, int64_t b) {
    return b == -1 ? 0 : a % b;
}

static int64_t remainder_int(int64_t a, int64_t b) {
    int64_t mod = fmod_int(a, b);
    return mod != 0 && (mod < 0) != (b < 0) ? mod + b : mod;
}

static int64_t floordiv_int(int64_t a, int64_t b) {
    int64_t quotient = divide(a, b);
    return fmod_int(a, b) != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

/* Negative exponents: 1 and -1 keep their powers, everything else is 0. */
static int64_t power(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (uint64_t e = (uint64_t)b; e; e >>= 1) {
        if (e & 1u) result *= base;
        base *= base;
    }
    return wrap(result);
}

static int64_t shift_left(int64_t a, int64_t b) {
    return b < 0 || b > 63 ? 0 : wrap((uint64_t)a << b);
}
static int64_t shift_right(int64_t a, int64_t b) {
    return a >> (b < 0 || b > 63 ? 63 : b);
}

#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++)                                                                 \
        dst[i] = (expression);                                                                     \
    return INT_OK

exec_int_fault_t exec_int_unary(vnpu_unary_t func, int64_t *dst, const int64_t *a, size_t n) {
    switch (func) {
    case VNPU_U_COPY: EACH(a[i]);
    case VNPU_U_NEG: EACH(wrap(0u - (uint64_t)a[i]));
    case VNPU_U_ABS: EACH(a[i] < 0 ? wrap(0u - (uint64_t)a[i]) : a[i]);
    case VNPU_U_SQUARE: EACH(wrap((uint64_t)a[i] * (uint64_t)a[i]));
    case VNPU_U_SIGN: EACH((a[i] > 0) - (a[i] < 0));
    case VNPU_U_RELU: EACH(a[i] > 0 ? a[i] : 0);
    case VNPU_U_NOT: EACH(a[i] == 0);
    case VNPU_U_BITNOT: EACH(~a[i]);
    case VNPU_U_NE0: EACH(a[i] != 0);
    case VNPU_U_FLOOR:
    case VNPU_U_CEIL:
    case VNPU_U_TRUNC:
    case VNPU_U_ROUND:
    case VNPU_U_RECIP:
    case VNPU_U_SQRT:
    case VNPU_U_RSQRT:
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
    case VNPU_U_SOFTPLUS:
    case VNPU_U_ISNAN:
    case VNPU_U_ISINF:
    case VNPU_U_ISNEGINF:
    case VNPU_U_ISPOSINF:
    case VNPU_U_COUNT: break;
    }
    return INT_UNSUPPORTED;
}

static bool has_zero(const int64_t *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (b[i] == 0) return true;
    }
    return false;
}

exec_int_fault_t exec_int_binary(vnpu_binary_t func, int64_t *dst, const int64_t *a,
                                 const int64_t *b, size_t n) {
    bool divides = func == VNPU_B_DIV || func == VNPU_B_FMOD || func == VNPU_B_REMAINDER ||
                   func == VNPU_B_FLOORDIV;
    if (divides && has_zero(b, n)) return INT_DIVISION_BY_ZERO;
    switch (func) {
    case VNPU_B_ADD: EACH(wrap((uint64_t)a[i] + (uint64_t)b[i]));
    case VNPU_B_SUB: EACH(wrap((uint64_t)a[i] - (uint64_t)b[i]));
    case VNPU_B_MUL: EACH(wrap((uint64_t)a[i] * (uint64_t)b[i]));
    case VNPU_B_DIV: EACH(divide(a[i], b[i]));
    case VNPU_B_MAX: EACH(a[i] > b[i] ? a[i] : b[i]);
    case VNPU_B_MIN: EACH(a[i] < b[i] ? a[i] : b[i]);
    case VNPU_B_POW: EACH(power(a[i], b[i]));
    case VNPU_B_FMOD: EACH(fmod_int(a[i], b[i]));
    case VNPU_B_REMAINDER: EACH(remainder_int(a[i], b[i]));
    case VNPU_B_FLOORDIV: EACH(floordiv_int(a[i], b[i]));
    case VNPU_B_EQ: EACH(a[i] == b[i]);
    case VNPU_B_NE: EACH(a[i] != b[i]);
    case VNPU_B_LT: EACH(a[i] < b[i]);
    case VNPU_B_LE: EACH(a[i] <= b[i]);
    case VNPU_B_GT: EACH(a[i] > b[i]);
    case VNPU_B_GE: EACH(a[i] >= b[i]);
    case VNPU_B_AND: EACH(a[i] & b[i]);
    case VNPU_B_OR: EACH(a[i] | b[i]);
    case VNPU_B_XOR: EACH(a[i] ^ b[i]);
    case VNPU_B_SHL: EACH(shift_left(a[i], b[i]));
    case VNPU_B_SHR: EACH(shift_right(a[i], b[i]));
    case VNPU_B_LAND: EACH(a[i] != 0 && b[i] != 0);
    case VNPU_B_LOR: EACH(a[i] != 0 || b[i] != 0);
    case VNPU_B_LXOR: EACH((a[i] != 0) != (b[i] != 0));
    case VNPU_B_ATAN2:
    case VNPU_B_NONE:
    case VNPU_B_COUNT: break;
    }
    return INT_UNSUPPORTED;
}
