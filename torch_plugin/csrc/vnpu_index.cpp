// Gathers by index, arange, dropout.
#include <cmath>

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

bool is_index_type(at::ScalarType type) {
    return type == at::kLong || type == at::kInt;
}

// out = table gathered along `dim` by the one-dimensional index; false: the chip cannot.
bool gather_rows(OpCall &call, const at::Tensor &out, const at::Tensor &table, int64_t dim,
                 const at::Tensor &index) {
    if (out.numel() == 0) {
        return true;
    }
    kern_tensor_t result, from, at;
    if (!to_kern(out, &result) || !to_kern(table, &from) || !to_kern(index, &at)) {
        (void)call.host(std::string("no gather of ") + c10::toString(table.scalar_type()));
        return false;
    }
    KernelLock lock;
    return call.ran(kern_index_select(lock.context(), current_stream(), &result, &from,
                                      static_cast<uint32_t>(dim), &at),
                    lock);
}

Outcome select(OpCall &call, const at::Tensor &out) { // (self, dim, index)
    const at::Tensor self = call.tensor(0), index = call.tensor(2);
    TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
    TORCH_CHECK(is_index_type(index.scalar_type()),
                "index_select(): Expected dtype int32 or int64 for index");
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "index_select(): self and result must have the same scalar type");
    const at::Tensor table = self.dim() == 0 ? self.unsqueeze(0) : self;
    const int64_t dim = c10::maybe_wrap_dim(call.integer(1), table.dim());
    const at::Tensor flat = index.dim() == 0 ? index.unsqueeze(0) : index;
    std::vector<int64_t> sizes = table.sizes().vec();
    sizes[static_cast<size_t>(dim)] = flat.size(0);
    TORCH_CHECK_INDEX(table.numel() != 0 || flat.numel() == 0 || c10::multiply_integers(sizes) == 0,
                      "index_select(): the source is empty");
    at::native::resize_output(out, sizes);
    if (!gather_rows(call, out, table, dim, flat)) {
        return Outcome::host;
    }
    return call.done(self.dim() == 0 && flat.size(0) == 1 ? out.view(self.sizes()) : out);
}

// A row index of a table whose indexed dimensions are merged: sum of wrapped index times stride,
// out of range made visible.
class MergedIndex {
  public:
    MergedIndex(OpCall *call, const at::Tensor &like)
        : call_(call), sum_(at::empty(like.sizes(), like.options().dtype(at::kLong))) {}

    // Adds `index` (broadcast to the common shape) of a dimension of `size`, `stride` rows apart.
    bool add(const at::Tensor &index, int64_t size, int64_t stride) {
        kern_pointwise_t kern{};
        kern.name = "index";
        kern.is_integer = true;
        const at::Tensor flat = index.contiguous().view({-1});
        const at::Tensor total = sum_.view({-1});
        if (!to_kern(total, &kern.out) || !to_kern(total, &kern.input[1]) ||
            !to_kern(flat, &kern.input[0])) {
            return false;
        }
        kern.num_inputs = is_first_ ? 1 : 2;
        const int64_t scalars[] = {0, size, stride, kOutside};
        for (const int64_t scalar : scalars) {
            kern.scalar_i[kern.num_scalars++] = scalar;
        }
        const auto node = [&kern](kern_node_kind_t kind, int func, uint8_t a, uint8_t b,
                                  uint8_t c = 0) {
            kern.node[kern.num_nodes] = {kind, static_cast<uint8_t>(func), {a, b, c}};
            return KERN_NODE(kern.num_nodes++);
        };
        const uint8_t x = KERN_INPUT(0), zero = KERN_SCALAR(0), rows = KERN_SCALAR(1);
        const uint8_t is_negative = node(KERN_NODE_BINARY, VNPU_B_LT, x, zero);
        const uint8_t shift = node(KERN_NODE_BINARY, VNPU_B_MUL, is_negative, rows);
        const uint8_t wrapped = node(KERN_NODE_BINARY, VNPU_B_ADD, x, shift);
        const uint8_t is_low = node(KERN_NODE_BINARY, VNPU_B_GE, wrapped, zero);
        const uint8_t is_high = node(KERN_NODE_BINARY, VNPU_B_LT, wrapped, rows);
        const uint8_t is_inside = node(KERN_NODE_BINARY, VNPU_B_LAND, is_low, is_high);
        const uint8_t place = node(KERN_NODE_BINARY, VNPU_B_MUL, wrapped, KERN_SCALAR(2));
        const uint8_t value = node(KERN_NODE_SELECT, 0, is_inside, place, KERN_SCALAR(3));
        if (!is_first_) {
            node(KERN_NODE_BINARY, VNPU_B_ADD, value, KERN_INPUT(1));
        }
        is_first_ = false;
        KernelLock lock;
        return call_->ran(kern_pointwise(lock.context(), current_stream(), &kern), lock);
    }
    at::Tensor flat() const { return sum_.view({-1}); }

