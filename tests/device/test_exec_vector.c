/* The vector engine on floats: every function against double references, the same bits at every
 * level of the host. */
#include <math.h>

#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"

enum { LEVELS = 3 };
static const int levels[LEVELS] = {1, 2, 5};

/* One executor per level that the host has. */
static uint32_t open_levels(exec_env_t env[LEVELS]) {
    uint32_t count = __builtin_cpu_supports("avx512f") ? 3 : 2;
    for (uint32_t l = 0; l < count; l++) {
        env_open(&env[l], 1, (dev_exec_options_t){.isa_level = levels[l], .threads = 1});
    }
    return count;
}

static bool same_bits(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool both_nan = a[i] != a[i] && b[i] != b[i];
        if (!both_nan && dev_f32_bits(a[i]) != dev_f32_bits(b[i])) return false;
    }
    return true;
}

/* Distance of a result from the reference in units of the last place of the reference. */
static double ulps(float got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0.0 : INFINITY;
    float nearest = (float)want;
    if (isinf(nearest) || isinf(got)) {
        /* The rounded reference overflows: the largest float is one unit away. */
        return got == nearest                                                            ? 0.0
               : fabs((double)got) >= (double)0x1.fffffep127f && (got > 0) == (want > 0) ? 1.0
                                                                                         : INFINITY;
    }
    int exponent;
    (void)frexp(want, &exponent);
    double unit = ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
    return fabs((double)got - want) / unit;
}

static void fill_random(float *x, uint32_t n, double low, double high, uint64_t seed) {
    static const float special[] = {
        0.0f,    -0.0f, 1.0f,  -1.0f,  INFINITY, -INFINITY,       NAN,   0.5f,  -0.5f,
        1.5f,    2.5f,  -2.5f, 1e-40f, -1e-40f,  0x1.fffffep127f, 20.0f, 88.0f, -88.0f,
        0.9375f, 4.0f,  1e-8f, 1e8f};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = dev_test_random(&seed);
        double t = (double)(r >> 11) * 0x1p-53;
        if (r % 3 == 0) {
            x[i] = (float)(low + t * (high - low));
        } else { /* logarithmic: all magnitudes */
            double magnitude = exp(-20.0 + t * (20.0 + log(fmax(fabs(low), fabs(high)))));
            x[i] = (float)(low < 0.0 && (r & 8u) ? -magnitude : magnitude);
        }
        if (i % 7 == 3) x[i] = special[(r >> 5) % (sizeof special / sizeof *special)];
    }
}

/* ---- unary ---- */

