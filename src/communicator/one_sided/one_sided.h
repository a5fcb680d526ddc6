#pragma once

// OneSided: a communicator's windows, and the signals that other ranks have sent to this one.
//
// A put is either a copy straight to the peer's buffer, where this rank can address it, or messages
// that the peer's process applies. The signal is a message in both cases, so that it comes behind
// the data. Messages go over an endpoint of their own, with one ring for each direction.
//
// Whoever drives a one-sided call receives and applies messages meanwhile. Besides, one work on a
// stream of the process's progress engine does so, from the first window of any rank until the last
// is gone: so a target needs to make no call.
//
// Set-up is part of window(), which does not wait. A rank's first window makes its endpoint and
// tells the others its address (Join); who has one too connects and says so (Ready); a rank that
// is about to send for the first time says that it Sends, so that its ring is looked at.
//
// `mutex_` protects the endpoint, this rank's buffers and the counts. Whoever moves data holds it,
// for a bounded number of bytes, and looks first whether the communicator has failed: after
// quiet() nothing of a failed one is written. What other ranks have told of their buffers is
// protected by FailureState's lock, as Peers has it, so that one can wait for it. `mutex_` may be
// taken before that lock, and never after it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/device.h>

#include "src/base/process.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/messages.h"
#include "src/communicator/one_sided/one_sided_call.h"
#include "src/communicator/peers.h"
#include "src/communicator/settings.h"
#include "src/device/host_stream.h"
#include "src/executor/host/host_operation.h"
#include "src/executor/host/operation.h"
#include "transports/connection.h"

namespace tutti::device {
class StreamGate;
}

namespace tutti::communicator {

/// In each message's slot, where collectives have their fingerprint.
inline constexpr uint32_t kOneSidedMark = 0x1051ded5;
/// What a one-sided message begins with; the payload of a put follows.
struct OneSidedHeader {
  uint64_t window = 0;  ///< 0: none
  uint64_t offset = 0;
  uint32_t signal = 0;  ///< its number plus one; 0: more of this put follows
  uint32_t reserved = 0;
};
static_assert(sizeof(OneSidedHeader) == 24);

class OneSidedService;

class OneSided {
 public:
  /// Enters the handler of Window.
  OneSided(const Membership& who, const Settings& settings, RankLinks& links, Messages& messages,
           FailureState& failure, Peers& peers, GpuBackend& gpu);
  ~OneSided();

  /// A rank's buffer in one window.
  struct Buffer {
    std::byte* data = nullptr;  ///< of another rank: in its process, of its GPU; else null
    uint64_t bytes = 0;
    bool ofGpu = false;
    executor::WindowPlace place = {};  ///< in memory that local ranks have mapped
    base::Bytes exported = {};         ///< what other processes open memory of a GPU by
    bool given = false;                ///< given back
  };

  // The issuing thread's.
  /// The next window, with this rank's buffer. Tells the others.
  uint64_t open(void* data, uint64_t bytes, bool ofGpu);
  void close(uint64_t window);
  /// Waits until `rank` has opened it, too. Throws Timeout, or the failure.
  Buffer bufferOf(int rank, uint64_t window) const;
  /// Where this rank can address it, or null.
  std::shared_ptr<std::byte> addressOf(int rank, const Buffer& buffer) const;
  /// Slots of its endpoint, in memory of the host.
  uint64_t memoryBytes() const;
  /// Whether this rank ever had a window, and has one now.
  bool hasWindows() const;
  bool hasBuffers() const;
  /// Those of one host. All ranks say the same.
  bool gpusAddressEachOther() const;

  // Whoever drives a call.
  /// Does what can be done without waiting. Throws the failure.
  executor::Poll advance(const OneSidedCall& call, OneSidedProgress& progress);
  /// The rank that it waits for now, or -1.
  static int waitsFor(const OneSidedCall& call, const OneSidedProgress& progress);
  /// Of a call that goes, perhaps without its end.
  void forget(OneSidedProgress& progress);
  /// The calls that have begun and are not over, a line each.
  std::string describe() const;
  /// Takes a call over: the progress engine drives it. On any thread; calls nothing of CUDA.
  void post(std::unique_ptr<device::Work> work);
  /// The service's: one round. False when there is nothing left to serve.
  bool serve(bool& moved);

