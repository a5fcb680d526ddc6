#include "parallel/kernels/cuda/attention/choice.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

constexpr std::array kHeadWidths{64, 80, 96, 128};

bool isAligned(const HeadRows& x) {
  constexpr int64_t kBytes = 16;
  const int64_t element = x.elements.format == Format::Float32 ? 4 : 2;
  return reinterpret_cast<uintptr_t>(x.elements.data) % kBytes == 0 &&
         x.batchStride * element % kBytes == 0 && x.rowStride * element % kBytes == 0;
}

bool areMultiplied(const AttentionSizes& sizes, std::initializer_list<HeadRows> factors) {
  const Format format = factors.begin()->elements.format;
  return (format == Format::BFloat16 || format == Format::Float16) &&
         std::find(kHeadWidths.begin(), kHeadWidths.end(), sizes.headWidth) != kHeadWidths.end() &&
         std::all_of(factors.begin(), factors.end(), [&](const HeadRows& x) {
           return x.elements.format == format && isAligned(x);
         });
}

}  // namespace

AttentionFamily attentionOfEnvironment() {
  const char* const text = std::getenv("TUTTI_ATTENTION");
  const std::string word = text == nullptr ? "mma" : text;
  require(word == "plain" || word == "mma", "TUTTI_ATTENTION is plain or mma, not ", word);
  return word == "plain" ? AttentionFamily::Plain : AttentionFamily::Mma;
}

AttentionFamily attentionOfGpu(int capability, AttentionFamily most) {
  return capability >= 80 ? most : AttentionFamily::Plain;
}

bool areTiled(const Attention& x) {
  return areMultiplied(x.sizes, {x.query, x.key, x.value}) && isAligned(x.out);
}

bool areTiled(const AttentionBackward& x) {
  return areMultiplied(x.sizes, {x.query, x.key, x.value, x.dOut}) && isAligned(x.dQuery) &&
         isAligned(x.dKey) && isAligned(x.dValue);
}

}  // namespace tutti::parallel::cuda
