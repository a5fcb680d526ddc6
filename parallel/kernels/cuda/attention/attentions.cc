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
  return family == AttentionFamily::Persistent ? processors_ : std::numeric_limits<int32_t>::max();
}

cudaError_t Attentions::enqueue(const Attention& x, bool doubles, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const AttentionFamily family = attentionOf(x, most_);
  switch (family) {
    case AttentionFamily::Plain: break;
    case AttentionFamily::Mma: return cuda::enqueue(TiledAttention{x}, stream);
    case AttentionFamily::Wgmma:
    case AttentionFamily::Persistent:
      return cuda::enqueue(
          WgmmaAttention{x, mapOf(x.query, sizes, sizes.heads, sizes.queries),
                         mapOf(x.key, sizes, sizes.kvHeads, sizes.keys),
                         mapOf(x.value, sizes, sizes.kvHeads, sizes.keys), mostBlocks(family)},
          stream);
  }
  return cuda::enqueue(x, doubles, stream);
}

cudaError_t Attentions::enqueue(const AttentionBackward& x, bool doubles, cudaStream_t stream) {
  const AttentionSizes& sizes = x.sizes;
  const AttentionFamily family = attentionOf(x, most_);
  switch (family) {
    case AttentionFamily::Plain: break;
    case AttentionFamily::Mma: return cuda::enqueue(TiledAttentionBackward{x}, stream);
    case AttentionFamily::Wgmma:
    case AttentionFamily::Persistent:
      return cuda::enqueue(
          WgmmaAttentionBackward{x, mapOf(x.query, sizes, sizes.heads, sizes.queries),
                                 mapOf(x.key, sizes, sizes.kvHeads, sizes.keys),
                                 mapOf(x.value, sizes, sizes.kvHeads, sizes.keys),
                                 mapOf(x.dOut, sizes, sizes.heads, sizes.queries),
                                 mostBlocks(family)},
          stream);
  }
  return cuda::enqueue(x, doubles, stream);
}

}  // namespace tutti::parallel::cuda
