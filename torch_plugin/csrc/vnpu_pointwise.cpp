#include "torch_plugin/csrc/vnpu_pointwise.h"

#include <cmath>
#include <limits>

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include "torch_plugin/csrc/vnpu_tensor.h"

namespace vnpu {
namespace {

#include "vnpu_pointwise.inc"

constexpr size_t kMaxArgs = 8;

// The arguments of a call, sorted by what they are.
struct Arguments {
    size_t num_tensors = 0, num_scalars = 0;
    const at::Tensor *tensor[kMaxArgs] = {};
    const c10::IValue *scalar[kMaxArgs] = {};
    const at::Tensor *out = nullptr; // an out argument, or self of an in-place operator
    bool is_inplace = false;
};

double string_code(const std::string &text) {
    if (text == "none") {
        return 0;
    }
    if (text == "tanh" || text == "trunc") {
        return 1;
    }
    return text == "floor" ? 2 : std::numeric_limits<double>::quiet_NaN();
}

bool sort_arguments(const OpCall &call, Arguments *out) {
    const auto &schema = call.op().schema().arguments();
    for (size_t i = 0; i < schema.size(); ++i) {
        const c10::IValue &value = call.arg(i);
        const c10::AliasInfo *alias = schema[i].alias_info();
        if (!value.isTensor()) {
            if (out->num_scalars == kMaxArgs) {
                return false;
            }
            out->scalar[out->num_scalars++] = &value;
            continue;
        }
        const bool is_written = alias != nullptr && alias->isWrite();
        if (is_written) {
            out->out = &value.toTensor();
        }
        if (is_written && schema[i].is_out()) {
            continue;
        }
        out->is_inplace = out->is_inplace || is_written;
        if (out->num_tensors == kMaxArgs) {
            return false;
        }
        out->tensor[out->num_tensors++] = &value.toTensor();
    }
    return true;
}

at::ScalarType common_type(const PointwiseRow &row, const Arguments &args) {
    if (row.promote_scalars == 0) { // all of one type is the usual case
        bool is_uniform = true;
        for (size_t i = 1; i < args.num_tensors; ++i) {
            is_uniform =
                is_uniform && args.tensor[i]->scalar_type() == args.tensor[0]->scalar_type();
        }
        if (is_uniform) {
            return args.tensor[0]->scalar_type();
        }
    }
    at::native::ResultTypeState state;
    for (size_t i = 0; i < args.num_tensors; ++i) {
        if ((row.promote_tensors >> i & 1u) != 0) {
            state = at::native::update_result_type_state(*args.tensor[i], state);
        }
    }
    for (size_t i = 0; i < args.num_scalars; ++i) {
        if ((row.promote_scalars >> i & 1u) != 0 && args.scalar[i]->isScalar()) {
            state = at::native::update_result_type_state(args.scalar[i]->toScalar(), state);
        }
    }
    return at::native::result_type(state);
}

uint8_t class_of(at::ScalarType type) {
    if (type == at::kBool) {
        return kBool;
    }
    if (c10::isIntegralType(type, false)) {
        return to_dtype(type) != VNPU_DTYPE_NONE ? kInt : 0;
    }
    return to_dtype(type) != VNPU_DTYPE_NONE ? kFloat : 0;
}

double scalar_value(const c10::IValue &value) {
    if (value.isString()) {
        return string_code(value.toStringRef());
    }
    if (value.isBool()) {
        return value.toBool() ? 1.0 : 0.0;
    }
    return value.isScalar() && !value.isComplexDouble() ? value.toScalar().toDouble()
                                                        : std::numeric_limits<double>::quiet_NaN();
}

bool holds(const PointwiseGuard &guard, const Arguments &args, uint8_t type_class) {
    switch (guard.kind) {
    case Guard::is_float: return type_class == kFloat;
    case Guard::is_int: return type_class == kInt;
    case Guard::is_bool: return type_class == kBool;
    case Guard::is_none: return args.scalar[guard.scalar]->isNone();
    case Guard::equal:
        return !args.scalar[guard.scalar]->isNone() &&
               scalar_value(*args.scalar[guard.scalar]) == guard.value;
    case Guard::less:
        return !args.scalar[guard.scalar]->isNone() &&
               scalar_value(*args.scalar[guard.scalar]) < guard.value;
    }
    return false;
}

const PointwiseCase *choose_case(const PointwiseRow &row, const Arguments &args,
                                 uint8_t type_class) {
    for (uint16_t i = 0; i < row.num_cases; ++i) {
        const PointwiseCase &candidate = kCases[row.first_case + i];
        bool is_chosen = true;
        for (uint8_t g = 0; g < candidate.num_guards; ++g) {
            is_chosen = is_chosen && holds(candidate.guard[g], args, type_class);
        }
        if (is_chosen) {
            return &candidate;
        }
    }
    return nullptr;
}

// A scalar of the call: in the type of the computation, as torch converts a number operand.
void add_scalar(kern_pointwise_t *kern, const at::Scalar &value, at::ScalarType type) {
    const uint32_t i = kern->num_scalars++;
    if (!kern->is_integer) {
        kern->scalar_f[i] = value.toDouble();
        return;
    }
    const int64_t whole =
        value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble()) : value.to<int64_t>();
    switch (type) {
    case at::kBool: kern->scalar_i[i] = value.toDouble() != 0.0 ? 1 : 0; return;
    case at::kByte: kern->scalar_i[i] = static_cast<uint8_t>(whole); return;
    case at::kChar: kern->scalar_i[i] = static_cast<int8_t>(whole); return;
    case at::kShort: kern->scalar_i[i] = static_cast<int16_t>(whole); return;
    case at::kInt: kern->scalar_i[i] = static_cast<int32_t>(whole); return;
    default: kern->scalar_i[i] = whole; return;
    }
}

bool is_host_scalar(const at::Tensor &tensor) {
    return tensor.dim() == 0 && tensor.device().is_cpu();
}

// Fills the expression: nodes with their operands renamed to the inputs and scalars of this call.
// Tensors that are CPU scalars become scalars. `inputs` receives the others in order. False: more
// operands than the library takes.
bool build_expression(const PointwiseCase &from, const Arguments &args, at::ScalarType type,
                      kern_pointwise_t *kern, c10::SmallVector<const at::Tensor *, 6> *inputs) {
    uint8_t tensor_code[kMaxArgs], scalar_code[kMaxArgs], const_code[8];
    memset(scalar_code, 0xff, sizeof scalar_code);
    memset(const_code, 0xff, sizeof const_code);
    for (size_t i = 0; i < args.num_tensors; ++i) {
        if (is_host_scalar(*args.tensor[i])) {
            tensor_code[i] = KERN_SCALAR(kern->num_scalars);
            add_scalar(kern, args.tensor[i]->item(), type);
        } else {
            tensor_code[i] = KERN_INPUT(inputs->size());
            inputs->push_back(args.tensor[i]);
        }
    }
    if (inputs->size() > KERN_MAX_INPUTS) {
        return false;
    }
    kern->num_nodes = from.num_nodes;
    for (uint8_t n = 0; n < from.num_nodes; ++n) {
        kern->node[n] = from.node[n];
        const int arity = 1 + static_cast<int>(from.node[n].kind);
        for (int o = 0; o < arity; ++o) {
            uint8_t &code = kern->node[n].operand[o];
            const uint8_t index = code & 0x3f;
            if (code < 0x40) {
                code = tensor_code[index];
            } else if (code < 0x80 || code >= 0xc0) {
                uint8_t &known = code < 0x80 ? scalar_code[index] : const_code[index];
                if (known == 0xff) {
                    if (kern->num_scalars == KERN_MAX_SCALARS) {
                        return false;
                    }
                    known = KERN_SCALAR(kern->num_scalars);
                    add_scalar(kern,
                               code < 0x80 ? args.scalar[index]->toScalar()
                                           : at::Scalar(from.constant[index]),
                               type);
                }
                code = known;
            }
        }
    }
    return true;
}

// One-dimensional operands when everything is contiguous and of one shape.
bool is_simple(const at::Tensor &out, c10::ArrayRef<const at::Tensor *> inputs) {
    if (inputs.empty()) {
        return false;
    }
    const at::Tensor &first = *inputs[0];
    for (const at::Tensor *input : inputs) {
        if (!is_device(*input) || !input->is_contiguous() || input->sizes() != first.sizes()) {
            return false;
        }
    }
    return !out.defined() ||
           (is_device(out) && out.is_contiguous() && out.sizes() == first.sizes());
}

kern_tensor_t flat(const at::Tensor &tensor) {
    kern_tensor_t out{};
    out.address = address_of(tensor);
    out.dtype = to_dtype(tensor.scalar_type());
    out.ndims = 1;
    out.size[0] = tensor.numel();
    out.stride[0] = 1;
    return out;
}

bool from_iterator(const at::TensorIteratorBase &iter, int operand, kern_tensor_t *out) {
    *out = {};
    out->address = reinterpret_cast<vnpu_addr_t>(iter.data_ptr(operand));
    out->dtype = to_dtype(iter.dtype(operand));
    out->ndims = static_cast<uint32_t>(iter.ndim());
    if (iter.ndim() > static_cast<int>(KERN_MAX_DIMS)) {
        return false;
    }
    for (uint32_t d = 0; d < out->ndims; ++d) { // the iterator's dimension 0 is the innermost
        const size_t from = out->ndims - 1 - d;
        out->size[d] = iter.shape()[from];
        out->stride[d] = iter.strides(operand)[from] / iter.element_size(operand);
    }
    return true;
}

void check_result_cast(at::ScalarType computed, const at::Tensor &out) {
    TORCH_CHECK(c10::canCast(computed, out.scalar_type()), "result type ", computed,
                " can't be cast to the desired output type ", out.scalar_type());
}

// Shapes the operands (and makes the result if there is none). False: too many dimensions.
bool shape_operands(kern_pointwise_t *kern, at::Tensor *out, at::ScalarType out_type,
                    c10::ArrayRef<const at::Tensor *> inputs) {
    kern->num_inputs = static_cast<uint32_t>(inputs.size());
    if (is_simple(*out, inputs)) {
        if (!out->defined()) {
            *out = at::empty(inputs[0]->sizes(), inputs[0]->options().dtype(out_type));
        } else {
            for (const at::Tensor *input : inputs) {
                at::assert_no_partial_overlap(*out, *input);
            }
        }
        kern->out = flat(*out);
        for (size_t i = 0; i < inputs.size(); ++i) {
            kern->input[i] = flat(*inputs[i]);
        }
        return true;
    }
    at::TensorIteratorConfig config;
    config.check_all_same_dtype(false).add_output(*out);
    if (!out->defined()) {
        config.declare_static_dtype(out_type);
    }
    for (const at::Tensor *input : inputs) {
        config.add_const_input(*input);
    }
    at::TensorIterator iter = config.build();
    *out = iter.output();
    bool fits = from_iterator(iter, 0, &kern->out);
    for (size_t i = 0; i < inputs.size(); ++i) {
        fits = fits && from_iterator(iter, static_cast<int>(i) + 1, &kern->input[i]);
    }
    return fits;
}

} // namespace

