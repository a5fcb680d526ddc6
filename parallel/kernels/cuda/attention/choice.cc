#include "parallel/kernels/cuda/attention/choice.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "parallel/kernels/cuda/maps/tensor_maps.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

constexpr std::array kHeadWidths{64, 80, 96, 128};

bool isAligned(const HeadRows& x) {
  constexpr int64_t kBytes = 16;
  const int64_t element = bytesOf(x.elements.format);
  return reinterpret_cast<uintptr_t>(x.elements.data) % kBytes == 0 &&
         x.batchStride * element % kBytes == 0 && x.rowStride * element % kBytes == 0;
}

bool areMultiplied(const AttentionSizes& sizes, std::initializer_list<HeadRows> factors) {
  const ElementFormat format = factors.begin()->elements.format;
  return (format == ElementFormat::BFloat16 || format == ElementFormat::Float16) &&
         std::find(kHeadWidths.begin(), kHeadWidths.end(), sizes.headWidth) != kHeadWidths.end() &&
         std::all_of(factors.begin(), factors.end(), [&](const HeadRows& x) {
           return x.elements.format == format && isAligned(x);
         });
}

/// A map is of one element at least.
bool areMapped(const AttentionSizes& sizes, std::initializer_list<HeadRows> factors) {
  return sizes.batch > 0 && sizes.heads > 0 && sizes.queries > 0 && sizes.keys > 0 &&
         std::all_of(factors.begin(), factors.end(), [](const HeadRows& x) {
           return isMappable(x.elements.data, {x.rowStride, x.batchStride});
         });
}

}  // namespace

AttentionFamily attentionOfEnvironment() {
  const char* const text = std::getenv("TUTTI_ATTENTION");
  const std::string word = text == nullptr ? "wgmma" : text;
  require(word == "reference" || word == "mma" || word == "wgmma" || word == "persistent" ||
              word == "onepass" || word == "tall",
          "TUTTI_ATTENTION is reference, mma, wgmma, persistent, onepass or tall, not ", word);
  return word == "reference"    ? AttentionFamily::Reference
         : word == "mma"        ? AttentionFamily::Mma
         : word == "wgmma"      ? AttentionFamily::Wgmma
         : word == "persistent" ? AttentionFamily::Persistent
         : word == "onepass"    ? AttentionFamily::OnePass
                                : AttentionFamily::Tall;
}

AttentionFamily attentionOfGpu(int capability, AttentionFamily most) {
  if (capability < 80) return AttentionFamily::Reference;
  return capability == 90 ? most : std::min(most, AttentionFamily::Mma);
}

AttentionFamily attentionOf(const AttentionForward& x, AttentionFamily most) {
  if (!areMultiplied(x.sizes, {x.query, x.key, x.value}) || !isAligned(x.out))
    return AttentionFamily::Reference;
  return areMapped(x.sizes, {x.query, x.key, x.value}) ? most
                                                       : std::min(most, AttentionFamily::Mma);
}

AttentionFamily attentionOf(const AttentionBackward& x, AttentionFamily most) {
  if (!areMultiplied(x.sizes, {x.query, x.key, x.value, x.dOut}) || !isAligned(x.dQuery) ||
      !isAligned(x.dKey) || !isAligned(x.dValue))
    return AttentionFamily::Reference;
  return areMapped(x.sizes, {x.query, x.key, x.value, x.dOut})
             ? most
             : std::min(most, AttentionFamily::Mma);
}

}  // namespace tutti::parallel::cuda
