#include "parallel/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>

#include "parallel/checkpoint/json.h"

namespace tutti::parallel {
namespace {

constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  DType type;
  const char* name;
};
/// In the order of the format's own library, which writes the last of these first.
constexpr std::array<TypeName, kDataTypeCount> kTypes{{{DType::UInt8, "U8"},
                                                       {DType::Int8, "I8"},
                                                       {DType::Float8E5M2, "F8_E5M2"},
                                                       {DType::Float8E4M3, "F8_E4M3"},
                                                       {DType::Int16, "I16"},
                                                       {DType::UInt16, "U16"},
                                                       {DType::Float16, "F16"},
                                                       {DType::BFloat16, "BF16"},
                                                       {DType::Int32, "I32"},
                                                       {DType::UInt32, "U32"},
                                                       {DType::Float32, "F32"},
                                                       {DType::Float64, "F64"},
                                                       {DType::Int64, "I64"},
                                                       {DType::UInt64, "U64"}}};

size_t placeOf(DType type) {
  const auto found = std::ranges::find(kTypes, type, &TypeName::type);
  require(found != kTypes.end(), "there is no element type ", static_cast<int>(type));
  return static_cast<size_t>(found - kTypes.begin());
}

SafetensorsEntry entryOf(const std::string& file, const std::string& name, const Json& value,
                         uint64_t dataBytes) {
  const std::string where = message(file, ": tensor ", inQuotes(name));
  Members members(where, value);
  SafetensorsEntry entry{.name = name};
  const std::string typeName = members.text("dtype");
  const auto type = parseSafetensorsType(typeName);
  require(type.has_value(), where, ": dtype: there is no type ", inQuotes(typeName));
  entry.type = *type;
  entry.shape = checkedShape(members.place("shape"), members.wholes("shape", kMaxDims));
  const uint64_t bytes = checkedBytes(members.place("shape"), entry.type, entry.shape);
  const std::vector<int64_t> offsets = members.wholes("data_offsets", 2);
  members.finish();
  require(offsets.size() == 2, where, ": data_offsets: there are not two of them");
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  require(entry.begin <= entry.end, where, ": data_offsets: ends at ", entry.end,
          ", before it begins at ", entry.begin);
  require(entry.end <= dataBytes, where, ": data_offsets: ends at ", entry.end,
          ", and the file has ", dataBytes, " bytes of data");
  require(entry.end - entry.begin == bytes, where, ": data_offsets: has ", entry.end - entry.begin,
          " bytes, and ", toString(entry.type), " ", entry.shape, " takes ", bytes);
  return entry;
}

std::map<std::string, std::string> metadataTexts(const std::string& file, const Json& value) {
  const std::string where = file + ": " + kMetadata;
  require(value.is_object(), where, ": this is no object");
  std::map<std::string, std::string> texts;
  for (const auto& [key, text] : value.items()) {
    require(text.is_string(), where, ": ", inQuotes(key), ": this is no text");
    texts[key] = text.get<std::string>();
  }
  return texts;
}

/// Refuses gaps and overlaps of tensors in ascending order.
void requireCover(const std::string& file, const std::vector<SafetensorsEntry>& entries,
                  uint64_t dataBytes) {
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != end)
      fail(ErrorCode::InvalidArgument, file, ": tensor ", inQuotes(entry.name),
           ": data_offsets: begins at ", entry.begin,
           entry.begin < end ? ", inside the tensor before it, which ends at "
                             : ", behind a gap that begins at ",
           end);
    end = entry.end;
  }
  require(end == dataBytes, file, ": the last ", dataBytes - end, " bytes belong to no tensor");
}

std::string escaped(const std::string& file, const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail(ErrorCode::InvalidArgument, file, ": ", inQuotes(text), " is not UTF-8");
  }
}

OrderedJson jsonOf(const SafetensorsEntry& entry) {
  OrderedJson shape = OrderedJson::array();
  for (int d = 0; d < entry.shape.rank(); ++d) shape.push_back(entry.shape[d]);
  return {{"dtype", safetensorsName(entry.type)},
          {"shape", std::move(shape)},
          {"data_offsets", {entry.begin, entry.end}}};
}

}  // namespace

const char* safetensorsName(DType type) { return kTypes[placeOf(type)].name; }

std::optional<DType> parseSafetensorsType(std::string_view name) {
  if (name == "BOOL") return DType::UInt8;
  for (const TypeName& known : kTypes)
    if (known.name == name) return known.type;
  return {};
}

uint64_t checkedBytes(const std::string& where, DType type, const Shape& shape) {
  const auto elementBytes = static_cast<int64_t>(sizeOf(type));
  int64_t most = elementBytes;
  bool none = false;
  for (int d = 0; d < shape.rank(); ++d) {
    none = none || shape[d] == 0;
    require(!__builtin_mul_overflow(most, std::max<int64_t>(shape[d], 1), &most), where, ": ",
            shape, " is too large");
  }
  return none ? 0 : static_cast<uint64_t>(most);
}

Shape checkedShape(const std::string& where, const std::vector<int64_t>& extents) {
  require(extents.size() <= kMaxDims, where, ": ", extents.size(), " dimensions, more than ",
          kMaxDims);
  return Shape(extents);
}

SafetensorsHeader parseHeader(const std::string& file, std::string_view text, uint64_t dataBytes) {
  require(text.starts_with('{'), file, ": header: it does not begin with {");
  const Json json = parseJson(file + ": header", text);
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata)
      header.metadata = metadataTexts(file, value);
    else
      header.entries.push_back(entryOf(file, name, value, dataBytes));
  }
  std::ranges::sort(header.entries, {}, [](const SafetensorsEntry& entry) {
    return std::tie(entry.begin, entry.end, entry.name);
  });
  requireCover(file, header.entries, dataBytes);
  return header;
}

void layOut(const std::string& file, std::vector<SafetensorsEntry>& entries) {
  std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    const size_t first = placeOf(a.type), second = placeOf(b.type);
    return first != second ? first > second : a.name < b.name;
  });
  std::vector<std::string> names;
  uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    require(entry.name != kMetadata, file, ": no tensor can be called ", kMetadata);
    names.push_back(escaped(file, entry.name));
    const std::string where = message(file, ": tensor ", inQuotes(entry.name));
    entry.begin = end;
    require(!__builtin_add_overflow(end, checkedBytes(where, entry.type, entry.shape), &end) &&
                end <= uint64_t{kMostWhole},
            where, ": the file would be too large");
    entry.end = end;
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  require(twice == names.end(), file, ": tensor ", twice == names.end() ? "" : *twice,
          " is there twice");
}

std::string headerText(const SafetensorsHeader& header) {
  OrderedJson::object_t members;
  members.reserve(header.entries.size() + 1);
  if (!header.metadata.empty()) members.emplace_back(kMetadata, header.metadata);
  // Each name is there once, and to look it up among those before it would take long.
  for (const SafetensorsEntry& entry : header.entries)
    members.emplace_back(entry.name, jsonOf(entry));
  std::string text = OrderedJson(std::move(members)).dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace tutti::parallel
