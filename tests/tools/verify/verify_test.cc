// `tutti verify`: sound folders, and damage that is named by file and field.

#include "src/tools/verify/verify.h"

#include <gtest/gtest.h>

#include "parallel/checkpoint/names.h"
#include "tests/parallel/checkpoint/checkpoint_parts.h"
#include "tests/support/run_tutti.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;
using launcher::Result;
using launcher::runTutti;

std::string weights;
const tests::Arguments commandLine{{"TUTTI", &launcher::tuttiPath}, {"HUGGINGFACE", &weights}};

class Verify : public testing::Test {
 protected:
  fs::path save(int64_t step) {
    const std::vector<parallel::GlobalTensor> tensors{{"w", DataType::Float32, {5, 2}},
                                                      {"b", DataType::BFloat16, {3}}};
    return parallel::saveCheckpoint(root_, step, tensors, parallel::rowsOver(2, tensors));
  }
  static std::string said(const fs::path& folder) {
    const auto verdicts = verifyFolder(folder);
    EXPECT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].folder, folder);
    return (verdicts[0].sound ? "+ " : "- ") + verdicts[0].text;
  }

  tests::TemporaryFolder folder_;
  const fs::path root_ = folder_.path() / "run";
};

TEST_F(Verify, FindsEveryDamageAndNamesIt) {
  const fs::path folder = save(7), file = folder / parallel::shardName(1);
  EXPECT_EQ(said(folder), "+ sound: step 7, 2 tensors of 46 bytes in 2 files, by their checksums");
  const std::string whole = tests::contentsOf(file);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    tests::setContents(file, bad);
    EXPECT_EQ(said(folder).find("- " + file.string()), 0u) << said(folder);
  }
  EXPECT_NE(said(folder).find(": xxh128: its data has changed"), std::string::npos);
  tests::setContents(file, whole + "x");
  EXPECT_NE(said(folder).find("bytes, and the manifest says"), std::string::npos) << said(folder);
  fs::remove(file);
  EXPECT_EQ(said(folder).find("- cannot open " + file.string()), 0u) << said(folder);
  tests::setContents(file, whole);
  EXPECT_EQ(said(folder).find("+ sound"), 0u);
  tests::setContents(folder / parallel::kManifestName, "{}");
  EXPECT_EQ(said(folder),
            "- " + (folder / parallel::kManifestName).string() + ": there is no checkpoint");
}

TEST_F(Verify, LooksAtAllCheckpointsOfAFolder) {
  save(1);
  fs::remove(save(2) / parallel::kManifestName);
  fs::resize_file(save(3) / parallel::shardName(0), 5);
  const auto verdicts = verifyFolder(root_);
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_TRUE(verdicts[0].sound) << verdicts[0].text;
  EXPECT_FALSE(verdicts[1].sound) << verdicts[1].text;
  EXPECT_FALSE(verdicts[2].sound) << verdicts[2].text;
  EXPECT_EQ(said(folder_.path()),
            "- it has neither a manifest.json, nor a config.json, nor folders of checkpoints");
  EXPECT_EQ(said(folder_.path() / "none"), "- this is no folder");
}

// It says what it could not look at.
TEST_F(Verify, ComparesTheSizesOfWeights) {
  EXPECT_EQ(
      said(weights + "/gpt2"),
      "+ its headers, lengths and sizes agree; such folders have no checksums, so the numbers "
      "were not checked");
  fs::copy(weights + "/gpt2", folder_.path() / "gpt2");
  const fs::path file = folder_.path() / "gpt2" / "model.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(said(folder_.path() / "gpt2").find("- " + file.string()), 0u);
}

TEST_F(Verify, EndsWithWhatItFound) {
  const std::string good = save(1), bad = save(2);
  EXPECT_EQ(runTutti({"verify", good}).exitCode, 0);
  fs::resize_file(fs::path(bad) / parallel::shardName(0), 5);
  const Result both = runTutti({"verify", good, bad});
  EXPECT_EQ(both.exitCode, 1);
  EXPECT_NE(both.out.find(good + ": sound: "), std::string::npos) << both.out;
  EXPECT_NE(both.out.find(bad + ": NOT SOUND: " + bad + "/rank-00000.safetensors has 5 bytes"),
            std::string::npos)
      << both.out;
  EXPECT_EQ(runTutti({"verify"}).exitCode, 2);
}

}  // namespace
}  // namespace tutti::tools
