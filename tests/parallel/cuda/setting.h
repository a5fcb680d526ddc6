#pragma once

// Variables of the environment that are read where kernels are made.

#include <cstdlib>

namespace tutti::parallel {

/// Sets a variable of the environment as long as it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
};

}  // namespace tutti::parallel
