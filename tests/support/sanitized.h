#pragma once

namespace tutti::tests {

/// This build has AddressSanitizer or ThreadSanitizer: calls take several times as long, and fewer
/// of them show all that a sanitizer can see.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// This one has ThreadSanitizer.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace tutti::tests
