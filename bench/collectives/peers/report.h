#pragma once

// What people read of a comparison: tables, what is slower than a peer, and a picture.

#include "bench/collectives/peers/contenders.h"
#include "bench/collectives/peers/row.h"

namespace tutti::bench {

/// What it ran with, and a table of Markdown for each collective and number of ranks.
std::string tables(const Contest& contest, const std::vector<Contender>& contenders);

/// A line for each row and kind of memory in which a peer is faster, its whole interval below 1:
/// of those the one with the least ratio. And a line for each contender that has no result, with
/// the reason.
std::string slowerThanAPeer(const Contest& contest);
std::string withoutResult(const Contest& contest);

/// The best peer's time over Tutti's by size, a panel for each collective, as SVG.
std::string picture(const Contest& contest);

}  // namespace tutti::bench
