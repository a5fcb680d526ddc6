// A training goes on from the newest checkpoint whose files are sound. Damaged ones are named and
// set aside, and never removed; one of another training is refused, and not passed over.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "parallel/checkpoint/names.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
using tests::Outcome;
using tests::outcomeOf;

constexpr GptOptions kTiny{.context = 8, .layers = 1, .width = 16, .heads = 2};

/// One rank of a training, whose state follows from the step that it saved last.
struct Training {
  explicit Training(DeviceMesh& itsMesh)
      : mesh(itsMesh),
        engine(mesh, kernels, model, {.policy = ShardPolicy::fsdp(), .reductionGroups = 4}),
        text(makeText()),
        loader(text, kTiny.context, 4, 1) {}
  void save(const fs::path& root, int64_t step) {
    engine.step(loader, step, *adam, 0.01);
    engine.save(root, step, *adam, 0, {{"run", "this"}});
  }
  /// Of rank 0 the warnings, too.
  std::optional<int64_t> loadNewest(const fs::path& root, const std::string& run = "this") {
    return engine.loadNewest(root, *adam, {{"run", run}}, [&](const std::string& what) {
      EXPECT_EQ(mesh.rank(), 0);
      warnings.push_back(what);
    });
  }

  DeviceMesh& mesh;
  HostKernels kernels;
  Gpt model{kTiny};
  Engine engine;
  std::unique_ptr<Optimizer> adam = makeAdamW({});
  std::vector<uint8_t> text;
  Loader loader;
  std::vector<std::string> warnings;
};

/// Three checkpoints.
class LoadNewest : public testing::Test {
 protected:
  void SetUp() override {
    onRanks(kMesh, false, [&](DeviceMesh& mesh) {
      Training training(mesh);
      for (const int64_t step : {1, 2, 3}) training.save(root_, step);
    });
  }
  fs::path at(int64_t step) const { return checkpointPath(root_, step); }
  fs::path shard(int64_t step) const { return at(step) / shardName(1); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(root_))
      found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }

  static inline const MeshShape kMesh = MeshShape::parse("fsdp=2");
  tests::TemporaryFolder folder_;
  const fs::path root_ = folder_.path() / "run";
};

/// What may be wrong with a checkpoint, and what is said then.
struct Damage {
  std::string why;
  std::function<void(const fs::path& shard, const fs::path& manifest)> make;
};

const std::vector<Damage> kDamages{
    {"rank-00001.safetensors has 100 bytes",
     [](const fs::path& shard, const fs::path&) { fs::resize_file(shard, 100); }},
    {"xxh128: its data has changed",
     [](const fs::path& shard, const fs::path&) {
       std::string bytes = tests::contentsOf(shard);
       bytes.back() = static_cast<char>(bytes.back() ^ 1);
       tests::setContents(shard, bytes);
     }},
    {"cannot open ", [](const fs::path& shard, const fs::path&) { fs::remove(shard); }},
    {"this is no JSON",
     [](const fs::path&, const fs::path& manifest) { fs::resize_file(manifest, 100); }},
    {"cannot open ", [](const fs::path&, const fs::path& manifest) { fs::remove(manifest); }}};

TEST_F(LoadNewest, TakesTheNewestThatIsSound) {
  for (const Damage& damage : kDamages) {
    const fs::path root = folder_.path() / "damaged";
    fs::remove_all(root);
    fs::copy(root_, root, fs::copy_options::recursive);
    const fs::path newest = checkpointPath(root, 3), before = checkpointPath(root, 2);
    damage.make(newest / shardName(1), newest / kManifestName);
    onRanks(kMesh, false, [&](DeviceMesh& mesh) {
      Training training(mesh);
      EXPECT_EQ(training.loadNewest(root), 2) << damage.why;
      const auto& said = training.warnings;
      ASSERT_EQ(said.size(), mesh.rank() == 0 ? 1u : 0u);
      if (mesh.rank() == 0) {
        EXPECT_TRUE(
            said[0].starts_with(message(newest.string(), " is damaged, and is ", newest.string(),
                                        ".damaged now; the training goes "
                                        "on from ",
                                        before.string(), ": ")) &&
            said[0].find(damage.why) != std::string::npos)
            << said[0];
      }
      training.engine.save(folder_.path() / "again", 2, *training.adam, 0);
      training.save(root, 3);  // its step is free
    });
    // What was loaded is what had been saved.
    EXPECT_EQ(tests::contentsOf(folder_.path() / "again" / "step-000002" / shardName(1)),
              tests::contentsOf(shard(2)));
    fs::remove_all(folder_.path() / "again");
    EXPECT_EQ(stepsOfFolders(root), (std::vector<int64_t>{1, 2, 3}));
    EXPECT_TRUE(fs::exists(root / "step-000003.damaged"));
  }
}

TEST_F(LoadNewest, SetsAsideAllThatAreNewerAndRemovesNone) {
  for (const int64_t step : {2, 3}) fs::resize_file(shard(step), 9);
  onRanks(kMesh, false, [&](DeviceMesh& mesh) {
    Training training(mesh);
    EXPECT_EQ(training.loadNewest(root_), 1);
  });
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000001", "step-000002.damaged",
                                               "step-000003.damaged"}));
  for (const char* name : {"step-000002.damaged", "step-000003.damaged"})
    EXPECT_EQ(std::distance(fs::directory_iterator(root_ / name), {}), 3) << name;
}

TEST_F(LoadNewest, RenamesNothingWhenNoneIsSound) {
  const auto before = names();
  for (const int64_t step : {1, 2, 3}) fs::resize_file(shard(step), 9);
  onRanks(kMesh, false, [&](DeviceMesh& mesh) {
    Training training(mesh);
    const Outcome outcome = outcomeOf([&] { training.loadNewest(root_); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
    EXPECT_NE(outcome.text.find("all of its 3 checkpoints are damaged; the newest: "),
              std::string::npos)
        << outcome.text;
    EXPECT_NE(outcome.text.find(shard(3).string() + " has 9 bytes"), std::string::npos)
        << outcome.text;
  });
  EXPECT_EQ(names(), before);
}

TEST_F(LoadNewest, RefusesThatOfAnotherTraining) {
  const auto before = names();
  onRanks(kMesh, false, [&](DeviceMesh& mesh) {
    Training training(mesh);
    const Outcome outcome = outcomeOf([&] { training.loadNewest(root_, "other"); });
    EXPECT_NE(outcome.text.find("metadata: run: it was saved with this, not other"),
              std::string::npos)
        << outcome.text;
    EXPECT_EQ(training.loadNewest(folder_.path() / "none"), std::nullopt);
    EXPECT_EQ(training.loadNewest(root_), 3);
    EXPECT_TRUE(training.warnings.empty());
  });
  EXPECT_EQ(names(), before);
}

}  // namespace
}  // namespace tutti::parallel
