#include "parallel/checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/checkpoint/hash.h"
#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/safetensors_header.h"
#include "parallel/checkpoint/tiling.h"

namespace tutti::parallel {
namespace {

constexpr const char* kDescription = "description of a shard";

Json jsonOf(const StoredBox& stored) {
  Json begin = Json::array(), end = Json::array();
  for (const Range& range : stored.box) {
    begin.push_back(range.begin);
    end.push_back(range.end);
  }
  return {{"begin", begin},
          {"end", end},
          {"file", stored.file},
          {"entry", stored.entry},
          {"xxh128", stored.hash}};
}

Json jsonOf(const StoredTensors& tensors) {
  Json all = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json shape = Json::array(), boxes = Json::array();
    for (int d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
    for (const StoredBox& box : tensor.boxes) boxes.push_back(jsonOf(box));
    all[name] = {{"dtype", safetensorsName(tensor.type)}, {"shape", shape}, {"boxes", boxes}};
  }
  return all;
}

Json jsonOf(const Metadata& metadata) {
  Json all = Json::object();
  for (const auto& [key, value] : metadata) {
    if (const double* number = std::get_if<double>(&value))
      require(std::isfinite(*number), "metadata ", inQuotes(key), " is ", *number,
              ", which cannot be written");
    std::visit([&, &name = key](const auto& kind) { all[name] = kind; }, value);
  }
  return all;
}

/// Throws when a text in it is not UTF-8.
std::string dump(const std::string& where, const Json& value) {
  try {
    return value.dump();
  } catch (const Json::exception&) {
    fail(ErrorCode::InvalidArgument, where, ": a name or a text is not UTF-8");
  }
}

/// A name of a file in a folder, and of nothing elsewhere.
void requireFileName(const std::string& where, const std::string& name) {
  require(!name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
              name.find('\0') == name.npos,
          where, ": ", inQuotes(name), " is no name of a file");
}

StoredBox boxOf(const std::string& where, const Json& value, const Shape& shape) {
  Members members(where, value);
  StoredBox stored;
  const std::vector<int64_t> begin = members.wholes("begin", kMaxDims);
  const std::vector<int64_t> end = members.wholes("end", kMaxDims);
  for (size_t d = 0; d < std::min(begin.size(), end.size()); ++d)
    stored.box.push_back({begin[d], end[d]});
  require(begin.size() == end.size() && isBoxOf(stored.box, shape), where,
          ": begin, end: ", describe(stored.box), " is no box inside ", shape);
  stored.file = members.text("file");
  requireFileName(members.place("file"), stored.file);
  stored.entry = members.text("entry");
  stored.hash = members.text("xxh128");
  members.finish();
  return stored;
}

StoredTensor tensorOf(const std::string& where, const Json& value) {
  Members members(where, value);
  StoredTensor tensor;
  const std::string typeName = members.text("dtype");
  const auto type = parseSafetensorsType(typeName);
  require(type.has_value(), where, ": dtype: there is no type ", inQuotes(typeName));
  tensor.type = *type;
  tensor.shape = checkedShape(members.place("shape"), members.wholes("shape", kMaxDims));
  checkedBytes(members.place("shape"), tensor.type, tensor.shape);
  const Json& boxes = members.list("boxes");
  members.finish();
  for (size_t i = 0; i < boxes.size(); ++i)
    tensor.boxes.push_back(boxOf(message(where, ": box ", i), boxes[i], tensor.shape));
  return tensor;
}

StoredTensors tensorsOf(const std::string& where, const Json& value) {
  StoredTensors tensors;
  for (const auto& [name, tensor] : value.items())
    tensors[name] = tensorOf(message(where, ": tensor ", inQuotes(name)), tensor);
  return tensors;
}

Metadata metadataOf(const std::string& where, const Json& value) {
  Metadata metadata;
  for (const auto& [key, item] : value.items()) {
    const std::string place = message(where, ": metadata ", inQuotes(key));
    if (item.is_string())
      metadata[key] = item.get<std::string>();
    else if (item.is_number_float())
      metadata[key] = item.get<double>();
    else
      metadata[key] = wholeNumber(place, item, std::numeric_limits<int64_t>::min(), kMostWhole);
  }
  return metadata;
}

std::map<std::string, uint64_t> filesOf(const std::string& where, const Json& value) {
  std::map<std::string, uint64_t> files;
  for (const auto& [name, bytes] : value.items()) {
    requireFileName(where + ": files", name);
    const std::string place = message(where, ": files: ", inQuotes(name));
    files[name] = static_cast<uint64_t>(wholeNumber(place, bytes, 0, kMostWhole));
  }
  return files;
}

}  // namespace

std::string ShardDescription::serialize() const {
  return dump(kDescription,
              {{"file", file}, {"bytes", bytes}, {"tensors", jsonOf(tensors)}, {"error", error}});
}

ShardDescription ShardDescription::parse(std::string_view text) {
  const Json json = parseJson(kDescription, text);
  Members members(kDescription, json);
  ShardDescription shard;
  shard.file = members.text("file");
  shard.bytes = static_cast<uint64_t>(members.whole("bytes", 0, kMostWhole));
  shard.tensors = tensorsOf(kDescription, members.object("tensors"));
  shard.error = members.text("error");
  members.finish();
  return shard;
}

void Manifest::add(const ShardDescription& shard) {
  if (!shard.error.empty())
    fail(ErrorCode::System, "a rank could not write its part: ", shard.error);
  if (shard.tensors.empty()) return;
  require(files.emplace(shard.file, shard.bytes).second, "two ranks wrote ", shard.file);
  for (const auto& [name, tensor] : shard.tensors) {
    const auto [found, isNew] = tensors.emplace(name, tensor);
    if (isNew) continue;
    StoredTensor& known = found->second;
    if (known.type != tensor.type || known.shape != tensor.shape)
      fail(ErrorCode::InvalidArgument, "tensor ", inQuotes(name), " is ", toString(tensor.type),
           " ", tensor.shape, " in ", shard.file, ", and ", toString(known.type), " ", known.shape,
           " in the file of another rank");
    known.boxes.insert(known.boxes.end(), tensor.boxes.begin(), tensor.boxes.end());
  }
}

void Manifest::requireWhole(const std::string& where) const {
  std::map<std::string, uint64_t> left = files;  // bytes that no box was counted for
  for (const auto& [name, tensor] : tensors) {
    const std::string place = message(where, ": tensor ", inQuotes(name));
    std::vector<Box> boxes;
    for (const StoredBox& stored : tensor.boxes) {
      const auto file = left.find(stored.file);
      if (file == left.end())
        fail(ErrorCode::InvalidArgument, place, ": file: ", inQuotes(stored.file),
             " is not among the files");
      const uint64_t bytes = checkedBytes(place, tensor.type, extentsOf(stored.box));
      require(bytes <= file->second, place, ": boxes: ", describe(stored.box), " of ", bytes,
              " bytes is more than ", inQuotes(stored.file), " has left of ",
              files.at(stored.file));
      file->second -= bytes;
      boxes.push_back(stored.box);
    }
    requireTiling(place, tensor.shape, boxes);
  }
}

std::string Manifest::text() const {
  Json content{{"format", kCheckpointFormat},  {"step", step},   {"world", world},
               {"metadata", jsonOf(metadata)}, {"files", files}, {"tensors", jsonOf(tensors)}};
  const std::string text = dump("manifest", content);
  Json whole{{"xxh128", hash128(text.data(), text.size())}};
  whole["checkpoint"] = std::move(content);
  return whole.dump() + "\n";
}

Manifest Manifest::parse(const std::string& where, std::string_view text) {
  const Json json = parseJson(where, text);
  Members outer(where, json);
  const Json& content = outer.object("checkpoint");
  const std::string checksum = outer.text("xxh128");
  outer.finish();
  Members members(where, content);
  // First, as another format may have its checksum elsewhere.
  const int64_t format = members.whole("format", 0, kMostWhole);
  require(format == kCheckpointFormat, where, ": format: it is ", format, ", and this reads ",
          kCheckpointFormat);
  // Of the content, not of the text: spaces do not matter.
  const std::string plain = content.dump();
  const std::string found = hash128(plain.data(), plain.size());
  require(checksum == found, where, ": xxh128: the content has changed, its checksum is ", found,
          ", not ", inQuotes(checksum));
  Manifest manifest;
  manifest.step = members.whole("step", 0, kMostWhole);
  manifest.world = static_cast<int>(members.whole("world", 1, std::numeric_limits<int>::max()));
  manifest.metadata = metadataOf(where, members.object("metadata"));
  manifest.files = filesOf(where, members.object("files"));
  manifest.tensors = tensorsOf(where, members.object("tensors"));
  members.finish();
  manifest.requireWhole(where);
  return manifest;
}

}  // namespace tutti::parallel
