// Making and starting operations: check the arguments, choose a plan, and then number the operation
// and drive it here or hand it to a stream, or leave that to the group that is open. What can be
// refused is refused before the operation has its number.

#include <algorithm>
#include <bit>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/base/transfer_key.h"
#include "src/communicator/gpu_work.h"
#include "src/communicator/operation_work.h"
#include "src/communicator/request.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::Buffer;
using communicator::CallFacts;
using communicator::OperationWork;
using communicator::Placement;
using communicator::ReadyChoice;
using plan::Collective;

namespace {

struct Range {
  const std::byte* begin;
  uint64_t bytes;
};

bool overlap(const Range& a, const Range& b) {
  return a.bytes > 0 && b.bytes > 0 && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

uint64_t multiply(uint64_t count, uint64_t blocks, DataType type) {
  uint64_t bytes = 0;
  TUTTI_REQUIRE(!__builtin_mul_overflow(count, blocks, &bytes) &&
                    !__builtin_mul_overflow(bytes, sizeOf(type), &bytes) && bytes <= INT64_MAX,
                "count ", count, " of ", toString(type), " for ", blocks,
                blocks == 1 ? " rank" : " ranks", " does not fit in memory");
  return bytes;
}

/// This rank's block, and the bytes of a buffer with a block for every rank.
struct Extents {
  plan::Block own;
  uint64_t all;
};

Extents extentsOf(const Communicator::Impl& self, const Communicator::Impl::Call& call) {
  const auto rank = static_cast<size_t>(self.who.rank());
  if (call.blocks) return {(*call.blocks)[rank], plan::endOf(*call.blocks)};
  const CallFacts& f = call.facts;
  // Also where no buffer has so many: plans are laid out for a block of every rank.
  const uint64_t all = multiply(f.count, static_cast<uint64_t>(self.size), f.type);
  const uint64_t bytes = f.count * sizeOf(f.type);
  return {{rank * bytes, bytes}, all};
}

// The part of the larger buffer that the smaller one may equal: the whole, or this rank's block.
// Returns where the call runs.
Placement checkBuffers(const Communicator::Impl& self, const Communicator::Impl::Call& call) {
  const CallFacts& f = call.facts;
  const char* name = plan::toString(f.collective);
  TUTTI_REQUIRE(f.root >= 0 && f.root < self.size, name, ": root ", f.root, " is not a rank of 0..",
                self.size - 1);
  // This throws when there is no such type or reduction.
  TUTTI_REQUIRE(isDefined(f.op, f.type), name, ": ", toString(f.op), " is not defined for ",
                toString(f.type));
  if (call.reduction)
    TUTTI_REQUIRE(call.reduction.type() == f.type, name, ": the reduction ", call.reduction.name(),
                  " is of ", toString(call.reduction.type()), ", not of ", toString(f.type));
  TUTTI_REQUIRE(f.collective != Collective::Scan || f.op != ReduceOp::Avg,
                "scan: avg is not one of its reductions: ranks would divide by different numbers");
  const bool atRoot = f.root == self.who.rank();
  const bool inUsed = !plan::onlyRootGives(f.collective) || atRoot;
  const bool outUsed = !plan::onlyRootGets(f.collective) || atRoot;
  const Extents extents = extentsOf(self, call);
  const bool manyIn = plan::givesBlocks(f.collective);
  const bool manyOut = plan::getsBlocks(f.collective);
  const Range in{call.in, !inUsed ? 0 : manyIn ? extents.all : extents.own.bytes};
  const Range out{call.out, !outUsed ? 0 : manyOut ? extents.all : extents.own.bytes};
  TUTTI_REQUIRE(in.bytes == 0 || in.begin, name, ": send is null with count ", f.count);
  TUTTI_REQUIRE(out.bytes == 0 || out.begin, name, ": recv is null with count ", f.count);
  const Range scalar{static_cast<const std::byte*>(call.scalarAt),
                     call.scalarAt && f.count > 0 ? sizeOf(f.type) : 0};
  TUTTI_REQUIRE(!overlap(scalar, out), name, ": scalarAt lies in recv");
  const Buffer buffers[] = {{"send", in.begin, in.bytes},
                            {"recv", out.begin, out.bytes},
                            {"scalarAt", scalar.begin, scalar.bytes}};
  Placement placement = communicator::placementOf(name, buffers, self.settings.device);
  placement.collective = {buffers[0], buffers[1]};
  if (!overlap(in, out)) return placement;
  const uint64_t block = extents.own.offset;
  const bool inPlace =
      in.begin + (manyIn && !manyOut ? block : 0) == out.begin + (manyOut && !manyIn ? block : 0);
  TUTTI_REQUIRE(inPlace, name, ": send and recv overlap, but are not in place: send [",
                static_cast<const void*>(in.begin), ", +", in.bytes, "), recv [",
                static_cast<const void*>(out.begin), ", +", out.bytes, ")",
                manyIn != manyOut ? "; in place means this rank's block of the larger buffer" : "");
  return placement;
}

// Blocks of `counts` elements at `offsets`, or one after another.
std::vector<plan::Block> placeBlocks(const char* name, std::span<const size_t> counts,
                                     std::span<const size_t> offsets, DataType type, size_t ranks) {
  TUTTI_REQUIRE(counts.size() == ranks, name, ": ", counts.size(), " counts for ", ranks, " ranks");
  TUTTI_REQUIRE(offsets.empty() || offsets.size() == ranks, name, ": ", offsets.size(),
                " offsets for ", ranks, " ranks");
  std::vector<plan::Block> blocks;
  uint64_t next = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const uint64_t first = offsets.empty() ? next : offsets[r];
    TUTTI_REQUIRE(!__builtin_add_overflow(first, counts[r], &next), name, ": offset ", first,
                  " and count ", counts[r], " do not fit in memory");
    multiply(next, 1, type);
    blocks.push_back({multiply(first, 1, type), multiply(counts[r], 1, type)});
  }
  return blocks;
}

void requireDisjoint(const char* name, std::vector<plan::Block> blocks) {
  std::erase_if(blocks, [](const plan::Block& block) { return block.bytes == 0; });
  std::ranges::sort(blocks, {}, &plan::Block::offset);
  for (size_t i = 1; i < blocks.size(); ++i)
    TUTTI_REQUIRE(blocks[i - 1].offset + blocks[i - 1].bytes <= blocks[i].offset, name,
                  ": blocks overlap at byte ", blocks[i].offset, " of recv");
}

}  // namespace

