#pragma once

// What the ranks of a communicator tell each other by the control plane: one struct per message,
// with write() and read(). read() throws Refused, naming the field, for what no rank of the
// communicator sends. Values: they belong to whoever has them.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <tutti/error.h>

#include "src/base/bytes.h"
#include "src/communicator/gpu/gpu_join.h"
#include "src/communicator/recorder.h"
#include "src/communicator/settings.h"
#include "src/executor/host/host_operation.h"

namespace tutti::communicator::message {

/// As they go over the wire.
enum class MessageType : uint32_t {
  Hello,
  Ready,
  Inquiry,
  Status,
  Failure,
  Goodbye,
  View,
  Decision,
  Gpu,
  Window
};
inline constexpr size_t kTypes = 10;

/// From whom a message comes.
struct Origin {
  int peer = 0, size = 1;
};

/// What must be equal on all ranks, beside the addresses. With the descriptors of both addresses.
/// Set-up reads it, and not the monitor.
struct HelloMessage {
  static constexpr MessageType kType = MessageType::Hello;
  bool deterministic = false;
  std::string algorithm;
  std::string transport;
  std::string network;  // between hosts
  uint32_t signals = 0;
  uint64_t algorithmFile = 0;     // its digest; 0: there is none
  std::string algorithmFilePath;  // on the sender; may differ
  base::Bytes tuning;             // rank 0's counts
  base::Bytes address;
  base::Bytes gpu;              // its address for the peer; empty without one
  uint32_t gpuDescriptors = 0;  // of that address, the last of all

  static HelloMessage of(const Settings& settings, const std::string& network);
  std::string wishes() const;
  std::string algorithmFileText() const;
  base::Bytes write() const;
  static HelloMessage read(const base::Bytes& payload);
};

/// The sender has come to the next point of set-up at which all wait for all.
struct ReadyMessage {
  static constexpr MessageType kType = MessageType::Ready;
  bool readsMemory = false;  ///< of all other ranks of its host

  base::Bytes write() const;
  static ReadyMessage read(const base::Bytes& payload, Origin from);
};

/// Why a rank tells another what it calls: it waits for that one or has got its message, on the
/// host; it has got somebody's message on a GPU; or waits there, it does not know for whom.
enum class Inquirer : uint8_t { Host, Gpu, GpuWaiting };

/// What the sender calls. All ranks number collectives alike and can compare them.
struct InquiryMessage {
  static constexpr MessageType kType = MessageType::Inquiry;
  Inquirer by = Inquirer::Host;
  uint64_t sequence = 0;  // 0: of an exchange, whose number says nothing
  CallFacts facts;

  static InquiryMessage about(const Recorder::Entry& entry, Inquirer by);
  base::Bytes write() const;
  static InquiryMessage read(const base::Bytes& payload, Origin from);
};

/// What a rank that is inquired after is doing.
enum class Activity : uint8_t { Nothing, Collective, Exchange };

/// A rank's answer to an inquiry of the host.
struct StatusMessage {
  static constexpr MessageType kType = MessageType::Status;
  uint64_t sequence = 0;  ///< of the collective that it is in, or of the last that it has done
  Activity activity = Activity::Nothing;
  int32_t waitingFor = -1;

  bool operator==(const StatusMessage&) const = default;
  std::string describe() const;
  base::Bytes write() const;
  static StatusMessage read(const base::Bytes& payload, Origin from);
};

/// The sender's communicator has failed.
struct FailureMessage {
  static constexpr MessageType kType = MessageType::Failure;
  ErrorCode code = ErrorCode::Internal;
  std::string text;

  base::Bytes write() const;
  static FailureMessage read(const base::Bytes& payload, Origin from);
};

/// The sender leaves, after so many collectives.
struct GoodbyeMessage {
  static constexpr MessageType kType = MessageType::Goodbye;
  uint64_t collectives = 0;
  uint64_t onGpu = 0;

  base::Bytes write() const;
  static GoodbyeMessage read(const base::Bytes& payload, Origin from);
};

/// Whom the sender takes for dead in a round of a vote; its first one also says that it shrinks.
struct ViewMessage {
  static constexpr MessageType kType = MessageType::View;
  uint64_t collectives = 0;
  uint32_t vote = 0, round = 0;
  std::set<int> dead;

  base::Bytes write() const;
  static ViewMessage read(const base::Bytes& payload, Origin from);
};

/// What a vote has come to.
struct DecisionMessage {
  static constexpr MessageType kType = MessageType::Decision;
  uint32_t vote = 0;
  std::set<int> dead;

  base::Bytes write() const;
  static DecisionMessage read(const base::Bytes& payload, Origin from);
};

/// The state of the sender's GPU. With the descriptors of its address.
struct GpuMessage {
  static constexpr MessageType kType = MessageType::Gpu;
  GpuState state;

  base::Bytes write() const { return state.write(); }
  static GpuMessage read(const base::Bytes& payload, Origin from) {
    return {GpuState::read(payload, from.size)};
  }
};

/// About windows, and the endpoint of one-sided calls.
struct WindowMessage {
  static constexpr MessageType kType = MessageType::Window;
  enum class Kind : uint8_t {
    Join,    ///< the sender's address, with its descriptors
    Ready,   ///< the sender has connected to the receiver
    Sends,   ///< the sender is about to send
    Opened,  ///< the sender has a buffer in a window
    Closed   ///< it has given that back
  };
  Kind kind = Kind::Join;
  uint64_t window = 0;
  uint64_t bytes = 0;
  bool ofGpu = false;
  uint64_t gpuAddress = 0;           ///< of the buffer, for ranks of the sender's process
  executor::WindowPlace place = {};  ///< of a buffer of the host
  /// The sender's, to join; of a GPU's buffer what other processes open it by, or empty.
  base::Bytes address = {};

  base::Bytes write() const;
  static WindowMessage read(const base::Bytes& payload, Origin from);
};

}  // namespace tutti::communicator::message
