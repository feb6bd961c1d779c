/* Matrix products against a scalar chain of fmaf, bit by bit. */
#include <math.h>
#include <xmmintrin.h>

#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"

typedef struct mm_case {
    uint32_t m, n, k;
    bool a_turned, b_turned;      /* stored [k][m], [n][k] */
    uint32_t a_pad, b_pad, c_pad; /* elements added to the row strides */
    bool accumulate;
} mm_case_t;

static float random_f32(uint64_t *state) {
    int32_t bits = (int32_t)(dev_test_random(state) >> 32);
    return ldexpf((float)bits, (int)(dev_test_random(state) % 24) - 43);
}

static vnpu_ap_t ap_matrix(vnpu_space_t space, vnpu_dtype_t dtype, uint32_t rows, uint32_t cols,
                           int32_t row, int32_t col) {
    vnpu_ap_t ap = ap_dense(space, dtype, 0, rows, cols, 0);
    ap.dim[0].stride = row;
    ap.dim[1].stride = col;
    return ap;
}

static void check_f32(exec_env_t *env, const mm_case_t *t, uint64_t seed) {
    uint32_t m = t->m, n = t->n, k = t->k;
    int32_t a_row = t->a_turned ? 1 : (int32_t)(k + t->a_pad),
            a_col = t->a_turned ? (int32_t)(m + t->a_pad) : 1;
    int32_t b_row = t->b_turned ? 1 : (int32_t)(n + t->b_pad),
            b_col = t->b_turned ? (int32_t)(k + t->b_pad) : 1;
    int32_t c_row = (int32_t)(n + t->c_pad);
    size_t a_size = (size_t)(t->a_turned ? k * (m + t->a_pad) : m * (k + t->a_pad));
    size_t b_size = (size_t)(t->b_turned ? n * (k + t->b_pad) : k * (n + t->b_pad));
    size_t c_size = (size_t)m * (size_t)c_row;
    float *a = malloc(a_size * 4), *b = malloc(b_size * 4), *c = malloc(c_size * 4),
          *want = malloc(c_size * 4);
    for (size_t i = 0; i < a_size; i++)
        a[i] = random_f32(&seed);
    for (size_t i = 0; i < b_size; i++)
        b[i] = random_f32(&seed);
    for (size_t i = 0; i < c_size; i++)
        want[i] = c[i] = random_f32(&seed);
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < n; j++) {
            float *to = &want[(size_t)i * (size_t)c_row + j];
            float sum = t->accumulate ? *to : 0.0f;
            for (uint32_t p = 0; p < k; p++) {
                sum = fmaf(a[(int64_t)i * a_row + (int64_t)p * a_col],
                           b[(int64_t)p * b_row + (int64_t)j * b_col], sum);
            }
            *to = sum;
        }
    }
    test_operand_t dst = {ap_matrix(VNPU_SPACE_ACC, VNPU_F32, m, n, c_row, 1), c,
                          (uint32_t)(c_size * 4)};
    test_operand_t left = {ap_matrix(VNPU_SPACE_SRAM, VNPU_F32, m, k, a_row, a_col), a,
                           (uint32_t)(a_size * 4)};
    test_operand_t right = {ap_matrix(VNPU_SPACE_SRAM, VNPU_F32, k, n, b_row, b_col), b,
                            (uint32_t)(b_size * 4)};
    test_operand_t *ops[5] = {&dst, &left, &right};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_MM);
    insn.not_first = t->accumulate ? 1 : 0;
    run_insn_ok(env, insn, ops);
    cr_assert_eq(memcmp(c, want, c_size * 4), 0,
                 "m %u n %u k %u turned %d %d pads %u %u %u accumulate %d", m, n, k, t->a_turned,
                 t->b_turned, t->a_pad, t->b_pad, t->c_pad, t->accumulate);
    free(a);
    free(b);
    free(c);
    free(want);
}

static const int levels[] = {1, 2, 5};

static bool open_level(exec_env_t *env, int level) {
    if (level == 5 && !__builtin_cpu_supports("avx512f")) return false;
    env_open(env, 1, (dev_exec_options_t){.isa_level = level, .threads = 1});
    return true;
}

