// A mesh whose tensors are on emulated GPUs: arenas there, elements that come and go, and the order
// in which collectives run behind and before what is computed. What is computed are copies here,
// behind a gate that the test opens when all is enqueued.

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "parallel/mesh/redistribute.h"
#include "parallel/tensor/box.h"
#include "tests/device/cuda_test.h"
#include "tests/parallel/parity/scoped_mutation.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

using tests::CudaGate;
using tests::expectError;
using tests::gpu;
using tests::outcomeOf;

constexpr Purpose kPurpose = Purpose::SampleTensor;
constexpr int64_t kCount = 1000;

class MeshOnGpus : public tests::CudaTest {};

std::vector<float> downloaded(const DeviceMesh& mesh, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  mesh.download(tensor, values.data());
  return values;
}

Tensor uploaded(const DeviceMesh& mesh, Arena& arena, const std::vector<float>& values,
                const Shape& shape) {
  const Tensor tensor = arena.allocate(DType::Float32, shape);
  mesh.upload(values.data(), tensor);
  return tensor;
}

std::vector<float> counted(size_t count, float first = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_F(MeshOnGpus, ElementsComeAndGoInTheStreamsOrder) {
  const DeviceMesh mesh(gpu(1));
  EXPECT_EQ(mesh.device(), gpu(1));
  Arena arena("numbers", mesh.backing());
  const Tensor x = uploaded(mesh, arena, counted(kCount), {kCount});
  const Tensor y = arena.allocate(DType::Float32, {kCount});
  copy({y.data, x.data, x.bytes()}, mesh.stream());
  EXPECT_EQ(downloaded(mesh, y), counted(kCount));
  EXPECT_THROW(mesh.download(x.view({kCount / 2, 2}).part(1, 0, 1), y.data), Error);
}

// Also to memory that a copy is not done with when it returns.
TEST_F(MeshOnGpus, ElementsAreThereWhenADownloadReturns) {
  const DeviceMesh mesh(gpu(1));
  Arena arena("numbers", mesh.backing());
  const Tensor x = uploaded(mesh, arena, counted(kCount), {kCount});
  const Memory pinned = allocatePinned(x.bytes());
  std::fill_n(pinned.as<float>(), kCount, -1.f);
  CudaGate gate(mesh.stream());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
  });
  mesh.download(x, pinned.data());
  EXPECT_EQ(pinned.as<float>()[kCount - 1], kCount - 1);
  opener.join();
}

// The elements that are kept lie less than their length behind their new place, or far from it.
TEST_F(MeshOnGpus, WhatAnArenaRetainsMovesDown) {
  const DeviceMesh mesh(gpu(0));
  for (const int64_t before : {0, 1, 16, 17, 5000}) {
    Arena arena("numbers", mesh.backing());
    arena.allocate(DType::Float32, {7});
    const Arena::Mark mark = arena.mark();
    arena.allocate(DType::Float32, {before});
    const Tensor x = uploaded(mesh, arena, counted(kCount), {kCount});
    const Tensor moved = arena.retain(mark, x);
    EXPECT_EQ(static_cast<std::byte*>(x.data) - static_cast<std::byte*>(moved.data),
              (before * 4 + 63) / 64 * 64);
    EXPECT_EQ(downloaded(mesh, moved), counted(kCount)) << before;
  }
}

TEST_F(MeshOnGpus, AnArenaSaysWhatItCannotHave) {
  const DeviceMesh mesh(gpu(2));
  Arena arena("numbers", mesh.backing());
  arena.allocate(DType::Float32, {1});
  expectError(
      outcomeOf([&] { arena.allocate(DType::Float32, {int64_t{1} << 40}); }),
      ErrorCode::OutOfMemory,
      "the numbers arena, which holds 4194304, could not grow: cudaMalloc failed on cuda:2");
  expectError(outcomeOf([&] { Arena("numbers", mesh.backing("/tmp")); }), ErrorCode::Unsupported,
              "the numbers arena is memory of cuda:2, and cannot be files in /tmp");
}

