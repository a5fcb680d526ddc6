#include "tests/support/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

int runBody(const RankProcesses::Body& body, const RankProcesses::Context& context) {
  try {
    return body(context);
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

RankProcesses::RankProcesses(int size, Body body) : ranks_(size) {
  int idPipe[2];
  TUTTI_SYSCALL(::pipe(idPipe));  // writes of an id are atomic: 128 bytes
  std::fflush(nullptr);
  for (int r = 0; r < size; ++r) {
    int report[2];
    TUTTI_SYSCALL(::pipe2(report, O_CLOEXEC));
    const pid_t pid = TUTTI_SYSCALL(::fork());
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::signal(SIGPIPE, SIG_IGN);
      for (const Rank& earlier : ranks_)
        if (earlier.readEnd >= 0) ::close(earlier.readEnd);
      ::close(report[0]);
      const int out = report[1];
      Context context{r, size, {}, [out](const std::string& line) {
                        const std::string whole = line + "\n";
                        writeAll(out, whole.data(), whole.size());
                      }};
      int code = 96;
      try {
        context.id = exchangeId(r, size, idPipe);
        code = runBody(body, context);
      } catch (const std::exception& e) {
        context.say(std::string("exception: ") + e.what());
      }
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(report[1]);
    ranks_[r].pid = pid;
    ranks_[r].readEnd = report[0];
    ::fcntl(report[0], F_SETFL, O_NONBLOCK);
  }
  ::close(idPipe[0]);
  ::close(idPipe[1]);
}

RankProcesses::~RankProcesses() {
  for (Rank& rank : ranks_) {
    if (rank.status < 0) {
      ::kill(rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
    if (rank.readEnd >= 0) ::close(rank.readEnd);
  }
}

void RankProcesses::signal(int rank, int number) const { ::kill(ranks_[rank].pid, number); }

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
  Rank& r = ranks_[rank];
  const auto deadline = base::Deadline::after(within);
  while (r.status < 0) {
    drain(r);
    int status = 0;
    if (::waitpid(r.pid, &status, WNOHANG) == r.pid)
      r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else if (deadline.passed())
      return -1;
    else
      ::usleep(2000);
  }
  drain(r);
  return r.status;
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
