// What a rank and the rendezvous say to each other, as bytes and back.

#include "src/bootstrap/wire/setup_message.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::contains;

Arrival arrivalOf(int64_t pid) {
  return {.info = {.host = "host", .bootId = "boot", .pid = pid, .cores = 8, .interface = "eth0"},
          .listening = wire::randomUnixAddress(),
          .network = wire::resolve("10.0.0.1", 4711),
          .ticket = {std::byte{1}, std::byte{2}}};
}

template <class Message>
Message backAndForth(const Message& message) {
  return std::get<Message>(decodeSetupMessage(encode(message)));
}

std::string refusalOf(const base::Bytes& bytes) {
  try {
    decodeSetupMessage(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    return error.what();
  }
  return "accepted";
}

TEST(SetupMessages, ComeBackAsTheyWere) {
  const Arrival arrival = arrivalOf(42), back = backAndForth(arrival);
  EXPECT_EQ(back.info.host, "host");
  EXPECT_EQ(back.info.pid, 42);
  EXPECT_EQ(back.info.cores, 8);
  EXPECT_EQ(back.info.interface, "eth0");
  EXPECT_EQ(back.listening, arrival.listening);
  EXPECT_EQ(back.network, arrival.network);
  EXPECT_EQ(back.ticket, arrival.ticket);
  Arrival local = arrival;
  local.network.reset();
  EXPECT_FALSE(backAndForth(local).network);
  const Table table = backAndForth(Table{{arrivalOf(1), arrivalOf(2), arrivalOf(3)}});
  ASSERT_EQ(table.ranks.size(), 3U);
  EXPECT_EQ(table.ranks[2].info.pid, 3);
  EXPECT_EQ(backAndForth(SetupProgress{"2 of 3"}).text, "2 of 3");
  const Failure failure = backAndForth(Failure{ErrorCode::Mismatch, "because"});
  EXPECT_EQ(failure.code, ErrorCode::Mismatch);
  EXPECT_EQ(failure.text, "because");
  backAndForth(Connected{});
  backAndForth(Complete{});
}

TEST(SetupMessages, HaveTicketsOfOneLength) {
  base::Bytes bytes = encode(arrivalOf(42));
  bytes[bytes.size() - sizeof(Ticket) - sizeof(uint64_t)] = std::byte{sizeof(Ticket) - 1};
  bytes.pop_back();
  EXPECT_TRUE(contains(refusalOf(bytes), "a ticket of 15 bytes")) << refusalOf(bytes);
}

TEST(SetupMessages, HaveTextsOfBoundedLength) {
  const std::string text(5000, 'x');
  EXPECT_EQ(backAndForth(Failure{ErrorCode::Internal, text}).text, text.substr(0, 2048));
  EXPECT_EQ(backAndForth(SetupProgress{text}).text, text.substr(0, 2048));
}

TEST(SetupMessages, ThatAreCutOffOrTooLongAreRefused) {
  const base::Bytes good = encode(arrivalOf(42));
  EXPECT_EQ(refusalOf(good), "accepted");
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_NE(refusalOf({good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes)}), "accepted")
        << bytes << " bytes";
  base::Bytes longer = good;
  longer.push_back({});
  EXPECT_TRUE(contains(refusalOf(longer), "1 bytes are left")) << refusalOf(longer);
}

TEST(SetupMessages, ThatCannotBeAreNamed) {
  EXPECT_EQ(refusalOf({std::byte{6}}), "set-up message kind 6 is unknown");
  base::Bytes table = encode(Table{{arrivalOf(1)}});
  table[1] = std::byte{0};
  EXPECT_TRUE(contains(refusalOf(table), "a table of 0 ranks")) << refusalOf(table);
  table[3] = std::byte{1};
  EXPECT_TRUE(contains(refusalOf(table), "a table of 65536 ranks")) << refusalOf(table);
  base::Bytes failure = encode(Failure{ErrorCode::Internal, ""});
  failure[1] = std::byte{99};
  EXPECT_TRUE(contains(refusalOf(failure), "error code is 99")) << refusalOf(failure);
}

}  // namespace
}  // namespace tutti::bootstrap