/// A rank whose stream stands before a gate, behind which its tensor gets its values.
struct Gated {
  explicit Gated(DeviceMesh& onMesh)
      : mesh(onMesh),
        group(*mesh.communicator(AxisSet::all())),
        arena("numbers", mesh.backing()),
        x(uploaded(mesh, arena, std::vector<float>(kCount, -1), {kCount})),
        values(allocatePinned(x.bytes())),
        gate(mesh.stream()) {
    std::fill_n(values.as<float>(), kCount, static_cast<float>(mesh.rank() + 1));
    copy({x.data, values.data(), x.bytes()}, mesh.stream());
  }
  /// What is computed next takes x, and the gate is opened, once what did not wait for it has had
  /// time to go wrong.
  std::vector<float> result() {
    const Tensor y = arena.allocate(DType::Float32, {kCount});
    copy({y.data, x.data, x.bytes()}, mesh.stream());
    copy({x.data, values.data(), x.bytes()}, mesh.stream());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
    return downloaded(mesh, y);
  }
  AllReduceArgs sum() const {
    return {.send = x.data, .recv = x.data, .count = static_cast<size_t>(kCount), .type = x.type};
  }

  DeviceMesh& mesh;
  MeshCommunicator& group;
  Arena arena;
  const Tensor x;
  const Memory values;
  CudaGate gate;
};

const std::vector<Device> kTwo{gpu(0), gpu(1)};
const MeshShape kShape = MeshShape::parse("dp=2");

TEST_F(MeshOnGpus, CollectivesRunBetweenWhatIsComputed) {
  onRanks(
      kShape, false,
      [](DeviceMesh& mesh) {
        Gated rank(mesh);
        rank.group.allReduce(kPurpose, rank.sum());
        EXPECT_EQ(rank.result(), std::vector<float>(kCount, 3));
      },
      kTwo);
}

TEST_F(MeshOnGpus, CollectivesOfOtherStreamsAreBehindWhatIsComputed) {
  onRanks(
      kShape, false,
      [](DeviceMesh& mesh) {
        Stream own(mesh.device());
        Event added(mesh.device());
        Gated rank(mesh);
        rank.group.allReduce(kPurpose, rank.sum(), own);
        added.record(own);
        added.wait(mesh.stream());
        EXPECT_EQ(rank.result(), std::vector<float>(kCount, 3));
        own.synchronize();
      },
      kTwo);
}