Outcome run_pointwise(OpCall &call, const PointwiseRow &row) {
    Arguments args;
    if (!sort_arguments(call, &args) || args.num_tensors == 0) {
        return call.host("too many arguments");
    }
    const at::ScalarType common = common_type(row, args);
    const uint8_t common_class = class_of(common);
    const PointwiseCase *chosen = choose_case(row, args, common_class);
    if (chosen == nullptr || common_class == 0) {
        return call.host(std::string("no kernel for ") + c10::toString(common) +
                         " with these arguments");
    }
    const bool makes_float = chosen->promote == Promote::to_float && common_class != kFloat;
    const at::ScalarType type =
        makes_float ? c10::typeMetaToScalarType(c10::get_default_dtype()) : common;
    if ((class_of(type) & row.classes) == 0) {
        return call.host(std::string("no kernel for ") + c10::toString(type));
    }
    kern_pointwise_t kern{};
    kern.name = row.name;
    kern.is_integer = class_of(type) != kFloat;
    c10::SmallVector<const at::Tensor *, 6> inputs;
    if (!build_expression(*chosen, args, type, &kern, &inputs)) {
        return call.host("more operands than the kernel library takes");
    }
    const at::ScalarType out_type = chosen->promote == Promote::to_bool ? at::kBool : type;
    at::Tensor out = args.out != nullptr ? *args.out : at::Tensor();
    if (out.defined() && chosen->promote != Promote::to_bool) {
        check_result_cast(type, out);
    }
    if (!shape_operands(&kern, &out, out_type, inputs)) {
        return call.host("more dimensions than the kernel library takes");
    }
    if (out.numel() == 0) {
        return call.done(std::move(out));
    }
    KernelLock lock;
    if (!call.ran(kern_pointwise(lock.context(), current_stream(), &kern), lock)) {
        return Outcome::host;
    }
    return call.done(std::move(out));
}

const PointwiseRow *pointwise_row(size_t i) {
    return i < num_pointwise_rows() ? &kPointwiseRows[i] : nullptr;
}

size_t num_pointwise_rows() {
    return sizeof kPointwiseRows / sizeof kPointwiseRows[0];
}

} // namespace vnpu
