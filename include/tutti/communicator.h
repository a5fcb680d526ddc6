#pragma once

// Communicator: a fixed group of ranks and the collectives among them. This is the front door of
// the library; everything else in include/tutti is what its arguments are made of.
//
// Threads. A communicator may be used by one thread at a time; abort(), asyncError() and describe()
// may be called from any thread at any time. Different communicators are independent, also when
// they have ranks in common: calls on them may be made from different threads.
//
// Order. All ranks issue the same collectives on a communicator in the same order. Ranks that
// disagree get an Error of code Mismatch that prints both sides. Nothing that a disagreeing rank
// sent is delivered, on either side: a rank refuses its message before it reads it. Where the call
// that they disagree about throws, its recv holds what it held before, except that blocks of
// AllGather, Gather, AllToAll and AllToAllV, the payload of Broadcast and Scatter, and sums of a
// Scan may have come from ranks that do agree, and transfers of a group from before the one that
// differs. A rank whose part needs nothing from the one that disagrees (the root of a Broadcast,
// the leaves of a Reduce) may return from that call, with its own result right, and throws in a
// later one.
//
// Failure. An operation that fails, fails its communicator: every later call throws the same Error.
// The contents of its recv buffers are undefined, the case above aside. Memory of allocate() may
// still be written by ranks that have not heard of the failure, until the communicator was shrunk
// or the memory is given back; so may buffers of calls on GPUs' streams, by GPUs of the same
// process, until the communicator is destroyed. Other memory is never touched by another rank.
//
// Completion. With no stream (the default) a call returns when its buffers may be used again. With
// a stream it returns at once, and the work runs in stream order; its failure is thrown by the
// stream's synchronize() and by the communicator's next call. On a GPU's stream it is that next
// call, and asyncError(), alone that know of a failure; the stream's work ends in any case.
//
// Devices. Where the buffers of a call lie says where it runs: on the host, or, when all of them
// are memory of this rank's GPU, there; pinned memory of the host goes with both. All ranks'
// buffers must be of one kind. A CUDA stream, one of this rank's GPU, goes with memory that the GPU
// can address; a stream of the host with the host's. Anything else throws InvalidArgument and names
// the argument: memory of another GPU, managed memory, send and recv that do not go together. A
// communicator of the host does not ask CUDA about its buffers.
//
// On GPUs a call is one kernel on the stream, which waits there for the other ranks' kernels; where
// ranks of several processes share a GPU, or gpuCopies asks for it, it is copies and waits on
// streams of its own. So nothing may keep those from running: ranks of one process on one GPU need
// streams of their own that do not wait for each other (and not more of them than
// CUDA_DEVICE_MAX_CONNECTIONS), or one Group, whose calls on one stream share a launch (a
// collective behind another rank's same one, or one end of a message behind the other, on one
// stream throws InvalidUsage); and memory of a GPU is not freed while another rank's kernel waits
// there for this rank's next call, for cudaFree() waits for all kernels. Calls can be captured into
// graphs; replays and calls of a rank come in the order in which they are launched. Where a process
// has more communicators than a GPU has room for at the same time, the last ones' calls take turns
// there: then that order is the same on all GPUs, over these communicators. Reductions that are
// functions of the caller's own throw Unsupported; so does every call where the ranks' GPUs are not
// joined, and says why. Between GPUs of one process kernels touch the other ranks' buffers: memory
// of a pool, or of cuMem, is opened to their GPUs by the first call on it, a pool as a whole.
//
// Fork and exit. A forked child must not use communicators of its parent (calls throw
// InvalidUsage); exec is fine: no descriptor is inherited. Destroying a communicator tells the
// others that this rank has left; a process that ends without it counts as dead.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <tutti/device.h>
#include <tutti/error.h>
#include <tutti/reduction.h>
#include <tutti/types.h>

