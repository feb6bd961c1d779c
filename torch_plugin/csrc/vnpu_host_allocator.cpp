// Pinned host memory: torch's caching host allocator over vnpu_host_alloc.
#include <ATen/core/CachingHostAllocator.h>

#include "torch_plugin/csrc/vnpu_runtime.h"

namespace vnpu {
namespace {

// One recorded event; the template above moves it about.
class PinnedEvent {
  public:
    explicit PinnedEvent(const c10::Stream &stream) {
        check(vnpu_event_create(0, &event_), "creating an event");
        check(vnpu_event_record(event_, to_handle(stream)), "recording an event");
    }
    PinnedEvent(PinnedEvent &&other) noexcept : event_(std::exchange(other.event_, 0)) {}
    PinnedEvent &operator=(PinnedEvent &&other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }
    PinnedEvent(const PinnedEvent &) = delete;
    PinnedEvent &operator=(const PinnedEvent &) = delete;
    ~PinnedEvent() {
        if (event_ != 0) {
            (void)!vnpu_event_destroy(event_);
        }
    }
    bool is_done() const { return vnpu_event_query(event_) != VNPU_ERROR_NOT_READY; }

  private:
    vnpu_event_t event_ = 0;
};

using PinnedBlock = at::HostBlock<c10::Stream>;

struct PinnedAllocatorImpl final
    : at::CachingHostAllocatorImpl<c10::Stream, PinnedEvent, PinnedBlock> {
  private:
    void allocate_host_memory(size_t size, void **out_pointer) override {
        ensure_device();
        check(vnpu_host_alloc(size, out_pointer), "allocating pinned memory");
    }
    void free_block(PinnedBlock *block) override {
        check(vnpu_host_free(block->ptr_), "freeing pinned memory");
    }
    void record_stream(std::optional<std::vector<PinnedEvent>> &events,
                       c10::Stream stream) override {
        events->emplace_back(stream);
    }
    bool query_event(PinnedEvent &event) override { return event.is_done(); }
    c10::Stream get_current_stream() const override { return make_stream(current_stream()); }
    bool stream_is_capturing(c10::Stream) const override { return false; }
};

void free_pinned(void *context);

struct PinnedAllocator final : at::CachingHostAllocatorInterface<PinnedAllocatorImpl, free_pinned> {
};

PinnedAllocator &instance() {
    static auto *allocator = new PinnedAllocator(); // pinned tensors outlive static destructors
    return *allocator;
}

void free_pinned(void *context) {
    if (!is_forked_child()) {
        instance().free(context);
    }
}

struct Registration {
    Registration() { at::setHostAllocator(kDevice, &instance()); }
} const g_registration;

} // namespace
} // namespace vnpu
