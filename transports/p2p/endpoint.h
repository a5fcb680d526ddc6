#pragma once

// One rank's end of p2p: device memory that its peers write to, and theirs as it is seen from here,
// over NVLink or PCIe or inside one device. The executor's kernel moves the data; here the memory
// is made, exchanged and tried out.
//
// Set-up: every rank makes its endpoint, hands address() to each peer, and calls connect(p, address
// from p). Then all probe, and tell each other what they found: who was found to lie is
// disconnected at both ends. Ranks of one process may use connectInProcess(), which does all that.
// Peers that do not reach each other, or whose bytes arrive wrong, are joined by memory of the
// host: each end makes its own for all such peers by openHostMemory(), hands hostAddress() to them,
// and calls connectByHost(p, that of p). The kernel and the copies are the same. Peers on other
// hosts need no address: connectThroughHost(p) makes the memory that stands for them, and somebody
// has to pass on what the kernel puts there.

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/base/bytes.h"
#include "transports/connection.h"
#include "transports/p2p/host_memory.h"
#include "transports/p2p/memory_layout.h"
#include "transports/p2p/owned_memory.h"
#include "transports/p2p/probe.h"

namespace tutti::transports::p2p {

/// How other processes get at an endpoint's memory.
enum class P2pHandles : uint8_t {
  Ipc,         ///< cudaMalloc()'s, by bytes in its address
  Descriptors  ///< virtual memory's, by a file descriptor beside its address
};

class P2pEndpoint {
 public:
  /// `firstMessage`: number of the last message before the first; 0 unless a test starts near the
  /// wrap. Throws System where the memory cannot be had, naming bytes and device.
  P2pEndpoint(int device, int rank, int size, const P2pLayout& layout, uint32_t firstMessage = 0,
              P2pHandles handles = P2pHandles::Ipc);
  ~P2pEndpoint();
  P2pEndpoint(const P2pEndpoint&) = delete;
  P2pEndpoint& operator=(const P2pEndpoint&) = delete;

