#pragma once

// Lines about what was done one after the other, each with the time that it took.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

class TimedLines {
 public:
  /// Without times the lines are the same in every run.
  explicit TimedLines(bool timed) : timed_(timed) {}

  void start() { start_ = Clock::now(); }
  /// What was done since start(), and how.
  void add(const std::string& what, const std::string& how) {
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
    std::string line = "   " + what;
    line.resize(std::max<size_t>(line.size() + 2, 36), ' ');
    text_ += line + how + (timed_ ? message(", ", std::llround(us), " us") : "") + "\n";
  }
  void clear() { text_.clear(); }
  const std::string& text() const { return text_; }

 private:
  using Clock = std::chrono::steady_clock;
  const bool timed_;
  Clock::time_point start_;
  std::string text_;
};

}  // namespace tutti::parallel
