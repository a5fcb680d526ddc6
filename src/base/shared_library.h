#pragma once

// A shared library that is looked for when the program runs: what may be missing on a machine
// without keeping the program from starting.

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string>

namespace tutti::base {

/// Stays loaded to the end of the process, for libraries of devices start threads of their own.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* file) : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_) return;
    const char* const why = ::dlerror();
    missing_ = why ? why : file;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  /// Why there is none, in the words of the dynamic linker.
  const std::string& missing() const { return missing_; }

  /// The name of its file, links followed: "libibverbs.so.1.14.44.0". Empty when there is none.
  std::string file() const {
    const link_map* map = nullptr;
    if (!handle_ || ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return {};
    std::error_code none;
    return std::filesystem::canonical(map->l_name, none).filename();
  }

  /// Sets `function` to what the library calls `name`; false, and null, when it has no such thing.
  template <class F>
  bool find(const char* name, F*& function) const {
    function = handle_ ? reinterpret_cast<F*>(::dlsym(handle_, name)) : nullptr;
    return function != nullptr;
  }

 private:
  void* handle_;
  std::string missing_;
};

}  // namespace tutti::base
