// Pointwise operators as data: the rows that gen_ops.py makes of ops.py, and the engine that runs
// them.
#pragma once

#include "torch_plugin/csrc/vnpu_dispatch.h"

namespace vnpu {

// Type of the computation and of the result: the promoted type; the same with integers made float;
// the promoted type with a bool result.
enum class Promote : uint8_t { common, to_float, to_bool };
enum class Guard : uint8_t { equal, less, is_none, is_float, is_int, is_bool };

constexpr uint8_t kFloat = 1, kInt = 2, kBool = 4;

struct PointwiseGuard {
    Guard kind;
    uint8_t scalar;
    double value;
};

// One expression. Operand codes: 0x00 input, 0x40 scalar argument, 0x80 node, 0xc0 constant.
struct PointwiseCase {
    uint8_t num_guards;
    PointwiseGuard guard[2];
    Promote promote;
    uint8_t num_nodes, num_consts;
    kern_node_t node[KERN_MAX_NODES];
    double constant[8];
};

struct PointwiseRow {
    const char *name;
    uint16_t first_case, num_cases;
    uint8_t classes;          // kFloat | kInt | kBool
    uint32_t promote_tensors; // bit i: tensor argument i takes part in type promotion
    uint32_t promote_scalars;
};

Outcome run_pointwise(OpCall &call, const PointwiseRow &row);
// Row of an operator by its name; nullptr if there is none.
const PointwiseRow *pointwise_row(size_t i);
size_t num_pointwise_rows();

} // namespace vnpu
