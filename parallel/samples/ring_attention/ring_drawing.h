#pragma once

// The ring of ring_attention as a picture: whose keys and values each rank has in each step, and
// which of its queries see some of them.

#include <string>

#include "parallel/sharding/sequence_cut.h"

namespace tutti::parallel {

/// An SVG document: a row for each rank, a column for each step. A cell has a bar of the colour of
/// the rank whose keys and values are there, and a square for each pair of a piece of queries and a
/// piece of keys: computed, computed up to the diagonal, or skipped by the causal mask. Throws
/// InvalidArgument for more ranks than requireDrawable() takes.
std::string ringSvg(const SequenceCut& cut);

}  // namespace tutti::parallel
