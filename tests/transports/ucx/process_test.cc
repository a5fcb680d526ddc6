// UCX endpoints and the process they live in: deaths of other processes, limits, and what UCX may
// not do to its host.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <tutti/error.h>
#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "tests/support/child_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/process_fabric.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {
namespace {

using transports::ucx::makeUcxEndpoint;
using transports::ucx::makeWorker;
using transports::ucx::WorkerOptions;

// ---- deaths

constexpr const char* kLost = "rank 1 was lost: its connection broke: UCX reports ";

// A moment after what it published was handed over.
class DepartingLater final : public Actor {
 public:
  Poll poll(Endpoint& endpoint) override {
    endpoint.flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    throw Departure{};
  }
  std::string describe() const override { return "vanishing"; }
};

// Rank 1 is killed when its connections have long been made, with much on its way to it and from
// it. Rank 2 has sent it nothing.
void expectDeathNamed(const WorkerOptions& options, uint32_t bytes) {
  Scenario s;
  s.size = 3;
  s.layout.slotBytes = 1 << 20;
  s.within = std::chrono::seconds(5);
  s.actors = [&](int rank) {
    constexpr uint64_t kNever = 1'000'000;
    Actors actors;
    if (rank == 1) {
      actors.push_back(sender({2, 0, kNever, always(bytes), 1}));
      actors.push_back(departure(0, 0, bytes > 1000 ? 60 : 3000));
      return actors;
    }
    if (rank == 0) actors.push_back(sender({1, 0, kNever, always(bytes), 1}));
    if (rank == 2) actors.push_back(receiver({1, 0, kNever, always(bytes), 1}));
    return actors;
  };
  const auto problems = driveProcesses(
      s, [&](int rank) { return makeUcxEndpoint(makeWorker(options), rank, s.size, s.layout); });
  for (const size_t rank : {0, 2}) EXPECT_EQ(problems[rank].find(kLost), 0u) << problems[rank];
}

TEST(UcxDeath, IsNamedOverTcp) {
  for (const uint32_t bytes : {8, 1 << 20}) expectDeathNamed(overTcp(), bytes);
}
TEST(UcxDeath, IsNamedOverEverything) {
  for (const uint32_t bytes : {8, 1 << 20}) expectDeathNamed({}, bytes);
}

// A rank that only waits for another, to which it has never sent anything.
TEST(UcxDeath, IsNamedByWhoOnlyListens) {
  Scenario s;
  s.within = std::chrono::seconds(5);
  s.actors = [&](int rank) {
    Actors actors;
    if (rank == 0) actors.push_back(receiver({1, 0, 2, always(8), 1}));
    if (rank == 1) {
      actors.push_back(sender({0, 0, 1, always(8), 1}));
      actors.push_back(std::make_unique<DepartingLater>());
    }
    return actors;
  };
  const auto problems = driveProcesses(
      s, [&](int rank) { return makeUcxEndpoint(makeWorker(overTcp()), rank, s.size, s.layout); });
  EXPECT_EQ(problems[0].find(kLost), 0u) << problems[0];
}

// ---- limits

// Runs in a fresh process; the exit code says what went wrong.
int inChild(const std::function<int()>& body) {
  ChildProcesses children;
  children.start(body);
  return children.wait(0, std::chrono::seconds(30));
}

bool becomesReady(const std::vector<std::unique_ptr<Endpoint>>& all,
                  const transports::ReceiveRing& ring) {
  return eventually([&] {
    for (const auto& endpoint : all) endpoint->progress();
    return ring.ready();
  });
}

// Ranks 0 and 1 exchange a message.
bool exchange(const WorkerOptions& options) {
  std::vector<std::unique_ptr<Endpoint>> all;
  for (int r = 0; r < 2; ++r)
    all.push_back(makeUcxEndpoint(makeWorker(options), r, 2, {.slotBytes = 1 << 20}));
  connectAll(all);
  all[0]->sendRing(1, 0).publish(1, 1, 1 << 20);
  auto& ring = all[1]->receiveRing(0, 0);
  return becomesReady(all, ring);
}

// What `call` throws under a limit. Sanitizers need descriptors to look at an exception.
Outcome underLimit(__rlimit_resource_t resource, rlim_t value, const std::function<void()>& call) {
  rlimit before{};
  EXPECT_EQ(::getrlimit(resource, &before), 0);
  const rlimit less{value, before.rlim_max};
  EXPECT_EQ(::setrlimit(resource, &less), 0);
  std::exception_ptr thrown;
  try {
    call();
  } catch (...) {
    thrown = std::current_exception();
  }
  ::setrlimit(resource, &before);
  return outcomeOf([&] {
    if (thrown) std::rethrow_exception(thrown);
  });
}

int worksUnderLimit(__rlimit_resource_t resource, rlim_t value, const WorkerOptions& options) {
  bool works = false;
  const Outcome outcome = underLimit(resource, value, [&] { works = exchange(options); });
  if (!works) std::fprintf(stderr, "%s\n", outcome.text.c_str());
  return works ? 0 : 1;
}

TEST(UcxLimits, NoLockedMemoryIsNeeded) {
  for (const WorkerOptions& options : {overTcp(), WorkerOptions{}})
    EXPECT_EQ(inChild([&] { return worksUnderLimit(RLIMIT_MEMLOCK, 0, options); }), 0);
}

TEST(UcxLimits, SixtyFourDescriptorsAreEnoughForAPair) {
  for (const WorkerOptions& options : {overTcp(), WorkerOptions{}})
    EXPECT_EQ(inChild([&] { return worksUnderLimit(RLIMIT_NOFILE, 64, options); }), 0);
}

// Connections until there are no descriptors: the error says so, and what was connected works.
int connectUntilRefused() {
  constexpr int kSize = 12;
  std::vector<std::unique_ptr<Endpoint>> all;
  for (int r = 0; r < kSize; ++r)
    all.push_back(makeUcxEndpoint(makeWorker(overTcp()), r, kSize, {}));
  connectAll(all);
  auto& ring = all[1]->receiveRing(0, 0);
  int connected = 0;
  // Eight for a connection, and one for each peer that is not connected yet.
  const auto limit = static_cast<rlim_t>(countDescriptors() + 8 + kSize + 2);
  std::vector<base::FileDescriptor> others;  // whether or not peers have accepted
  const Outcome outcome = underLimit(RLIMIT_NOFILE, limit, [&] {
    for (int peer = 1; peer < kSize; ++peer, ++connected) {
      all[0]->sendRing(peer, 0);
      others.emplace_back(::dup(0));
    }
  });
  if (outcome.code != ErrorCode::System || connected < 1 ||
      outcome.text.find("rank 0 cannot reach rank ") != 0 ||
      outcome.text.find("ulimit -n") == std::string::npos) {
    std::fprintf(stderr, "%d connected, then: %s\n", connected, outcome.text.c_str());
    return 1;
  }
  all[0]->sendRing(1, 0).publish(1, 1, 8);
  return becomesReady(all, ring) ? 0 : 2;
}

TEST(UcxLimits, WithoutDescriptorsTheErrorNamesThem) { EXPECT_EQ(inChild(connectUntilRefused), 0); }

// With how few descriptors UCX cannot make a worker is its own affair.
int workerWithout() {
  exchange(overTcp());  // UCX is loaded
  for (int spare = 8; spare > 2; --spare) {
    const Outcome outcome =
        underLimit(RLIMIT_NOFILE, static_cast<rlim_t>(countDescriptors() + spare),
                   [] { makeWorker(overTcp()); });
    if (outcome.text == Outcome{}.text) continue;
    if (outcome.text.find("ulimit -n") != std::string::npos) return 0;
    std::fprintf(stderr, "%s\n", outcome.text.c_str());
    return 1;
  }
  return 2;
}

TEST(UcxLimits, AWorkerWithoutDescriptorsIsNamed) { EXPECT_EQ(inChild(workerWithout), 0); }

TEST(UcxSettings, OneThatUcxRefusesIsNamed) {
  EXPECT_EQ(inChild([] {
              ::setenv("UCX_TCP_PORT_RANGE", "", 1);
              const Outcome outcome = outcomeOf([] { makeWorker(overTcp()); });
              if (outcome.code == ErrorCode::System &&
                  outcome.text.find("UCX_TCP_PORT_RANGE=") != std::string::npos)
                return 0;
              std::fprintf(stderr, "%s\n", outcome.text.c_str());
              return 1;
            }),
            0);
}

// ---- what UCX may not do; each in a process that has not loaded it yet

bool ucxIsLoaded() {
  std::ifstream maps("/proc/self/maps");
  const std::string all((std::istreambuf_iterator<char>(maps)), {});
  return all.find("libucp") != std::string::npos;
}

void exitSilently() {
  if (ucxIsLoaded()) std::exit(3);
  std::fflush(stdout);
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0 || ::dup2(pipe[1], STDOUT_FILENO) < 0) std::exit(2);
  {
    const auto worker = makeWorker(overTcp());
    // A device that does not exist, of which UCX has something to say.
    outcomeOf([] { makeWorker({.devices = "no_such_device", .tls = "tcp"}); });
  }
  std::fflush(stdout);
  const bool loaded = ucxIsLoaded();
  ::close(pipe[1]);
  ::close(STDOUT_FILENO);
  char text[256];
  const ssize_t printed = ::read(pipe[0], text, sizeof text);
  std::exit(printed != 0 ? 1 : loaded ? 0 : 4);
}

