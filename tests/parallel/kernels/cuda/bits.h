#pragma once

// Bits of results, which no order of threads may change.

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::parallel::cuda {

/// A hash of bytes.
class Bits {
 public:
  void add(const std::vector<char>& bytes);
  /// Writes a line, for expectTheSameBitsInEveryOrder().
  void say() const;
  bool operator==(const Bits&) const = default;

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

/// Runs the tests that `filter` names in programs of their own, where each says `results` bits: the
/// same in all. The emulation's threads run in another order in each, and copies land at other
/// times; a GPU has orders of its own. `variables`: of the environment there, as "NAME=VALUE".
void expectTheSameBitsInEveryOrder(const std::string& filter, int results,
                                   const std::string& variables = "");

}  // namespace tutti::parallel::cuda
