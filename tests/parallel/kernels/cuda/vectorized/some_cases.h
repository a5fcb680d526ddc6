#pragma once

// Which of a test's cases a build runs.

#include "tests/support/sanitized.h"

namespace tutti::parallel::cuda {

/// ThreadSanitizer takes minutes for all cases. There every seventh is run: these have each type
/// among them and each width, and most layouts of rows.
class SomeCases {
 public:
  bool takeNext() { return !tests::kThreadSanitized || next_++ % 7 == 0; }

 private:
  int next_ = 0;
};

}  // namespace tutti::parallel::cuda