Test(exec_mm, f32_shapes_are_one_fma_chain) {
    static const uint32_t sizes[] = {1, 2, 5, 15, 16, 17, 31, 64, 67};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (uint32_t l = 0; l < 3; l++) {
        exec_env_t env;
        if (!open_level(&env, levels[l])) continue;
        for (uint32_t i = 0; i < COUNT; i++) {
            for (uint32_t j = 0; j < COUNT; j++) {
                mm_case_t t = {.m = sizes[i],
                               .n = sizes[j],
                               .k = sizes[(i + j) % COUNT],
                               .accumulate = (i + j) % 2,
                               .b_turned = (i ^ j) & 1u,
                               .a_turned = i % 3 == 2};
                check_f32(&env, &t, 1000 * i + j);
            }
        }
        env_close(&env);
    }
}

/* Where libxsmm's AVX-512 kernels split the chain, were they asked. */
Test(exec_mm, f32_every_n_up_to_150) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.threads = 1});
    for (uint32_t n = 1; n <= 150; n++) {
        mm_case_t t = {.m = 8, .n = n, .k = 19, .c_pad = n % 3};
        check_f32(&env, &t, n);
    }
    const uint32_t wide[] = {255, 256, 257, 264, 272, 273, 320, 321, 336, 337, 513, 528};
    for (uint32_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        mm_case_t t = {.m = 9, .n = wide[i], .k = 33, .accumulate = i % 2};
        check_f32(&env, &t, wide[i]);
    }
    env_close(&env);
}

Test(exec_mm, f32_large_strided_and_few_rows) {
    static const mm_case_t cases[] = {
        {.m = 131, .n = 149, .k = 277, .a_pad = 3, .b_pad = 5, .c_pad = 7},
        {.m = 131, .n = 149, .k = 277, .accumulate = true},
        {.m = 260, .n = 80, .k = 513, .b_turned = true, .b_pad = 1},
        {.m = 1, .n = 300, .k = 700, .b_turned = true},
        {.m = 1, .n = 300, .k = 700},
        {.m = 4, .n = 65, .k = 129, .b_turned = true, .accumulate = true},
        {.m = 3, .n = 1, .k = 1000, .b_turned = true},
        {.m = 64, .n = 64, .k = 64, .a_turned = true, .a_pad = 2},
        {.m = 50, .n = 3, .k = 40, .c_pad = 1, .accumulate = true},
    };
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.threads = 1});
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_f32(&env, &cases[i], 77 + i);
    env_close(&env);
}

/* Several row dimensions, rows that overlap (a window), and a result with a column stride. */
Test(exec_mm, f32_row_dimensions_windows_and_strided_result) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.threads = 1});
    enum { M0 = 3, M1 = 7, K = 10, N = 21, A = 200 };
    float a[A], b[K * N], c[M0 * M1 * N * 2], want[M0 * M1 * N * 2];
    uint64_t seed = 5;
    for (uint32_t i = 0; i < A; i++)
        a[i] = random_f32(&seed);
    for (uint32_t i = 0; i < K * N; i++)
        b[i] = random_f32(&seed);
    for (uint32_t i = 0; i < M0 * M1 * N * 2; i++)
        want[i] = c[i] = random_f32(&seed);
    for (uint32_t x = 0; x < M0; x++) {
        for (uint32_t y = 0; y < M1; y++) {
            for (uint32_t j = 0; j < N; j++) {
                float sum = 0.0f;
                for (uint32_t p = 0; p < K; p++)
                    sum = fmaf(a[50 * x + 3 * y + p], b[p * N + j], sum);
                want[((x * M1 + y) * N + j) * 2] = sum;
            }
        }
    }
    vnpu_ap_t left = ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, M0, M1, K);
    left.dim[0].stride = 50;
    left.dim[1].stride = 3; /* windows of K overlap */
    vnpu_ap_t out = ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, M0, M1, N);
    for (uint32_t d = 0; d < 3; d++)
        out.dim[d].stride *= 2;
    test_operand_t dst = {out, c, sizeof c}, src0 = {left, a, sizeof a};
    test_operand_t src1 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, K, N, 0), b, sizeof b};
    test_operand_t *ops[5] = {&dst, &src0, &src1};
    run_insn_ok(&env, dev_image_insn(VNPU_OP_MM), ops);
    cr_assert_eq(memcmp(c, want, sizeof c), 0);
    env_close(&env);
}