  // The end of the communicator.
  /// The progress engine's, whose call may be the last owner: the end of the communicator waits for
  /// streams, one of which waits for the gate of that call.
  void opensAtItsEnd(std::weak_ptr<device::StreamGate> gate);
  void openGate();
  /// After a failure: nothing is written any more when it returns.
  void quiet() const { const std::lock_guard lock(mutex_); }
  /// The same without a wait: whether nothing moves just now.
  bool isQuiet() const { return std::unique_lock(mutex_, std::try_to_lock).owns_lock(); }
  /// Null before the first window.
  transports::Endpoint* endpoint() const;

 private:
  struct Link {
    std::optional<transports::EndpointAddress> address;  // told before this rank had an endpoint
    bool connected = false;                              // this rank with the peer's
    bool ready = false;                                  // the peer with this one's
    bool told = false;                                   // that this rank sends
    bool sends = false;                                  // the peer does
  };

  void hear(int peer, message::WindowMessage told, std::vector<base::FileDescriptor> descriptors);
  void hearOfBuffer(int peer, const message::WindowMessage& told);

  std::shared_ptr<std::byte> onGpu(int rank, const Buffer& buffer) const;
  /// Of this rank's buffer on its GPU; empty where the driver refuses it.
  base::Bytes exported(const void* data) const;

  // All with the lock.
  void makeEndpoint();
  void connect(int peer);
  void serveFromNowOn();
  /// Receives and applies; true when something has moved.
  bool move();
  bool receive();
  void apply(int peer, transports::ReceiveRing& ring);
  void noteBreak(const transports::ConnectionLost& lost);
  void noteBreak(int peer, const Error& what);
  void lookAtBreaks();
  void write(const OneSidedHeader& header, int from, const std::byte* data, uint64_t bytes,
             bool dataOfGpu);
  void claim(const OneSidedCall& call, OneSidedProgress& progress);
  void unlist(OneSidedProgress& progress);
  bool isOver(const SignalWait& wait, const OneSidedProgress& progress) const;
  bool send(const Put& put, OneSidedProgress& progress);
  bool sendMessage(const Put& put, OneSidedProgress& progress);
  bool isReady(int peer);
  size_t counter(int peer, uint32_t signal) const {
    return static_cast<size_t>(peer) * settings_.signals + signal;
  }

  void copy(void* to, const void* from, uint64_t bytes, bool onGpu) const;

  const Membership& who_;
  const Settings& settings_;
  RankLinks& links_;
  Messages& messages_;
  FailureState& failure_;
  Peers& peers_;
  GpuBackend& gpu_;

  mutable std::mutex mutex_;
  std::unique_ptr<transports::Endpoint> endpoint_;
  std::vector<Link> ranks_;
  std::map<uint64_t, Buffer> own_;           // by window
  uint64_t opened_ = 0;                      // windows of this rank, ever
  int64_t alive_ = 0;                        // buffers, of all ranks, that are not given back
  std::vector<uint64_t> arrived_, claimed_;  // signals, by counter()
  std::map<int, std::pair<Error, int64_t>> breaks_;  // by peer: what, and since when
  // Where whoever drives them has them.
  std::vector<std::pair<const OneSidedCall*, const OneSidedProgress*>> underWay_;
  std::weak_ptr<device::StreamGate> gate_;  // of the call that let go of the communicator last
  const std::shared_ptr<OneSidedService> service_;
  std::optional<Stream> stream_;  // of the service; with the endpoint

  std::map<std::pair<int, uint64_t>, Buffer> theirs_;  // by peer and window; the failure's lock
};

}  // namespace tutti::communicator
