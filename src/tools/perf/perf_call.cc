#include "src/tools/perf/perf_call.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "collectives/algorithm_file.h"
#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "src/device/cuda.h"
#include "src/plan/hosts.h"
#include "src/tools/common/memory_need.h"

namespace tutti::tools {
namespace {

PerfPattern patternOf(const Communicator& c, const PerfOptions& o, uint64_t bytes) {
  return {
      o.collective, o.exchange, o.type, o.op,
      c.rank(),     c.size(),   o.root, perfShape(o, c.rank(), c.size(), bytes / sizeOf(o.type))};
}

/// "buffers for all_reduce of 64 bytes"
std::string purposeOf(const PerfOptions& o, uint64_t bytes) {
  return base::message("buffers for ", o.collectiveName, " of ", bytes, " bytes");
}

/// The same, where there is memory for its buffers.
PerfPattern fittingPatternOf(Communicator& c, const PerfOptions& o, uint64_t bytes) {
  requireMemoryForCalls(c, o, bytes, 1);
  return patternOf(c, o, bytes);
}

std::vector<std::byte> ordinaryMemory(uint64_t bytes) {
  try {
    return std::vector<std::byte>(bytes);
  } catch (const std::exception&) {  // more than there is, or than a vector can have
    base::fail(ErrorCode::OutOfMemory, bytes,
               " bytes of ordinary memory for a buffer cannot be had: take smaller sizes or fewer "
               "ranks; see ulimit -v and /proc/sys/vm/overcommit_memory");
  }
}

}  // namespace

double nowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

PerfBuffer::PerfBuffer(Communicator& c, uint64_t bytes, bool window)
    : bytes_(bytes), onGpu_(c.device().kind == DeviceKind::Cuda) {
  if (onGpu_)
    memory_ = allocateOn(c.device(), bytes);
  else if (window)
    memory_ = c.allocate(bytes);
  if (onGpu_ || !window) ordinary_ = ordinaryMemory(bytes);
}

void PerfBuffer::spoil() {
  if (bytes_ > 0) std::memset(host(data()), 0xA5, bytes_);
}

void PerfBuffer::rewrite() {
  constexpr uint64_t kLine = 64;
  if (onGpu_) return;
  for (uint64_t at = 0; at < bytes_; at += kLine) data()[at] ^= std::byte{1};
}

void PerfBuffer::read() const {
  constexpr uint64_t kLine = 64;
  if (onGpu_) return;
  const std::byte* const first = memory_ ? memory_.as<std::byte>() : ordinary_.data();
  for (uint64_t at = 0; at < bytes_; at += kLine)
    static_cast<void>(*static_cast<const volatile std::byte*>(first + at));
}

void PerfBuffer::upload() {
  if (onGpu_ && bytes_ > 0) device::copyMemory(data(), ordinary_.data(), bytes_);
}

void PerfBuffer::download() {
  if (onGpu_ && bytes_ > 0) device::copyMemory(ordinary_.data(), data(), bytes_);
}

PerfCall::PerfCall(Communicator& c, const PerfOptions& options, const PerfSeam& seam,
                   uint64_t bytes, Stream* stream)
    : c_(c),
      o_(options),
      seam_(seam),
      stream_(stream),
      ref_(stream ? StreamRef(*stream) : StreamRef()),
      pattern_(fittingPatternOf(c, options, bytes)),
      seed_(pattern_.shape.seed),
      uneven_(unevenCounts(options.uneven() ? 0 : c.rank(), c.size(), pattern_.shape.count)) {
  const auto make = [&](uint64_t count) {
    return std::make_shared<PerfBuffer>(c, count * sizeOf(options.type), options.windows);
  };
  takeOnAll(c, purposeOf(options, bytes), [&] {
    in_ = make(pattern_.shape.inCount);
    out_ = make(pattern_.shape.outCount);
  });
  // To free memory of a GPU waits for its kernels, those of other ranks too: none may wait there
  // for a rank that has not freed what it had before.
  if (c.device().kind == DeviceKind::Cuda) c.barrier();
}

PerfCall::PerfCall(Communicator& c, const PerfCall& other)
    : c_(c),
      o_(other.o_),
      seam_(other.seam_),
      stream_(other.stream_),
      ref_(other.ref_),
      pattern_(other.pattern_),
      seed_(other.seed_),
      uneven_(other.uneven_),
      in_(other.in_),
      out_(other.out_) {
  TUTTI_ASSERT(!o_.windows, "windows are shared by calls of two communicators");
}

uint64_t PerfCall::bytes() const {
  return std::max(pattern_.shape.inCount, pattern_.shape.outCount) * sizeOf(o_.type);
}

void PerfCall::start(bool inPlace) {
  const Places places = buffers(inPlace);
  if (o_.exchange)
    exchange(places.send, places.recv);
  else
    collective(places.send, places.recv);
}

void PerfCall::use(bool inPlace) {
  const Places at = buffers(inPlace);
  if (!plan::onlyRootGives(o_.collective) || c_.rank() == o_.root) at.from.rewrite();
  at.to.read();
}

void PerfCall::finish() {
  if (stream_) stream_->synchronize();
}

// In place, the smaller buffer is this rank's block of the larger one.
PerfCall::Places PerfCall::buffers(bool inPlace) {
  PerfBuffer &in = *in_, &out = *out_;
  if (!inPlace) return {in, in.data(), out, out.data()};
  const PerfShape& shape = pattern_.shape;
  const size_t block = shape.own * sizeOf(o_.type);
  if (shape.inCount < shape.outCount) return {out, out.data() + block, out, out.data()};
  if (shape.inCount > shape.outCount) return {in, in.data(), in, in.data() + block};
  return {in, in.data(), in, in.data()};
}

void PerfCall::collective(const std::byte* send, std::byte* recv) {
  const size_t n = pattern_.shape.count;
  const double scalar = pattern_.scalar();
  switch (o_.collective) {
    case Collective::AllReduce: return c_.allReduce({send, recv, n, o_.type, o_.op, scalar}, ref_);
    case Collective::AllGather: return c_.allGather({send, recv, n, o_.type}, ref_);
    case Collective::ReduceScatter:
      return c_.reduceScatter({send, recv, n, o_.type, o_.op, scalar}, ref_);
    case Collective::Broadcast: return c_.broadcast({send, recv, n, o_.type, o_.root}, ref_);
    case Collective::Reduce:
      return c_.reduce({send, recv, n, o_.type, o_.op, scalar, o_.root}, ref_);
    case Collective::Gather: return c_.gather({send, recv, n, o_.type, o_.root}, ref_);
    case Collective::Scatter: return c_.scatter({send, recv, n, o_.type, o_.root}, ref_);
    case Collective::AllToAll: return c_.allToAll({send, recv, n, o_.type}, ref_);
    case Collective::Scan: return c_.scan({send, recv, n, o_.type, o_.op, scalar}, ref_);
    case Collective::Barrier: return c_.barrier(ref_);
  }
}

void PerfCall::exchange(const std::byte* send, std::byte* recv) {
  switch (*o_.exchange) {
    case PerfExchange::SendReceive: return sendToNext(send, recv);
    case PerfExchange::AllToAllV:
      return c_.allToAllV({.send = send,
                           .sendCounts = uneven_,
                           .recv = recv,
                           .recvCounts = uneven_,
                           .type = o_.type},
                          ref_);
    case PerfExchange::HyperCube: return hyperCube(send, recv);
    case PerfExchange::AllGatherV:
      return c_.allGatherV({.send = send, .recv = recv, .counts = uneven_, .type = o_.type}, ref_);
    case PerfExchange::ReduceScatterV:
      return c_.reduceScatterV({.send = send,
                                .recv = recv,
                                .counts = uneven_,
                                .type = o_.type,
                                .op = o_.op,
                                .scalar = pattern_.scalar()},
                               ref_);
  }
}

void PerfCall::sendToNext(const std::byte* send, std::byte* recv) {
  const int n = c_.size(), next = (c_.rank() + 1) % n, before = (c_.rank() + n - 1) % n;
  const size_t count = pattern_.shape.count;
  Group group;
  c_.send({.send = send, .count = count, .type = o_.type, .peer = next}, ref_);
  c_.receive({.recv = recv, .count = count, .type = o_.type, .peer = before}, ref_);
  group.end();
}

// Ranks that differ in one bit exchange all blocks that they have; with the first exchange each
// rank's own block goes to its place.
void PerfCall::hyperCube(const std::byte* send, std::byte* recv) {
  const size_t count = pattern_.shape.count, block = count * sizeOf(o_.type);
  const auto rank = static_cast<size_t>(c_.rank()), ranks = static_cast<size_t>(c_.size());
  size_t bit = 1;
  do {
    const size_t own = rank & ~(bit - 1), theirs = own ^ bit;
    Group group;
    if (bit == 1 && send != recv + rank * block) {
      c_.send({send, count, o_.type, c_.rank()}, ref_);
      c_.receive({recv + rank * block, count, o_.type, c_.rank()}, ref_);
    }
    if (bit < ranks) {
      const auto peer = static_cast<int>(rank ^ bit);
      c_.send({bit == 1 ? send : recv + own * block, bit * count, o_.type, peer}, ref_);
      c_.receive({recv + theirs * block, bit * count, o_.type, peer}, ref_);
    }
    group.end();
    bit *= 2;
  } while (bit < ranks);
}

int64_t PerfCall::countWrong(bool inPlace, uint64_t repetition) {
  pattern_.shape.seed = seed_ + repetition;
  const Places places = buffers(inPlace);
  std::byte* const send = places.from.host(places.send);
  std::byte* const recv = places.to.host(places.recv);
  const auto call = [&] {
    in_->upload();
    out_->upload();
    start(inPlace);
    finish();
    in_->download();
    out_->download();
  };
  const auto checkedCall = [&, result = recv] {
    if (!seam_) return call();
    seam_(call, result, pattern_.shape.outCount * sizeOf(o_.type));
  };
  if (o_.collective == Collective::Barrier) return countEarlyLeaves(c_, checkedCall);
  in_->spoil();
  out_->spoil();
  pattern_.fillInput(send);
  checkedCall();
  const numbers::Comparison found = pattern_.compare(recv);
  if (found.wrong > 0)
    std::fprintf(stderr, "%s: rank %d%s: %zu elements of %zu are wrong, the first is %zu\n",
                 o_.collectiveName.c_str(), c_.rank(), inPlace ? ", in place" : "", found.wrong,
                 static_cast<size_t>(pattern_.shape.outCount), found.firstWrong);
  auto wrong = static_cast<int64_t>(found.wrong);
  c_.allReduce({.send = &wrong, .recv = &wrong, .count = 1, .type = DataType::Int64});
  return wrong;
}

void requireMemoryForCalls(Communicator& c, const PerfOptions& o, uint64_t bytes, size_t calls) {
  const PerfShape shape = patternOf(c, o, bytes).shape;
  const auto add = [](uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; };
  // On a GPU the host has a copy of as many.
  const uint64_t each = add(shape.inCount * sizeOf(o.type), shape.outCount * sizeOf(o.type));
  requireMemory(
      c, each > UINT64_MAX / calls ? UINT64_MAX : each * calls,
      purposeOf(o, bytes) + (calls == 1 ? "" : base::message(" by ", calls, " algorithms")));
}

void requireFit(const PerfOptions& options, const Communicator& c) {
  const int ranks = c.size();
  TUTTI_REQUIRE(options.exchange != PerfExchange::HyperCube || (ranks & (ranks - 1)) == 0,
                "hypercube needs a power of two of ranks, not ", ranks);
  TUTTI_REQUIRE(options.root < ranks, "--root ", options.root, " is not a rank of 0..", ranks - 1);
  if (options.algorithm == collectives::kByFile) {
    const std::string fault = collectives::whyNot(options.algorithm,
                                                  {.collective = options.collective,
                                                   .op = options.op,
                                                   .root = options.root,
                                                   .uneven = options.uneven(),
                                                   .mappable = true},
                                                  communicator::Inspection::topology(c),
                                                  communicator::Inspection::algorithmFile(c));
    TUTTI_REQUIRE(fault.empty(), "--algo file: ", fault);
    return;
  }
  TUTTI_REQUIRE(options.algorithm.empty() || ranks == 1 ||
                    collectives::exists(options.algorithm, options.collective, ranks,
                                        plan::hostsInOrder(c.hosts()), options.uneven()),
                "--algo ", options.algorithm, " does not exist for ", options.collectiveName,
                " on ", ranks, " ranks of ", 1 + std::ranges::max(c.hosts()), " host",
                std::ranges::max(c.hosts()) == 0 ? "" : "s");
}

}  // namespace tutti::tools