TEST(UcxLibraryDeathTest, IsLoadedByTheFirstWorkerAndPrintsNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exitSilently(), ::testing::ExitedWithCode(0), "");
}

void exitWithOwnHandlers() {
  const auto own = [](int) {};
  for (const int number : {SIGSEGV, SIGBUS, SIGHUP, SIGFPE}) ::signal(number, own);
  makeWorker(overTcp());
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    const bool ours = number == SIGSEGV || number == SIGBUS || number == SIGHUP || number == SIGFPE;
    if (ours && action.sa_handler != static_cast<void (*)(int)>(own)) std::exit(number);
    if (!ours && number == SIGILL && action.sa_handler != SIG_DFL) std::exit(number);
  }
  std::exit(0);
}

TEST(UcxLibraryDeathTest, LeavesSignalHandlersAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exitWithOwnHandlers(), ::testing::ExitedWithCode(0), "");
}

TEST(UcxLibraryDeathTest, WithoutUcxItIsUnsupported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto folder =
      std::filesystem::temp_directory_path() / base::message("tutti_ucx_", ::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "libucp.so.0") << "no library";
  ::setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  const auto unsupported = [&] {
    const Outcome outcome = outcomeOf([] { makeWorker(); });
    std::filesystem::remove_all(folder);  // the child began the test anew, with a folder of its own
    std::fprintf(stderr, "%s\n", outcome.text.c_str());
    std::exit(outcome.code == ErrorCode::Unsupported ? 0 : 1);
  };
  EXPECT_EXIT(unsupported(), ::testing::ExitedWithCode(0), "libucx0.*libucp.so.0");
  ::unsetenv("LD_LIBRARY_PATH");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tutti::tests
