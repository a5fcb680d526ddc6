// What a run without data says of seven billion parameters is what the literature and
// parallel/README.md say.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include "parallel/dry/dry_run.h"
#include "parallel/engine/describe.h"
#include "parallel/nn/llama.h"
#include "parallel/nn/model_options.h"

namespace tutti::parallel {
namespace {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

std::unique_ptr<Optimizer> adamW() { return makeAdamW({}); }
std::unique_ptr<Optimizer> momentum() { return makeSgd({.momentum = 0.9}); }

// Llama's 7B with twice its vocabulary. All rows divide by 4, and all of its sizes by 32, so that
// nothing is padded.
constexpr LlamaOptions kSevenBillion{.vocabulary = 64000,
                                     .context = 512,
                                     .layers = 32,
                                     .width = 4096,
                                     .heads = 32,
                                     .kvHeads = 32,
                                     .inner = 11008};

const StoreTypes kAllBFloat16(DType::BFloat16, DType::BFloat16, DType::BFloat16);
const StoreTypes kBFloat16Gradients(DType::BFloat16, DType::Float32, DType::BFloat16);

DryRun sevenBillion(int ranks, const ShardPolicy& policy, const StoreTypes& types,
                    const MakeOptimizer& optimizer) {
  Llama model(kSevenBillion);
  const auto made = optimizer();
  return dryRun({.mesh = MeshShape::along(Axis::Fsdp, ranks),
                 .engine = {.policy = policy, .types = types, .reductionGroups = 4},
                 .batch = 4,
                 .context = kSevenBillion.context},
                model, *made);
}

// Of bfloat16 weights, gradients and velocities 6 bytes a parameter: too much for 40 GB, and a
// quarter of it is not, with all else that such a step takes.
TEST(Dry, SevenBillionParametersAre42GigabytesAtSixBytes) {
  const DryRun one = sevenBillion(1, ShardPolicy::ddp(), kAllBFloat16, momentum);
  const auto parameters = static_cast<size_t>(one.parameters);
  EXPECT_EQ(parameters, 7'000'559'616u);
  EXPECT_EQ(one.memory.store.state(), 6 * parameters);
  EXPECT_NEAR(static_cast<double>(one.memory.store.state()), 42e9, 0.01e9);
  EXPECT_GT(one.memory.store.state(), 40'000'000'000u);

  const DryRun shared = sevenBillion(4, ShardPolicy::fsdp(), kAllBFloat16, momentum);
  EXPECT_EQ(shared.memory.store.state(), 6 * parameters / 4);
  EXPECT_NEAR(static_cast<double>(shared.memory.store.state()), 10.5e9, 0.01e9);
  EXPECT_LT(shared.memory.total(), 40'000'000'000u);
  // What is there beside the state: two units' weights, gradients and staging at the most.
  EXPECT_LT(shared.memory.store.total(), 16'000'000'000u);
}

// AdamW in mixed precision: 16 bytes. The literature's 16/N of FSDP have a bfloat16 copy of each
// rank's rows, which this store does not keep.
TEST(Dry, SevenBillionParametersAre112GigabytesAtSixteenBytes) {
  const auto memory = [](int ranks, int stage) {
    return sevenBillion(ranks, ShardPolicy::zero(stage), kBFloat16Gradients, adamW).memory.store;
  };
  constexpr size_t n = 7'000'559'616;
  const StoreMemory replicated = memory(4, 0), zero1 = memory(4, 1), zero2 = memory(4, 2),
                    zero3 = memory(4, 3);
  EXPECT_EQ(replicated.state(), 16 * n);
  EXPECT_EQ(memory(1, 3).state(), 16 * n);
  EXPECT_NEAR(static_cast<double>(replicated.state()), 112e9, 0.01e9);
  EXPECT_EQ(zero1.state(), 4 * n + 12 * n / 4);
  EXPECT_EQ(zero2.state(), 2 * n + 14 * n / 4);
  EXPECT_EQ(zero3.state() + 2 * n / 4, 16 * n / 4);
  EXPECT_NEAR(static_cast<double>(zero3.state() + 2 * n / 4), 28e9, 0.01e9);
}

/// Without its line ends.
std::string readme() {
  std::ifstream file(TUTTI_BYTES_PAGE);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// With float32 gradients 16 bytes a parameter are shared out, with bfloat16 ones 14; of both there
// is no bfloat16 weight among them. The page says both.
TEST(Dry, SevenBillionParametersOverFourRanksByTypeOfGradients) {
  struct Figure {
    StoreTypes types;
    size_t bytes;
    std::string text, sum;
  };
  const StoreTypes float32Gradients = DType::BFloat16;
  for (const Figure& figure :
       {Figure{float32Gradients, 16, "28.0 GB with float32 gradients", "(4 + 12)/4 bytes"},
        Figure{kBFloat16Gradients, 14, "24.5 GB with bfloat16 ones", "(2 + 12)/4"}}) {
    const DryRun run = sevenBillion(4, ShardPolicy::fsdp(), figure.types, adamW);
    const StoreMemory& held = run.memory.store;
    EXPECT_EQ(held.state(), figure.bytes * static_cast<size_t>(run.parameters) / 4);
    EXPECT_EQ(held.weights, held.gathered) << "weights that stay";
    char gigabytes[32];
    std::snprintf(gigabytes, sizeof(gigabytes), "%.1f GB", static_cast<double>(held.state()) / 1e9);
    EXPECT_TRUE(figure.text.starts_with(gigabytes)) << gigabytes;
    EXPECT_NE(readme().find(figure.text + ", " + figure.sum), std::string::npos) << figure.text;
  }
}

// It takes none of the memory that it is about.
TEST(Dry, TakesNoMemoryItself) {
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<size_t>(usage.ru_maxrss) * 1024;
  };
  const size_t before = peak();
  Llama model(kSevenBillion);
  const auto optimizer = adamW();
  const DryRun run = dryRun({.mesh = MeshShape::parse("dp=4,fsdp=8"),
                             .rank = 31,
                             .engine = {.policy = ShardPolicy::fsdp(), .types = DType::BFloat16},
                             .batch = 32,
                             .context = kSevenBillion.context},
                            model, *optimizer);
  EXPECT_GT(run.memory.total(), 12'000'000'000u);
  EXPECT_LT(peak() - before, 1'000'000'000u);
  std::printf("rank 31 of dp=4,fsdp=8 %s%s%.4g TFLOP in matrix products\n",
              describe(run.memory).c_str(), describe(run.collectives).c_str(),
              run.allKernels().gemmFlops / 1e12);
}

/// `text` with the value of N, as a number: sums of products and quotients, and parentheses.
class Formula {
 public:
  Formula(const std::string& text, double ranks) : text_(text), ranks_(ranks) {}
  double value() {
    const double result = sum();
    EXPECT_EQ(at_, text_.size()) << text_;
    return result;
  }

 private:
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  double sum() {
    double total = product();
    for (; next() == '+'; total += product()) ++at_;
    return total;
  }
  double product() {
    double result = atom();
    for (; next() == '/'; result /= atom()) ++at_;
    return result;
  }
  double atom() {
    if (next() == 'N') return ++at_, ranks_;
    if (next() == '(') {
      ++at_;
      const double result = sum();
      EXPECT_EQ(next(), ')') << text_;
      return ++at_, result;
    }
    size_t length = 0;
    const double result = std::stod(text_.substr(at_), &length);
    at_ += length;
    return result;
  }
  const std::string text_;
  const double ranks_;
  size_t at_ = 0;
};

/// The cells of the row of the table of bytes that begins with `preset` in backquotes.
std::vector<std::string> readmeRow(const std::string& preset) {
  std::ifstream readme(TUTTI_BYTES_PAGE);
  bool inTable = false;
  for (std::string line; std::getline(readme, line);) {
    inTable = inTable || line.starts_with("| preset | bfloat16 weights");
    if (!inTable || !line.starts_with("| `" + preset + "`")) continue;
    std::vector<std::string> cells;
    for (size_t begin = 1, end; (end = line.find('|', begin)) != line.npos; begin = end + 1) {
      const std::string cell = line.substr(begin, end - begin);
      cells.push_back(cell.substr(1, cell.size() - 2));
    }
    return cells;
  }
  ADD_FAILURE() << "no row of " << preset;
  return {};
}

// The table of bytes a parameter in parallel/README.md, column by column.
TEST(Dry, ReadmeSaysTheBytesOfAParameter) {
  struct Column {
    StoreTypes types;
    MakeOptimizer optimizer;
  };
  const std::vector<Column> columns = {
      {DType::BFloat16, adamW}, {kBFloat16Gradients, adamW}, {kAllBFloat16, momentum}};
  const std::vector<std::pair<std::string, ShardPolicy>> rows = {
      {"ShardPolicy::ddp()", ShardPolicy::ddp()},
      {"zero(1)", ShardPolicy::zero(1)},
      {"zero(2)", ShardPolicy::zero(2)},
      {"fsdp()`, `zero(3)", ShardPolicy::fsdp()}};
  for (const auto& [name, policy] : rows) {
    const std::vector<std::string> cells = readmeRow(name);
    ASSERT_GE(cells.size(), columns.size() + 1) << name;
    for (size_t c = 0; c < columns.size(); ++c)
      for (const int ranks : {2, 4}) {
        const DryRun run = sevenBillion(ranks, policy, columns[c].types, columns[c].optimizer);
        EXPECT_EQ(static_cast<double>(run.memory.store.state()),
                  Formula(cells[c + 1], ranks).value() * static_cast<double>(run.parameters))
            << name << ": " << cells[c + 1];
      }
  }
}

// A step's matrix products: 6 for each weight of a map and each token, and of attention's pairs 2
// products forward and 5 back.
TEST(Dry, CountsTheFlopsOfAStep) {
  const DryRun run = sevenBillion(1, ShardPolicy::ddp(), kAllBFloat16, momentum);
  const double tokens = 4.0 * 512, width = 4096, layers = 32;
  const double maps =
      static_cast<double>(run.parameters) - 64000 * width - (2 * layers + 1) * width;
  const double pairs = 4 * 512.0 * 513 / 2;
  EXPECT_DOUBLE_EQ(run.kernels.at("gemm").gemmFlops, 6 * maps * tokens);
  EXPECT_DOUBLE_EQ(run.kernels.at("attention").gemmFlops, layers * 2 * 2 * pairs * width);
  EXPECT_DOUBLE_EQ(run.kernels.at("attentionBackward").gemmFlops, layers * 5 * 2 * pairs * width);
  // 4 micro-batches, 32 blocks of 2 norms and one at the end; one update of each parameter.
  EXPECT_EQ(run.kernels.at("rmsNorm").calls, 4 * 65);
  const KernelCount update = run.kernels.at("sgd");
  EXPECT_EQ(update.calls, 32 * 9 + 3);
  EXPECT_EQ(update.bytesRead, 6u * static_cast<size_t>(run.parameters));
  EXPECT_EQ(update.bytesWritten, 4u * static_cast<size_t>(run.parameters));
  EXPECT_EQ(run.allKernels().gemmFlops, run.kernels.at("gemm").gemmFlops +
                                            run.kernels.at("attention").gemmFlops +
                                            run.kernels.at("attentionBackward").gemmFlops);
}

}  // namespace
}  // namespace tutti::parallel
