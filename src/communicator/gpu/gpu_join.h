#pragma once

// Joins a rank's GPU with its peers' at set-up. No header of CUDA is needed here: with the toolkit
// it is in cuda/, without it gpu_absent.cc answers.
//
// Every rank sends each peer its address(); connect() of each; then all ranks tell each other their
// state(), hear() what the others say, probe, tell each other once more, and makeReady(). Where
// pairs turn out to be apart, ranks joinByHost() before that, and probe these. A fault anywhere
// keeps all ranks from working on GPUs, and all know of it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tutti/device.h>

#include "src/base/bytes.h"
#include "src/communicator/gpu/gpu_rank.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// What a rank tells the others of its GPU: how many blocks it has there, and what is in the way of
/// working with whom; under its own number what keeps it from working with anybody.
struct GpuState {
  uint32_t blocks = 0;
  bool byCopies = false;              ///< calls are to be copies and waits on streams
  base::Bytes address = {};           ///< of GpuJoin::rejoin() or joinByHost()
  std::map<int, std::string> apart;   ///< by peer: why GPUs do not reach each other's memory
  std::map<int, std::string> faults;  ///< by peer

  /// Keeps the first fault with a peer.
  void add(int peer, const std::string& fault) { faults.try_emplace(peer, fault); }
  base::Bytes write() const;
  /// Throws Refused for what no rank of `size` sends.
  static GpuState read(const base::Bytes& bytes, int size);
};

/// As it comes to another rank.
struct ToldGpuState {
  GpuState state;
  std::vector<base::FileDescriptor> descriptors = {};
};

class GpuJoin {
 public:
  struct Options {
    Device device;
    int rank = 0, size = 1;
    int64_t timeoutMs = 0;
    uint32_t mostBlocks = 0;          ///< 0: as many as seem good
    bool byCopies = false;            ///< where no peer is remote
    bool hasOtherProcesses = false;   ///< some of the local peers are of others
    std::vector<bool> isRemote = {};  ///< by peer: not joined on this host but by a network
    bool reachesGpus = false;         ///< that network sends from GPUs' memory, and to it
    /// The transport of those peers, with such rings; called where there are some.
    std::function<std::unique_ptr<transports::Endpoint>(const transports::RingLayout&)> makeRemote =
        {};
  };
  virtual ~GpuJoin() = default;

  virtual transports::EndpointAddress address(int peer) = 0;
  /// Throws Refused for a malformed address. That a peer cannot be joined is a fault.
  virtual void connect(int peer, const transports::EndpointAddress& address) = 0;
  /// After all connect().
  virtual const GpuState& state() = 0;
  /// Of the address in it, for this peer.
  virtual std::vector<base::FileDescriptor> descriptors(int peer) = 0;
  virtual void hear(int peer, const ToldGpuState& theirs) = 0;
  /// When all others were heard, and calls are to be copies: a rank asks for that, or ranks of
  /// several processes share a GPU, where kernels may not wait for each other. This joins all ranks
  /// once more, by addresses in the states that are told next; behind these they tell each other
  /// what has come of it.
  virtual void rejoin() = 0;
  /// Patterns through all pairs, by all ranks at the same time. The first waits for no other rank;
  /// by copies, all have returned from it before the second.
  virtual void startProbe() = 0;
  virtual void finishProbe() = 0;
  /// When all have told what they have found: whether some pair of ranks does not reach each
  /// other's memory, or writes wrong bytes there. The same on all ranks.
  virtual bool hasPairsApart() const = 0;
  /// Then: memory of the host joins these pairs, by addresses in the states that are told next;
  /// behind these ranks tell each other what has come of it, and probe the pairs.
  virtual void joinByHost() = 0;
  /// Where there are no faults. Throws what CUDA refuses.
  virtual std::unique_ptr<GpuRank> makeReady() = 0;
  /// Ends what is under way here. From any thread, at any time.
  virtual void abort() = 0;

  /// On which GPU a rank works, and how this one's messages get there: "on cuda:1 by p2p". Of this
  /// rank itself the GPU alone. After connect().
  virtual std::string describe(int peer) const = 0;
  /// A rank of another process, which writes to memory of this one.
  virtual bool isInOtherProcess(int peer) const = 0;
  /// A rank of this process; where no pair is apart, it addresses this one's GPU memory.
  virtual bool isInThisProcess(int peer) const = 0;
};

/// Throws Unsupported where there is no such device, and OutOfMemory naming the bytes.
std::unique_ptr<GpuJoin> makeGpuJoin(const GpuJoin::Options& options);

}  // namespace tutti::communicator
