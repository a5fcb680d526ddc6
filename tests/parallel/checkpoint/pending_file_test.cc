// A file that takes the place of another does so when it is whole: a disk that fails, at whichever
// call, leaves the one that was there, and nothing beside it.

#include "parallel/checkpoint/pending_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "tests/parallel/checkpoint/disk_calls.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
using tests::DiskCall;
using tests::Outcome;
using tests::outcomeOf;

class PendingFiles : public testing::Test {
 protected:
  std::map<std::string, std::string> everything() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      files[entry.path().filename()] = tests::contentsOf(entry.path());
    return files;
  }

  const tests::TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "file";
};

TEST_F(PendingFiles, TakeTheNameWhenTheDiskHasThem) {
  tests::setContents(path_, "old");
  tests::DiskCalls disk;
  replaceText(path_, "new");
  EXPECT_EQ(tests::contentsOf(path_), "new");
  std::vector<DiskCall::Kind> kinds;
  for (const DiskCall& call : disk.calls()) {
    EXPECT_NE(call.path, path_) << "the old one was touched";
    kinds.push_back(call.kind);
  }
  using enum DiskCall::Kind;
  // The first file shows that there can be one.
  EXPECT_EQ(kinds, (std::vector{CreateFile, CreateFile, Write, Sync, Rename, Sync}));
}

TEST_F(PendingFiles, LeaveTheOldOneWhereTheDiskFails) {
  size_t refused = 0;
  for (size_t call = 0;; ++call) {
    tests::setContents(path_, "old");
    tests::DiskCalls disk;
    disk.failAt(call, ENOSPC);
    const Outcome outcome = outcomeOf([&] { replaceText(path_, "new"); });
    if (disk.calls().size() <= call) break;
    EXPECT_EQ(outcome.code, ErrorCode::System);
    EXPECT_NE(outcome.text.find("No space left on device"), std::string::npos) << outcome.text;
    EXPECT_NE(outcome.text.find(folder_.path().string()), std::string::npos) << outcome.text;
    // The last call syncs a rename that has been made.
    const bool renamed = disk.calls()[call].path == folder_.path();
    EXPECT_EQ(everything(),
              (std::map<std::string, std::string>{{"file", renamed ? "new" : "old"}}));
    ++refused;
  }
  EXPECT_EQ(refused, 6u);
}

TEST_F(PendingFiles, RefuseWhatIsThere) {
  tests::setContents(path_, "old");
  {
    PendingFile pending(path_);
    pending.file().write(0, "new", 3);
    const Outcome outcome = outcomeOf([&] { pending.publish(PendingFile::Existing::Refuse); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidUsage);
    EXPECT_EQ(outcome.text, path_.string() + " is there already");
  }
  EXPECT_EQ(everything(), (std::map<std::string, std::string>{{"file", "old"}}));
}

/// As on NFS.
TEST_F(PendingFiles, RefuseWhatIsThereWhereTheFileSystemDoesNot) {
  for (const bool there : {false, true}) {
    if (there) tests::setContents(path_, "old");
    PendingFile pending(path_);
    pending.file().write(0, "new", 3);
    tests::DiskCalls disk;
    disk.failAt(1, EINVAL);  // after the sync
    const Outcome outcome = outcomeOf([&] { pending.publish(PendingFile::Existing::Refuse); });
    EXPECT_EQ(outcome.text, there ? path_.string() + " is there already" : "no error");
    EXPECT_EQ(tests::contentsOf(path_), there ? "old" : "new");
  }
}

TEST_F(PendingFiles, KeepModesAndLinks) {
  tests::setContents(folder_.path() / "real", "old");
  fs::permissions(folder_.path() / "real", fs::perms{0604});
  fs::create_symlink("real", path_);
  replaceText(path_, "new");
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(tests::contentsOf(folder_.path() / "real"), "new");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms{0604});
  // One that leads nowhere gets something to lead to.
  fs::create_symlink("later", folder_.path() / "link");
  replaceText(folder_.path() / "link", "text");
  EXPECT_EQ(tests::contentsOf(folder_.path() / "later"), "text");
}

TEST_F(PendingFiles, ArePutIntoStreamsAsTheyAre) {
  EXPECT_EQ(outcomeOf([&] { replaceText("/dev/full", "x"); }).text,
            "cannot write /dev/full: No space left on device");
  EXPECT_NO_THROW(replaceText("/dev/null", "x"));
  // Another process may have it open, as a shell that led an output into it.
  tests::setContents(path_, "old ");
  std::FILE* const open = std::fopen(path_.c_str(), "r+");
  ASSERT_NE(open, nullptr);
  const std::string number = std::to_string(fileno(open));
  for (const char* folder : {"/proc/self/fd/", "/dev/fd/"}) replaceText(folder + number, "more ");
  std::string there(100, '\0');
  there.resize(std::fread(there.data(), 1, there.size(), open));
  EXPECT_EQ(there, "old more more ") << "it has another file open";
  std::fclose(open);
  EXPECT_TRUE(isStream("/dev/stdout"));
  EXPECT_FALSE(isStream(path_));
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(isStream(path_));
  EXPECT_NO_THROW(requireReplaceable(path_)) << "it waits for nobody to read";
}

TEST_F(PendingFiles, SayBeforehandWhatCannotBe) {
  requireReplaceable(path_);
  EXPECT_TRUE(everything().empty());
  EXPECT_EQ(outcomeOf([&] { requireReplaceable(folder_.path()); }).text,
            folder_.path().string() + " is a folder");
  const Outcome nowhere = outcomeOf([&] { requireReplaceable(path_ / "x"); });
  EXPECT_EQ(nowhere.code, ErrorCode::System);
  EXPECT_NE(nowhere.text.find("No such file or directory"), std::string::npos) << nowhere.text;
}

TEST_F(PendingFiles, BeginWithTheFlagThatNamesThem) {
  const Outcome outcome =
      outcomeOf([&] { naming("--json", [] { replaceText("/dev/full", "x"); }); });
  EXPECT_EQ(outcome.code, ErrorCode::System);
  EXPECT_EQ(outcome.text, "--json: cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace tutti::parallel
