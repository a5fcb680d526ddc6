// A checkpoint that is written while the training goes on is that of the step at which it was asked
// for; what the disk does to it meanwhile leaves the one before whole, and is said on all ranks.

#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <thread>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/names.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/checkpoint/disk_calls.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/child_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;

constexpr GptOptions kTiny{.context = 8, .layers = 1, .width = 16, .heads = 2};

/// One rank of a small training.
struct Trainer {
  explicit Trainer(DeviceMesh& mesh, const ShardPolicy& policy = ShardPolicy::ddp())
      : engine(mesh, kernels, model, {.policy = policy, .reductionGroups = 4}),
        text(makeText()),
        loader(text, kTiny.context, 4, 1) {}
  void steps(int64_t count) {
    for (const int64_t end = next + count; next < end; ++next)
      engine.step(loader, next, *adam, 0.01);
  }

  HostKernels kernels;
  Gpt model{kTiny};
  Engine engine;
  std::unique_ptr<Optimizer> adam = makeAdamW({});
  std::vector<uint8_t> text;
  Loader loader;
  int64_t next = 0;
};

class BackgroundSaves : public testing::Test {
 protected:
  tests::TemporaryFolder folder_;
  const fs::path root_ = folder_.path() / "run", other_ = folder_.path() / "other";
};

TEST_F(BackgroundSaves, AreOfTheStepAtWhichTheyWereAskedFor) {
  for (const ShardPolicy& policy :
       {ShardPolicy::ddp(), ShardPolicy::zero(2), ShardPolicy::fsdp()}) {
    fs::remove_all(root_);
    fs::remove_all(other_);
    tests::DiskCalls disk;
    onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
      Trainer trainer(mesh, policy);
      trainer.steps(1);
      trainer.engine.saveInBackground(root_, 1, *trainer.adam);  // makes its communicator
      trainer.engine.awaitSave();
      trainer.steps(2);
      trainer.engine.save(other_, 3, *trainer.adam);
      if (mesh.rank() == 0) disk.hold();
      mesh.communicator(AxisSet::all())->barrier();
      trainer.engine.saveInBackground(root_, 3, *trainer.adam);
      trainer.steps(3);  // while no file can be written
      mesh.communicator(AxisSet::all())->barrier();
      EXPECT_EQ(checkpointSteps(root_), std::vector<int64_t>{1});
      mesh.communicator(AxisSet::all())->barrier();
      if (mesh.rank() == 0) disk.release();
      // The next one waits for it.
      trainer.engine.saveInBackground(root_, 6, *trainer.adam);
      EXPECT_GE(checkpointSteps(root_).size(), 2u);
      trainer.engine.awaitSave();
      EXPECT_EQ(checkpointSteps(root_), (std::vector<int64_t>{1, 3, 6}));
    });
    fs::remove_all(checkpointPath(root_, 6));
    EXPECT_EQ(savedTensors(root_), savedTensors(other_));
    EXPECT_EQ(CheckpointReader(checkpointPath(root_, 3)).metadata(),
              CheckpointReader(checkpointPath(other_, 3)).metadata());
  }
}

// Masters and both moments, of which each rank has its part; once, however often it saves.
TEST_F(BackgroundSaves, SayWhatTheyHold) {
  for (const auto& bytes : onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
         Trainer trainer(mesh, ShardPolicy::fsdp());
         trainer.steps(1);
         trainer.engine.save(root_, 1, *trainer.adam);
         const TrainingMemory before = trainer.engine.memory();
         EXPECT_EQ(before.saving, 0u);
         for (const int64_t step : {2, 3})
           trainer.engine.saveInBackground(root_, step, *trainer.adam);
         trainer.engine.awaitSave();
         const TrainingMemory after = trainer.engine.memory();
         EXPECT_EQ(after.total(), before.total() + after.saving);
         return std::pair{after.saving, after.store.weights + after.store.optimizer};
       })) {
    EXPECT_GT(bytes.first, 0u);
    EXPECT_LE(bytes.first, bytes.second + (size_t{1} << 16));
  }
}

