#include "src/communicator/request.h"

#include <bit>

#include "collectives/chooser.h"
#include "src/plan/hosts.h"

namespace tutti::communicator {
namespace {

uint64_t sizeBucket(const CallFacts& facts, int ranks) {
  const uint64_t bytes = facts.blockCount(ranks) * sizeOf(facts.type);
  return bytes <= 8 ? 8 : std::bit_ceil(bytes);
}

}  // namespace

uint64_t choiceKey(const CallFacts& facts, int ranks) {
  const bool premultiplies = facts.op == ReduceOp::PreMulSum;
  return static_cast<uint64_t>(facts.collective) | (premultiplies ? 1 : 0) << 4 |
         (facts.blocksHash != 0 ? 1 : 0) << 5 |
         static_cast<uint64_t>(std::countr_zero(sizeBucket(facts, ranks))) << 8 |
         static_cast<uint64_t>(facts.root) << 16;
}

plan::CollectiveRequest requestOf(const CallFacts& facts, int ranks, bool deterministic,
                                  const std::string& algorithm, const std::vector<int>& hostOf) {
  const bool uneven = facts.blocksHash != 0;
  const bool forced =
      facts.collective == plan::Collective::Barrier ||
      collectives::exists(algorithm, facts.collective, ranks, plan::hostsInOrder(hostOf), uneven);
  return {.collective = facts.collective,
          .count = sizeBucket(facts, ranks) / sizeOf(facts.type),
          .type = facts.type,
          .op = facts.op,
          .root = facts.root,
          .deterministic = deterministic,
          .uneven = uneven,
          .algorithm = forced ? algorithm : ""};
}

}  // namespace tutti::communicator
