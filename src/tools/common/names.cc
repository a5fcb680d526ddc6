#include "src/tools/common/names.h"

#include <algorithm>

#include "collectives/algorithm_file.h"
#include "src/base/check.h"
#include "src/base/nearest_name.h"

namespace tutti::tools {
namespace {

template <class Value>
std::vector<std::string> namesOfAll(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(toString(static_cast<Value>(i)));
  return names;
}

}  // namespace

std::vector<std::string> typeNames() { return namesOfAll<DataType>(kDataTypeCount); }
std::vector<std::string> opNames() { return namesOfAll<ReduceOp>(kReduceOpCount); }

void refuseName(const std::string& what, std::string_view word,
                const std::vector<std::string>& names) {
  base::fail(ErrorCode::InvalidArgument, what, ": ", listOfNames(names),
             base::didYouMean(word, names));
}

DataType typeNamed(const std::string& flag, const std::string& name) {
  if (const auto type = parseDataType(name)) return *type;
  refuseName(base::message(flag, " ", name, " is no element type"), name, typeNames());
}

ReduceOp opNamed(const std::string& flag, const std::string& name) {
  if (const auto op = parseReduceOp(name)) return *op;
  refuseName(base::message(flag, " ", name, " is no reduction"), name, opNames());
}

plan::Collective collectiveNamed(const std::string& name) {
  if (const auto collective = plan::parseCollective(name)) return *collective;
  refuseName(base::message("there is no collective '", name, "'"), name, collectiveNames());
}

void requireName(const std::string& flag, const std::string& name,
                 const std::vector<std::string>& names) {
  if (name.empty() || std::ranges::find(names, name) != names.end()) return;
  refuseName(base::message(flag, " ", name, " does not exist"), name, names);
}

void requireAlgorithm(const std::string& flag, const std::string& name) {
  auto names = algorithmNames();
  names.emplace_back(collectives::kByFile);
  requireName(flag, name.substr(0, name.find('/')), names);
}

}  // namespace tutti::tools
