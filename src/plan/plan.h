#pragma once

// A collective is a value. A PlanSpec says how all ranks together perform one collective; build()
// of its algorithm (collectives/) turns it into each rank's Program: lanes of steps over chunks.
// Programs know neither counts nor addresses: a Shape binds those at launch, so programs are
// cached.
//
// The machine. A rank runs all its lanes at the same time; a lane runs its steps in order, once per
// round. A step waits until the steps it names in `after` are done (in the same round), until every
// channel source has a message and every channel target a free slot; then it reads the sources,
// folds them, and writes the result to all targets. Two ranks are joined by one first-in first-out
// channel per direction and channel number, with `minSlots` slots at least; one message takes one
// slot. A message of no chunks is a signal. Mapped ports address a peer's own buffer.

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/types.h>

namespace tutti::plan {

enum class Collective : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  Gather,
  Scatter,
  AllToAll,
  Scan,
  Barrier
};
inline constexpr int kCollectiveCount = 10;
enum class Algorithm : uint8_t {
  Ring,
  DoubleTree,
  Recursive,
  OneShot,
  TwoShot,
  Pairwise,
  Hierarchical,
  File,  ///< a plan of the user's, read from a file (collectives/algorithm_file.h)
};
/// Those of the library: all but File, which is the last.
inline constexpr int kAlgorithmCount = 7;
/// How bytes move: staged in slots, straight into mapped buffers, or read where they lie by ranks
/// that cannot write there. (LL, LL128 and copy engines are the GPU executors' and join this list
/// with them.)
enum class Protocol : uint8_t { Simple, Mapped, Attached };
enum class Buffer : uint8_t { In, Out, Scratch };

const char* toString(Collective);  ///< "all_reduce", ...
const char* toString(Algorithm);   ///< "ring", "double_tree", "recursive", ...
const char* toString(Protocol);    ///< "simple", "mapped", "attached"
const char* toString(Buffer);      ///< "in", "out", "scratch"
std::optional<Collective> parseCollective(const std::string& name);
std::vector<std::string> collectiveNames();
/// Of those that stage nothing.
std::optional<Protocol> parseProtocol(const std::string& name);
/// The library's, and "mapped" and "attached", which force a protocol.
std::vector<std::string> algorithmNames();

/// True where results are sums over all ranks.
constexpr bool reducesAll(Collective c) {
  return c == Collective::AllReduce || c == Collective::ReduceScatter || c == Collective::Reduce;
}
/// True where results are sums; a rank's Scan is over the ranks up to itself.
constexpr bool isReduction(Collective c) { return reducesAll(c) || c == Collective::Scan; }

/// True where the root alone has an input, and where the root alone has an output.
constexpr bool onlyRootGives(Collective c) {
  return c == Collective::Broadcast || c == Collective::Scatter;
}
constexpr bool onlyRootGets(Collective c) {
  return c == Collective::Reduce || c == Collective::Gather;
}
constexpr bool hasRoot(Collective c) { return onlyRootGives(c) || onlyRootGets(c); }

/// True where an input, and where an output, has a block for every rank. With one of both, in place
/// means that the smaller buffer is the rank's own block of the larger one.
constexpr bool givesBlocks(Collective c) {
  return c == Collective::ReduceScatter || c == Collective::Scatter || c == Collective::AllToAll;
}
constexpr bool getsBlocks(Collective c) {
  return c == Collective::AllGather || c == Collective::Gather || c == Collective::AllToAll;
}

/// One operand of a step: `chunks` chunks from `chunk` on.
struct Port {
  enum class Kind : uint8_t {
    Local,    ///< this rank's `buffer`
    Mapped,   ///< `rank`'s `buffer`, addressed or read from here
    Channel,  ///< as a source: the next message from `rank`; as a target: a message to `rank`
  };
  Kind kind = Kind::Local;
  Buffer buffer = Buffer::In;  ///< unused for channels
  int rank = -1;               ///< unused for Local
  uint32_t chunk = 0;          ///< a channel's chunks say which extents the message carries
  uint32_t chunks = 1;         ///< 0 only in a channel: a signal
  auto operator<=>(const Port&) const = default;
};

