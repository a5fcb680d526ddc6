#pragma once

// A plan of the user's as an algorithm: read from a file of JSON (src/plan/json.h), proved, and
// then the same kind of thing as an algorithm of this folder, for the calls that the plan is made
// for.
//
// The plan is Algorithm::File, whatever its file calls it, and its spec has a hash of its programs:
// specs of different files differ, and ranks that run different plans find out as they always do.

#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms.h"
#include "src/plan/checker.h"
#include "src/plan/request.h"
#include "src/topology/topology.h"

namespace tutti::collectives {

/// By which callers name the plan of a file.
inline constexpr const char* kByFile = "file";

class AlgorithmFile {
 public:
  /// Reads the file and proves its plan, which takes seconds for 128 ranks. Throws InvalidArgument
  /// naming the file: it cannot be read, is too large, is no plan (then also the field, and what is
  /// wanted there), or does not compute what it promises (then also rank, lane and step).
  static std::shared_ptr<const AlgorithmFile> read(const std::string& path);
  /// The same of a file's text.
  AlgorithmFile(const std::string& path, const std::string& text);

  /// As messages show it.
  const std::string& path() const { return path_; }
  const PlanSpec& spec() const { return spec_; }
  /// By rank.
  const std::vector<Program>& programs() const { return *programs_; }
  /// The same for files with the same plan, wherever they are and however they are spaced.
  uint64_t digest() const { return spec_.hash(); }
  /// As an algorithm. Its spec() is there for requests of the plan's collective, protocol, ranks,
  /// root and hosts.
  const AlgorithmInfo& info() const { return info_; }

  /// Why the plan cannot serve this call, in words that follow "the plan of FILE"; empty when it
  /// can.
  std::string misfit(const plan::CollectiveRequest& request,
                     const topology::Topology& topology) const;

 private:
  std::string path_;
  PlanSpec spec_;
  std::shared_ptr<const std::vector<Program>> programs_;
  size_t mostLanes_ = 0, mostOperands_ = 0;  // of a rank; of a step
  AlgorithmInfo info_;
};

/// The algorithm of a plan that was chosen: of the library, or `file`'s.
const AlgorithmInfo& infoOf(const PlanSpec& spec, const AlgorithmFile* file);

/// One rank's program of such a plan.
Program build(const PlanSpec& spec, int rank, const AlgorithmFile* file);

/// Why there is no algorithm `name` for the call on these ranks, in a sentence without an end that
/// names it; empty when there is. `file` may be null.
std::string whyNot(const std::string& name, const plan::CollectiveRequest& request,
                   const topology::Topology& topology, const AlgorithmFile* file);

}  // namespace tutti::collectives
