#include "parallel/checkpoint/safetensors.h"

#include <array>
#include <bit>

#include "parallel/checkpoint/json.h"

namespace tutti::parallel {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

using LengthBytes = std::array<unsigned char, 8>;

uint64_t decode(const LengthBytes& bytes) {
  uint64_t length = 0;
  for (size_t i = bytes.size(); i-- > 0;) length = length << 8 | bytes[i];
  return length;
}

LengthBytes encode(uint64_t length) {
  LengthBytes bytes;
  for (unsigned char& byte : bytes) {
    byte = static_cast<unsigned char>(length);
    length >>= 8;
  }
  return bytes;
}

/// The length of a file's header, when there can be one of that length.
uint64_t headerBytes(const File& file) {
  const std::string path = file.path().string();
  LengthBytes lengthBytes;
  require(file.bytes() >= lengthBytes.size(), path, ": header length: the file has ", file.bytes(),
          " bytes");
  file.read(0, lengthBytes.data(), lengthBytes.size(), "header length");
  const uint64_t length = decode(lengthBytes);
  require(length > 0, path, ": header length: it is 0");
  require(length <= kMostHeaderBytes, path, ": header length: ", length, " is more than ",
          kMostHeaderBytes);
  require(length <= file.bytes() - lengthBytes.size(), path, ": header length: ", length,
          " is past the end of the file, which has ", file.bytes(), " bytes");
  return length;
}

void requireSame(const std::string& file, const SafetensorsEntry& entry, const Tensor& tensor) {
  require(entry.type == tensor.type && entry.shape == tensor.shape, file, ": tensor ",
          inQuotes(entry.name), " is ", toString(entry.type), " ", entry.shape, ", not ", tensor);
  require(tensor.contiguous(), file, ": tensor ", inQuotes(entry.name),
          ": its memory is not contiguous");
}

}  // namespace

std::string fileHead(const std::string& path, const SafetensorsHeader& header) {
  const std::string text = headerText(header);
  require(text.size() <= kMostHeaderBytes, path, ": a header of ", text.size(),
          " bytes is longer than ", kMostHeaderBytes);
  const LengthBytes length = encode(text.size());
  return std::string(length.begin(), length.end()) + text;
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : path_(path), file_(File::open(path)), bytes_(file_->bytes()) {
  const uint64_t length = headerBytes(*file_);
  dataBegin_ = sizeof(LengthBytes) + length;
  header_ = inMemory(path.string() + ": header", length, [&] {
    std::string text(length, '\0');
    file_->read(sizeof(LengthBytes), text.data(), text.size(), "header");
    return parseHeader(path.string(), text, bytes_ - dataBegin_);
  });
  for (size_t i = 0; i < header_.entries.size(); ++i) byName_[header_.entries[i].name] = i;
}

const SafetensorsEntry& SafetensorsReader::entry(const std::string& name) const {
  const auto found = byName_.find(name);
  if (found == byName_.end())
    fail(ErrorCode::InvalidArgument, path_.string(), ": there is no tensor ", inQuotes(name));
  return header_.entries[found->second];
}

const File& SafetensorsReader::file() {
  if (file_) return *file_;
  File file = File::open(path_);
  require(file.bytes() == bytes_, path_.string(), " has ", file.bytes(), " bytes, and had ", bytes_,
          " when its header was read");
  return file_.emplace(std::move(file));
}

void SafetensorsReader::read(const SafetensorsEntry& entry, uint64_t offset, void* to,
                             size_t bytes) {
  const uint64_t all = entry.end - entry.begin;
  ensure(offset <= all && bytes <= all - offset, "bytes ", offset, " to ", offset + bytes,
         " of a tensor of ", all);
  file().read(dataBegin_ + entry.begin + offset, to, bytes, entry.name);
  bytesRead_ += bytes;
}

void SafetensorsReader::read(const std::string& name, const Tensor& to) {
  const SafetensorsEntry& found = entry(name);
  requireSame(path_.string(), found, to);
  read(found, 0, to.data, to.bytes());
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<SafetensorsEntry> tensors,
                                     std::map<std::string, std::string> metadata)
    : path_(path.string()), file_(File::create(path)) {
  layOut(path_, tensors);
  const SafetensorsHeader header{std::move(tensors), std::move(metadata)};
  const std::string text = fileHead(path_, header);
  for (const SafetensorsEntry& entry : header.entries) {
    dataBytes_ = entry.end;
    places_[entry.name] = {entry};
  }
  dataBegin_ = text.size();
  file_.write(0, text.data(), text.size());
}

void SafetensorsWriter::write(const std::string& name, const Tensor& tensor) {
  const auto found = places_.find(name);
  if (found == places_.end())
    fail(ErrorCode::InvalidUsage, path_, ": tensor ", inQuotes(name), " was not declared");
  Place& place = found->second;
  require(!place.written, path_, ": tensor ", inQuotes(name), " is written twice");
  requireSame(path_, place.entry, tensor);
  file_.write(dataBegin_ + place.entry.begin, tensor.data, tensor.bytes());
  place.written = true;
}

void SafetensorsWriter::finish() {
  for (const auto& [name, place] : places_)
    if (!place.written)
      fail(ErrorCode::InvalidUsage, path_, ": tensor ", inQuotes(name), " was not written");
  file_.sync();
}

}  // namespace tutti::parallel
