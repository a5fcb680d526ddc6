#pragma once

// Lines about what was done one after the other, each with the time that it took.

#include <chrono>
#include <cmath>
#include <string>

#include "parallel/mesh/device_mesh.h"
#include "parallel/tensor/check.h"
#include "src/base/table.h"

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
    const std::string time = mesh_.dry() ? "" : message(", ", std::llround(us), " us");
    text_ += base::TextTable({{34, 0, true}, {0, 2, true}}).row({"   " + what, how + time});
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
