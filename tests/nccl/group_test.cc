// Groups of one thread: what is open, what spoils one, and what the outermost end returns.

#include "src/nccl/group.h"

#include <gtest/gtest.h>

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
