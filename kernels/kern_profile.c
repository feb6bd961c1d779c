#include "kernels/kern_profile.h"

const kern_profile_t *kern_profile_of(const vnpu_machine_t *machine) {
    static const kern_profile_t profile[] = {
        [VNPU_PROFILE_BEST] = {.name = "best", .has_trials = true},
        [VNPU_PROFILE_XLA] = {.name = "xla-like",
                              .plan_gemm = kern_profile_xla_gemm,
                              .norm_in_place = true,
                              .splits_softmax = true},
        [VNPU_PROFILE_TTNN] = {.name = "ttnn-like", .plan_gemm = kern_profile_ttnn_gemm},
        [VNPU_PROFILE_GEMMINI] = {.name = "gemmini-like",
                                  .plan_gemm = kern_profile_gemmini_gemm,
                                  .plan_conv = kern_profile_gemmini_conv,
                                  .skips = kern_profile_gemmini_skips},
    };
    uint32_t count = sizeof profile / sizeof profile[0];
    uint32_t chosen = machine->mapping_profile;
    return &profile[chosen < count ? chosen : VNPU_PROFILE_BEST];
}
