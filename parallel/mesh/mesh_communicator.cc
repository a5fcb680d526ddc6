#include "parallel/mesh/mesh_communicator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "parallel/mesh/exchange_observer.h"
#include "parallel/tensor/arena.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

/// Elements of a buffer.
struct MeshCommunicator::Block {
  size_t begin = 0, count = 0;
};

namespace {

size_t sum(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

/// What the call says, or its buffers; a communicator refuses what does not agree.
template <class Args>
DataType typeOf(const Args& args) {
  for (const auto& known : {args.type, args.send.type(), args.recv.type()})
    if (known) return *known;
  throw Error(ErrorCode::InvalidArgument, "nothing says what the elements are: set .type");
}

template <class Args>
size_t countOf(const Args& args) {
  require(args.count.has_value(), "a call on a mesh needs a count: set .count");
  return *args.count;
}

void requireNoGaps(std::span<const size_t> offsets) {
  require(offsets.empty(), "blocks lie one after the other: no offsets are taken");
}

const char* spanName(PurposeForm form) {
  switch (form) {
    case PurposeForm::AllReduce: return "all_reduce";
    case PurposeForm::ReduceScatter: return "reduce_scatter";
    case PurposeForm::ReduceScatterV: return "reduce_scatter_v";
    case PurposeForm::AllGather: return "all_gather";
    case PurposeForm::AllGatherV: return "all_gather_v";
    case PurposeForm::AllToAll: return "all_to_all";
    case PurposeForm::AllToAllV: return "all_to_all_v";
    default: return "send and receive";
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
StreamRef MeshCommunicator::streamOf(Purpose purpose, StreamRef stream) {
  if (!compute_ || isOfHost(purpose)) return stream;
  if (!stream) return *compute_;
  begun_->record(*compute_);
  begun_->wait(stream);
  return stream;
}

/// Makes `call`, unless an observer leaves it out. Other ranks do the same.
template <class Call>
void MeshCommunicator::perform(Purpose purpose, PurposeForm form, StreamRef stream,
                               const ExchangeOutcome& outcome, const Call& call) {
  note(purpose, form);
  if (!ranks_) return;
  const StreamRef on = streamOf(purpose, stream);
  std::optional<Trace::Wait> wait;
  if (trace_ != nullptr && !on)
    wait.emplace(*trace_, spanName(form), rowOf(purpose).awaited.value());
  ExchangeObserver* const observer = exchangeObserver();
  if (observer == nullptr || observer->before(purpose, form)) call(on);
  if (observer != nullptr) observer->after(purpose, outcome, on);
}

void MeshCommunicator::allReduce(Purpose purpose, const AllReduceArgs& args, StreamRef stream) {
  const size_t count = countOf(args);
  counters_.allReduce.add(count * sizeOf(typeOf(args)));
  perform(purpose, PurposeForm::AllReduce, stream,
          {typeOf(args), args.send.data(), args.recv.data(), count, 0, count, 0},
          [&](StreamRef on) { ranks_->allReduce(args, on); });
}

void MeshCommunicator::reduceScatter(Purpose purpose, const ReduceScatterArgs& args,
                                     StreamRef stream) {
  const size_t count = countOf(args);
  counters_.reduceScatter.add(bytesOfAll(count, typeOf(args)));
  const Block own = blockOf(count);
  perform(purpose, PurposeForm::ReduceScatter, stream,
          {typeOf(args), args.send.data(), args.recv.data(), count, own.begin, own.count, 0},
          [&](StreamRef on) { ranks_->reduceScatter(args, on); });
}

void MeshCommunicator::reduceScatterV(Purpose purpose, const ReduceScatterVArgs& args,
                                      StreamRef stream) {
  requireNoGaps(args.offsets);
  counters_.reduceScatter.add(sum(args.counts) * sizeOf(typeOf(args)));
  const Block own = blockOf(args.counts);
  perform(purpose, PurposeForm::ReduceScatterV, stream,
          {typeOf(args), args.send.data(), args.recv.data(), own.count, own.begin, own.count, 0},
          [&](StreamRef on) { ranks_->reduceScatterV(args, on); });
}

void MeshCommunicator::allGather(Purpose purpose, const AllGatherArgs& args, StreamRef stream) {
  const size_t count = countOf(args);
  counters_.allGather.add(bytesOfAll(count, typeOf(args)));
  const Block own = blockOf(count);
  perform(purpose, PurposeForm::AllGather, stream,
          {typeOf(args), args.send.data(), args.recv.data(), count * static_cast<size_t>(size_), 0,
           own.count, own.begin},
          [&](StreamRef on) { ranks_->allGather(args, on); });
}

void MeshCommunicator::allGatherV(Purpose purpose, const AllGatherVArgs& args, StreamRef stream) {
  requireNoGaps(args.offsets);
  counters_.allGather.add(sum(args.counts) * sizeOf(typeOf(args)));
  const Block own = blockOf(args.counts);
  perform(
      purpose, PurposeForm::AllGatherV, stream,
      {typeOf(args), args.send.data(), args.recv.data(), sum(args.counts), 0, own.count, own.begin},
      [&](StreamRef on) { ranks_->allGatherV(args, on); });
}

void MeshCommunicator::allToAll(Purpose purpose, const AllToAllArgs& args, StreamRef stream) {
  const size_t count = countOf(args);
  counters_.allToAll.add(bytesOfAll(count, typeOf(args)));
  const Block own = blockOf(count);
  perform(purpose, PurposeForm::AllToAll, stream,
          {typeOf(args), args.send.data(), args.recv.data(), count * static_cast<size_t>(size_),
           own.begin, own.count, own.begin},
          [&](StreamRef on) { ranks_->allToAll(args, on); });
}

void MeshCommunicator::allToAllV(Purpose purpose, const AllToAllVArgs& args, StreamRef stream) {
  requireNoGaps(args.sendOffsets);
  requireNoGaps(args.recvOffsets);
  const size_t received = sum(args.recvCounts);
  const Block own = blockOf(args.sendCounts);
  counters_.allToAll.add(std::max(sum(args.sendCounts), received) * sizeOf(typeOf(args)));
  perform(purpose, PurposeForm::AllToAllV, stream,
          {typeOf(args), args.send.data(), args.recv.data(), received, own.begin, own.count,
           blockOf(args.recvCounts).begin},
          [&](StreamRef on) { ranks_->allToAllV(args, on); });
}

void MeshCommunicator::exchange(std::span<const MeshMessage> messages, StreamRef stream) {
  for (const MeshMessage& message : messages)
    if (message.sends) counters_.sent.add(message.data.bytes());
  if (!messages.empty()) note(messages[0].purpose, PurposeForm::Exchange, messages);
  if (!ranks_ || messages.empty()) return;
  const StreamRef on = streamOf(messages[0].purpose, stream);
  std::optional<Trace::Wait> wait;
  if (trace_ != nullptr && !on)
    wait.emplace(*trace_, spanName(PurposeForm::Exchange),
                 rowOf(messages[0].purpose).awaited.value());
  ExchangeObserver* const observer = exchangeObserver();
  std::map<Purpose, bool> made;  // of an observer, who is asked once for each purpose
  if (observer != nullptr)
    for (const MeshMessage& m : messages)
      if (!made.contains(m.purpose))
        made[m.purpose] = observer->before(m.purpose, PurposeForm::Exchange);
  Group group;
  for (const MeshMessage& m : messages) {
    if (observer != nullptr && !made[m.purpose]) continue;
    const auto count = static_cast<size_t>(m.data.count());
    if (m.sends)
      ranks_->send({m.data.data, count, m.data.type, m.peer}, on);
    else
      ranks_->receive({m.data.data, count, m.data.type, m.peer}, on);
  }
  group.end();
  if (observer == nullptr) return;
  for (const MeshMessage& m : messages) {
    if (m.sends) continue;
    const auto count = static_cast<size_t>(m.data.count());
    observer->after(m.purpose, {m.data.type, nullptr, m.data.data, count, 0, 0, 0}, on);
  }
}

void MeshCommunicator::record(std::shared_ptr<IssueOrder> calls, AxisSet axes) {
  calls_ = std::move(calls);
  axes_ = axes;
}

void MeshCommunicator::note(Purpose purpose, PurposeForm form,
                            std::span<const MeshMessage> messages) {
  if (!calls_) return;
  IssuedCall call{.axes = axes_, .purpose = purpose, .form = form, .messages = {}};
  for (const MeshMessage& m : messages) call.messages.push_back({m.peer, m.sends});
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
