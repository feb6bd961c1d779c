/* Element types: casts of the vector engine and the DMA against references of their own; integer
 * functions. */
#include <math.h>

#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"

enum { LEVELS = 3, N = 1027 };
static const int levels[LEVELS] = {1, 2, 5};

static uint32_t open_levels(exec_env_t env[LEVELS]) {
    uint32_t count = __builtin_cpu_supports("avx512f") ? 3 : 2;
    for (uint32_t l = 0; l < count; l++) {
        env_open(&env[l], 1, (dev_exec_options_t){.isa_level = levels[l], .threads = 1});
    }
    return count;
}

/* ---- narrow floats by their definition ---- */

typedef struct format {
    vnpu_dtype_t dtype;
    int exponent_bits, mantissa_bits;
    bool has_infinity;
} format_t;
static const format_t formats[] = {{VNPU_BF16, 8, 7, true},
                                   {VNPU_F16, 5, 10, true},
                                   {VNPU_F8E5M2, 5, 2, true},
                                   {VNPU_F8E4M3, 4, 3, false}};

/* Value of a code without its sign; infinities and NaN included. */
static double decode(const format_t *f, uint32_t code) {
    uint32_t mantissa = code & ((1u << f->mantissa_bits) - 1u);
    int exponent = (int)(code >> f->mantissa_bits), bias = (1 << (f->exponent_bits - 1)) - 1;
    int top = (1 << f->exponent_bits) - 1;
    if (f->has_infinity && exponent == top) return mantissa ? NAN : INFINITY;
    if (!f->has_infinity && exponent == top && mantissa == (1u << f->mantissa_bits) - 1u)
        return NAN;
    double fraction = (double)mantissa / (double)(1u << f->mantissa_bits);
    return exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1.0 + fraction, exponent - bias);
}

/* Nearest code, ties to the even one; beyond the largest value by half a step: infinity, or NaN. */
static uint32_t encode(const format_t *f, double x) {
    uint32_t last =
        (1u << (f->exponent_bits + f->mantissa_bits)) - 1u; /* the largest finite code */
    last -= f->has_infinity ? 1u << f->mantissa_bits : 1u;
    uint32_t low = 0, high = last; /* finite codes ascend */
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (decode(f, middle) <= x)
            low = middle;
        else
            high = middle - 1;
    }
    double below = decode(f, low);
    double above = low < last ? decode(f, low + 1) : below + (below - decode(f, low - 1));
    if (x - below > above - x || (x - below == above - x && low % 2)) low++;
    return low; /* last + 1 is infinity, or the NaN of f8e4m3 */
}

static void cast(exec_env_t *env, vnpu_dtype_t from, void *x, vnpu_dtype_t to, void *y, uint32_t n,
                 uint16_t flags) {
    test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, to, 0, n, 0, 0), y, n * vnpu_dtype_bytes(to)};
    test_operand_t src = {ap_dense(VNPU_SPACE_SRAM, from, 0, n, 0, 0), x,
                          n * vnpu_dtype_bytes(from)};
    test_operand_t *ops[5] = {&dst, &src};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_V_UNARY);
    insn.func = VNPU_U_COPY;
    insn.flags = flags;
    run_insn_ok(env, insn, ops);
}

static uint32_t code_at(const format_t *f, const void *data, uint32_t i) {
    return vnpu_dtype_bytes(f->dtype) == 2 ? ((const uint16_t *)data)[i]
                                           : ((const uint8_t *)data)[i];
}

