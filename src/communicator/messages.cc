#include "src/communicator/messages.h"

#include "src/base/check.h"

namespace tutti::communicator {

void Messages::send(int peer, message::MessageType type, base::Bytes payload,
                    std::vector<base::FileDescriptor> descriptors) {
  bootstrap::ControlMessage message;
  message.channel = who_.id();
  message.type = static_cast<uint32_t>(type);
  message.payload = std::move(payload);
  message.descriptors = std::move(descriptors);
  who_.control().send(who_.inWorld(peer), std::move(message));
}

void Messages::dispatch(int peer, bootstrap::ControlMessage message) const {
  if (message.type >= handlers_.size())
    base::fail(ErrorCode::Refused, "unknown message ", message.type);
  handlers_[message.type](peer, std::move(message));
}

}  // namespace tutti::communicator
