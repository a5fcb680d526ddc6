#pragma once

// MappedFile: the bytes of a regular file, read by mapping it: they take no memory of their own,
// and all processes of a host share them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::parallel {

class MappedFile {
 public:
  /// `what` is for errors: "the text". Throws System where the file cannot be opened or mapped,
  /// InvalidArgument, naming it, when it is no regular file.
  MappedFile(std::string what, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const { return name_; }  ///< "the text book.txt"
  std::string_view bytes() const { return bytes_; }
  /// Throws InvalidArgument when the file has become shorter: touching what is gone would end the
  /// process. To be called before bytes are read.
  void requireWhole() const;

 private:
  const std::string name_;
  int fd_ = -1;
  std::string_view bytes_;
};

/// Throws InvalidArgument when what is at `path` is no regular file: a pipe or a device would give
/// each rank something else, or block, or never end.
void requireRegular(const std::string& name, const std::string& path);

}  // namespace tutti::parallel
