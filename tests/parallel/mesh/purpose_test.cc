// Purposes: their table, and what a mutation of one changes: its calls on all ranks, or the factor,
// and nothing else.

#include "parallel/mesh/purpose.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <type_traits>

#include "tests/parallel/parity/scoped_mutation.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

constexpr Purpose kPurpose = Purpose::LossSum;  // any that gives values
constexpr size_t kRanks = 3;
constexpr float kUntouched = -1;
using Results = std::vector<std::vector<float>>;  // by rank: what it received

std::vector<float> numbers(size_t rank, bool zeros) {
  std::vector<float> values(12, 0);
  if (!zeros) std::iota(values.begin(), values.end(), 10 * static_cast<float>(rank + 1));
  return values;
}

/// A call of that form, of blocks that are even or not, on a stream or not.
std::vector<float> call(MeshCommunicator& group, PurposeForm form, bool zeros, bool onStream) {
  const auto rank = static_cast<size_t>(group.rank());
  std::vector<float> x = numbers(rank, zeros), y(x.size(), kUntouched);
  const std::vector<size_t> counts{2, 0, 5}, pairs{rank, rank + 1, rank + 2};
  Stream queue;
  const StreamRef stream = onStream ? StreamRef(queue) : StreamRef();
  switch (form) {
    case PurposeForm::AllReduce:
      y = x;  // in place
      group.allReduce(kPurpose, {.send = y.data(), .recv = y.data(), .count = 12}, stream);
      break;
    case PurposeForm::ReduceScatter:
      group.reduceScatter(kPurpose, {.send = x.data(), .recv = y.data(), .count = 4}, stream);
      break;
    case PurposeForm::ReduceScatterV:
      group.reduceScatterV(
          kPurpose, {.send = x.data(), .recv = y.data(), .counts = counts, .offsets = {}}, stream);
      break;
    case PurposeForm::AllGather:
      std::copy_n(x.begin(), 4, y.begin() + 4 * group.rank());  // in place
      group.allGather(kPurpose, {.send = y.data() + 4 * rank, .recv = y.data(), .count = 4},
                      stream);
      break;
    case PurposeForm::AllGatherV:
      group.allGatherV(
          kPurpose, {.send = x.data(), .recv = y.data(), .counts = counts, .offsets = {}}, stream);
      break;
    case PurposeForm::AllToAll:
      group.allToAll(kPurpose, {.send = x.data(), .recv = y.data(), .count = 4}, stream);
      break;
    case PurposeForm::AllToAllV:
      group.allToAllV(kPurpose,
                      {.send = x.data(),
                       .sendCounts = pairs,
                       .sendOffsets = {},
                       .recv = y.data(),
                       .recvCounts = pairs,
                       .recvOffsets = {}},
                      stream);
      break;
    case PurposeForm::Exchange: {  // around a ring
      const int ranks = group.size(), from = (group.rank() + ranks - 1) % ranks;
      const MeshMessage messages[] = {
          MeshMessage::to((group.rank() + 1) % ranks, kPurpose,
                          Tensor(x.data(), DType::Float32, {4})),
          MeshMessage::from(from, kPurpose, Tensor(y.data(), DType::Float32, {4}))};
      group.exchange(messages, stream);
      break;
    }
    case PurposeForm::Factor: break;
  }
  queue.synchronize();
  return y;
}

/// Of all ranks; `only`: the others send zeros.
Results callOnRanks(PurposeForm form, bool onStream, int only = -1) {
  return onRanks(MeshShape::along(Axis::Tensor, kRanks), false, [&](DeviceMesh& mesh) {
    const bool zeros = only >= 0 && only != mesh.rank();
    return call(*mesh.communicator({Axis::Tensor}), form, zeros, onStream);
  });
}

Results doubled(Results results) {
  for (auto& rank : results)
    for (float& value : rank)
      if (value != kUntouched) value *= 2;
  return results;
}

constexpr PurposeForm kForms[] = {PurposeForm::AllReduce,      PurposeForm::ReduceScatter,
                                  PurposeForm::ReduceScatterV, PurposeForm::AllGather,
                                  PurposeForm::AllGatherV,     PurposeForm::AllToAll,
                                  PurposeForm::AllToAllV,      PurposeForm::Exchange};

// A row that lacks its last field, and so any, does not compile.
static_assert(std::is_constructible_v<PurposeRow, Purpose, const char*, PurposeForms, PurposeResult,
                                      PurposePlace, std::optional<Awaited>>);
static_assert(!std::is_constructible_v<PurposeRow, Purpose, const char*, PurposeForms,
                                       PurposeResult, PurposePlace>);
static_assert(!std::is_default_constructible_v<PurposeRow>);

TEST(Purposes, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const PurposeRow& row : kPurposes) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(toString(row.purpose), std::string(row.name));
  }
}

