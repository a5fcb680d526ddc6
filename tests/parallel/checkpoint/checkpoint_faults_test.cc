// Harm to checkpoints that are there (fault 23) is found and named; harm while one is written
// (fault 24) leaves the last complete one the latest, and the next save succeeds.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <new>
#include <random>
#include <thread>

#include "tests/parallel/checkpoint/checkpoint_parts.h"
#include "tests/parallel/checkpoint/disk_calls.h"
#include "tests/support/child_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
using tests::DiskCall;
using tests::Outcome;
using tests::outcomeOf;

class CheckpointFaults : public testing::Test {
 protected:
  fs::path save(int64_t step, int keep = 0) {
    return saveCheckpoint(root_, step, tensors_, rowsOver(2, tensors_), keep,
                          {{"seed", "s\"\xc3\xa9"}, {"rate", 0.1}});
  }
  Outcome opened(const fs::path& folder, int64_t step) {
    return outcomeOf([&] { EXPECT_TRUE(isIntact(folder, tensors_, step)) << folder; });
  }
  bool hasLeftovers() const { return !partialCheckpoints(root_).empty(); }
  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }
  std::vector<fs::path> filesOf(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 3u);
    return files;
  }

  const std::vector<GlobalTensor> tensors_{
      {"w", DType::Float32, {5, 2}}, {"b", DType::BFloat16, {3}}, {"n", DType::Int64, {}}};
  tests::TemporaryFolder folder_;
  const fs::path root_ = folder_.path() / "checkpoints";
  std::mt19937_64 random_{tests::testSeed()};
};

TEST_F(CheckpointFaults, EveryBitThatFlipsIsFound) {
  const fs::path before = save(1), folder = save(2);
  for (const fs::path& path : filesOf(folder)) {
    const std::string good = tests::contentsOf(path);
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
      tests::setContents(path, bad);
      const Outcome outcome = opened(folder, 2);
      ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << path << " bit " << bit;
      ASSERT_EQ(outcome.text.find(path.string()), 0u) << outcome.text;
    }
    EXPECT_EQ(opened(before, 1).text, "no error");
    tests::setContents(path, good);
  }
  EXPECT_EQ(opened(folder, 2).text, "no error");
}

TEST_F(CheckpointFaults, AnyOtherByteIsFoundOrChangesNothing) {
  const fs::path folder = save(1);
  const std::vector<fs::path> files = filesOf(folder);
  int harmless = 0;
  for (int i = 0; i < 3000; ++i) {
    const fs::path& path = files[below(files.size())];
    const std::string good = tests::contentsOf(path);
    std::string bad = good;
    bad[below(bad.size())] = " \t\r0e\xff"[below(6)];
    tests::setContents(path, bad);
    const Outcome outcome = opened(folder, 1);  // compares what it read
    harmless += outcome.text == "no error";
    ASSERT_TRUE(outcome.text == "no error" || outcome.text.find(path.string()) == 0)
        << outcome.text;
    tests::setContents(path, good);
  }
  EXPECT_LT(harmless, 1000);
}

TEST_F(CheckpointFaults, AFileOfAnyOtherLengthIsRefused) {
  const fs::path before = save(1), folder = save(2);
  for (const fs::path& path : filesOf(folder)) {
    const std::string good = tests::contentsOf(path);
    for (size_t length = 0; length <= good.size() + 1; ++length) {
      // The manifest's last byte is the end of a line, which may be missing.
      if (length == good.size() || (path.filename() == kManifestName && length == good.size() - 1))
        continue;
      tests::setContents(path, (good + "x").substr(0, length));
      const Outcome outcome = opened(folder, 2);
      ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << path << " of " << length;
      ASSERT_EQ(outcome.text.find(path.string()), 0u) << outcome.text;
    }
    fs::remove(path);
    EXPECT_EQ(opened(folder, 2).code, ErrorCode::System);
    EXPECT_EQ(opened(before, 1).text, "no error");
    tests::setContents(path, good);
  }
}

