#pragma once

// What a launch of the kernel is given, and what it tells when it has given up. Nothing in it
// changes from launch to launch of the same call, so a graph may hold it.

#include <cstdint>

#include "src/executor/kernel/program.h"
#include "transports/p2p/links.h"

namespace tutti::executor::kernel {

/// One of blocks that differ in size: plan::Block, and how it is cut.
struct BlockCode {
  uint64_t offset, bytes, chunkBytes, sliceBytes;
};

/// How a plan is bound to a count and a type: plan::PlanShape. Where blocks differ in size, the
/// largest one's; RankArguments::blocks has each. `slices` replicas of the plan run side by side,
/// each on its own bytes of every chunk, `sliceBytes` from the one before.
struct ShapeCode {
  uint64_t blockBytes, chunkBytes, sliceBytes;
  uint64_t rounds;
  uint32_t divisions, slices;
  uint8_t manyIn, manyOut;  ///< where blocks differ: the buffer has all, or the rank's own alone
};

/// Element types and reductions have the numbers of tutti::DataType and tutti::ReduceOp.
struct Arithmetic {
  uint8_t type, op;
  uint8_t deterministic;  ///< every addition rounds to the type
  uint8_t reduces;        ///< results are sums
  uint8_t readsScalar;    ///< PreMulSum's scalar is an element in memory
  union {
    double scalar;
    const void* scalarAt;
  };
};

enum class StopReason : uint32_t {
  None,
  Aborted,   ///< the abort word was set
  Mismatch,  ///< a message of another call, or of another size, has come
  Deadline,  ///< something was waited for longer than is allowed
  Poisoned,  ///< a peer has given up and said so
  Lost,      ///< the host says that messages no longer get to another one, or from there
};

/// What the host tells all lanes at once: nothing, by 0, or why they must end, and because of whom
/// (-1: of no peer).
constexpr uint32_t stopWord(StopReason reason, int peer) {
  return static_cast<uint32_t>(reason) << 24 | static_cast<uint32_t>(peer + 1);
}

/// In pinned memory; written once, by the lane that gives up first.
struct Report {
  uint32_t written;  ///< 1 when all the rest is there
  StopReason reason;
  int32_t peer;  ///< waited for, or whose message it was; -1: another lane of this rank
  uint32_t lane, step;
  uint64_t round;
  uint64_t bytesArrived;                               ///< of this lane, in messages
  uint32_t callHash, operation, bytes;                 ///< what was expected
  uint32_t theirCallHash, theirOperation, theirBytes;  ///< of a mismatch
};

enum class EdgeKind : uint32_t { Send, Receive, Self };

/// All transfers of one rank to another, in order; each slice of them is a lane.
struct EdgeCode {
  EdgeKind kind;
  int32_t peer;
  uint32_t firstTransfer, transfers;
};

/// `slices` lanes have `sliceBytes` of it each, the last the rest. Messages have its
/// transferKey(): `callHash`, and the lower half of `bytes`.
struct TransferCode {
  const unsigned char* from;  ///< null where it is received
  unsigned char* to;          ///< null where it is sent
  uint64_t bytes, sliceBytes;
  uint32_t slices, callHash;
};

/// Sends and receives: tables in pinned memory. A message by LL goes ahead of those in slots.
struct ExchangeCode {
  const EdgeCode* edges;
  const TransferCode* transfers;
  transports::p2p::P2pLink* quickLinks;  ///< of LL
  uint32_t edgeCount, mostSlices;
  uint32_t quickBytes, slotBytes;  ///< payload of a message
  uint64_t quickStride;
};

/// A short call that is performed at once (one_shot_device.cuh).
struct OneShotCode {
  const unsigned char* credits;  ///< of the wire's first channel, by peer, kLine apart
};

/// What a rank's launches tell the host of themselves, those of graphs too; in pinned memory.
struct Counts {
  uint64_t begun = 0;        ///< 2 * launches that have begun, + 1 where the last is a collective
  uint64_t completed = 0;    ///< launches that have ended; those that failed have not
  uint32_t collectives = 0;  ///< of these, modulo 2^32
  uint32_t failed = 0;       ///< 1 when all lanes have left a call in which one has given up
};

/// One call of a rank.
struct RankArguments {
  uint32_t rank, ranks;
  const ProgramHeader* program;
  transports::p2p::P2pLink* links;        ///< of the launch's wire
  transports::p2p::P2pLink* simpleLinks;  ///< those to other hosts, whatever the launch's wire
  uint32_t linksPerSlice;                 ///< a replica has so many channels times ranks for itself
  uint8_t isReplayed;                     ///< of a graph: nobody has an event behind the launch
  uint8_t isOneShot;                      ///< by LL, where `oneShot` may be used
  uint16_t next;  ///< Arguments::rank of the call behind this one; 0: it is the last
  const transports::p2p::P2pPeer* peers;
  transports::p2p::RankWords* words;
  uint64_t* progress;        ///< of each lane: operation << 32 | steps of all rounds that are done
  const uint32_t* stopWord;  ///< pinned
  Report* report;            ///< pinned
  const unsigned char* in;
  unsigned char* out;
  unsigned char* scratch;
  const BlockCode* blocks;  ///< pinned: a table of the launch; null where blocks are equal
  uint32_t* tableEnded;     ///< pinned: set when the launch's table is not read any more, or null
  Counts* counts;           ///< pinned
  ShapeCode shape;
  union {
    ExchangeCode exchange;  ///< instead of a program
    OneShotCode oneShot;
  };
  Arithmetic arithmetic;
  uint32_t callHash;
  uint16_t firstBlock;  ///< of the launch's blocks
  uint16_t lanes;       ///< of the rank in this launch, those that have no part in this call too
};

inline constexpr uint32_t kMostMergedCalls = 16;

struct Arguments {
  uint32_t ranks;  ///< whose first calls are at the beginning of `rank`, in the order of blocks
  uint32_t threadsPerLane;  ///< a multiple of 32
  uint32_t lanesPerBlock;
  uint32_t mostPorts;  ///< of a step, over all ranks
  uint32_t slotCount;  ///< of the wire: a power of two
  uint32_t sharedBytesPerLane;
  // Room in each lane's shared memory; 0: they stay where they are. That of programs is also for
  // what peers send to a call that is performed at once.
  uint32_t sharedBlocks, sharedProgramBytes, sharedLinks;
  uint32_t looksEvery;                ///< spins between looks at who has given up, and at the clock
  uint64_t slotStride, simpleStride;  ///< of the wire; of Simple
  uint64_t deadlineNs;
  RankArguments rank[kMostMergedCalls];
};
static_assert(sizeof(Arguments) <= 4096, "arguments of a kernel");

/// More would leave a thread fewer registers than the folds need.
inline constexpr uint32_t kMostThreadsPerBlock = 512;

/// Where an operand of a step lies; in shared memory, two sets of them for each lane.
struct Operand {
  unsigned char* at;
  uint32_t flag;           ///< in a slot of LL or LL128: the message's number
  uint16_t inSlot : 1;     ///< of LL or LL128
  uint16_t isScaled : 1;   ///< an input that is premultiplied
  uint16_t alignment : 5;  ///< 16, or the element's size, or 1
  int16_t peer;            ///< of a slot
};
static_assert(sizeof(Operand) == 16);

/// What a lane asks in every step: of the rank, or copies in shared memory.
struct LaneTables {
  const ProgramHeader* program;
  const transports::p2p::P2pLink* links;  ///< of the lane's slice
  const BlockCode* blocks;
};

/// Who stops is set in one phase of a step and read behind the barrier that ends it.
struct alignas(16) LaneShared {
  uint32_t number;  ///< of the lane within its rank
  uint32_t call;    ///< under way: Arguments::rank
  uint32_t stoppedWaiting, stoppedMoving;
  unsigned long long bytesArrived;
  uint64_t began;  ///< the call, by ptx::globalTimer()
  LaneTables tables;
  LaneCode code;
  double scalar;     ///< PreMulSum's
  uint32_t entries;  ///< RankWords::entries
  uint32_t isOver;   ///< when the call began
};
static_assert(sizeof(LaneShared) == 96);

/// Two sets of operands, then blocks, links and the program.
constexpr uint32_t sharedBytesPerLane(uint32_t mostPorts, uint32_t blocks = 0, uint32_t links = 0,
                                      uint32_t programBytes = 0) {
  return static_cast<uint32_t>(sizeof(LaneShared) + 2 * mostPorts * sizeof(Operand) +
                               blocks * sizeof(BlockCode) +
                               links * sizeof(transports::p2p::P2pLink) + programBytes);
}

}  // namespace tutti::executor::kernel
