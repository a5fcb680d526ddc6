#include "src/communicator/request.h"

#include <algorithm>
#include <bit>

#include "collectives/algorithm_file.h"
#include "src/base/check.h"

namespace tutti::communicator {
namespace {

constexpr int kMostBlocks = 1024;
/// They have 16 bits of a key.
constexpr size_t kMostWishes = 0xffff;

uint64_t sizeBucket(const CallFacts& facts, int ranks) {
  const uint64_t bytes = facts.blockCount(ranks) * sizeOf(facts.type);
  return bytes <= 8 ? 8 : std::bit_ceil(bytes);
}

}  // namespace

CallWishes wishesOf(const CallOptions& options) {
  TUTTI_REQUIRE(options.gpuBlocks >= 0 && options.gpuBlocks <= kMostBlocks, "gpuBlocks is ",
                options.gpuBlocks, ", not 0 to ", kMostBlocks);
  return {options.algorithm ? options.algorithm : "", options.ifPossible,
          static_cast<uint32_t>(options.gpuBlocks)};
}

uint64_t WishNumbers::numberOf(const CallWishes& wishes) {
  if (wishes.isNone()) return 0;
  auto known = std::ranges::find(known_, wishes);
  if (known == known_.end()) {
    TUTTI_REQUIRE(known_.size() < kMostWishes, "calls of one communicator have at most ",
                  kMostWishes, " different options");
    known = known_.insert(known, wishes);
  }
  return static_cast<uint64_t>(known - known_.begin()) + 1;
}

uint64_t choiceKey(const CallFacts& facts, int ranks, uint64_t wishes) {
  const bool premultiplies = facts.op == ReduceOp::PreMulSum;
  return static_cast<uint64_t>(facts.collective) | (premultiplies ? 1 : 0) << 4 |
         (facts.blocksHash != 0 ? 1 : 0) << 5 |
         static_cast<uint64_t>(std::countr_zero(sizeBucket(facts, ranks))) << 8 |
         static_cast<uint64_t>(facts.root) << 16 | wishes << 48;
}

plan::CollectiveRequest requestOf(const CallFacts& facts, const Settings& settings,
                                  const CallWishes& wishes, const topology::Topology& topology,
                                  const MappableCalls& mappable) {
  plan::CollectiveRequest request{.collective = facts.collective,
                                  .count = sizeBucket(facts, topology.ranks) / sizeOf(facts.type),
                                  .type = facts.type,
                                  .op = facts.op,
                                  .root = facts.root,
                                  .deterministic = settings.deterministic,
                                  .uneven = facts.blocksHash != 0,
                                  .mayBeInPlace = mappable.mayBeInPlace,
                                  .algorithm = ""};
  request.mappable = request.blockBytes() >= mappable.leastBlockBytes;
  const auto whyNot = [&](const std::string& name) {
    return collectives::whyNot(name, request, topology, settings.algorithmFile.get());
  };
  if (!wishes.algorithm.empty()) {
    const std::string fault = whyNot(wishes.algorithm);
    if (!fault.empty() && !wishes.ifPossible) base::fail(ErrorCode::InvalidArgument, fault);
    if (fault.empty()) request.algorithm = wishes.algorithm;
  }
  if (request.algorithm.empty() &&
      (facts.collective == plan::Collective::Barrier || whyNot(settings.algorithm).empty()))
    request.algorithm = settings.algorithm;
  return request;
}

}  // namespace tutti::communicator
