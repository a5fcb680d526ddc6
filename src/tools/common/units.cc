#include "src/tools/common/units.h"

#include <array>
#include <iomanip>
#include <sstream>

#include "src/base/check.h"

namespace tutti::tools {
namespace {

std::string threeDigits(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) << value;
  std::string text = std::move(out).str();
  if (text.find('.') == std::string::npos) return text;
  text.resize(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// In the first unit, each of which has `step` of the one before, of which there are few enough.
template <size_t count>
std::string inUnits(double value, double step, const std::array<const char*, count>& units) {
  size_t unit = 0;
  for (; value >= step - 0.5 && unit + 1 < units.size(); ++unit) value /= step;
  return base::message(threeDigits(value), " ", units[unit]);
}

}  // namespace

std::string bytesText(uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return countText(bytes, "byte");
  return inUnits(static_cast<double>(bytes) / 1024, 1024, kUnits);
}

std::string timeText(double microseconds) {
  constexpr std::array kUnits{"us", "ms", "s"};
  return inUnits(microseconds, 1000, kUnits);
}

std::string flopText(double operations) {
  constexpr std::array kUnits{"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  return inUnits(operations, 1000, kUnits);
}

std::string rateText(double gigabitsPerSecond) {
  return base::message(gigabitsPerSecond, " Gbit/s");
}

std::string countText(uint64_t count, const std::string& thing) {
  return base::message(count, " ", thing, count == 1 ? "" : "s");
}

std::string numbersText(const std::string& thing, const topology::CpuSet& numbers) {
  return base::message(thing, numbers.size() == 1 ? " " : "s ", topology::toString(numbers));
}

}  // namespace tutti::tools
