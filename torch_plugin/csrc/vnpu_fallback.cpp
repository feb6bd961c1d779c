// The priced host fallback. at::native::cpu_fallback would hide what it costs: here the copies, the
// host's work and the copies back happen in that order of simulated time.
#include "torch_plugin/csrc/vnpu_dispatch.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include <ATen/ops/_copy_from_and_resize.h>
#include <ATen/ops/empty_strided.h>

#include "torch_plugin/csrc/vnpu_generator.h"

namespace vnpu {
namespace {

enum class Mode { error, warn, allow };

Mode fallback_mode() {
    const char *text = std::getenv("VNPU_FALLBACK");
    if (text == nullptr || *text == '\0' || std::strcmp(text, "warn") == 0) {
        return Mode::warn;
    }
    if (std::strcmp(text, "error") == 0) {
        return Mode::error;
    }
    TORCH_CHECK(std::strcmp(text, "allow") == 0,
                "VNPU_FALLBACK must be error, warn or allow, not '", text, "'");
    return Mode::allow;
}

} // namespace

void announce_host(const c10::OperatorHandle &op, const torch::jit::Stack &stack,
                   const std::string &reason) {
    const std::string why = reason.empty() ? "no kernel for it" : reason;
    switch (fallback_mode()) {
    case Mode::allow: return;
    case Mode::error:
        TORCH_CHECK_NOT_IMPLEMENTED(false, describe_arguments(op, stack),
                                    " does not run on the vnpu (", why,
                                    ") and VNPU_FALLBACK=error forbids the host");
    case Mode::warn: break;
    }
    static std::mutex mutex;
    static auto *warned = new std::unordered_set<std::string>();
    std::lock_guard<std::mutex> guard(mutex);
    if (warned->insert(c10::toString(op.operator_name())).second) {
        TORCH_WARN(describe_arguments(op, stack), " does not run on the vnpu (", why,
                   "): it runs on the host, at the price of the host (said once for each operator; "
                   "VNPU_FALLBACK=allow is silent, error refuses)");
    }
}

namespace {

void refuse_views(const c10::FunctionSchema &schema) {
    for (const auto &result : schema.returns()) {
        const c10::AliasInfo *alias = result.alias_info();
        TORCH_CHECK_NOT_IMPLEMENTED(
            alias == nullptr || alias->isWrite(), schema.name(), ".", schema.overload_name(),
            ": a view operator cannot run on the host: its result would be a copy");
    }
}

bool is_on_device(const at::Tensor &tensor) {
    return tensor.defined() && tensor.device().type() == kDevice;
}

class HostCall {
  public:
    HostCall(const c10::OperatorHandle &op, torch::jit::Stack *stack)
        : op_(op), schema_(op.schema()), stack_(stack),
          first_(stack->size() - schema_.arguments().size()) {}

    void run() {
        const size_t count = schema_.arguments().size();
        originals_.assign(stack_->begin() + static_cast<std::ptrdiff_t>(first_), stack_->end());
        for (size_t i = 0; i < count; ++i) {
            (*stack_)[first_ + i] = to_host(originals_[i], schema_.arguments()[i]);
        }
        host_args_.assign(stack_->begin() + static_cast<std::ptrdiff_t>(first_), stack_->end());
        op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
        charge();
        write_back();
        results_to_device();
    }

  private:
    at::Tensor tensor_to_host(const at::Tensor &tensor, bool is_out) {
        if (!is_on_device(tensor)) {
            return tensor;
        }
        device_ = tensor.device();
        bytes_ += tensor.nbytes();
        elements_ = std::max(elements_, static_cast<uint64_t>(tensor.numel()));
        if (is_out) { // only written: nothing to carry over
            return at::empty_strided(tensor.sizes(), tensor.strides(),
                                     tensor.options().device(at::kCPU));
        }
        return tensor.to(at::kCPU);
    }

    c10::IValue to_host(const c10::IValue &value, const c10::Argument &argument) {
        if (value.isTensor()) {
            return tensor_to_host(value.toTensor(), argument.is_out());
        }
        if (value.isTensorList()) {
            c10::List<at::Tensor> list;
            for (const at::Tensor &tensor : value.toTensorVector()) {
                list.push_back(tensor_to_host(tensor, argument.is_out()));
            }
            return list;
        }
        if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> list;
            for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorList()) {
                list.push_back(tensor ? std::optional<at::Tensor>(tensor_to_host(*tensor, false))
                                      : std::nullopt);
            }
            return list;
        }
        if (value.isDevice() && value.toDevice().type() == kDevice) {
            device_ = value.toDevice();
            return c10::Device(at::kCPU);
        }
        if (argument.type()->kind() == c10::TypeKind::GeneratorType ||
            argument.type()->str().find("Generator") != std::string::npos) {
            return host_generator(value.isNone() ? at::Generator() : value.toGenerator());
        }
        return value;
    }

