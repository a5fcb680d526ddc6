#pragma once

// Messages: sends a communicator's control messages, and gives those that come to whoever handles
// their type. It owns the table of handlers. Owners enter their handlers when they are made, before
// anybody listens; then the table is constant, and no lock protects it. dispatch() is the monitor
// thread's. send() may be called on any thread: the control plane orders the messages to one rank.

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/membership.h"
#include "src/communicator/message_types.h"

namespace tutti::communicator {

class Messages {
 public:
  explicit Messages(const Membership& who) : who_(who) {}

  template <class Message>
  void send(int peer, const Message& message, std::vector<base::FileDescriptor> descriptors = {}) {
    send(peer, Message::kType, message.write(), std::move(descriptors));
  }
  /// To all others.
  template <class Message>
  void sendAll(const Message& message) {
    for (int peer = 0; peer < who_.size(); ++peer)
      if (peer != who_.rank()) send(peer, message);
  }

  /// `handle` gets the peer, what it sent, and the descriptors that came along. It may throw
  /// Refused for what the peer cannot send now.
  template <class Message>
  void handle(
      std::function<void(int peer, Message message, std::vector<base::FileDescriptor>)> handler) {
    at(Message::kType) = [this, handler = std::move(handler)](int peer,
                                                              bootstrap::ControlMessage raw) {
      Message message = Message::read(raw.payload, {peer, who_.size()});
      handler(peer, std::move(message), std::move(raw.descriptors));
    };
  }
  /// Unread.
  using Handler = std::function<void(int peer, bootstrap::ControlMessage message)>;
  void handleRaw(message::MessageType type, Handler handler) { at(type) = std::move(handler); }

  /// Throws Refused for a malformed message, and for one of an unknown type.
  void dispatch(int peer, bootstrap::ControlMessage message) const;

 private:
  void send(int peer, message::MessageType type, base::Bytes payload,
            std::vector<base::FileDescriptor> descriptors);
  Handler& at(message::MessageType type) { return handlers_[static_cast<size_t>(type)]; }

  const Membership& who_;
  std::array<Handler, message::kTypes> handlers_;
};

}  // namespace tutti::communicator
