#include "src/tools/common/memory_need.h"

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <span>
#include <vector>

#include "src/base/check.h"
#include "src/bootstrap/host_facts.h"
#include "src/tools/common/units.h"
#include "transports/shm/memory_limits.h"

namespace tutti::tools {
namespace {

// What is not for buffers: a 32nd of what is left.
constexpr uint64_t kSpared = 32;

uint64_t sumOf(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/// A need as ranks tell each other. A long path of a cgroup loses its end.
struct Told {
  uint64_t bytes = 0, left = UINT64_MAX;
  std::array<char, 40> bootId{};
  std::array<char, 256> limit{};
};

Told ownNeed(uint64_t bytes) {
  Told own{.bytes = bytes};
  bootstrap::bootId().copy(own.bootId.data(), own.bootId.size() - 1);
  if (const auto room = transports::shm::memoryRoom()) {
    own.left = room->bytes;
    room->within.copy(own.limit.data(), own.limit.size() - 1);
  }
  return own;
}

/// How `take` ended, as ranks tell each other. A long text loses its end.
struct Taken {
  ErrorCode code = ErrorCode::OutOfMemory;
  std::array<char, 500> failure{};  // empty: well
};

Taken ownTaken(const std::function<void()>& take) {
  Taken own;
  std::string failure;
  try {
    take();
    return own;
  } catch (const Error& error) {
    own.code = error.code();
    failure = error.what();
  } catch (const std::bad_alloc&) {
    failure = "there is no memory";
  }
  base::message("(", bootstrap::describeThisProcess().describe(), "): ", failure)
      .copy(own.failure.data(), own.failure.size() - 1);
  return own;
}

}  // namespace

std::string sharersOf(const std::string& bootId, int host, const std::string& limit) {
  if (limit == transports::shm::kWholeMachine) return bootId;
  return base::message(bootId, ", host ", host, ", ", limit);
}

void requireRoom(std::span<const MemoryNeed> ranks, const std::string& purpose) {
  struct Sum {
    uint64_t ranks = 0, bytes = 0, left = UINT64_MAX;
    std::string limit;
  };
  std::map<std::string, Sum> sums;
  for (const MemoryNeed& need : ranks) {
    Sum& sum = sums[need.sharers];
    ++sum.ranks;
    sum.bytes = sumOf(sum.bytes, need.bytes);
    sum.left = std::min(sum.left, need.left);
    sum.limit = need.limit;
  }
  for (const auto& [sharers, sum] : sums)
    if (sum.left != UINT64_MAX && sum.bytes > sum.left - sum.left / kSpared)
      base::fail(ErrorCode::OutOfMemory, purpose, ": ", countText(sum.ranks, "rank"),
                 sum.ranks == 1 ? " needs " : " need together ", sum.bytes, " bytes, and ",
                 sum.left, " are left in ", sum.limit, ": take smaller sizes or fewer ranks");
}

void requireMemory(Communicator& c, uint64_t bytes, const std::string& purpose) {
  c.barrier();  // all have given back what they had before
  const Told own = ownNeed(bytes);
  std::vector<Told> all(static_cast<size_t>(c.size()));
  c.allGather({.send = std::as_bytes(std::span(&own, 1)),
               .recv = std::as_writable_bytes(std::span(all)),
               .type = DataType::Int8});
  std::vector<MemoryNeed> needs;
  for (size_t rank = 0; rank < all.size(); ++rank)
    needs.push_back({all[rank].bytes, all[rank].left, all[rank].limit.data(),
                     sharersOf(all[rank].bootId.data(), c.hosts()[rank], all[rank].limit.data())});
  requireRoom(needs, purpose);
}

void takeOnAll(Communicator& c, const std::string& purpose, const std::function<void()>& take) {
  const Taken own = ownTaken(take);
  std::vector<Taken> all(static_cast<size_t>(c.size()));
  c.allGather({.send = std::as_bytes(std::span(&own, 1)),
               .recv = std::as_writable_bytes(std::span(all)),
               .type = DataType::Int8});
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].failure[0] != 0)
      base::fail(all[rank].code, purpose, ": rank ", rank, " ", all[rank].failure.data());
}

}  // namespace tutti::tools
