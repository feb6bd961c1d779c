// Registration of the operator table: one boxed functor a row.
#include <memory>

#include <torch/library.h>

#include "torch_plugin/csrc/vnpu_pointwise.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

class PointwiseKernel final : public c10::OperatorKernel {
  public:
    explicit PointwiseKernel(const PointwiseRow *row) : row_(row) {}
    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
        OpScope scope(op, *stack);
        OpCall call(op, stack);
        if (run_pointwise(call, *row_) == Outcome::host) {
            OpScope::on_host();
            host_fallback(op, stack, call.reason());
        }
    }

  private:
    const PointwiseRow *row_;
};

class HandlerKernel final : public c10::OperatorKernel {
  public:
    explicit HandlerKernel(Handler handler) : handler_(handler) {}
    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
        OpScope scope(op, *stack);
        OpCall call(op, stack);
        if (handler_(call) == Outcome::host) {
            OpScope::on_host();
            host_fallback(op, stack, call.reason());
        }
    }

  private:
    Handler handler_;
};

// What has no row: the host, counted and priced.
void fallback_kernel(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    OpScope scope(op, *stack);
    OpScope::on_host();
    host_fallback(op, stack, "");
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback_kernel>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    for (size_t i = 0; i < num_pointwise_rows(); ++i) {
        const PointwiseRow *row = pointwise_row(i);
        m.impl(row->name,
               torch::CppFunction::makeFromBoxedFunctor(std::make_unique<PointwiseKernel>(row)));
    }
    for (const HandlerRow &row : kHandlerRows) {
        m.impl(row.name, torch::CppFunction::makeFromBoxedFunctor(
                             std::make_unique<HandlerKernel>(row.handler)));
    }
}

// copy_ of a conjugate or negated view must reach _copy_from itself, which resolves both bits; the
// generic fallbacks would clone, copy and come back here without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
    m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
    m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

} // namespace
} // namespace vnpu
