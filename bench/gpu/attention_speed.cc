// attention_speed [--seconds N] [--turns N] [--obey 1] [--list 1] [BATCHxHEADSxWIDTHxCONTEXT:KIND
// ...]: attention in bfloat16, forward and backward; KIND is causal or all. Without shapes: heads
// of 64 and 128 columns, causal or not, 512 to 16384 tokens, 16384 in a batch, 2048 columns. First
// each is compared with the host (attention_case.h); the exit status is 1 if it is wrong.
//
// It prints a table of its own times; or with --obey it does for torch_attention.py, with which it
// takes turns, what lines of standard input say: the shape to come, "forward" or "backward" for a
// turn, which it answers with the microseconds of a call. At the end of input it ends. --list says
// which shapes there are.

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/attention_case.h"
#include "parallel/tensor/check.h"

namespace tutti::bench {
namespace {

std::vector<AttentionShape> allShapes() {
  constexpr int64_t kTokens = 16384, kColumns = 2048;
  std::vector<AttentionShape> shapes;
  for (int64_t context = 512; context <= kTokens; context *= 2)
    for (const int64_t width : {128, 64})
      for (const bool causal : {true, false})
        shapes.push_back({kTokens / context, kColumns / width, width, context, causal});
  return shapes;
}

void printTable(const std::vector<AttentionShape>& shapes, int turns, double seconds) {
  Gpu gpu;
  const Budget budget(seconds);
  std::printf("| attention | forward, TFLOP/s | backward |\n|---|---|---|\n");
  size_t done = 0;
  for (; done < shapes.size() && !budget.isSpent(); ++done) {
    const AttentionShape& shape = shapes[done];
    {
      AttentionCase attention(gpu, shape);
      attention.check();
      const auto times =
          gpu.inTurns({[&] { attention.forward(); }, [&] { attention.backward(); }}, turns);
      std::printf("| %s | %.1f | %.1f |\n", shape.describe().c_str(),
                  shape.operations(false) / times[0] / 1e6,
                  shape.operations(true) / times[1] / 1e6);
      std::fflush(stdout);
    }
    gpu.clear();
  }
  if (done < shapes.size())
    std::printf("attention from %s on: not measured: no time left, %zu of %zu\n",
                shapes[done].describe().c_str(), shapes.size() - done, shapes.size());
}

void obey() {
  Gpu gpu;
  std::unique_ptr<AttentionCase> attention;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "forward" || line == "backward") {
      parallel::require(attention != nullptr, line, " of no shape");
      const Call call = line == "forward" ? Call([&] { attention->forward(); })
                                          : Call([&] { attention->backward(); });
      std::printf("%.3f\n", gpu.inTurns({call}, 1)[0]);
    } else {
      attention.reset();
      gpu.clear();
      const AttentionShape shape = AttentionShape::parse(line);
      attention = std::make_unique<AttentionCase>(gpu, shape);
      attention->check();
      std::printf("%.0f %.0f\n", shape.operations(false), shape.operations(true));
    }
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  const Words words(argc, argv, {"--seconds", "--turns", "--obey", "--list"});
  std::vector<AttentionShape> shapes;
  for (const std::string& text : words.others()) shapes.push_back(AttentionShape::parse(text));
  if (shapes.empty()) shapes = allShapes();
  if (!words.text("--list").empty())
    for (const AttentionShape& shape : shapes) std::printf("%s\n", shape.describe().c_str());
  else if (!words.text("--obey").empty())
    obey();
  else
    printTable(shapes, static_cast<int>(words.number("--turns", 7)),
               words.number("--seconds", 1e6));
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  return tutti::bench::guarded("attention_speed", [&] { return tutti::bench::run(argc, argv); });
}
