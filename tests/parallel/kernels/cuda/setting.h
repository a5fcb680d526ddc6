#pragma once

// Variables of the environment that are read where kernels are made.

#include <cstdlib>
#include <optional>
#include <string>

namespace tutti::parallel {

/// Sets a variable of the environment as long as it lives; then it is as it was.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Setting() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace tutti::parallel
