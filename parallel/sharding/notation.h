#pragma once

// Tensors and products of two in index notation. A capital letter is an index, small letters behind
// it are the mesh axes that split it, outermost first; {Ux} says that values are summands over x.
//
//   A[I,Jx] B[Jx,K] -> C[I,K]      C is the sum of A times B over J, both split in J by x
//   C[Ixy,K]{Uz}                   I is split by x, each part by y; ranks along z have summands

#include <string>

#include "parallel/tensor/layout.h"

namespace tutti::parallel {

/// A tensor by its indices.
struct Term {
  std::string name;
  std::string indices;  ///< a capital letter for each dimension, none of them twice
  Layout layout;
  bool operator==(const Term&) const = default;

  /// The dimension of `index`, or -1.
  int dimensionOf(char index) const;
  /// The index that `axis` splits; 0: none.
  char indexSplitBy(Axis axis) const;
  /// The axes that split `index`; none where the tensor does not have it.
  const AxisList& axesOf(char index) const;
};

/// c is the product of a and b, summed over the indices that c does not have.
struct Product {
  Term a, b, c;
  bool operator==(const Product&) const = default;
};

/// Axes by their letters: the n-th letter is the n-th Axis.
class AxisLetters {
 public:
  /// Throws InvalidArgument for more than kAxisCount letters, one that is not small, and one twice.
  explicit AxisLetters(const std::string& letters);
  char operator[](Axis axis) const { return letters_[static_cast<size_t>(axis)]; }
  const std::string& all() const { return letters_; }

 private:
  std::string letters_;
};

inline constexpr size_t kLongestProduct = 256, kLongestName = 16;

/// Throws InvalidArgument saying where `text` is not what was expected, for an axis that is not
/// among the letters, an index twice in one tensor or in A or B alone, an index of C that neither A
/// nor B has, an axis twice in one tensor, and more than kLongestProduct characters.
Product parseProduct(const std::string& text, const AxisLetters& letters);

/// "C[I,Kx]{Uy}", and the same without the name.
std::string describe(const Term& term, const AxisLetters& letters);
std::string describeLayout(const Term& term, const AxisLetters& letters);
/// "A[I,Jx] B[Jx,K] -> C[I,K]".
std::string describe(const Product& product, const AxisLetters& letters);

}  // namespace tutti::parallel
