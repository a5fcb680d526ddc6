#include "tests/support/mutator.h"

#include <algorithm>
#include <cstring>

namespace tutti::tests {

base::Bytes Mutator::mutate(base::Bytes bytes) {
  if (below(20) == 0) {
    bytes.resize(below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
  }
  for (size_t i = below(4); i > 0 && !bytes.empty(); --i) change(bytes);
  return bytes;
}

void Mutator::change(base::Bytes& bytes) {
  const size_t at = below(bytes.size());
  switch (below(5)) {
    case 0: bytes[at] ^= static_cast<std::byte>(1u << below(8)); break;
    case 1: bytes[at] = static_cast<std::byte>(random_()); break;
    case 2: {
      constexpr uint64_t kEdges[] = {
          0, 1, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0}, uint64_t{1} << 63, 1'000'000'000};
      const uint64_t edge = kEdges[below(std::size(kEdges))];
      std::memcpy(bytes.data() + at, &edge, std::min(sizeof edge, bytes.size() - at));
      break;
    }
    case 3: bytes.resize(at); break;
    default: {
      const base::Bytes part(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end());
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
}

}  // namespace tutti::tests
