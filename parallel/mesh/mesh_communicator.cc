#include "parallel/mesh/mesh_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "parallel/tensor/arena.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

/// Elements of a buffer.
struct MeshCommunicator::Block {
  size_t begin = 0, count = 0;
};

/// What a call gives this rank, and which elements of that would be there without the others: those
/// of the block `own` of what it sends.
struct MeshCommunicator::Outcome {
  DataType type;
  const void* send;
  void* recv;
  size_t count;  // of recv
  Block own;
  size_t ownBegin;  // in recv
};

namespace {

size_t sum(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

void requireNoGaps(std::span<const size_t> offsets) {
  require(offsets.empty(), "blocks lie one after the other: no offsets are taken");
}

const char* spanName(PointForm form) {
  switch (form) {
    case PointForm::AllReduce: return "all_reduce";
    case PointForm::ReduceScatter: return "reduce_scatter";
    case PointForm::ReduceScatterV: return "reduce_scatter_v";
    case PointForm::AllGather: return "all_gather";
    case PointForm::AllGatherV: return "all_gather_v";
    case PointForm::AllToAll: return "all_to_all";
    case PointForm::AllToAllV: return "all_to_all_v";
    default: return "send and receive";
  }
}

/// Until what is on the stream, if there is one, has ended.
void waitFor(StreamRef stream) {
  if (!stream) return;
  Event reached(stream.device());
  reached.record(stream);
  reached.synchronize();
}

/// Of a call's buffers, which the stream of a GPU says are there, from the host or to it.
void move(void* to, const void* from, size_t bytes, StreamRef stream) {
  if (bytes == 0) return;
  if (!stream.isCuda()) {
    std::memcpy(to, from, bytes);
    return;
  }
  copy({to, from, bytes}, stream);
  waitFor(stream);
}

template <class T>
void doubleElements(void* data, size_t count) {
  std::for_each_n(static_cast<T*>(data), count, [](T& element) { element += element; });
}

void doubleElements(DataType type, void* data, size_t count) {
  switch (type) {
    case DataType::Float64: return doubleElements<double>(data, count);
    case DataType::Float32: return doubleElements<float>(data, count);
    case DataType::Int32: return doubleElements<int32_t>(data, count);
    case DataType::BFloat16:
      std::for_each_n(static_cast<uint16_t*>(data), count, [](uint16_t& element) {
        const float wide = std::bit_cast<float>(uint32_t{element} << 16);
        element = static_cast<uint16_t>(std::bit_cast<uint32_t>(wide + wide) >> 16);  // exact
      });
      return;
    case DataType::Float16:
      std::for_each_n(static_cast<uint16_t*>(data), count, [](uint16_t& element) {
        const uint16_t sign = element & 0x8000, size = element & 0x7fff;
        const bool exponent = size >= 0x400;  // else its bits are a multiple of the least
        const int doubled = size >= 0x7c00 ? size
                            : exponent ? std::min(size + 0x400, size >= 0x7800 ? 0x7c00 : 0x7fff)
                                       : size * 2;
        element = static_cast<uint16_t>(sign | doubled);
      });
      return;
    default: fail(ErrorCode::Internal, "a point that gives ", toString(type), " was to be doubled");
  }
}

}  // namespace

CollectiveCounters CollectiveCounters::since(const CollectiveCounters& before) const {
  return {allReduce.since(before.allReduce), reduceScatter.since(before.reduceScatter),
          allGather.since(before.allGather), allToAll.since(before.allToAll),
          sent.since(before.sent)};
}

MeshCommunicator::MeshCommunicator(Communicator ranks, std::shared_ptr<Stream> compute)
    : ranks_(std::move(ranks)),
      compute_(std::move(compute)),
      rank_(ranks_->rank()),
      size_(ranks_->size()) {
  if (compute_) begun_.emplace(StreamRef(*compute_).device());
}

size_t MeshCommunicator::bytesOfAll(size_t count, DataType type) const {
  return count * static_cast<size_t>(size_) * sizeOf(type);
}

/// This rank's, of blocks of one size or several.
MeshCommunicator::Block MeshCommunicator::blockOf(size_t count) const {
  return {static_cast<size_t>(rank_) * count, count};
}
MeshCommunicator::Block MeshCommunicator::blockOf(std::span<const size_t> counts) const {
  const auto rank = static_cast<size_t>(rank_);
  return {sum(counts.first(rank)), counts[rank]};
}

/// On which a call with `stream` runs.
StreamRef MeshCommunicator::streamOf(MutationPoint point, StreamRef stream) {
  if (!compute_ || isOfHost(point)) return stream;
  if (!stream) return *compute_;
  begun_->record(*compute_);
  begun_->wait(stream);
  return stream;
}

/// Makes `call`, or what a mutation of `point` wants instead. Other ranks do the same.
template <class Call>
void MeshCommunicator::perform(MutationPoint point, PointForm form, StreamRef stream,
                               const Outcome& outcome, const Call& call) {
  note(point, form);
  if (!ranks_) return;
  const StreamRef on = streamOf(point, stream);
  std::optional<Trace::Wait> wait;
  if (trace_ != nullptr && !on) wait.emplace(*trace_, spanName(form), awaitedAt(point));
  const std::optional<Change> mutation = passMutationPoint(point, form);
  if (mutation != Change::Drop) call(on);
  if (!mutation) return;
  waitFor(on);
  makeChange(*mutation, outcome, on);
}

/// Dropped, what comes from others is zero.
void MeshCommunicator::makeChange(Change change, const Outcome& outcome, StreamRef stream) {
  if (outcome.count == 0) return;
  const size_t size = sizeOf(outcome.type);
  std::vector<std::byte> result(outcome.count * size);
  if (change == Change::Double) {
    move(result.data(), outcome.recv, result.size(), stream);
    doubleElements(outcome.type, result.data(), outcome.count);
  } else {
    move(result.data() + outcome.ownBegin * size,
         static_cast<const std::byte*>(outcome.send) + outcome.own.begin * size,
         outcome.own.count * size, stream);
  }
  move(outcome.recv, result.data(), result.size(), stream);
}

void MeshCommunicator::allReduce(MutationPoint point, const AllReduceArgs& args, StreamRef stream) {
  counters_.allReduce.add(args.count * sizeOf(args.type));
  perform(point, PointForm::AllReduce, stream,
          {args.type, args.send, args.recv, args.count, {0, args.count}, 0},
          [&](StreamRef on) { ranks_->allReduce(args, on); });
}

void MeshCommunicator::reduceScatter(MutationPoint point, const ReduceScatterArgs& args,
                                     StreamRef stream) {
  counters_.reduceScatter.add(bytesOfAll(args.count, args.type));
  perform(point, PointForm::ReduceScatter, stream,
          {args.type, args.send, args.recv, args.count, blockOf(args.count), 0},
          [&](StreamRef on) { ranks_->reduceScatter(args, on); });
}

void MeshCommunicator::reduceScatterV(MutationPoint point, const ReduceScatterVArgs& args,
                                      StreamRef stream) {
  requireNoGaps(args.offsets);
  counters_.reduceScatter.add(sum(args.counts) * sizeOf(args.type));
  const Block own = blockOf(args.counts);
  perform(point, PointForm::ReduceScatterV, stream,
          {args.type, args.send, args.recv, own.count, own, 0},
          [&](StreamRef on) { ranks_->reduceScatterV(args, on); });
}

void MeshCommunicator::allGather(MutationPoint point, const AllGatherArgs& args, StreamRef stream) {
  counters_.allGather.add(bytesOfAll(args.count, args.type));
  const Block own = blockOf(args.count);
  perform(point, PointForm::AllGather, stream,
          {args.type,
           args.send,
           args.recv,
           args.count * static_cast<size_t>(size_),
           {0, own.count},
           own.begin},
          [&](StreamRef on) { ranks_->allGather(args, on); });
}

void MeshCommunicator::allGatherV(MutationPoint point, const AllGatherVArgs& args,
                                  StreamRef stream) {
  requireNoGaps(args.offsets);
  counters_.allGather.add(sum(args.counts) * sizeOf(args.type));
  const Block own = blockOf(args.counts);
  perform(point, PointForm::AllGatherV, stream,
          {args.type, args.send, args.recv, sum(args.counts), {0, own.count}, own.begin},
          [&](StreamRef on) { ranks_->allGatherV(args, on); });
}

void MeshCommunicator::allToAll(MutationPoint point, const AllToAllArgs& args, StreamRef stream) {
  counters_.allToAll.add(bytesOfAll(args.count, args.type));
  const Block own = blockOf(args.count);
  perform(
      point, PointForm::AllToAll, stream,
      {args.type, args.send, args.recv, args.count * static_cast<size_t>(size_), own, own.begin},
      [&](StreamRef on) { ranks_->allToAll(args, on); });
}

void MeshCommunicator::allToAllV(MutationPoint point, const AllToAllVArgs& args, StreamRef stream) {
  requireNoGaps(args.sendOffsets);
  requireNoGaps(args.recvOffsets);
  const size_t received = sum(args.recvCounts);
  counters_.allToAll.add(std::max(sum(args.sendCounts), received) * sizeOf(args.type));
  perform(point, PointForm::AllToAllV, stream,
          {args.type, args.send, args.recv, received, blockOf(args.sendCounts),
           blockOf(args.recvCounts).begin},
          [&](StreamRef on) { ranks_->allToAllV(args, on); });
}

void MeshCommunicator::exchange(std::span<const Message> messages, StreamRef stream) {
  for (const Message& message : messages)
    if (message.sends) counters_.sent.add(message.data.bytes());
  if (!messages.empty()) note(messages[0].point, PointForm::Exchange, messages);
  if (!ranks_ || messages.empty()) return;
  const StreamRef on = streamOf(messages[0].point, stream);
  std::optional<Trace::Wait> wait;
  if (trace_ != nullptr && !on)
    wait.emplace(*trace_, spanName(PointForm::Exchange), awaitedAt(messages[0].point));
  std::map<MutationPoint, std::optional<Change>> changes;  // a pass for each purpose
  for (const Message& m : messages)
    if (!changes.contains(m.point))
      changes[m.point] = passMutationPoint(m.point, PointForm::Exchange);
  Group group;
  for (const Message& m : messages) {
    if (changes[m.point] == Change::Drop) continue;
    const auto count = static_cast<size_t>(m.data.count());
    if (m.sends)
      ranks_->send({m.data.data, count, m.data.type, m.peer}, on);
    else
      ranks_->receive({m.data.data, count, m.data.type, m.peer}, on);
  }
  group.end();
  for (const Message& m : messages) {
    if (m.sends || !changes[m.point]) continue;
    waitFor(on);
    const auto count = static_cast<size_t>(m.data.count());
    makeChange(*changes[m.point], {m.data.type, nullptr, m.data.data, count, {0, 0}, 0}, on);
  }
}

void MeshCommunicator::record(std::shared_ptr<IssueOrder> calls, AxisSet axes) {
  calls_ = std::move(calls);
  axes_ = axes;
}

void MeshCommunicator::note(MutationPoint point, PointForm form,
                            std::span<const Message> messages) {
  if (!calls_) return;
  IssuedCall call{.axes = axes_, .point = point, .form = form, .messages = {}};
  for (const Message& m : messages) call.messages.push_back({m.peer, m.sends});
  calls_->push_back(std::move(call));
}

void MeshCommunicator::barrier() {
  if (ranks_) ranks_->barrier();
}

Memory MeshCommunicator::allocate(size_t bytes) {
  if (compute_) return allocateOn(StreamRef(*compute_).device(), bytes);
  return ranks_ ? ranks_->allocate(bytes) : dryMemory(bytes);
}

MeshCommunicator MeshCommunicator::subset(std::span<const int> ranks) {
  return MeshCommunicator(ranks_->subset(ranks), compute_);
}

Memory dryMemory(size_t bytes) { return Memory(dryAddress(), bytes, nullptr); }

}  // namespace tutti::parallel