Test(exec_types, every_narrow_float_widens_exactly) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static uint16_t codes[65536];
    static float out[65536];
    for (uint32_t k = 0; k < 4; k++) {
        const format_t *f = &formats[k];
        uint32_t bits = 1u + (uint32_t)(f->exponent_bits + f->mantissa_bits), n = 1u << bits,
                 sign = n / 2;
        for (uint32_t i = 0; i < n; i++) {
            if (bits == 16)
                codes[i] = (uint16_t)i;
            else
                ((uint8_t *)codes)[i] = (uint8_t)i;
        }
        for (uint32_t l = 0; l < count; l++) {
            cast(&env[l], f->dtype, codes, VNPU_F32, out, n, 0);
            for (uint32_t i = 0; i < n; i++) {
                double want = decode(f, i % sign) * (i >= sign ? -1.0 : 1.0);
                bool is_right = isnan(want)
                                    ? out[i] != out[i]
                                    : (double)out[i] == want && !signbit(out[i]) == !signbit(want);
                cr_assert(is_right, "dtype %d code 0x%x level %d: %a", f->dtype, i, levels[l],
                          (double)out[i]);
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

Test(exec_types, narrow_floats_round_to_nearest_even) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static float x[20000];
    static uint16_t out[20000];
    for (uint32_t k = 0; k < 4; k++) {
        const format_t *f = &formats[k];
        uint32_t codes = 1u << (f->exponent_bits + f->mantissa_bits), n = 0;
        uint64_t seed = k;
        while (n + 3 < 20000) { /* codes, midpoints of two codes, and their neighbours */
            uint32_t code = (uint32_t)dev_test_between(&seed, 0, codes - 2);
            double a = decode(f, code), b = decode(f, code + 1);
            if (isfinite(a) && !isfinite(b)) b = a + (a - decode(f, code - 1));
            if (!isfinite(a) || (float)((a + b) / 2) > 3e38f) continue;
            float middle = (float)((a + b) / 2);
            x[n++] = middle;
            x[n++] = -nextafterf(middle, 0.0f);
            x[n++] = nextafterf(middle, INFINITY);
        }
        x[0] = INFINITY, x[1] = NAN, x[2] = -0.0f, x[3] = 3e38f;
        for (uint32_t l = 0; l < count; l++) {
            cast(&env[l], VNPU_F32, x, f->dtype, out, n, 0);
            for (uint32_t i = 0; i < n; i++) {
                uint32_t got = code_at(f, out, i);
                if (x[i] != x[i]) {
                    cr_assert(isnan(decode(f, got % codes)));
                    continue;
                }
                uint32_t want = encode(f, fabs((double)x[i])) | (signbit(x[i]) ? codes : 0);
                if (isinf(x[i]) && f->has_infinity) want = encode(f, 1e300);
                cr_assert_eq(got, want, "dtype %d level %d: %a -> 0x%x, not 0x%x", f->dtype,
                             levels[l], (double)x[i], got, want);
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

/* ---- integers ---- */

static const vnpu_dtype_t int_types[] = {VNPU_I8, VNPU_U8, VNPU_I16, VNPU_I32, VNPU_I64, VNPU_BOOL};
enum { INT_TYPES = 6 };

static int64_t low_of(vnpu_dtype_t t) {
    return t == VNPU_I8    ? -128
           : t == VNPU_I16 ? -32768
           : t == VNPU_I32 ? INT32_MIN
           : t == VNPU_I64 ? INT64_MIN
                           : 0;
}
static int64_t high_of(vnpu_dtype_t t) {
    return t == VNPU_I8    ? 127
           : t == VNPU_U8  ? 255
           : t == VNPU_I16 ? 32767
           : t == VNPU_I32 ? INT32_MAX
           : t == VNPU_I64 ? INT64_MAX
                           : 1;
}

Test(exec_types, float_to_integer_truncates_and_saturates) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static float x[N];
    static uint8_t out[8 * N];
    uint64_t seed = 4;
    for (uint32_t i = 0; i < N; i++)
        x[i] = ldexpf((float)dev_test_between(&seed, -1000, 1000),
                      (int)dev_test_between(&seed, -12, 60));
    const float special[] = {NAN,      INFINITY,       -INFINITY, -0.0f,          127.99f,
                             128.0f,   -128.99f,       -129.0f,   255.5f,         256.0f,
                             -0.5f,    0x1p31f,        -0x1p31f,  0x1.fffffep30f, 0x1p63f,
                             -0x1p63f, 0x1.fffffep62f, 32767.5f,  1e-40f};
    memcpy(x, special, sizeof special);
    for (uint32_t t = 0; t < INT_TYPES; t++) {
        vnpu_dtype_t type = int_types[t];
        for (uint32_t l = 0; l < count; l++) {
            cast(&env[l], VNPU_F32, x, type, out, N, 0);
            for (uint32_t i = 0; i < N; i++) {
                double v = (double)x[i];
                int64_t want = isnan(v)                     ? 0
                               : v >= (double)high_of(type) ? high_of(type)
                               : v <= (double)low_of(type)  ? low_of(type)
                                                            : (int64_t)trunc(v);
                if (type == VNPU_BOOL) want = v != 0.0;
                int64_t got = dev_load_i64(type, out + i * vnpu_dtype_bytes(type));
                cr_assert_eq(got, want, "%a -> dtype %d level %d: %lld, not %lld", v, type,
                             levels[l], (long long)got, (long long)want);
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

static void random_ints(vnpu_dtype_t type, void *data, uint32_t n, uint64_t seed) {
    for (uint32_t i = 0; i < n; i++) {
        int64_t v = (int64_t)dev_test_random(&seed) >> dev_test_between(&seed, 0, 63);
        dev_store_i64(type, (uint8_t *)data + i * vnpu_dtype_bytes(type), v);
    }
}

Test(exec_types, integers_wrap_and_widen) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static uint8_t x[8 * N], out[8 * N];
    static float floats[N];
    for (uint32_t a = 0; a < INT_TYPES; a++) {
        random_ints(int_types[a], x, N, a);
        if (int_types[a] == VNPU_BOOL) x[5] = 77; /* reads as 1 */
        for (uint32_t l = 0; l < count; l++) {
            cast(&env[l], int_types[a], x, VNPU_F32, floats, N, 0);
            for (uint32_t i = 0; i < N; i++) {
                cr_assert_eq(floats[i], (float)dev_load_i64(
                                            int_types[a], x + i * vnpu_dtype_bytes(int_types[a])));
            }
            for (uint32_t b = 0; b < INT_TYPES; b++) {
                cast(&env[l], int_types[a], x, int_types[b], out, N, VNPU_F_INTEGER);
                for (uint32_t i = 0; i < N; i++) {
                    int64_t v = dev_load_i64(int_types[a], x + i * vnpu_dtype_bytes(int_types[a])),
                            want = v;
                    switch (int_types[b]) {
                    case VNPU_I8: want = (int8_t)v; break;
                    case VNPU_U8: want = (uint8_t)v; break;
                    case VNPU_I16: want = (int16_t)v; break;
                    case VNPU_I32: want = (int32_t)v; break;
                    case VNPU_BOOL: want = v != 0; break;
                    default: break;
                    }
                    int64_t got =
                        dev_load_i64(int_types[b], out + i * vnpu_dtype_bytes(int_types[b]));
                    cr_assert_eq(got, want, "dtype %d -> %d: %lld", int_types[a], int_types[b],
                                 (long long)v);
                }
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

/* ---- integer functions ---- */

__extension__ typedef __int128 wide_t;

static int64_t int_ref(vnpu_binary_t func, int64_t a, int64_t b) {
    wide_t x = a, y = b, q;
    switch (func) {
    case VNPU_B_ADD: return (int64_t)(x + y);
    case VNPU_B_SUB: return (int64_t)(x - y);
    case VNPU_B_MUL: return (int64_t)(x * y);
    case VNPU_B_DIV: return (int64_t)(x / y);
    case VNPU_B_MAX: return x > y ? a : b;
    case VNPU_B_MIN: return x < y ? a : b;
    case VNPU_B_FMOD: return (int64_t)(x % y);
    case VNPU_B_REMAINDER: q = x % y; return (int64_t)(q != 0 && (q < 0) != (y < 0) ? q + y : q);
    case VNPU_B_FLOORDIV: q = x / y; return (int64_t)(q * y != x && (x < 0) != (y < 0) ? q - 1 : q);
    case VNPU_B_POW: {
        if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
        uint64_t r = 1;
        for (int64_t i = 0; i < b; i++)
            r *= (uint64_t)a;
        return (int64_t)r;
    }
    case VNPU_B_EQ: return x == y;
    case VNPU_B_NE: return x != y;
    case VNPU_B_LT: return x < y;
    case VNPU_B_LE: return x <= y;
    case VNPU_B_GT: return x > y;
    case VNPU_B_GE: return x >= y;
    case VNPU_B_AND: return a & b;
    case VNPU_B_OR: return a | b;
    case VNPU_B_XOR: return a ^ b;
    case VNPU_B_SHL: return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
    case VNPU_B_SHR: return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b;
    case VNPU_B_LAND: return x != 0 && y != 0;
    case VNPU_B_LOR: return x != 0 || y != 0;
    case VNPU_B_LXOR: return (x != 0) != (y != 0);
    case VNPU_B_NONE:
    case VNPU_B_ATAN2:
    case VNPU_B_COUNT: break;
    }
    return 0;
}

static bool divides(uint32_t func) {
    return func == VNPU_B_DIV || func == VNPU_B_FMOD || func == VNPU_B_REMAINDER ||
           func == VNPU_B_FLOORDIV;
}

static vnpu_insn_t int_insn(vnpu_op_t op, uint8_t func, uint8_t func2) {
    vnpu_insn_t insn = dev_image_insn(op);
    insn.func = func;
    insn.func2 = func2;
    insn.flags = VNPU_F_INTEGER;
    return insn;
}

Test(exec_types, integer_binary_functions) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    static int64_t x[N], y[N], out[N], chained[N];
    for (uint8_t func = 1; func < VNPU_B_COUNT; func++) {
        if (func == VNPU_B_ATAN2) continue;
        random_ints(VNPU_I64, x, N, func);
        random_ints(VNPU_I64, y, N, func + 100);
        x[0] = INT64_MIN, y[0] = -1, x[1] = INT64_MAX, y[1] = INT64_MIN, x[2] = -7, y[2] = 2,
        x[3] = 7, y[3] = -2;
        for (uint32_t i = 0; i < N; i++) {
            if (divides(func) && y[i] == 0) y[i] = 3;
            if (func == VNPU_B_SHL || func == VNPU_B_SHR) y[i] %= 70;
            if (func == VNPU_B_POW) y[i] %= 100;
        }
        test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, N, 0, 0), out, sizeof out};
        test_operand_t a = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, N, 0, 0), x, sizeof x};
        test_operand_t b = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, N, 0, 0), y, sizeof y};
        test_operand_t *ops[5] = {&dst, &a, &b};
        run_insn_ok(&env, int_insn(VNPU_OP_V_BINARY, func, 0), ops);
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(out[i], int_ref(func, x[i], y[i]), "func %u (%lld, %lld) = %lld", func,
                         (long long)x[i], (long long)y[i], (long long)out[i]);
        }
        test_operand_t then = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, N, 0, 0), chained,
                               sizeof chained};
        test_operand_t *chain[5] = {&then, &a, &b, &a};
        vnpu_insn_t insn = int_insn(VNPU_OP_V_BINARY, func, VNPU_B_SUB);
        insn.flags |= VNPU_F_REVERSE2;
        run_insn_ok(&env, insn, chain);
        for (uint32_t i = 0; i < N; i++)
            cr_assert_eq(chained[i], (int64_t)((uint64_t)x[i] - (uint64_t)out[i]));
    }
    env_close(&env);
}

Test(exec_types, integer_unary_select_and_reductions) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    enum { ROWS = 3, COLS = 341 };
    static int64_t x[ROWS * COLS], out[ROWS * COLS], sums[ROWS];
    random_ints(VNPU_I64, x, ROWS * COLS, 1);
    x[0] = INT64_MIN;
    x[1] = 0;
    static const vnpu_unary_t funcs[] = {VNPU_U_COPY,   VNPU_U_NEG,    VNPU_U_ABS,
                                         VNPU_U_SQUARE, VNPU_U_SIGN,   VNPU_U_RELU,
                                         VNPU_U_NOT,    VNPU_U_BITNOT, VNPU_U_NE0};
    test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, ROWS, COLS, 0), out, sizeof out};
    test_operand_t src = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, ROWS, COLS, 0), x, sizeof x};
    test_operand_t row = {ap_dense(VNPU_SPACE_SRAM, VNPU_I64, 0, ROWS, 0, 0), sums, sizeof sums};
    for (uint32_t f = 0; f < 9; f++) {
        test_operand_t *ops[5] = {&dst, &src, NULL, NULL, &row};
        run_insn_ok(&env, int_insn(VNPU_OP_V_UNARY, (uint8_t)funcs[f], 0), ops);
        for (uint32_t r = 0; r < ROWS; r++) {
            uint64_t sum = 0;
            for (uint32_t c = 0; c < COLS; c++) {
                int64_t v = x[r * COLS + c], want = v;
                switch (funcs[f]) {
                case VNPU_U_NEG: want = (int64_t) - (uint64_t)v; break;
                case VNPU_U_ABS: want = v < 0 ? (int64_t) - (uint64_t)v : v; break;
                case VNPU_U_SQUARE: want = (int64_t)((uint64_t)v * (uint64_t)v); break;
                case VNPU_U_SIGN: want = v > 0 ? 1 : v < 0 ? -1 : 0; break;
                case VNPU_U_RELU: want = v < 0 ? 0 : v; break;
                case VNPU_U_NOT: want = !v; break;
                case VNPU_U_BITNOT: want = -1 - v; break;
                case VNPU_U_NE0: want = v != 0; break;
                default: break;
                }
                cr_assert_eq(out[r * COLS + c], want, "func %d (%lld)", funcs[f], (long long)v);
                sum += (uint64_t)want;
            }
            cr_assert_eq((uint64_t)sums[r], sum);
        }
    }
    for (uint8_t func = VNPU_R_ADD; func < VNPU_R_COUNT; func++) {
        test_operand_t *ops[5] = {&row, &src};
        run_insn_ok(&env, int_insn(VNPU_OP_V_REDUCE, func, VNPU_U_COPY), ops);
        for (uint32_t r = 0; r < ROWS; r++) {
            const int64_t *v = x + r * COLS;
            int64_t want = v[0];
            for (uint32_t c = 1; c < COLS; c++) {
                want = func == VNPU_R_ADD   ? (int64_t)((uint64_t)want + (uint64_t)v[c])
                       : func == VNPU_R_MUL ? (int64_t)((uint64_t)want * (uint64_t)v[c])
                       : func == VNPU_R_MAX ? (want > v[c] ? want : v[c])
                                            : (want < v[c] ? want : v[c]);
            }
            cr_assert_eq(sums[r], want, "func %u", func);
        }
    }
    /* Counting true values of a bool row. */
    static uint8_t flags[ROWS * COLS];
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        flags[i] = (uint8_t)(x[i] & 3);
    test_operand_t bools = {ap_dense(VNPU_SPACE_SRAM, VNPU_BOOL, 0, ROWS, COLS, 0), flags,
                            sizeof flags};
    test_operand_t *ops[5] = {&row, &bools};
    run_insn_ok(&env, int_insn(VNPU_OP_V_REDUCE, VNPU_R_ADD, VNPU_U_COPY), ops);
    for (uint32_t r = 0; r < ROWS; r++) {
        int64_t want = 0;
        for (uint32_t c = 0; c < COLS; c++)
            want += flags[r * COLS + c] != 0;
        cr_assert_eq(sums[r], want);
    }
    test_operand_t *choice[5] = {&dst, &bools, &src, &src};
    run_insn_ok(&env, int_insn(VNPU_OP_V_SELECT, 0, 0), choice);
    cr_assert_eq(memcmp(out, x, sizeof x), 0);
    env_close(&env);
}