    void charge() {
        const size_t results = schema_.returns().size(), base = stack_->size() - results;
        for (size_t i = 0; i < results; ++i) {
            const c10::IValue &value = (*stack_)[base + i];
            if (!value.isTensor() || !value.toTensor().defined()) {
                continue;
            }
            const at::Tensor &tensor = value.toTensor();
            TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, schema_.name(),
                                        ": a result of layout ", tensor.layout(),
                                        "; the vnpu holds strided tensors only");
            if (schema_.returns()[i].alias_info() == nullptr) {
                bytes_ += tensor.nbytes();
                elements_ = std::max(elements_, static_cast<uint64_t>(tensor.numel()));
            }
        }
        OpScope::add_host_time(charge_host(bytes_, std::max(elements_, products())));
    }

    // 2 M N K of a matrix product, the one kind of operator whose work is not its size.
    uint64_t products() const {
        static const std::unordered_set<std::string> names = {
            "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::matmul"};
        if (names.count(schema_.name()) == 0) {
            return 0;
        }
        uint64_t work = 2;
        bool is_left = true;
        for (const c10::IValue &value : host_args_) {
            if (!value.isTensor() || value.toTensor().dim() < 2) {
                continue;
            }
            const at::Tensor &tensor = value.toTensor();
            work *= is_left ? static_cast<uint64_t>(tensor.numel())
                            : static_cast<uint64_t>(tensor.size(-1));
            if (!is_left) {
                return work;
            }
            is_left = false;
        }
        return 0;
    }

    static void copy_back(const at::Tensor &from, const at::Tensor &to) {
        if (is_on_device(to) && from.defined()) {
            at::_copy_from_and_resize(from, to);
        }
    }

    void write_back() {
        for (size_t i = 0; i < originals_.size(); ++i) {
            const c10::AliasInfo *alias = schema_.arguments()[i].alias_info();
            if (alias == nullptr || !alias->isWrite()) {
                continue;
            }
            if (originals_[i].isTensor()) {
                copy_back(host_args_[i].toTensor(), originals_[i].toTensor());
            } else if (originals_[i].isTensorList()) {
                const auto from = host_args_[i].toTensorVector(),
                           to = originals_[i].toTensorVector();
                for (size_t j = 0; j < to.size(); ++j) {
                    copy_back(from[j], to[j]);
                }
            }
        }
    }

    // The argument that a written alias result stands for.
    const c10::IValue *aliased_argument(const c10::AliasInfo &alias) const {
        for (size_t i = 0; i < originals_.size(); ++i) {
            const c10::AliasInfo *other = schema_.arguments()[i].alias_info();
            if (other != nullptr && other->isWrite() && *other == alias) {
                return &originals_[i];
            }
        }
        return nullptr;
    }

    c10::IValue to_device(const c10::IValue &value) const {
        if (value.isTensor() && value.toTensor().defined() && device_) {
            return value.toTensor().to(*device_);
        }
        if (value.isTensorList() && device_) {
            c10::List<at::Tensor> list;
            for (const at::Tensor &tensor : value.toTensorVector()) {
                list.push_back(tensor.defined() ? tensor.to(*device_) : tensor);
            }
            return list;
        }
        return value;
    }

    void results_to_device() {
        const auto &returns = schema_.returns();
        const size_t base = stack_->size() - returns.size();
        for (size_t i = 0; i < returns.size(); ++i) {
            const c10::AliasInfo *alias = returns[i].alias_info();
            const c10::IValue *original = alias != nullptr ? aliased_argument(*alias) : nullptr;
            (*stack_)[base + i] = original != nullptr ? *original : to_device((*stack_)[base + i]);
        }
    }

    const c10::OperatorHandle &op_;
    const c10::FunctionSchema &schema_;
    torch::jit::Stack *stack_;
    size_t first_;
    torch::jit::Stack originals_, host_args_;
    std::optional<c10::Device> device_;
    uint64_t bytes_ = 0, elements_ = 0;
};

} // namespace

uint64_t charge_host(uint64_t bytes, uint64_t operations) {
    const vnpu_machine_t &chip = machine();
    const __uint128_t second = 1000000000000u;
    const uint64_t memory = chip.host_bytes_per_s != 0
                                ? static_cast<uint64_t>(bytes * second / chip.host_bytes_per_s)
                                : 0;
    const uint64_t compute =
        chip.host_flops != 0 ? static_cast<uint64_t>(operations * second / chip.host_flops) : 0;
    const uint64_t ps = std::max(memory, compute);
    check(vnpu_sim_host_advance(0, ps), "charging host time");
    return ps;
}

void host_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack,
                   const std::string &reason) {
    refuse_views(op.schema());
    TORCH_CHECK_NOT_IMPLEMENTED(
        op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), describe_arguments(op, *stack),
        " runs neither on the vnpu nor on the host: there is no kernel for it");
    announce_host(op, *stack, reason);
    HostCall(op, stack).run();
}

} // namespace vnpu
