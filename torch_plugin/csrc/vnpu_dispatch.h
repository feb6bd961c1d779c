// How an operator reaches the chip: table rows, the boxed kernel that runs them, the priced host
// fallback, and the record of what was dispatched.
//
// Every compute and copy operator is registered as one boxed functor over its table row. A handler
// reads its arguments from the stack and either finishes the operator on the device (`done`) or
// says why it cannot
// (`host`), leaving the stack as it was; the functor then falls back.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "torch_plugin/csrc/vnpu_runtime.h"

namespace vnpu {

enum class Outcome { done, host };

// One operator call: typed access to its arguments, and its result.
class OpCall {
  public:
    OpCall(const c10::OperatorHandle &op, torch::jit::Stack *stack)
        : op_(op), stack_(stack), num_args_(op.schema().arguments().size()) {}

    const c10::OperatorHandle &op() const { return op_; }
    size_t num_args() const { return num_args_; }
    const c10::IValue &arg(size_t i) const { return torch::jit::peek(*stack_, i, num_args_); }
    const at::Tensor &tensor(size_t i) const { return arg(i).toTensor(); }
    // The argument as a tensor; an undefined one for None.
    at::Tensor optional_tensor(size_t i) const {
        return arg(i).isNone() ? at::Tensor() : arg(i).toTensor();
    }
    at::Scalar scalar(size_t i) const { return arg(i).toScalar(); }
    int64_t integer(size_t i) const { return arg(i).toInt(); }
    bool boolean(size_t i) const { return arg(i).toBool(); }
    // An int[] or int argument; empty for None.
    std::vector<int64_t> integers(size_t i) const;
    const at::Tensor &out() const {
        return tensor(num_args_ - 1);
    } // the out argument is the last one

    Outcome done(c10::IValue result);
    Outcome done(at::Tensor first, at::Tensor second);
    Outcome done(at::Tensor first, at::Tensor second, at::Tensor third);
    void replace_result(c10::IValue result); // of a finished call: a view of it, for example
    Outcome host(std::string reason);        // "why the chip cannot"
    const std::string &reason() const { return reason_; }
    // For a handler that does its host part itself: refuses or warns as VNPU_FALLBACK says, and
    // counts it.
    void goes_to_host();

    // Outcome of a kernel call: OK -> true; unsupported -> false with the reason kept; else throws.
    bool ran(vnpu_status_t status, const KernelLock &lock);

  private:
    const c10::OperatorHandle &op_;
    torch::jit::Stack *stack_;
    size_t num_args_;
    std::string reason_;
};

using Handler = Outcome (*)(OpCall &call);
struct PointwiseRow; // vnpu_pointwise.h

struct HandlerRow {
    const char *name; // "mm.out"
    Handler handler;
};

// Runs the operator on the CPU: arguments cross the link, the host's time is charged to the virtual
// host clock, results cross back. Refuses by name under VNPU_FALLBACK=error and for view operators.
void host_fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack,
                   const std::string &reason);

// Raises under VNPU_FALLBACK=error, warns once for each operator under warn.
void announce_host(const c10::OperatorHandle &op, const torch::jit::Stack &stack,
                   const std::string &reason);

// "aten::mm(float32[4096, 384], float32[384, 1536])": name and tensor arguments.
std::string describe_arguments(const c10::OperatorHandle &op, const torch::jit::Stack &stack);

// Charges host work of an operator: bytes touched and operations, priced by the machine
// description. Returns the time.
uint64_t charge_host(uint64_t bytes, uint64_t operations);

// ---- the record of a profile
// ----------------------------------------------------------------------------------------
struct OpRecord {
    uint32_t tag;
    std::string op, dtype, shapes;
    bool on_host;
    uint64_t host_ps;
    std::string module;
    std::vector<kern_mapping_t> mappings; // of its matrix products and attentions, in order
};

void profile_begin(bool with_slices);
// The profile blob of the driver and the operators dispatched since the beginning.
std::pair<std::string, std::vector<OpRecord>> profile_end();
void set_module_path(const std::string &path);
uint32_t current_tag() noexcept; // of the operator that this thread runs; 0 outside a profile

// One dispatched operator: the outermost one on a thread gets a tag and a record while a profile
// runs; what it calls belongs to it.
class OpScope {
  public:
    OpScope(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
    ~OpScope();
    OpScope(const OpScope &) = delete;
    OpScope &operator=(const OpScope &) = delete;
    static void on_host(); // the operator that this thread runs went to the host
    static void add_host_time(uint64_t ps);
    static void add_mapping(const kern_mapping_t *mapping); // nullptr: nothing

  private:
    bool is_outermost_;
};

} // namespace vnpu