static double ref_neg(double x) {
    return -x;
}
static double ref_square(double x) {
    return x * x;
}
static double ref_sign(double x) {
    return (x > 0) - (x < 0);
}
static double ref_relu(double x) {
    return isnan(x) ? x : x > 0 ? x : 0.0;
}
static double ref_recip(double x) {
    return 1.0 / x;
}
static double ref_rsqrt(double x) {
    return 1.0 / sqrt(x);
}
static double ref_copy(double x) {
    return x;
}
static double ref_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}
static double ref_silu(double x) {
    return x / (1.0 + exp(-x));
}
static double ref_gelu_erf(double x) {
    return 0.5 * x * (1.0 + erf(x * sqrt(0.5)));
}
static double ref_gelu_tanh(double x) {
    return x / (1.0 + exp(-2.0 * sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double ref_softplus(double x) {
    return x > 20 ? x : log1p(exp(x));
}
static double ref_not(double x) {
    return x == 0.0;
}
static double ref_ne0(double x) {
    return x != 0.0;
}
static double ref_isnan(double x) {
    return isnan(x) != 0;
}
static double ref_isinf(double x) {
    return isinf(x) != 0;
}
static double ref_isneginf(double x) {
    return isinf(x) && x < 0;
}
static double ref_isposinf(double x) {
    return isinf(x) && x > 0;
}

typedef struct unary_case {
    vnpu_unary_t func;
    const char *name;
    double (*ref)(double);
    double bound;    /* ULP; 0.5 is correctly rounded */
    double absolute; /* or within this times max(1, |x|) */
    double low, high;
} unary_case_t;

static const unary_case_t unary_cases[] = {
    {VNPU_U_COPY, "copy", ref_copy, 0.0, 0, -1e30, 1e30},
    {VNPU_U_NEG, "neg", ref_neg, 0.0, 0, -1e30, 1e30},
    {VNPU_U_ABS, "abs", fabs, 0.0, 0, -1e30, 1e30},
    {VNPU_U_SQUARE, "square", ref_square, 0.5, 0, -1e18, 1e18},
    {VNPU_U_SIGN, "sign", ref_sign, 0.0, 0, -10, 10},
    {VNPU_U_RELU, "relu", ref_relu, 0.0, 0, -10, 10},
    {VNPU_U_FLOOR, "floor", floor, 0.0, 0, -1e9, 1e9},
    {VNPU_U_CEIL, "ceil", ceil, 0.0, 0, -1e9, 1e9},
    {VNPU_U_TRUNC, "trunc", trunc, 0.0, 0, -1e9, 1e9},
    {VNPU_U_ROUND, "round", rint, 0.0, 0, -1e4, 1e4},
    {VNPU_U_RECIP, "recip", ref_recip, 0.5, 0, -1e30, 1e30},
    {VNPU_U_SQRT, "sqrt", sqrt, 0.5, 0, 0, 1e30},
    {VNPU_U_RSQRT, "rsqrt", ref_rsqrt, 1.5, 0, 0, 1e30},
    {VNPU_U_EXP, "exp", exp, 0.92, 0, -110, 95},
    {VNPU_U_EXPM1, "expm1", expm1, 1.01, 0, -40, 95},
    {VNPU_U_LOG, "log", log, 1.01, 0, 0, 1e30},
    {VNPU_U_LOG1P, "log1p", log1p, 1.01, 0, -0.999, 1e30},
    {VNPU_U_SIN, "sin", sin, 1.01, 0, -1e6, 1e6},
    {VNPU_U_COS, "cos", cos, 1.01, 0, -1e6, 1e6},
    {VNPU_U_TANH, "tanh", tanh, 1.01, 0, -20, 20},
    {VNPU_U_SIGMOID, "sigmoid", ref_sigmoid, 2.5, 0, -87, 87},
    {VNPU_U_ERF, "erf", erf, 1.02, 0, -6, 6},
    {VNPU_U_SILU, "silu", ref_silu, 3.0, 0, -80, 80},
    {VNPU_U_GELU_ERF, "gelu_erf", ref_gelu_erf, 2.0, 1.2e-7, -10, 10},
    {VNPU_U_GELU_TANH, "gelu_tanh", ref_gelu_tanh, 4.0, 1.2e-7, -10, 10},
    {VNPU_U_SOFTPLUS, "softplus", ref_softplus, 3.0, 0, -80, 60},
    {VNPU_U_NOT, "not", ref_not, 0.0, 0, -2, 2},
    {VNPU_U_NE0, "ne0", ref_ne0, 0.0, 0, -2, 2},
    {VNPU_U_ISNAN, "isnan", ref_isnan, 0.0, 0, -2, 2},
    {VNPU_U_ISINF, "isinf", ref_isinf, 0.0, 0, -2, 2},
    {VNPU_U_ISNEGINF, "isneginf", ref_isneginf, 0.0, 0, -2, 2},
    {VNPU_U_ISPOSINF, "isposinf", ref_isposinf, 0.0, 0, -2, 2},
};
enum { UNARY_CASES = sizeof unary_cases / sizeof *unary_cases };

static const uint32_t edge_sizes[] = {1, 15, 16, 17, 127, 129, 4099};
enum { EDGE_SIZES = sizeof edge_sizes / sizeof *edge_sizes, MOST = 4099 };

static void run_unary(exec_env_t *env, const unary_case_t *t, float *out, float *x, uint32_t n,
                      const float *scale) {
    test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, n, 0, 0), out, 4 * n};
    test_operand_t src = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, n, 0, 0), x, 4 * n};
    test_operand_t *ops[5] = {&dst, &src};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_V_UNARY);
    insn.func = (uint8_t)t->func;
    if (scale) {
        insn.flags = VNPU_F_SCALE;
        insn.imm[0] = dev_f32_bits(scale[0]);
        insn.imm[1] = dev_f32_bits(scale[1]);
    }
    run_insn_ok(env, insn, ops);
}

