// The handles of communicators: what is none is refused and never followed.

#include "src/nccl/handles.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/nccl/refusal.h"
#include "tests/support/text.h"

namespace tutti::nccl {
namespace {

using tests::contains;

TEST(NcclHandles, LeadToTheirCommunicators) {
  NcclHandles& handles = NcclHandles::ofProcess();
  const auto one = std::make_shared<Comm>(Comm::Facts{.device = 1}),
             other = std::make_shared<Comm>(Comm::Facts{.device = 2});
  const ncclComm_t first = handles.add(one), second = handles.add(other);
  EXPECT_EQ(handles.find(first), one);
  EXPECT_EQ(handles.find(second), other);
  handles.remove(first);
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(handles.find(second), other);
  handles.remove(second);
}

TEST(NcclHandles, ThatAreNoneAreRefused) {
  const NcclHandles& handles = NcclHandles::ofProcess();
  EXPECT_EQ(refusal([&] { handles.find(nullptr); }), "invalid argument: the communicator is null");
  const auto nowhere = reinterpret_cast<ncclComm_t>(uintptr_t{16});
  EXPECT_EQ(refusal([&] { handles.find(nowhere); }),
            "invalid argument: 0x10 is no communicator of this process, or was destroyed");
  NcclHandles::ofProcess().remove(nowhere);
}

TEST(NcclHandles, ThatAreGoneStayGone) {
  NcclHandles& handles = NcclHandles::ofProcess();
  std::set<ncclComm_t> seen;
  for (int i = 0; i < 100; ++i) {
    const ncclComm_t handle = handles.add(std::make_shared<Comm>(Comm::Facts{}));
    EXPECT_TRUE(seen.insert(handle).second) << "given out before";
    handles.remove(handle);
    handles.remove(handle);
    EXPECT_TRUE(contains(refusal([&] { handles.find(handle); }), "or was destroyed"));
  }
}

}  // namespace
}  // namespace tutti::nccl
