#include "src/bootstrap/wire/setup_connection.h"

#include <array>

namespace tutti::bootstrap {

SetupConnection::SetupConnection(wire::HandshakeConnection connection, Side side)
    : connection_(std::move(connection)), side_(side) {
  if (connection_.authenticated()) openRecords();
}

void SetupConnection::advance(const wire::PollSet& set) {
  connection_.advance(set);
  if (connection_.authenticated() && !reader_) openRecords();
  if (reader_ && set.happened(fd()) != 0) readRecords();
}

void SetupConnection::openRecords() {
  const wire::Key& key = connection_.handshake().sessionKey();
  const bool connecting = side_ == Side::Connecting;
  const auto own = connecting ? RecordDirection::ToRendezvous : RecordDirection::FromRendezvous;
  const auto theirs = connecting ? RecordDirection::FromRendezvous : RecordDirection::ToRendezvous;
  writer_.emplace(key, own);
  reader_.emplace(key, theirs, connecting ? kMaxTableBytes : kMaxArrivalBytes);
}

void SetupConnection::readRecords() {
  std::array<std::byte, 16384> buffer;
  while (const size_t count = connection_.receive(buffer)) {
    reader_->feed(std::span(buffer).first(count));
    if (count < buffer.size()) return;
  }
}

void SetupConnection::send(const SetupMessage& message) {
  TUTTI_ASSERT(writer_, "not authenticated");
  connection_.send(writer_->seal(encode(message)));
}

std::optional<SetupMessage> SetupConnection::receive() {
  if (!reader_) return std::nullopt;
  const std::optional<base::Bytes> record = reader_->next();
  if (!record) return std::nullopt;
  return decodeSetupMessage(*record);
}

}  // namespace tutti::bootstrap
