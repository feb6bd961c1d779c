#pragma once

namespace vnpu {

// A backward pass has asked for this device (the Python side pauses at exit then: see
// torch_vnpu/vnpu.py).
bool backward_ran() noexcept;

} // namespace vnpu
