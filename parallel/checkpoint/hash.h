#pragma once

// xxHash-128, the checksum of what checkpoints hold: 32 hexadecimal digits, as `xxhsum -H2` prints
// them. It finds what disks and copies do to data; it is no protection against a forger.

#include <cstddef>
#include <memory>
#include <string>

namespace tutti::parallel {

class Hash128 {
 public:
  Hash128();
  ~Hash128();
  Hash128(const Hash128&) = delete;
  Hash128& operator=(const Hash128&) = delete;
  void add(const void* data, size_t bytes);
  std::string digits() const;  ///< of all that was added

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash128(const void* data, size_t bytes);

}  // namespace tutti::parallel
