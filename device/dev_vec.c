#include "device/dev_vec.h"

#include <math.h>

#include "sim/sim_status.h"

static bool host_has(int isa_level) {
    __builtin_cpu_init();
    bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa_level <= 2) return has_fma;
    return has_fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const dev_vec_level_t *dev_vec_choose(int isa_level) {
    if (isa_level == 0) isa_level = host_has(5) ? 5 : 2;
    if (!host_has(isa_level)) return NULL;
    switch (isa_level) {
    case 1: return &dev_vec_exact;
    case 2: return &dev_vec_avx2;
    case 5: return &dev_vec_avx512;
    default: return NULL;
    }
}

float dev_vec_fmod(float a, float b) {
    return fmodf(a, b);
} /* exact in IEEE arithmetic */

float dev_vec_remainder(float a, float b) {
    float mod = fmodf(a, b);
    if (mod != 0.0f && (b < 0.0f) != (mod < 0.0f)) mod += b;
    return mod;
}

/* As Python's float floor division: floor of the exact quotient, corrected for the rounding of a -
 * mod. */
float dev_vec_floordiv(float a, float b) {
    if (b == 0.0f) return a / b;
    float mod = fmodf(a, b);
    float quotient = (a - mod) / b;
    if (mod != 0.0f && (b < 0.0f) != (mod < 0.0f)) quotient -= 1.0f;
    if (quotient == 0.0f) return copysignf(0.0f, a / b);
    float floored = floorf(quotient);
    return quotient - floored > 0.5f ? floored + 1.0f : floored;
}

static float combine(vnpu_reduce_t func, float a, float b) {
    switch (func) {
    case VNPU_R_ADD: return a + b;
    case VNPU_R_MAX: return a != a || b != b ? a + b : (a > b ? a : b);
    case VNPU_R_MIN: return a != a || b != b ? a + b : (a < b ? a : b);
    case VNPU_R_MUL: return a * b;
    case VNPU_R_COUNT: break;
    }
    sim_bug("executor", 0, "reduction %d", (int)func);
}

static int64_t combine_int(vnpu_reduce_t func, int64_t a, int64_t b) {
    switch (func) {
    case VNPU_R_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case VNPU_R_MAX: return a > b ? a : b;
    case VNPU_R_MIN: return a < b ? a : b;
    case VNPU_R_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case VNPU_R_COUNT: break;
    }
    sim_bug("executor", 0, "reduction %d", (int)func);
}

float dev_vec_fold(vnpu_reduce_t func, const float partial[VNPU_PARTIALS]) {
    float level[VNPU_PARTIALS / 2];
    for (uint32_t l = 0; l < 8; l++)
        level[l] = combine(func, partial[l], partial[l + 8]);
    for (uint32_t half = 4; half >= 1; half /= 2) {
        for (uint32_t l = 0; l < half; l++)
            level[l] = combine(func, level[l], level[l + half]);
    }
    return level[0];
}

int64_t dev_int_fold(vnpu_reduce_t func, const int64_t partial[VNPU_PARTIALS]) {
    int64_t result = partial[0]; /* associative: any order */
    for (uint32_t l = 1; l < VNPU_PARTIALS; l++)
        result = combine_int(func, result, partial[l]);
    return result;
}

float dev_vec_identity(vnpu_reduce_t func) {
    switch (func) {
    case VNPU_R_ADD: return 0.0f;
    case VNPU_R_MAX: return -INFINITY;
    case VNPU_R_MIN: return INFINITY;
    case VNPU_R_MUL: return 1.0f;
    case VNPU_R_COUNT: break;
    }
    sim_bug("executor", 0, "reduction %d", (int)func);
}

int64_t dev_int_identity(vnpu_reduce_t func) {
    switch (func) {
    case VNPU_R_ADD: return 0;
    case VNPU_R_MAX: return INT64_MIN;
    case VNPU_R_MIN: return INT64_MAX;
    case VNPU_R_MUL: return 1;
    case VNPU_R_COUNT: break;
    }
    sim_bug("executor", 0, "reduction %d", (int)func);
}