Test(exec_vector, unary_functions) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static float x[MOST], out[LEVELS][MOST];
    for (uint32_t c = 0; c < UNARY_CASES; c++) {
        const unary_case_t *t = &unary_cases[c];
        for (uint32_t s = 0; s < EDGE_SIZES; s++) {
            uint32_t n = edge_sizes[s];
            fill_random(x, n, t->low, t->high, 31 * c + s);
            for (uint32_t l = 0; l < count; l++) {
                run_unary(&env[l], t, out[l], x, n, NULL);
                cr_assert(same_bits(out[l], out[0], n), "%s: level %d, %u elements", t->name,
                          levels[l], n);
            }
            for (uint32_t i = 0; i < n; i++) {
                double want = t->ref((double)x[i]);
                if (t->absolute > 0 && isinf(x[i]))
                    continue; /* 0 * inf in some forms: see docs/numerics.md */
                double error = ulps(out[0][i], want);
                bool is_near =
                    fabs((double)out[0][i] - want) <= t->absolute * fmax(1.0, fabs((double)x[i]));
                cr_assert(error <= t->bound || (t->absolute > 0 && is_near),
                          "%s(%a) = %a, not %a: %g ULP", t->name, (double)x[i], (double)out[0][i],
                          want, error);
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

Test(exec_vector, unary_scale_rounds_twice) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static float x[MOST], middle[MOST], want[MOST], out[MOST];
    const float scale[2] = {0x1.8f1bbcp-1f, -0x1.3c6ef4p-2f};
    fill_random(x, MOST, -5, 5, 9);
    for (uint32_t i = 0; i < MOST; i++) {
        volatile float product = x[i] * scale[0];
        middle[i] = product + scale[1];
    }
    for (uint32_t c = 0; c < UNARY_CASES; c++) {
        run_unary(&env[0], &unary_cases[c], want, middle, MOST, NULL);
        for (uint32_t l = 0; l < count; l++) {
            run_unary(&env[l], &unary_cases[c], out, x, MOST, scale);
            cr_assert(same_bits(out, want, MOST), "%s level %d", unary_cases[c].name, levels[l]);
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

/* ---- binary ---- */

static double ref_b(vnpu_binary_t func, float a, float b) {
    double x = (double)a, y = (double)b;
    switch (func) {
    case VNPU_B_ADD: return x + y;
    case VNPU_B_SUB: return x - y;
    case VNPU_B_MUL: return x * y;
    case VNPU_B_DIV: return x / y;
    case VNPU_B_MAX: return isnan(x) || isnan(y) ? NAN : fmax(x, y);
    case VNPU_B_MIN: return isnan(x) || isnan(y) ? NAN : fmin(x, y);
    case VNPU_B_POW: return pow(x, y);
    case VNPU_B_FMOD: return fmod(x, y);
    case VNPU_B_ATAN2: return atan2(x, y);
    case VNPU_B_EQ: return x == y;
    case VNPU_B_NE: return x != y;
    case VNPU_B_LT: return x < y;
    case VNPU_B_LE: return x <= y;
    case VNPU_B_GT: return x > y;
    case VNPU_B_GE: return x >= y;
    case VNPU_B_LAND: return x != 0 && y != 0;
    case VNPU_B_LOR: return x != 0 || y != 0;
    case VNPU_B_LXOR: return (x != 0) != (y != 0);
    case VNPU_B_REMAINDER: { /* the sign of the divisor */
        double mod = fmod(x, y);
        return mod != 0 && (mod < 0) != (y < 0) ? mod + y : mod;
    }
    case VNPU_B_FLOORDIV:
    case VNPU_B_NONE:
    case VNPU_B_AND:
    case VNPU_B_OR:
    case VNPU_B_XOR:
    case VNPU_B_SHL:
    case VNPU_B_SHR:
    case VNPU_B_COUNT: break;
    }
    return NAN;
}

/* How a source is laid out over [rows][cols]: all elements, one per row, one per column. */
typedef enum layout { LAYOUT_FULL, LAYOUT_ROW, LAYOUT_COL, LAYOUTS } layout_t;

static vnpu_ap_t ap_layout(layout_t layout, uint32_t rows, uint32_t cols) {
    vnpu_ap_t ap = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, cols, 0);
    if (layout == LAYOUT_ROW) ap.dim[0].stride = 1, ap.dim[1].stride = 0;
    if (layout == LAYOUT_COL) ap.dim[0].stride = 0;
    return ap;
}

static float at_layout(const float *x, layout_t layout, uint32_t cols, uint32_t r, uint32_t c) {
    return layout == LAYOUT_FULL ? x[r * cols + c] : layout == LAYOUT_ROW ? x[r] : x[c];
}

static void run_binary(exec_env_t *env, uint8_t func, uint8_t func2, uint16_t flags, float *out,
                       float *x, layout_t lx, float *y, layout_t ly, float *z, layout_t lz,
                       uint32_t rows, uint32_t cols) {
    uint32_t bytes = 4 * rows * cols;
    test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, cols, 0), out, bytes};
    test_operand_t a = {ap_layout(lx, rows, cols), x, bytes},
                   b = {ap_layout(ly, rows, cols), y, bytes};
    test_operand_t d = {ap_layout(lz, rows, cols), z, bytes};
    test_operand_t *ops[5] = {&dst, &a, &b, func2 ? &d : NULL};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_V_BINARY);
    insn.func = func;
    insn.func2 = func2;
    insn.flags = flags;
    run_insn_ok(env, insn, ops);
}

static bool is_float_binary(uint32_t func) {
    return func < VNPU_B_AND || func > VNPU_B_SHR;
}

static double binary_bound(uint32_t func) {
    switch (func) {
    case VNPU_B_ADD:
    case VNPU_B_SUB:
    case VNPU_B_MUL:
    case VNPU_B_DIV: return 0.5001;
    case VNPU_B_POW:
    case VNPU_B_ATAN2: return 1.01;
    case VNPU_B_REMAINDER: return 0.5001;
    default: return 0.0;
    }
}

Test(exec_vector, binary_functions) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static const uint32_t shapes[][2] = {{1, 1}, {3, 15}, {7, 16}, {5, 17}, {9, 127}, {4, 1000}};
    static float x[4096], y[4096], out[LEVELS][4096];
    for (uint8_t func = 1; func < VNPU_B_COUNT; func++) {
        if (!is_float_binary(func)) continue;
        for (uint32_t s = 0; s < 6; s++) {
            uint32_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            fill_random(x, n, func == VNPU_B_POW ? 0 : -100, 100, 17 * func + s);
            fill_random(y, n, -30, 30, 19 * func + s);
            for (uint32_t i = 0; i < n; i += 5)
                y[i] = x[i]; /* equal ones for the comparisons */
            for (uint32_t ll = 0; ll < LAYOUTS * LAYOUTS; ll++) {
                layout_t lx = ll / LAYOUTS, ly = ll % LAYOUTS;
                uint16_t flags = ll % 2 ? VNPU_F_REVERSE : 0;
                for (uint32_t l = 0; l < count; l++) {
                    run_binary(&env[l], func, 0, flags, out[l], x, lx, y, ly, NULL, LAYOUT_FULL,
                               rows, cols);
                    cr_assert(same_bits(out[l], out[0], n), "func %u level %d", func, levels[l]);
                }
                for (uint32_t i = 0; i < n && func != VNPU_B_FLOORDIV; i++) {
                    float a = at_layout(x, lx, cols, i / cols, i % cols),
                          b = at_layout(y, ly, cols, i / cols, i % cols);
                    double want = flags ? ref_b(func, b, a) : ref_b(func, a, b);
                    double error = ulps(out[0][i], want);
                    cr_assert_leq(error, binary_bound(func), "func %u (%a, %a) = %a, not %a", func,
                                  (double)a, (double)b, (double)out[0][i], want);
                }
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

Test(exec_vector, special_values) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static const struct {
        uint8_t func;
        float a, b, want;
    } cases[] = {
        {VNPU_B_MAX, NAN, 1, NAN},
        {VNPU_B_MAX, 1, NAN, NAN},
        {VNPU_B_MIN, NAN, -INFINITY, NAN},
        {VNPU_B_MAX, -INFINITY, INFINITY, INFINITY},
        {VNPU_B_EQ, NAN, NAN, 0},
        {VNPU_B_NE, NAN, NAN, 1},
        {VNPU_B_LT, NAN, 1, 0},
        {VNPU_B_GE, NAN, 1, 0},
        {VNPU_B_EQ, 0.0f, -0.0f, 1},
        {VNPU_B_ADD, -0.0f, -0.0f, -0.0f},
        {VNPU_B_DIV, 1, -0.0f, -INFINITY},
        {VNPU_B_DIV, 0, 0, NAN},
        {VNPU_B_LAND, NAN, 1, 1},
        {VNPU_B_FLOORDIV, 7, 2, 3},
        {VNPU_B_FLOORDIV, -7, 2, -4},
        {VNPU_B_FLOORDIV, 7, -2, -4},
        {VNPU_B_FLOORDIV, 0, -3, -0.0f},
        {VNPU_B_FLOORDIV, 1, 0, INFINITY},
        {VNPU_B_FLOORDIV, 0.3f, 0.1f, 3},
        {VNPU_B_FLOORDIV, 1.0f, 0.1f, 9},
        {VNPU_B_REMAINDER, -7, 2, 1},
        {VNPU_B_REMAINDER, 7, -2, -1},
        {VNPU_B_FMOD, -7, 2, -1},
        {VNPU_B_POW, 0, 0, 1},
        {VNPU_B_POW, -2, 3, -8},
        {VNPU_B_POW, -2, 0.5f, NAN},
        {VNPU_B_ATAN2, 0, -1, (float)M_PI},
    };
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (uint32_t l = 0; l < count; l++) {
            float a = cases[c].a, b = cases[c].b, out = 42;
            run_binary(&env[l], cases[c].func, 0, 0, &out, &a, LAYOUT_FULL, &b, LAYOUT_FULL, NULL,
                       LAYOUT_FULL, 1, 1);
            cr_assert(same_bits(&out, &cases[c].want, 1), "case %u level %d: %a", c, levels[l],
                      (double)out);
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

Test(exec_vector, two_chained_functions) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static float x[6000], y[6000], z[6000], out[6000], first[6000], want[6000];
    static const uint32_t shapes[][2] = {{1, 1}, {5, 17}, {40, 128}, {2, 3000}};
    static const uint8_t pairs[][2] = {{VNPU_B_SUB, VNPU_B_MUL},
                                       {VNPU_B_MUL, VNPU_B_ADD},
                                       {VNPU_B_DIV, VNPU_B_MAX},
                                       {VNPU_B_LT, VNPU_B_LOR},
                                       {VNPU_B_ADD, VNPU_B_DIV}};
    for (uint32_t p = 0; p < 5; p++) {
        for (uint32_t s = 0; s < 4; s++) {
            uint32_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            fill_random(x, n, -10, 10, p);
            fill_random(y, n, -10, 10, p + 10);
            fill_random(z, n, -10, 10, p + 20);
            for (uint32_t v = 0; v < 9; v++) {
                layout_t ly = v / 3, lz = v % 3;
                uint16_t flags =
                    (uint16_t)((v & 1u ? VNPU_F_REVERSE : 0) | (v & 2u ? VNPU_F_REVERSE2 : 0));
                /* The same by two instructions: the intermediate is an f32 either way. */
                run_binary(&env[0], pairs[p][0], 0, flags & VNPU_F_REVERSE, first, x, LAYOUT_FULL,
                           y, ly, NULL, 0, rows, cols);
                run_binary(&env[0], pairs[p][1], 0, flags & VNPU_F_REVERSE2 ? VNPU_F_REVERSE : 0,
                           want, first, LAYOUT_FULL, z, lz, NULL, 0, rows, cols);
                for (uint32_t l = 0; l < count; l++) {
                    run_binary(&env[l], pairs[p][0], pairs[p][1], flags, out, x, LAYOUT_FULL, y, ly,
                               z, lz, rows, cols);
                    cr_assert(same_bits(out, want, n), "pair %u shape %u variant %u level %d", p, s,
                              v, levels[l]);
                }
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

Test(exec_vector, select_takes_the_first_where_true) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    enum { N = 133 };
    uint8_t condition[N];
    float a[N], b[N], out[N], want[N];
    fill_random(a, N, -10, 10, 1);
    fill_random(b, N, -10, 10, 2);
    for (uint32_t i = 0; i < N; i++) {
        condition[i] = (uint8_t)(i % 3 ? i : 0);
        want[i] = condition[i] ? a[i] : b[i];
    }
    for (uint32_t l = 0; l < count; l++) {
        test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, N, 0, 0), out, sizeof out};
        test_operand_t s0 = {ap_dense(VNPU_SPACE_SRAM, VNPU_BOOL, 0, N, 0, 0), condition, N};
        test_operand_t s1 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, N, 0, 0), a, sizeof a};
        test_operand_t s2 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, N, 0, 0), b, sizeof b};
        test_operand_t *ops[5] = {&dst, &s0, &s1, &s2};
        run_insn_ok(&env[l], dev_image_insn(VNPU_OP_V_SELECT), ops);
        cr_assert(same_bits(out, want, N), "level %d", levels[l]);
        env_close(&env[l]);
    }
}

/* ---- reductions ---- */

static float reduce_step(vnpu_reduce_t func, float a, float b) {
    volatile float result;
    switch (func) {
    case VNPU_R_ADD: result = a + b; return result;
    case VNPU_R_MUL: result = a * b; return result;
    case VNPU_R_MAX: return a != a ? a : b != b ? b : a > b ? a : b;
    case VNPU_R_MIN: return a != a ? a : b != b ? b : a < b ? a : b;
    case VNPU_R_COUNT: break;
    }
    return NAN;
}

static float reduce_map(uint32_t map, float x) {
    volatile float square = x * x;
    return map == VNPU_U_SQUARE ? square
           : map == VNPU_U_ABS  ? fabsf(x)
           : map == VNPU_U_NE0  ? (float)(x != 0)
                                : x;
}

static void partials_of(vnpu_reduce_t func, uint32_t map, float partial[16], const float *x,
                        uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        partial[i % 16] = reduce_step(func, partial[i % 16], reduce_map(map, x[i]));
}

static float tree_of(vnpu_reduce_t func, const float partial[16]) {
    float t[16];
    memcpy(t, partial, sizeof t);
    for (uint32_t half = 8; half; half /= 2) {
        for (uint32_t l = 0; l < half; l++)
            t[l] = reduce_step(func, t[l], t[l + half]);
    }
    return t[0];
}

static float identity_of(vnpu_reduce_t func) {
    return func == VNPU_R_ADD   ? 0.0f
           : func == VNPU_R_MUL ? 1.0f
           : func == VNPU_R_MAX ? -INFINITY
                                : INFINITY;
}

Test(exec_vector, reductions_fold_sixteen_lanes) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static const uint32_t maps[] = {VNPU_U_COPY, VNPU_U_SQUARE, VNPU_U_ABS, VNPU_U_NE0};
    static float x[13 * 2100], out[13], want[13];
    for (uint8_t func = VNPU_R_ADD; func < VNPU_R_COUNT; func++) {
        for (uint32_t c = 0; c < 4 * EDGE_SIZES; c++) {
            uint32_t n = edge_sizes[c / 4] < 2100 ? edge_sizes[c / 4] : 2100, rows = 13,
                     map = maps[c % 4];
            fill_random(x, rows * n, -3, 3, func + c);
            if (c % 2) { /* rows without NaN and infinities too */
                for (uint32_t i = 0; i < rows * n; i++)
                    x[i] = isfinite(x[i]) ? x[i] : 0.25f;
            }
            for (uint32_t r = 0; r < rows; r++) {
                float partial[16];
                for (uint32_t l = 0; l < 16; l++)
                    partial[l] = identity_of(func);
                partials_of(func, map, partial, x + r * n, n);
                want[r] = tree_of(func, partial);
            }
            for (uint32_t l = 0; l < count; l++) {
                test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, 0, 0), out,
                                      sizeof out};
                test_operand_t src = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, n, 0), x,
                                      4 * rows * n};
                test_operand_t *ops[5] = {&dst, &src};
                vnpu_insn_t insn = dev_image_insn(VNPU_OP_V_REDUCE);
                insn.func = func;
                insn.func2 = (uint8_t)map;
                run_insn_ok(&env[l], insn, ops);
                cr_assert(same_bits(out, want, rows), "func %u map %u n %u level %d", func, map, n,
                          levels[l]);
            }
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

