// What a communicator's handle stands for, from before it is made until after its end.

#include "src/nccl/comm.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/nccl/refusal.h"
#include "tests/support/text.h"

namespace tutti::nccl {
namespace {

using tests::contains;

class Comms : public testing::Test {
 protected:
  static std::shared_ptr<Comm> make(bool blocking = true) {
    auto comm = std::make_shared<Comm>(Comm::Facts{.config = {.blocking = blocking}});
    comm->ready(std::move(Communicator::createLocal(1).front()));
    return comm;
  }
  static std::string useOf(const std::shared_ptr<Comm>& comm) {
    return refusal([&] { Comm::Use use(comm); });
  }
};

TEST_F(Comms, AreUsedOnceTheyAreMade) {
  const auto comm = std::make_shared<Comm>(Comm::Facts{});
  EXPECT_EQ(comm->asyncResult(), ncclInProgress);
  EXPECT_EQ(refusal([&] { (void)comm->rank(); }),
            "invalid argument: the communicator is still being made");
  EXPECT_TRUE(contains(useOf(comm), "still being made: ncclCommGetAsyncError says"));
  comm->ready(std::move(Communicator::createLocal(1).front()));
  EXPECT_EQ(comm->asyncResult(), ncclSuccess);
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_EQ(useOf(comm), "accepted");
  EXPECT_FALSE(Comm::Use(comm).stream());
  EXPECT_TRUE(Comm::Use(make(false)).stream()) << "with blocking = 0 calls are on a stream";
}

TEST_F(Comms, SayWhyTheyWereNotMade) {
  const auto comm = std::make_shared<Comm>(Comm::Facts{});
  comm->failed(Error(ErrorCode::Timeout, "rank 1 is missing"));
  EXPECT_EQ(comm->asyncResult(), ncclRemoteError);
  EXPECT_EQ(refusal([&] { (void)comm->size(); }), "timeout: rank 1 is missing");
  EXPECT_EQ(useOf(comm), "timeout: rank 1 is missing");
}

TEST_F(Comms, AreFinalizedOnce) {
  const auto comm = make();
  comm->finalize();
  EXPECT_EQ(refusal([&] { comm->finalize(); }),
            "invalid argument: the communicator was finalized before");
  EXPECT_EQ(useOf(comm), "invalid usage: the communicator was finalized");
  EXPECT_EQ(comm->rank(), 0);
}

TEST_F(Comms, RefuseCallsAfterRevokeAndAbort) {
  const auto revoked = make(), aborted = make();
  revoked->revoke();
  EXPECT_EQ(revoked->asyncResult(), ncclSuccess);
  EXPECT_EQ(useOf(revoked), "invalid usage: the communicator was revoked");
  EXPECT_EQ(refusal([&] { revoked->revoke(); }),
            "invalid usage: the communicator was revoked before");
  EXPECT_EQ(refusal([&] { revoked->finalize(); }), "invalid usage: the communicator was revoked");
  EXPECT_FALSE(aborted->stopOfMaking().stop_requested());
  aborted->abort();
  EXPECT_TRUE(aborted->stopOfMaking().stop_requested());
  EXPECT_EQ(useOf(aborted), "invalid usage: the communicator was aborted");
  EXPECT_EQ(aborted->asyncResult(), ncclInvalidUsage) << "the caller's own doing";
}

TEST_F(Comms, AreUnderWayWhileOthersAreMadeFromThem) {
  const auto comm = make();
  {
    const Comm::Parenthood parent(comm, Comm::Operations::Remain);
    EXPECT_FALSE(parent.revoked());
    EXPECT_EQ(comm->asyncResult(), ncclInProgress);
    EXPECT_TRUE(contains(useOf(comm), "the communicator, or one from it, is still being made"));
    EXPECT_TRUE(contains(refusal([&] { comm->drain(); }), "wait for it, or abort"));
  }
  EXPECT_EQ(comm->asyncResult(), ncclSuccess);
  EXPECT_EQ(useOf(comm), "accepted");
  comm->drain();
}

}  // namespace
}  // namespace tutti::nccl