namespace tutti {

namespace communicator {
struct Inspection;  // the library's own
}

/// Names one job: address, port, job id and a secret. As opaque and as large as NCCL's.
/// Whoever holds it may join, so pass it on private channels only.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  /// Who can join with the id: ranks of this host, or of other hosts too.
  enum class Reach { Host, Network };
  /// Makes an id and starts listening for its job in this process, for as long as set-up may last:
  /// at a Unix socket and, for Network, on the interface that TUTTI_INTERFACE names or that leads
  /// to other hosts. On a host without one, Network is as Host.
  static UniqueId create(Reach reach = Reach::Network);
  /// The id that everybody makes of `address`, "host:port": rank 0 listens there when it joins. By
  /// TCP with TUTTI_JOB_KEY; without it, for ranks of this host and user only. Throws
  /// InvalidArgument.
  static UniqueId at(const std::string& address);
  std::string toHex() const;
  /// Throws InvalidArgument when `hex` is not 256 hexadecimal digits or not an id of this version.
  static UniqueId fromHex(const std::string& hex);
  bool operator==(const UniqueId&) const = default;
};

struct CommunicatorOptions {
  /// Explicit membership. Without `id`, rank, size and meeting point come from the launcher's
  /// environment (tutti run, torchrun, ...); see docs/environment.md.
  std::optional<UniqueId> id;
  int rank = -1;
  int size = -1;

  std::chrono::milliseconds setupTimeout{0};  ///< 0: TUTTI_SETUP_TIMEOUT_MS, else 2 minutes
  std::chrono::milliseconds timeout{0};  ///< of one operation; 0: TUTTI_TIMEOUT_MS, else 10 minutes
  /// An operation that has waited this long for one rank reports it and goes on; 0:
  /// TUTTI_STRAGGLER_MS, else 5 s.
  std::chrono::milliseconds straggler{0};
  /// Reductions evaluate the aligned binary tree over ranks, rounding at every node: the same bits
  /// for every transport and message split. Also TUTTI_DETERMINISTIC=1.
  bool deterministic = false;
  /// Forces one algorithm ("ring", "double_tree", "recursive", "one_shot", "two_shot", "pairwise",
  /// "hierarchical", "mapped") where it exists for the collective and the ranks' hosts, between
  /// hosts also with a number of channels ("ring/2"). Also TUTTI_ALGORITHM. Must be the same on
  /// all ranks.
  std::string algorithm;
  /// "shm" or "ucx": how ranks are joined. Empty: by shared memory on one host, by UCX between
  /// hosts. Also TUTTI_TRANSPORT. Must be the same on all ranks.
  std::string transport;
  /// Where this rank's buffers are, beside the host: a GPU makes calls on its memory possible.
  /// Throws Unsupported, saying why, where there is no such device.
  Device device = {};
  /// How many blocks of threads this rank's kernels may have at most, which the program's own
  /// kernels then do not find taken; 0: TUTTI_GPU_BLOCKS, else 32. Of the ranks the least holds
  /// for all. A communicator that is made from another has the same.
  int gpuBlocks = 0;
  /// Calls on GPUs are copies and waits on streams, which leave the multiprocessors to the
  /// program's kernels: only what is added up is added by kernels, none of which waits. Where ranks
  /// are on several hosts it has no effect. Of one rank for all; also TUTTI_GPU_COPIES=1, and
  /// always where ranks of several processes share a GPU.
  bool gpuCopies = false;
  /// Of createLocal(): each rank's; empty: `device` for all.
  std::vector<Device> devices = {};
  /// A request to stop ends create() with Aborted, in a moment, and everybody's who waits for it.
  std::stop_token stop;
};

// Arguments. Counts are elements, never bytes; buffers hold `count` elements of `type` unless said
// otherwise. `send == recv` (at the offset named) is in place; any other overlap is refused.
// A count of zero is a no-op that still takes part in the order of calls; its pointers may be null.
//
// PreMulSum multiplies this rank's input by `scalar`, or, where `scalarAt` is given, by the element
// of `type` that lies there, at any address: where the buffers are or in pinned memory, and not in
// recv. It is read when the call runs, on a GPU behind what is on its stream, by each start of a
// prepared call and each replay of a graph, and has to stay as it is until the call has ended. A
// 64-bit integer counts as the nearest double. Ranks may have different ones.