Test(exec_types, integer_division_by_zero_is_a_fault) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){0});
    static const uint8_t funcs[] = {VNPU_B_DIV, VNPU_B_FMOD, VNPU_B_REMAINDER, VNPU_B_FLOORDIV};
    for (uint32_t f = 0; f < 4; f++) {
        int32_t x[3] = {1, 2, 3}, y[3] = {1, 0, 1}, out[3];
        test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, 3, 0, 0), out, 12};
        test_operand_t a = {ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, 3, 0, 0), x, 12};
        test_operand_t b = {ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, 3, 0, 0), y, 12};
        test_operand_t *ops[5] = {&dst, &a, &b};
        sim_error_t err = {0};
        cr_assert_eq(run_insn(&env, int_insn(VNPU_OP_V_BINARY, funcs[f], 0), ops, NULL, 0, &err),
                     SIM_ERROR_ILLEGAL_INSTRUCTION);
        cr_assert_not_null(strstr(err.text, "integer division by zero"), "%s", err.text);
    }
    env_close(&env);
}

/* ---- timing mode ---- */

Test(exec_types, timing_mode_computes_integers_only) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.mode = DEV_EXEC_TIMING});
    enum { COUNT = 20 };
    int32_t x[COUNT], y[COUNT], sums[1] = {-1};
    float f[COUNT];
    uint8_t flags[COUNT];
    for (int32_t i = 0; i < COUNT; i++)
        x[i] = i, y[i] = 1000, f[i] = (float)i;
    memset(flags, 0xff, COUNT);
    test_operand_t ints = {ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, COUNT, 0, 0), x, sizeof x};
    test_operand_t result = {ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, COUNT, 0, 0), y, sizeof y};
    test_operand_t floats = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, COUNT, 0, 0), f, sizeof f};
    test_operand_t bools = {ap_dense(VNPU_SPACE_SRAM, VNPU_BOOL, 0, COUNT, 0, 0), flags, COUNT};
    test_operand_t sum = {ap_dense(VNPU_SPACE_SRAM, VNPU_I32, 0, 1, 0, 0), sums, sizeof sums};
    vnpu_ap_t argument = ap_dense(VNPU_SPACE_ARG, VNPU_F32, 0, COUNT, 0, 0);
    argument.dim[0].stride = 0;
    test_operand_t threshold = {.ap = argument};

    test_operand_t *add[5] = {&result, &ints, &ints, NULL, &sum};
    run_insn_ok(&env, int_insn(VNPU_OP_V_BINARY, VNPU_B_ADD, 0), add);
    for (int32_t i = 0; i < COUNT; i++)
        cr_assert_eq(y[i], 2 * i);
    cr_assert_eq(sums[0], COUNT * (COUNT - 1));

    /* An integer against a float argument: everything is known. */
    test_operand_t *less[5] = {&bools, &ints, &threshold};
    vnpu_insn_t compare = dev_image_insn(VNPU_OP_V_BINARY);
    compare.func = VNPU_B_LT;
    uint64_t argument_bits = dev_f32_bits(7.5f);
    sim_error_t err = {0};
    cr_assert_eq(run_insn(&env, compare, less, &argument_bits, 1, &err), SIM_OK, "%s", err.text);
    for (int32_t i = 0; i < COUNT; i++)
        cr_assert_eq(flags[i], i < 8);

    /* A bool of unknown floats is 0, a float is not touched. */
    test_operand_t *unknown[5] = {&bools, &floats, &threshold};
    cr_assert_eq(run_insn(&env, compare, unknown, &argument_bits, 1, &err), SIM_OK, "%s", err.text);
    for (int32_t i = 0; i < COUNT; i++)
        cr_assert_eq(flags[i], 0);
    test_operand_t *exponential[5] = {&floats, &floats};
    vnpu_insn_t unary = dev_image_insn(VNPU_OP_V_UNARY);
    unary.func = VNPU_U_EXP;
    run_insn_ok(&env, unary, exponential);
    for (int32_t i = 0; i < COUNT; i++)
        cr_assert_eq(f[i], (float)i);
    env_close(&env);
}
