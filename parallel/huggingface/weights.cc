#include "parallel/huggingface/weights.h"

#include <bit>
#include <cmath>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/json.h"
#include "parallel/huggingface/sizes.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr uint64_t kMostIndexBytes = 100'000'000;

double halfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double size = mantissa ? std::nan("") : HUGE_VAL;
  if (exponent < 31)
    size = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return bits >> 15 ? -size : size;
}

double element(const Tensor& tensor, int64_t i) {
  switch (tensor.type) {
    case DType::Float64: return static_cast<const double*>(tensor.data)[i];
    case DType::Float32: return static_cast<const float*>(tensor.data)[i];
    case DType::Float16: return halfValue(static_cast<const uint16_t*>(tensor.data)[i]);
    default:
      return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(tensor.data)[i]} << 16);
  }
}

/// To the nearest, ties to even; NaN stays NaN.
uint16_t bfloat16Of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void setElement(const Tensor& tensor, int64_t i, double value) {
  switch (tensor.type) {
    case DType::Float64: static_cast<double*>(tensor.data)[i] = value; break;
    case DType::Float32: static_cast<float*>(tensor.data)[i] = static_cast<float>(value); break;
    case DType::BFloat16:
      static_cast<uint16_t*>(tensor.data)[i] = bfloat16Of(static_cast<float>(value));
      break;
    default: fail(ErrorCode::Unsupported, "no weights in ", toString(tensor.type));
  }
}

bool isWeightType(DType type) {
  return type == DType::Float64 || type == DType::Float32 || type == DType::Float16 ||
         type == DType::BFloat16;
}

std::string unprefixed(const std::string& tensor) {
  const std::string prefix = kGptPrefix;
  return tensor.starts_with(prefix) ? tensor.substr(prefix.size()) : tensor;
}

}  // namespace

void convert(const Tensor& from, const Tensor& to, bool transposed) {
  ensure(from.count() == to.count() && from.contiguous() && to.contiguous(), from, " to ", to);
  const int64_t count = from.count();
  if (!transposed) {
    for (int64_t i = 0; i < count; ++i) setElement(to, i, element(from, i));
    return;
  }
  const int64_t rows = to.shape[0], columns = to.shape[1];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      setElement(to, r * columns + c, element(from, c * rows + r));
}

WeightFolder::WeightFolder(const std::filesystem::path& folder, const ModelOptions& options)
    : folder_(folder), options_(options) {
  const auto index = folder / kIndexName;
  if (std::filesystem::exists(index))
    readIndex(index);
  else
    addFile(folder / kWeightsName);
  prefixed_ = std::holds_alternative<LlamaOptions>(options) ||
              byTensor_.contains(std::string(kGptPrefix) + "wte.weight");
  requireSizes();
  requireTensors();
}

void WeightFolder::requireSizes() const {
  StoredShapes stored{.names = {}, .shapeOf = [&](const auto& name) { return entry(name).shape; }};
  for (const auto& [name, file] : byTensor_) stored.names.push_back(name);
  requireSizesOf(stored, (folder_ / "config.json").string(), options_);
}

void WeightFolder::addFile(const std::filesystem::path& path) {
  SafetensorsReader& file = files_.try_emplace(path, path).first->second;
  for (const SafetensorsEntry& entry : file.entries()) {
    const bool isNew = byTensor_.emplace(entry.name, &file).second;
    require(isNew, path.string(), ": tensor ", inQuotes(entry.name), " is in another file too");
  }
  file.release();
}

void WeightFolder::readIndex(const std::filesystem::path& index) {
  const std::string where = index.string();
  const Json json = parseJson(where, readText(index, kMostIndexBytes));
  Members members(where, json);
  const Json& map = members.object("weight_map");
  if (members.has("metadata")) members.take("metadata");
  members.finish();
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    const std::string place = message(where, ": weight_map: ", inQuotes(tensor));
    require(file.is_string(), place, ": this is no text");
    const auto name = file.get<std::string>();
    const bool plain = !name.empty() && name.find('/') == name.npos && name[0] != '.';
    require(plain, place, ": ", inQuotes(name), " is no name of a file beside it");
    names.insert(name);
  }
  for (const std::string& name : names) addFile(folder_ / name);
  for (const auto& [tensor, file] : map.items()) {
    const auto found = byTensor_.find(tensor);
    require(found != byTensor_.end() && found->second->path().filename().string() == file, where,
            ": weight_map: ", inQuotes(tensor), ": ", inQuotes(file.get<std::string>()),
            " does not have it");
  }
  for (const auto& [tensor, file] : byTensor_)
    require(map.contains(tensor), where, ": weight_map: tensor ", inQuotes(tensor), " of ",
            file->path().filename().string(), " is not there");
}

void WeightFolder::requireTensors() const {
  const auto expected = storedTensors(options_);
  std::set<std::string> names;
  for (const auto& [name, shape] : expected) {
    names.insert(prefixed_ ? name : unprefixed(name));
    const SafetensorsEntry& stored = entry(name);
    const std::string where = message(folder_.string(), ": tensor ", inQuotes(stored.name));
    require(stored.shape == shape, where, ": shape: it is ", stored.shape,
            ", and config.json says ", shape);
    require(isWeightType(stored.type), where, ": dtype: ", toString(stored.type),
            " is not supported here");
  }
  for (const auto& [name, file] : byTensor_)
    require(names.contains(name) || isSpare(options_, name), folder_.string(),
            ": nobody expects tensor ", inQuotes(name));
}

const SafetensorsEntry& WeightFolder::entry(const std::string& tensor) const {
  const std::string name = prefixed_ ? tensor : unprefixed(tensor);
  const auto found = byTensor_.find(name);
  require(found != byTensor_.end(), folder_.string(), ": there is no tensor ", inQuotes(name));
  return found->second->entry(name);
}

void WeightFolder::read(const std::string& parameter, const Box& box, const Tensor& to) {
  for (const StoredPart& part : storedParts(options_, parameter, box, to)) {
    const SafetensorsEntry& stored = entry(part.place.tensor);
    const Shape extents = extentsOf(part.box);
    const size_t count = byteCount(stored.type, extents);
    auto bytes = inMemory(message(folder_.string(), ": tensor ", inQuotes(stored.name)), count,
                          [&] { return std::vector<std::byte>(count); });
    const Tensor raw(bytes.data(), stored.type, extents);
    readBox(*byTensor_.at(stored.name), stored, part.box, raw);
    convert(raw, part.held, part.place.transposed);
  }
}

uint64_t WeightFolder::bytesRead() const {
  uint64_t bytes = 0;
  for (const auto& [path, file] : files_) bytes += file.bytesRead();
  return bytes;
}

}  // namespace tutti::parallel
