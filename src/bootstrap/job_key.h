#pragma once

// The job's secret out of TUTTI_JOB_KEY, and how hard that is to guess. Whoever connects to the
// rendezvous hears a proof of the secret and may guess keys offline, so each guess must be dear,
// unless the key is random.

#include <string>

#include "src/wire/secrets.h"

namespace tutti::bootstrap {

/// Of a guess at a key that people type, and of each rank's start.
inline constexpr wire::StretchCost kGuessCost{.bytes = size_t{32} << 20, .passes = 2};

/// What the text of a key says of it; the same on all ranks.
enum class KeyStrength {
  Refused,  ///< shorter than 16 characters, or of fewer than 4 different ones
  Weak,     ///< words, repetitions and sequences: a warning is due
  Typed,    ///< may be guessed where a guess is cheap
  Random,   ///< 128 bits and more in hexadecimal digits or base64
};
KeyStrength strengthOf(const std::string& key);

/// Throws InvalidArgument where the key is refused. Rank 0 alone warns where it is weak.
void requireJobKey(const std::string& key, int rank);

/// The secret that all ranks derive: by Argon2id, unless the key is random. `place` is what all
/// ranks know in public: it makes the work of guessing good for one rendezvous alone. Throws
/// OutOfMemory.
wire::Key secretOfKey(const std::string& key, const std::string& place);

}  // namespace tutti::bootstrap
