#include <tutti/reduction.h>

#include <algorithm>

#include "src/base/check.h"

namespace tutti {

Reduction::Reduction(std::string name, DataType type, Function function) {
  const bool printable = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
  TUTTI_REQUIRE(!name.empty() && name.size() <= kLongestName && printable,
                "the reduction's name \"", printable ? name : "?", "\" is not 1 to ", kLongestName,
                " printable characters");
  TUTTI_REQUIRE(function, "the reduction ", name, " has no function");
  sizeOf(type);  // throws when there is none
  definition_ =
      std::make_shared<const Definition>(Definition{std::move(name), type, std::move(function)});
}

}  // namespace tutti
