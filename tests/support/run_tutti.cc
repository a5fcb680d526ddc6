#include "tests/support/run_tutti.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/sanitized.h"

namespace tutti::launcher {
namespace {

constexpr std::chrono::seconds kPatience(tests::kSanitized ? 600 : 150);

std::string contents(int file) {
  std::string text(lseek(file, 0, SEEK_END), '\0');
  const ssize_t bytes = pread(file, text.data(), text.size(), 0);
  text.resize(std::max<ssize_t>(0, bytes));
  return text;
}

}  // namespace

std::string tuttiPath;

Command::Command(std::vector<std::string> words, const std::string& inputText,
                 const std::vector<std::string>& variables)
    : name_(words[0]),
      outFile_(memfd_create("out", MFD_CLOEXEC)),
      errFile_(memfd_create("err", MFD_CLOEXEC)) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int input = memfd_create("in", MFD_CLOEXEC);
  EXPECT_EQ(write(input, inputText.data(), inputText.size()),
            static_cast<ssize_t>(inputText.size()));
  lseek(input, 0, SEEK_SET);
  // Opened again in the child's place: appending keeps several writers from overwriting each other.
  fcntl(outFile_, F_SETFL, O_APPEND);
  fcntl(errFile_, F_SETFL, O_APPEND);
  const pid_t test = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(99);
    // A shell ignores some for what it starts in the background, as `make test &`, and nohup does.
    for (const int number : {SIGHUP, SIGINT, SIGQUIT}) std::signal(number, SIG_DFL);
    for (const std::string& variable : variables) putenv(const_cast<char*>(variable.c_str()));
    dup2(input, 0);
    dup2(outFile_, 1);
    dup2(errFile_, 2);
    execvp(argv[0], argv.data());
    _exit(99);
  }
  close(input);
}

Command::~Command() {
  if (!waited_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(outFile_);
  close(errFile_);
}

void Command::signal(int number) const { kill(pid_, number); }

std::string Command::outputSoFar() const { return contents(outFile_); }

bool Command::waitForOutput(const std::string& text) const {
  return eventually([&] { return outputSoFar().find(text) != std::string::npos; }, kPatience);
}

Result Command::wait() {
  int status = 0;
  const bool ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, kPatience);
  EXPECT_TRUE(ended) << name_ << " did not end";
  Result result;
  if (ended) {
    waited_ = true;
    result.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  result.out = contents(outFile_);
  result.err = contents(errFile_);
  return result;
}

Running::Running(std::vector<std::string> arguments, const std::string& inputText)
    : Command((arguments.insert(arguments.begin(), tuttiPath), std::move(arguments)), inputText) {}

const std::vector<std::string> ncclPerfPrograms{
    "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "broadcast_perf",
    "reduce_perf",     "alltoall_perf",   "gather_perf",         "scatter_perf",
    "sendrecv_perf",   "hypercube_perf",  "alltoallv_perf"};

std::string besideTutti(const std::string& program) {
  return std::filesystem::path(tuttiPath).replace_filename(program);
}

Result runTutti(std::vector<std::string> arguments, const std::string& inputText) {
  return Running(std::move(arguments), inputText).wait();
}

Result runShell(int ranks, const std::string& script) {
  return runTutti({"run", "-n", std::to_string(ranks), "--", "sh", "-c", script});
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

bool alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return false;
  const size_t end = text.rfind(')');
  return end != std::string::npos && text.compare(end + 2, 1, "Z") != 0;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

}  // namespace tutti::launcher
