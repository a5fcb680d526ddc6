#pragma once

// The communicator of Python, and how it makes calls: with the GIL free, on a stream, in a group,
// or prepared for later.

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>
#include <vector>

#include <tutti/communicator.h>

#include "src/python/buffer.h"
#include "src/python/errors.h"
#include "src/python/group.h"
#include "src/python/stream.h"
#include "src/python/waiting.h"

namespace tutti::python {

// The calls by the type of their arguments.
inline void make(Communicator& c, const AllReduceArgs& a, StreamRef s) { c.allReduce(a, s); }
inline void make(Communicator& c, const ReduceArgs& a, StreamRef s) { c.reduce(a, s); }
inline void make(Communicator& c, const BroadcastArgs& a, StreamRef s) { c.broadcast(a, s); }
inline void make(Communicator& c, const AllGatherArgs& a, StreamRef s) { c.allGather(a, s); }
inline void make(Communicator& c, const ReduceScatterArgs& a, StreamRef s) {
  c.reduceScatter(a, s);
}
inline void make(Communicator& c, const AllGatherVArgs& a, StreamRef s) { c.allGatherV(a, s); }
inline void make(Communicator& c, const ReduceScatterVArgs& a, StreamRef s) {
  c.reduceScatterV(a, s);
}
inline void make(Communicator& c, const GatherArgs& a, StreamRef s) { c.gather(a, s); }
inline void make(Communicator& c, const ScatterArgs& a, StreamRef s) { c.scatter(a, s); }
inline void make(Communicator& c, const AllToAllArgs& a, StreamRef s) { c.allToAll(a, s); }
inline void make(Communicator& c, const AllToAllVArgs& a, StreamRef s) { c.allToAllV(a, s); }
inline void make(Communicator& c, const ScanArgs& a, StreamRef s) { c.scan(a, s); }
inline void make(Communicator& c, const BarrierArgs&, StreamRef s) { c.barrier(s); }
inline void make(Communicator& c, const SendArgs& a, StreamRef s) { c.send(a, s); }
inline void make(Communicator& c, const ReceiveArgs& a, StreamRef s) { c.receive(a, s); }
inline void make(Communicator& c, const PutArgs& a, StreamRef s) { c.put(a, s); }
inline void make(Communicator& c, const SignalArgs& a, StreamRef s) { c.signal(a, s); }
inline void make(Communicator& c, const WaitSignalsArgs& a, StreamRef s) { c.waitSignals(a, s); }

/// What would keep its rank in the job after the communicator's close(), which ends it.
class EndsWithCommunicator {
 public:
  virtual ~EndsWithCommunicator() = default;
  virtual void end() = 0;
};

struct PreparedOfPython final : EndsWithCommunicator {
  void end() override {
    call.reset();
    communicator.reset();
  }

  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<PreparedCall> call;
};

class CommunicatorOfPython {
 public:
  explicit CommunicatorOfPython(Communicator made)
      : rank_(made.rank()),
        size_(made.size()),
        communicator_(new Communicator(std::move(made)), DeleteWithoutGil()) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool isClosed() const { return !communicator_; }
  /// Throws InvalidUsage if it is closed.
  std::shared_ptr<Communicator> open() const;
  /// Leaves the job. Calls on streams keep the communicator until they have ended.
  void close();
  /// `other` ends at close(), unless it has gone.
  void endsWithIt(const std::shared_ptr<EndsWithCommunicator>& other) const;
  /// Gives the C++ object away, which nothing else may use.
  Communicator take();

  /// `how` is None, a stream, or an ellipsis: to prepare the call. Keeps `buffers` as long as the
  /// call uses them. Returns the prepared call, or None.
  template <class Args>
  nanobind::object issue(const Args& args, ArrayBuffers buffers, nanobind::handle how) const;

 private:
  nanobind::object prepared(std::shared_ptr<Communicator> communicator, PreparedCall call,
                            Held buffers) const;

  int rank_, size_;
  std::shared_ptr<Communicator> communicator_;
  mutable std::vector<std::weak_ptr<EndsWithCommunicator>> endWithIt_;
};

/// Makes a call by `start`, and keeps what it uses.
template <class Start>
void startAndKeep(const std::shared_ptr<Communicator>& communicator, const Held& buffers,
                  nanobind::handle stream, const Start& start) {
  HostStreamOfPython* const queue =
      stream.is_none() ? nullptr : &nanobind::cast<HostStreamOfPython&>(stream);
  onRank(communicator->rank(), [&] {
    const InterruptibleWait waiting;
    start(queue ? queue->ref() : StreamRef());
  });
  if (isInGroup())
    keepForGroup(buffers, nanobind::borrow(stream), communicator);
  else if (queue)
    queue->keep(buffers, communicator);
}

class PreparedCallOfPython {
 public:
  PreparedCallOfPython(std::shared_ptr<PreparedOfPython> prepared, Held buffers)
      : prepared_(std::move(prepared)), buffers_(std::move(buffers)) {}

  /// Throws InvalidUsage if the communicator is closed.
  void start(nanobind::handle stream);

 private:
  std::shared_ptr<PreparedOfPython> prepared_;
  Held buffers_;
};

template <class Args>
nanobind::object CommunicatorOfPython::issue(const Args& args, ArrayBuffers buffers,
                                             nanobind::handle how) const {
  const auto communicator = open();
  const auto held = std::make_shared<const ArrayBuffers>(std::move(buffers));
  if (how.ptr() == Py_Ellipsis)
    return prepared(communicator, onRank(rank_, [&] { return communicator->prepare(args); }), held);
  startAndKeep(communicator, held, how, [&](StreamRef ref) { make(*communicator, args, ref); });
  return nanobind::none();
}

using CommunicatorClass = nanobind::class_<CommunicatorOfPython>;

void registerCommunicator(nanobind::module_& m);
void registerCollectives(CommunicatorClass& c);
void registerTransfers(CommunicatorClass& c);
void registerOneSided(nanobind::module_& m, CommunicatorClass& c);

}  // namespace tutti::python
