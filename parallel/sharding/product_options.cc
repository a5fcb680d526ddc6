#include "parallel/sharding/product_options.h"

#include "parallel/sharding/named_numbers.h"

namespace tutti::parallel {

namespace {
constexpr int64_t kLargestSize = int64_t{1} << 40;
}  // namespace

LetteredMesh parseMesh(const std::string& what, const std::string& text, int mostRanks) {
  const NamedNumbers numbers = parseNamedNumbers(what, text, mostRanks);
  std::string letters;
  int64_t ranks = 1;
  for (const auto& [name, extent] : numbers) {
    require(name.size() == 1, what, " \"", text, "\": ", name,
            " is no axis, which is a small letter");
    letters += name;
    ranks *= extent;
    require(ranks <= mostRanks, what, " \"", text, "\" has more than ", mostRanks, " ranks");
  }
  LetteredMesh mesh{.letters = AxisLetters(letters), .shape = {}};
  for (size_t i = 0; i < numbers.size(); ++i)
    mesh.shape.extents[i] = static_cast<int>(numbers[i].second);
  return mesh;
}

std::string describe(const LetteredMesh& mesh) {
  std::string text;
  const std::string& letters = mesh.letters.all();
  for (size_t i = 0; i < letters.size(); ++i)
    text += message(i == 0 ? "" : ",", letters[i], "=", mesh.shape.extents[i]);
  return text;
}

Sizes parseSizes(const std::string& what, const std::string& text, const Product& product) {
  const std::string used = product.a.indices + product.b.indices;
  Sizes sizes;
  for (const auto& [name, size] : parseNamedNumbers(what, text, kLargestSize)) {
    require(name.size() == 1 && used.find(name) != std::string::npos, what, " \"", text,
            "\": ", name, " is no index of the product");
    sizes[name[0]] = size;
  }
  for (const char index : used)
    require(sizes.contains(index), what, " \"", text, "\": the size of ", index, " is missing");
  return sizes;
}

}  // namespace tutti::parallel
