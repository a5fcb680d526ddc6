#pragma once

// How a tensor lies on the device mesh: per dimension an ordered list of mesh axes, outermost
// first, that split it, and the set of axes over which its value is a partial sum. An axis that is
// not named is one over which the tensor is replicated. The notation A[I, J_x] {U_y} is {dims =
// {{}, {x}}, partial = {y}}.

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tutti::parallel {

/// The axes of the mesh, outermost (furthest ranks apart) first. Tensor and Rep are both tensor
/// parallelism: ranks that differ along Rep alone have the same heads of keys and values.
enum class Axis : uint8_t { Pipeline, Data, Fsdp, Context, Expert, Tensor, Rep };
inline constexpr int kAxisCount = 7;

/// "pp", "dp", "fsdp", "cp", "ep", "tp", "rep": the names on command lines and in messages.
const char* toString(Axis axis);

/// A set of axes, as a bit mask.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes) insert(axis);
  }
  constexpr void insert(Axis axis) { bits_ |= bit(axis); }
  constexpr void remove(Axis axis) { bits_ = uint8_t(bits_ & ~bit(axis)); }
  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  /// Those that are not in `others`.
  constexpr AxisSet without(AxisSet others) const {
    others.bits_ = uint8_t(bits_ & ~others.bits_);
    return others;
  }
  static constexpr AxisSet all() {
    AxisSet axes;
    for (int i = 0; i < kAxisCount; ++i) axes.insert(static_cast<Axis>(i));
    return axes;
  }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  constexpr auto operator<=>(const AxisSet&) const = default;  ///< an order, of no meaning
  std::string describe() const;                                ///< "{dp,tp}"

 private:
  static constexpr uint8_t bit(Axis axis) { return uint8_t(1u << static_cast<int>(axis)); }
  uint8_t bits_ = 0;
};

/// The axes of tensor parallelism.
inline constexpr AxisSet kTensorAxes{Axis::Tensor, Axis::Rep};
/// Axes along which ranks see other tokens, whatever the store shares out: of a weight that is not
/// cut over one of them each rank has a summand of the gradient.
inline constexpr AxisSet kTokenAxes{Axis::Context, Axis::Expert};

/// An ordered list of at most four axes that split one dimension.
class AxisList {
 public:
  static constexpr int kMostAxes = 4;
  constexpr AxisList() = default;
  AxisList(std::initializer_list<Axis> axes);
  constexpr int size() const { return size_; }
  constexpr Axis operator[](int i) const { return axes_[static_cast<size_t>(i)]; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr Axis innermost() const { return axes_[size_ - 1U]; }  ///< of a list that is not empty
  constexpr const Axis* begin() const { return axes_.data(); }
  constexpr const Axis* end() const { return axes_.data() + size_; }
  /// Before the axis that is at `place` now, so that insert(size(), axis) makes it the innermost.
  /// Throws InvalidArgument beyond four axes.
  void insert(int place, Axis axis);
  void append(Axis axis) { insert(size_, axis); }  ///< as the innermost
  void removeInnermost();                          ///< of a list that is not empty
  auto operator<=>(const AxisList&) const = default;

 private:
  std::array<Axis, kMostAxes> axes_{};  // those beyond size_ are Axis{}
  uint8_t size_ = 0;
};

inline constexpr int kMaxDims = 4;

struct Layout {
  std::array<AxisList, kMaxDims> dims{};
  AxisSet partial;

  bool replicated() const { return *this == Layout{}; }
  /// All axes that are named.
  AxisSet axes() const;
  auto operator<=>(const Layout&) const = default;
  std::string describe(int rank) const;  ///< "[_, tp] {dp}" for a tensor of `rank` dimensions
};

}  // namespace tutti::parallel
