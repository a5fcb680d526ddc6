#include "parallel/kernels/cuda/attention/attentions.h"

#include <limits>

namespace tutti::parallel::cuda {

CUtensorMap Attentions::mapOf(const HeadRows& x, const AttentionSizes& sizes, int32_t heads,
                              int32_t rows) {
  return maps_.of({.data = x.elements.data,
                   .format = x.elements.format,
                   .size = {int64_t{heads} * sizes.headWidth, rows, sizes.batch},
                   .stride = {x.rowStride, x.batchStride},
                   .box = {panelColumns(sizes.headWidth), kBoxRows, 1}});
}

int32_t Attentions::mostBlocks(AttentionFamily family) const {
  return family >= AttentionFamily::Persistent ? processors_ : std::numeric_limits<int32_t>::max();
}

cudaError_t Attentions::enqueue(const AttentionForward& x, bool doubles, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const AttentionFamily family = attentionOf(x, most_);
  switch (family) {
    case AttentionFamily::Reference: break;
    case AttentionFamily::Mma: return cuda::enqueue(TiledAttention{x}, stream);
    case AttentionFamily::Wgmma:
    case AttentionFamily::Persistent:
    case AttentionFamily::OnePass:
    case AttentionFamily::Tall:
      return cuda::enqueue(
          WgmmaAttention{x, mapOf(x.query, sizes, sizes.heads, sizes.queries),
                         mapOf(x.key, sizes, sizes.kvHeads, sizes.keys),
                         mapOf(x.value, sizes, sizes.kvHeads, sizes.keys), mostBlocks(family),
                         family == AttentionFamily::Tall && sizes.headWidth == kTallWidth},
          stream);
  }
  return cuda::enqueue(x, doubles, stream);
}

int64_t Attentions::scratchOf(const AttentionBackward& x) const {
  if (attentionOf(x, most_) < AttentionFamily::OnePass) return 0;
  const int64_t numbers = turnTiles(x.sizes) * (kTurnRows * x.sizes.headWidth + 1) + 1;
  return (numbers + 3) / 4 * 4;  // what is behind is aligned as well
}

cudaError_t Attentions::enqueue(const AttentionBackward& x, bool doubles, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const AttentionFamily family = attentionOf(x, most_);
  const auto mapped = [&] {
    return WgmmaAttentionBackward{x,
                                  mapOf(x.query, sizes, sizes.heads, sizes.queries),
                                  mapOf(x.key, sizes, sizes.kvHeads, sizes.keys),
                                  mapOf(x.value, sizes, sizes.kvHeads, sizes.keys),
                                  mapOf(x.dOut, sizes, sizes.heads, sizes.queries),
                                  mostBlocks(family)};
  };
  switch (family) {
    case AttentionFamily::Reference: break;
    case AttentionFamily::Mma: return cuda::enqueue(TiledAttentionBackward{x}, stream);
    case AttentionFamily::Wgmma:
    case AttentionFamily::Persistent: return cuda::enqueue(mapped(), stream);
    case AttentionFamily::OnePass:
    case AttentionFamily::Tall: {
      const int64_t tiles = turnTiles(sizes);
      auto* const turns =
          reinterpret_cast<uint32_t*>(x.scratch + tiles * kTurnRows * sizes.headWidth);
      return cuda::enqueue(OnePassAttentionBackward{mapped(), x.scratch, turns, turns + tiles},
                           stream);
    }
  }
  return cuda::enqueue(x, doubles, stream);
}

}  // namespace tutti::parallel::cuda