ReadyChoice& Communicator::Impl::choose(const CallFacts& facts) {
  auto& slot = choices[communicator::choiceKey(facts, size)];
  if (slot) return *slot;
  plan::CollectiveRequest request = communicator::requestOf(
      facts, size, settings.deterministic, settings.algorithm, links.topology().hostOf);
  request.mappable = true;
  const collectives::Choice choice =
      collectives::choose(request, links.topology(), settings.tuning);
  auto ready = std::make_unique<ReadyChoice>();
  ready->plan =
      executor::lendingPlan(choice.spec, collectives::build(choice.spec, who.rank()), who.rank());
  ready->hash = choice.spec.hash();
  ready->microseconds = choice.candidates.front().microseconds;
  if (choice.mapped && size > 1) {
    ready->mapped = std::make_unique<executor::ReadyPlan>(
        executor::ReadyPlan{*choice.mapped, collectives::build(*choice.mapped, who.rank())});
    ready->hash ^= std::rotl(choice.mapped->hash(), 1);
    if (request.algorithm.empty()) ready->asking = std::make_unique<plan::Asking>();
  }
  base::log(LogLevel::Debug, who.self(), ": for blocks of up to ", request.blockBytes(),
            " bytes: ", choice.reason);
  slot = std::move(ready);
  return *slot;
}

OperationWork Communicator::Impl::makeCollective(Call call) {
  if (call.reduction) {
    call.facts.op = ReduceOp::Sum;  // as far as plans are concerned
    call.facts.reduction = communicator::nameWords(call.reduction.name());
  }
  const Placement placement = call.facts.collective == Collective::Barrier
                                  ? communicator::placementOf("barrier", {}, settings.device)
                                  : checkBuffers(*this, call);
  call.facts.deterministic = settings.deterministic;
  const ReadyChoice& choice = choose(call.facts);
  call.facts.algorithm = choice.plan.spec.algorithm;
  call.facts.planHash = choice.hash;
  executor::Launch launch{.rank = who.rank(),
                          .size = size,
                          .plan = &choice.plan,
                          .mapped = choice.mapped.get(),
                          .asking = choice.asking.get(),
                          .windows = this,
                          .endpoint = links.endpoint(),
                          .in = call.in,
                          .out = call.out,
                          .count = communicator::blockCount(call.facts, size),
                          .blocks = std::move(call.blocks),
                          .type = call.facts.type,
                          .op = call.facts.op,
                          .scalar = call.scalar,
                          .scalarAt = call.scalarAt,
                          .reduction = std::move(call.reduction),
                          .canonical = settings.deterministic,
                          .callHash = call.facts.fingerprint(),
                          .scratch = &scratch};
  return OperationWork(shared_from_this(), call.facts, std::move(launch), placement);
}