  private:
    static constexpr int64_t kOutside = int64_t{1}
                                        << 56; // beyond any table, also after seven more additions
    OpCall *call_;
    at::Tensor sum_;
    bool is_first_ = true;
};

int64_t truncated(const at::Scalar &value) {
    return value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble()) : value.to<int64_t>();
}

// The run of indexed dimensions of index.Tensor_out.
struct IndexPlan {
    int64_t first = -1, count = 0;
    std::vector<at::Tensor> indices; // broadcast to one shape
};

// Empty reason: the plan holds.
std::string plan_index(const at::Tensor &self, const c10::IValue &list, IndexPlan *plan) {
    const c10::List<std::optional<at::Tensor>> entries = list.toOptionalTensorList();
    for (size_t d = 0; d < entries.size(); ++d) {
        const std::optional<at::Tensor> entry = entries.get(d);
        if (!entry.has_value() || !entry->defined()) {
            continue;
        }
        if (!is_index_type(entry->scalar_type())) {
            return "an index mask: the size of the result depends on values";
        }
        if (plan->first >= 0 && plan->first + plan->count != static_cast<int64_t>(d)) {
            return "indexed dimensions that are not adjacent";
        }
        plan->first = plan->first < 0 ? static_cast<int64_t>(d) : plan->first;
        plan->count++;
        plan->indices.push_back(is_device(*entry) ? *entry : entry->to(self.device()));
    }
    if (plan->first < 0) {
        return "no index";
    }
    plan->indices = at::expand_outplace(plan->indices);
    return "";
}

} // namespace

