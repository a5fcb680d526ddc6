#pragma once

/// \file
/// Memory of elements, as the arguments of a call name it. A buffer is made of what the program
/// has, and knows as much of it as the program does:
///
/// - `T*`: the type of the elements. The call sets `count`.
/// - `std::span<T>` and what converts to it, as `std::vector<T>`: the type and how many there are.
/// - `{T*, count}`: the same.
/// - `void*`, `std::byte*`, `char*`: neither. The call sets `type` and `count`.
/// - A span of `std::byte` or `char`; `{void*, bytes}`: how many bytes. The call sets `type`.
///
/// Memory of other types, as bool, long double or a class, does not compile; nor does
/// std::vector<bool>, whose elements are bits. If the elements are something else than their C++
/// type says, cast the pointer to `void*` and set the call's `type`. A buffer is a value and owns
/// nothing. It is null by default.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus > 202002L && __has_include(<stdfloat>)
#include <stdfloat>
#endif

#include <tutti/types.h>

namespace tutti {

/// Bytes per element, in the order of DataType; sizeOf() checks its argument.
inline constexpr std::array<uint8_t, kDataTypeCount> kDataTypeBytes{1, 1, 2, 2, 4, 4, 8,
                                                                    8, 2, 2, 4, 8, 1, 1};

/// The DataType of elements of type T, as `value`; without `value` there is none. Specialise it for
/// a type of yours:
///
///     template <>
///     struct tutti::ElementType<my::Half> : tutti::ElementIs<tutti::DataType::Float16> {};
///
/// tutti/cuda/element_types.h does it for CUDA's types.
template <class T>
struct ElementType {};

/// What specialisations of ElementType derive from.
template <DataType type>
using ElementIs = std::integral_constant<DataType, type>;

// clang-format off
template <> struct ElementType<signed char> : ElementIs<DataType::Int8> {};
template <> struct ElementType<unsigned char> : ElementIs<DataType::UInt8> {};
template <> struct ElementType<short> : ElementIs<DataType::Int16> {};
template <> struct ElementType<unsigned short> : ElementIs<DataType::UInt16> {};
template <> struct ElementType<int> : ElementIs<DataType::Int32> {};
template <> struct ElementType<unsigned> : ElementIs<DataType::UInt32> {};
template <> struct ElementType<long> : ElementIs<DataType::Int64> {};
template <> struct ElementType<unsigned long> : ElementIs<DataType::UInt64> {};
template <> struct ElementType<long long> : ElementIs<DataType::Int64> {};
template <> struct ElementType<unsigned long long> : ElementIs<DataType::UInt64> {};
template <> struct ElementType<float> : ElementIs<DataType::Float32> {};
template <> struct ElementType<double> : ElementIs<DataType::Float64> {};
#ifdef __STDCPP_FLOAT16_T__
template <> struct ElementType<std::float16_t> : ElementIs<DataType::Float16> {};
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <> struct ElementType<std::bfloat16_t> : ElementIs<DataType::BFloat16> {};
#endif
// clang-format on

/// Elements of type T, const or not, have a DataType.
template <class T>
concept TypedElement = requires {
  ElementType<std::remove_const_t<T>>::value;
};

template <class T>
inline constexpr bool kIsRawMemory = std::is_same_v<T, std::byte> || std::is_same_v<T, char>;
/// Memory of type T, const or not, holds elements of a type that only the call says.
template <class T>
concept UntypedElement = std::is_void_v<T> || kIsRawMemory<std::remove_const_t<T>>;

template <class T>
concept BufferElement = TypedElement<T> || UntypedElement<T>;

/// What From points to, or is a span of; std::false_type, which is no element, if it does neither.
/// std::vector<bool> is no span, and named as what it seems to be.
template <class From>
auto elementOf() {
  if constexpr (std::is_same_v<std::remove_cvref_t<From>, std::vector<bool>>)
    return std::type_identity<bool>();
  else if constexpr (std::is_pointer_v<std::remove_cvref_t<From>>)
    return std::type_identity<std::remove_pointer_t<std::remove_cvref_t<From>>>();
  else if constexpr (requires(From && from) { std::span(static_cast<From&&>(from)); })
    return std::type_identity<typename decltype(std::span(std::declval<From>()))::element_type>();
  else
    return std::type_identity<std::false_type>();
}
template <class From>
using ElementOf = typename decltype(elementOf<From>())::type;

/// A pointer to elements, or a span of them.
template <class From>
concept ReadableMemory = BufferElement<ElementOf<From>>;
template <class From>
concept WritableMemory = ReadableMemory<From> && !std::is_const_v<ElementOf<From>>;
template <class From>
concept IsMemory = !std::is_same_v<ElementOf<From>, std::false_type>;

/// Memory that a call reads.
class ConstBuffer {
 public:
  constexpr ConstBuffer() = default;
  constexpr ConstBuffer(std::nullptr_t) {}
  template <ReadableMemory From>
  constexpr ConstBuffer(From&& from) : type_(typeOf<ElementOf<From>>()) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<From>>) {
      data_ = from;
    } else {
      const std::span span(static_cast<From&&>(from));
      data_ = span.data();
      bytes_ = span.size_bytes();
    }
  }
  /// The elements have no DataType: bool, long double or a class without ElementType, for example.
  template <IsMemory From>
  requires(!ReadableMemory<From>) ConstBuffer(From&& noDataTypeForTheseElements)
  = delete;
  /// `count` elements; bytes, if the memory has no type.
  template <BufferElement T>
  constexpr ConstBuffer(T* data, size_t count)
      : data_(data), bytes_(bytesOf<T>(count)), type_(typeOf<T>()) {}

  constexpr const void* data() const { return data_; }
  /// Of the elements, if it is known.
  constexpr std::optional<DataType> type() const { return type_; }
  /// How many bytes there are, if it is known.
  constexpr std::optional<size_t> bytes() const {
    return bytes_ == kUnknown ? std::nullopt : std::optional(bytes_);
  }

 private:
  static constexpr size_t kUnknown = std::numeric_limits<size_t>::max();

  template <class T>
  static constexpr std::optional<DataType> typeOf() {
    if constexpr (TypedElement<T>) {
      constexpr DataType type = ElementType<std::remove_const_t<T>>::value;
      static_assert(sizeof(T) == kDataTypeBytes[static_cast<size_t>(type)],
                    "ElementType<T> names a DataType of another size than T");
      return type;
    } else {
      return std::nullopt;
    }
  }
  // More than can be is one less than unknown, which no memory has either.
  template <class T>
  static constexpr size_t bytesOf(size_t count) {
    size_t each = 1;
    if constexpr (!std::is_void_v<T>) each = sizeof(T);
    return count > (kUnknown - 1) / each ? kUnknown - 1 : count * each;
  }

  const void* data_ = nullptr;
  size_t bytes_ = kUnknown;
  std::optional<DataType> type_;
};

/// Memory that a call writes. It is made as a ConstBuffer is, of memory that is not const.
class MutableBuffer : public ConstBuffer {
 public:
  constexpr MutableBuffer() = default;
  constexpr MutableBuffer(std::nullptr_t) {}
  template <WritableMemory From>
  constexpr MutableBuffer(From&& from) : ConstBuffer(static_cast<From&&>(from)) {}
  /// The elements have no DataType, or are const.
  template <IsMemory From>
  requires(!WritableMemory<From>) MutableBuffer(From&& constOrNoDataTypeForTheseElements)
  = delete;
  /// `count` elements; bytes, if the memory has no type.
  template <BufferElement T>
  requires(!std::is_const_v<T>) constexpr MutableBuffer(T* data, size_t count)
      : ConstBuffer(data, count) {}

  constexpr void* data() const { return const_cast<void*>(ConstBuffer::data()); }
};

}  // namespace tutti
