#pragma once

/// \file
/// A communicator: a fixed group of ranks, and the collectives among them. This is the main header
/// of the library. The other headers of include/tutti define the types of its arguments.
///
/// \par Threads
/// One thread at a time may use a communicator. Any thread may call abort(), asyncError() and
/// describe() at any time. Different communicators are independent, even if they have ranks in
/// common: different threads may use them at the same time.
///
/// \par Order
/// All ranks issue the same collectives on a communicator in the same order. If ranks disagree,
/// they throw an Error of code Mismatch that prints both sides. A rank checks a message before it
/// reads the data. So neither side delivers data of a rank that disagrees.
///
/// If a call throws Mismatch, its `recv` holds what it held before, with these exceptions:
///
/// - AllGather, Gather, AllToAll and AllToAllV may have received blocks of ranks that agree.
/// - Broadcast and Scatter may have received their payload from ranks that agree.
/// - Scan may have received sums from ranks that agree.
/// - A group may have completed the transfers before the one that differs.
///
/// A rank that needs nothing from the rank that disagrees may return from the call with a correct
/// result. It then throws in a later call. Examples are the root of a Broadcast and the leaves of a
/// Reduce.
///
/// \par Failure
/// If an operation fails, its communicator fails: every later call throws the same Error. The
/// contents of the recv buffers are then undefined, except after a Mismatch as described above.
///
/// After a failure, other ranks may still write to this memory:
///
/// - Memory of allocate(), until the communicator is shrunk or the memory is released. Ranks that
///   have not heard of the failure may write there.
/// - Buffers of calls on GPU streams, until the communicator is destroyed. GPUs of the same process
///   may write there.
///
/// Other ranks never write to any other memory. Ranks of one host may read the buffers of a call
/// until it returns.
///
/// \par Completion
/// Without a stream (the default) a call returns when its buffers may be used again. With a stream
/// it returns at once, and the work runs in stream order. If the work on a host stream fails, the
/// stream's synchronize() and the communicator's next call throw. The work on a GPU stream ends in
/// any case; only the communicator's next call and asyncError() report its failure.
///
/// \par Devices
/// The buffers of a call decide where it runs: on the host if they are host memory, and on this
/// rank's GPU if all of them are memory of that GPU. Pinned host memory goes with both. The buffers
/// of all ranks must be of one kind. A CUDA stream must belong to this rank's GPU, and takes memory
/// that this GPU can address. A host stream takes host memory.
///
/// Anything else throws InvalidArgument and names the argument: memory of another GPU, managed
/// memory, or send and recv that do not go together. A communicator without a GPU does not ask CUDA
/// about its buffers.
///
/// \par Kernels
/// On GPUs a call is one kernel on the stream. The kernel waits there for the kernels of the other
/// ranks. If ranks of several processes share a GPU, or CommunicatorOptions::gpuCopies is set, a
/// call consists of copies and waits on streams of the library instead. Nothing may keep this work
/// from running, so follow these rules:
///
/// - Ranks of one process on one GPU need a stream each. These streams must not wait for each
///   other, and must not outnumber CUDA_DEVICE_MAX_CONNECTIONS.
/// - Or put the calls of these ranks into one Group: its calls on one stream share a launch.
///   Without a group, a collective behind the same collective of another rank on one stream throws
///   InvalidUsage. So does a receive behind the send that it waits for, or a send behind its
///   receive.
/// - Do not free GPU memory while another rank's kernel waits on that GPU for this rank's next
///   call: cudaFree() waits for all kernels.
///
/// User-defined reductions throw Unsupported on GPUs. If the GPUs of the ranks are not connected,
/// every call throws Unsupported and says why.
///
/// Between GPUs of one process, kernels access the buffers of the other ranks. The first call on
/// memory of a CUDA memory pool, or of cuMemCreate(), opens that memory to the other ranks' GPUs. A
/// pool is opened as a whole.
///
/// \par Graphs
/// Calls can be captured into CUDA graphs. Replays and calls of a rank count in the order in which
/// they are launched. If a process has more communicators than a GPU has room for at the same time,
/// the calls of the last ones take turns there. Then launch the calls of these communicators in the
/// same order on all GPUs.
///
/// \par Fork and exit
/// A forked child must not use communicators of its parent: calls throw InvalidUsage. A child may
/// call exec, as it inherits no descriptor. When a communicator is destroyed, it tells the other
/// ranks that this rank has left. So does a process that ends by exit() or from main(), after its
/// exit handlers and static objects. A process that ends in another way counts as dead.

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

