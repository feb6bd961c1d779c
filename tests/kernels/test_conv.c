#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern_plan.h"
#include "tests/kernels/kern_test.h"

typedef struct conv_case {
    int64_t batch, channels, height, width, outputs;
    int64_t kernel[2];
    uint32_t stride[2], pad[2], dilation[2];
    uint32_t groups;
} conv_case_t;

static double activate(kern_activation_t activation, double x) {
    switch (activation) {
    case KERN_ACT_RELU: return x > 0 ? x : 0;
    case KERN_ACT_TANH: return tanh(x);
    case KERN_ACT_SILU: return x / (1 + exp(-x));
    default: return x;
    }
}

static double *values_of(const kern_tensor_t *t) {
    double *value = malloc((size_t)(test_numel(t) + 1) * sizeof *value);
    for (int64_t i = 0; i < test_numel(t); i++)
        value[i] = test_get(t, i);
    return value;
}

/* Sum and sum of magnitudes of one result. */
static double reference(const kern_conv_t *call, const double *in, const double *weight, int64_t b,
                        int64_t o, int64_t y, int64_t x, double *out_scale) {
    const int64_t *is = call->in.size, *ws = call->weight.size;
    int64_t first = o / (call->out.size[1] / call->groups) * ws[1];
    double sum = 0;
    *out_scale = 0;
    for (int64_t c = 0; c < ws[1]; c++) {
        for (int64_t i = 0; i < ws[2]; i++) {
            for (int64_t j = 0; j < ws[3]; j++) {
                int64_t row = y * call->stride[0] + i * call->dilation[0] - call->pad[0];
                int64_t col = x * call->stride[1] + j * call->dilation[1] - call->pad[1];
                if (row < 0 || col < 0 || row >= is[2] || col >= is[3]) continue;
                int64_t at = i * ws[3] + j;
                if (call->is_flipped) at = ws[2] * ws[3] - 1 - at;
                double p = in[((b * is[1] + first + c) * is[2] + row) * is[3] + col] *
                           weight[(o * ws[1] + c) * ws[2] * ws[3] + at];
                sum += p;
                *out_scale += fabs(p);
            }
        }
    }
    return sum;
}

static void check(kern_context_t *context, const kern_conv_t *call, const char *what) {
    test_ok(context, kern_conv(context, 0, call), what);
    const int64_t *os = call->out.size;
    double *in = values_of(&call->in), *weight = values_of(&call->weight), *bias = NULL;
    if (call->bias.address) bias = values_of(&call->bias);
    int64_t count = test_numel(&call->out);
    int64_t step = count > 20000 ? 13 : 1; /* a prime to tile sizes: every tile is looked at */
    for (int64_t i = 0; i < count; i += step) {
        int64_t x = i % os[3], y = i / os[3] % os[2], o = i / os[3] / os[2] % os[1],
                b = i / os[3] / os[2] / os[1];
        double scale, want = reference(call, in, weight, b, o, y, x, &scale);
        if (bias) want += bias[o];
        want = activate(call->activation, want);
        double got = test_get(&call->out, i), tolerance = 1e-5 * (1 + scale);
        if (call->out.dtype == VNPU_BF16 || call->out.dtype == VNPU_F16)
            tolerance += fabs(want) / 128;
        cr_assert(fabs(got - want) <= tolerance,
                  "%s: [%lld %lld %lld %lld] by [%lld %lld %lld %lld]: element %lld %lld %lld %lld "
                  "is %g, "
                  "not %g",
                  what, (long long)call->in.size[0], (long long)call->in.size[1],
                  (long long)call->in.size[2], (long long)call->in.size[3],
                  (long long)call->weight.size[0], (long long)call->weight.size[1],
                  (long long)call->weight.size[2], (long long)call->weight.size[3], (long long)b,
                  (long long)o, (long long)y, (long long)x, got, want);
    }
    free(in), free(weight), free(bias);
}

static int64_t results(int64_t size, int64_t kernel, uint32_t stride, uint32_t pad,
                       uint32_t dilation) {
    return (size + 2 * (int64_t)pad - ((kernel - 1) * dilation + 1)) / stride + 1;
}