/* A row in three tiles: partials carried, folded at the end, equal the row in one instruction. */
Test(exec_vector, partials_carry_a_row_through_tiles) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.threads = 1});
    enum { ROWS = 5, TILE = 48, TILES = 3, COLS = TILE * TILES };
    static float x[ROWS * COLS], out[ROWS], want[ROWS];
    fill_random(x, ROWS * COLS, -3, 3, 4);
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = isfinite(x[i]) ? x[i] : 0.125f;
    for (uint32_t r = 0; r < ROWS; r++) {
        float partial[16] = {0};
        partials_of(VNPU_R_ADD, VNPU_U_COPY, partial, x + r * COLS, COLS);
        want[r] = tree_of(VNPU_R_ADD, partial);
    }
    uint64_t in = env_alloc(&env, sizeof x), result = env_alloc(&env, sizeof out);
    memcpy(env_host(&env, in, sizeof x), x, sizeof x);
    static prog_t prog;
    memset(&prog, 0, sizeof prog);
    prog.num_sems = 2;
    prog.sram_bytes = 65536;
    uint32_t dma = prog_queue(&prog, VNPU_QUEUE_DMA, 0),
             vector = prog_queue(&prog, VNPU_QUEUE_VECTOR, 0);
    uint8_t from = prog_arg(&prog, VNPU_ARG_IN), to = prog_arg(&prog, VNPU_ARG_OUT);
    vnpu_insn_t *load = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    load->src[0] =
        prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, ROWS, COLS, 0), from));
    load->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, ROWS, COLS, 0));
    insn_signal(load, 0, 0, 1);
    insn_wait(prog_insn(&prog, vector, VNPU_OP_SYNC), 0, 0, 1);
    prog_loop(&prog, vector, TILES);
    vnpu_insn_t *reduce = prog_insn(&prog, vector, VNPU_OP_V_REDUCE);
    reduce->func = VNPU_R_ADD;
    reduce->flags = VNPU_F_PARTIAL;
    reduce->not_first = 1;
    vnpu_ap_t tile = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, ROWS, TILE, 0);
    tile.dim[0].stride = COLS;
    tile.loop_inc[0] = TILE;
    reduce->src[0] = prog_ap(&prog, tile);
    reduce->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 32768, ROWS, 16, 0));
    prog_end(&prog, vector);
    vnpu_insn_t *fold = prog_insn(&prog, vector, VNPU_OP_V_FOLD);
    fold->func = VNPU_R_ADD;
    fold->src[0] = reduce->dst;
    fold->dst = prog_ap(&prog, ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 40960, ROWS, 0, 0));
    insn_signal(fold, 0, 1, 1);
    vnpu_insn_t *store = prog_insn(&prog, dma, VNPU_OP_DMA_COPY);
    store->src[0] = fold->dst;
    store->dst = prog_ap(&prog, ap_arg(ap_dense(VNPU_SPACE_DRAM, VNPU_F32, 0, ROWS, 0, 0), to));
    insn_wait(store, 0, 1, 1);
    dev_program_t *program = prog_load(&prog, &env.machine);
    dev_launch_t launch = launch_of(program, &env.machine, 1, 1);
    launch.arg[0] = in;
    launch.arg[1] = result;
    sim_error_t err = {0};
    for (uint32_t again = 0; again < 2; again++) { /* the second run finds old partials in SRAM */
        cr_assert_eq(dev_exec_run(env.exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
        memcpy(out, env_host(&env, result, sizeof out), sizeof out);
        cr_assert(same_bits(out, want, ROWS));
    }
    dev_program_destroy(program);
    env_close(&env);
}

Test(exec_vector, row_sums_of_unary_and_binary) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    static const uint32_t shapes[][2] = {{1, 1}, {7, 17}, {200, 40}, {3, 5000}};
    static float x[15000], y[15000], out[15000], plain[15000], sums[200], partials[200 * 16];
    for (uint32_t s = 0; s < 8; s++) {
        uint32_t rows = shapes[s / 2][0], cols = shapes[s / 2][1], n = rows * cols;
        bool is_binary = s % 2;
        fill_random(x, n, -4, 4, s);
        fill_random(y, n, -4, 4, s + 50);
        for (uint32_t i = 0; i < n; i++)
            x[i] = isfinite(x[i]) && fabsf(x[i]) < 80 ? x[i] : 1.0f,
            y[i] = isfinite(y[i]) ? y[i] : 1.0f;
        for (uint32_t l = 0; l < count; l++) {
            test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, cols, 0), out,
                                  4 * n};
            test_operand_t a = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, cols, 0), x, 4 * n};
            test_operand_t b = {ap_layout(LAYOUT_ROW, rows, cols), y, 4 * n};
            test_operand_t row = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, 0, 0), sums,
                                  4 * rows};
            test_operand_t carried = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, 16, 0), partials,
                                      64 * rows};
            test_operand_t *ops[5] = {&dst, &a, is_binary ? &b : NULL, NULL, &row};
            vnpu_insn_t insn = dev_image_insn(is_binary ? VNPU_OP_V_BINARY : VNPU_OP_V_UNARY);
            insn.func = is_binary ? (uint8_t)VNPU_B_SUB : (uint8_t)VNPU_U_EXP;
            run_insn_ok(&env[l], insn, ops);
            memcpy(plain, out, 4 * n);
            ops[4] = &carried;
            insn.flags = VNPU_F_PARTIAL;
            run_insn_ok(&env[l], insn, ops);
            cr_assert(same_bits(out, plain, n));
            for (uint32_t r = 0; r < rows; r++) {
                float partial[16] = {0};
                partials_of(VNPU_R_ADD, VNPU_U_COPY, partial, out + r * cols, cols);
                float want = tree_of(VNPU_R_ADD, partial);
                cr_assert(same_bits(&sums[r], &want, 1), "case %u row %u level %d", s, r,
                          levels[l]);
                cr_assert(same_bits(&partials[16 * r], partial, 16), "case %u row %u level %d", s,
                          r, levels[l]);
            }
            test_operand_t folded = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, rows, 0, 0), plain,
                                     4 * rows};
            test_operand_t *fold_ops[5] = {&folded, &carried};
            insn = dev_image_insn(VNPU_OP_V_FOLD);
            insn.func = VNPU_R_ADD;
            run_insn_ok(&env[l], insn, fold_ops);
            cr_assert(same_bits(plain, sums, rows), "fold of the partials is the sum");
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

