// A file of an option: what was there stays until the new one is whole.

#include "src/tools/common/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <tutti/error.h>

#include "tests/support/temporary_folder.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  int entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  std::string why(const std::string& path) const {
    try {
      writeFile("--json", path, std::string(1 << 20, 'x'));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  tests::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "file").string();
};

TEST_F(OutputFileTest, TakesItsPlaceWhenItIsWhole) {
  std::ofstream(path_) << "before";
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  OutputFile file("--json", path_);
  file.stream() << "after " << 1;
  EXPECT_EQ(folder_.read("file"), "before");
  file.commit();
  EXPECT_EQ(folder_.read("file"), "after 1");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms{0640});
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, LeavesWhatWasThereIfItIsNotCommitted) {
  {
    OutputFile file("--json", path_);
    file.stream() << "half";
    EXPECT_EQ(entries(), 1);
  }
  EXPECT_EQ(entries(), 0);
  std::ofstream(path_) << "before";
  requireWritable("--json", path_);
  EXPECT_EQ(folder_.read("file"), "before");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, FollowsLinks) {
  fs::create_directory(folder_.path() / "data");
  fs::create_symlink("data/real", path_);
  writeFile("--json", path_, "one");
  writeFile("--json", path_, "two");
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(folder_.read("data/real"), "two");
}

TEST_F(OutputFileTest, NamesOptionFileAndError) {
  EXPECT_EQ(why("/nowhere/at/all"),
            "--json /nowhere/at/all cannot be written: No such file or directory");
  EXPECT_EQ(why("/dev/full"), "--json /dev/full cannot be written: No space left on device");
  EXPECT_EQ(why(folder_.path().string()),
            "--json " + folder_.path().string() + " cannot be written: Is a directory");
}

TEST_F(OutputFileTest, DoesNotWaitForAReader) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(why(path_), "--json " + path_ + " cannot be written: No such device or address");
}

}  // namespace
}  // namespace tutti::tools