/// A disk that fails at one call after the other, until there are no more calls in a save.
TEST_F(CheckpointFaults, ADiskThatFailsAtAnyCallLeavesTheLastCompleteOne) {
  int64_t step = 1;
  save(step);
  int before = 0, after = 0;
  for (size_t call = 0;; ++call) {
    Outcome outcome;
    std::string called;
    {
      tests::DiskCalls disk;
      disk.failAt(call, call % 2 == 0 ? ENOSPC : EIO);
      outcome = outcomeOf([&] { save(step + 1, 1); });
      if (disk.calls().size() <= call) break;
      called = disk.calls()[call].path.filename();
    }
    ASSERT_EQ(outcome.code, ErrorCode::System) << outcome.text;
    ASSERT_NE(outcome.text.find(call % 2 == 0 ? "No space left on device" : "Input/output error"),
              std::string::npos)
        << outcome.text;
    ASSERT_NE(outcome.text.find(called), std::string::npos) << outcome.text;
    const std::vector<int64_t> steps = checkpointSteps(root_);
    ASSERT_FALSE(steps.empty());
    for (const int64_t found : steps)
      ASSERT_EQ(opened(checkpointPath(root_, found), found).text, "no error") << outcome.text;
    ++(steps.back() == step ? before : after);
    step = steps.back() + 1;
    ASSERT_EQ(outcomeOf([&] { save(step, 1); }).text, "no error");
    ASSERT_EQ(checkpointSteps(root_), std::vector<int64_t>{step});
    ASSERT_FALSE(hasLeftovers());
  }
  EXPECT_GT(before, 15);
  // The folder's sync after the rename, and the removal of the one before.
  EXPECT_EQ(after, 3);
}

TEST_F(CheckpointFaults, WritesThatAreShortOrInterruptedGoOn) {
  const fs::path folder = save(1);
  std::map<fs::path, std::string> good;
  for (const fs::path& path : filesOf(folder)) good[path] = tests::contentsOf(path);
  fs::remove_all(folder);
  {
    tests::DiskCalls disk;
    disk.writeAtMost(7);
    save(1);
    EXPECT_GT(disk.calls().size(), 100u);
  }
  for (const auto& [path, contents] : good) EXPECT_EQ(tests::contentsOf(path), contents) << path;
}

