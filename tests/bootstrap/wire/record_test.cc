// Records after the handshake: nothing can be changed, repeated, left out or reflected.

#include "src/bootstrap/wire/record.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::bootstrap {
namespace {

constexpr size_t kLimit = 100;

class Records : public testing::Test {
 protected:
  base::Bytes seal(const std::string& text) { return writer_.seal(std::as_bytes(std::span(text))); }
  /// The next payload; "" where there is none, and the reason where it is refused.
  std::string next(RecordReader& reader) {
    try {
      const auto record = reader.next();
      return record ? std::string(reinterpret_cast<const char*>(record->data()), record->size())
                    : "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Refused);
      return error.what();
    }
  }

  const wire::Key key_ = wire::randomBytes<32>();
  RecordWriter writer_{key_, RecordDirection::ToRendezvous};
  RecordReader reader_{key_, RecordDirection::ToRendezvous, kLimit};
};

TEST_F(Records, ComeInOrderAndWhole) {
  const std::vector<std::string> texts{"one", std::string(kLimit, 'x'), "three"};
  std::vector<std::string> found;
  for (const std::string& text : texts)
    for (const std::byte byte : seal(text)) {
      reader_.feed({&byte, 1});
      if (const std::string payload = next(reader_); !payload.empty()) found.push_back(payload);
    }
  EXPECT_EQ(found, texts);
  const base::Bytes four = seal("four"), five = seal("five");
  reader_.feed(four);
  reader_.feed(five);
  EXPECT_EQ(next(reader_), "four");
  EXPECT_EQ(next(reader_), "five");
  EXPECT_EQ(next(reader_), "");
}

TEST_F(Records, OfNoBytesAreRecordsToo) {
  reader_.feed(seal(""));
  const auto record = reader_.next();
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->empty());
}

TEST_F(Records, ThatWereChangedAreRefused) {
  const base::Bytes good = seal("a payload");
  for (size_t at = sizeof(uint32_t); at < good.size(); ++at) {
    RecordReader reader(key_, RecordDirection::ToRendezvous, kLimit);
    base::Bytes changed = good;
    changed[at] ^= std::byte{1};
    reader.feed(changed);
    EXPECT_EQ(next(reader), "record 0 of a set-up connection is not authentic") << "byte " << at;
  }
}

TEST_F(Records, ThatAreRepeatedOrLeftOutAreRefused) {
  const base::Bytes first = seal("first"), second = seal("second");
  reader_.feed(first);
  reader_.feed(first);
  EXPECT_EQ(next(reader_), "first");
  EXPECT_EQ(next(reader_), "record 1 of a set-up connection is not authentic");
  RecordReader late(key_, RecordDirection::ToRendezvous, kLimit);
  late.feed(second);
  EXPECT_EQ(next(late), "record 0 of a set-up connection is not authentic");
}

TEST_F(Records, AreNotReflectedNorOfAnotherSession) {
  const base::Bytes record = seal("a payload");
  RecordReader reflected(key_, RecordDirection::FromRendezvous, kLimit),
      other(wire::randomBytes<32>(), RecordDirection::ToRendezvous, kLimit);
  for (RecordReader* reader : {&reflected, &other}) {
    reader->feed(record);
    EXPECT_EQ(next(*reader), "record 0 of a set-up connection is not authentic");
  }
}

TEST_F(Records, ThatAreTooLongAreRefusedByTheirLength) {
  const uint32_t size = kLimit + 1;
  reader_.feed(std::as_bytes(std::span(&size, 1)));
  EXPECT_EQ(next(reader_), "a record of 101 bytes is over the limit of 100");
}

}  // namespace
}  // namespace tutti::bootstrap
