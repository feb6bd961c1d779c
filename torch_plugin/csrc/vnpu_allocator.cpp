// Blocks come from segments of device memory. A freed block goes back to the free list of its
// stream, joined with free neighbours of its segment; work that a stream queued before the free is
// finished before work queued after the next allocation on that stream, so no wait is needed. A
// block that another stream used (recordStream) waits for that stream's event. Sizes are multiples
// of 4 KiB, the address period of the memory channels: then the place of an operand never changes
// how long a kernel takes.
#include "torch_plugin/csrc/vnpu_allocator.h"

#include <deque>
#include <memory>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include <c10/util/Exception.h>

#include "torch_plugin/csrc/vnpu_runtime.h"

namespace vnpu {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kGranule = 4096;           // every block
constexpr size_t kSmallSize = 1u << 20;     // largest small block
constexpr size_t kSmallSegment = 2u << 20;  // segment of small blocks
constexpr size_t kLargeSegment = 20u << 20; // segment of blocks up to kLargeBlock
constexpr size_t kLargeBlock = 10u << 20;
constexpr size_t kRoundLarge = 2u << 20; // segments of larger blocks

size_t round_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

struct Block {
    Block(vnpu_stream_t stream_, size_t size_, vnpu_addr_t address_, bool is_small_)
        : stream(stream_), size(size_), address(address_), is_small(is_small_) {}

    vnpu_stream_t stream;
    size_t size;
    vnpu_addr_t address;
    bool is_small;
    bool is_allocated = false;
    size_t requested = 0;
    Block *previous = nullptr, *next = nullptr; // neighbours in the segment
    std::unordered_set<vnpu_stream_t> other_streams;
    int pending_events = 0;

    bool is_split() const { return previous != nullptr || next != nullptr; }
};

struct BlockOrder {
    bool operator()(const Block *a, const Block *b) const {
        return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
    }
};
using FreeList = std::set<Block *, BlockOrder>;

class Allocator final : public c10::DeviceAllocator {
  public:
    c10::DataPtr allocate(size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override { return &release_pointer; }
    void copy_data(void *dst, const void *src, size_t bytes) const override {
        check(vnpu_memcpy_d2d(reinterpret_cast<vnpu_addr_t>(dst),
                              reinterpret_cast<vnpu_addr_t>(src), bytes, current_stream()),
              "copying on the device");
    }
    bool initialized() override { return is_started(); }
    void emptyCache(c10::MempoolId_t) override {
        if (is_started()) {
            std::lock_guard<std::mutex> guard(mutex_);
            finish_events();
            release_segments();
        }
    }
    void recordStream(const c10::DataPtr &pointer, c10::Stream stream) override;
    DeviceStats getDeviceStats(c10::DeviceIndex index) override {
        check_index(index);
        std::lock_guard<std::mutex> guard(mutex_);
        return stats_;
    }
    void resetAccumulatedStats(c10::DeviceIndex index) override;
    void resetPeakStats(c10::DeviceIndex index) override;
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
        check_index(index);
        ensure_device();
        size_t free_bytes = 0, total_bytes = 0;
        check(vnpu_mem_info(index, &free_bytes, &total_bytes), "asking for the free memory");
        return {free_bytes, total_bytes};
    }

  private:
    static void release_pointer(void *pointer);
    void release(vnpu_addr_t address);
    Block *take_free(size_t size, bool is_small, vnpu_stream_t stream);
    Block *new_segment(size_t size, bool is_small, vnpu_stream_t stream);
    [[noreturn]] void throw_out_of_memory(size_t bytes);
    void split(Block *block, size_t size);
    void free_block(Block *block);
    bool join(Block *into, Block *other);
    void record_events(Block *block);
    void process_events();
    void finish_events();
    void release_segments();
    void release_list(FreeList *list);
    FreeList &list_of(const Block *block) { return block->is_small ? small_ : large_; }

