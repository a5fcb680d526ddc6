#pragma once

// Output of ranks on its way to the launcher's own: cut into lines, each with its rank in front,
// in bounded memory.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "src/base/file_descriptor.h"
#include "src/launch/standard_stream.h"

namespace tutti::launcher {

constexpr size_t kMaxLineBytes = 64 * 1024;       ///< longer lines are broken
constexpr size_t kMaxPendingBytes = 1024 * 1024;  ///< then nothing more is read from the ranks
constexpr size_t kTailLines = 10;
constexpr size_t kTailLineBytes = 1024;

/// The last lines of one rank, each cut at kTailLineBytes.
class Tail {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

/// Standard output and error of the launcher. Whole lines wait here until a write would not block,
/// so that a reader who stops cannot stop the launcher.
class Outlets {
 public:
  Outlets(int out, int err);
  /// Adds a whole line, with its newline, for output 0 (out) or 1 (err).
  void add(int which, std::string_view line) { pending_[which] += line; }
  /// Writes what can be written now.
  void flush();
  /// How many bytes its readers have taken so far.
  uint64_t taken() const { return taken_; }
  bool full() const { return pendingBytes() >= kMaxPendingBytes; }
  size_t pendingBytes() const { return pending_[0].size() + pending_[1].size(); }
  /// True once this output takes no more; what is added to it is dropped.
  bool broken(int which) const { return broken_[which]; }
  /// Why an output that somebody reads took no more (a full disk, say): its errno, or 0.
  int error(int which) const { return errors_[which]; }
  /// True once somebody who read one of them has stopped for good.
  bool readerGone() const { return readerGone_; }
  /// The descriptors with something to write, for poll().
  int fd(int which) const { return streams_[which].fd(); }
  bool wants(int which) const;

 private:
  bool flushSome(int which);

  StandardStream streams_[2];
  uint64_t taken_ = 0;
  bool sameTarget_;  ///< both are one terminal, pipe or file: lines must not mix there either
  bool midLine_[2] = {false, false};
  bool broken_[2] = {false, false};
  int errors_[2] = {0, 0};
  bool readerGone_ = false;
  std::string pending_[2];
};

/// One stream of one rank.
class LineRelay {
 public:
  /// Lines read from `source` go to `outlets`' output `which` with "[rank] " in front, and into
  /// `tail`. The references must outlive the relay.
  LineRelay(base::FileDescriptor source, int rank, int which, Outlets& outlets, Tail& tail);
  int fd() const { return source_.get(); }
  bool open() const { return static_cast<bool>(source_); }
  /// Reads once, when poll() said that there is something.
  void read();
  /// Passes on a last line without newline, and closes.
  void finish();

 private:
  void take(std::string_view text);
  void emit(std::string_view line, bool complete);

  base::FileDescriptor source_;
  std::string prefix_, continuation_;
  int which_;
  Outlets& outlets_;
  Tail& tail_;
  std::string partial_;
  bool continuing_ = false;
};

}  // namespace tutti::launcher
