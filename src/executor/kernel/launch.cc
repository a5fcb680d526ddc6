// Launches: what a call of a plan is for the kernel, how the blocks of all ranks of a launch are
// laid out, and how the calls of a rank follow each other in it.

#include "src/executor/kernel/launch.h"

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/transfer_key.h"

namespace tutti::executor::kernel {
namespace {

using device::OnDevice;

/// Each lane has a copy of so many blocks that differ in size; of more ranks they stay in pinned
/// memory.
constexpr uint32_t kMostSharedBlocks = 8;
/// The same of links, and of a program.
constexpr uint32_t kMostSharedLinks = 32, kMostSharedProgramBytes = 4096;

/// What ranks compare: the call, and into how many slices it is cut. That of one is the call's.
uint32_t hashOf(uint32_t callHash, uint32_t slices) {
  return callHash ^ (((slices - 1) * 0x9e3779b1U) & ~base::kExchangeBit);
}

/// Of any plan.
constexpr uint32_t kMostSlices = 64;

/// Of slices from this size on twice the threads have their loads in flight.
constexpr uint64_t kLongSlice = 64 << 10;

/// The parts as a launch has them: the first calls of all ranks, then those behind, and how many
/// ranks there are. Each call knows the next one of its rank, and how many lanes that has in all.
uint32_t chain(std::vector<KernelExecutor::Part>& parts) {
  std::vector<KernelExecutor::Part> first, behind;
  const auto sameRank = [](const KernelExecutor::Part& part) {
    return [rank = part.executor](const KernelExecutor::Part& other) {
      return other.executor == rank;
    };
  };
  for (KernelExecutor::Part& part : parts)
    (std::ranges::any_of(first, sameRank(part)) ? behind : first).push_back(std::move(part));
  const auto ranks = static_cast<uint32_t>(first.size());
  std::ranges::move(behind, std::back_inserter(first));
  parts = std::move(first);
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto next = std::find_if(part + 1, parts.end(), sameRank(*part));
    if (next != parts.end()) part->arguments.next = static_cast<uint16_t>(next - parts.begin());
    for (const KernelExecutor::Part& other : parts)
      if (sameRank(*part)(other))
        part->arguments.lanes = std::max(part->arguments.lanes, static_cast<uint16_t>(other.lanes));
  }
  return ranks;
}

/// What calls of one launch share. Lanes have as many threads as fit a block.
Arguments layOut(std::span<const KernelExecutor::Part> parts, const KernelOptions& options,
                 const transports::p2p::P2pLayout& layout, Wire wire) {
  Arguments all{.ranks = 0,
                .threadsPerLane = options.threadsPerLane,
                .lanesPerBlock = 1,
                .mostPorts = 0,
                .slotCount = layout.rings.slotCount,
                .sharedBytesPerLane = 0,
                .sharedBlocks = 0,
                .sharedProgramBytes = 0,
                .sharedLinks = 0,
                .looksEvery = options.looksEvery,
                .slotStride = slotStride(wire, layout.slotBytes(wire)),
                .simpleStride = slotStride(Wire::Simple, layout.rings.slotBytes),
                .deadlineNs = options.deadlineNs,
                .rank = {}};
  uint32_t blocks = 0, links = 0, programBytes = 0;
  for (const KernelExecutor::Part& part : parts) {
    const uint32_t most =
        part.mostBlocks == 0 ? options.blocks : std::min(part.mostBlocks, options.blocks);
    all.lanesPerBlock =
        std::max(all.lanesPerBlock, std::min(ceilDivide(part.lanes, most), kMostLanesPerBlock));
    all.mostPorts = std::max(all.mostPorts, part.mostPorts);
    if (part.arguments.blocks != nullptr) blocks = part.arguments.ranks;
    if (part.programBytes > 0) links = std::max(links, part.arguments.linksPerSlice);
    programBytes = std::max(programBytes, part.programBytes);
    if (wire == Wire::Simple && part.arguments.shape.sliceBytes >= kLongSlice)
      all.threadsPerLane = 2 * options.threadsPerLane;
  }
  all.threadsPerLane =
      std::min(all.threadsPerLane, kMostThreadsPerBlock / all.lanesPerBlock / 32 * 32);
  const auto bytesPerLane = [&] {
    return sharedBytesPerLane(all.mostPorts, all.sharedBlocks, all.sharedLinks,
                              all.sharedProgramBytes);
  };
  const auto share = [&](uint32_t& room, uint32_t wanted, uint32_t most) {
    if (wanted > most) return;
    room = wanted;
    if (all.lanesPerBlock * bytesPerLane() > kMostSharedBytes) room = 0;
  };
  share(all.sharedBlocks, blocks, kMostSharedBlocks);
  share(all.sharedProgramBytes, static_cast<uint32_t>(base::roundUp(programBytes, 16)),
        kMostSharedProgramBytes);
  share(all.sharedLinks, links, kMostSharedLinks);
  all.sharedBytesPerLane = bytesPerLane();
  return all;
}

}  // namespace

