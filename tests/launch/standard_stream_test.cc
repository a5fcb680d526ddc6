// A standard stream never waits for who is at its other end, and leaves its flags to who shares it.

#include "src/launch/standard_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/support/child_processes.h"

namespace tutti::launcher {
namespace {

using base::FileDescriptor;

/// Writes until nothing more is taken; its errno. A stream that waited would hang here.
int fill(const StandardStream& stream) {
  const std::vector<char> block(1 << 16, 'x');
  for (int i = 0; i < 1000; ++i)
    if (stream.write(block.data(), block.size()) < 0) return errno;
  return 0;
}

int flagsOf(int fd) { return fcntl(fd, F_GETFL); }

TEST(StandardStream, DoesNotWaitForAReader) {
  int pipe[2], sockets[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const FileDescriptor terminal(posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_EQ(grantpt(terminal.get()) | unlockpt(terminal.get()), 0);
  const FileDescriptor user(open(ptsname(terminal.get()), O_WRONLY | O_NOCTTY));
  for (const int fd : {pipe[1], sockets[1], user.get()}) {
    const int before = flagsOf(fd);
    const StandardStream stream(fd, O_WRONLY);
    EXPECT_EQ(fill(stream), EAGAIN);
    EXPECT_EQ(flagsOf(fd), before);
  }
  for (const int fd : {pipe[0], pipe[1], sockets[0], sockets[1]}) close(fd);
}

TEST(StandardStream, DoesNotWaitForAWriter) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  const StandardStream stream(pipe[0], O_RDONLY);
  char byte = 0;
  EXPECT_EQ(stream.read(&byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(write(pipe[1], "x", 1), 1);
  EXPECT_EQ(stream.read(&byte, 1), 1);
  for (const int fd : pipe) close(fd);
}

// As after su: the pipe belongs to somebody else and cannot be opened once more.
TEST(StandardStream, DoesNotWaitForAReaderOfAnotherUsersPipe) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const int code = tests::inChild([] {
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0 || setresuid(65534, 65534, 65534) != 0) return 1;
    const int before = flagsOf(pipe[1]);
    const StandardStream stream(pipe[1], O_WRONLY);
    if (stream.fd() != pipe[1]) return 2;  // it could
    return fill(stream) == EAGAIN && flagsOf(pipe[1]) == before ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
}

TEST(StandardStream, ReportsWhatIsClosedAndWritesFilesWhereTheyAre) {
  char byte = 'a';
  EXPECT_EQ(StandardStream(-1, O_WRONLY).write(&byte, 1), -1);
  EXPECT_EQ(errno, EBADF);
  const FileDescriptor file(memfd_create("file", 0));
  const StandardStream stream(file.get(), O_WRONLY);
  EXPECT_EQ(write(file.get(), "one", 3), 3);
  EXPECT_EQ(stream.write("two", 3), 3);
  EXPECT_EQ(lseek(file.get(), 0, SEEK_END), 6);
}

}  // namespace
}  // namespace tutti::launcher
