#pragma once

// What a rung of the parity ladder found under one layout. Rungs return it, and do not judge: the
// ladder wants all of them within their bounds, and a test of a mutation wants one that is not.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

struct Finding {
  std::string rung, layout;
  /// Of all differences that were noted the largest against its bound, and what it was of.
  double worst = 0, bound = 0;
  std::string where = "nothing differs";

  /// Relative, unless `what` says otherwise. A bound of 0 is for what has to be equal.
  void note(double difference, double itsBound, const std::string& what) {
    if (excess(difference, itsBound) <= excess(worst, bound)) return;
    worst = difference;
    bound = itsBound;
    where = what;
  }
  /// Something has to be so, and is not.
  void demand(bool so, const std::string& what) { note(so ? 0 : 1, 0, what); }

  bool within() const { return excess(worst, bound) <= 1; }
  std::string describe() const {
    char numbers[64];
    std::snprintf(numbers, sizeof(numbers), "%8.2g of %-8.2g", worst, bound);
    std::string text = rung + "  " + layout;
    text.resize(std::max<size_t>(text.size(), 72), ' ');
    return text + numbers + "  " + where;
  }

 private:
  /// In bounds. More than any where it is no number.
  static double excess(double difference, double bound) {
    if (difference == 0) return 0;
    const double times = difference / bound;
    return times >= 0 ? times : std::numeric_limits<double>::infinity();
  }
};

inline void expectWithin(const Finding& finding) {
  std::printf("%s\n", finding.describe().c_str());
  EXPECT_TRUE(finding.within()) << finding.describe();
}

}  // namespace tutti::parallel
