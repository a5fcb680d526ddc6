#pragma once

// Lines about what was done one after the other, each with the time that it took.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "parallel/mesh/device_mesh.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

class TimedLines {
 public:
  /// Of what the device of `mesh` does, which must outlive this. A dry run has no times, and so the
  /// same lines every time.
  explicit TimedLines(const DeviceMesh& mesh) : mesh_(mesh) {}

  void start() {
    mesh_.finish();
    start_ = Clock::now();
  }
  /// What was done since start(), and how.
  void add(const std::string& what, const std::string& how) {
    mesh_.finish();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
    std::string line = "   " + what;
    line.resize(std::max<size_t>(line.size() + 2, 36), ' ');
    text_ += line + how + (mesh_.dry() ? "" : message(", ", std::llround(us), " us")) + "\n";
  }
  void clear() { text_.clear(); }
  const std::string& text() const { return text_; }

 private:
  using Clock = std::chrono::steady_clock;
  const DeviceMesh& mesh_;
  Clock::time_point start_;
  std::string text_;
};

}  // namespace tutti::parallel
