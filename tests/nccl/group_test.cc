// Groups of one thread: what is open, what spoils one, and what the outermost end returns.

#include "src/nccl/group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "src/nccl/handles.h"
#include "tests/nccl/refusal.h"

namespace tutti::nccl {
namespace {

TEST(NcclGroups, EndWithTheOutermostEnd) {
  NcclGroup& group = NcclGroup::ofThread();
  EXPECT_FALSE(group.open());
  group.start();
  group.start();
  EXPECT_EQ(group.end(), ncclSuccess);
  EXPECT_TRUE(group.open());
  EXPECT_EQ(group.end(), ncclSuccess);
  EXPECT_FALSE(group.open());
  EXPECT_EQ(refusal([&] { group.end(); }), "invalid usage: no group is open on this thread");
}

TEST(NcclGroups, AreOfTheirThread) {
  NcclGroup::ofThread().start();
  bool elsewhere = true;
  std::thread([&] { elsewhere = NcclGroup::ofThread().open(); }).join();
  EXPECT_FALSE(elsewhere);
  EXPECT_EQ(NcclGroup::ofThread().end(), ncclSuccess);
}

TEST(NcclGroups, AreSpoiltByTheirFirstFailure) {
  NcclGroup& group = NcclGroup::ofThread();
  const auto fail = [](ErrorCode code) {
    return guardInGroup("ncclCall", [=]() -> ncclResult_t { throw Error(code, "wrong"); });
  };
  EXPECT_EQ(fail(ErrorCode::System), ncclSystemError);  // outside of any
  group.start();
  EXPECT_EQ(fail(ErrorCode::InvalidArgument), ncclInvalidArgument);
  EXPECT_EQ(fail(ErrorCode::System), ncclSystemError);
  EXPECT_EQ(guardInGroup("ncclCall", [] { return ncclInProgress; }), ncclInProgress);
  group.start();
  EXPECT_EQ(group.end(), ncclSuccess) << "an inner one";
  EXPECT_EQ(group.end(), ncclInvalidArgument);
  group.start();
  EXPECT_EQ(group.end(), ncclSuccess) << "the next one is whole";
}

/// One that a group is to make, whose handle the caller has already.
struct ToBeMade {
  ToBeMade() {
    making.comm = std::make_shared<Comm>(Comm::Facts{});
    making.handle = handle = NcclHandles::ofProcess().add(making.comm);
    making.out = &handle;
    making.make = [this]() -> std::optional<Communicator> {
      made = true;
      return std::move(Communicator::createLocal(1).front());
    };
  }
  ncclComm_t handle = nullptr;
  bool made = false;
  Making making;
};

TEST(NcclGroups, MakeCommunicatorsAtTheirEnd) {
  ToBeMade one;
  NcclGroup& group = NcclGroup::ofThread();
  group.start();
  group.add(one.making);
  EXPECT_FALSE(one.made);
  EXPECT_EQ(group.end(), ncclSuccess);
  EXPECT_TRUE(one.made);
  EXPECT_EQ(NcclHandles::ofProcess().find(one.handle)->size(), 1);
  NcclHandles::ofProcess().remove(one.handle);
}

TEST(NcclGroups, ThatAreSpoiltTakeHandlesBack) {
  ToBeMade one;
  NcclGroup& group = NcclGroup::ofThread();
  group.start();
  group.add(one.making);
  group.spoil(ncclInvalidArgument);
  EXPECT_EQ(group.end(), ncclInvalidArgument);
  EXPECT_FALSE(one.made);
  EXPECT_EQ(one.handle, nullptr);
}

// Which fails, and what waits for it.
TEST(NcclGroups, EndAllTheirMakingsWithTheFirstThatFails) {
  ToBeMade waits, fails, done;
  waits.making.make =
      [stop = waits.making.comm->stopOfMaking().get_token()]() -> std::optional<Communicator> {
    for (int ms = 0; ms < 20'000 && !stop.stop_requested(); ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (stop.stop_requested()) throw Error(ErrorCode::Aborted, "stopped");
    return std::move(Communicator::createLocal(1).front());
  };
  fails.making.make = []() -> std::optional<Communicator> {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    throw Error(ErrorCode::System, "on purpose");
  };
  const auto comm = waits.making.comm;
  NcclGroup& group = NcclGroup::ofThread();
  group.start();
  for (const auto* each : {&waits, &done, &fails}) group.add(each->making);
  EXPECT_EQ(refusal([&] { group.end(); }), "system error: on purpose");
  EXPECT_TRUE(done.made);
  for (const auto* each : {&waits, &done, &fails}) EXPECT_EQ(each->handle, nullptr);
  EXPECT_EQ(refusal([&] { comm->rank(); }),
            "system error: another communicator of its group failed: on purpose");
}

TEST(NcclGroups, BeginNothingThatCannotBeTogether) {
  UniqueId id, other;
  other.bytes[5] = std::byte{1};
  const auto refused = [](const Making::Seat& a, const Making::Seat& b) {
    ToBeMade one, two;
    one.making.seat = a;
    two.making.seat = b;
    NcclGroup& group = NcclGroup::ofThread();
    group.start();
    group.add(one.making);
    group.add(two.making);
    const std::string why = refusal([&] { group.end(); });
    EXPECT_EQ(one.made && two.made, why == "accepted");
    EXPECT_EQ(one.made || two.made, why == "accepted");
    EXPECT_EQ(one.handle != nullptr, why == "accepted");
    return why;
  };
  EXPECT_EQ(refused({id, 0, 2}, {id, 1, 2}), "accepted");
  EXPECT_EQ(refused({id, 1, 2}, {other, 1, 3}), "accepted");
  EXPECT_EQ(refused({id, 1, 2}, {id, 1, 2}),
            "invalid argument: the group joins one unique id as rank 1 of 2 twice");
  EXPECT_EQ(refused({id, 0, 2}, {id, 1, 3}),
            "invalid argument: the group joins one unique id as ranks of 2 and of 3");
}

TEST(NcclGroups, OfCommunicatorsAreNotSimulated) {
  ToBeMade one;
  NcclGroup& group = NcclGroup::ofThread();
  std::optional<double> microseconds;
  group.start();
  group.add(one.making);
  EXPECT_EQ(refusal([&] { group.simulateEnd(microseconds); }),
            "invalid usage: making communicators cannot be simulated");
  EXPECT_EQ(one.handle, nullptr);
  EXPECT_FALSE(group.open());
}

}  // namespace
}  // namespace tutti::nccl
