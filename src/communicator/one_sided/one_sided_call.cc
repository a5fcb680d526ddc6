#include "src/communicator/one_sided/one_sided_call.h"

#include <algorithm>
#include <iterator>

#include "src/base/check.h"

namespace tutti::communicator {

std::string Put::describe() const {
  if (window == 0) return base::message("signal to rank ", peer);
  return base::message("put of ", bytes, " bytes to rank ", peer);
}

std::string SignalWait::describe() const {
  return base::message("wait for ", count, count == 1 ? " signal" : " signals", " of rank ", peer);
}

void OneSidedCall::absorb(OneSidedCall later) {
  std::ranges::move(later.puts, std::back_inserter(puts));
  std::ranges::move(later.waits, std::back_inserter(waits));
}

std::string OneSidedCall::describe() const {
  if (puts.size() == 1 && waits.empty()) return puts.front().describe();
  if (puts.empty() && waits.size() == 1) return waits.front().describe();
  return base::message(puts.size(), " puts and ", waits.size(), " waits for signals");
}

}  // namespace tutti::communicator
