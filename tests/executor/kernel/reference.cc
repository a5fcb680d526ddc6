#include "tests/executor/kernel/reference.h"

#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include "collectives/algorithms.h"
#include "src/base/check.h"
#include "src/executor/host/host_operation.h"
#include "src/numbers/convert.h"
#include "tests/support/sim/endpoint.h"

namespace tutti::tests {
namespace {

using executor::HostOperation;
using transports::sim::SimNetwork;

constexpr size_t kGap = 64;

struct Windows final : executor::WindowResolver {
  executor::WindowPlace locate(const void* data, uint64_t) const override {
    return {1, static_cast<uint64_t>(static_cast<const std::byte*>(data) - own)};
  }
  std::shared_ptr<std::byte> resolve(int peer, executor::WindowPlace place,
                                     uint64_t) const override {
    return {std::shared_ptr<void>(), (*all)[peer].bytes.data() + place.offset};
  }
  std::byte* own = nullptr;
  std::vector<Memory>* all = nullptr;
};

struct Rank {
  std::unique_ptr<transports::Endpoint> endpoint;
  std::optional<executor::HostPlan> plan;
  Windows windows;
  HostOperation operation;
  bool done = false;
};

void begin(const Call& call, int r, Rank& rank, std::vector<Memory>& memory) {
  rank.plan.emplace(call.spec, collectives::build(call.spec, r), r);
  rank.windows.own = memory[r].bytes.data();
  rank.windows.all = &memory;
  const bool maps = call.spec.mapped.any();
  executor::CollectiveCall its =
      call.on(r, memory[r].bytes.data() + memory[r].in, memory[r].bytes.data() + memory[r].out);
  its.callHash = its.operation = 1;
  rank.operation.begin({r, call.spec.ranks, rank.endpoint.get(), &rank.windows},
                       {.staged = &*rank.plan, .mapped = maps ? &*rank.plan : nullptr},
                       std::move(its));
}

}  // namespace

executor::CollectiveCall Call::on(int rank, const std::byte* in, std::byte* out) const {
  executor::CallFacts facts{.type = type, .op = op, .deterministic = deterministic, .count = count};
  if (!blocks.empty()) {  // as withBlocks() has them
    facts.count = 0;
    for (const plan::Block& block : blocks) facts.count += block.bytes / sizeOf(type);
    facts.blocksHash = 1;
  }
  return {
      .facts = facts,
      .in = in,
      .out = out,
      .scalar = scalar(rank),
      .blocks = blocks.empty() ? nullptr : std::make_shared<const std::vector<plan::Block>>(blocks),
      .callHash = 77};
}

plan::Block Call::blockOf(int rank) const {
  if (!blocks.empty()) return blocks[static_cast<size_t>(rank)];
  const uint64_t bytes = count * sizeOf(type);
  return {bytes * static_cast<uint64_t>(rank), bytes};
}

uint64_t Call::bytesOf(plan::Buffer buffer, int rank) const {
  const uint32_t many = plan::blocksOf(spec, buffer);
  if (many <= 1) return many * blockOf(rank).bytes;
  return blocks.empty() ? many * blockOf(rank).bytes : plan::endOf(blocks);
}

Buffer Call::scalarElement(int rank) const {
  Buffer element(sizeOf(type));
  const auto write = [&](auto value) { std::memcpy(element.data(), &value, element.size()); };
  const double value = scalar(rank);
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case DataType::Float64: write(value); break;
    case DataType::Float32: write(narrow); break;
    case DataType::Float16: write(numbers::toFloat16(narrow)); break;
    case DataType::BFloat16: write(numbers::toBFloat16(narrow)); break;
    case DataType::Float8E4M3: write(numbers::toFloat8E4M3(narrow)); break;
    case DataType::Float8E5M2: write(numbers::toFloat8E5M2(narrow)); break;
    default: write(static_cast<int64_t>(value));  // its lowest bytes come first
  }
  return element;
}

std::string Call::describe() const {
  std::string sizes;
  for (const plan::Block& block : blocks)
    sizes += base::message(" ", block.offset, "+", block.bytes);
  return base::message(spec.describe(), ", ", count, " ", toString(type), " ", toString(op),
                       deterministic ? ", deterministic" : "", inPlace ? ", in place" : "",
                       hasScalarInMemory ? ", scalar in memory" : "",
                       sizes.empty() ? "" : ", blocks", sizes);
}

Memory memoryOf(const Call& call, int rank, uint64_t seed) {
  const size_t in = call.bytesOf(plan::Buffer::In, rank),
               out = call.bytesOf(plan::Buffer::Out, rank);
  Memory memory;
  if (call.shares(rank)) {
    const bool manyIn = plan::blocksOf(call.spec, plan::Buffer::In) > 1;
    const bool manyOut = plan::blocksOf(call.spec, plan::Buffer::Out) > 1;
    const plan::Block own = call.blockOf(rank);
    memory.in = manyOut && !manyIn ? own.offset : 0;
    memory.out = manyIn && !manyOut ? own.offset : 0;
    // Of nothing at all a byte, so that there is an address.
    memory.bytes.resize(std::max<size_t>({1, memory.in + in, memory.out + out}));
  } else {
    memory.bytes.resize(in + kGap + out);
    memory.out = in + kGap;
  }
  std::memset(memory.bytes.data(), 0x5a, memory.bytes.size());
  std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(rank));
  for (size_t i = 0; i < in; ++i) memory.bytes[memory.in + i] = std::byte(random());
  return memory;
}

std::vector<Memory> hostResult(const Call& call, uint64_t seed, size_t slotBytes) {
  const int ranks = call.spec.ranks;
  const auto network = std::make_shared<SimNetwork>(
      ranks,
      transports::RingLayout{
          .channels = call.spec.channels + 1, .slotCount = 4, .slotBytes = slotBytes},
      transports::sim::SimOptions{.drive = transports::sim::Drive::Virtual});
  std::vector<Memory> memory;
  std::vector<Rank> all(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    memory.push_back(memoryOf(call, r, seed));
    all[r].endpoint = transports::sim::makeSimEndpoint(network, r);
  }
  for (int r = 0; r < ranks; ++r)
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != r) all[r].endpoint->connect(peer, all[peer].endpoint->address(r));
  for (int r = 0; r < ranks; ++r) begin(call, r, all[r], memory);
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank& rank : all) {
      if (rank.done) continue;
      const auto poll = rank.operation.poll();
      rank.done = poll == executor::Poll::Done;
      moved |= poll != executor::Poll::Idle;
    }
    moved = moved || network->advance();
  }
  for (const Rank& rank : all) TUTTI_ASSERT(rank.done, call.describe(), " has not ended");
  return memory;
}

std::string difference(const Call& call, const std::vector<Memory>& expected,
                       const std::vector<Buffer>& actual) {
  for (size_t r = 0; r < expected.size(); ++r)
    for (size_t i = 0; i < expected[r].bytes.size(); ++i)
      if (expected[r].bytes[i] != actual[r][i])
        return base::message(call.describe(), ": rank ", r, " differs from byte ", i, " of ",
                             actual[r].size(), ", output from ", expected[r].out);
  return {};
}

}  // namespace tutti::tests