    void change(StatArray &stat, int64_t amount, bool is_small) {
        const auto pool =
            static_cast<size_t>(is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
        for (const size_t i : {static_cast<size_t>(StatType::AGGREGATE), pool}) {
            amount >= 0 ? stat[i].increase(static_cast<size_t>(amount))
                        : stat[i].decrease(static_cast<size_t>(-amount));
        }
    }
    void change_inactive(const Block *block, int sign) {
        if (block->is_split()) {
            change(stats_.inactive_split, sign, block->is_small);
            change(stats_.inactive_split_bytes, sign * static_cast<int64_t>(block->size),
                   block->is_small);
        }
    }
    template <typename Visit> void for_each_stat(Visit visit) {
        for (StatArray *array :
             {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split,
              &stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes,
              &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
            for (auto &stat : *array) {
                visit(stat);
            }
        }
        visit(stats_.oversize_allocations);
        visit(stats_.oversize_segments);
    }

    std::mutex mutex_;
    FreeList small_, large_;
    std::unordered_map<vnpu_addr_t, Block *> allocated_;
    std::deque<std::pair<vnpu_event_t, Block *>> events_;
    DeviceStats stats_;
};

Allocator &instance() {
    static auto *allocator = new Allocator(); // tensors outlive static destructors
    return *allocator;
}

void report(vnpu_addr_t address, int64_t bytes, const DeviceStats &stats) {
    const auto all = static_cast<size_t>(StatType::AGGREGATE);
    c10::reportMemoryUsageToProfiler(reinterpret_cast<void *>(address), bytes,
                                     static_cast<size_t>(stats.allocated_bytes[all].current),
                                     static_cast<size_t>(stats.reserved_bytes[all].current),
                                     c10::Device(kDevice, 0));
}

c10::DataPtr Allocator::allocate(size_t bytes) {
    const c10::Device device(kDevice, current_device());
    ensure_device();
    if (bytes == 0) {
        return {nullptr, nullptr, &release_pointer, device};
    }
    TORCH_CHECK_WITH(OutOfMemoryError, bytes < (size_t{1} << 60), "vnpu out of memory: ", bytes,
                     " bytes is more than any device has");
    const size_t size = round_up(bytes, kGranule);
    const bool is_small = size <= kSmallSize;
    const vnpu_stream_t stream = current_stream();
    std::lock_guard<std::mutex> guard(mutex_);
    process_events();
    Block *block = take_free(size, is_small, stream);
    if (block == nullptr) {
        block = new_segment(size, is_small, stream);
    }
    if (block == nullptr) { // give everything back that nobody uses, and try once more
        stats_.num_alloc_retries++;
        finish_events();
        release_segments();
        block = new_segment(size, is_small, stream);
    }
    if (block == nullptr) {
        throw_out_of_memory(bytes);
    }
    split(block, size);
    block->is_allocated = true;
    block->requested = bytes;
    allocated_.emplace(block->address, block);
    change(stats_.allocation, 1, is_small);
    change(stats_.active, 1, is_small);
    change(stats_.allocated_bytes, static_cast<int64_t>(block->size), is_small);
    change(stats_.active_bytes, static_cast<int64_t>(block->size), is_small);
    change(stats_.requested_bytes, static_cast<int64_t>(bytes), is_small);
    report(block->address, static_cast<int64_t>(block->size), stats_);
    void *pointer = reinterpret_cast<void *>(block->address);
    return {pointer, pointer, &release_pointer, device};
}

void Allocator::throw_out_of_memory(size_t bytes) {
    stats_.num_ooms++;
    char detail[512] = "";
    vnpu_error_detail(detail, sizeof detail);
    const auto all = static_cast<size_t>(StatType::AGGREGATE);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "vnpu out of memory: tried to allocate ", bytes,
                     " bytes; ", stats_.allocated_bytes[all].current,
                     " bytes are in use by tensors, ", stats_.reserved_bytes[all].current,
                     " bytes are held by the allocator. ", detail);
}

// The smallest free block that fits; a large one is not cut for a much smaller size if it would
// leave less than a small one.
Block *Allocator::take_free(size_t size, bool is_small, vnpu_stream_t stream) {
    FreeList &list = is_small ? small_ : large_;
    Block key(stream, size, 0, is_small);
    const auto found = list.lower_bound(&key);
    if (found == list.end() || (*found)->stream != stream) {
        return nullptr;
    }
    Block *block = *found;
    list.erase(found);
    change_inactive(block, -1);
    return block;
}

// nullptr when the device has no memory left.
Block *Allocator::new_segment(size_t size, bool is_small, vnpu_stream_t stream) {
    const size_t bytes = is_small             ? kSmallSegment
                         : size < kLargeBlock ? kLargeSegment
                                              : round_up(size, kRoundLarge);
    vnpu_addr_t address = 0;
    vnpu_status_t status = vnpu_mem_alloc(0, bytes, &address);
    size_t got = bytes;
    if (status == VNPU_ERROR_OUT_OF_MEMORY &&
        bytes > size) { // the rounding may be what does not fit
        status = vnpu_mem_alloc(0, size, &address);
        got = size;
    }
    if (status == VNPU_ERROR_OUT_OF_MEMORY) {
        return nullptr;
    }
    check(status, "allocating device memory");
    stats_.num_device_alloc++;
    change(stats_.segment, 1, is_small);
    change(stats_.reserved_bytes, static_cast<int64_t>(got), is_small);
    return new Block(stream, got, address, is_small);
}

// Cuts the block to `size`; what is left becomes a free block of the same segment.
void Allocator::split(Block *block, size_t size) {
    const size_t rest = block->size - size;
    if (rest < kGranule || (!block->is_small && rest <= kSmallSize)) {
        return;
    }
    auto *tail = new Block(block->stream, rest, block->address + size, block->is_small);
    tail->previous = block;
    tail->next = block->next;
    if (tail->next != nullptr) {
        tail->next->previous = tail;
    }
    block->next = tail;
    block->size = size;
    list_of(tail).insert(tail);
    change_inactive(tail, 1);
}

void Allocator::release_pointer(void *pointer) {
    if (pointer != nullptr &&
        !is_forked_child()) { // the parent's memory, its locks in an unknown state
        instance().release(reinterpret_cast<vnpu_addr_t>(pointer));
    }
}

void Allocator::release(vnpu_addr_t address) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = allocated_.find(address);
    TORCH_INTERNAL_ASSERT(found != allocated_.end(), "vnpu: freeing an unknown address");
    Block *block = found->second;
    allocated_.erase(found);
    block->is_allocated = false;
    change(stats_.allocation, -1, block->is_small);
    change(stats_.allocated_bytes, -static_cast<int64_t>(block->size), block->is_small);
    report(block->address, -static_cast<int64_t>(block->size), stats_);
    if (block->other_streams.empty()) {
        free_block(block);
    } else {
        record_events(block);
    }
}

// Joins `other`, a free neighbour, into `into`.
bool Allocator::join(Block *into, Block *other) {
    if (other == nullptr || other->is_allocated || other->pending_events != 0) {
        return false;
    }
    list_of(other).erase(other);
    change_inactive(other, -1);
    if (into->previous == other) {
        into->address = other->address;
        into->previous = other->previous;
        if (into->previous != nullptr) {
            into->previous->next = into;
        }
    } else {
        into->next = other->next;
        if (into->next != nullptr) {
            into->next->previous = into;
        }
    }
    into->size += other->size;
    delete other;
    return true;
}

void Allocator::free_block(Block *block) {
    change(stats_.active, -1, block->is_small);
    change(stats_.active_bytes, -static_cast<int64_t>(block->size), block->is_small);
    change(stats_.requested_bytes, -static_cast<int64_t>(block->requested), block->is_small);
    join(block, block->previous);
    join(block, block->next);
    list_of(block).insert(block);
    change_inactive(block, 1);
}

void Allocator::recordStream(const c10::DataPtr &pointer, c10::Stream stream) {
    if (pointer.get() == nullptr) {
        return;
    }
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = allocated_.find(reinterpret_cast<vnpu_addr_t>(pointer.get()));
    if (found != allocated_.end() && found->second->stream != to_handle(stream)) {
        found->second->other_streams.insert(to_handle(stream));
    }
}

// Called from a destructor: a device that is lost has no work left to wait for.
void Allocator::record_events(Block *block) {
    for (const vnpu_stream_t stream : block->other_streams) {
        vnpu_event_t event = 0;
        if (vnpu_event_create(0, &event) == VNPU_OK &&
            vnpu_event_record(event, stream) == VNPU_OK) {
            events_.emplace_back(event, block);
            block->pending_events++;
        }
    }
    block->other_streams.clear();
    if (block->pending_events == 0) {
        free_block(block);
    }
}

void Allocator::process_events() {
    while (!events_.empty()) {
        const auto [event, block] = events_.front();
        if (vnpu_event_query(event) == VNPU_ERROR_NOT_READY) {
            return;
        }
        (void)!vnpu_event_destroy(event);
        events_.pop_front();
        if (--block->pending_events == 0) {
            free_block(block);
        }
    }
}

void Allocator::finish_events() {
    if (!events_.empty()) {
        stats_.num_sync_all_streams++;
    }
    for (const auto &entry : events_) {
        check(vnpu_event_synchronize(entry.first), "waiting for a stream that used freed memory");
    }
    process_events();
}

void Allocator::release_list(FreeList *list) {
    for (auto it = list->begin(); it != list->end();) {
        Block *block = *it;
        if (block->is_split()) {
            ++it;
            continue;
        }
        it = list->erase(it);
        stats_.num_device_free++;
        change(stats_.segment, -1, block->is_small);
        change(stats_.reserved_bytes, -static_cast<int64_t>(block->size), block->is_small);
        check(vnpu_mem_free(0, block->address), "freeing device memory");
        delete block;
    }
}

void Allocator::release_segments() {
    release_list(&small_);
    release_list(&large_);
}

void Allocator::resetAccumulatedStats(c10::DeviceIndex index) {
    check_index(index);
    std::lock_guard<std::mutex> guard(mutex_);
    for_each_stat([](c10::CachingAllocator::Stat &stat) { stat.reset_accumulated(); });
    stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
    stats_.num_device_alloc = stats_.num_device_free = 0;
}

void Allocator::resetPeakStats(c10::DeviceIndex index) {
    check_index(index);
    std::lock_guard<std::mutex> guard(mutex_);
    for_each_stat([](c10::CachingAllocator::Stat &stat) { stat.reset_peak(); });
}

struct Registration {
    Registration() { c10::SetAllocator(kDevice, &instance()); }
} const g_registration;

} // namespace

c10::DeviceAllocator &device_allocator() {
    return instance();
}

void resize_storage(const c10::Storage &storage, size_t bytes) {
    c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    c10::DataPtr fresh = device_allocator().allocate(bytes);
    const size_t kept = std::min(bytes, impl->nbytes());
    if (kept != 0) {
        check(vnpu_memcpy_d2d(reinterpret_cast<vnpu_addr_t>(fresh.get()),
                              reinterpret_cast<vnpu_addr_t>(impl->data()), kept, current_stream()),
              "copying a resized storage");
    }
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
}

} // namespace vnpu
