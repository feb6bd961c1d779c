// The caching allocator of device memory, behind torch.vnpu.memory_* and
// torch.accelerator.memory_*.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

namespace vnpu {

c10::DeviceAllocator &device_allocator();

// Gives the storage `bytes` bytes; the common prefix keeps its values.
void resize_storage(const c10::Storage &storage, size_t bytes);

} // namespace vnpu
