#include "torch_plugin/csrc/vnpu_generator.h"

#include <cstring>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/ops/empty.h>
#include <c10/core/GeneratorImpl.h>

#include "torch_plugin/csrc/vnpu_runtime.h"

namespace vnpu {
namespace {

class GeneratorImpl final : public c10::GeneratorImpl {
  public:
    explicit GeneratorImpl(c10::DeviceIndex index)
        : c10::GeneratorImpl(c10::Device(kDevice, index),
                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

    void set_current_seed(uint64_t seed) override {
        seed_ = seed;
        offset_ = 0;
    }
    void set_offset(uint64_t offset) override { offset_ = offset; }
    uint64_t get_offset() const override { return offset_; }
    uint64_t current_seed() const override { return seed_; }
    uint64_t seed() override {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return seed_;
    }

    // 16 bytes on the CPU: seed, offset.
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        at::Tensor state = at::empty({16}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
        uint8_t *bytes = state.mutable_data_ptr<uint8_t>();
        std::memcpy(bytes, &seed_, 8);
        std::memcpy(bytes + 8, &offset_, 8);
        return state.getIntrusivePtr();
    }
    void set_state(const c10::TensorImpl &state) override {
        at::detail::check_rng_state(state);
        TORCH_CHECK(state.numel() == 16,
                    "vnpu: a generator state has 16 bytes (seed, offset), not ", state.numel());
        const auto *bytes = static_cast<const uint8_t *>(state.data());
        std::memcpy(&seed_, bytes, 8);
        std::memcpy(&offset_, bytes + 8, 8);
    }

    // Seed of the next host draw: a 64-bit mix (splitmix64's finaliser) of seed and offset.
    uint64_t next_draw() {
        uint64_t value = seed_ + 0x9e3779b97f4a7c15u * (offset_ + 1);
        offset_ += 4; // Philox counts in blocks of four
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
        value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
        return value ^ (value >> 31);
    }

  private:
    GeneratorImpl *clone_impl() const override {
        auto *copy = new GeneratorImpl(device().index());
        copy->seed_ = seed_;
        copy->offset_ = offset_;
        return copy;
    }

    uint64_t seed_ = c10::default_rng_seed_val;
    uint64_t offset_ = 0;
};

} // namespace

const at::Generator &default_generator(c10::DeviceIndex index) {
    check_index(index < 0 ? current_device() : index);
    static const at::Generator instance =
        at::make_generator<GeneratorImpl>(static_cast<c10::DeviceIndex>(0));
    return instance;
}

at::Generator new_generator(c10::DeviceIndex index) {
    const c10::DeviceIndex device = index < 0 ? current_device() : index;
    check_index(device);
    return at::make_generator<GeneratorImpl>(device);
}

at::Generator host_generator(const at::Generator &generator) {
    if (generator.defined() && generator.device().type() == at::kCPU) {
        return generator;
    }
    const at::Generator &source =
        generator.defined() ? generator : default_generator(current_device());
    TORCH_CHECK(source.device().type() == kDevice,
                "vnpu: expected a generator of device vnpu, found ", source.device());
    auto *impl = static_cast<GeneratorImpl *>(source.unsafeGetGeneratorImpl());
    std::lock_guard<std::mutex> guard(impl->mutex_);
    return at::make_generator<at::CPUGeneratorImpl>(impl->next_draw());
}

} // namespace vnpu