/* ---- operands of every shape ---- */

static int64_t offset_of(const vnpu_ap_t *ap, uint64_t element) {
    int64_t offset = 0;
    for (uint32_t d = ap->ndims; d-- > 0;) {
        offset += (int64_t)(element % ap->dim[d].size) * ap->dim[d].stride;
        element /= ap->dim[d].size;
    }
    return offset;
}

Test(exec_vector, strided_broadcast_and_negative_patterns) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    enum { BUFFER = 8192 };
    static float x[BUFFER], y[BUFFER], out[BUFFER], want[BUFFER];
    uint64_t seed = 12;
    for (uint32_t trial = 0; trial < 300; trial++) {
        vnpu_ap_t ap[3];
        uint8_t ndims = (uint8_t)dev_test_between(&seed, 1, 5);
        uint32_t size[5];
        for (uint32_t d = 0; d < ndims; d++)
            size[d] = (uint32_t)dev_test_between(&seed, 1, d + 1 == ndims ? 20 : 4);
        for (uint32_t o = 0; o < 3; o++) {
            ap[o] = dev_image_ap(VNPU_SPACE_SRAM, VNPU_F32);
            ap[o].ndims = ndims;
            int32_t stride = (int32_t)dev_test_between(&seed, 1, 2), start = 0;
            bool from_first = dev_test_between(&seed, 0, 1); /* which dimension lies innermost */
            for (uint32_t i = 0; i < ndims; i++) {
                uint32_t d = from_first ? i : ndims - 1u - i;
                int32_t s = stride;
                stride *= (int32_t)size[d];
                if (o > 0 && dev_test_between(&seed, 0, 4) == 0) s = 0;
                if (dev_test_between(&seed, 0, 5) == 0) {
                    start += s * (int32_t)(size[d] - 1);
                    s = -s;
                }
                ap[o].dim[d] = (vnpu_dim_t){size[d], s};
            }
            ap[o].base = 4 * start;
        }
        fill_random(x, BUFFER, -10, 10, trial);
        fill_random(y, BUFFER, -10, 10, trial + 1000);
        fill_random(want, BUFFER, -10, 10, trial + 2000);
        for (uint32_t l = 0; l < count; l++) {
            fill_random(out, BUFFER, -10, 10, trial + 2000);
            test_operand_t dst = {ap[0], out, sizeof out}, a = {ap[1], x, sizeof x},
                           b = {ap[2], y, sizeof y};
            test_operand_t *ops[5] = {&dst, &a, &b};
            vnpu_insn_t insn = dev_image_insn(VNPU_OP_V_BINARY);
            insn.func = VNPU_B_SUB;
            run_insn_ok(&env[l], insn, ops);
            uint64_t elements = 1;
            for (uint32_t d = 0; d < ndims; d++)
                elements *= size[d];
            for (uint64_t e = 0; e < elements && l == 0; e++) {
                volatile float v = x[ap[1].base / 4 + offset_of(&ap[1], e)] -
                                   y[ap[2].base / 4 + offset_of(&ap[2], e)];
                want[ap[0].base / 4 + offset_of(&ap[0], e)] = v;
            }
            cr_assert(same_bits(out, want, BUFFER), "trial %u level %d", trial, levels[l]);
        }
    }
    for (uint32_t l = 0; l < count; l++)
        env_close(&env[l]);
}

