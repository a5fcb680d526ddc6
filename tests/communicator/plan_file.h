#pragma once

// Plans for communicators that take theirs from a file.

#include <fstream>
#include <string>

#include <tutti/communicator.h>

#include "collectives/algorithms.h"
#include "src/plan/json.h"

namespace tutti::tests {

inline plan::WholePlan planOf(plan::Algorithm algorithm, const collectives::SpecRequest& request) {
  const collectives::AlgorithmInfo& info = collectives::registry().find(algorithm);
  plan::WholePlan whole{.spec = info.spec(request).value(), .programs = {}};
  for (int rank = 0; rank < request.ranks; ++rank)
    whole.programs.push_back(info.build(whole.spec, rank));
  return whole;
}

/// One of four ranks that the library has not: rank 1 adds all, in a strange order, and tells all.
inline plan::WholePlan starOf4() {
  plan::WholePlan star;
  star.spec.ranks = 4;
  star.programs.resize(4);
  plan::Step add{.sources = {}, .targets = {}, .fold = plan::Fold::Listed, .completes = true};
  for (const int rank : {3, 0, 2}) {
    add.sources.push_back(plan::channel(rank, 0));
    add.targets.push_back(plan::channel(rank, 0));
    plan::Step give{.sources = {plan::local(plan::Buffer::In, 0)},
                    .targets = {plan::channel(1, 0)}};
    plan::Step take{.sources = {plan::channel(1, 0)},
                    .targets = {plan::local(plan::Buffer::Out, 0)}};
    star.programs[static_cast<size_t>(rank)].lanes.push_back({0, {give, take}});
  }
  add.sources.push_back(plan::local(plan::Buffer::In, 0));
  add.targets.push_back(plan::local(plan::Buffer::Out, 0));
  star.programs[1].lanes.push_back({0, {add}});
  return star;
}

/// The last recorded call of a rank.
inline std::string lastCall(const Communicator& c) {
  const std::string text = c.describe();
  const size_t end = text.find_last_not_of('\n') + 1;
  const size_t begin = text.rfind('\n', end - 1) + 1;
  return text.substr(begin, end - begin);
}

/// Into a new file. Its path.
inline std::string writePlan(const plan::WholePlan& whole, const std::string& path) {
  std::ofstream(path) << plan::toJson(whole.spec, whole.programs);
  return path;
}

}  // namespace tutti::tests
