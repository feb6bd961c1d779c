#include "torch_plugin/csrc/vnpu_runtime.h"

#include <array>
#include <atomic>
#include <string>

#include <pthread.h>

#include <c10/util/Exception.h>

#include "torch_plugin/csrc/vnpu_dispatch.h"

namespace vnpu {
namespace {

enum class State { idle, started, forked };
constexpr size_t kPoolStreams = 32;
constexpr int kPriorities = 2;

std::atomic<State> g_state{State::idle};
std::mutex g_start_mutex;
std::mutex g_kernel_mutex;
std::mutex g_pool_mutex;
kern_context_t *g_context = nullptr;
vnpu_machine_t g_machine;
std::array<std::array<vnpu_stream_t, kPoolStreams>, kPriorities> g_pool{};
std::array<size_t, kPriorities> g_pool_next{};
thread_local c10::DeviceIndex t_device = 0;
thread_local vnpu_stream_t t_stream = 0;

const char *const kForkText =
    "the vnpu device cannot be used in a forked child (VNPU_ERROR_FORKED): it belongs to the "
    "parent "
    "process. Use the 'spawn' start method, or touch the device only after the fork";

std::string error_detail() {
    std::string text(vnpu_error_detail(nullptr, 0), '\0');
    if (!text.empty()) {
        text.resize(text.size() + 1);
        vnpu_error_detail(text.data(), text.size());
        text.pop_back();
    }
    return text;
}

[[noreturn]] void throw_accelerator(vnpu_status_t status, const std::string &text) {
    throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, status,
                                text);
}

void after_fork_in_child() {
    if (g_state.load(std::memory_order_relaxed) == State::started) {
        g_state.store(State::forked, std::memory_order_relaxed);
    }
}

void start_device() {
    std::lock_guard<std::mutex> guard(g_start_mutex);
    if (g_state.load() == State::started) {
        return;
    }
    check(vnpu_init(0), "starting the device");
    g_machine.size = sizeof g_machine;
    check(vnpu_device_machine(0, &g_machine), "reading the device's properties");
    check(kern_context_create(0, &g_context), "creating the kernel context");
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    TORCH_CHECK(registered == 0, "vnpu: pthread_atfork failed");
    g_state.store(State::started, std::memory_order_release);
}

} // namespace

void ensure_device() {
    const State state = g_state.load(std::memory_order_acquire);
    if (state == State::started) [[likely]] {
        return;
    }
    if (state == State::forked) {
        throw_accelerator(VNPU_ERROR_FORKED, kForkText);
    }
    start_device();
}

bool is_started() noexcept {
    return g_state.load(std::memory_order_acquire) == State::started;
}

bool is_forked_child() noexcept {
    return g_state.load(std::memory_order_relaxed) == State::forked;
}

const vnpu_machine_t &machine() {
    ensure_device();
    return g_machine;
}

void throw_status(vnpu_status_t status, const char *what) {
    if (status == VNPU_ERROR_FORKED) {
        throw_accelerator(status, kForkText);
    }
    const std::string detail = error_detail();
    std::string text = status == VNPU_ERROR_DEVICE_LOST ? "vnpu device lost: " : "vnpu: ";
    text += std::string(what) + ": " + (detail.empty() ? "failed" : detail) + " (" +
            vnpu_status_name(status) + ")";
    if (status == VNPU_ERROR_OUT_OF_MEMORY) {
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    }
    throw_accelerator(status, text);
}

c10::DeviceIndex device_count() noexcept {
    int count = 0;
    return vnpu_device_count(&count) == VNPU_OK ? static_cast<c10::DeviceIndex>(count)
                                                : static_cast<c10::DeviceIndex>(0);
}

c10::DeviceIndex current_device() noexcept {
    return t_device;
}

void check_index(c10::DeviceIndex index) {
    if (index == 0) [[likely]] {
        return; // the usual single device, without a driver call
    }
    const int count = device_count();
    TORCH_CHECK(index >= 0 && index < count, "vnpu: device index ", static_cast<int>(index),
                " is out of range: ", count, " device(s)");
}

void set_device(c10::DeviceIndex index) {
    check_index(index);
    t_device = index;
}

c10::Stream make_stream(vnpu_stream_t stream, c10::DeviceIndex index) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, index),
                       static_cast<c10::StreamId>(stream));
}

vnpu_stream_t to_handle(const c10::Stream &stream) {
    TORCH_CHECK(stream.device_type() == kDevice, "vnpu: a stream of device type ",
                stream.device_type());
    return static_cast<vnpu_stream_t>(stream.id());
}

vnpu_stream_t current_stream() noexcept {
    return t_stream;
}

vnpu_stream_t exchange_stream(vnpu_stream_t stream) noexcept {
    const vnpu_stream_t previous = t_stream;
    t_stream = stream;
    return previous;
}

vnpu_stream_t stream_on_cores(int priority, uint64_t cores) {
    ensure_device();
    vnpu_stream_t stream = 0;
    check(vnpu_stream_create(0, priority, &stream), "creating a stream");
    const vnpu_status_t status = vnpu_stream_set_cores(stream, cores);
    if (status != VNPU_OK) {
        [[maybe_unused]] const vnpu_status_t gone =
            vnpu_stream_destroy(stream); // told below: the first error
    }
    check(status, "giving a stream its cores");
    return stream;
}

vnpu_stream_t stream_from_pool(int priority) {
    ensure_device();
    const size_t kind = priority < 0 ? 1 : 0; // torch: a lower number is a higher priority
    std::lock_guard<std::mutex> guard(g_pool_mutex);
    vnpu_stream_t &slot = g_pool[kind][g_pool_next[kind]++ % kPoolStreams];
    if (slot == 0) {
        check(vnpu_stream_create(0, priority, &slot), "creating a stream");
    }
    return slot;
}

KernelLock::KernelLock() : guard_((ensure_device(), g_kernel_mutex)), context_(g_context) {
    kern_set_tag(context_, current_tag());
}

void kernel_stats(uint64_t *out_programs, uint64_t *out_launches) {
    *out_programs = 0;
    *out_launches = 0;
    if (is_started()) {
        std::lock_guard<std::mutex> guard(g_kernel_mutex);
        kern_stats(g_context, out_programs, out_launches);
    }
}

} // namespace vnpu
