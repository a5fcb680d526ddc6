#include "src/plan/request.h"

#include "src/base/check.h"

namespace tutti::plan {

std::string CollectiveRequest::describe() const {
  if (collective == Collective::Barrier) return "barrier";
  std::string line = base::message(toString(collective), " of ", count, ' ', toString(type));
  if (isReduction(collective)) line += base::message(", ", toString(op));
  if (uneven) line += ", uneven blocks";
  if (hasRoot(collective)) line += base::message(", root ", root);
  if (deterministic) line += ", deterministic";
  if (!algorithm.empty()) line += base::message(", algorithm ", algorithm);
  return line;
}

}  // namespace tutti::plan
