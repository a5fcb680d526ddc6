#pragma once

// Cross-memory attach: a rank reads the memory of another process of its host where it lies, by
// process_vm_readv. Nobody ever writes another one's memory in this way.
//
// Each rank has a nonce: 16 random bytes. Its peers are told where it lies and what it says, and
// who can read just that has the right process before him. Every read of the peer's memory reads
// the nonce after it, and counts only if that still says the same. So memory of another process
// that has got the number of a dead one is never taken for the peer's. A rank erases its nonce
// before a failed call returns: what its program writes then is not taken for its data either.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti::transports::shm {

/// Where a nonce is, and what it says.
struct NoncePlace {
  int32_t process = 0;  ///< 0: there is none
  uint64_t address = 0;
  std::array<std::byte, 16> value{};
};

class Nonce {
 public:
  /// Throws System where the system has no random bytes.
  Nonce();
  ~Nonce() { erase(); }
  Nonce(const Nonce&) = delete;
  Nonce& operator=(const Nonce&) = delete;

  const NoncePlace& place() const { return place_; }
  /// What peers read from here on does not count.
  void erase();

 private:
  using Words = std::array<uint64_t, 2>;
  const std::unique_ptr<Words> words_;
  NoncePlace place_;
};

/// The memory of the process that a nonce is in.
class PeerMemory {
 public:
  explicit PeerMemory(const NoncePlace& nonce) : nonce_(nonce) {}

  /// Whether it can be read, and is the one with the nonce.
  bool isReadable() const { return nonce_.process != 0 && read(0, nullptr, 0) == 0; }
  /// Returns 0, or an errno: ESRCH also when the nonce says something else. Then `to` may have
  /// been written to.
  int read(uint64_t address, std::byte* to, size_t bytes) const;

 private:
  NoncePlace nonce_;
};

/// Whether a peer could read this memory of this process, by its first and its last byte: memory of
/// devices, for one, cannot be read in this way.
bool isReadableByPeers(const std::byte* data, size_t bytes);

}  // namespace tutti::transports::shm
