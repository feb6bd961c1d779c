#include "torch_plugin/csrc/vnpu_dispatch.h"

#include <atomic>
#include <mutex>
#include <sstream>

namespace vnpu {
namespace {

struct Recorder {
    std::mutex mutex;
    std::vector<OpRecord> records;
    std::string module;
};

Recorder &recorder() {
    static auto *instance = new Recorder(); // outlives static destructors of other threads' work
    return *instance;
}

std::atomic<bool> g_profiling{false};
std::atomic<uint32_t> g_next_tag{0};
thread_local int t_depth = 0;
thread_local uint32_t t_tag = 0;

const char *dtype_name(at::ScalarType type) {
    switch (type) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kByte: return "uint8";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kBool: return "bool";
    default: return c10::toString(type);
    }
}

// Calls visit(tensor, is_output) for every tensor among the arguments.
template <typename Visit>
void for_each_tensor(const c10::OperatorHandle &op, const torch::jit::Stack &stack, Visit visit) {
    const auto &arguments = op.schema().arguments();
    const size_t count = arguments.size();
    for (size_t i = 0; i < count && stack.size() >= count; ++i) {
        const c10::IValue &value = torch::jit::peek(stack, i, count);
        const bool is_out = arguments[i].is_out();
        if (value.isTensor() && value.toTensor().defined()) {
            visit(value.toTensor(), is_out);
        } else if (value.isTensorList()) {
            for (const at::Tensor &tensor : value.toTensorVector()) {
                visit(tensor, is_out);
            }
        }
    }
}

std::string op_name(const c10::OperatorHandle &op) {
    const auto &name = op.operator_name();
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Type of an operator's work: the first float operand's, else the first operand's.
std::string main_dtype(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
    const char *name = "";
    bool is_float = false;
    for_each_tensor(op, stack, [&](const at::Tensor &tensor, bool) {
        const bool is_better = tensor.is_floating_point() && !is_float;
        if (*name == '\0' || is_better) {
            name = dtype_name(tensor.scalar_type());
            is_float = tensor.is_floating_point();
        }
    });
    return name;
}

std::string input_shapes(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
    std::ostringstream text, outputs;
    for_each_tensor(op, stack, [&](const at::Tensor &tensor, bool is_out) {
        std::ostringstream &to = is_out ? outputs : text;
        to << (to.tellp() > 0 ? " x " : "") << tensor.sizes();
    });
    return text.tellp() > 0 ? text.str() : outputs.str();
}

} // namespace

std::vector<int64_t> OpCall::integers(size_t i) const {
    const c10::IValue &value = arg(i);
    if (value.isNone()) {
        return {};
    }
    return value.isInt() ? std::vector<int64_t>{value.toInt()} : value.toIntVector();
}

Outcome OpCall::done(c10::IValue result) {
    torch::jit::drop(*stack_, num_args_);
    stack_->emplace_back(std::move(result));
    return Outcome::done;
}

Outcome OpCall::done(at::Tensor first, at::Tensor second) {
    torch::jit::drop(*stack_, num_args_);
    torch::jit::push(*stack_, std::move(first), std::move(second));
    return Outcome::done;
}

Outcome OpCall::done(at::Tensor first, at::Tensor second, at::Tensor third) {
    torch::jit::drop(*stack_, num_args_);
    torch::jit::push(*stack_, std::move(first), std::move(second), std::move(third));
    return Outcome::done;
}

void OpCall::replace_result(c10::IValue result) {
    stack_->back() = std::move(result);
}

Outcome OpCall::host(std::string reason) {
    reason_ = std::move(reason);
    return Outcome::host;
}

void OpCall::goes_to_host() {
    announce_host(op_, *stack_, reason_);
    OpScope::on_host();
}

bool OpCall::ran(vnpu_status_t status, const KernelLock &lock) {
    if (status == VNPU_OK) [[likely]] {
        OpScope::add_mapping(kern_last_plan(lock.context()));
        return true;
    }
    const std::string detail = kern_error_detail(lock.context());
    if (status == VNPU_ERROR_UNSUPPORTED) {
        reason_ = detail;
        return false;
    }
    throw_status(status, (op_name(op_) + (detail.empty() ? "" : ": " + detail)).c_str());
}

std::string describe_arguments(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
    std::ostringstream text;
    for_each_tensor(op, stack, [&](const at::Tensor &tensor, bool is_out) {
        if (!is_out) {
            text << (text.tellp() > 0 ? ", " : "") << dtype_name(tensor.scalar_type())
                 << tensor.sizes();
        }
    });
    return op_name(op) + "(" + text.str() + ")";
}

void profile_begin(bool with_slices) {
    ensure_device();
    TORCH_CHECK(!g_profiling.load(), "vnpu: a profile is running already");
    check(vnpu_profile_begin(0, with_slices ? 1 : 0), "starting the profile");
    Recorder &to = recorder();
    std::lock_guard<std::mutex> guard(to.mutex);
    to.records.clear();
    g_next_tag.store(0);
    g_profiling.store(true);
}

std::pair<std::string, std::vector<OpRecord>> profile_end() {
    TORCH_CHECK(g_profiling.load(), "vnpu: no profile is running");
    g_profiling.store(false);
    const void *blob = nullptr;
    size_t bytes = 0;
    check(vnpu_profile_end(0, &blob, &bytes), "ending the profile");
    Recorder &from = recorder();
    std::lock_guard<std::mutex> guard(from.mutex);
    std::vector<OpRecord> records;
    records.swap(from.records);
    return {std::string(static_cast<const char *>(blob), bytes), std::move(records)};
}

void set_module_path(const std::string &path) {
    Recorder &to = recorder();
    std::lock_guard<std::mutex> guard(to.mutex);
    to.module = path;
}

uint32_t current_tag() noexcept {
    return t_tag;
}

OpScope::OpScope(const c10::OperatorHandle &op, const torch::jit::Stack &stack)
    : is_outermost_(t_depth++ == 0) {
    if (!is_outermost_ || !g_profiling.load(std::memory_order_relaxed)) [[likely]] {
        return;
    }
    t_tag = g_next_tag.fetch_add(1, std::memory_order_relaxed) + 1;
    vnpu_sim_set_tag(t_tag);
    OpRecord record{t_tag, op_name(op), main_dtype(op, stack), input_shapes(op, stack), false, 0,
                    {},    {}};
    Recorder &to = recorder();
    std::lock_guard<std::mutex> guard(to.mutex);
    record.module = to.module;
    to.records.push_back(std::move(record));
}

OpScope::~OpScope() {
    t_depth--;
    if (is_outermost_ && t_tag != 0) {
        t_tag = 0;
        vnpu_sim_set_tag(0);
    }
}

namespace {

// The record of the operator that this thread runs, found from the end: few operators run at once.
template <typename Change> void change_record(Change change) {
    if (t_tag == 0) {
        return;
    }
    Recorder &to = recorder();
    std::lock_guard<std::mutex> guard(to.mutex);
    for (auto record = to.records.rbegin(); record != to.records.rend(); ++record) {
        if (record->tag == t_tag) {
            change(*record);
            return;
        }
    }
}

} // namespace

// Only the outermost operator is counted: a host operator inside a device one makes that one a host
// operator.
void OpScope::on_host() {
    change_record([](OpRecord &record) { record.on_host = true; });
}

void OpScope::add_host_time(uint64_t ps) {
    change_record([ps](OpRecord &record) { record.host_ps += ps; });
}

void OpScope::add_mapping(const kern_mapping_t *mapping) {
    if (mapping != nullptr) {
        change_record([mapping](OpRecord &record) { record.mappings.push_back(*mapping); });
    }
}

} // namespace vnpu
