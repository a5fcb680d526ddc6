#include "tests/emulation/ptx/reduce.h"

#include <bit>
#include <cstring>

#include "tests/emulation/ptx/numbers.h"

namespace tutti::emulation {
namespace {

template <class Element, class Word>
Word addAs(Word a, Word b) {
  return std::bit_cast<Word>(std::bit_cast<Element>(a) + std::bit_cast<Element>(b));
}

template <class Element, class Word>
void addWord(char* to, const char* from) {
  Word value;
  std::memcpy(&value, from, sizeof value);
  atomicUpdate(reinterpret_cast<Word*>(to), __ATOMIC_RELAXED,
               [value](Word old) { return addAs<Element>(old, value); });
}

/// Two bytes of the four around them.
void addHalf(char* to, const char* from, float (*read)(uint16_t), uint16_t (*write)(float)) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  const auto address = reinterpret_cast<uintptr_t>(to);
  const unsigned shift = address % 4 == 0 ? 0 : 16;
  atomicUpdate(
      reinterpret_cast<uint32_t*>(address - address % 4), __ATOMIC_RELAXED, [=](uint32_t old) {
        const uint16_t sum = write(read(static_cast<uint16_t>(old >> shift)) + read(value));
        return (old & ~(0xffffu << shift)) | uint32_t(sum) << shift;
      });
}

}  // namespace

void addElements(CUtensorMapDataType type, char* to, const char* from, uint32_t bytes, Site site) {
  const auto each = [&](uint32_t size, auto add) {
    for (uint32_t i = 0; i < bytes; i += size) add(to + i, from + i);
  };
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return each(4, addWord<float, uint32_t>);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return each(8, addWord<double, uint64_t>);
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32: return each(4, addWord<uint32_t, uint32_t>);
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: return each(8, addWord<uint64_t, uint64_t>);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return each(2, [](char* a, const char* b) { addHalf(a, b, fromF16, toF16); });
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return each(2, [](char* a, const char* b) { addHalf(a, b, fromBf16, toBf16); });
    default: failAt(site, "a reduction of a type that cannot be added");
  }
}

}  // namespace tutti::emulation
