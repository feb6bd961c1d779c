/*
 * Mapping profiles: a few rules of a vendor's compiler, by operator class, never by shape
 * (docs/mapping.md). mapping.profile of the configuration chooses one; `best` has no rules: the
 * library's fused kernels, and the simulator decides between close tilings. A profile is a row of
 * the table in kern_profile.c; rules that are more than a flag have a file of their own,
 * kern_profile_NAME.c.
 */
#ifndef KERN_PROFILE_H
#define KERN_PROFILE_H

#include <stdbool.h>

#include "kernels/kern_conv_plan.h"
#include "kernels/kern_gemm_plan.h"

typedef struct kern_profile {
    const char *name;
    /* The tiling of a product, by kern_gemm_finish; false: no rule fits, the search decides. NULL:
     * the search always. */
    bool (*plan_gemm)(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                      kern_gemm_plan_t *out_plan);
    /* The same of a convolution, by kern_conv_finish. */
    bool (*plan_conv)(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                      kern_conv_plan_t *out_plan);
    /* Whether loads leave out what lies between the windows of a kernel of one element; NULL: where
     * it can be. */
    bool (*skips)(const kern_conv_shape_t *shape);
    bool has_trials;     /* the simulator decides between close tilings (kern_plan.h) */
    bool splits_softmax; /* no fusion across a reduction: four kernels, six passes */
    /* A tile of a layer norm has one buffer, and its results replace it: a core loads, normalises
     * and stores in turn. */
    bool norm_in_place;
} kern_profile_t;

/* Of the machine's mapping_profile; one that this library does not know is `best`. */
const kern_profile_t *kern_profile_of(const vnpu_machine_t *machine);

bool kern_profile_xla_gemm(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                           kern_gemm_plan_t *out_plan);
bool kern_profile_ttnn_gemm(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                            kern_gemm_plan_t *out_plan);
bool kern_profile_gemmini_gemm(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                               kern_gemm_plan_t *out_plan);
bool kern_profile_gemmini_skips(const kern_conv_shape_t *shape);
bool kern_profile_gemmini_conv(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                               kern_conv_plan_t *out_plan);

/* softmax or log-softmax, not empty, as maximum | exponential | sum | quotient. Operands as in
 * kern_softmax, at least one dimension. Scratch: two values a row; log-softmax also one tensor. */
vnpu_status_t kern_softmax_split(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_tensor_t *out, const kern_tensor_t *in, uint32_t dim,
                                 bool is_log) __attribute__((warn_unused_result));

#endif
