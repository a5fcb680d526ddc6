#include "src/executor/kernel/arena.h"

#include <map>
#include <mutex>
#include <utility>

#include "src/base/check.h"
#include "src/base/integers.h"

namespace tutti::executor::kernel {
namespace {

constexpr size_t kAlignment = 128;

}  // namespace

struct DeviceArena::State {
  unsigned char* begin;
  size_t bytes;
  std::string name;
  std::mutex mutex;
  std::map<size_t, size_t> taken;  // bytes by offset

  size_t used() {
    const std::lock_guard lock(mutex);
    size_t sum = 0;
    for (const auto& [offset, size] : taken) sum += size;
    return sum;
  }
};

DeviceArena::DeviceArena(unsigned char* begin, size_t bytes, std::string name) : state_(new State) {
  state_->begin = begin;
  state_->bytes = bytes;
  state_->name = std::move(name);
}

// The first gap that is large enough.
std::shared_ptr<unsigned char> DeviceArena::tryTake(size_t bytes) {
  const size_t size = base::roundUp(std::max<size_t>(bytes, 1), kAlignment);
  size_t offset = 0;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [begin, length] : state_->taken) {
      if (begin - offset >= size) break;
      offset = begin + length;
    }
    if (size > state_->bytes || offset > state_->bytes - size) return nullptr;
    state_->taken[offset] = size;
  }
  return {state_->begin + offset, [state = state_, offset](unsigned char*) {
            const std::lock_guard lock(state->mutex);
            state->taken.erase(offset);
          }};
}

std::shared_ptr<unsigned char> DeviceArena::take(size_t bytes, const std::string& what) {
  auto part = tryTake(bytes);
  if (!part) refuse(bytes, what);
  return part;
}

void DeviceArena::refuse(size_t bytes, const std::string& what) const {
  base::fail(ErrorCode::OutOfMemory, what, " needs ", bytes, " bytes in one piece of ",
             state_->name, ", which has ", state_->bytes, ", of which ", state_->used(),
             " are in use");
}

}  // namespace tutti::executor::kernel
