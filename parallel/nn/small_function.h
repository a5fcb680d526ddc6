#pragma once

// SmallFunction: a callable kept in place, so that deferring work allocates nothing. What it
// captures must be trivially copyable and fit: tensors are views, so they are.

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace tutti::parallel {

template <class Signature, size_t kBytes = 640>
class SmallFunction;

template <class Result, class... Args, size_t kBytes>
class SmallFunction<Result(Args...), kBytes> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, SmallFunction>)
      SmallFunction(F&& function) {  // implicit, as for std::function
    using Stored = std::remove_cvref_t<F>;
    static_assert(std::is_trivially_copyable_v<Stored> && sizeof(Stored) <= kBytes);
    ::new (static_cast<void*>(bytes_)) Stored(std::forward<F>(function));
    call_ = [](void* stored, Args... args) -> Result {
      return (*std::launder(static_cast<Stored*>(stored)))(std::forward<Args>(args)...);
    };
  }
  Result operator()(Args... args) { return call_(bytes_, std::forward<Args>(args)...); }

 private:
  alignas(std::max_align_t) std::byte bytes_[kBytes];
  Result (*call_)(void*, Args...);
};

}  // namespace tutti::parallel