constexpr Port local(Buffer buffer, uint32_t chunk, uint32_t chunks = 1) {
  return {Port::Kind::Local, buffer, -1, chunk, chunks};
}
constexpr Port mapped(int rank, Buffer buffer, uint32_t chunk, uint32_t chunks = 1) {
  return {Port::Kind::Mapped, buffer, rank, chunk, chunks};
}
constexpr Port channel(int rank, uint32_t chunk, uint32_t chunks = 1) {
  return {Port::Kind::Channel, Buffer::In, rank, chunk, chunks};
}
constexpr Port signal(int rank) { return {Port::Kind::Channel, Buffer::In, rank, 0, 0}; }

/// How a step's sources become one value.
enum class Fold : uint8_t {
  None,       ///< at most one source with chunks: a copy; signals carry nothing
  Listed,     ///< ((s0 + s1) + s2) + ...
  Canonical,  ///< the aligned binary tree over the list: ((s0 + s1) + (s2 + s3)) + ...
};

struct Dependency {
  uint32_t lane = 0;
  uint32_t step = 0;
  auto operator<=>(const Dependency&) const = default;
};

/// targets = fold(sources), chunk by chunk; all ports with chunks have the same number of them.
struct Step {
  std::vector<Port> sources;
  std::vector<Port> targets;
  Fold fold = Fold::None;
  bool completes = false;  ///< the result is the whole reduction: the division of Avg happens here
  std::vector<Dependency> after;
  bool operator==(const Step&) const = default;
};

/// Steps in order, on one channel number. In the host executor a task, on a GPU a warp group.
struct Lane {
  int channel = 0;
  std::vector<Step> steps;
  bool operator==(const Lane&) const = default;
};

/// One rank's part of a plan.
struct Program {
  std::vector<Lane> lanes;
  bool operator==(const Program&) const = default;
};

/// Which buffers of their peers ranks touch.
struct AccessSet {
  bool in = false;   ///< peers' inputs are read
  bool out = false;  ///< peers' outputs are written or read
  bool any() const { return in || out; }
  bool operator==(const AccessSet&) const = default;
};

/// What all ranks agree on: chosen, printed, hashed, compared. Facts below `hosts` follow from
/// those above; the checker verifies each of them.
struct PlanSpec {
  Collective collective = Collective::AllReduce;
  Algorithm algorithm = Algorithm::Ring;
  Protocol protocol = Protocol::Simple;
  int ranks = 1;
  int root = 0;                ///< otherwise 0
  uint64_t programsHash = 0;   ///< of File, whose programs do not follow from the rest; otherwise 0
  std::vector<int> hosts;      ///< of each rank, as in hosts.h, where the plan depends on them
  int channels = 1;            ///< requested parallelism: channel numbers are 0..channels-1
  uint32_t divisions = 1;      ///< chunks per block; a block is `count` elements
  uint32_t scratchBlocks = 0;  ///< scratch memory of a rank, in blocks of one round
  uint32_t messageChunks = 1;  ///< most chunks that one message carries; 0 when no data is staged
  int minSlots = 1;            ///< slots per channel with which no wait can be circular
  AccessSet mapped;            ///< not empty: all ranks have entered before any step runs
  bool inPlaceSafe = true;
  bool unevenSafe = false;  ///< each step is about the same blocks in all its ports, so that blocks
                            ///< may differ in size
  bool canonicalOrder = false;  ///< the expression is the aligned binary tree over ranks
  bool operator==(const PlanSpec&) const = default;
  uint64_t hash() const;
  std::string describe() const;  ///< one line
};

