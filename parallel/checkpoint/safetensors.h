#pragma once

// Files of tensors in the safetensors format. Other programs read what is written here, and the
// same tensors always give the same bytes. What is read may come from anybody: a file that is not
// exactly what its header says is refused with InvalidArgument, naming file, tensor and member.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/safetensors_header.h"

namespace tutti::parallel {

/// What stands before the data: the length of the header, and the header. Throws InvalidArgument
/// when it would be too long.
std::string fileHead(const std::string& path, const SafetensorsHeader& header);

class SafetensorsReader {
 public:
  /// Reads the header. Throws System when the file cannot be opened.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  ///< of the whole file
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Throws InvalidArgument when the file has no such tensor.
  const SafetensorsEntry& entry(const std::string& name) const;

  /// `bytes` of a tensor's data from its byte `offset`. Throws InvalidArgument when the file has
  /// become shorter.
  void read(const SafetensorsEntry& entry, uint64_t offset, void* to, size_t bytes);
  /// All of a tensor. `to` is contiguous and has its type and shape.
  void read(const std::string& name, const Tensor& to);

  uint64_t bytesRead() const { return bytesRead_; }  ///< of data, for reports
  /// Gives the descriptor back until the next read(), which refuses a file of another size: a
  /// checkpoint may have more files than a process may open.
  void release() { file_.reset(); }

 private:
  const File& file();
  std::filesystem::path path_;
  std::optional<File> file_;
  uint64_t bytes_ = 0, dataBegin_ = 0, bytesRead_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t> byName_;
};

/// Writes one file, which is complete when finish() has returned.
class SafetensorsWriter {
 public:
  /// Makes the file, which must not be there. Of `tensors`, begin and end are not read.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> tensors,
                    std::map<std::string, std::string> metadata = {});
  /// The data of one tensor: contiguous, of its type and shape. In any order, each once.
  void write(const std::string& name, const Tensor& tensor);
  /// Throws InvalidUsage, naming it, when a tensor was not written. The disk has the file then.
  void finish();
  uint64_t bytes() const { return dataBegin_ + dataBytes_; }

 private:
  struct Place {
    SafetensorsEntry entry;
    bool written = false;
  };
  std::string path_;
  File file_;
  uint64_t dataBegin_ = 0, dataBytes_ = 0;
  std::map<std::string, Place> places_;
};

}  // namespace tutti::parallel
