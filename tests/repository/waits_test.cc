// docs/reference/waits.md names every source file that has a waiting call, and no other; and the
// tests that it names exist. Argument: the source tree.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "tests/repository/source_tree.h"
#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}};

constexpr const char* kPage = "docs/reference/waits.md";

/// Calls that may wait: of the system, of the C++ library, of CUDA, and our own backoff.
bool mayWait(const std::string& line) {
  static const std::regex call(
      R"((^|[^A-Za-z0-9_>.:])(::)?p?poll\([^)])"
      R"(|\b(epoll_wait|waitpid|waitid|getaddrinfo|getnameinfo|flock|clock_nanosleep|nanosleep)\()"
      R"(|\b(usleep|sleep_for|sleep_until|wait_for|wait_until|popen|pclose)\()"
      R"(|(^|[^A-Za-z0-9_])::(accept4?|connect|recv|recvmsg|select)\()"
      R"(|\bcuda(Stream|Event|Device)Synchronize\(|thread[A-Za-z_]*\.join\(\)|std::jthread)"
      R"(|\.wait\(lock|\bBackoff [a-z][A-Za-z]*\()");
  return std::regex_search(line.substr(0, line.find("//")), call);
}

bool isLooked(const std::string& path) {
  return isCode(path) && (path.starts_with("src/") || path.starts_with("transports/") ||
                          path.starts_with("collectives/") || path.starts_with("parallel/"));
}

/// What stands between backquotes in the tables and begins with one of these words.
std::set<std::string> named(const SourceFile& page, const std::string& folders) {
  const std::regex path("`((" + folders + ")/[^`]*)`");
  std::set<std::string> found;
  for (const std::string& line : page.lines)
    for (std::sregex_iterator at(line.begin(), line.end(), path), end; at != end; ++at)
      if (line.starts_with("|")) found.insert((*at)[1]);
  return found;
}

TEST(Waits, OfTheRepositoryAreOnTheirPage) {
  std::set<std::string> waiting, onPage, tests;
  for (const SourceFile& file : readTree(sourceRoot)) {
    if (isLooked(file.path) && std::ranges::any_of(file.lines, mayWait)) waiting.insert(file.path);
    if (file.path != kPage) continue;
    onPage = named(file, "src|transports|collectives|parallel");
    tests = named(file, "tests");
  }
  EXPECT_GE(waiting.size(), 30u);
  for (const std::string& path : waiting)
    EXPECT_TRUE(onPage.contains(path))
        << path << " waits: say for whom and until when in " << kPage;
  for (const std::string& path : onPage)
    EXPECT_TRUE(waiting.contains(path)) << kPage << " names " << path << ", which waits for nobody";
  for (const std::string& path : tests)
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(sourceRoot) / path))
        << kPage << " names " << path << ", which is not there";
}

TEST(Waits, AreToldFromOtherCalls) {
  for (const char* line :
       {"if (poll(set.data(), set.size(), 5) < 0)", "  ::poll(&one, 1, forMs);",
        "lock_.wait(lock);", "std::this_thread::sleep_for(pause);",
        "TUTTI_CUDA(cudaStreamSynchronize(stream));", "base::Backoff backoff(false);",
        "thread_.join();", "::recv(fd, to, n, MSG_DONTWAIT)"})
    EXPECT_TRUE(mayWait(line)) << line;
  for (const char* line :
       {"Poll poll() override {", "work.poll();", "gpu.join()->state();", "// waitpid() waits",
        "endpoint->connect(peer, address);", "mesh.connect(rendezvous);", "slot.free.wait(in_);"})
    EXPECT_FALSE(mayWait(line)) << line;
}

}  // namespace
}  // namespace tutti::repository