/* variant: bit 0 channels last, bit 1 weights too, bit 2 bias, bits 3.. activation. */
static kern_conv_t make(const conv_case_t *t, vnpu_dtype_t dtype, vnpu_dtype_t out,
                        uint32_t variant) {
    static const uint32_t last[4] = {0, 2, 3, 1};
    const uint32_t *order = variant & 1 ? last : NULL, *filter = variant & 2 ? last : NULL;
    kern_conv_t call = {.groups = t->groups, .activation = (kern_activation_t)(variant >> 3)};
    int64_t size[2];
    for (int d = 0; d < 2; d++) {
        call.stride[d] = t->stride[d], call.pad[d] = t->pad[d], call.dilation[d] = t->dilation[d];
        size[d] = results(d ? t->width : t->height, t->kernel[d], t->stride[d], t->pad[d],
                          t->dilation[d]);
    }
    call.in =
        test_permuted(dtype, 4, (int64_t[]){t->batch, t->channels, t->height, t->width}, order);
    call.weight = test_permuted(
        dtype, 4, (int64_t[]){t->outputs, t->channels / t->groups, t->kernel[0], t->kernel[1]},
        filter);
    call.out = test_permuted(out, 4, (int64_t[]){t->batch, t->outputs, size[0], size[1]}, order);
    if (variant & 4) call.bias = test_tensor(out, 1, &t->outputs);
    return call;
}

static void release(kern_conv_t *call) {
    test_release(&call->in), test_release(&call->weight), test_release(&call->out);
    if (call->bias.address) test_release(&call->bias);
}

static void run_case(kern_context_t *context, const conv_case_t *t, uint32_t variant) {
    kern_conv_t call = make(t, VNPU_F32, VNPU_F32, variant);
    check(context, &call, "conv");
    release(&call);
}

static const conv_case_t cases[] = {
    {1, 3, 8, 9, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 4, 7, 7, 6, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},    /* a plain product */
    {2, 4, 9, 9, 6, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1},    /* that skips */
    {1, 3, 30, 29, 8, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1},  /* the first layer of a ResNet */
    {1, 2, 5, 5, 3, {3, 3}, {1, 1}, {6, 5}, {1, 1}, 1},    /* more border than kernel */
    {1, 2, 17, 13, 4, {3, 2}, {1, 2}, {2, 1}, {3, 2}, 1},  /* dilation */
    {3, 8, 11, 10, 12, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 4}, /* groups */
    {1, 6, 12, 12, 6, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 6},  /* depthwise */
    {2, 1, 1, 50, 3, {1, 5}, {1, 2}, {0, 2}, {1, 1}, 1},   /* one dimension */
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 13, 6, 7, 17, {6, 7}, {1, 1}, {0, 0}, {1, 1}, 1}, /* the kernel is the image */
    {1, 5, 4, 4, 3, {1, 1}, {3, 1}, {1, 2}, {1, 1}, 1},
    {5, 3, 6, 5, 4, {2, 3}, {2, 3}, {0, 1}, {1, 1}, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

Test(conv, shapes, .timeout = 240) {
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < CASES; c++) {
            for (uint32_t variant = 0; variant < 4; variant++)
                run_case(context, &cases[c], variant | (c + variant + m) % 2 * 4);
        }
        test_close(context);
    }
}

Test(conv, larger_shapes, .timeout = 240) {
    static const conv_case_t larger[] = {
        {2, 64, 14, 14, 96, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        {8, 130, 7, 7, 70, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        {1, 3, 65, 63, 64, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1},
        {1, 16, 1, 1000, 32, {1, 9}, {1, 1}, {0, 4}, {1, 1}, 1},
        {4, 160, 10, 10, 130, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    };
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < sizeof larger / sizeof *larger; c++)
            run_case(context, &larger[c], (c + m / 2) % 2 * 3);
        test_close(context);
    }
}

Test(conv, epilogues) {
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        static const kern_activation_t activations[] = {KERN_ACT_NONE, KERN_ACT_RELU, KERN_ACT_SILU,
                                                        KERN_ACT_TANH};
        for (uint32_t a = 0; a < 4; a++) {
            for (uint32_t variant = 0; variant < 8; variant += 2)
                run_case(context, &cases[0], variant | (uint32_t)activations[a] << 3 | (a & 1));
        }
        test_close(context);
    }
}

