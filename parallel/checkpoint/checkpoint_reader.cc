#include "parallel/checkpoint/checkpoint_reader.h"

#include <algorithm>

#include "parallel/checkpoint/hash.h"
#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/names.h"
#include "parallel/checkpoint/run_reader.h"

namespace tutti::parallel {
namespace {

/// The first few names of a list, and how many there are.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += message(i > 0 ? ", " : "", inQuotes(names[i]));
  return names.size() > kShown ? message(text, " and ", names.size() - kShown, " more") : text;
}

Manifest readManifest(const std::filesystem::path& path) {
  const std::string text = readText(path, kMostManifestBytes);
  return inMemory(path.string(), text.size(), [&] { return Manifest::parse(path.string(), text); });
}

void requireLength(const std::filesystem::path& path, uint64_t bytes, uint64_t expected) {
  require(bytes == expected, path.string(), " has ", bytes, " bytes, and the manifest says ",
          expected);
}

}  // namespace

CheckpointReader::CheckpointReader(const std::filesystem::path& folder)
    : folder_(folder), manifest_(readManifest(folder / kManifestName)) {}

void CheckpointReader::requireFiles() const {
  for (const auto& [name, bytes] : manifest_.files) {
    const File file = File::open(folder_ / name);
    requireLength(file.path(), file.bytes(), bytes);
  }
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest_.tensors) names.push_back(name);
  return names;
}

const StoredTensor& CheckpointReader::tensor(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end())
    fail(ErrorCode::InvalidArgument, folder_.string(), ": there is no tensor ", inQuotes(name));
  return found->second;
}

void CheckpointReader::requireNames(std::span<const std::string> expected) const {
  const std::set<std::string> wanted(expected.begin(), expected.end());
  std::vector<std::string> missing, unexpected;
  for (const std::string& name : wanted)
    if (!manifest_.tensors.contains(name)) missing.push_back(name);
  for (const auto& [name, tensor] : manifest_.tensors)
    if (!wanted.contains(name)) unexpected.push_back(name);
  require(missing.empty() && unexpected.empty(), folder_.string(), ": ",
          missing.empty() ? "" : message("there is no tensor ", listed(missing)),
          missing.empty() || unexpected.empty() ? "" : "; ",
          unexpected.empty() ? "" : message("nobody expects tensor ", listed(unexpected)));
}

void CheckpointReader::read(const std::string& name, const Box& box, const Tensor& to) {
  const StoredTensor& stored = tensor(name);
  const std::string where = message(folder_.string(), ": tensor ", inQuotes(name));
  require(stored.type == to.type, where, ": dtype: it is ", toString(stored.type), ", not ",
          toString(to.type));
  require(isBoxOf(box, stored.shape), where, ": ", describe(box), " is not inside ", stored.shape);
  require(to.shape == extentsOf(box) && to.contiguous(), where, ": ", describe(box),
          " cannot be read into ", to, to.contiguous() ? "" : ", which is not contiguous");
  for (const StoredBox& part : stored.boxes) readFrom(stored, part, box, to);
}

void CheckpointReader::verify() {
  for (const auto& [name, stored] : manifest_.tensors)
    for (const StoredBox& part : stored.boxes) {
      const Source source = sourceOf(stored, part);
      if (!isVerified(source)) verify(source);
      source.file.release();
    }
}

uint64_t CheckpointReader::bytesRead() const {
  uint64_t bytes = 0;
  for (const auto& [name, file] : files_) bytes += file.bytesRead();
  return bytes;
}

SafetensorsReader& CheckpointReader::file(const std::string& name) {
  if (const auto known = files_.find(name); known != files_.end()) return known->second;
  SafetensorsReader reader(folder_ / name);
  requireLength(reader.path(), reader.bytes(), manifest_.files.at(name));
  return files_.emplace(name, std::move(reader)).first->second;
}

CheckpointReader::Source CheckpointReader::sourceOf(const StoredTensor& tensor,
                                                    const StoredBox& stored) {
  SafetensorsReader& reader = file(stored.file);
  const SafetensorsEntry& entry = reader.entry(stored.entry);
  const Shape extents = extentsOf(stored.box);
  require(entry.type == tensor.type && entry.shape == extents, reader.path().string(), ": tensor ",
          inQuotes(entry.name), " is ", toString(entry.type), " ", entry.shape,
          ", and the manifest says ", toString(tensor.type), " ", extents);
  return {reader, entry, stored};
}

void CheckpointReader::readFrom(const StoredTensor& tensor, const StoredBox& stored, const Box& box,
                                const Tensor& to) {
  if (extentsOf(intersection(stored.box, box)).count() == 0) return;
  const Source source = sourceOf(tensor, stored);
  const size_t elementBytes = sizeOf(tensor.type);
  const int64_t all = extentsOf(stored.box).count();
  RunReader runs(source.file, source.entry);
  bool verified = isVerified(source);
  forEachRun(stored.box, box, [&](const BoxRun& run) {
    std::byte* const target = static_cast<std::byte*>(to.data) + run.to * int64_t(elementBytes);
    const size_t bytes = static_cast<size_t>(run.count) * elementBytes;
    if (!verified && run.count == all) {  // where it lands in one piece it is read only once
      source.file.read(source.entry, 0, target, bytes);
      return accept(source, hash128(target, bytes));
    }
    if (!verified) verify(source);
    verified = true;
    runs.read(static_cast<uint64_t>(run.from) * elementBytes, target, bytes);
  });
  source.file.release();
}

bool CheckpointReader::isVerified(const Source& source) const {
  return verified_.contains(&source.stored);
}

void CheckpointReader::verify(const Source& source) {
  constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
  const uint64_t all = source.entry.end - source.entry.begin;
  std::vector<std::byte> block(std::min(all, kBlockBytes));
  Hash128 hash;
  for (uint64_t at = 0; at < all; at += block.size()) {
    const size_t bytes = std::min<uint64_t>(block.size(), all - at);
    source.file.read(source.entry, at, block.data(), bytes);
    hash.add(block.data(), bytes);
  }
  accept(source, hash.digits());
}

void CheckpointReader::accept(const Source& source, const std::string& hash) {
  require(hash == source.stored.hash, source.file.path().string(), ": tensor ",
          inQuotes(source.entry.name), ": xxh128: its data has changed, the checksum is ", hash,
          ", not ", inQuotes(source.stored.hash));
  verified_.insert(&source.stored);
}

}  // namespace tutti::parallel