/// Blocks of a user buffer: `count` elements each.
constexpr uint32_t blocksOf(const PlanSpec& spec, Buffer buffer) {
  switch (buffer) {
    case Buffer::In: return givesBlocks(spec.collective) ? spec.ranks : 1;
    case Buffer::Out: return getsBlocks(spec.collective) ? spec.ranks : 1;
    case Buffer::Scratch: return spec.scratchBlocks;
  }
  return 0;
}
/// Of the larger user buffer.
constexpr uint32_t mostBlocksOf(const PlanSpec& spec) {
  const uint32_t in = blocksOf(spec, Buffer::In), out = blocksOf(spec, Buffer::Out);
  return in > out ? in : out;
}
/// Users give In and Out only to the ranks that have a use for them.
constexpr bool isGiven(const PlanSpec& spec, Buffer buffer, int rank) {
  if (buffer == Buffer::Scratch) return true;
  if (spec.collective == Collective::Barrier) return false;
  const bool atRootOnly =
      buffer == Buffer::In ? onlyRootGives(spec.collective) : onlyRootGets(spec.collective);
  return !atRootOnly || rank == spec.root;
}
/// Chunk number of a block's division. In chunk numbers a block's divisions are neighbours.
constexpr uint32_t chunkOf(const PlanSpec& spec, uint32_t block, uint32_t division) {
  return block * spec.divisions + division;
}

/// Bytes from `offset` in a buffer; may be empty.
struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool operator==(const Extent&) const = default;
};

/// Chunks start at multiples of it within their block: a multiple of every element size.
inline constexpr uint32_t kChunkAlignment = 64;

/// Of the larger buffer of a call that may run without a general operation
/// (executor::ShortProgram). More is worth more than that costs.
inline constexpr uint64_t kMostShortBytes = 64 << 10;

/// Where one rank's block lies in a buffer that has a block for every rank.
struct Block {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
/// Bytes of a buffer with these blocks, up to the end of the last that is not empty.
uint64_t endOf(std::span<const Block> blocks);

/// Binds a plan to a count and a type. Each block's `count` elements are cut into rounds, each
/// round into `divisions` chunks whose starts are aligned within the block; late chunks
/// may be short or empty. Extents depend on the chunk's division alone and are therefore the same
/// at both ends of a message.
///
/// Where blocks differ in size, each is cut into as many rounds and divisions by itself, and a
/// buffer of one block has the rank's own; extents depend on block and division.
class PlanShape {
 public:
  /// `slotBytes` bounds what one message may carry; at least messageChunks * kChunkAlignment.
  PlanShape(const PlanSpec& spec, uint64_t count, size_t elementBytes, size_t slotBytes);
  /// As `rank` sees it, of a plan that is `unevenSafe`; `blocks` by rank.
  PlanShape(const PlanSpec& spec, std::span<const Block> blocks, int rank, size_t slotBytes);

  int64_t rounds() const { return rounds_; }
  /// Where chunk `chunk` of round `round` lies in In, Out or Scratch (scratch is reused by rounds).
  Extent extent(Buffer buffer, uint32_t chunk, int64_t round) const;
  /// Bytes of a chunk of a message.
  uint64_t chunkBytes(uint32_t chunk, int64_t round) const;
  /// Bytes of the `index`th chunk of a port.
  uint64_t chunkBytes(const Port& port, uint32_t index, int64_t round) const;
  uint64_t scratchBytes() const { return scratchBytes_; }
  /// Bytes of a chunk that is neither short nor empty, of the largest block.
  uint64_t fullChunkBytes() const { return chunkBytes_; }
  /// The same of one block where they differ.
  uint64_t fullChunkBytes(uint32_t block) const { return cuts_[block].chunkBytes; }

 private:
  /// How one block is cut.
  struct Cut {
    Block block;
    uint64_t chunkBytes = 0;  // of a full chunk
  };
  void cut(const PlanSpec& spec, uint64_t largestBlock, size_t slotBytes);
  Cut cutOf(Buffer buffer, uint32_t chunk) const;
  Extent division(const Cut& cut, uint32_t chunk, int64_t round) const;  // relative to the block

  uint32_t divisions_;
  uint64_t blockBytes_;      // of every block, or the largest
  uint64_t chunkBytes_ = 0;  // of a full chunk of such a block
  int64_t rounds_ = 1;
  uint64_t scratchBytes_ = 0;
  std::vector<Cut> cuts_;                // by block, where they differ
  bool manyIn_ = true, manyOut_ = true;  // where they differ: the buffer has all blocks
  uint32_t own_ = 0;
};

}  // namespace tutti::plan
