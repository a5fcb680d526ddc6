#include "src/base/printable.h"

namespace tutti::base {

std::string printable(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    // U+0080 to U+009F; some terminals take U+009B for the start of a command.
    const bool wide = byte(at) == 0xC2 && at + 1 < text.size() && (byte(at + 1) & 0xE0) == 0x80;
    const bool control = wide || byte(at) < 0x20 || byte(at) == 0x7F;
    shown += control ? '?' : text[at];
    at += wide ? 1 : 0;
  }
  return shown;
}

}  // namespace tutti::base