static void check_int8(exec_env_t *env, vnpu_dtype_t a_type, vnpu_dtype_t b_type, uint32_t m,
                       uint32_t n, uint32_t k, bool turned, bool accumulate, bool extreme) {
    uint64_t seed = m + 100 * n + 10000 * k;
    uint8_t *a = malloc(m * k), *b = malloc(k * n);
    int32_t *c = malloc(4 * m * n), *want = malloc(4 * m * n);
    for (uint32_t i = 0; i < m * k; i++)
        a[i] = extreme ? (a_type == VNPU_U8 ? 255 : 128) : (uint8_t)dev_test_random(&seed);
    for (uint32_t i = 0; i < k * n; i++)
        b[i] = extreme ? (b_type == VNPU_U8 ? 255 : 128) : (uint8_t)dev_test_random(&seed);
    for (uint32_t i = 0; i < m * n; i++)
        c[i] = (int32_t)(dev_test_random(&seed) % 1000);
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < n; j++) {
            int64_t sum = accumulate ? c[i * n + j] : 0;
            for (uint32_t p = 0; p < k; p++) {
                uint8_t x = a[i * k + p], y = b[turned ? j * k + p : p * n + j];
                sum += (a_type == VNPU_I8 ? (int8_t)x : (int32_t)x) *
                       (b_type == VNPU_I8 ? (int8_t)y : (int32_t)y);
            }
            want[i * n + j] = (int32_t)sum;
        }
    }
    test_operand_t dst = {ap_dense(VNPU_SPACE_ACC, VNPU_I32, 0, m, n, 0), c, 4 * m * n};
    test_operand_t src0 = {ap_dense(VNPU_SPACE_SRAM, a_type, 0, m, k, 0), a, m * k};
    test_operand_t src1 = {
        ap_matrix(VNPU_SPACE_SRAM, b_type, k, n, turned ? 1 : (int32_t)n, turned ? (int32_t)k : 1),
        b, k * n};
    test_operand_t *ops[5] = {&dst, &src0, &src1};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_MM);
    insn.not_first = accumulate;
    run_insn_ok(env, insn, ops);
    cr_assert_eq(memcmp(c, want, 4 * m * n), 0, "types %d %d, %u x %u x %u", a_type, b_type, m, k,
                 n);
    free(a);
    free(b);
    free(c);
    free(want);
}

Test(exec_mm, int8_is_exact) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.threads = 1});
    check_int8(&env, VNPU_I8, VNPU_I8, 33, 47, 1500, false, false, false);
    check_int8(&env, VNPU_U8, VNPU_I8, 5, 80, 257, true, true, false);
    check_int8(&env, VNPU_U8, VNPU_U8, 17, 17, 2000, false, false, true); /* sums far beyond 2^24 */
    check_int8(&env, VNPU_I8, VNPU_I8, 8, 20, 3000, true, true, true);
    check_int8(&env, VNPU_I8, VNPU_U8, 1, 1, 1, false, false, false);
    env_close(&env);
}

/* The rule in its own words: per pair first element k + 1, then k, each a fused multiply-add,
 * subnormals flushed. */
static float bf16_chain(const uint16_t *a, const uint16_t *b, uint32_t k, uint32_t n, float sum) {
    unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040u);
    volatile float total = sum;
    for (uint32_t p = 0; p < k; p += 2) {
        float x1 = p + 1 < k ? dev_bf16_to_f32(a[p + 1]) : 0.0f,
              y1 = p + 1 < k ? dev_bf16_to_f32(b[(p + 1) * n]) : 0.0f;
        __m128 t = _mm_set_ss(total);
        float first = dev_bf16_to_f32(a[p]), second = dev_bf16_to_f32(b[p * n]);
        /* Products of two bf16 are exact in f32 (when not subnormal), so multiply and add round
         * like the fused form. */
        __m128 high = _mm_mul_ss(_mm_set_ss(x1), _mm_set_ss(y1));
        t = _mm_add_ss(t, high);
        t = _mm_add_ss(t, _mm_mul_ss(_mm_set_ss(first), _mm_set_ss(second)));
        total = _mm_cvtss_f32(t);
    }
    _mm_setcsr(saved);
    return total;
}

