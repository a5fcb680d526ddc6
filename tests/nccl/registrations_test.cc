// What Register of one communicator has given out.

#include "src/nccl/registrations.h"

#include <gtest/gtest.h>

#include "tests/nccl/refusal.h"
#include "tests/support/text.h"

namespace tutti::nccl {
namespace {

using tests::contains;

TEST(Registrations, KeepMemoryUntilTheyAreRemoved) {
  Registrations registrations;
  int data = 0;
  const auto owner = std::make_shared<int>(0);
  const void* const kept = registrations.add(Memory(&data, sizeof data, owner));
  const void* const none = registrations.add(std::nullopt);
  EXPECT_NE(kept, none);
  EXPECT_EQ(owner.use_count(), 2);
  registrations.remove(none);
  EXPECT_EQ(owner.use_count(), 2);
  registrations.remove(kept);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Registrations, AreRemovedOnceAndWhereTheyWereMade) {
  Registrations registrations, others;
  const void* const handle = registrations.add(std::nullopt);
  EXPECT_TRUE(contains(refusal([&] { others.remove(handle); }), "is no registration of this"));
  registrations.remove(handle);
  EXPECT_TRUE(contains(refusal([&] { registrations.remove(handle); }), "is no registration"));
  EXPECT_EQ(refusal([&] { registrations.remove(nullptr); }),
            "invalid argument: 0 is no registration of this communicator");
}

}  // namespace
}  // namespace tutti::nccl