Test(exec_vector, arguments_and_iota_as_sources) {
    exec_env_t env[LEVELS];
    uint32_t count = open_levels(env);
    enum { ROWS = 3, COLS = 19 };
    float out[ROWS * COLS];
    for (uint32_t l = 0; l < count; l++) {
        vnpu_ap_t iota = ap_dense(VNPU_SPACE_IOTA, VNPU_I64, -5, ROWS, COLS, 0);
        iota.dim[0].stride = 100;
        iota.dim[1].stride = 3;
        vnpu_ap_t scalar = ap_dense(VNPU_SPACE_ARG, VNPU_F32, 8, ROWS, COLS, 0);
        scalar.dim[0].stride = scalar.dim[1].stride = 0;
        test_operand_t dst = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, ROWS, COLS, 0), out,
                              sizeof out};
        test_operand_t a = {.ap = iota}, b = {.ap = scalar};
        test_operand_t *ops[5] = {&dst, &a, &b};
        vnpu_insn_t insn = dev_image_insn(VNPU_OP_V_BINARY);
        insn.func = VNPU_B_MUL;
        uint64_t args[2] = {0, dev_f32_bits(2.5f)};
        sim_error_t err = {0};
        cr_assert_eq(run_insn(&env[l], insn, ops, args, 2, &err), SIM_OK, "%s", err.text);
        for (uint32_t i = 0; i < ROWS * COLS; i++) {
            cr_assert_eq(out[i], 2.5f * (float)(-5 + 100 * (int)(i / COLS) + 3 * (int)(i % COLS)));
        }
        env_close(&env[l]);
    }
}