Test(conv, narrow_types) {
    static const vnpu_dtype_t types[] = {VNPU_BF16, VNPU_F16};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (uint32_t i = 0; i < 8; i++) {
            kern_conv_t call = make(&cases[i], types[i % 2], i % 4 < 2 ? types[i % 2] : VNPU_F32,
                                    i % 8 | (i % 3 == 0 ? KERN_ACT_RELU << 3 : 0));
            check(context, &call, "narrow");
            release(&call);
        }
        test_close(context);
    }
}

Test(conv, integers_are_exact) {
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (uint32_t i = 0; i < 8; i++) {
            kern_conv_t call =
                make(&cases[i], VNPU_I8, VNPU_I32, i | (i % 2 ? KERN_ACT_RELU << 3 : 0));
            check(context, &call, "int8");
            release(&call);
        }
        test_close(context);
    }
}

/* Tiles change no bit of an f32 sum: on other machines the same chain. */
Test(conv, bits_do_not_hang_on_the_machine) {
    static const conv_case_t t = {2, 24, 20, 21, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
    float *first = NULL;
    int64_t count = 0;
    for (uint32_t m = 0; m < 4; m++) {
        kern_context_t *context = test_open(m);
        kern_conv_t call = make(&t, VNPU_F32, VNPU_F32, 0);
        for (int64_t i = 0; i < test_numel(&call.in); i++)
            test_set(&call.in, i, sin((double)i));
        for (int64_t i = 0; i < test_numel(&call.weight); i++)
            test_set(&call.weight, i, cos(3.0 * (double)i));
        test_ok(context, kern_conv(context, 0, &call), "conv");
        count = test_numel(&call.out);
        if (!first) first = calloc((size_t)count, sizeof *first);
        for (int64_t i = 0; i < count; i++) {
            float value = (float)test_get(&call.out, i);
            if (m == 0) first[i] = value;
            cr_assert_eq(memcmp(&value, &first[i], 4), 0, "machine %u, element %lld", m,
                         (long long)i);
        }
        release(&call);
        test_close(context);
    }
    free(first);
}

Test(conv, empty_and_no_products) {
    kern_context_t *context = test_open(0);
    conv_case_t t = cases[0];
    t.batch = 0;
    run_case(context, &t, 4);
    t = cases[0];
    t.channels = 0;
    run_case(context, &t, 4);
    run_case(context, &t, 0);
    test_close(context);
}

Test(conv, misuse_is_refused_by_name) {
    kern_context_t *context = test_open(2);
    kern_conv_t call = make(&cases[0], VNPU_F32, VNPU_F32, 4), bad = call;
    bad.groups = 2;
    cr_assert_eq(kern_conv(context, 0, &bad), VNPU_ERROR_INVALID_VALUE);
    cr_assert_not_null(strstr(kern_error_detail(context), "sizes do not agree"));
    bad = call;
    bad.stride[1] = 0;
    cr_assert_eq(kern_conv(context, 0, &bad), VNPU_ERROR_INVALID_VALUE);
    cr_assert_not_null(strstr(kern_error_detail(context), "stride 0"));
    bad = call;
    bad.weight.dtype = VNPU_BF16;
    cr_assert_eq(kern_conv(context, 0, &bad), VNPU_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(kern_error_detail(context), "f32 by bf16"));
    bad = call;
    bad.pad[0] = 300;
    cr_assert_eq(kern_conv(context, 0, &bad), VNPU_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(kern_error_detail(context), "pad 300 x 1"), "%s",
                       kern_error_detail(context));
    release(&call);
    test_close(context);
}

/* One filter a channel: on the vector unit where it is faster (no mapping to the array then). */
Test(conv, depthwise, .timeout = 120) {
    static const conv_case_t depthwise[] = {
        {2, 70, 30, 31, 70, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 70},
        {1, 33, 17, 16, 33, {5, 3}, {2, 1}, {2, 1}, {1, 2}, 33},
        {3, 8, 6, 6, 8, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 8},
    };
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < 3; c++) {
            for (uint32_t variant = 0; variant < 4; variant++) {
                kern_set_tag(context, 0);
                uint32_t activation = variant == 3 ? KERN_ACT_TANH : KERN_ACT_NONE;
                run_case(context, &depthwise[c], variant | (variant & 1) << 2 | activation << 3);
                bool is_vector = kern_last_plan(context) == NULL;
                if (m == 0) cr_assert(is_vector, "case %u went to the array", c);
            }
        }
        test_close(context);
    }
}

