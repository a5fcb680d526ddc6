#include "tests/bootstrap/rank_processes.h"

#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "src/base/check.h"
#include "tests/bootstrap/recording_listener.h"

namespace tutti::bootstrap {
namespace {

std::string runBody(const RankProcesses::Body& body, int rank, RankProcesses::Board& board) {
  try {
    return body(rank, board);
  } catch (const Error& error) {
    return base::message("error ", toString(error.code()), ": ", error.what());
  } catch (const std::exception& error) {
    return base::message("exception: ", error.what());
  }
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool enterOwnNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  }
  const base::FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  return ::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

int countOurSockets() {
  std::ifstream file("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(file, line);) count += contains(line, "@tutti-") ? 1 : 0;
  return count;
}

int countDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

void RankProcesses::Board::publish(const UniqueId& made) {
  std::memcpy(id, made.bytes.data(), sizeof id);
  published.store(1);
}

UniqueId RankProcesses::Board::awaitId() {
  UniqueId made;
  if (!eventually([&] { return published.load() == 1; }))
    base::fail(ErrorCode::Timeout, "no id was published");
  std::memcpy(made.bytes.data(), id, sizeof id);
  return made;
}

RankProcesses::RankProcesses(int count, const Body& body) {
  TUTTI_REQUIRE(count <= kMaxRanks, count, " ranks");
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) base::failSyscall("mmap", errno);
  board_ = new (memory) Board;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = TUTTI_SYSCALL(::fork());
    if (pid == 0) {
      const std::string result = runBody(body, rank, *board_);
      board_->lines[rank].saidNs.store(std::chrono::steady_clock::now().time_since_epoch() /
                                       std::chrono::nanoseconds(1));
      std::strncpy(board_->lines[rank].text, result.c_str(), sizeof board_->lines[rank].text - 1);
      ::_exit(0);
    }
    pids_.push_back(pid);
  }
}

RankProcesses::~RankProcesses() {
  for (pid_t& pid : pids_) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ::munmap(board_, sizeof(Board));
}

void RankProcesses::kill(int rank, int signal) { ::kill(pids_[static_cast<size_t>(rank)], signal); }

bool RankProcesses::awaitStep(int rank, int step) {
  return eventually([&] { return board_->lines[rank].step.load() >= step; });
}

std::chrono::steady_clock::time_point RankProcesses::saidAt(int rank) const {
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(board_->lines[rank].saidNs.load()));
}

std::vector<std::string> RankProcesses::results() {
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    int status = 0;
    const bool ended =
        eventually([&] { return ::waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]; });
    if (!ended) {
      texts.push_back("hangs");
      continue;
    }
    pids_[rank] = 0;
    if (WIFSIGNALED(status))
      texts.push_back(base::message("killed by signal ", WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
      texts.push_back(base::message("exit code ", WEXITSTATUS(status)));
    else
      texts.push_back(board_->lines[rank].text);
  }
  return texts;
}

}  // namespace tutti::bootstrap
