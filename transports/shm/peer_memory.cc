#include "transports/shm/peer_memory.h"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>

#include "src/base/check.h"

namespace tutti::transports::shm {
namespace {

iovec vectorOf(const void* data, size_t bytes) { return {const_cast<void*>(data), bytes}; }
iovec remoteVectorOf(uint64_t address, size_t bytes) {
  return {reinterpret_cast<void*>(static_cast<uintptr_t>(address)), bytes};
}

/// 0, or an errno. The vectors are read in their order.
int readAll(pid_t process, std::span<const iovec> to, std::span<const iovec> from) {
  size_t bytes = 0;
  for (const iovec& each : from) bytes += each.iov_len;
  const ssize_t got =
      ::process_vm_readv(process, to.data(), to.size(), from.data(), from.size(), 0);
  if (got < 0) return errno;
  return static_cast<size_t>(got) == bytes ? 0 : EFAULT;  // the memory ends on the way
}

}  // namespace

Nonce::Nonce() : words_(std::make_unique<Words>()) {
  TUTTI_SYSCALL(::getrandom(words_->data(), sizeof(Words), 0));
  place_.process = ::getpid();
  place_.address = reinterpret_cast<uintptr_t>(words_->data());
  static_assert(sizeof place_.value == sizeof(Words));
  std::memcpy(place_.value.data(), words_->data(), sizeof(Words));
}

// What the program writes to its memory afterwards is behind it.
void Nonce::erase() {
  for (uint64_t& word : *words_) std::atomic_ref(word).store(0, std::memory_order_relaxed);
  __sync_synchronize();  // GCC has no std::atomic_thread_fence where ThreadSanitizer is on
}

int PeerMemory::read(uint64_t address, std::byte* to, size_t bytes) const {
  decltype(nonce_.value) value{};
  const iovec here[] = {vectorOf(to, bytes), vectorOf(value.data(), value.size())};
  const iovec there[] = {remoteVectorOf(address, bytes),
                         remoteVectorOf(nonce_.address, value.size())};
  if (const int error = readAll(nonce_.process, here, there)) return error;
  return value == nonce_.value ? 0 : ESRCH;
}

bool isReadableByPeers(const std::byte* data, size_t bytes) {
  if (bytes == 0) return true;
  std::array<std::byte, 2> ends{};
  const iovec here[] = {vectorOf(ends.data(), ends.size())};
  const iovec there[] = {vectorOf(data, 1), vectorOf(data + bytes - 1, 1)};
  return readAll(::getpid(), here, there) == 0;
}

}  // namespace tutti::transports::shm
