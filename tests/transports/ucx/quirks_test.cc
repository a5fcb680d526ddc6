// What is known of the versions of UCX, and that the one that is loaded is known.

#include "transports/ucx/quirks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "transports/ucx/library.h"

namespace tutti::tests {
namespace {

using transports::ucx::has;
using transports::ucx::KnownQuirk;
using transports::ucx::knownQuirks;
using transports::ucx::parseUcxVersion;
using transports::ucx::Quirk;
using transports::ucx::quirksOf;
using transports::ucx::UcxVersion;

constexpr UcxVersion kDebians{1, 13, 1};

TEST(UcxQuirks, AreInTheOrderOfTheirNumbersWithNamesOfTheirOwn) {
  std::set<std::string> names;
  for (size_t i = 0; i < knownQuirks().size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(knownQuirks()[i].quirk), i);
    EXPECT_TRUE(names.insert(knownQuirks()[i].name).second) << knownQuirks()[i].name;
  }
  EXPECT_EQ(static_cast<size_t>(Quirk::AbortsOnImpatience) + 1, knownQuirks().size());
}

TEST(UcxQuirks, EndWithTheVersionThatMendsThem) {
  EXPECT_TRUE(has({1, 16, 99}, Quirk::ShortSettingNames));
  EXPECT_FALSE(has({1, 17, 0}, Quirk::ShortSettingNames));
  EXPECT_FALSE(has({2, 0, 0}, Quirk::ShortSettingNames));
  EXPECT_TRUE(has({1, 18, 0}, Quirk::AbortsOnHalfSentMessage));
  EXPECT_FALSE(has({1, 18, 1}, Quirk::AbortsOnHalfSentMessage));
  EXPECT_TRUE(has({99, 0, 0}, Quirk::RepeatsItsLastWord)) << "nobody has seen it gone";
}

TEST(UcxQuirks, OfDebiansAreAll) {
  EXPECT_EQ(quirksOf(kDebians).size(), knownQuirks().size());
  EXPECT_LT(quirksOf({1, 22, 0}).size(), knownQuirks().size());
}

TEST(UcxQuirks, AreOfAVersionThatIsRead) {
  EXPECT_EQ(parseUcxVersion("1.13.1"), (UcxVersion{1, 13, 1}));
  EXPECT_EQ(parseUcxVersion("1.22.0-rc2"), (UcxVersion{1, 22, 0}));
  for (const char* text :
       {"", "1", "1.13", "1.13.", "1..1", "a.b.c", "1.13.x", "-1.0.0", "of tomorrow"})
    EXPECT_FALSE(parseUcxVersion(text)) << text;
}

TEST(UcxQuirks, AreOfTheVersionThatIsLoaded) {
  const UcxVersion version = transports::ucx::library().version;
  EXPECT_GE(version, UcxVersion(1, 13, 0));
  std::ostringstream text;
  text << UcxVersion{1, 2, 3};
  EXPECT_EQ(text.str(), "1.2.3");
}

}  // namespace
}  // namespace tutti::tests
