#include "parallel/store/buffer_pool.h"

#include <algorithm>
#include <cstring>

namespace tutti::parallel {

namespace {

void setToZero(const Tensor& x, Stream* ofDevice) {
  if (ofDevice == nullptr) {
    std::memset(x.data, 0, x.bytes());
    return;
  }
  const std::vector<std::byte> zeros(x.bytes());
  ofDevice->synchronize();  // copies of such memory hold CUDA's lock while they wait
  copy({x.data, zeros.data(), zeros.size()}, *ofDevice);
  ofDevice->synchronize();
}

}  // namespace

Tensor BufferPool::take(DType type, int64_t elements) {
  const size_t bytes = byteCount(type, {elements});
  Buffer* best = nullptr;
  for (Buffer& buffer : buffers_)
    if (!buffer.taken && buffer.bytes.bytes() >= bytes &&
        (best == nullptr || buffer.bytes.bytes() < best->bytes.bytes()))
      best = &buffer;
  if (best == nullptr) {
    const Tensor made = memory_.allocate(DType::UInt8, {static_cast<int64_t>(bytes)});
    if (bytes > 0 && !memory_.dry()) setToZero(made, memory_.backing().stream.get());
    best = &buffers_.emplace_back(Buffer{made});
  }
  best->taken = true;
  return Tensor(best->bytes.data, type, {elements});
}

void BufferPool::give(const Tensor& tensor) {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& b) {
    return b.taken && b.bytes.data == tensor.data;
  });
  ensure(found != buffers_.end(), "a buffer was given back that the pool has not borrowed");
  found->taken = false;
}

}  // namespace tutti::parallel
