#include "tests/emulation/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

constexpr uint32_t kRedZone = 64;
constexpr size_t kPage = 4096;

/// With ThreadSanitizer a new one each time: it forgets who touched what is freed.
char* newArena(std::vector<char*>& pool) {
  if (kThreadSanitizer) return static_cast<char*>(std::aligned_alloc(kPage, kArenaBytes));
  if (!pool.empty()) {
    char* const arena = pool.back();
    pool.pop_back();
    return arena;
  }
  void* const arena =
      mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return arena == MAP_FAILED ? nullptr : static_cast<char*>(arena);
}

}  // namespace

void makeSharedMemory(Block& block, size_t dynamicBytes, std::vector<char*>& pool) {
  block.shared = newArena(pool);
  if (block.shared == nullptr) fail("no memory for the shared memory of so many blocks");
  block.sharedEnd = kArenaStart + static_cast<uint32_t>(dynamicBytes);
  allow(block.shared, kArenaBytes);
  std::memset(block.shared, kFreshByte, block.sharedEnd + kRedZone);
  forbid(block.shared, kArenaStart);
  forbid(block.shared + block.sharedEnd, kArenaBytes - block.sharedEnd);
}

void endSharedMemory(Block& block, std::vector<char*>& pool) {
  if (kThreadSanitizer)
    std::free(block.shared);
  else
    pool.push_back(block.shared);
  block.shared = nullptr;
}

Block& blockOf(uint32_t address, Block& block, Site site) {
  const uint32_t rank = address >> 24;
  if (rank == 0) return block;
  const auto& blocks = block.cluster->blocks;
  if (rank > blocks.size())
    failAt(site, "a shared::cluster address of rank " + std::to_string(rank - 1) +
                     " in a cluster of " + std::to_string(blocks.size()));
  Block& other = *blocks[rank - 1];
  if (other.liveThreads == 0)
    failAt(site, "the block of cluster rank " + std::to_string(rank - 1) +
                     " has exited, and its shared memory with it");
  return other;
}

char* sharedBytes(uint32_t address, uint32_t bytes, uint32_t alignment, Block& block, Site site) {
  Block& owner = blockOf(address, block, site);
  const uint32_t offset = offsetOf(address);
  if (offset % alignment != 0)
    failAt(site, "shared address " + std::to_string(offset) + " is no multiple of " +
                     std::to_string(alignment));
  if (offset < kArenaStart || offset + bytes > owner.sharedEnd)
    failAt(site, std::to_string(bytes) + " bytes at shared address " + std::to_string(offset) +
                     " are outside the block's shared memory, " + std::to_string(kArenaStart) +
                     " to " + std::to_string(owner.sharedEnd));
  return owner.shared + offset;
}

}  // namespace tutti::emulation

namespace tutti::cuda::emulated {

using namespace emulation;

void* dynamicShared() {
  thisThread("dynamicShared()");
  return thisBlock().shared + kArenaStart;
}

void* staticShared(const void* key, size_t bytes, size_t alignment) {
  thisThread("TUTTI_SHARED");
  Ignored ignored;
  Block& block = thisBlock();
  for (const auto& variable : block.statics)
    if (variable.key == key) return block.shared + variable.offset;
  const uint32_t unit = std::max<uint32_t>(16, static_cast<uint32_t>(alignment));
  const uint32_t offset = (block.sharedEnd + kRedZone + unit - 1) / unit * unit;
  if (offset + bytes + kRedZone > kArenaBytes) fail("static shared memory does not fit");
  block.sharedEnd = offset + static_cast<uint32_t>(bytes);
  block.statics.push_back({key, offset});
  allow(block.shared + offset, bytes);
  std::memset(block.shared + offset, kFreshByte, bytes);
  return block.shared + offset;
}

}  // namespace tutti::cuda::emulated

namespace tutti::cuda::ptx {

uint32_t sharedAddress(const void* pointer) {
  using namespace emulation;
  thisThread("sharedAddress()");
  const std::ptrdiff_t offset = static_cast<const char*>(pointer) - thisBlock().shared;
  if (offset < 0 || offset >= std::ptrdiff_t(kArenaBytes))
    fail("sharedAddress() of a pointer that does not point into the block's shared memory");
  return static_cast<uint32_t>(offset);
}

}  // namespace tutti::cuda::ptx