/// Files that no checkpoint has stay, and what they lie in.
TEST_F(CheckpointFaults, FilesOfOthersAreNeverRemoved) {
  const auto put = [&](const fs::path& folder, const std::string& name) {
    fs::create_directories(folder);
    tests::setContents(folder / name, "mine");
    return folder / name;
  };
  const fs::path first = save(1);
  std::vector<fs::path> theirs{put(first, "notes.txt"), put(partialPath(root_, 7), "x"),
                               put(partialPath(root_, 8), "rank-1.safetensors"),
                               put(partialPath(root_, 2) / "below", shardName(0))};
  const fs::path elsewhere = folder_.path() / "elsewhere";
  theirs.push_back(put(elsewhere, shardName(0)));
  fs::create_directory_symlink(elsewhere, partialPath(root_, 9));
  EXPECT_EQ(
      outcomeOf([&] { save(2, 1); }).text,
      partialPath(root_, 2).string() + " has files that are none of a checkpoint: move them away");
  put(partialPath(root_, 6), shardName(3));  // what a save that was killed leaves
  fs::create_directories(partialPath(root_, 5));
  save(3, 1);
  save(4, 1);
  EXPECT_EQ(checkpointSteps(root_), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(opened(first, 1).text, "no error");
  for (const fs::path& path : theirs) EXPECT_EQ(tests::contentsOf(path), "mine") << path;
  for (const int64_t gone : {5, 6}) EXPECT_FALSE(fs::exists(partialPath(root_, gone))) << gone;
  {
    CheckpointWriter writer(root_, 10);
    theirs.push_back(put(partialPath(root_, 10), "late"));
  }
  EXPECT_EQ(tests::contentsOf(theirs.back()), "mine");
}

TEST_F(CheckpointFaults, OneThatIsSetAsideIsWhole) {
  for (const std::string name : {"step-000001.damaged", "step-000001.damaged-2"}) {
    const fs::path folder = save(1);
    const std::string manifest = tests::contentsOf(folder / kManifestName);
    EXPECT_EQ(setAside(folder), root_ / name);
    EXPECT_FALSE(fs::exists(folder));
    EXPECT_EQ(tests::contentsOf(root_ / name / kManifestName), manifest);
    EXPECT_EQ(opened(root_ / name, 1).text, "no error");
    EXPECT_TRUE(stepsOfFolders(root_).empty());
  }
}

TEST_F(CheckpointFaults, FilesOfOtherLengthsAreFoundWithoutReadingThem) {
  const fs::path folder = save(1);
  const fs::path file = folder / shardName(1);
  EXPECT_NO_THROW(CheckpointReader(folder).requireFiles());
  const uintmax_t bytes = fs::file_size(file);
  fs::resize_file(file, bytes - 1);
  EXPECT_EQ(outcomeOf([&] { CheckpointReader(folder).requireFiles(); }).text,
            message(file.string(), " has ", bytes - 1, " bytes, and the manifest says ", bytes));
  fs::remove(file);
  EXPECT_EQ(outcomeOf([&] { CheckpointReader(folder).requireFiles(); }).code, ErrorCode::System);
  fs::remove(folder / kManifestName);
  EXPECT_TRUE(checkpointSteps(root_).empty());
  EXPECT_EQ(stepsOfFolders(root_), std::vector<int64_t>{1});
}

/// A machine that loses its power keeps what was synced, so a checkpoint gets its name when all of
/// it was, and it has its name for good when save() returns.
TEST_F(CheckpointFaults, ACheckpointGetsItsNameWhenTheDiskHasIt) {
  tests::DiskCalls disk;
  const fs::path folder = save(1);
  std::map<fs::path, DiskCall::Kind> last;  // what happened last to a file, or in a folder
  std::vector<std::string> created;
  bool renamed = false;
  for (const auto& [kind, path] : disk.calls()) {
    if (kind == DiskCall::Rename) {
      EXPECT_EQ(path, partialPath(root_, 1));
      for (const auto& [changed, how] : last) EXPECT_EQ(how, DiskCall::Sync) << changed;
      renamed = true;
    }
    if (kind == DiskCall::CreateFile) created.push_back(path.filename());
    if (kind == DiskCall::Write || kind == DiskCall::Sync)
      last[path] = kind;
    else
      last[path.parent_path()] = kind;
  }
  EXPECT_TRUE(renamed);
  for (const auto& [changed, how] : last) EXPECT_EQ(how, DiskCall::Sync) << changed;
  EXPECT_EQ(created, (std::vector<std::string>{shardName(0), shardName(1), kManifestName}));
  for (const std::string& name : created) EXPECT_TRUE(last.contains(partialPath(root_, 1) / name));
  for (const fs::path& path : {partialPath(root_, 1), root_, root_.parent_path()})
    EXPECT_TRUE(last.contains(path)) << path;
}

TEST_F(CheckpointFaults, AKillAtAnyMomentLeavesTheLastCompleteOne) {
  using Clock = std::chrono::steady_clock;
  auto* const memory = mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& saved = *new (memory) std::atomic<int64_t>(0);
  const auto start = Clock::now();
  save(++saved, 2);
  const auto oneSave = Clock::now() - start;
  const int kills = tests::testKills(100);
  int halves = 0;
  for (int i = 0; i < kills; ++i) {
    tests::ChildProcesses child;
    child.start([&]() -> int {
      for (;;) {
        const int64_t step = checkpointSteps(root_).back() + 1;
        save(step, 2);
        saved = step;
      }
    });
    std::this_thread::sleep_for(oneSave * static_cast<int64_t>(below(1000)) / 250);
    child.signal(0, SIGKILL);
    ASSERT_EQ(child.wait(0, tests::kPatience), 128 + SIGKILL);
    halves += hasLeftovers();
    const std::vector<int64_t> steps = checkpointSteps(root_);
    ASSERT_FALSE(steps.empty());
    ASSERT_GE(steps.back(), saved) << "one that was saved is gone";
    ASSERT_LE(steps.back(), saved + 1);
    for (const int64_t step : steps)
      ASSERT_EQ(opened(checkpointPath(root_, step), step).text, "no error");
    saved = steps.back();  // also where the kill came before the child said so
  }
  EXPECT_GT(halves, kills / 10) << "the kills came at no moment that matters";
  const int64_t last = saved;
  save(last + 1, 2);
  EXPECT_FALSE(hasLeftovers());
  EXPECT_EQ(checkpointSteps(root_), (std::vector<int64_t>{last, last + 1}));
  munmap(memory, sizeof(std::atomic<int64_t>));
}

/// Runs `body` in a process of its own; its expectations count here.
void inOwnProcess(const std::function<int()>& body, int* exitCode) {
  tests::ChildProcesses child;
  child.start([&] {
    const int code = body();
    return testing::Test::HasFailure() ? 1 : code;
  });
  *exitCode = child.wait(0, tests::kPatience);
}

TEST_F(CheckpointFaults, AFileThatMayNotGrowLeavesTheLastCompleteOne) {
  const fs::path folder = save(1);
  rlim_t largest = 0;
  for (const fs::path& path : filesOf(folder)) largest = std::max(largest, fs::file_size(path));
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{1}, rlim_t{200}, largest - 1}) {
    for (const bool killed : {false, true}) {
      int code = -1;
      inOwnProcess(
          [&] {
            signal(SIGXFSZ, killed ? SIG_DFL : SIG_IGN);
            const struct rlimit limit { bytes, bytes }, none{0, 0};
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || setrlimit(RLIMIT_CORE, &none) != 0)
              return 1;
            const Outcome outcome = outcomeOf([&] { save(2); });
            EXPECT_EQ(outcome.code, ErrorCode::System) << outcome.text;
            EXPECT_NE(outcome.text.find("File too large"), std::string::npos) << outcome.text;
            EXPECT_FALSE(hasLeftovers());
            return 0;
          },
          &code);
      EXPECT_EQ(code, killed ? 128 + SIGXFSZ : 0) << bytes;
      EXPECT_EQ(checkpointSteps(root_), std::vector<int64_t>{1});
      EXPECT_EQ(opened(folder, 1).text, "no error");
    }
  }
  EXPECT_EQ(opened(save(2), 2).text, "no error");
  EXPECT_FALSE(hasLeftovers());
}