std::vector<uint32_t> callHashesOf(uint32_t told) {
  std::vector<uint32_t> all;
  for (uint32_t slices = 1; slices <= kMostSlices; ++slices) all.push_back(hashOf(told, slices));
  return all;
}

uint64_t sliceBytes(uint64_t bytes, uint32_t slices) {
  return base::roundUp((bytes + slices - 1) / slices, kSliceAlignment);
}

void KernelExecutor::enqueue(std::vector<Part> parts, Wire wire, const LaunchKernel& kernel,
                             cudaStream_t stream) {
  const uint32_t ranks = chain(parts);
  const KernelExecutor& first = *parts.front().executor;
  Arguments all = layOut(parts, first.options_, first.endpoint_.layout(), wire);
  Grid grid{.blocks = 0,
            .threads = all.lanesPerBlock * all.threadsPerLane,
            .sharedBytes = all.lanesPerBlock * all.sharedBytesPerLane};
  TUTTI_REQUIRE(grid.sharedBytes <= kMostSharedBytes, "steps of ", all.mostPorts, " ports in ",
                all.lanesPerBlock, " lanes need ", grid.sharedBytes,
                " bytes of shared memory; a block has ", kMostSharedBytes);
  all.ranks = ranks;
  for (size_t i = 0; i < parts.size(); ++i) {
    all.rank[i] = parts[i].arguments;
    if (i >= ranks) continue;
    all.rank[i].firstBlock = static_cast<uint16_t>(grid.blocks);
    grid.blocks += ceilDivide(all.rank[i].lanes, all.lanesPerBlock);
  }
  OnDevice on(first.endpoint_.device());
  TUTTI_CUDA(kernel(grid, all));
  for (Part& part : parts)
    if (part.table) part.executor->tables_.keep(part.table, stream);
}

void KernelExecutor::requireJoinable(std::span<KernelExecutor* const> ranks) {
  TUTTI_REQUIRE(!ranks.empty(), "a launch of no calls");
  const KernelExecutor& first = *ranks.front();
  TUTTI_REQUIRE(ranks.size() <= kMostMergedCalls, ranks.size(),
                " ranks call together on one stream of device ", first.endpoint_.device(),
                ", from rank ", first.endpoint_.rank(), " on, and would share a launch, which ",
                kMostMergedCalls, " may: the others need streams of their own");
  for (const KernelExecutor* rank : ranks) {
    TUTTI_REQUIRE(rank->endpoint_.device() == first.endpoint_.device(), "ranks of devices ",
                  first.endpoint_.device(), " and ", rank->endpoint_.device(), " in one launch");
    TUTTI_REQUIRE(
        rank->endpoint_.layout() == first.endpoint_.layout() && rank->options_ == first.options_,
        "ranks ", first.endpoint_.rank(), " and ", rank->endpoint_.rank(),
        " differ in slots or options and cannot share a launch");
    if (const auto failed = rank->failure()) throw *failed;
  }
}

