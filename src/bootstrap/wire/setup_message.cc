#include "src/bootstrap/wire/setup_message.h"

#include <algorithm>

namespace tutti::bootstrap {
namespace {

constexpr size_t kMaxTextBytes = 2048;
constexpr size_t kLeastArrivalBytes = 16;  // more than enough to refuse a count that cannot be

struct Writer {
  base::ByteWriter& out;
  void operator()(const Arrival& arrival) {
    write(out, arrival.info);
    write(out, arrival.listening);
    out.put(arrival.network.has_value());
    if (arrival.network) write(out, *arrival.network);
    out.put(arrival.ticket);
  }
  void operator()(const Table& table) {
    out.put(static_cast<uint32_t>(table.ranks.size()));
    for (const Arrival& arrival : table.ranks) (*this)(arrival);
  }
  void operator()(const SetupProgress& progress) {
    out.put(progress.text.substr(0, kMaxTextBytes));
  }
  void operator()(const Connected&) {}
  void operator()(const Complete&) {}
  void operator()(const Failure& failure) {
    out.put(failure.code).put(failure.text.substr(0, kMaxTextBytes));
  }
};

Arrival readArrival(base::ByteReader& in) {
  Arrival arrival;
  arrival.info = readPeerInfo(in);
  arrival.listening = wire::readAddress(in);
  if (in.getFlag("network")) arrival.network = wire::readAddress(in);
  const base::Bytes ticket = in.getBytes("ticket", arrival.ticket.size());
  if (ticket.size() != arrival.ticket.size())
    base::fail(ErrorCode::Refused, "a ticket of ", ticket.size(), " bytes");
  std::ranges::copy(ticket, arrival.ticket.begin());
  return arrival;
}

Table readTable(base::ByteReader& in, size_t bytes) {
  const auto count = in.get<uint32_t>("rank count");
  if (count < 1 || count > kMaxWorldSize || count > bytes / kLeastArrivalBytes)
    base::fail(ErrorCode::Refused, "a table of ", count, " ranks in ", bytes, " bytes");
  Table table;
  table.ranks.reserve(count);
  for (uint32_t i = 0; i < count; ++i) table.ranks.push_back(readArrival(in));
  return table;
}

Failure readFailure(base::ByteReader& in) {
  Failure failure;
  failure.code = in.getEnum("error code", ErrorCode::InvalidArgument, ErrorCode::Internal);
  failure.text = in.getString("error text", kMaxTextBytes);
  return failure;
}

SetupMessage readBody(uint8_t kind, base::ByteReader& in, size_t bytes) {
  switch (kind) {
    case 0: return readArrival(in);
    case 1: return readTable(in, bytes);
    case 2: return SetupProgress{in.getString("progress", kMaxTextBytes)};
    case 3: return Connected{};
    case 4: return Complete{};
    case 5: return readFailure(in);
    default: base::fail(ErrorCode::Refused, "set-up message kind ", int{kind}, " is unknown");
  }
}

}  // namespace

base::Bytes encode(const SetupMessage& message) {
  base::ByteWriter out;
  out.put(static_cast<uint8_t>(message.index()));
  std::visit(Writer{out}, message);
  return out.take();
}

SetupMessage decodeSetupMessage(std::span<const std::byte> bytes) {
  base::ByteReader in(bytes);
  const auto kind = in.get<uint8_t>("message kind");
  SetupMessage message = readBody(kind, in, bytes.size());
  in.requireEnd();
  return message;
}

}  // namespace tutti::bootstrap
