// Autocast: torch's own lists of operators for the key of this device; everything else falls
// through.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// The lists name types without their namespace.
namespace at::autocast {
namespace {

#define VNPU_LOWER(...)    KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define VNPU_FP32(...)     KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define VNPU_FP32_OPT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define VNPU_PROMOTE(...)  KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
    AT_FORALL_LOWER_PRECISION_FP(VNPU_LOWER)
    AT_FORALL_FP32(VNPU_FP32)
    AT_FORALL_FP32_SET_OPT_DTYPE(VNPU_FP32_OPT)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
    AT_FORALL_PROMOTE(VNPU_PROMOTE)
}

} // namespace
} // namespace at::autocast
