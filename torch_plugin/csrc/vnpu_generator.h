// The device's random generator: a seed and an offset (16 bytes of state), as Philox generators
// have.
#pragma once

#include <ATen/core/Generator.h>

namespace vnpu {

const at::Generator &default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

// A CPU generator that draws the numbers of one host operator: seeded from the device generator's
// seed and offset, and the offset moves on. An undefined `generator` means the device's default
// one; a CPU generator is returned as it is.
at::Generator host_generator(const at::Generator &generator);

} // namespace vnpu
