// The device as the plugin sees it: start, errors, current device and stream, the kernel context
// and its lock.
#pragma once

#include <cstdint>
#include <mutex>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "driver/vnpu.h"
#include "driver/vnpu_sim.h"
#include "kernels/kern.h"
#include "kernels/kern_plan.h"

namespace vnpu {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

// Starts the device at the first use. Throws when it cannot start and, by name, in a forked child.
void ensure_device();
bool is_started() noexcept;
bool is_forked_child() noexcept;

// Description of the chip; the device must have been started.
const vnpu_machine_t &machine();

// Turns a failed status into an exception: out of memory into c10::OutOfMemoryError, everything
// else into c10::AcceleratorError with the driver's detail text.
[[noreturn]] void throw_status(vnpu_status_t status, const char *what);
inline void check(vnpu_status_t status, const char *what) {
    if (status != VNPU_OK) [[unlikely]] {
        throw_status(status, what);
    }
}

// Current device of this thread.
c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device() noexcept;
void check_index(c10::DeviceIndex index);
void set_device(c10::DeviceIndex index); // checks the index

// Streams. A c10 stream id is the driver's handle; 0 is the default stream.
c10::Stream make_stream(vnpu_stream_t stream, c10::DeviceIndex index = 0);
vnpu_stream_t to_handle(const c10::Stream &stream);
vnpu_stream_t current_stream() noexcept;
vnpu_stream_t exchange_stream(vnpu_stream_t stream) noexcept;
vnpu_stream_t stream_on_cores(int priority,
                              uint64_t cores); // a new one, for the life of the device
vnpu_stream_t stream_from_pool(int priority);  // 32 a priority, round robin, made when first needed

// The kernel library serves one thread at a time: hold this while calling it, never while waiting.
class KernelLock {
  public:
    KernelLock(); // starts the device, labels the launches that follow
    kern_context_t *context() const { return context_; }

  private:
    std::lock_guard<std::mutex> guard_;
    kern_context_t *context_;
};

// Programs built and launches made so far; 0, 0 before the device was started.
void kernel_stats(uint64_t *out_programs, uint64_t *out_launches);

} // namespace vnpu
