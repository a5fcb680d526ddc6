#pragma once

// Reading a checkpoint under any layout and by any number of ranks: any box of any tensor is put
// together from the boxes that were written. Nothing is taken on trust: the manifest is checked
// when it is read, a file when it is first used, and all of an entry against its checksum before
// any of it is given out. Errors name file, tensor and member.

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "parallel/checkpoint/manifest.h"
#include "parallel/checkpoint/safetensors.h"

namespace tutti::parallel {

/// Of one rank; not thread safe.
class CheckpointReader {
 public:
  /// Throws System when `folder` has no manifest that can be read, InvalidArgument when it is not
  /// whole.
  explicit CheckpointReader(const std::filesystem::path& folder);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  int64_t step() const { return manifest_.step; }
  int world() const { return manifest_.world; }  ///< ranks of the run that wrote it
  const Metadata& metadata() const { return manifest_.metadata; }
  std::vector<std::string> names() const;  ///< of all tensors, ascending
  size_t fileCount() const { return manifest_.files.size(); }
  /// Type, global shape and stored boxes. Throws InvalidArgument when there is no such tensor.
  const StoredTensor& tensor(const std::string& name) const;
  /// Throws InvalidArgument, naming it, when a file that the manifest names has another length, and
  /// System when one cannot be opened.
  void requireFiles() const;
  /// Throws InvalidArgument listing what is missing and what is not expected, unless the tensors
  /// are exactly these.
  void requireNames(std::span<const std::string> expected) const;

  /// Elements of `box`, row-major. `to` is contiguous and has the tensor's type and the extents of
  /// the box. Throws InvalidArgument; what `to` holds then is undefined.
  void read(const std::string& name, const Box& box, const Tensor& to);
  /// Checks every byte of every file that the manifest names, as reading all of it would.
  void verify();

  uint64_t bytesRead() const;  ///< of tensors' data, for reports

 private:
  /// An entry that has what a stored box should, and its file.
  struct Source {
    SafetensorsReader& file;
    const SafetensorsEntry& entry;
    const StoredBox& stored;
  };
  SafetensorsReader& file(const std::string& name);
  Source sourceOf(const StoredTensor& tensor, const StoredBox& stored);
  void readFrom(const StoredTensor& tensor, const StoredBox& stored, const Box& box,
                const Tensor& to);
  bool isVerified(const Source& source) const;
  void verify(const Source& source);
  void accept(const Source& source, const std::string& hash);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsReader> files_;  ///< those that were used
  std::set<const StoredBox*> verified_;
};

}  // namespace tutti::parallel