  int device() const { return device_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  const P2pLayout& layout() const { return layout_; }

  /// With one descriptor where they are its handles.
  EndpointAddress address() const;
  /// The peer's handles may be others than this one's. Throws Refused when the address is
  /// malformed, its layout differs from ours, or it is of an endpoint of this process that is gone.
  /// A pair that cannot be joined is not connected, and reason() says why.
  void connect(int peer, const base::Bytes& address,
               std::span<const base::FileDescriptor> descriptors = {});
  /// Joins a peer on another host, by pinned memory of this one, and by memory of the device for
  /// the payloads of messages that reach to `directBytes` or beyond. Throws System where it cannot
  /// be had.
  void connectThroughHost(int peer, uint32_t directBytes = kNoMessage);
  bool isConnected(int peer) const { return there_[peer] != nullptr || isThroughHost(peer); }
  bool isThroughHost(int peer) const { return hosted_[peer] != nullptr; }

  /// Makes the memory of the host that `peers`, in order, write to. They are not connected. Once.
  /// Throws OutOfMemory, or System, where it cannot be had.
  void openHostMemory(std::vector<int> peers);
  bool hasHostMemory() const { return inbox_ != nullptr; }
  /// With one descriptor, which processes other than this one need.
  EndpointAddress hostAddress() const;
  /// The peer is one of those. Throws Refused as connect() does, OutOfMemory or System where its
  /// memory cannot be mapped.
  void connectByHost(int peer, const base::Bytes& address,
                     std::span<const base::FileDescriptor> descriptors = {});
  /// The peer's memory and this rank's are of the host.
  bool isByHost(int peer) const { return byHost_[peer].memory != nullptr; }

  /// Addresses mean the same here and there, and kernels may use them.
  bool sharesProcess(int peer) const {
    return peer == rank_ || (!isOpened(peer) && !isThroughHost(peer) && !isByHost(peer));
  }
  /// `peer` is another process on this device: without MPS their kernels take turns there, so that
  /// none may wait for one of the other's. Copies may.
  bool takesTurns(int peer) const { return takesTurns_[peer]; }
  /// Why `peer` is not connected; empty when it is.
  const std::string& reason(int peer) const { return reasons_[peer]; }
  void disconnect(int peer, const std::string& reason);

  /// The pairs that are connected now are not probed again.
  void keepPairs();
  bool isKept(int peer) const { return isKept_[peer]; }
  /// Writes patterns, by a kernel, to all connected peers that are not kept and do not take turns
  /// with this rank, and looks at what they wrote. All ranks do it at the same time, each with the
  /// same number, which is new. Does not wait. Where `isOver` becomes other than 0, which is pinned
  /// and outlives the endpoint, what has not come counts as late.
  void startProbe(uint32_t number, uint64_t deadlineNs, const uint32_t* isOver = nullptr);
  /// Waits for it. By peer: what is wrong with what came from there, or nothing.
  std::vector<std::string> finishProbe();
  /// In words; nothing where there is none.
  std::string faultOf(int peer, const ProbeFinding& finding) const;

  /// The probe's, for others when that has ended: each stream takes a queue of the device, of which
  /// there are few.
  cudaStream_t stream() const { return stream_; }

  /// Throws PeerLost naming the peers that are not connected, and why.
  void requireConnected() const;
  /// As requireConnected(), of kernels that wait for each other: of peers that take turns too.
  void requireTogether() const;

  unsigned char* memory() const { return memory_->data(); }
  /// What this rank has for messages with a peer; of its device where they are not connected.
  PairMemory here(int peer) const;
  /// What a connected peer has for them.
  PairMemory there(int peer) const;
  /// Those of this rank: of its device and, where some peers write there, of the host.
  std::vector<uint32_t*> copyPoisons() const;

  // Of a peer through the host: what the kernel uses, in pinned memory, and what it stores its rank
  // + 1 to when it has given up. And the memory of the device, null where there is none.
  P2pLink hostLink(int peer, int channel) const;
  std::shared_ptr<const DeviceMemory> directMemory(int peer) const { return hosted_[peer]->direct; }
  uint32_t* hostPoison(int peer) const;

  /// What this rank has on its device, and in memory of the host for those that do not reach it.
  uint64_t memoryBytes() const;
  uint64_t hostMemoryBytes() const { return inbox_ ? inbox_->memory->bytes() : 0; }

  // For the kernel, in device memory.
  P2pLink* links(Wire wire) const;
  /// Of the first channel, by peer, kLine apart.
  const unsigned char* credits(Wire wire) const;
  const P2pPeer* peers() const;
  RankWords* words() const { return memory_->as<RankWords>(); }

 private:
  void publish();  // the tables, as they are now
  void putLocal(base::Bytes& image, int peer) const;
  void putRemote(base::Bytes& image, int peer) const;
  template <class Value>
  void put(base::Bytes& image, const Value* at, const Value& value) const;
  std::string reasonApart(int peer) const;
  void requireNone(const std::vector<std::string>& reasons) const;
  unsigned char* open(int peer, const base::Bytes& address,
                      std::span<const base::FileDescriptor> descriptors);
  unsigned char* openIpc(int peer, const base::Bytes& handle);
  unsigned char* openShared(int peer, const base::FileDescriptor& exported, size_t bytes);
  unsigned char* apart(int peer, const std::string& why);  // null
  unsigned char* hold(int peer, int device, uint64_t start);
  void closeHostMemory();

  const int device_, rank_, size_;
  const P2pLayout layout_;
  const MemoryLayout offsets_;
  const uint32_t firstMessage_;
  // Held by connected ranks of this process too: a kernel of theirs may return a credit when this
  // endpoint is gone.
  std::shared_ptr<DeviceMemory> memory_;
  DeviceMemory tables_;
  std::vector<unsigned char*> there_;                // by peer: its memory as it is seen from here
  std::vector<std::shared_ptr<DeviceMemory>> held_;  // of those in this process
  using Opened = std::variant<std::monostate, device::IpcMemory, device::VirtualMemory>;
  bool isOpened(int peer) const { return opened_[peer].index() != 0; }
  std::vector<Opened> opened_;    // of other processes
  std::vector<bool> takesTurns_;  // such a one on this device
  std::vector<bool> isKept_;
  // Of the host, for peers that do not reach the device, by their places in the list.
  struct Inbox {
    std::vector<int> peers;
    MemoryLayout offsets;
    std::shared_ptr<HostMemory> memory;
  };
  std::unique_ptr<Inbox> inbox_;
  struct Outbox {
    std::shared_ptr<HostMemory> memory;
    std::unique_ptr<MemoryLayout> offsets;
    int self = 0, peer = 0;  // this rank's place there, and the peer's in the inbox
  };
  std::vector<Outbox> byHost_;
  struct Hosted {
    explicit Hosted(size_t bytes) : memory(bytes) {}
    PinnedMemory<unsigned char> memory;
    std::shared_ptr<DeviceMemory> direct;
    uint32_t directBytes = kNoMessage;
  };
  std::vector<std::unique_ptr<Hosted>> hosted_;  // of another host
  std::vector<std::string> reasons_;
  DeviceMemory pairs_;
  PinnedMemory<ProbeFinding> findings_;
  cudaStream_t stream_ = nullptr, probeStream_ = nullptr;
};

/// Connects all endpoints, which are all the ranks of a communicator, in the order of ranks, and
/// probes every pair.
void connectInProcess(std::span<P2pEndpoint* const> endpoints, uint64_t probeDeadlineNs);
/// Its second half: a pair that either end found to lie is disconnected at both.
void probeInProcess(std::span<P2pEndpoint* const> endpoints, uint64_t deadlineNs);

}  // namespace tutti::transports::p2p
