#pragma once

// Names that people type: those there are, and which one was meant.

#include <string>
#include <string_view>
#include <vector>

#include <tutti/types.h>

#include "src/base/nearest_name.h"
#include "src/plan/plan.h"

namespace tutti::tools {

std::vector<std::string> typeNames();
std::vector<std::string> opNames();
using base::listOfNames;
using plan::algorithmNames;
using plan::collectiveNames;

/// Throws InvalidArgument: `what`, the names there are, and the one that was meant.
[[noreturn]] void refuseName(const std::string& what, std::string_view word,
                             const std::vector<std::string>& names);

// What a name stands for. They throw InvalidArgument as refuseName() does; `flag` is where it
// stood.
DataType typeNamed(const std::string& flag, const std::string& name);
ReduceOp opNamed(const std::string& flag, const std::string& name);
plan::Collective collectiveNamed(const std::string& name);
/// Any of `names`, or "", which is none.
void requireName(const std::string& flag, const std::string& name,
                 const std::vector<std::string>& names);
/// An algorithm, behind which may stand a '/' and its channels; "file"; or "".
void requireAlgorithm(const std::string& flag, const std::string& name);

}  // namespace tutti::tools
