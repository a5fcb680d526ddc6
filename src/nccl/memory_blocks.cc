#include "src/nccl/memory_blocks.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/device/cuda.h"
#include "src/nccl/gpu_calls.h"

namespace tutti::nccl {

MemoryBlocks& MemoryBlocks::ofProcess() {
  static auto* const instance = new MemoryBlocks;  // memory may outlive main()
  return *instance;
}

MemoryBlocks::MemoryBlocks() { base::freeInForkedChildren(mutex_); }

void* MemoryBlocks::allocate(size_t bytes) {
  const Device place = deviceOfThread();
  Memory memory =
      place.kind == DeviceKind::Host ? allocateShareable(bytes) : allocateOn(place, bytes);
  void* data = memory.data();
  if (!data) return nullptr;
  std::lock_guard lock(mutex_);
  blocks_.emplace(static_cast<const std::byte*>(data), std::move(memory));
  return data;
}

void MemoryBlocks::free(void* data) {
  Memory last;  // unmapped without the lock
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(data));
  TUTTI_REQUIRE(found != blocks_.end(), data,
                " was not allocated by ncclMemAlloc, or freed before");
  last = std::move(found->second);
  blocks_.erase(found);
}

std::optional<Memory> MemoryBlocks::share(Communicator& communicator, const void* buffer,
                                          size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(buffer);
  Memory block;  // held, so that nobody waits for the other ranks with the lock
  {
    std::lock_guard lock(mutex_);
    auto at = blocks_.upper_bound(first);
    if (at == blocks_.begin()) return std::nullopt;
    --at;
    const size_t offset = static_cast<size_t>(first - at->first);
    const Memory& whole = at->second;
    if (offset > whole.bytes() || bytes > whole.bytes() - offset) return std::nullopt;
    block = Memory(whole.data(), whole.bytes(), whole.owner());
  }
  if (device::placeOf(block.data()).kind == device::MemoryPlace::Kind::Cuda) return std::nullopt;
  return communicator.share(block);
}

}  // namespace tutti::nccl
