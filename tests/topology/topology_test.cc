#include "src/topology/topology.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include <tutti/error.h>

namespace tutti::topology {
namespace {

TEST(Tuning, ComesBackAsItWas) {
  Tuning tuning;
  tuning.messageMicroseconds = 0.125;
  tuning.mappedFromBytes = 0;
  tuning.networkMicroseconds = 3;
  tuning.networkGigabytesPerSecond = 12.5;
  EXPECT_EQ(Tuning::deserialize(tuning.serialize()), tuning);
  EXPECT_NE(Tuning::deserialize(Tuning{}.serialize()), tuning);
}

void expectRefused(const base::Bytes& bytes, const char* part) {
  try {
    Tuning::deserialize(bytes);
    FAIL() << "taken: " << bytes.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Tuning, RefusesATableCutAnywhere) {
  const base::Bytes whole = Tuning{}.serialize();
  for (size_t size = 0; size < whole.size(); ++size)
    expectRefused({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, "ends");
  base::Bytes longer = whole;
  longer.push_back(std::byte{0});
  expectRefused(longer, "left");
}

TEST(Tuning, RefusesWhatNoMachineHas) {
  for (double value : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity(), 1e30}) {
    Tuning tuning;
    tuning.stepMicroseconds = value;
    expectRefused(tuning.serialize(), "stepMicroseconds");
    tuning = {};
    tuning.copyGigabytesPerSecond = value;
    expectRefused(tuning.serialize(), "copyGigabytesPerSecond");
    tuning = {};
    tuning.networkMicroseconds = value;
    expectRefused(tuning.serialize(), "networkMicroseconds");
    tuning = {};
    tuning.networkGigabytesPerSecond = value;
    expectRefused(tuning.serialize(), "networkGigabytesPerSecond");
  }
  Tuning tuning;
  tuning.reduceGigabytesPerSecond = 0;  // would be divided by
  expectRefused(tuning.serialize(), "reduceGigabytesPerSecond");
}

TEST(Tuning, RefusesAnotherVersion) {
  base::Bytes bytes = Tuning{}.serialize();
  bytes[0] = std::byte{99};
  expectRefused(bytes, "version 99");
}

TEST(Topology, DescribesItself) {
  EXPECT_EQ((Topology{.ranks = 2, .cores = 2, .hostOf = {0, 0}}.describe()),
            "2 ranks on 1 host, 2 cores, slots of 65536 bytes");
  EXPECT_EQ(
      (Topology{.ranks = 3, .cores = 1, .hostOf = {0, 1, 0}, .slotBytes = 512}.describe()),
      "3 ranks on 2 hosts, 1 core each, slots of 512 bytes in 2 channels, oversubscribed; host "
      "of each rank: 0 1 0");
}

TEST(Topology, CountsHostsAndTheRanksOfTheLargest) {
  const Topology one{.ranks = 4, .cores = 3}, two{.ranks = 4, .cores = 3, .hostOf = {1, 0, 1, 1}};
  EXPECT_EQ(one.hosts(), 1);
  EXPECT_EQ(one.ranksPerHost(), 4);
  EXPECT_TRUE(one.oversubscribed());
  EXPECT_EQ(two.hosts(), 2);
  EXPECT_EQ(two.ranksPerHost(), 3);
  EXPECT_FALSE(two.oversubscribed());
}

}  // namespace
}  // namespace tutti::topology