Test(exec_mm, bf16_adds_pairs_in_the_order_k_plus_1_k) {
    static const uint32_t shapes[][3] = {
        {33, 70, 64}, {1, 5, 1}, {4, 40, 33}, {20, 17, 127}, {9, 80, 300}};
    for (uint32_t l = 0; l < 3; l++) {
        exec_env_t env;
        if (!open_level(&env, levels[l])) continue;
        for (uint32_t s = 0; s < 5; s++) {
            uint32_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            uint64_t seed = s + 1;
            uint16_t *a = malloc(2 * m * k), *b = malloc(2 * k * n);
            float *c = malloc(4 * m * n), *want = malloc(4 * m * n);
            for (uint32_t i = 0; i < m * k; i++)
                a[i] = dev_f32_to_bf16(random_f32(&seed));
            for (uint32_t i = 0; i < k * n; i++)
                b[i] = dev_f32_to_bf16(random_f32(&seed));
            for (uint32_t i = 0; i < m * n; i++)
                c[i] = random_f32(&seed);
            for (uint32_t i = 0; i < m * n; i++) {
                want[i] = bf16_chain(a + i / n * k, b + i % n, k, n, s % 2 ? c[i] : 0.0f);
            }
            test_operand_t dst = {ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, m, n, 0), c, 4 * m * n};
            test_operand_t src0 = {ap_dense(VNPU_SPACE_SRAM, VNPU_BF16, 0, m, k, 0), a, 2 * m * k};
            test_operand_t src1 = {ap_dense(VNPU_SPACE_SRAM, VNPU_BF16, 0, k, n, 0), b, 2 * k * n};
            test_operand_t *ops[5] = {&dst, &src0, &src1};
            vnpu_insn_t insn = dev_image_insn(VNPU_OP_MM);
            insn.not_first = s % 2;
            run_insn_ok(&env, insn, ops);
            cr_assert_eq(memcmp(c, want, 4 * m * n), 0, "shape %u level %d", s, levels[l]);
            free(a);
            free(b);
            free(c);
            free(want);
        }
        env_close(&env);
    }
}

Test(exec_mm, f16_is_widened_and_k_ascends) {
    exec_env_t env;
    env_open(&env, 1, (dev_exec_options_t){.threads = 1});
    enum { M = 19, N = 34, K = 75 };
    uint16_t a[M * K], b[K * N];
    float c[M * N], want[M * N];
    uint64_t seed = 3;
    for (uint32_t i = 0; i < M * K; i++)
        a[i] = dev_f32_to_f16(random_f32(&seed) * 8.0f);
    for (uint32_t i = 0; i < K * N; i++)
        b[i] = dev_f32_to_f16(random_f32(&seed));
    for (uint32_t i = 0; i < M * N; i++) {
        float sum = 0.0f;
        for (uint32_t p = 0; p < K; p++) {
            sum = fmaf(dev_f16_to_f32(a[i / N * K + p]), dev_f16_to_f32(b[p * N + i % N]), sum);
        }
        want[i] = sum;
        c[i] = 1.0f;
    }
    test_operand_t dst = {ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, M, N, 0), c, sizeof c};
    test_operand_t src0 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F16, 0, M, K, 0), a, sizeof a};
    test_operand_t src1 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F16, 0, K, N, 0), b, sizeof b};
    test_operand_t *ops[5] = {&dst, &src0, &src1};
    run_insn_ok(&env, dev_image_insn(VNPU_OP_MM), ops);
    cr_assert_eq(memcmp(c, want, sizeof c), 0);
    env_close(&env);
}

/* ---- f32 in bf16 pieces ---- */

static bool open_pieces(exec_env_t *env, int level, uint32_t passes) {
    if (level == 5 && !__builtin_cpu_supports("avx512f")) return false;
    sim_error_t err = {0};
    dev_exec_options_t options = {.isa_level = level, .threads = 1};
    env->machine = test_machine(1);
    env->machine.cls[0].matrix_f32_passes = passes;
    cr_assert_eq(
        dev_memory_create(env->machine.dram_bytes, DEV_BACKING_FULL, 0, &env->memory, &err),
        SIM_OK);
    cr_assert_eq(dev_exec_create(&env->machine, env->memory, &options, &env->exec, &err), SIM_OK,
                 "%s", err.text);
    return true;
}

/* [m][k] x [k][n], dense, into a result that starts as `c`. */
static void run_f32(exec_env_t *env, float *c, float *a, float *b, uint32_t m, uint32_t n,
                    uint32_t k, bool accumulate) {
    test_operand_t dst = {ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, m, n, 0), c, 4 * m * n};
    test_operand_t src0 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, m, k, 0), a, 4 * m * k};
    test_operand_t src1 = {ap_dense(VNPU_SPACE_SRAM, VNPU_F32, 0, k, n, 0), b, 4 * k * n};
    test_operand_t *ops[5] = {&dst, &src0, &src1};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_MM);
    insn.not_first = accumulate;
    run_insn_ok(env, insn, ops);
}

