#include "src/nccl/debug_log.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <tutti/log.h>

#include "src/base/process.h"

namespace tutti::nccl {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

struct Word {
  const char* name;
  uint32_t bits;  // 0: one of NCCL's that has no lines here
};
constexpr uint32_t bitsOf(Subsystem subsystem) { return static_cast<uint32_t>(subsystem); }
constexpr uint32_t kDefaultSubsystems = bitsOf(Subsystem::Init) | bitsOf(Subsystem::Env);
constexpr std::array kSubsystems{Word{"INIT", bitsOf(Subsystem::Init)},
                                 Word{"COLL", bitsOf(Subsystem::Coll)},
                                 Word{"P2P", bitsOf(Subsystem::P2p)},
                                 Word{"ENV", bitsOf(Subsystem::Env)},
                                 Word{"ALLOC", bitsOf(Subsystem::Alloc)},
                                 Word{"REG", bitsOf(Subsystem::Reg)},
                                 Word{"ALL", ~0u},
                                 Word{"SHM", 0},
                                 Word{"NET", 0},
                                 Word{"GRAPH", 0},
                                 Word{"TUNING", 0},
                                 Word{"CALL", 0},
                                 Word{"PROXY", 0},
                                 Word{"NVLS", 0},
                                 Word{"BOOTSTRAP", 0},
                                 Word{"PROFILE", 0},
                                 Word{"RAS", 0}};

const Word* findSubsystem(std::string_view word) {
  const auto found = std::ranges::find_if(kSubsystems, [&](const Word& known) {
    return word.size() == std::string_view(known.name).size() &&
           ::strncasecmp(word.data(), known.name, word.size()) == 0;
  });
  return found == kSubsystems.end() ? nullptr : &*found;
}

/// Up to the first dot, as NCCL's lines have it.
std::string hostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

/// %h is the host, %p the process, %% a percent sign.
std::string expand(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      path += pattern[i];
      continue;
    }
    path += next == 'h' ? hostName() : next == 'p' ? std::to_string(::getpid()) : "%";
    ++i;
  }
  return path;
}

}  // namespace

SubsystemList parseSubsystems(std::string_view text) {
  SubsystemList list;
  const bool inverted = text.starts_with('^');
  if (inverted) text.remove_prefix(1);
  uint32_t bits = 0;
  bool named = false;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word.empty()) continue;
    const Word* const found = findSubsystem(word);
    if (found) bits |= found->bits;
    if (!found) list.unknown.emplace_back(word);
    named |= found != nullptr;
  }
  list.bits = inverted ? ~bits : named ? bits : kDefaultSubsystems;
  return list;
}

std::optional<DebugLevel> parseDebugLevel(const std::string& word) {
  static constexpr std::array kWords{"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
  for (size_t i = 0; i < kWords.size(); ++i)
    if (::strcasecmp(word.c_str(), kWords[i]) == 0) return static_cast<DebugLevel>(i);
  return std::nullopt;
}

DebugLog& DebugLog::ofProcess() {
  static auto* const instance = new DebugLog;  // threads may log until the very end
  return *instance;
}

DebugLog::DebugLog() {
  base::freeInForkedChildren(mutex_);
  reset();
}

void DebugLog::reset() {
  const std::string pattern = variable("NCCL_DEBUG_FILE");
  std::string refused;
  {
    std::lock_guard lock(mutex_);
    if (file_ != stdout) std::fclose(file_);
    file_ = stdout;
    level_ = parseDebugLevel(variable("NCCL_DEBUG")).value_or(DebugLevel::None);
    subsystems_ = parseSubsystems(variable("NCCL_DEBUG_SUBSYS")).bits;
    if (level_.load() > DebugLevel::Version && !pattern.empty()) {
      const std::string path = expand(pattern);
      if (std::FILE* opened = std::fopen(path.c_str(), "we"))
        file_ = opened;
      else
        refused = base::message("NCCL_DEBUG_FILE: ", path, ": ", std::strerror(errno),
                                "; lines go to standard output");
    }
  }
  takeOverLibraryLog();
  if (!refused.empty()) warn(refused);
}

// Who asks for NCCL's lines gets everything in them; who does not, what TUTTI_LOG says.
void DebugLog::takeOverLibraryLog() {
  if (!shows(DebugLevel::Warn)) return setLogSink({});
  setLogSink([this](LogLevel level, std::string_view line) {
    if (level >= LogLevel::Warning)
      warn(std::string(line));
    else if (level == LogLevel::Info)
      info(Subsystem::Init, line);
    else if (shows(DebugLevel::Trace))
      write("NCCL TRACE " + std::string(line));
  });
}

void DebugLog::write(const std::string& text) {
  static const auto* const host =
      new std::string(hostName());  // threads may log until the very end
  // There is one device, the host.
  const std::string line =
      base::message(*host, ":", ::getpid(), ":", ::gettid(), " [0] ", text, "\n");
  std::lock_guard lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

void DebugLog::version(const std::string& text) {
  if (!shows(DebugLevel::Version)) return;
  std::lock_guard lock(mutex_);
  std::fprintf(file_, "%s\n", text.c_str());
  std::fflush(file_);
}

void DebugLog::failure(const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    lastFailure_ = text;
  }
  warn(text);
}

std::string DebugLog::lastFailure() const {
  std::lock_guard lock(mutex_);
  return lastFailure_;
}

}  // namespace tutti::nccl
