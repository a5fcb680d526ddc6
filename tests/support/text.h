#pragma once

// What tests ask of texts.

#include <string>

namespace tutti::tests {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tutti::tests
