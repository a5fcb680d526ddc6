#pragma once

// Products of sharded matrices as a picture: which rank has which block of each matrix, and which
// collectives there are before and after the multiplication.

#include <string>
#include <vector>

#include "parallel/sharding/product_options.h"

namespace tutti::parallel {

struct DrawnProduct {
  Product product;  ///< as it was asked for
  Sizes sizes;
  Derivation way;
};

/// An SVG document: a row for each product, from the operands as they are given to the result as it
/// is wanted. A matrix has a rectangle for each block, of the colour of the first rank that has it
/// and with the numbers of all of them; of a sum over ranks one for each summand. An arrow between
/// two matrices has the collective and what a rank sends. Elements are of `elementBytes`. Throws
/// InvalidArgument for more ranks than requireDrawable() takes.
std::string matmulSvg(const std::vector<DrawnProduct>& products, const LetteredMesh& mesh,
                      size_t elementBytes);

}  // namespace tutti::parallel
