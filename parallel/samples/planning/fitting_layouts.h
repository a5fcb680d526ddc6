#pragma once

// Which layouts suit a job and a model, and which of them are nearest to one that does not.

#include <string>
#include <vector>

#include "parallel/sharding/mesh_shape.h"

namespace tutti::parallel {

/// Ranks along each axis, as the flags of train_gpt say them: tp is both axes of tensor
/// parallelism.
struct LayoutFlags {
  int dp = 0, fsdp = 0;  ///< 0: as many as the others leave
  int tp = 1, pp = 1, cp = 1, ep = 1;

  std::string describe() const;  ///< "--dp 2 --tp 4"; "one rank" where there is no other
  bool operator==(const LayoutFlags&) const = default;
};

/// What a layout has to suit.
struct LayoutNeeds {
  int ranks = 0;                   ///< of the job; 0: as many as the layout has
  int64_t heads = 1, kvHeads = 1;  ///< of attention, of keys and values
  bool exchangesHeads = false;     ///< the ranks along cp do, of attention
  int stages = 1;                  ///< the most that the model's layers and the schedule allow
  int64_t experts = 0;             ///< that the ranks along ep share out; 0: none, for one of them
};

/// Whether tp, pp and ep suit the model, and all of them the number of ranks.
bool fits(const LayoutFlags& layout, const LayoutNeeds& needs);

/// At most `most` layouts that fit, the nearest first: those of which the fewest axes differ from
/// `wanted`, by the smallest factors; of axes that `wanted` has not only where nothing else fits.
/// What `wanted` leaves open takes the ranks that are left.
std::vector<LayoutFlags> nearestFitting(const LayoutFlags& wanted, const LayoutNeeds& needs,
                                        int most);

}  // namespace tutti::parallel