TEST(Mutation, OfACallDoublesItsResult) {
  for (const PurposeForm form : kForms)
    for (const bool onStream : {false, true}) {
      const Results plain = callOnRanks(form, onStream);
      const ScopedMutation mutation(Mutation{kPurpose, Change::Double});
      EXPECT_EQ(callOnRanks(form, onStream), doubled(plain)) << toString(form);
      ASSERT_EQ(mutation.passes().size(), 1u);
      EXPECT_EQ(mutation.passes()[0].purpose, kPurpose);
      EXPECT_EQ(mutation.passes()[0].form, form);
      EXPECT_EQ(mutation.passes()[0].count, static_cast<int64_t>(kRanks));
    }
}

// A rank is left with what the call gives when the others send zeros.
TEST(Mutation, OfACallDropsWhatComesFromOthers) {
  for (const PurposeForm form : kForms)
    for (const bool onStream : {false, true}) {
      Results alone;
      for (size_t rank = 0; rank < kRanks; ++rank)
        alone.push_back(callOnRanks(form, onStream, static_cast<int>(rank))[rank]);
      const Results plain = callOnRanks(form, onStream);
      EXPECT_NE(plain, alone) << toString(form);
      const ScopedMutation mutation(Mutation{kPurpose, Change::Drop});
      EXPECT_EQ(callOnRanks(form, onStream), alone) << toString(form);
    }
}

TEST(Mutation, OfAnotherPurposeChangesNothing) {
  for (const PurposeForm form : kForms) {
    const Results plain = callOnRanks(form, false);
    const ScopedMutation mutation(Mutation{Purpose::NormSum, Change::Drop});
    EXPECT_EQ(callOnRanks(form, false), plain) << toString(form);
  }
}

// A call that is dropped is counted as if it had been made, and one of a dry run stays one.
TEST(Mutation, IsNotSeenInCounters) {
  const MeshShape shape = MeshShape::along(Axis::Tensor, kRanks);
  const ScopedMutation mutation(Mutation{kPurpose, Change::Drop});
  onRanks(shape, false, [&](DeviceMesh& mesh) {
    DeviceMesh without = DeviceMesh::dry(shape, mesh.rank());
    for (const PurposeForm form : kForms)
      for (DeviceMesh* each : {&mesh, &without})
        call(*each->communicator({Axis::Tensor}), form, false, false);
    EXPECT_EQ(mesh.counters(), without.counters());
  });
}

template <class T>
std::vector<T> sumOverTwo(T value, DataType type) {
  return onRanks(MeshShape::parse("dp=2"), false, [&](DeviceMesh& mesh) {
    T sum{};
    const void* const send = &value;  // of which `type` says what it is
    void* const recv = &sum;
    mesh.communicator({Axis::Data})->allReduce(kPurpose, {send, recv, 1, type});
    return sum;
  });
}

TEST(Mutation, DoublesFloatingPointTypesOnly) {
  const ScopedMutation mutation(Mutation{kPurpose, Change::Double});
  EXPECT_EQ(sumOverTwo(0.75, DataType::Float64), (std::vector{3.0, 3.0}));
  constexpr uint16_t k0_75 = 0x3f40, k3 = 0x4040;  // bfloat16
  EXPECT_EQ(sumOverTwo(k0_75, DataType::BFloat16), (std::vector{k3, k3}));
  EXPECT_THROW(sumOverTwo(int64_t{3}, DataType::Int64), Error);
}

TEST(Mutation, OfAFactorIsMadeWhileItsScopeLives) {
  constexpr Purpose purpose = Purpose::LossPerToken;
  EXPECT_EQ(factor(purpose, 0.25), 0.25);
  {
    const ScopedMutation counting;
    EXPECT_EQ(factor(purpose, 0.25), 0.25);
    ASSERT_EQ(counting.passes().size(), 1u);
    EXPECT_EQ(counting.passes()[0].form, PurposeForm::Factor);
    EXPECT_EQ(counting.passes()[0].count, 1);
    EXPECT_THROW(ScopedMutation(Mutation{purpose, Change::Drop}), Error);
    EXPECT_EQ(counting.passes().size(), 1u);
  }
  {
    const ScopedMutation mutation(Mutation{purpose, Change::Double});
    EXPECT_EQ(mutation.passes().size(), 0u);
    EXPECT_EQ(factor(purpose, 0.25), 0.5);
    EXPECT_EQ(factor(Purpose::GradientPerToken, 0.25), 0.25);
  }
  {
    const ScopedMutation mutation(Mutation{purpose, Change::Drop});
    EXPECT_EQ(factor(purpose, 0.25), 1);
    EXPECT_EQ(factor(purpose, 0.25, 0), 0);
  }
  EXPECT_EQ(factor(purpose, 0.25), 0.25);
}

TEST(Mutation, TakesNoOffsets) {
  onRanks(MeshShape::parse("dp=2"), false, [](DeviceMesh& mesh) {
    const std::vector<size_t> counts{1, 1}, offsets{1, 0};
    const float x = 1;
    std::vector<float> y(2);
    EXPECT_THROW(mesh.communicator({Axis::Data})
                     ->allGatherV(kPurpose, {&x, y.data(), counts, offsets, DataType::Float32}),
                 Error);
  });
}

}  // namespace
}  // namespace tutti::parallel