// A rank whose elements wait for a collective holds nobody up who has not called it yet, also where
// copies of the host's memory would (TUTTI_EMULATION_LOCKED_WAITS).
TEST_F(MeshOnGpus, ElementsThatWaitForACollectiveLetOtherRanksOfTheDeviceCallIt) {
  for (const bool isUpload : {false, true})
    onRanks(kShape, false,
            [&](DeviceMesh& mesh) {
              Stream own(mesh.device());
              Event added(mesh.device());
              Arena arena("numbers", mesh.backing());
              const Tensor x = uploaded(mesh, arena, std::vector<float>(kCount, 1), {kCount});
              MeshCommunicator& group = *mesh.communicator(AxisSet::all());
              mesh.finish();
              if (mesh.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
              group.allReduce(kPurpose,
                              {.send = x.data,
                               .recv = x.data,
                               .count = static_cast<size_t>(kCount),
                               .type = x.type},
                              own);
              added.record(own);
              added.wait(mesh.stream());
              if (isUpload) {
                mesh.upload(counted(kCount).data(), x);
                EXPECT_EQ(downloaded(mesh, x), counted(kCount));
              } else {
                EXPECT_EQ(downloaded(mesh, x), std::vector<float>(kCount, 2));
              }
              own.synchronize();
            },
            {gpu(0), gpu(0)});
}

TEST_F(MeshOnGpus, MessagesAreBehindWhatIsComputed) {
  onRanks(
      kShape, false,
      [](DeviceMesh& mesh) {
        Stream own(mesh.device());
        Event passed(mesh.device());
        Gated rank(mesh);
        const int peer = 1 - mesh.rank();
        const Tensor got = rank.arena.allocate(DType::Float32, {kCount});
        rank.group.exchange(std::array{MeshMessage::to(peer, kPurpose, rank.x),
                                       MeshMessage::from(peer, kPurpose, got)},
                            own);
        passed.record(own);
        passed.wait(mesh.stream());
        copy({rank.x.data, got.data, got.bytes()}, mesh.stream());
        EXPECT_EQ(rank.result(), std::vector<float>(kCount, static_cast<float>(peer + 1)));
        own.synchronize();
      },
      kTwo);
}

// Numbers of the host do not wait for what a GPU computes.
TEST_F(MeshOnGpus, NumbersOfTheHostStayThere) {
  onRanks(
      kShape, false,
      [](DeviceMesh& mesh) {
        Gated rank(mesh);
        double number = mesh.rank() + 1;
        rank.group.allReduce(
            Purpose::PartLoss,
            {.send = &number, .recv = &number, .count = 1, .type = DType::Float64});
        EXPECT_EQ(number, 3);
        rank.gate.open();
      },
      kTwo);
}

TEST_F(MeshOnGpus, MutationsChangeWhatIsThere) {
  for (const Change change : {Change::Double, Change::Drop}) {
    const ScopedMutation mutation(Mutation{kPurpose, change});
    for (const bool onOther : {false, true})
      onRanks(
          kShape, false,
          [&](DeviceMesh& mesh) {
            Stream own(mesh.device());
            Arena arena("numbers", mesh.backing());
            const auto value = static_cast<float>(mesh.rank() + 1);
            const Tensor x = uploaded(mesh, arena, std::vector<float>(kCount, value), {kCount});
            mesh.communicator(AxisSet::all())
                ->allReduce(kPurpose,
                            {.send = x.data,
                             .recv = x.data,
                             .count = static_cast<size_t>(kCount),
                             .type = x.type},
                            onOther ? StreamRef(own) : StreamRef());
            const float expected = change == Change::Drop ? value : 2 * 3;
            EXPECT_EQ(downloaded(mesh, x), std::vector<float>(kCount, expected));
          },
          kTwo);
  }
}

// Rows, columns, and blocks that are not even.
TEST_F(MeshOnGpus, TensorsAreRedistributed) {
  const Shape global{5, 6};
  const std::vector<float> whole = counted(30, 1);
  onRanks(
      MeshShape::parse("tp=2"), false,
      [&](DeviceMesh& mesh) {
        const auto layoutOf = [](int dimension) {
          Layout layout;
          if (dimension >= 0) layout.dims[static_cast<size_t>(dimension)] = {Axis::Tensor};
          return layout;
        };
        const auto partOf = [&](const Layout& layout) {
          const Box box = boxOf(global, layout, mesh.shape(), mesh.place());
          std::vector<float> part;
          forEachRun(box, wholeOf(global), [&](const BoxRun& run) {
            for (int64_t i = 0; i < run.count; ++i)
              part.push_back(whole[static_cast<size_t>(run.to + i)]);
          });
          return part;
        };
        for (const int from : {-1, 0, 1})
          for (const int to : {-1, 0, 1}) {
            Arena arena("numbers", mesh.backing());
            Tensor x = uploaded(mesh, arena, partOf(layoutOf(from)),
                                localShape(global, layoutOf(from), mesh.shape(), mesh.place()));
            x.layout = layoutOf(from);
            const Tensor y = redistribute(kPurpose, mesh, x, global, layoutOf(to), arena);
            EXPECT_EQ(downloaded(mesh, y), partOf(layoutOf(to))) << from << " to " << to;
          }
      },
      kTwo);
}

}  // namespace
}  // namespace tutti::parallel
