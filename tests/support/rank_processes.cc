#include "tests/support/rank_processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace tutti::tests {
namespace {

void writeAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n <= 0) return;  // the reader is gone
    at += n;
    size -= static_cast<size_t>(n);
  }
}

// Rank 0 makes the id and the others read it, so that the parent stays without threads.
UniqueId exchangeId(int rank, int size, int idPipe[2]) {
  UniqueId id;
  if (rank == 0) {
    id = UniqueId::create();
    for (int i = 1; i < size; ++i) writeAll(idPipe[1], id.bytes.data(), id.bytes.size());
  } else {
    size_t got = 0;
    while (got < id.bytes.size()) {
      const ssize_t n = ::read(idPipe[0], id.bytes.data() + got, id.bytes.size() - got);
      if (n <= 0) ::_exit(97);
      got += static_cast<size_t>(n);
    }
  }
  ::close(idPipe[0]);
  ::close(idPipe[1]);
  return id;
}

int runBody(const RankProcesses::Body& body, const std::function<void(int)>& prepare,
            RankProcesses::Context& context, int idPipe[2]) {
  try {
    if (prepare) prepare(context.rank);
    context.id = exchangeId(context.rank, context.size, idPipe);
    const int code = body(context);
    // What a rank EXPECTs fails the rank, whose process alone knows of it.
    return code == 0 && testing::Test::HasFailure() ? 96 : code;
  } catch (const std::exception& e) {
    context.say(std::string("exception: ") + e.what());
    return 98;
  }
}

}  // namespace

Communicator RankProcesses::Context::join(CommunicatorOptions options) const {
  options.id = id;
  options.rank = rank;
  options.size = size;
  return Communicator::create(options);
}

RankProcesses::RankProcesses(int size, Body body, std::function<void(int rank)> prepare)
    : ranks_(size) {
  int idPipe[2];
  TUTTI_SYSCALL(::pipe(idPipe));  // writes of an id are atomic: 128 bytes
  for (int r = 0; r < size; ++r) {
    int report[2];
    TUTTI_SYSCALL(::pipe2(report, O_CLOEXEC));
    processes_.start([&] {
      for (const Rank& earlier : ranks_)
        if (earlier.readEnd >= 0) ::close(earlier.readEnd);
      ::close(report[0]);
      const int out = report[1];
      Context context{r, size, {}, [out](const std::string& line) {
                        const std::string whole = line + "\n";
                        writeAll(out, whole.data(), whole.size());
                      }};
      return runBody(body, prepare, context, idPipe);
    });
    ::close(report[1]);
    ranks_[r].readEnd = report[0];
    ::fcntl(report[0], F_SETFL, O_NONBLOCK);
  }
  ::close(idPipe[0]);
  ::close(idPipe[1]);
}

RankProcesses::~RankProcesses() {
  for (const Rank& rank : ranks_)
    if (rank.readEnd >= 0) ::close(rank.readEnd);
}

void RankProcesses::drain(Rank& rank) {
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(rank.readEnd, buffer, sizeof buffer)) > 0)
    rank.text.append(buffer, static_cast<size_t>(n));
}

bool RankProcesses::awaitLine(int rank, const std::string& line, std::chrono::milliseconds within) {
  const auto deadline = base::Deadline::after(within);
  while (true) {
    drain(ranks_[rank]);
    if (("\n" + ranks_[rank].text).find("\n" + line + "\n") != std::string::npos) return true;
    if (deadline.passed()) return false;
    pollfd waiting{ranks_[rank].readEnd, POLLIN, 0};
    ::poll(&waiting, 1, 10);
  }
}

int RankProcesses::wait(int rank, std::chrono::milliseconds within) {
  const int status = processes_.wait(rank, within, [&] { drain(ranks_[rank]); });
  drain(ranks_[rank]);
  return status;
}

std::string RankProcesses::output(int rank) {
  drain(ranks_[rank]);
  return ranks_[rank].text;
}

bool RankProcesses::allSucceed(std::chrono::milliseconds within) {
  const auto deadline = base::Deadline::after(within);
  bool all = true;
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    const int code = wait(r, std::chrono::milliseconds(deadline.remainingMs()));
    if (code == 0) continue;
    all = false;
    std::fprintf(stderr, "rank %d ended with %d:\n%s\n", r, code, output(r).c_str());
  }
  return all;
}

}  // namespace tutti::tests