static void cut(float x, uint16_t piece[3]) {
    for (int i = 0; i < 3; i++) {
        piece[i] = dev_f32_to_bf16(x);
        x -= dev_bf16_to_f32(piece[i]);
    }
}

/* The rule by way of bf16: for each pair of k its terms one after the other, the smallest first. */
static float pieces_chain(const float *a, const float *b, uint32_t k, uint32_t n, uint32_t passes,
                          float sum) {
    static const char order[] = "22 21 12 20 02 11 10 01 00";
    const char *first = order + 3 * (9 - passes);
    for (uint32_t p = 0; p < k; p += 2) {
        uint16_t x[2][3], y[2][3];
        for (uint32_t i = 0; i < 2; i++) {
            cut(p + i < k ? a[p + i] : 0.0f, x[i]);
            cut(p + i < k ? b[(p + i) * n] : 0.0f, y[i]);
        }
        for (uint32_t r = 0; r < passes; r++) {
            int u = first[3 * r] - '0', v = first[3 * r + 1] - '0';
            uint16_t left[2] = {x[0][u], x[1][u]}, right[2] = {y[0][v], y[1][v]};
            sum = bf16_chain(left, right, 2, 1, sum);
        }
    }
    return sum;
}

typedef struct pieces_case {
    uint32_t m, n, k;
    float *a, *b, *c, *want;
} pieces_case_t;

static pieces_case_t pieces_new(uint32_t m, uint32_t n, uint32_t k) {
    pieces_case_t t = {
        m, n, k, malloc(4 * m * k), malloc(4 * k * n), malloc(4 * m * n), malloc(4 * m * n)};
    uint64_t seed = m + 7 * n + 31 * k;
    for (uint32_t i = 0; i < m * k; i++)
        t.a[i] = (float)(int32_t)(dev_test_random(&seed) >> 32) * 0x1p-31f;
    for (uint32_t i = 0; i < k * n; i++)
        t.b[i] = (float)(int32_t)(dev_test_random(&seed) >> 32) * 0x1p-31f;
    for (uint32_t i = 0; i < m * n; i++)
        t.c[i] = (float)(int32_t)(dev_test_random(&seed) >> 32) * 0x1p-31f;
    return t;
}

static void pieces_free(pieces_case_t *t) {
    free(t->a), free(t->b), free(t->c), free(t->want);
}

static const uint32_t PASSES[] = {1, 3, 6, 9};

Test(exec_mm, f32_in_bf16_pieces_has_one_order_at_every_level) {
    static const uint32_t shapes[][3] = {{33, 70, 64}, {1, 5, 1}, {4, 40, 33}, {9, 80, 700}};
    for (uint32_t l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < 4; i++) {
            exec_env_t env;
            if (!open_pieces(&env, levels[l], PASSES[i])) continue;
            for (uint32_t s = 0; s < 4; s++) {
                pieces_case_t t = pieces_new(shapes[s][0], shapes[s][1], shapes[s][2]);
                for (uint32_t e = 0; e < t.m * t.n; e++)
                    t.want[e] = pieces_chain(t.a + e / t.n * t.k, t.b + e % t.n, t.k, t.n,
                                             PASSES[i], s % 2 ? t.c[e] : 0.0f);
                run_f32(&env, t.c, t.a, t.b, t.m, t.n, t.k, s % 2);
                cr_assert_eq(memcmp(t.c, t.want, 4 * t.m * t.n), 0, "x%u shape %u level %d",
                             PASSES[i], s, levels[l]);
                pieces_free(&t);
            }
            env_close(&env);
        }
    }
}

/* bf16x1 is a bf16 product of the rounded operands. */
Test(exec_mm, one_piece_is_a_bf16_product) {
    exec_env_t env;
    cr_assert(open_pieces(&env, 2, 1));
    pieces_case_t t = pieces_new(19, 37, 131);
    uint16_t *a = malloc(2 * t.m * t.k), *b = malloc(2 * t.k * t.n);
    for (uint32_t i = 0; i < t.m * t.k; i++)
        a[i] = dev_f32_to_bf16(t.a[i]);
    for (uint32_t i = 0; i < t.k * t.n; i++)
        b[i] = dev_f32_to_bf16(t.b[i]);
    test_operand_t dst = {ap_dense(VNPU_SPACE_ACC, VNPU_F32, 0, t.m, t.n, 0), t.want,
                          4 * t.m * t.n};
    test_operand_t src0 = {ap_dense(VNPU_SPACE_SRAM, VNPU_BF16, 0, t.m, t.k, 0), a, 2 * t.m * t.k};
    test_operand_t src1 = {ap_dense(VNPU_SPACE_SRAM, VNPU_BF16, 0, t.k, t.n, 0), b, 2 * t.k * t.n};
    test_operand_t *ops[5] = {&dst, &src0, &src1};
    run_insn_ok(&env, dev_image_insn(VNPU_OP_MM), ops);
    run_f32(&env, t.c, t.a, t.b, t.m, t.n, t.k, false);
    cr_assert_eq(memcmp(t.c, t.want, 4 * t.m * t.n), 0);
    free(a), free(b);
    pieces_free(&t);
    env_close(&env);
}

