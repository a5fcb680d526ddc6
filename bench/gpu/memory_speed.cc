// memory_speed [--seconds N] [--turns N] [--rows N] [--width N] [--context N] [--vocabulary N]
// [--copy MIB]: each kernel that memory bounds, in turns with a copy of 256 MiB from one place of
// the GPU's memory to another. The table has the bytes that a call must read and write, each once,
// over its time, and the ratio of that to the copy's bytes, read and written, over its own; a row
// of a table of tokens or of positions is such a byte once, however many ids name it. A call that
// waits for the GPU, to check ids or to return a sum, has that wait in its time; where a kernel of
// such a call follows it by itself ("the kernel"), that is without. All results are compared with
// the host's (memory_run.cc), after the first call; the exit status is 1 if one is wrong. Later
// calls read what those before wrote in place, so that numbers may leave their range, which no
// kernel minds.
//
// A third turn is of launches of a kernel that has nothing to do, one behind the other. What one of
// these takes, over the call's time, is the column `launch`: near 1, the call moves so little that
// what is measured is a launch and not the memory, whatever the ratio says; a call of several
// launches has as much for each of them.

#include <cstdio>

#include "bench/gpu/memory_cases.h"
#include "bench/gpu/memory_launches.h"
#include "parallel/tensor/check.h"

namespace tutti::bench {
namespace {

/// 1 if a kernel is wrong; the others are measured all the same.
int run(int argc, char** argv) {
  const Words words(
      argc, argv,
      {"--seconds", "--turns", "--rows", "--width", "--context", "--vocabulary", "--copy"});
  parallel::require(words.others().empty(), "memory_speed takes flags alone");
  const auto size = [&](const char* flag, int64_t otherwise) {
    return static_cast<int64_t>(words.number(flag, static_cast<double>(otherwise)));
  };
  MemorySizes sizes;
  sizes = {size("--rows", sizes.rows), size("--width", sizes.width),
           size("--context", sizes.context), size("--vocabulary", sizes.vocabulary)};
  parallel::require(sizes.rows < kRowPeriod || sizes.rows % kRowPeriod == 0, "--rows ", sizes.rows,
                    " is neither below ", kRowPeriod, " nor a multiple of it");
  const int turns = static_cast<int>(size("--turns", 7));
  const auto copied = static_cast<size_t>(words.number("--copy", 256) * (1 << 20));
  const Budget budget(words.number("--seconds", 1e6));

  const std::vector<MemoryCase> cases = memoryCases(sizes);
  Gpu gpu;
  Ratios ratios;
  int status = 0;
  size_t done = 0;
  std::vector<double> launches;
  std::printf("| kernel | MB | GB/s | copy | ratio | launch |\n|---|---|---|---|---|---|\n");
  for (; done < cases.size() && !budget.isSpent(); ++done) {
    const MemoryCase& each = cases[done];
    gpu.clear();
    const Memory from = allocateOn({DeviceKind::Cuda, 0}, copied),
                 to = allocateOn({DeviceKind::Cuda, 0}, copied);
    try {
      MemoryRun kernel(gpu, each, sizes.vocabulary);
      kernel.check();
      const auto times =
          gpu.inTurns({[&] { kernel.call(); },
                       [&] {
                         copy({.to = to.data(), .from = from.data(), .bytes = copied},
                              StreamRef::cuda(gpu.stream()));
                       },
                       [&] { launchNothing(gpu.stream()); }},
                      turns);
      const double rate = each.bytes() / times[0] / 1e3;
      const double copyRate = 2 * static_cast<double>(copied) / times[1] / 1e3;
      std::printf("| %s | %.1f | %.1f | %.1f | %.3f | %.3f |\n", each.name.c_str(),
                  each.bytes() / 1e6, rate, copyRate, rate / copyRate, times[2] / times[0]);
      launches.push_back(times[2]);
      ratios.add(each.name, rate / copyRate);
    } catch (const Error& error) {
      std::printf("| %s | **failed**: %s | | | | |\n", each.name.c_str(), error.what());
      status = 1;
    }
    std::fflush(stdout);
    gpu.synchronize();
  }
  std::printf("\nkernels that memory bounds, bytes a second over a copy's: %s\n",
              ratios.describe().c_str());
  if (!launches.empty())
    std::printf("a launch of a kernel that has nothing to do: %.2f us\n", median(launches));
  if (done < cases.size())
    std::printf("kernels from %s on: not measured: no time left, %zu of %zu\n",
                cases[done].name.c_str(), cases.size() - done, cases.size());
  return status;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  return tutti::bench::guarded("memory_speed", [&] { return tutti::bench::run(argc, argv); });
}