// Throws when waiting for launches under way has no sense, or not any more.
LaunchTables::Table KernelExecutor::takeTable(size_t rowBytes) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.deadlineNs);
  return tables_.take(rowBytes, [&] {
    if (const auto failed = failure()) throw *failed;
    if (std::atomic_ref(*stopWord_.data()).load(std::memory_order_acquire) != 0)
      base::fail(ErrorCode::Aborted, "rank ", endpoint_.rank(), " was aborted");
    if (std::chrono::steady_clock::now() > deadline)
      base::fail(ErrorCode::Timeout, "rank ", endpoint_.rank(), " waited for ",
                 options_.deadlineNs / 1'000'000,
                 " ms for launches to end, which hold all room for tables");
  });
}

// What kernels of all kinds are given.
RankArguments KernelExecutor::commonArguments() const {
  RankArguments common{};
  common.rank = static_cast<uint32_t>(endpoint_.rank());
  common.ranks = static_cast<uint32_t>(endpoint_.size());
  common.peers = endpoint_.peers();
  common.words = endpoint_.words();
  common.progress = progress_.as<uint64_t>();
  common.stopWord = stopWord_.data();
  common.report = report_.data();
  common.counts = counts_.data();
  return common;
}

void KernelExecutor::requireRight(const KernelLaunch& launch) const {
  const plan::PlanSpec& spec = launch.plan->spec_;
  launch.call->requireFits(spec);
  TUTTI_REQUIRE(launch.slices >= 1 && launch.slices <= launch.plan->mostSlices_, launch.slices,
                " slices of ", spec.describe(), ": 1 to ", launch.plan->mostSlices_,
                " have channels and blocks");
}

plan::PlanShape KernelExecutor::shapeOf(const KernelLaunch& launch) const {
  const plan::PlanSpec& spec = launch.plan->spec_;
  const size_t slotBytes =
      slotBytesOfSlices(spec, endpoint_.layout().slotBytes(launch.wire), launch.slices);
  const plan::PlanShape shape = launch.call->shape(spec, endpoint_.rank(), slotBytes);
  // Steps of a lane are counted in 32 bits, and so are messages between two launches.
  TUTTI_REQUIRE(shape.rounds() < 1 << 24, spec.describe(), " takes ", shape.rounds(),
                " rounds: larger slots are needed");
  return shape;
}

// Of blocks that differ in size.
LaunchTables::Table KernelExecutor::tableOf(const KernelLaunch& launch,
                                            const plan::PlanShape& shape,
                                            RankArguments& arguments) {
  const std::vector<plan::Block>& blocks = *launch.call->blocks;
  auto table = takeTable(blocks.size() * sizeof(BlockCode));
  auto* const rows = table.rows<BlockCode>(blocks.size());
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    const uint64_t chunkBytes = shape.fullChunkBytes(b);
    rows[b] = {blocks[b].offset, blocks[b].bytes, chunkBytes,
               sliceBytes(chunkBytes, launch.slices)};
  }
  arguments.blocks = rows;
  arguments.tableEnded = table.ended();
  return table;
}

// Of shared memory, for what all ranks give to a call that is performed at once; 0: it is not one.
uint32_t KernelExecutor::oneShotBytes(const KernelLaunch& launch,
                                      const plan::PlanShape& shape) const {
  const CallFacts& facts = launch.call->facts;
  const uint64_t bytes =
      base::roundUp(facts.blockCount(endpoint_.size()) * sizeOf(facts.type), 16) *
      static_cast<uint64_t>(endpoint_.size());
  const bool isOneShot = launch.plan->isOneShot_ && launch.wire == Wire::LL && launch.slices == 1 &&
                         shape.rounds() == 1 && facts.op != ReduceOp::PreMulSum &&
                         bytes <= kMostSharedProgramBytes;
  return isOneShot ? static_cast<uint32_t>(bytes) : 0;
}

