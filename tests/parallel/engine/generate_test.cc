// Text from a model: which bytes are taken, in both types, and what a terminal may be shown.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "parallel/engine/generate.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/tokenizer/tokenizer.h"
#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {
namespace {

/// Logits that always say: after byte b comes b + 1 for sure, or b + 2 by `log` of the odds.
class Successor final : public Model {
 public:
  explicit Successor(double odds = -1e30) : odds_(odds) {}
  Tensor forward(ParallelContext& context, UnitRange, const Tensor& ids,
                 ActivationStash& saved) override {
    const DType type = context.store.weight(weight_).type;
    const Tensor logits = saved.untilWeights.allocate(type, {1, ids.shape[1], 256});
    for (int64_t t = 0; t < ids.shape[1]; ++t)
      for (int64_t v = 0; v < 256; ++v) {
        const int64_t ahead = (v - ids.as<int32_t>()[t] + 256) % 256;
        const double value = ahead == 1 ? 0 : ahead == 2 ? odds_ : -1e30;
        if (type == DType::Float64)
          logits.as<double>()[t * 256 + v] = value;
        else
          logits.as<float>()[t * 256 + v] = static_cast<float>(value);
      }
    return logits;
  }
  Tensor backward(ParallelContext&, UnitRange, const Tensor&, ActivationStash&) override {
    return {};
  }
  void declare(ParameterStore& store) override { store.add(weight_); }
  int64_t vocabulary() const override { return 256; }
  UnitId unitCount() const override { return 1; }
  std::vector<int64_t> unitCosts() const override { return {1}; }
  Shape shapeBetween(const ParallelContext&, const Shape&) const override { return {}; }

 private:
  double odds_;
  Parameter weight_{.name = "unused", .global = {1}, .unit = 0};
};

/// As ids of bytes.
std::vector<int32_t> ids(const std::string& text) { return ByteTokenizer().encode(text); }

std::string write(DType type, double odds, const GenerateOptions& options) {
  DeviceMesh mesh;
  HostKernels kernels;
  Successor model(odds);
  Engine engine(mesh, kernels, model, {.types = type});
  return ByteTokenizer().decode(generate(engine, options));
}

TEST(Generate, ContinuesThePromptInBothTypes) {
  for (DType type : {DType::Float32, DType::Float64}) {
    EXPECT_EQ(write(type, -1e30, {.prompt = ids("xa"), .tokens = 5, .context = 3}), "bcdef");
    EXPECT_EQ(write(type, -1e30, {.prompt = ids("a"), .tokens = 0}), "");
  }
}

TEST(Generate, TemperatureZeroTakesTheLikeliest) {
  EXPECT_EQ(write(DType::Float32, -0.01, {.prompt = ids("a"), .tokens = 6, .temperature = 0}),
            "bcdefg");
  EXPECT_EQ(write(DType::Float32, 0.01, {.prompt = ids("a"), .tokens = 3, .temperature = 0}),
            "ceg");
  EXPECT_THROW(write(DType::Float32, 0, {.prompt = ids("a"), .temperature = -1}), Error);
  EXPECT_THROW(write(DType::Float32, 0, {.prompt = ids("a"), .temperature = std::nan("")}), Error);
  EXPECT_THROW(write(DType::Float32, 0, {.prompt = ids("a"), .context = 0}), Error);
  EXPECT_THROW(write(DType::Float32, 0, {.prompt = ids("a"), .topK = -1}), Error);
  EXPECT_THROW(write(DType::Float32, 0, {}), Error);  // nothing to go on from
}

// Of the two that can come, the likelier; with two or more of them both.
TEST(Generate, DrawsFromTheTop) {
  const auto doubles = [](int64_t k) {
    const std::string text = write(DType::Float32, std::log(0.9),
                                   {.prompt = ids("a"), .tokens = 64, .temperature = 1, .topK = k});
    int found = 0;
    for (unsigned char before = 'a'; const char c : text) {
      const auto at = static_cast<unsigned char>(c);
      found += static_cast<unsigned char>(at - before) == 2;
      before = at;
    }
    return found;
  };
  EXPECT_EQ(doubles(1), 0);
  EXPECT_GT(doubles(2), 0);
  EXPECT_EQ(doubles(2), doubles(0));
  EXPECT_EQ(doubles(256), doubles(0));
  EXPECT_EQ(doubles(1000), doubles(0));
}

// Odds of 3 to 1 for a step of two: at temperature 1 three quarters of the steps, at 0.5 nine
// tenths (odds squared). 2000 draws have a standard deviation below 0.01; five of them are allowed.
TEST(Generate, SamplesByTheOdds) {
  for (const auto& [temperature, share] : {std::pair{1.0, 0.75}, std::pair{0.5, 0.9}}) {
    const std::string text =
        write(DType::Float32, std::log(3.0),
              {.prompt = ids("a"), .tokens = 2000, .temperature = temperature});
    int doubles = 0;
    for (unsigned char before = 'a'; const char c : text) {
      const auto at = static_cast<unsigned char>(c);
      doubles += static_cast<unsigned char>(at - before) == 2;
      before = at;
    }
    EXPECT_NEAR(doubles / 2000.0, share, 0.05) << "temperature " << temperature;
  }
  const auto seeded = [](uint64_t seed) {
    return write(DType::Float32, 0, {.prompt = ids("a"), .tokens = 64, .seed = seed});
  };
  EXPECT_EQ(seeded(1), seeded(1));
  EXPECT_NE(seeded(1), seeded(2));
}

TEST(Printable, KeepsValidTextOfAnyScript) {
  for (const std::string text :
       {"plain\ttext\n", "\u00a9 \u00e9 \u00ff", "\u0928\u092e\u0938\u094d\u0924\u0947",
        "\u20ac \ud7ff \ue000 \uffff", "\U0001F600 \U00010000 \U0010FFFF"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ReplacesControlsAndBrokenBytes) {
  const std::pair<std::string, std::string> cases[] = {
      {std::string("a\0b\x1b[2J\x7f", 8), "a?b?[2J?"},
      {"\xc2\x9b", "??"},                   // a control character of two bytes
      {"\x80 \xff \xf8", "? ? ?"},          // no leads
      {"\xc0\xaf \xe0\x80\xaf", "?? ???"},  // longer than needed
      {"\xed\xa0\x80", "???"},              // a surrogate
      {"\xf4\x90\x80\x80", "????"},         // above 10FFFF
      {"\xe2\x82", "??"},                   // cut short by the end
      {"\xe2\x82"
       "a",
       "??a"},  // and by another character
      {"\xf0\x9f\x98", "???"},
  };
  for (const auto& [text, shown] : cases) EXPECT_EQ(printable(text), shown);
}

}  // namespace
}  // namespace tutti::parallel
