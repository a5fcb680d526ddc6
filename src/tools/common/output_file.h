#pragma once

#include <cstdio>
#include <functional>
#include <initializer_list>
#include <ostream>
#include <streambuf>
#include <string>

#include "src/base/file_descriptor.h"

namespace tutti::tools {

/// Whether the file that an option names is standard output, which then has nothing else.
inline bool isStandardOutput(const std::string& path) { return path == "-"; }

/// The file that an option names, while it is written. It takes its place when commit() has it
/// whole: until then what was there stays, and the new text grows in PATH.partial-PID-0 beside it.
/// A pipe or a device (/dev/stdout) is written at once, and so is standard output, which is "-".
class OutputFile {
 public:
  /// Throws System, naming the option and the file, where it cannot be written.
  OutputFile(std::string option, std::string path);
  /// Removes what is not committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// What is written goes to the file at once. A failure shows at commit().
  std::ostream& stream() { return stream_; }
  /// Once, at the end. Throws System, the disk being full included.
  void commit();

 private:
  class Writer final : public std::streambuf {
   public:
    base::FileDescriptor file;
    int error = 0;

   private:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize bytes) override;
  };

  [[noreturn]] void fail(int error) const;

  std::string option_, path_;
  std::string target_;     ///< the path behind links
  std::string temporary_;  ///< empty where there is none, and once committed
  Writer writer_;
  std::ostream stream_{&writer_};
};

/// Writes all of `text`.
void writeFile(const std::string& option, const std::string& path, const std::string& text);
/// The same of what `text` makes, where a file is named.
void writeIfNamed(const std::string& option, const std::string& path,
                  const std::function<std::string()>& text);
/// The error of a file that cannot be written, before there is a text. What is in the file stays.
void requireWritable(const std::string& option, const std::string& path);

/// Text for people, on standard output unless one of the files is that.
void printBeside(const std::string& text, std::initializer_list<std::string> files);

/// A part of a table, to be seen at once. Throws System when standard output does not take it.
/// Whoever has closed it wanted none of it.
void printNow(std::FILE* to, const std::string& text);

}  // namespace tutti::tools