OperationWork Communicator::Impl::makeUneven(Call call, std::span<const size_t> counts,
                                             std::span<const size_t> offsets) {
  const char* name = plan::toString(call.facts.collective);
  auto blocks = placeBlocks(name, counts, offsets, call.facts.type, static_cast<size_t>(size));
  if (plan::getsBlocks(call.facts.collective)) requireDisjoint(name, blocks);
  uint64_t hash = 0;
  for (const plan::Block& block : blocks) {
    TUTTI_REQUIRE(!__builtin_add_overflow(call.facts.count, block.bytes / sizeOf(call.facts.type),
                                          &call.facts.count),
                  name, ": counts do not fit in memory");
    hash = base::mixBits(base::mixBits(hash ^ block.offset) ^ block.bytes);
  }
  multiply(call.facts.count, 1, call.facts.type);
  call.facts.blocksHash = hash | 1;
  call.blocks = std::make_shared<const std::vector<plan::Block>>(std::move(blocks));
  return makeCollective(std::move(call));
}

executor::Transfer Communicator::Impl::transfer(const char* what, const void* data, uint64_t count,
                                                DataType type, int peer) const {
  TUTTI_REQUIRE(peer >= 0 && peer < size, what, ": peer ", peer, " is not a rank of 0..", size - 1);
  const uint64_t bytes = multiply(count, 1, type);
  TUTTI_REQUIRE(bytes <= base::kMostTransferBytes, what, " of ", bytes, " bytes");
  TUTTI_REQUIRE(bytes == 0 || data, what, " is null with count ", count);
  // Only receives are written to.
  return {peer, static_cast<std::byte*>(const_cast<void*>(data)), bytes, type};
}

std::vector<executor::Transfer> Communicator::Impl::blocks(const char* what, const void* data,
                                                           std::span<const size_t> counts,
                                                           std::span<const size_t> offsets,
                                                           DataType type) const {
  const std::string name = std::string("alltoallv ") + what;
  std::vector<executor::Transfer> all;
  const auto places = placeBlocks(name.c_str(), counts, offsets, type, static_cast<size_t>(size));
  for (size_t peer = 0; peer < places.size(); ++peer) {
    all.push_back(transfer(name.c_str(), data, counts[peer], type, static_cast<int>(peer)));
    if (places[peer].bytes > 0) all.back().data += places[peer].offset;
  }
  return all;
}

OperationWork Communicator::Impl::makeExchange(executor::Exchange transfers) {
  transfers.rank = who.rank();
  transfers.size = size;
  transfers.endpoint = links.endpoint();
  std::vector<Buffer> buffers;
  if (settings.device.kind != DeviceKind::Host) {
    for (const executor::Transfer& t : transfers.sends)
      buffers.push_back({"send", t.data, t.bytes});
    for (const executor::Transfer& t : transfers.receives)
      buffers.push_back({"recv", t.data, t.bytes});
  }
  const Placement placement = communicator::placementOf("exchange", buffers, settings.device);
  return OperationWork(shared_from_this(), std::move(transfers), placement);
}

void Communicator::Impl::start(OperationWork work, StreamRef stream) {
  const bool onGpu = communicator::runsOnGpu(work.placement(), settings.device, stream);
  if (onGpu && !communicator::groupIsOpen()) {
    work.requireComplete();
    communicator::launch({gpuWork(work, stream)});
    if (!stream) awaitGpu();
    return;
  }
  if (onGpu) gpuWork(work, stream);  // refused now, not when the group ends
  if (communicator::groupIsOpen()) return communicator::addToGroup(std::move(work), stream, onGpu);
  work.requireComplete();
  if (stream) {
    auto queued = std::make_unique<OperationWork>(std::move(work));
    queued->takeNumber();
    stream.host()->enqueue(std::move(queued));
  } else {
    work.takeNumber();
    communicator::drive(work, !links.topology().oversubscribed());
  }
}

}  // namespace tutti
