#include <tutti/reduction.h>

#include <algorithm>

#include "src/base/check.h"

namespace tutti {

Reduction::Reduction(std::string name, DataType type, Function function) {
  const bool printable = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
  const size_t longest = kLongestName;  // a reference would make it a symbol of the library
  TUTTI_REQUIRE(!name.empty() && name.size() <= longest && printable, "the reduction's name \"",
                printable ? name : "?", "\" is not 1 to ", longest, " printable characters");
  TUTTI_REQUIRE(function, "the reduction ", name, " has no function");
  sizeOf(type);  // throws when there is none
  definition_ =
      std::make_shared<const Definition>(Definition{std::move(name), type, std::move(function)});
}

}  // namespace tutti
