// Lines of ranks on their way to the launcher's output: whole, prefixed, in bounded memory.

#include "src/launch/line_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tutti::launcher {
namespace {

using base::FileDescriptor;

/// A file in memory as the launcher's output, and a pipe as a rank's.
class Relay : public testing::Test {
 protected:
  Relay() : out_(memfd_create("out", 0)), err_(memfd_create("err", 0)) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    write_ = FileDescriptor(ends[1]);
    outlets_.emplace(out_.get(), err_.get());
    relay_.emplace(FileDescriptor(ends[0]), 7, 0, *outlets_, tail_);
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      const size_t bytes = std::min<size_t>(text.size(), 4096);
      ASSERT_EQ(write(write_.get(), text.data(), bytes), static_cast<ssize_t>(bytes));
      text.remove_prefix(bytes);
      relay_->read();
      outlets_->flush();
    }
  }
  /// What has been written to the launcher's output so far.
  std::string written() {
    outlets_->flush();
    std::string text(lseek(out_.get(), 0, SEEK_END), '\0');
    EXPECT_EQ(pread(out_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

  FileDescriptor out_, err_, write_;
  Tail tail_;
  std::optional<Outlets> outlets_;
  std::optional<LineRelay> relay_;
};

TEST_F(Relay, PassesWholeLinesOnly) {
  send("one\ntw");
  EXPECT_EQ(written(), "[7] one\n");
  send("o\n\nthree");
  EXPECT_EQ(written(), "[7] one\n[7] two\n[7] \n");
  write_.reset();
  relay_->read();
  EXPECT_FALSE(relay_->open());
  EXPECT_EQ(written(), "[7] one\n[7] two\n[7] \n[7] three\n");
}

TEST_F(Relay, BreaksALineOnlyBeyondTheLimit) {
  const std::string limit(kMaxLineBytes, 'x');
  send(limit + "\n" + limit + "y\nend\n");
  EXPECT_EQ(written(), "[7] " + limit + "\n[7] " + limit + "\n[7]+y\n[7] end\n");
}

TEST_F(Relay, HoldsAtMostOneLineOfAnEndlessOne) {
  for (int i = 0; i < 16; ++i) {
    send(std::string(kMaxLineBytes, 'z'));
    EXPECT_LE(outlets_->pendingBytes(), 0u);
    EXPECT_EQ(written().size(), i * (kMaxLineBytes + 5));
  }
}

TEST_F(Relay, KeepsTheLastLines) {
  for (int i = 0; i < 25; ++i) send("line " + std::to_string(i) + "\n");
  ASSERT_EQ(tail_.lines().size(), kTailLines);
  EXPECT_EQ(tail_.lines().front(), "line 15");
  EXPECT_EQ(tail_.lines().back(), "line 24");
  send(std::string(kMaxLineBytes, 'x') + "\n");
  EXPECT_EQ(tail_.lines().back().size(), kTailLineBytes);
}

TEST(Outlets, WaitForAReaderWithoutBlocking) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  FileDescriptor reader(ends[0]), writer(ends[1]);
  std::optional<Outlets> outlets(std::in_place, writer.get(), writer.get());
  const std::string line(999, 'q');
  while (!outlets->full()) {
    outlets->add(0, line + "\n");
    outlets->add(1, line + "\n");
    outlets->flush();  // returns although nobody reads
  }
  std::string text, buffer(1 << 16, '\0');
  while (outlets->pendingBytes() > 0) {
    text.append(buffer.data(), read(reader.get(), buffer.data(), buffer.size()));
    outlets->flush();
  }
  outlets.reset();
  writer.reset();
  for (ssize_t bytes; (bytes = read(reader.get(), buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), bytes);
  ASSERT_EQ(text.size() % 1000, 0u);
  for (size_t i = 0; i < text.size(); i += 1000) ASSERT_EQ(text.substr(i, 1000), line + "\n") << i;
}

}  // namespace
}  // namespace tutti::launcher
