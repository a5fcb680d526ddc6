#include "parallel/tensor/arena.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace tutti::parallel {

namespace {
constexpr size_t kAlignment = 64;
size_t alignUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
}  // namespace

void Arena::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kAlignment});
}

Arena::Arena(std::string name, size_t blockBytes)
    : name_(std::move(name)), blockBytes_(alignUp(blockBytes)) {}

void* Arena::take(size_t bytes) {
  Mark next = mark_;
  while (next.block < blocks_.size() && blocks_[next.block].bytes - next.offset < bytes) {
    ++next.block;
    next.offset = 0;
  }
  if (next.block == blocks_.size()) {
    const size_t blockBytes = std::max(bytes, blockBytes_);
    auto* memory = static_cast<std::byte*>(
        ::operator new (blockBytes, std::align_val_t{kAlignment}, std::nothrow));
    if (memory == nullptr)
      fail(ErrorCode::OutOfMemory, "the ", name_, " arena could not grow by ", blockBytes,
           " bytes; it holds ", heldBytes());
    blocks_.push_back({std::unique_ptr<std::byte, Free>(memory), blockBytes});
  }
  void* result = blocks_[next.block].memory.get() + next.offset;
  next.offset += bytes;
  next.used += bytes;
  mark_ = next;
  return result;
}

Tensor Arena::allocate(DType type, const Shape& shape) {
  const size_t bytes = alignUp(byteCount(type, shape));
  return Tensor(bytes == 0 ? nullptr : take(bytes), type, shape);
}

void Arena::rewind(const Mark& mark) {
  ensure(mark.used <= mark_.used, "the ", name_, " arena cannot be rewound forward, from ",
         mark_.used, " to ", mark.used, " bytes");
  mark_ = mark;
}

Tensor Arena::retain(const Mark& mark, const Tensor& tensor) {
  ensure(tensor.contiguous(), "only a contiguous tensor can be retained: ", tensor);
  rewind(mark);
  Tensor result = allocate(tensor.type, tensor.shape);
  result.layout = tensor.layout;
  // Blocks are only appended, so the old elements are still there; the two may overlap.
  if (tensor.bytes() > 0) std::memmove(result.data, tensor.data, tensor.bytes());
  return result;
}

size_t Arena::heldBytes() const {
  size_t total = 0;
  for (const Block& block : blocks_) total += block.bytes;
  return total;
}

}  // namespace tutti::parallel
