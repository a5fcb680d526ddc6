#pragma once

// Lines in NCCL's form, "host:pid:tid [dev] NCCL INFO text", as NCCL_DEBUG, NCCL_DEBUG_SUBSYS and
// NCCL_DEBUG_FILE ask for them; and the text of the last failure, which is kept whatever they ask.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/check.h"

namespace tutti::nccl {

/// NCCL_DEBUG, by rising talkativeness.
enum class DebugLevel { None, Version, Warn, Info, Abort, Trace };

/// By its word in upper or lower case; nothing where that is none.
std::optional<DebugLevel> parseDebugLevel(const std::string& word);

/// What an INFO line is about: the words of NCCL_DEBUG_SUBSYS that this library has lines for, as
/// bits.
enum class Subsystem : uint32_t { Init = 1, Coll = 2, P2p = 4, Env = 8, Alloc = 16, Reg = 32 };

/// What NCCL_DEBUG_SUBSYS says.
struct SubsystemList {
  uint32_t bits = 0;                 ///< of Subsystem
  std::vector<std::string> unknown;  ///< words that are no subsystem of NCCL's; they change nothing
};

/// "INIT,COLL", or "^INIT,COLL" for all but these. Of a list without a subsystem: INIT and ENV.
SubsystemList parseSubsystems(std::string_view text);

/// The process's. Thread safe, and inert for nobody: forked children log too.
class DebugLog {
 public:
  static DebugLog& ofProcess();

  /// Reads the variables again.
  void reset();

  bool shows(DebugLevel level) const { return level <= level_.load(std::memory_order_relaxed); }
  bool shows(Subsystem about) const {
    return shows(DebugLevel::Info) &&
           (subsystems_.load(std::memory_order_relaxed) & static_cast<uint32_t>(about)) != 0;
  }
  template <class... Parts>
  void info(Subsystem about, const Parts&... parts) {
    if (shows(about)) write("NCCL INFO " + base::message(parts...));
  }
  /// A warning that is nobody's failure.
  void warn(const std::string& text) {
    if (shows(DebugLevel::Warn)) write("NCCL WARN " + text);
  }
  /// A line by itself, at NCCL_DEBUG=VERSION and above.
  void version(const std::string& text);
  /// A failure: a warning whose text is kept.
  void failure(const std::string& text);
  std::string lastFailure() const;

 private:
  DebugLog();
  void write(const std::string& text);
  void takeOverLibraryLog();

  std::atomic<DebugLevel> level_{DebugLevel::None};
  std::atomic<uint32_t> subsystems_{0};
  mutable std::mutex mutex_;
  std::FILE* file_ = stdout;
  std::string lastFailure_;
};

}  // namespace tutti::nccl