struct AllReduceArgs {
  const void* send = nullptr;
  void* recv = nullptr;  ///< may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;             ///< of PreMulSum
  Reduction reduction = {};        ///< instead of op and scalar, if given
  const void* scalarAt = nullptr;  ///< or where PreMulSum's scalar is, see above
};
struct ReduceArgs {
  const void* send = nullptr;
  void* recv = nullptr;  ///< written only at the root, null elsewhere if you like; may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  int root = 0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
};
struct BroadcastArgs {
  const void* send = nullptr;  ///< read only at the root
  void* recv = nullptr;        ///< may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  int root = 0;
};
struct AllGatherArgs {
  const void* send = nullptr;  ///< count elements
  void* recv = nullptr;        ///< size() * count elements; in place: send == recv + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
};
struct ReduceScatterArgs {
  const void* send = nullptr;  ///< size() * count elements
  void* recv = nullptr;        ///< count elements; in place: recv == send + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
};

// Blocks that differ in size. The arguments about them must be the same on all ranks.
struct AllGatherVArgs {
  const void* send = nullptr;       ///< counts[rank()] elements
  void* recv = nullptr;             ///< all blocks; in place: send == recv + offsets[rank()]
  std::span<const size_t> counts;   ///< elements of each rank's block; may be 0
  std::span<const size_t> offsets;  ///< where they begin in recv, in elements; empty: one after
                                    ///< another. Blocks do not overlap.
  DataType type = DataType::Float32;
};
struct ReduceScatterVArgs {
  const void* send = nullptr;       ///< all blocks
  void* recv = nullptr;             ///< counts[rank()] elements; in place: recv == send +
                                    ///< offsets[rank()]
  std::span<const size_t> counts;   ///< elements of each rank's block; may be 0
  std::span<const size_t> offsets;  ///< where they begin in send, in elements; empty: one after
                                    ///< another
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
};
struct GatherArgs {
  const void* send = nullptr;  ///< count elements
  void* recv = nullptr;        ///< only at the root: size() * count elements, in order of rank;
                               ///< in place there: send == recv + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  int root = 0;
};
struct ScatterArgs {
  const void* send = nullptr;  ///< only at the root: size() * count elements, in order of rank
  void* recv = nullptr;  ///< count elements; in place at the root: recv == send + rank() * count
  size_t count = 0;
  DataType type = DataType::Float32;
  int root = 0;
};
struct AllToAllArgs {
  const void* send = nullptr;  ///< size() * count elements: block q is for rank q
  void* recv = nullptr;        ///< size() * count elements: block q is from rank q; may equal send
  size_t count = 0;            ///< of one block
  DataType type = DataType::Float32;
};
struct ScanArgs {
  const void* send = nullptr;
  void* recv = nullptr;  ///< the reduction over ranks 0 to rank(); may equal send
  size_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;  ///< any but Avg
  double scalar = 1.0;
  Reduction reduction = {};
  const void* scalarAt = nullptr;
};

struct SendArgs {
  const void* send = nullptr;
  size_t count = 0;
  DataType type = DataType::Float32;
  int peer = 0;  ///< to whom; itself only in a group that also receives from itself
};
struct ReceiveArgs {
  void* recv = nullptr;
  size_t count = 0;
  DataType type = DataType::Float32;
  int peer = 0;  ///< from whom
};
/// Every rank sends a block to each rank, itself included. What one sends, the other must expect:
/// sendCounts[q] here is recvCounts[rank()] on rank q, of the same type.
struct AllToAllVArgs {
  const void* send = nullptr;
  std::span<const size_t> sendCounts;   ///< elements for each rank
  std::span<const size_t> sendOffsets;  ///< where they begin, in elements; empty: one after another
  void* recv = nullptr;
  std::span<const size_t> recvCounts;   ///< elements from each rank
  std::span<const size_t> recvOffsets;  ///< as sendOffsets
  DataType type = DataType::Float32;
};

struct BarrierArgs {};

/// A call whose arguments are checked and whose plan is chosen, to be made many times. The call's
/// buffers must last as long as it does. One thread at a time, the communicator's. While it lasts
/// this rank has not left the communicator, also when that is destroyed.
class PreparedCall {
 public:
  ~PreparedCall();
  PreparedCall(PreparedCall&&) noexcept;
  PreparedCall& operator=(PreparedCall&&) noexcept;
  /// Makes the call, as Communicator's method of the same arguments does: in order with the
  /// communicator's other calls, on a stream, in a group.
  void start(StreamRef stream = {});

