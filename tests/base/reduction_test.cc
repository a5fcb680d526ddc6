// What a reduction of the caller's own may be. tests/communicator/reduction_test.cc calls it.

#include <tutti/reduction.h>

#include <gtest/gtest.h>

#include <string>

#include <tutti/error.h>

namespace tutti {
namespace {

const Reduction::Function kNothing = [](const void*, void*, size_t) {};

std::string refusal(const std::string& name, DataType type, Reduction::Function function) {
  try {
    Reduction(name, type, std::move(function));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(Reductions, HaveANameATypeAndAFunction) {
  int calls = 0;
  const Reduction gcd("gcd", DataType::Int32, [&](const void*, void*, size_t) { ++calls; });
  EXPECT_TRUE(gcd);
  EXPECT_FALSE(Reduction());
  const Reduction copy = gcd;
  EXPECT_EQ(copy.name(), "gcd");
  EXPECT_EQ(copy.type(), DataType::Int32);
  copy.function()(nullptr, nullptr, 0);
  EXPECT_EQ(calls, 1);
}

TEST(Reductions, AreRefusedByName) {
  EXPECT_EQ(refusal(std::string(16, 'x'), DataType::Int8, kNothing), "accepted");
  EXPECT_EQ(refusal(std::string(17, 'x'), DataType::Int8, kNothing),
            "the reduction's name \"xxxxxxxxxxxxxxxxx\" is not 1 to 16 printable characters");
  EXPECT_EQ(refusal("", DataType::Int8, kNothing),
            "the reduction's name \"\" is not 1 to 16 printable characters");
  for (const char* name : {"a b", "a\n", "\xC3\xBC"})
    EXPECT_EQ(refusal(name, DataType::Int8, kNothing),
              "the reduction's name \"?\" is not 1 to 16 printable characters");
  EXPECT_EQ(refusal("none", DataType::Int8, {}), "the reduction none has no function");
  EXPECT_EQ(refusal("odd", static_cast<DataType>(kDataTypeCount), kNothing),
            "there is no data type 14: the last is 13");
}

}  // namespace
}  // namespace tutti
