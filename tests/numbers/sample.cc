#include "tests/numbers/sample.h"

#include <bit>

#include "tests/numbers/reference.h"

namespace tutti::numbers::sample {
namespace {

uint64_t mask(DataType type) { return ~uint64_t{0} >> (64 - 8 * sizeOf(type)); }
bool integer(DataType type) { return type <= DataType::UInt64; }

int fractionBits(DataType type) {
  switch (type) {
    case DataType::Float16: return 10;
    case DataType::BFloat16: return 7;
    case DataType::Float32: return 23;
    case DataType::Float64: return 52;
    case DataType::Float8E4M3: return 3;
    default: return 2;
  }
}

uint64_t one(DataType type) {
  if (type == DataType::Float64) return std::bit_cast<uint64_t>(1.0);
  if (type == DataType::Float32) return std::bit_cast<uint32_t>(1.0f);
  return reference::encodeReduced(type, 1.0);
}

}  // namespace

std::vector<uint64_t> specials(DataType type) {
  const uint64_t all = mask(type);
  const uint64_t sign = all ^ all >> 1;
  if (integer(type)) return {0, 1, 2, 3, all, all - 1, sign, sign - 1, sign + 1, all >> 4};
  const uint64_t hidden = uint64_t{1} << fractionBits(type);
  std::vector<uint64_t> magnitudes{
      0, 1, hidden - 1, hidden, one(type), one(type) + 1, one(type) + hidden};
  // From the pattern of all ones downwards: NaN, infinity where there is one, the largest numbers.
  const uint64_t top = all >> 1;
  const uint64_t edge = type == DataType::Float8E4M3 ? top : top ^ (hidden - 1);
  for (const uint64_t m : {top, edge, edge - 1, edge - hidden}) magnitudes.push_back(m);
  if (type != DataType::Float8E4M3) magnitudes.push_back(edge + 1);  // a signalling NaN
  std::vector<uint64_t> result;
  for (const uint64_t m : magnitudes) {
    result.push_back(m);
    result.push_back(m | sign);
  }
  return result;
}

uint64_t element(DataType type, int kind, Random& random) {
  const uint64_t all = mask(type);
  switch (kind % 4) {
    case 0: return random() & all;
    case 1: {
      const std::vector<uint64_t> list = specials(type);
      return list[random() % list.size()];
    }
    case 2: {  // near one, on either side of it, in sign too: sums round, cancel and tie
      if (integer(type)) return (random() % 17 - 8) & all;
      const uint64_t spread = uint64_t{4} << fractionBits(type);
      const uint64_t sign = random() % 2 ? all ^ all >> 1 : 0;
      return (one(type) - spread / 2 + random() % spread) | sign;
    }
    default: {  // any finite-looking pattern of moderate exponent
      if (integer(type)) return (random() & all >> 1);
      const uint64_t sign = random() % 2 ? all ^ all >> 1 : 0;
      return (random() % (one(type) + one(type) / 4)) | sign;
    }
  }
}

}  // namespace tutti::numbers::sample
