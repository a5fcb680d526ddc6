#include "src/communicator/arguments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/transfer_key.h"

namespace tutti::communicator {

using executor::CallFacts;
using executor::CollectiveCall;
using plan::Collective;

namespace {

struct ByteRange {
  const std::byte* begin;
  uint64_t bytes;
};

bool overlap(const ByteRange& a, const ByteRange& b) {
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

Extents extentsOf(const CollectiveCall& call, Caller by) {
  const auto rank = static_cast<size_t>(by.rank);
  if (call.blocks) return {(*call.blocks)[rank], plan::endOf(*call.blocks)};
  const CallFacts& f = call.facts;
  // Also where no buffer has so many: plans are laid out for a block of every rank.
  const uint64_t all = multiply(f.count, static_cast<uint64_t>(by.size), f.type);
  const uint64_t bytes = f.count * sizeOf(f.type);
  return {{rank * bytes, bytes}, all};
}

/// What the call reads and writes on this rank.
struct Ranges {
  ByteRange in, out;
};

Ranges rangesOf(const CollectiveCall& call, Caller by, const Extents& extents) {
  const CallFacts& f = call.facts;
  const bool atRoot = f.root == by.rank;
  const auto bytes = [&](bool used, bool blocks) {
    return !used ? 0 : blocks ? extents.all : extents.own.bytes;
  };
  return {{call.in,
           bytes(!plan::onlyRootGives(f.collective) || atRoot, plan::givesBlocks(f.collective))},
          {call.out,
           bytes(!plan::onlyRootGets(f.collective) || atRoot, plan::getsBlocks(f.collective))}};
}

/// `what` says which elements there are to be, in parts: to join them costs more than all other
/// checks of a call.
template <class... Parts>
void requireHolds(const char* call, const NamedBuffer& buffer, uint64_t bytes, DataType type,
                  const Parts&... what) {
  const auto has = buffer.memory.bytes();
  TUTTI_REQUIRE(!has || bytes <= *has, call, ": ", what..., " takes ", bytes / sizeOf(type),
                " elements of ", toString(type), " in ", buffer.name, ", which has ",
                *has / sizeOf(type));
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

DataType typeOf(const char* call, std::optional<DataType> said,
                std::span<const NamedBuffer> buffers) {
  std::optional<DataType> type = said;
  const char* by = "type";
  for (const auto& [name, memory] : buffers) {
    const auto its = memory.type();
    if (!its) continue;
    TUTTI_REQUIRE(!type || type == its, call, ": ", by, " is ", toString(*type), ", but ", name,
                  " has elements of ", toString(*its),
                  ": give both the same, or cast the pointer to void*");
    if (!type) by = name;
    type = its;
  }
  TUTTI_REQUIRE(type, call, ": nothing says what the elements are: set .type, or give ",
                buffers.front().name, " as a pointer to elements or a span of them");
  return *type;
}

uint64_t countOf(const char* call, std::optional<size_t> said, const NamedBuffer& buffer,
                 size_t blocks, DataType type) {
  if (said) return *said;
  const auto bytes = buffer.memory.bytes();
  TUTTI_REQUIRE(bytes, call, ": nothing says how many elements: set .count, or give ", buffer.name,
                " as a span");
  const uint64_t each = blocks * sizeOf(type);
  TUTTI_REQUIRE(*bytes % each == 0, call, ": ", *bytes, " bytes of ", buffer.name, " are not ",
                blocks, blocks == 1 ? " block" : " equal blocks", " of ", toString(type),
                ": set .count");
  return *bytes / each;
}

void requireRoom(const CollectiveCall& call, Caller by, const ConstBuffer& send,
                 const ConstBuffer& recv) {
  const CallFacts& f = call.facts;
  const auto [in, out] = rangesOf(call, by, extentsOf(call, by));
  const char* name = plan::toString(f.collective);
  const auto requireBytes = [&](const NamedBuffer& buffer, uint64_t bytes) {
    if (call.blocks)
      requireHolds(name, buffer, bytes, f.type, "counts");
    else
      requireHolds(name, buffer, bytes, f.type, "count ", f.count);
  };
  requireBytes({"send", send}, in.bytes);
  requireBytes({"recv", recv}, out.bytes);
}

void requireScalar(const CollectiveCall& call, const ConstBuffer& scalarAt) {
  const auto has = scalarAt.bytes();
  if (!has || call.facts.count == 0) return;
  const char* name = plan::toString(call.facts.collective);
  const DataType type = call.facts.type;
  TUTTI_REQUIRE(*has >= sizeOf(type), name, ": scalarAt has ", *has, " bytes, and one element of ",
                toString(type), " takes ", sizeOf(type));
  TUTTI_REQUIRE(scalarAt.data(), name, ": scalarAt is null with ", *has, " bytes");
}

// The part of the larger buffer that the smaller one may equal: the whole, or this rank's block.
// Returns where the call runs.
CallPlacement placementOf(const CollectiveCall& call, Caller by, Device own) {
  const CallFacts& f = call.facts;
  const char* name = plan::toString(f.collective);
  if (f.collective == Collective::Barrier) return placementOf(name, {}, own);
  TUTTI_REQUIRE(f.root >= 0 && f.root < by.size, name, ": root ", f.root, " is not a rank of 0..",
                by.size - 1);
  // This throws when there is no such type or reduction.
  TUTTI_REQUIRE(isDefined(f.op, f.type), name, ": ", toString(f.op), " is not defined for ",
                toString(f.type));
  if (call.reduction)
    TUTTI_REQUIRE(call.reduction.type() == f.type, name, ": the reduction ", call.reduction.name(),
                  " is of ", toString(call.reduction.type()), ", not of ", toString(f.type));
  TUTTI_REQUIRE(f.collective != Collective::Scan || f.op != ReduceOp::Avg,
                "scan: avg is not one of its reductions: ranks would divide by different numbers");
  const Extents extents = extentsOf(call, by);
  const bool manyIn = plan::givesBlocks(f.collective);
  const bool manyOut = plan::getsBlocks(f.collective);
  const auto [in, out] = rangesOf(call, by, extents);
  TUTTI_REQUIRE(in.bytes == 0 || in.begin, name, ": send is null with count ", f.count);
  TUTTI_REQUIRE(out.bytes == 0 || out.begin, name, ": recv is null with count ", f.count);
  const ByteRange scalar{static_cast<const std::byte*>(call.scalarAt),
                         call.scalarAt && f.count > 0 ? sizeOf(f.type) : 0};
  TUTTI_REQUIRE(!overlap(scalar, out), name, ": scalarAt lies in recv");
  const CallBuffer buffers[] = {{"send", in.begin, in.bytes},
                                {"recv", out.begin, out.bytes},
                                {"scalarAt", scalar.begin, scalar.bytes}};
  CallPlacement placement = placementOf(name, buffers, own);
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

CollectiveCall withBlocks(CollectiveCall call, Caller by, std::span<const size_t> counts,
                          std::span<const size_t> offsets) {
  const char* name = plan::toString(call.facts.collective);
  auto blocks = placeBlocks(name, counts, offsets, call.facts.type, static_cast<size_t>(by.size));
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
  return call;
}

namespace {

executor::Transfer transferOf(const char* what, Caller by, const void* data, uint64_t count,
                              DataType type, int peer) {
  TUTTI_REQUIRE(peer >= 0 && peer < by.size, what, ": peer ", peer, " is not a rank of 0..",
                by.size - 1);
  const uint64_t bytes = multiply(count, 1, type);
  TUTTI_REQUIRE(bytes <= base::kMostTransferBytes, what, " of ", bytes, " bytes");
  // Only receives are written to.
  return {peer, static_cast<std::byte*>(const_cast<void*>(data)), bytes, type};
}

}  // namespace

executor::Transfer transferOf(const char* call, Caller by, const NamedBuffer& buffer,
                              std::optional<size_t> count, std::optional<DataType> type, int peer) {
  const DataType known = typeOf(call, type, {&buffer, 1});
  const uint64_t elements = countOf(call, count, buffer, 1, known);
  TUTTI_REQUIRE(elements == 0 || buffer.memory.data(), call, ": ", buffer.name,
                " is null with count ", elements);
  const auto transfer = transferOf(call, by, buffer.memory.data(), elements, known, peer);
  requireHolds(call, buffer, transfer.bytes, known, "count ", elements);
  return transfer;
}

std::vector<executor::Transfer> transfersOf(const NamedBuffer& buffer, Caller by,
                                            std::span<const size_t> counts,
                                            std::span<const size_t> offsets, DataType type) {
  const std::string name = std::string("alltoallv ") + buffer.name;
  std::vector<executor::Transfer> all;
  const auto places =
      placeBlocks(name.c_str(), counts, offsets, type, static_cast<size_t>(by.size));
  requireHolds("alltoallv", buffer, plan::endOf(places), type, buffer.name, "Counts");
  for (size_t peer = 0; peer < places.size(); ++peer) {
    TUTTI_REQUIRE(counts[peer] == 0 || buffer.memory.data(), name, " is null with count ",
                  counts[peer]);
    all.push_back(transferOf(name.c_str(), by, buffer.memory.data(), counts[peer], type,
                             static_cast<int>(peer)));
    if (places[peer].bytes > 0) all.back().data += places[peer].offset;
  }
  return all;
}

}  // namespace tutti::communicator