 private:
  friend class Communicator;
  struct Impl;
  explicit PreparedCall(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Communicator {
 public:
  /// Joins a job. Collective over all its ranks. Throws Refused, Timeout, InvalidArgument or
  /// System; on failure nothing is left behind.
  static Communicator create(const CommunicatorOptions& options = {});

  /// `size` ranks inside this process, one for each thread that the caller will run. Needs no
  /// launcher. `options.rank`, `size` and `id` are ignored.
  static std::vector<Communicator> createLocal(int size, const CommunicatorOptions& options = {});

  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;
  int size() const;
  /// The host of each rank, numbered from 0 in order of appearance.
  const std::vector<int>& hosts() const;
  /// This rank's, as the options said.
  Device device() const;
  /// Reductions evaluate the binary tree over ranks: the option or TUTTI_DETERMINISTIC asked for
  /// it.
  bool deterministic() const;

  // The collectives. Each throws InvalidArgument when its arguments cannot be right (null, overlap,
  // root, a count beyond memory) and InvalidUsage after fork: then it was not made, and the
  // communicator stays usable. It throws Mismatch, Timeout, PeerLost, Aborted, OutOfMemory or
  // Internal when it failed, here or elsewhere; so does every call after it. With a stream
  // or in a group these come out of synchronize() and end().
  void allReduce(const AllReduceArgs& args, StreamRef stream = {});
  void reduce(const ReduceArgs& args, StreamRef stream = {});
  void broadcast(const BroadcastArgs& args, StreamRef stream = {});
  void allGather(const AllGatherArgs& args, StreamRef stream = {});
  void reduceScatter(const ReduceScatterArgs& args, StreamRef stream = {});
  void allGatherV(const AllGatherVArgs& args, StreamRef stream = {});
  void reduceScatterV(const ReduceScatterVArgs& args, StreamRef stream = {});
  void gather(const GatherArgs& args, StreamRef stream = {});
  void scatter(const ScatterArgs& args, StreamRef stream = {});
  void allToAll(const AllToAllArgs& args, StreamRef stream = {});
  void scan(const ScanArgs& args, StreamRef stream = {});
  void barrier(StreamRef stream = {});

  // Sends and receives. Between two ranks they match in order, and nobody else takes part: only
  // ranks that send to or receive from each other need to call. A call by itself returns when it is
  // done (a send when its buffer may be used again, which may be before the other side has
  // received); in a group all of them are under way at once, on one stream, after the group's
  // collectives, so any pattern of them works (on GPUs, of those with more peers than lanes fit
  // the blocks, any in which all ranks are in their groups at the same time). Between two ranks the
  // order of collectives, sends and receives must be the same on both. Types or counts that differ
  // are a Mismatch, also where there are no elements; buffers that are received into must not
  // overlap others of the same call or group (InvalidArgument, from end() in a group). A rank that
  // has left is noticed by those that still need it (PeerLost).
  void send(const SendArgs& args, StreamRef stream = {});
  void receive(const ReceiveArgs& args, StreamRef stream = {});
  /// Collective: as many sends and receives as there are ranks.
  void allToAllV(const AllToAllVArgs& args, StreamRef stream = {});

  // The calls above, for later: persistent operations. Not collective; throws InvalidArgument as
  // the call would.
  PreparedCall prepare(const AllReduceArgs& args);
  PreparedCall prepare(const ReduceArgs& args);
  PreparedCall prepare(const BroadcastArgs& args);
  PreparedCall prepare(const AllGatherArgs& args);
  PreparedCall prepare(const ReduceScatterArgs& args);
  PreparedCall prepare(const AllGatherVArgs& args);
  PreparedCall prepare(const ReduceScatterVArgs& args);
  PreparedCall prepare(const GatherArgs& args);
  PreparedCall prepare(const ScatterArgs& args);
  PreparedCall prepare(const AllToAllArgs& args);
  PreparedCall prepare(const ScanArgs& args);
  PreparedCall prepare(const BarrierArgs& args);
  PreparedCall prepare(const SendArgs& args);
  PreparedCall prepare(const ReceiveArgs& args);
  PreparedCall prepare(const AllToAllVArgs& args);

  /// Memory that the other ranks on this host can address. Not collective; released by ~Memory,
  /// which must come before the communicator is destroyed or after, in any order. Zero bytes give a
  /// Memory with a null pointer. Throws OutOfMemory naming the bytes.
  Memory allocate(size_t bytes);

  /// The same for memory of allocateShareable(), on as many communicators as you like: for as long
  /// as the result lives, which is the same memory and keeps it. Throws InvalidArgument for memory
  /// of another kind.
  Memory share(const Memory& memory);

  /// Collective. Ranks of equal `color` form a new communicator, ordered by (key, rank). A negative
  /// color joins none and gets nullopt.
  std::optional<Communicator> split(int color, int key);

  /// Collective over `ranks` alone, which are in ascending order and have this one among them: a
  /// new communicator of them. The other ranks do not call. Also after a failure or abort(), when
  /// nothing of this communicator runs any more on any of `ranks` once it returns; it does not look
  /// for the dead, as shrink() does, but throws PeerLost when one of `ranks` is.
  Communicator subset(std::span<const int> ranks);

  /// Collective over the survivors, also after a failure: a new communicator without the ranks that
  /// the survivors agree are dead or have left this one. Ranks keep their order. Ends this rank's
  /// operations on this communicator; when it returns, no survivor writes to anybody's memory on
  /// its behalf any more.
  ///
  /// All survivors that return from the n-th shrink() of one communicator have agreed on the same
  /// members. A rank that dies meanwhile may be among them: then the new communicator fails
  /// with PeerLost wherever it was returned already, and calling shrink() on that one meets those
  /// who are still in this call. Throws Timeout (the set-up deadline) naming a rank that is alive
  /// and does not call shrink(), or that cannot be reached although its process runs: nobody goes
  /// on without it, because it might go on without them. It may be called again, and goes on where
  /// it was. Of ranks on other hosts only the connection is known: one that breaks counts as a
  /// death, so after a partition each side may go on by itself.
  Communicator shrink();

  /// Ends every operation of this communicator here, with Aborted, and tells the others; when it
  /// had failed before, they are told of that failure. Always returns, from any thread. Afterwards
  /// only shrink(), subset() and destruction are allowed.
  void abort();

  /// The failure that made this communicator unusable, if one did.
  std::optional<Error> asyncError() const;

  /// Several lines: members with the transports by which they are reached, on memory of the host
  /// and, where they work on GPUs, there; and the recent operations of both with their algorithms.
  std::string describe() const;

  struct Impl;
  explicit Communicator(std::shared_ptr<Impl> impl);

 private:
  friend class Group;
  friend struct communicator::Inspection;
  std::shared_ptr<Impl> impl_;
};

/// Memory that belongs to no communicator, zeroed and aligned to pages. Zero bytes give a Memory
/// with a null pointer. Throws OutOfMemory naming the bytes.
Memory allocateShareable(size_t bytes);

/// Between construction and end() the calls that this thread issues, on any communicators,
/// are collected; end() starts them together, so that calls on several communicators of one thread
/// cannot wait for each other. Where calls on several communicators share a stream of a GPU, all
/// ranks name these communicators in the same order. Where the calls on one communicator name
/// several streams of a GPU, each of them is behind what is on all of these, and before what comes
/// next there; of captured ones all are in one graph (InvalidUsage). Groups nest: the outermost
/// end() starts everything. Arguments are checked by the call itself; a call that throws is not
/// part of the group. Buffers must last until the outermost end() has returned, or the stream has
/// run it; a stream may be destroyed before. Groups of one thread are destroyed in the reverse
/// order of their construction.
class Group {
 public:
  Group();
  /// Calls end() when it was not called. When an exception thrown since its construction unwinds
  /// the stack, the calls collected since then, by it and by groups inside it, are dropped instead:
  /// they were never made, and the communicators stay usable.
  ~Group() noexcept(false);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Returns when the calls without a stream are complete, and throws the first failure among them
  /// once all have ended. Throws InvalidUsage when called twice, and when its sends and receives
  /// cannot be right: then none of its calls was made.
  void end();
  /// Instead of end(): the calls are dropped, as if they had never been made. How long they would
  /// take, as the chooser predicts it; of an inner group nothing, and its calls stay with the outer
  /// one. Throws InvalidUsage as end() does.
  std::chrono::duration<double, std::micro> predict();

 private:
  size_t first_;    // calls that the thread had collected before
  int exceptions_;  // in flight at construction
  bool open_ = true;
};

}  // namespace tutti