#include <tutti/arguments.h>
#include <tutti/buffer.h>
#include <tutti/device.h>
#include <tutti/error.h>
#include <tutti/reduction.h>
#include <tutti/types.h>
#include <tutti/window.h>

namespace tutti {

namespace communicator {
struct Inspection;  // internal
}

/// Names one job: address, port, job id and a secret. It is opaque, and as large as ncclUniqueId.
/// Whoever has it may join the job, so pass it through private channels only.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  /// Who can join with the id: only ranks of this host, or ranks of other hosts too.
  enum class Reach { Host, Network };
  /// Makes an id and listens for its job in this process, for as long as set-up may last. It
  /// listens on a Unix socket. With Network it also listens on the interface that TUTTI_INTERFACE
  /// names, or on one that leads to other hosts. On a host without such an interface, Network means
  /// Host.
  static UniqueId create(Reach reach = Reach::Network);
  /// Derives an id from `address`, "host:port". Every process derives the same id. Rank 0 listens
  /// there when it joins. With TUTTI_JOB_KEY set, ranks meet by TCP. Without it, only ranks of this
  /// host and user can join. Throws InvalidArgument.
  static UniqueId at(const std::string& address);
  /// 256 hexadecimal digits.
  std::string toHex() const;
  /// Throws InvalidArgument if `hex` is not 256 hexadecimal digits, or not an id of this version.
  static UniqueId fromHex(const std::string& hex);
  bool operator==(const UniqueId&) const = default;
};

/// Options of Communicator::create() and createLocal().
struct CommunicatorOptions {
  /// The job to join, with `rank` and `size`. Without `id`, all three come from the launcher's
  /// environment (tutti run, torchrun and others); see docs/reference/environment.md.
  std::optional<UniqueId> id = {};
  int rank = -1;
  int size = -1;

  std::chrono::milliseconds setupTimeout{0};  ///< 0: TUTTI_SETUP_TIMEOUT_MS, else 2 minutes
  std::chrono::milliseconds timeout{0};  ///< of one operation; 0: TUTTI_TIMEOUT_MS, else 10 minutes
  /// An operation that has waited this long for one rank reports that rank, and keeps waiting. 0:
  /// TUTTI_STRAGGLER_MS, else 5 s.
  std::chrono::milliseconds straggler{0};
  /// Deterministic mode: reductions evaluate the aligned binary tree over ranks, and round at every
  /// node. The result has the same bits for every transport and message split. Also
  /// TUTTI_DETERMINISTIC=1.
  bool deterministic = false;
  /// Forces one algorithm, if it exists for the collective and the ranks' hosts: "ring",
  /// "double_tree", "recursive", "one_shot", "two_shot", "pairwise", "hierarchical", "mapped",
  /// "attached", or "file", the plan of `algorithmFile`. Between hosts it may have a number of
  /// channels, as in "ring/2". Also TUTTI_ALGORITHM. Must be the same on all ranks.
  std::string algorithm = {};
  /// A file with a plan of yours, as `tutti plan --json FILE` writes it. It is proved before
  /// anything runs, and then serves each call that it is made for, unless the call names an
  /// algorithm; the name "file" in `algorithm` forces it like any other. create() throws
  /// InvalidArgument naming what is wrong with the file. Empty: TUTTI_ALGORITHM_FILE, else none.
  /// The plan must be the same on all ranks; the path may differ.
  std::string algorithmFile = {};
  /// The transport between all ranks: "shm", "tcp" or "ucx"; or "shm+tcp" or "shm+ucx": shared
  /// memory on one host, and the other between hosts. Empty: "shm+ucx" if all hosts have RDMA, else
  /// "shm+tcp". Also TUTTI_TRANSPORT. Must be the same on all ranks.
  std::string transport = {};
  /// Seals what "tcp" sends between hosts: nobody on the way can read or change it. Not set:
  /// TUTTI_ENCRYPTION, else off. Must be the same on all ranks. "ucx" refuses it (Unsupported).
  std::optional<bool> encryption = {};
  /// A secret that all ranks have been given by another way than the job's key, of any length.
  /// Connections of "tcp" are proved by it too. Empty: none. Must be the same on all ranks.
  std::string preSharedKey = {};
  /// This rank's device. With a GPU, calls may use buffers in its memory as well as on the host.
  /// create() throws Unsupported, and says why, if there is no such device.
  Device device = {};
  /// The most thread blocks that this rank's kernels may have. The other blocks of the GPU stay
  /// free for the program's kernels. 0: TUTTI_GPU_BLOCKS, else 32. The smallest value of all ranks
  /// holds for all. split(), subset() and shrink() keep it.
  int gpuBlocks = 0;
  /// Calls on GPUs use copies and waits on streams in the place of kernels, which leaves the
  /// multiprocessors to the program. Only reductions take kernels, and these never wait. It has no
  /// effect if ranks are on several hosts. If one rank sets it, it holds for all. Also
  /// TUTTI_GPU_COPIES=1. It is always on if ranks of several processes share a GPU.
  bool gpuCopies = false;
  /// For createLocal(): the device of each rank. Empty: `device` for all.
  std::vector<Device> devices = {};
  /// Signals of one-sided calls, from each rank to each: 1 to 65536. Must be the same on all ranks.
  int signals = 1;
  /// A stop request soon ends create() with Aborted, here and on the ranks that wait for this one.
  std::stop_token stop = {};
};

