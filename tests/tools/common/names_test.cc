// Names that people type.

#include "src/tools/common/names.h"

#include <gtest/gtest.h>

#include <tutti/error.h>

#include "tests/support/outcome.h"

namespace tutti::tools {
namespace {

using tests::refusalOf;

TEST(Names, AreAllThatAreParsed) {
  EXPECT_EQ(typeNames().size(), static_cast<size_t>(kDataTypeCount));
  for (const std::string& name : typeNames()) EXPECT_EQ(toString(typeNamed("--type", name)), name);
  EXPECT_EQ(opNames().size(), static_cast<size_t>(kReduceOpCount));
  for (const std::string& name : opNames()) EXPECT_EQ(toString(opNamed("--op", name)), name);
  EXPECT_EQ(collectiveNames().size(), static_cast<size_t>(plan::kCollectiveCount));
  for (const std::string& name : collectiveNames())
    EXPECT_EQ(plan::toString(collectiveNamed(name)), name);
  EXPECT_EQ(algorithmNames().back(), "attached");
  EXPECT_EQ(algorithmNames().size(), plan::kAlgorithmCount + 2u);
}

TEST(Names, AreListedWhereOneIsRefused) {
  EXPECT_EQ(refusalOf([] {
              requireName("--at", "ners", {"near", "far"});
            }),
            "--at ners does not exist: near or far");
  EXPECT_EQ(refusalOf([] {
              requireName("--at", "neer", {"near", "far", "away"});
            }),
            "--at neer does not exist: near, far or away; did you mean near?");
  EXPECT_EQ(refusalOf([] { requireName("--at", "far", {"near", "far"}); }), "accepted");
  EXPECT_EQ(refusalOf([] { requireName("--at", "", {"near", "far"}); }), "accepted");
  EXPECT_TRUE(
      refusalOf([] { collectiveNamed("alreduce"); }).ends_with("; did you mean all_reduce?"));
  EXPECT_TRUE(refusalOf([] { opNamed("--op", "summ"); }).ends_with("; did you mean sum?"));
  EXPECT_TRUE(refusalOf([] { typeNamed("--type", "quux"); }).ends_with(" or float8_e5m2"));
}

}  // namespace
}  // namespace tutti::tools