TEST_F(CheckpointFaults, AFullDiskLeavesTheLastCompleteOne) {
  constexpr int kNoMount = 77;
  fs::create_directories(root_);
  int code = -1;
  inOwnProcess(
      [&] {
        if (unshare(CLONE_NEWNS) != 0 ||
            mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("tmpfs", root_.c_str(), "tmpfs", 0, "size=128k") != 0)
          return kNoMount;
        save(1);
        const fs::path filler = root_ / "filler";
        // One page more is free each time, until a checkpoint fits.
        int refused = 0;
        for (uintmax_t left = 0;; ++left) {
          std::ofstream(filler) << std::string(1 << 20, 'f');  // as much as fits
          const uintmax_t bytes = fs::file_size(filler);
          fs::resize_file(filler, bytes - std::min(bytes, left * 4096));
          const Outcome outcome = outcomeOf([&] { save(2); });
          if (outcome.text == "no error") break;
          EXPECT_NE(outcome.text.find("No space left on device"), std::string::npos)
              << outcome.text;
          EXPECT_EQ(checkpointSteps(root_), std::vector<int64_t>{1});
          EXPECT_EQ(opened(checkpointPath(root_, 1), 1).text, "no error");
          EXPECT_FALSE(hasLeftovers());
          if (++refused > 20) break;
        }
        EXPECT_GE(refused, 2);
        EXPECT_LE(refused, 20);
        EXPECT_EQ(opened(checkpointPath(root_, 2), 2).text, "no error");
        return 0;
      },
      &code);
  if (code == kNoMount) GTEST_SKIP() << "no file system can be mounted here: not root";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::parallel