/// Arguments of Communicator::grow().
struct GrowArgs {
  int size = 0;                     ///< of the new communicator: more than that of this one
  std::optional<UniqueId> id = {};  ///< of growId(), on the rank that has called it; else nothing
  /// A stop request ends grow() with Aborted, on all ranks, once all existing ranks have called it.
  std::stop_token stop = {};
};

/// A prepared call: its arguments are checked and its plan is chosen once, and it can be started
/// many times. The buffers must live as long as the prepared call does. Only the thread that uses
/// the communicator may use it. While it lives, this rank does not count as having left the
/// communicator, even if the communicator is destroyed.
class PreparedCall {
 public:
  ~PreparedCall();
  PreparedCall(PreparedCall&&) noexcept;
  PreparedCall& operator=(PreparedCall&&) noexcept;
  /// Makes the call, exactly as the method of Communicator with these arguments does. It takes its
  /// place in the order of the communicator's calls, and may be on a stream or in a group.
  void start(StreamRef stream = {});

 private:
  friend class Communicator;
  struct Impl;
  explicit PreparedCall(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Bytes that a communicator has on its rank.
struct CommunicatorMemory {
  uint64_t host = 0;    ///< slots in memory of the host
  uint64_t device = 0;  ///< slots, programs and scratch memory on its GPU
};

/// A communicator that has given its memory back. It moves; it does not copy. To destroy it is to
/// leave the job, as a communicator does.
class SuspendedCommunicator {
 public:
  ~SuspendedCommunicator();
  SuspendedCommunicator(SuspendedCommunicator&&) noexcept;
  SuspendedCommunicator& operator=(SuspendedCommunicator&&) noexcept;

  /// Makes the communicator again: the same ranks and settings. Collective. Call it once. Throws
  /// PeerLost if a rank has died or left, Timeout after the set-up timeout, and Aborted after
  /// a request to stop.
  class Communicator resume(std::stop_token stop = {});

 private:
  friend class Communicator;
  struct Impl;
  explicit SuspendedCommunicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A fixed group of ranks, and the collectives among them. Communicators move; they do not copy.
/// The top of this header has the rules about threads, order, failure, completion and devices.
class Communicator {
 public:
  /// Joins a job. Collective over all ranks of the job. Throws Refused, Timeout, InvalidArgument or
  /// System, and leaves nothing behind then.
  static Communicator create(const CommunicatorOptions& options = {});

  /// Makes `size` ranks inside this process, one for each thread that you run. It needs no
  /// launcher. `options.rank`, `options.size` and `options.id` are ignored.
  static std::vector<Communicator> createLocal(int size, const CommunicatorOptions& options = {});

  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;  ///< 0 to size() - 1
  int size() const;  ///< number of ranks
  /// The host of each rank. Hosts are numbered from 0 in order of appearance.
  const std::vector<int>& hosts() const;
  /// This rank's device, as in the options.
  Device device() const;
  /// True in deterministic mode, by the option or by TUTTI_DETERMINISTIC.
  bool deterministic() const;

  /// \name Collectives
  /// All ranks call them. A collective throws InvalidArgument if its arguments cannot be right: a
  /// null pointer, an overlap, a wrong root, or a count beyond memory. It throws InvalidUsage after
  /// fork. In both cases the call was not made, and the communicator stays usable.
  ///
  /// It throws Mismatch, Timeout, PeerLost, Aborted, OutOfMemory or Internal if it fails, here or
  /// on another rank. Every later call throws the same. With a stream, the stream's synchronize()
  /// throws these errors; in a group, the group's end() does.
  /// @{
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
  /// @}

  /// \name Sends and receives
  /// Only the two ranks of a transfer call. Between two ranks, sends and receives match in order,
  /// and both ranks must issue their collectives, sends and receives in the same order.
  ///
  /// A call outside of a group returns when it is done. A send is done when its buffer may be used
  /// again, which may be before the receiver has the data. A long send waits for its receiver.
  ///
  /// In a group, all sends and receives are in flight at once, on one stream, after the group's
  /// collectives. So any pattern of transfers works. On GPUs there is a limit: if a rank has more
  /// peers than its blocks have lanes for, all ranks must be in their groups at the same time.
  ///
  /// Types or counts that differ throw Mismatch, even with no elements. A receive buffer must not
  /// overlap another buffer of the same call or group: this throws InvalidArgument, in a group from
  /// end(). If a rank has left, the ranks that still need it throw PeerLost.
  /// @{
  void send(const SendArgs& args, StreamRef stream = {});
  void receive(const ReceiveArgs& args, StreamRef stream = {});
  /// Collective: a send to and a receive from each rank.
  void allToAllV(const AllToAllVArgs& args, StreamRef stream = {});
  /// @}

  /// \name Prepared calls
  /// Each prepares the call with these arguments, to be started later and many times (a persistent
  /// operation). Not collective. Throws InvalidArgument as the call would. Name the arguments'
  /// type, as in `prepare(AllReduceArgs{.send = x, .recv = y})`.
  /// @{
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
  PreparedCall prepare(const PutArgs& args);
  PreparedCall prepare(const SignalArgs& args);
  PreparedCall prepare(const WaitSignalsArgs& args);
  /// @}

  /// \name One-sided calls, which tutti/window.h explains
  /// @{
  /// `buffer` has a size, as a span and `{pointer, count}` have; null is a buffer of no bytes.
  /// Throws InvalidArgument otherwise.
  Window window(MutableBuffer buffer);
  void put(const PutArgs& args, StreamRef stream = {});
  void signal(const SignalArgs& args, StreamRef stream = {});
  void waitSignals(const WaitSignalsArgs& args, StreamRef stream = {});
  /// @}

  /// Allocates memory that the other ranks on this host can address. Not collective. ~Memory
  /// releases it; the memory and the communicator may be destroyed in any order. Zero bytes give a
  /// Memory with a null pointer. Throws OutOfMemory, which names the bytes.
  Memory allocate(size_t bytes);

  /// Lets the other ranks on this host address memory of allocateShareable(). Any number of
  /// communicators may share the same memory. The result is the same memory, and keeps it alive;
  /// sharing ends with the result. Throws InvalidArgument for memory of another kind.
  Memory share(const Memory& memory);

  /// Collective. Ranks of equal `color` form a new communicator, ordered by (key, rank). A rank
  /// with a negative color joins none and gets nullopt.
  std::optional<Communicator> split(int color, int key);

  /// Makes a new communicator of `ranks`. Collective over `ranks` alone; the other ranks do not
  /// call. `ranks` is in ascending order and contains this rank.
  ///
  /// It also works after a failure or abort(). In that case, when it returns, no operation of this
  /// communicator runs any more on any of `ranks`. Unlike shrink() it does not look for dead ranks:
  /// it throws PeerLost if one of `ranks` is dead.
  Communicator subset(std::span<const int> ranks);

  /// Makes a new communicator of the survivors, also after a failure. Collective over the
  /// survivors. It leaves out the ranks that the survivors agree are dead or have left this
  /// communicator. Ranks keep their order. It ends this rank's operations on this communicator.
  /// When it returns, no survivor writes to another rank's memory for this communicator any more.
  ///
  /// All survivors that return from the n-th shrink() of one communicator have agreed on the same
  /// members. A rank that dies meanwhile may be among them. Then the new communicator fails with
  /// PeerLost on the ranks that have it already. When they call shrink() on it, they meet the ranks
  /// that are still in this call.
  ///
  /// Throws Timeout after the set-up timeout. The error names a rank that is alive and does not
  /// call shrink(), or that cannot be reached although its process runs. No rank goes on without
  /// it, because it might go on without them. You may call shrink() again; it continues where it
  /// was.
  ///
  /// Of ranks on other hosts only the connection is known: if it breaks, the rank counts as dead.
  /// So after a network partition each side may go on by itself.
  Communicator shrink();

  /// Makes the id by which new ranks join this communicator's ranks in grow(). One of the ranks
  /// calls it, which has the rendezvous then. The program gives the id to the new ranks. It serves
  /// one grow(), and is good for one set-up timeout from this call on. Throws InvalidUsage if an
  /// id of an earlier call can still be used.
  UniqueId growId(UniqueId::Reach reach = UniqueId::Reach::Network);

  /// Makes a new communicator of this one's ranks and of new ones. Collective over this
  /// communicator. New ranks call create() with the id, their rank and the new size, which may be
  /// before or after. Existing ranks keep their rank. New ranks have those from size() to
  /// args.size - 1, and options that agree with those of this communicator. A new rank may be a
  /// thread or a process, on any host that reaches the others.
  ///
  /// This communicator stays as it is, and both can be used.
  ///
  /// All ranks, existing and new, succeed or get an Error, within the set-up timeout. It names the
  /// ranks that are missing, have failed or do not agree:
  ///
  /// - Mismatch: existing ranks give different sizes, or two give an id.
  /// - Refused: a new rank has another size, or the number of an existing rank.
  /// - PeerLost: a rank died, or left.
  /// - Timeout: ranks have not come.
  /// - Aborted: a request to stop, or abort() of this communicator.
  ///
  /// This communicator stays usable after such an error, unless an existing rank was lost or has
  /// aborted it. It fails, as in a collective, if an existing rank makes another call or does not
  /// call grow() within the set-up timeout.
  Communicator grow(const GrowArgs& args);

  /// Gives this communicator's memory back, on the host and on its GPU, until resume(). All ranks
  /// do it, and none waits for another. No operation of it may be under way; graphs of its calls
  /// are replayed no more. Prepared calls, and graphs, keep the memory until they are destroyed.
  /// Throws InvalidUsage in a group, and the communicator's failure.
  SuspendedCommunicator suspend() &&;

  /// What this communicator has now.
  CommunicatorMemory memory() const;

  /// Ends every operation of this communicator on this rank, with Aborted, and tells the other
  /// ranks. If the communicator had failed before, the other ranks hear of that failure instead.
  /// Any thread may call it, and it always returns. Afterwards only shrink(), subset() and
  /// destruction are allowed.
  void abort();

  /// The failure that made this communicator unusable, or nothing.
  std::optional<Error> asyncError() const;

  /// Several lines about the members and the recent operations. Members are listed with the
  /// transports to them, for host memory and, with GPUs, for GPU memory. Operations are listed with
  /// their algorithms, on the host and on the GPU. One-sided calls are listed while they are under
  /// way, with the rank that they wait for.
  std::string describe() const;

  struct Impl;
  explicit Communicator(std::shared_ptr<Impl> impl);

 private:
  friend class Group;
  friend struct communicator::Inspection;
  std::shared_ptr<Impl> impl_;
};

/// Allocates memory that belongs to no communicator; Communicator::share() makes it addressable for
/// other ranks. It is zeroed and aligned to pages. Zero bytes give a Memory with a null pointer.
/// Throws OutOfMemory, which names the bytes.
Memory allocateShareable(size_t bytes);

/// Collects the calls that this thread issues between construction and end(), on any communicators.
/// end() starts them together, so calls on several communicators of one thread cannot wait for each
/// other.
///
/// \par Nesting
/// Groups nest: the outermost end() starts everything. Destroy the groups of one thread in the
/// reverse order of their construction.
///
/// \par Arguments and buffers
/// Each call checks its own arguments. A call that throws is not part of the group. Buffers must
/// last until the outermost end() has returned; with a stream, until the stream has run the call. A
/// stream may be destroyed earlier.
///
/// \par GPU streams
/// If calls on several communicators share a GPU stream, all ranks must issue calls on these
/// communicators in the same order. The calls on one communicator may name several GPU streams.
/// Each call then runs after the earlier work of all these streams, and before their later work. If
/// such streams are captured, all must be in one graph; otherwise Tutti throws InvalidUsage.
class Group {
 public:
  Group();
  /// Calls end() if it was not called. If an exception thrown since construction unwinds the stack,
  /// it drops the calls of this group and of groups inside it instead. Dropped calls were never
  /// made, and the communicators stay usable.
  ~Group() noexcept(false);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Starts the calls. Returns when the calls without a stream are complete; if one fails, it
  /// throws the first failure after all have ended. Throws InvalidUsage if called twice, or if the
  /// sends and receives cannot be right; then no call of the group was made.
  void end();
  /// Use it instead of end(): it drops the calls, as if they had never been made, and returns how
  /// long they would take by the chooser's prediction. The other ranks are taken to have memory of
  /// this rank's kind. For an inner group it returns zero, and the calls stay with the outer group.
  /// Throws InvalidUsage as end() does.
  std::chrono::duration<double, std::micro> predict();

 private:
  size_t first_;    // calls that the thread had collected before
  int exceptions_;  // in flight at construction
  bool open_ = true;
};

}  // namespace tutti