/* Two instructions of even k give the bits of one. */
Test(exec_mm, pieces_do_not_hang_on_the_cut_of_k) {
    for (uint32_t i = 0; i < 4; i++) {
        exec_env_t env;
        cr_assert(open_pieces(&env, 2, PASSES[i]));
        enum { M = 7, N = 40, K = 301, FIRST = 122 };
        pieces_case_t t = pieces_new(M, N, K);
        run_f32(&env, t.want, t.a, t.b, M, N, K, false);
        float *part = malloc(4 * M * K);
        for (uint32_t turn = 0; turn < 2; turn++) {
            uint32_t from = turn ? FIRST : 0, width = turn ? K - FIRST : FIRST;
            for (uint32_t r = 0; r < M; r++)
                memcpy(part + r * width, t.a + r * K + from, 4 * width);
            run_f32(&env, t.c, part, t.b + from * N, M, N, width, turn > 0);
        }
        cr_assert_eq(memcmp(t.c, t.want, 4 * M * N), 0, "x%u", PASSES[i]);
        free(part);
        pieces_free(&t);
        env_close(&env);
    }
}

/* Against sums in f64: what each number of terms leaves out, and no more; it is felt, too. */
Test(exec_mm, pieces_leave_out_what_they_should) {
    static const double left_out[] = {0x1p-8, 3 * 0x1p-18, 0x1p-25, 0};
    enum { M = 24, N = 33, K = 256 };
    double worst[4];
    for (uint32_t i = 0; i < 4; i++) {
        exec_env_t env;
        cr_assert(open_pieces(&env, 2, PASSES[i]));
        pieces_case_t t = pieces_new(M, N, K);
        run_f32(&env, t.c, t.a, t.b, M, N, K, false);
        worst[i] = 0;
        for (uint32_t e = 0; e < M * N; e++) {
            double sum = 0, scale = 0;
            for (uint32_t p = 0; p < K; p++) {
                double product = (double)t.a[e / N * K + p] * (double)t.b[p * N + e % N];
                sum += product;
                scale += fabs(product);
            }
            double error = fabs((double)t.c[e] - sum) / scale;
            worst[i] = error > worst[i] ? error : worst[i];
        }
        /* Partial sums stay below sqrt(K) of the largest term here: far below K half units. */
        double rounding = 0x1p-24 * PASSES[i] * sqrt(K);
        cr_assert_leq(worst[i], left_out[i] * (1 + 0x1p-7) + rounding, "x%u: %g", PASSES[i],
                      worst[i]);
        pieces_free(&t);
        env_close(&env);
    }
    cr_assert_gt(worst[0], 0x1p-13, "one piece: %g", worst[0]);
    cr_assert(worst[1] < worst[0] / 64 && worst[2] < worst[1], "%g %g %g", worst[0], worst[1],
              worst[2]);
}

Test(exec_mm, pieces_of_what_is_not_finite) {
    exec_env_t env;
    float a[] = {INFINITY, NAN, 0x1.ffffp127f, -2.0f}, b[] = {1.0f}, c[4];
    cr_assert(open_pieces(&env, 2, 1));
    run_f32(&env, c, a, b, 4, 1, 1, false);
    cr_assert(isinf(c[0]) && isnan(c[1]) && isinf(c[2])); /* the third rounds to infinity in bf16 */
    cr_assert_eq(c[3], -2.0f);
    env_close(&env);
    cr_assert(open_pieces(&env, 2, 3));
    run_f32(&env, c, a, b, 4, 1, 1, false);
    cr_assert(isnan(c[0]) && isnan(c[1]) && isnan(c[2])); /* infinity times b's zero piece */
    cr_assert_eq(c[3], -2.0f);
    env_close(&env);
}