namespace ops {

Outcome index_select(OpCall &call) {
    return select(call, at::empty({0}, call.tensor(0).options()));
}

Outcome index_select_out(OpCall &call) {
    return select(call, call.out());
}

// index.Tensor_out(self, indices, *, out)
Outcome index_tensor_out(OpCall &call) {
    const at::Tensor self = call.tensor(0), out = call.out();
    IndexPlan plan;
    const std::string reason = plan_index(self, call.arg(1), &plan);
    if (!reason.empty()) {
        return call.host(reason);
    }
    const at::IntArrayRef shape = plan.indices[0].sizes();
    std::vector<int64_t> sizes, merged, gathered;
    int64_t rows = 1;
    for (int64_t d = 0; d < self.dim(); ++d) {
        const bool is_indexed = d >= plan.first && d < plan.first + plan.count;
        rows *= is_indexed ? self.size(d) : 1;
        if (!is_indexed) {
            merged.push_back(self.size(d));
            gathered.push_back(self.size(d));
            sizes.push_back(self.size(d));
        } else if (d == plan.first) {
            merged.push_back(-1);
            gathered.push_back(c10::multiply_integers(shape));
            sizes.insert(sizes.end(), shape.begin(), shape.end());
        }
    }
    merged[static_cast<size_t>(plan.first)] = rows;
    at::native::resize_output(out, sizes);
    if (out.numel() == 0) {
        return call.done(out);
    }
    if (self.numel() == 0) {
        return call.host("an index into nothing");
    }
    MergedIndex index(&call, plan.indices[0]);
    int64_t stride = rows;
    for (int64_t i = 0; i < plan.count; ++i) {
        const int64_t size = self.size(plan.first + i);
        stride /= size;
        if (!index.add(plan.indices[static_cast<size_t>(i)], size, stride)) {
            return Outcome::host;
        }
    }
    const at::Tensor table = self.reshape(merged);
    const bool is_direct = out.is_contiguous() && !out.is_alias_of(self);
    const at::Tensor target = is_direct ? out.view(gathered) : at::empty(gathered, self.options());
    if (!gather_rows(call, target, table, plan.first, index.flat())) {
        return Outcome::host;
    }
    if (!is_direct) {
        out.copy_(target.view(sizes));
    }
    return call.done(out);
}

// arange.start_out(start, end, step, *, out): start + step * i
Outcome arange_out(OpCall &call) {
    const at::Scalar start = call.scalar(0), end = call.scalar(1), step = call.scalar(2);
    const at::Tensor out = call.out();
    const bool is_integer = c10::isIntegralType(out.scalar_type(), false);
    TORCH_CHECK(step.toDouble() != 0.0, "step must be nonzero");
    TORCH_CHECK(std::isfinite(start.toDouble()) && std::isfinite(end.toDouble()),
                "unsupported range: ", start, " -> ", end);
    TORCH_CHECK((step.toDouble() > 0) == (end.toDouble() >= start.toDouble()) ||
                    start.toDouble() == end.toDouble(),
                "upper bound and lower bound inconsistent with step sign");
    int64_t count = 0; // as the CPU counts: int64 in integers, every other type in doubles
    if (out.scalar_type() == at::kLong) {
        const int64_t by = truncated(step);
        TORCH_CHECK(by != 0, "step must be nonzero");
        count =
            std::max<int64_t>(0, (truncated(end) - truncated(start) + by - (by > 0 ? 1 : -1)) / by);
    } else {
        count =
            static_cast<int64_t>(std::ceil((end.toDouble() - start.toDouble()) / step.toDouble()));
    }
    if (out.numel() != count) {
        at::native::resize_output(out, {count});
    }
    if (count == 0) {
        return call.done(out);
    }
    kern_pointwise_t kern{};
    kern.name = "arange";
    kern.is_integer = is_integer;
    if (!to_kern(out, &kern.out)) {
        return call.host(std::string("no arange of ") + c10::toString(out.scalar_type()));
    }
    kern.num_scalars = 2;
    if (is_integer) {
        kern.scalar_i[0] = truncated(start);
        kern.scalar_i[1] = truncated(step);
    } else {
        kern.scalar_f[0] = start.toDouble();
        kern.scalar_f[1] = step.toDouble();
    }
    kern.num_nodes = 2;
    kern.node[0] = {KERN_NODE_BINARY, VNPU_B_MUL, {KERN_INDEX, KERN_SCALAR(1), 0}};
    kern.node[1] = {KERN_NODE_BINARY, VNPU_B_ADD, {KERN_NODE(0), KERN_SCALAR(0), 0}};
    KernelLock lock;
    return call.ran(kern_pointwise(lock.context(), current_stream(), &kern), lock) ? call.done(out)
                                                                                   : Outcome::host;
}

// native_dropout(input, p, train) -> (out, mask). The mask comes from the host's generator; its use
// is on the device.
Outcome native_dropout(OpCall &call) {
    const at::Tensor input = call.tensor(0);
    const double p = call.arg(1).toDouble();
    const bool is_training = call.arg(2).isNone() || call.boolean(2);
    const at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
    if (!is_training || p == 0.0) {
        mask.fill_(true);
        return call.done(input.clone(), mask);
    }
    mask.bernoulli_(1.0 - p);
    const double scale = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
    return call.done(at::mul(at::mul(input, mask), scale), mask);
}

} // namespace ops
} // namespace vnpu
