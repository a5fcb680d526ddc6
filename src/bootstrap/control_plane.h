#pragma once

// The control plane: small messages, with file descriptors where both ends share a host, between
// the ranks of one job, and the news that a rank has died. Everything at set-up time (addresses,
// windows, agreement) and everything about failure travels here; user data never does.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "src/wire/address.h"

namespace tutti::bootstrap {

/// What is known about a rank since set-up. Ranks share a host when boot id and network namespace
/// are equal and a Unix connection between them succeeded.
struct PeerInfo {
  std::string host;    ///< host name, for messages
  std::string bootId;  ///< and network namespace, see hostId(): equal means the same host
  int64_t pid = 0;
  int cores = 0;                       ///< processors this process may run on
  std::string interface = {};          ///< by which other hosts reach it; empty: by none
  std::string interfaceVariable = {};  ///< what chose that: "TUTTI_INTERFACE"; empty: no variable
  bool hasRdma = false;                ///< RDMA devices that its process may use
  /// Of that interface, with the control plane's port; nothing: other hosts do not reach it.
  std::optional<wire::Address> network = {};
  std::string describe() const;  ///< "pid 4711 on host n1"
};

struct ControlMessage {
  uint64_t channel = 0;  ///< whose message: a communicator's id
  uint32_t type = 0;     ///< meaning is the receiver's
  base::Bytes payload;
  std::vector<base::FileDescriptor> descriptors;
};

/// Limits of one message; send() throws InvalidArgument beyond them.
inline constexpr size_t kMaxPayloadBytes = size_t{16} << 20;
inline constexpr size_t kMaxDescriptors = 8;
/// Limit of a world; checked before anything is allocated for it.
inline constexpr int kMaxWorldSize = 16384;

/// Gets what arrives on one channel. Called from the monitor's thread, never at the same time twice
/// for one listener; it must not block and must not throw.
class ControlListener {
 public:
  virtual ~ControlListener() = default;
  virtual void onMessage(int from, ControlMessage message) = 0;
  /// `peer` is gone for ever. `how` is a clause for messages: "its process ended", "closed its
  /// connection without leaving". Messages that it sent before are delivered first.
  virtual void onPeerLost(int peer, const std::string& how) = 0;
  /// `peer` called leave(): it is gone for ever too, but on purpose. Messages that it sent before
  /// are delivered first.
  virtual void onPeerLeft(int peer) { onPeerLost(peer, "left the job"); }
  /// About every kTick, for deadlines and reports.
  virtual void onTick() = 0;
};

inline constexpr std::chrono::milliseconds kTick{50};

/// One rank's end of the control plane of one job.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const PeerInfo& peer(int rank) const = 0;
  /// Queues a message; never blocks; from any thread, callbacks included. Messages between two
  /// ranks arrive in order. What is sent to a dead rank, or after leave(), is dropped. `to` may be
  /// this rank itself.
  virtual void send(int to, ControlMessage message) = 0;
  /// Messages for a channel that nobody listens on yet are kept until somebody does. A new listener
  /// is told what it missed in the order in which it happened, from the monitor's thread: peers
  /// lost before are therefore reported to it before anything that comes later. May be called from
  /// callbacks. Throws InvalidUsage when the channel has a listener.
  virtual void listen(uint64_t channel, ControlListener* listener) = 0;
  /// After it returns the listener is not called any more, and what still arrives on the channel is
  /// dropped, until somebody listens again. Not from inside a callback (InvalidUsage).
  virtual void ignore(uint64_t channel) = 0;
  /// True when the process of another rank is known to run, also after that rank was lost: then
  /// only the connection with it broke. From any thread.
  virtual bool runs(int rank) const = 0;
  /// Tells the others that this rank leaves on purpose: its end is then not a death.
  virtual void leave() = 0;
  /// Waits until what was sent has left this process, or is not wanted any more, or the deadline
  /// has passed. Where the process ends behind it: else the destructor sees to that.
  virtual void awaitSent(const base::Deadline& deadline) = 0;
};

/// The control planes of `size` ranks in this process, which are each other's threads.
std::vector<std::shared_ptr<ControlPlane>> makeLocalControlPlanes(int size);

}  // namespace tutti::bootstrap
