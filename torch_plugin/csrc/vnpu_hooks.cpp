// What torch asks of an accelerator: the device guard (devices, streams, events) and the hooks
// (context, generators, pinned memory, storage).
#include <atomic>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "torch_plugin/csrc/vnpu_allocator.h"
#include "torch_plugin/csrc/vnpu_generator.h"
#include "torch_plugin/csrc/vnpu_hooks.h"
#include "torch_plugin/csrc/vnpu_runtime.h"

namespace vnpu {
namespace {

std::atomic<bool> g_backward_ran{false};

vnpu_event_t to_event(const void *event) {
    return reinterpret_cast<vnpu_event_t>(event);
}

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kDevice; }
    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device previous = getDevice();
        setDevice(device);
        return previous;
    }
    c10::Device getDevice() const override { return {kDevice, current_device()}; }
    void setDevice(c10::Device device) const override {
        TORCH_CHECK(device.type() == kDevice, "vnpu: not a vnpu device: ", device);
        if (device.has_index()) {
            set_device(device.index());
        }
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        if (device.index() >= 0 && device.index() < device_count()) {
            set_device(device.index());
        }
    }
    c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

    c10::DeviceCapability getDeviceCapability(c10::Device) const override {
        c10::DeviceCapability capability;
        capability.capability_data.capability_bits =
            1ull << c10::kIndex_Byte | 1ull << c10::kIndex_Char | 1ull << c10::kIndex_Short |
            1ull << c10::kIndex_Int | 1ull << c10::kIndex_Long | 1ull << c10::kIndex_Half |
            1ull << c10::kIndex_BFloat16 | 1ull << c10::kIndex_Float | 1ull << c10::kIndex_Bool;
        return capability;
    }

    c10::Stream getStream(c10::Device device) const override {
        return make_stream(current_stream(), of(device));
    }
    c10::Stream getDefaultStream(c10::Device device) const override {
        return make_stream(0, of(device));
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override {
        return make_stream(stream_from_pool(is_high_priority ? -1 : 0), of(device));
    }
    c10::Stream getNewStream(c10::Device device, int priority) const override {
        return make_stream(stream_from_pool(priority), of(device));
    }
    c10::Stream exchangeStream(c10::Stream stream) const override {
        return make_stream(exchange_stream(to_handle(stream)), stream.device_index());
    }
    void *getStreamNativeHandle(const c10::Stream stream) const override {
        return reinterpret_cast<void *>(to_handle(stream));
    }
    bool queryStream(const c10::Stream &stream) const override {
        return is_ready(vnpu_stream_query(to_handle(stream)), "querying a stream");
    }
    void synchronizeStream(const c10::Stream &stream) const override {
        ensure_device();
        check(vnpu_stream_synchronize(to_handle(stream)), "synchronizing a stream");
    }
    void synchronizeDevice(const c10::DeviceIndex index) const override {
        check_index(index < 0 ? current_device() : index);
        if (is_forked_child()) {
            ensure_device(); // raises by name
        }
        if (is_started()) { // nothing was submitted before the start
            check(vnpu_device_synchronize(0), "synchronizing the device");
        }
    }
    bool isStreamCapturing(const c10::Stream &) const override { return false; }
    void recordDataPtrOnStream(const c10::DataPtr &pointer,
                               const c10::Stream &stream) const override {
        device_allocator().recordStream(pointer, stream);
    }

    void record(void **event, const c10::Stream &stream, const c10::DeviceIndex index,
                const c10::EventFlag) const override {
        check_index(index < 0 ? current_device() : index);
        ensure_device();
        vnpu_event_t handle = to_event(*event);
        if (handle == 0) {
            check(vnpu_event_create(0, &handle), "creating an event");
            *event = reinterpret_cast<void *>(handle);
        }
        check(vnpu_event_record(handle, to_handle(stream)), "recording an event");
    }
    void block(void *event, const c10::Stream &stream) const override {
        if (event != nullptr) {
            check(vnpu_stream_wait_event(to_handle(stream), to_event(event)),
                  "waiting for an event on a stream");
        }
    }
    bool queryEvent(void *event) const override {
        return event == nullptr || is_ready(vnpu_event_query(to_event(event)), "querying an event");
    }
    void synchronizeEvent(void *event) const override {
        if (event != nullptr) {
            check(vnpu_event_synchronize(to_event(event)), "waiting for an event");
        }
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override {
        if (event != nullptr && !is_forked_child()) {
            (void)!vnpu_event_destroy(
                to_event(event)); // a lost device has no events: nothing to do about it here
        }
    }
    double elapsedTime(void *start, void *end, const c10::DeviceIndex) const override {
        TORCH_CHECK(start != nullptr && end != nullptr,
                    "vnpu: both events must be recorded before elapsed_time");
        double milliseconds = 0;
        const vnpu_status_t status =
            vnpu_event_elapsed_ms(to_event(start), to_event(end), &milliseconds);
        TORCH_CHECK(status != VNPU_ERROR_NOT_READY,
                    "vnpu: elapsed_time of an event that has not completed: "
                    "synchronize first");
        check(status, "measuring between events");
        return milliseconds;
    }

  private:
    static c10::DeviceIndex of(c10::Device device) {
        return device.has_index() ? device.index() : current_device();
    }
    static bool is_ready(vnpu_status_t status, const char *what) {
        if (status == VNPU_ERROR_NOT_READY) {
            return false;
        }
        check(status, what);
        return true;
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl)

struct Hooks final : at::PrivateUse1HooksInterface {
    void init() const override { ensure_device(); }
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return device_count() > 0; }
    bool hasPrimaryContext(c10::DeviceIndex index) const override {
        g_backward_ran.store(
            true, std::memory_order_relaxed); // the autograd engine asks at each backward
        return index == 0 && is_started();
    }
    c10::DeviceIndex deviceCount() const override { return device_count(); }
    void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
    c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
        const c10::DeviceIndex previous = current_device();
        set_device(index);
        return previous;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
        return index < 0 ? current_device() : exchangeDevice(index);
    }
    at::Device getDeviceFromPtr(void *) const override { return {kDevice, current_device()}; }
    const at::Generator &getDefaultGenerator(c10::DeviceIndex index) const override {
        return default_generator(index);
    }
    at::Generator getNewGenerator(c10::DeviceIndex index) const override {
        return new_generator(index);
    }
    at::Allocator *getPinnedMemoryAllocator() const override {
        return at::getHostAllocator(kDevice);
    }
    bool isPinnedPtr(const void *pointer) const override {
        int is_pinned = 0;
        return is_started() && vnpu_host_is_pinned(pointer, &is_pinned) == VNPU_OK &&
               is_pinned != 0;
    }
    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
        resize_storage(storage, bytes);
    }
};

struct Registration {
    Registration() {
        at::RegisterPrivateUse1HooksInterface(new Hooks());
    } // torch keeps the pointer
} const g_registration;

} // namespace

bool backward_ran() noexcept {
    return g_backward_ran.load(std::memory_order_relaxed);
}

} // namespace vnpu
