#pragma once

// What is known of the versions of UCX: each fault that the transport works around, the versions
// that have it, and what is done. The one place that says so.

#include <compare>
#include <iosfwd>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti::transports::ucx {

struct UcxVersion {
  unsigned major = 0, minor = 0, release = 0;
  auto operator<=>(const UcxVersion&) const = default;
};
std::ostream& operator<<(std::ostream& out, const UcxVersion& version);  ///< "1.13.1"
/// The number that a text begins with: "1.13.1-rc2"; nothing where it begins with none.
std::optional<UcxVersion> parseUcxVersion(std::string_view text);

enum class Quirk {
  ShortSettingNames,
  AbortsOnHalfSentMessage,
  AbortsWithoutDescriptors,
  AbortsOnHalfMadeConnections,
  RepeatsItsLastWord,
  AbortsOnUnreachableAnswer,
  CallsMissingHandlers,
  AbortsOnImpatience,
};

struct KnownQuirk {
  Quirk quirk;
  const char* name;
  const char* fault;    ///< a clause about UCX: "it ends the process when ..."
  const char* measure;  ///< what the transport does about it
  UcxVersion mended;    ///< the first version that was seen without it; 0.0.0: none was
};

/// All of them, in the order of `Quirk`.
std::span<const KnownQuirk> knownQuirks();
/// Versions that nobody has tested count as those before them.
bool has(const UcxVersion& version, Quirk quirk);
std::vector<KnownQuirk> quirksOf(const UcxVersion& version);

}  // namespace tutti::transports::ucx
