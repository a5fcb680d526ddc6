#include "bench/training/profile.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "bench/training/peaks.h"
#include "commands.h"

namespace tutti::bench {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  char line[160];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

/// A product is compared with multiplications and additions, all else with a copy.
std::string rates(const Profile::Row& row, const Profile& of) {
  const KernelCount& count = row.count;
  const double bytes = static_cast<double>(count.bytesRead + count.bytesWritten);
  const double flops = count.gemmFlops / row.nanoseconds * 1e9,
               moved = bytes / row.nanoseconds * 1e9;
  const double share = flops > 0 ? flops / of.flops : moved / of.copy;
  return formatted("%8ld %8.1f %8.1f %6.0f\n", static_cast<long>(count.calls), flops / 1e9,
                   moved / 1e9, 100 * share);
}

}  // namespace

std::string Profile::table() const {
  std::string text =
      formatted("# peak %.1f GFLOP/s, copy %.1f GB/s, one core\n", flops / 1e9, copy / 1e9);
  text += formatted("%-26s %10s %7s %8s %8s %8s %6s\n", "kernel", "ms", "step,%", "calls",
                    "GFLOP/s", "GB/s", "peak,%");
  double inside = 0;
  const auto begin = [&](const std::string& name, double nanoseconds) {
    return formatted("%-26s %10.3f %7.1f", name.c_str(), nanoseconds / 1e6,
                     100 * nanoseconds / step);
  };
  for (const Row& row : rows) {
    inside += row.nanoseconds;
    text += begin(row.kernel, row.nanoseconds) + rates(row, *this);
  }
  text += begin("outside of kernels", step - inside) + "\n";
  return text + begin("step", step) + "\n";
}

Profile profiled(TimedKernels& kernels, int steps, const std::function<void()>& step) {
  step();
  kernels.setCounting(true);
  step();
  kernels.setCounting(false);
  std::map<std::string, std::vector<double>> times;
  std::vector<double> whole, flops, copies;
  Peaks peaks;
  for (int i = 0; i < steps; ++i) {
    flops.push_back(peaks.flops());
    copies.push_back(peaks.copied());
    kernels.resetTimes();
    const double begin = now_ns();
    step();
    whole.push_back(now_ns() - begin);
    for (const auto& [name, time] : kernels.times()) times[name].push_back(time.nanoseconds);
  }
  Profile result;
  result.step = median(whole);
  result.flops = median(flops);
  result.copy = median(copies);
  for (const auto& [name, time] : kernels.times())
    result.rows.push_back({name, median(times[name]), time.count});
  std::ranges::sort(result.rows, std::greater(), &Profile::Row::nanoseconds);
  return result;
}

}  // namespace tutti::bench