/// A disk that fails at one call after the other, until there are no more calls in a save.
TEST_F(BackgroundSaves, ThatFailAreSaidOnAllRanksAndLeaveTheOneBefore) {
  tests::DiskCalls disk;
  int failed = 0;
  onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
    MeshCommunicator& all = *mesh.communicator(AxisSet::all());
    Trainer trainer(mesh, ShardPolicy::fsdp());
    trainer.steps(1);
    trainer.engine.saveInBackground(root_, 1, *trainer.adam);
    trainer.engine.awaitSave();
    int64_t step = 1;
    for (size_t call = 0;; ++call) {
      all.barrier();
      if (mesh.rank() == 0) disk.failAt(disk.count() + call, ENOSPC);
      all.barrier();
      trainer.engine.saveInBackground(root_, step + 1, *trainer.adam);
      trainer.steps(1);
      std::string said;
      try {
        trainer.engine.awaitSave();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::System) << error.what();
        said = error.what();
      }
      all.barrier();
      if (mesh.rank() == 0) disk.failAt(SIZE_MAX, 0);
      const std::vector<int64_t> steps = checkpointSteps(root_);
      ASSERT_FALSE(steps.empty());
      ASSERT_GE(steps.back(), step);
      CheckpointReader(checkpointPath(root_, steps.back())).verify();
      all.barrier();
      if (said.empty()) {
        EXPECT_EQ(steps.back(), step + 1);
        break;
      }
      EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
      if (mesh.rank() == 0) ++failed;
      step = steps.back() + 1;
      trainer.engine.saveInBackground(root_, step, *trainer.adam, 1);
      trainer.engine.awaitSave();
      EXPECT_EQ(checkpointSteps(root_), std::vector<int64_t>{step});
    }
  });
  EXPECT_GT(failed, 15);
}

TEST_F(BackgroundSaves, AreWrittenToTheirEndWhenTheTrainingEnds) {
  onRanks(MeshShape::parse("dp=2"), false, [&](DeviceMesh& mesh) {
    Trainer trainer(mesh);
    trainer.steps(1);
    trainer.engine.saveInBackground(root_, 1, *trainer.adam);
  });
  CheckpointReader(*latestCheckpoint(root_)).verify();
  EXPECT_TRUE(partialCheckpoints(root_).empty());
}

TEST_F(BackgroundSaves, ThatAKillInterruptsLeaveTheOneBefore) {
  std::mt19937_64 random(tests::testSeed());
  {
    DeviceMesh mesh;
    Trainer trainer(mesh);
    trainer.steps(1);
    trainer.engine.save(root_, 1, *trainer.adam);
  }
  int halves = 0;
  const int kills = tests::testKills(30);
  for (int i = 0; i < kills; ++i) {
    tests::ChildProcesses child;
    child.start([&]() -> int {
      DeviceMesh mesh;
      Trainer trainer(mesh);
      trainer.next = trainer.engine.load(*latestCheckpoint(root_), *trainer.adam);
      for (;;) {
        trainer.steps(1);
        trainer.engine.saveInBackground(root_, trainer.next, *trainer.adam, 2);
      }
    });
    // Until it has saved once, and then as long again at most: however slow it is, it saves then.
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] { return std::chrono::steady_clock::now() - begin; };
    const int64_t before = checkpointSteps(root_).back();
    while (checkpointSteps(root_).back() == before && elapsed() < tests::kPatience)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(elapsed() * static_cast<double>(random() % 1000) / 1000.0);
    child.signal(0, SIGKILL);
    ASSERT_EQ(child.wait(0, tests::kPatience), 128 + SIGKILL);
    halves += !partialCheckpoints(root_).empty();
    for (const int64_t step : checkpointSteps(root_))
      CheckpointReader(checkpointPath(root_, step)).verify();
  }
  EXPECT_GT(halves, kills / 10) << "the kills came at no moment that matters";
  EXPECT_GT(checkpointSteps(root_).back(), 1);
}

}  // namespace
}  // namespace tutti::parallel