Test(conv, flipped_kernels, .timeout = 120) {
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < CASES; c++) {
            kern_conv_t call = make(&cases[c], VNPU_F32, VNPU_F32, (c + m) % 8);
            call.is_flipped = true;
            check(context, &call, "flipped");
            release(&call);
        }
        test_close(context);
    }
}

/* ---- gradients of weights ---- */

static void check_weight(kern_context_t *context, const conv_case_t *t, uint32_t variant,
                         vnpu_dtype_t dtype) {
    kern_conv_t forward = make(t, dtype, dtype, variant & 3);
    kern_conv_weight_t call = {.in = forward.in, .groups = t->groups};
    for (int d = 0; d < 2; d++)
        call.stride[d] = t->stride[d], call.pad[d] = t->pad[d], call.dilation[d] = t->dilation[d];
    call.grad = forward.out, call.out = forward.weight;
    test_fill(&call.grad, -1, 1);
    test_ok(context, kern_conv_weight(context, 0, &call), "conv_weight");
    const int64_t *is = call.in.size, *gs = call.grad.size, *ws = call.out.size;
    double *in = values_of(&call.in), *grad = values_of(&call.grad);
    int64_t step = test_numel(&call.out) > 3000 ? 7 : 1;
    for (int64_t e = 0; e < test_numel(&call.out); e += step) {
        int64_t j = e % ws[3], i = e / ws[3] % ws[2], c = e / ws[3] / ws[2] % ws[1],
                o = e / ws[3] / ws[2] / ws[1], channel = o / (ws[0] / t->groups) * ws[1] + c;
        double sum = 0, scale = 0;
        for (int64_t p = 0; p < gs[0] * gs[2] * gs[3]; p++) {
            int64_t x = p % gs[3], y = p / gs[3] % gs[2], b = p / gs[3] / gs[2];
            int64_t row = y * t->stride[0] + i * t->dilation[0] - t->pad[0];
            int64_t col = x * t->stride[1] + j * t->dilation[1] - t->pad[1];
            if (row < 0 || col < 0 || row >= is[2] || col >= is[3]) continue;
            double product = in[((b * is[1] + channel) * is[2] + row) * is[3] + col] *
                             grad[((b * gs[1] + o) * gs[2] + y) * gs[3] + x];
            sum += product;
            scale += fabs(product);
        }
        double got = test_get(&call.out, e);
        double tolerance = 1e-5 * (1 + scale) + (dtype == VNPU_F32 ? 0 : fabs(sum) / 128);
        cr_assert(fabs(got - sum) <= tolerance, "weight %lld %lld %lld %lld is %g, not %g",
                  (long long)o, (long long)c, (long long)i, (long long)j, got, sum);
    }
    free(in), free(grad);
    release(&forward);
}

Test(conv, gradients_of_weights, .timeout = 240) {
    static const conv_case_t larger[] = {
        {3, 30, 14, 13, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        {5, 20, 3, 3, 150, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1}, /* results of one element, odd batch
                                                                */
    };
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < CASES; c++)
            check_weight(context, &cases[c], c + m, c % 5 == 4 ? VNPU_BF16 : VNPU_F32);
        for (uint32_t c = 0; c < 2; c++)
            check_weight(context, &larger[c], m, VNPU_F32);
        test_close(context);
    }
}

Test(conv, misuse_of_gradients_is_refused_by_name) {
    kern_context_t *context = test_open(2);
    kern_conv_t forward = make(&cases[0], VNPU_F32, VNPU_F32, 0);
    kern_conv_weight_t call = {
        .in = forward.in, .grad = forward.out, .out = forward.weight, .groups = 2};
    cr_assert_eq(kern_conv_weight(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    cr_assert_not_null(strstr(kern_error_detail(context), "do not agree"));
    call.groups = 1;
    call.stride[0] = call.stride[1] = call.dilation[0] = call.dilation[1] = 1;
    call.grad.dtype = VNPU_BF16;
    cr_assert_eq(kern_conv_weight(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
    release(&forward);
    test_close(context);
}
