#include "job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace tutti::bench {
namespace {

void makeFifo(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + path);
}

constexpr int kEndSeconds = 5;

/// Takes out those that have ended, also those that were waited for already.
void awaitEnds(std::vector<pid_t>& processes) {
  for (int i = 0; i < 100 * kEndSeconds && !processes.empty(); ++i) {
    std::erase_if(processes, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
    if (!processes.empty()) ::usleep(10'000);
  }
}

}  // namespace

Job::Job(std::string name, const std::vector<Process>& processes, int ranks,
         std::filesystem::path directory)
    : name_(std::move(name)), directory_(std::move(directory)) {
  std::filesystem::create_directories(directory_);
  for (int r = 0; r < ranks; ++r)
    for (const char* kind : {"command", "answer"}) makeFifo(fifo(kind, r));
  for (const Process& process : processes) start(process);
  // Opened for both directions, so that neither open nor read sees a missing partner as an end.
  for (int r = 0; r < ranks; ++r) {
    commands_.push_back(::open(fifo("command", r).c_str(), O_RDWR | O_CLOEXEC));
    answers_.push_back(::open(fifo("answer", r).c_str(), O_RDWR | O_CLOEXEC));
  }
}

Job::~Job() {
  const worker_command end{};
  for (const int fd : commands_) {
    if (::write(fd, &end, sizeof end) < 0) std::perror("benchmark: end");
  }
  awaitEnds(processes_);
  for (const int number : {SIGTERM, SIGKILL}) {  // a launcher ends its ranks first
    for (const pid_t pid : processes_) ::kill(pid, number);
    awaitEnds(processes_);
  }
  for (const int fd : commands_) ::close(fd);
  for (const int fd : answers_) ::close(fd);
  std::filesystem::remove_all(directory_);
}

double Job::run(const worker_command& command, int patienceSeconds) {
  for (const int fd : commands_)
    if (::write(fd, &command, sizeof command) != sizeof command)
      throw std::runtime_error(name_ + " takes no commands");
  std::vector<double> slowest(command.iterations, 0), times(command.iterations);
  bool wrong = false;
  for (const int fd : answers_) {
    readAll(fd, times.data(), times.size() * sizeof(double), patienceSeconds);
    for (size_t i = 0; i < times.size(); ++i) {
      wrong |= std::isnan(times[i]);
      slowest[i] = std::max(slowest[i], times[i]);
    }
  }
  if (wrong) throw std::runtime_error(name_ + " gave a wrong result");
  std::ranges::nth_element(slowest, slowest.begin() + static_cast<ptrdiff_t>(slowest.size() / 2));
  return slowest[slowest.size() / 2];
}

std::string Job::fifo(const char* kind, int rank) const {
  return (directory_ / (std::string(kind) + "." + std::to_string(rank))).string();
}

void Job::start(const Process& process) {
  std::vector<char*> argv;
  for (const auto& word : process.command) argv.push_back(const_cast<char*>(word.c_str()));
  std::string directory = directory_.string();
  argv.push_back(directory.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // on which a launcher ends its ranks
    try {
      process.prepare();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
      ::_exit(126);
    }
    ::execvp(argv[0], argv.data());
    std::perror(argv[0]);
    ::_exit(127);
  }
  processes_.push_back(pid);
}

void Job::awaitAnswer(int fd, int patienceSeconds) {
  pollfd waiting{fd, POLLIN, 0};
  for (int seconds = 0; ::poll(&waiting, 1, 1000) <= 0; ++seconds) {
    for (const pid_t pid : processes_)
      if (::waitpid(pid, nullptr, WNOHANG) == pid)
        throw std::runtime_error("a process of " + name_ + " has ended");
    if (seconds >= patienceSeconds) throw NoAnswer(name_ + " does not answer");
  }
}

void Job::readAll(int fd, void* data, size_t size, int patienceSeconds) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    awaitAnswer(fd, patienceSeconds);
    const ssize_t n = ::read(fd, at, size);
    if (n <= 0) throw std::runtime_error(name_ + " ended");
    at += n;
    size -= static_cast<size_t>(n);
  }
}

int freePort() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool found = ::bind(probe, any, length) == 0 && ::getsockname(probe, any, &length) == 0;
  ::close(probe);
  if (!found) throw std::runtime_error("no port of the loopback is free");
  return ntohs(address.sin_port);
}

Interval medianInterval(std::vector<double> x) {
  std::ranges::sort(x);
  const int n = static_cast<int>(x.size());
  double tail = std::pow(0.5, n);  // P(at most k of n below the median)
  double term = tail;
  int k = 0;
  while (true) {
    const double next = term * (n - k) / (k + 1);
    if (tail + next > 0.025) break;
    tail += next;
    term = next;
    ++k;
  }
  const auto at = [&](int i) { return x[static_cast<size_t>(i)]; };
  return {at(k), at(n / 2), at(n - 1 - k)};
}

}  // namespace tutti::bench
