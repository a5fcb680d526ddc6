#pragma once

// MeshCommunicator: the ranks along some axes of the mesh, the collectives among them, and how many
// there were. Each call says what it is for (purpose.h). In a dry run, which has one rank of many,
// it is without a Communicator: collectives are counted, return at once and touch no buffer.
//
// On a GPU a call on tensors runs there, behind what the rank's stream has to compute by then: on
// that stream, and what is computed next has its results; or on a stream of its own beside that.
// The calling thread waits for neither. Calls on numbers of the host (isOfHost()) are as on the
// host.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <tutti/communicator.h>
#include "parallel/mesh/issue_order.h"
#include "parallel/mesh/trace.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

struct ExchangeOutcome;

/// Calls of one kind of collective, and the bytes of their larger side on this rank.
struct CollectiveCount {
  int calls = 0;
  size_t bytes = 0;

  void add(size_t more) {
    ++calls;
    bytes += more;
  }
  CollectiveCount since(const CollectiveCount& before) const {
    return {calls - before.calls, bytes - before.bytes};
  }
  bool operator==(const CollectiveCount&) const = default;
};

/// Those with blocks of several sizes are counted with the others.
struct CollectiveCounters {
  CollectiveCount allReduce, reduceScatter, allGather, allToAll;
  CollectiveCount sent;  ///< messages to other ranks

  CollectiveCounters since(const CollectiveCounters& before) const;
  bool operator==(const CollectiveCounters&) const = default;
};

/// What one rank sends to another, or receives from it.
class MeshMessage {
 public:
  /// `data` is contiguous.
  static MeshMessage to(int peer, Purpose purpose, const Tensor& data) {
    return {purpose, peer, data, true};
  }
  static MeshMessage from(int peer, Purpose purpose, const Tensor& data) {
    return {purpose, peer, data, false};
  }

 private:
  friend class MeshCommunicator;
  MeshMessage(Purpose what, int with, const Tensor& of, bool sent)
      : purpose(what), peer(with), data(of), sends(sent) {}
  Purpose purpose;
  int peer;
  Tensor data;
  bool sends;
};

class MeshCommunicator {
 public:
  /// `compute`: on which this rank's kernels run, if its tensors are on a GPU.
  explicit MeshCommunicator(Communicator ranks, std::shared_ptr<Stream> compute = {});
  /// Dry: `rank` of `size`.
  MeshCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// A dry one has no bits that could differ.
  bool deterministic() const { return !ranks_ || ranks_->deterministic(); }

  // As Communicator's, whose errors they have; each has its count. Blocks of several sizes lie one
  // after the other, and offsets are refused (InvalidArgument).
  void allReduce(Purpose purpose, const AllReduceArgs& args, StreamRef stream = {});
  void reduceScatter(Purpose purpose, const ReduceScatterArgs& args, StreamRef stream = {});
  void reduceScatterV(Purpose purpose, const ReduceScatterVArgs& args, StreamRef stream = {});
  void allGather(Purpose purpose, const AllGatherArgs& args, StreamRef stream = {});
  void allGatherV(Purpose purpose, const AllGatherVArgs& args, StreamRef stream = {});
  void allToAll(Purpose purpose, const AllToAllArgs& args, StreamRef stream = {});
  void allToAllV(Purpose purpose, const AllToAllVArgs& args, StreamRef stream = {});
  /// All of the messages at the same time; between two ranks they match in order.
  void exchange(std::span<const MeshMessage> messages, StreamRef stream = {});
  /// Moves nothing, and so has no purpose: what follows does not depend on it, only its time does.
  void barrier();

  /// Waits of calls without a stream are told to `trace`, which must outlive this.
  void observe(Trace& trace) { trace_ = &trace; }

  /// Memory for tensors that the others can address where possible; in a dry run, an address.
  Memory allocate(size_t bytes);
  /// Of `ranks` of these, in ascending order and with this one among them. Collective over them.
  /// Not for dry ones.
  MeshCommunicator subset(std::span<const int> ranks);

  /// Since it was made.
  const CollectiveCounters& counters() const { return counters_; }
  /// From now on each call is put behind `calls` too, as one of the ranks along `axes`.
  void record(std::shared_ptr<IssueOrder> calls, AxisSet axes);

 private:
  struct Block;
  size_t bytesOfAll(size_t count, DataType type) const;
  Block blockOf(size_t count) const;
  Block blockOf(std::span<const size_t> counts) const;
  StreamRef streamOf(Purpose purpose, StreamRef stream);
  void note(Purpose purpose, PurposeForm form, std::span<const MeshMessage> messages = {});
  template <class Call>
  void perform(Purpose purpose, PurposeForm form, StreamRef stream, const ExchangeOutcome& outcome,
               const Call& call);

  std::optional<Communicator> ranks_;
  std::shared_ptr<Stream> compute_;
  std::optional<Event> begun_;  // of compute_, what a call on another stream is behind
  int rank_, size_;
  Trace* trace_ = nullptr;
  CollectiveCounters counters_;
  std::shared_ptr<IssueOrder> calls_;  // null: they are not recorded
  AxisSet axes_;                       // of those
};

/// Of a dry run: an address.
Memory dryMemory(size_t bytes);

}  // namespace tutti::parallel
