#include "src/bootstrap/wire/setup_connection.h"

#include <array>

namespace tutti::bootstrap {

SetupConnection::SetupConnection(wire::HandshakeConnection connection, Side side)
    : connection_(std::move(connection)), side_(side) {
  if (connection_.authenticated()) openFrames();
}

void SetupConnection::advance(const wire::PollSet& set) {
  connection_.advance(set);
  if (connection_.authenticated() && !reader_) openFrames();
  if (reader_ && set.happened(fd()) != 0) readFrames();
}

void SetupConnection::openFrames() {
  const wire::Key& session = connection_.handshake().sessionKey();
  const bool connecting = side_ == Side::Connecting;
  const wire::Key toRendezvous = wire::directionKey(session, "to the rendezvous");
  const wire::Key fromRendezvous = wire::directionKey(session, "from the rendezvous");
  writer_.emplace(connecting ? toRendezvous : fromRendezvous);
  reader_.emplace(connecting ? fromRendezvous : toRendezvous,
                  connecting ? kMaxTableBytes : kMaxArrivalBytes);
}

void SetupConnection::readFrames() {
  std::array<std::byte, 16384> buffer;
  while (const size_t count = connection_.receive(buffer)) {
    reader_->feed(std::span(buffer).first(count));
    if (count < buffer.size()) return;
  }
}

void SetupConnection::send(const SetupMessage& message) {
  TUTTI_ASSERT(writer_, "not authenticated");
  base::Bytes payload = encode(message);
  connection_.send(writer_->seal({}, payload));
  connection_.send(payload);
}

std::optional<SetupMessage> SetupConnection::receive() {
  if (!reader_) return std::nullopt;
  const std::optional<Frame> frame = reader_->next();
  if (!frame) return std::nullopt;
  return decodeSetupMessage(frame->message.payload);
}

}  // namespace tutti::bootstrap