KernelExecutor::Part KernelExecutor::partOf(const KernelLaunch& launch) {
  requireRight(launch);
  const KernelPlan& plan = *launch.plan;
  const plan::PlanSpec& spec = plan.spec_;
  const CollectiveCall& call = *launch.call;
  const CallFacts& facts = call.facts;
  const plan::PlanShape shape = shapeOf(launch);
  RankArguments arguments = commonArguments();
  arguments.program = reinterpret_cast<const ProgramHeader*>(plan.image_->there.get());
  arguments.links = endpoint_.links(launch.wire);
  arguments.simpleLinks = endpoint_.links(Wire::Simple);
  arguments.linksPerSlice = static_cast<uint32_t>(spec.channels * endpoint_.size());
  arguments.in = reinterpret_cast<const unsigned char*>(call.in);
  arguments.out = reinterpret_cast<unsigned char*>(call.out);
  arguments.scratch = plan.scratch_.get();
  arguments.shape = {.blockBytes = facts.blockCount(endpoint_.size()) * sizeOf(facts.type),
                     .chunkBytes = shape.fullChunkBytes(),
                     .sliceBytes = sliceBytes(shape.fullChunkBytes(), launch.slices),
                     .rounds = static_cast<uint64_t>(shape.rounds()),
                     .divisions = spec.divisions,
                     .slices = launch.slices,
                     .manyIn = plan::givesBlocks(spec.collective),
                     .manyOut = plan::getsBlocks(spec.collective)};
  arguments.arithmetic = {.type = static_cast<uint8_t>(facts.type),
                          .op = static_cast<uint8_t>(facts.op),
                          .deterministic = facts.deterministic,
                          .reduces = plan::isReduction(spec.collective),
                          .readsScalar = call.scalarAt != nullptr,
                          .scalar = call.scalar};
  if (call.scalarAt) arguments.arithmetic.scalarAt = call.scalarAt;
  arguments.callHash = hashOf(call.callHash, launch.slices);
  arguments.isReplayed = launch.isCaptured;
  const uint32_t oneShot = oneShotBytes(launch, shape);
  arguments.isOneShot = oneShot > 0;
  arguments.oneShot.credits = endpoint_.credits(launch.wire);
  LaunchTables::Table table;
  if (call.blocks) table = tableOf(launch, shape, arguments);
  return {this,
          arguments,
          plan.lanes_ * launch.slices,
          plan.mostPorts_,
          std::max(static_cast<uint32_t>(plan.image_->bytes.size()), oneShot),
          std::move(table),
          call.wishes.mostBlocks};
}

void KernelExecutor::launchCalls(std::span<const KernelLaunch> ranks, cudaStream_t stream) {
  std::vector<KernelExecutor*> executors;
  for (const KernelLaunch& rank : ranks) executors.push_back(rank.executor);
  requireJoinable(executors);
  const Wire wire = ranks.front().wire;
  const size_t elementBytes = sizeOf(ranks.front().call->facts.type);
  std::vector<Part> parts;
  for (const KernelLaunch& rank : ranks) {
    TUTTI_REQUIRE(rank.wire == wire && sizeOf(rank.call->facts.type) == elementBytes, "ranks ",
                  ranks.front().executor->endpoint_.rank(), " and ",
                  rank.executor->endpoint_.rank(),
                  " differ in wire or size of elements and cannot share a launch");
    parts.push_back(rank.executor->partOf(rank));
  }
  enqueue(
      std::move(parts), wire,
      [&](const Grid& grid, const Arguments& all) {
        return launchInterpreter(wire, elementBytes, grid, all, stream);
      },
      stream);
}

}  // namespace tutti::executor::kernel
