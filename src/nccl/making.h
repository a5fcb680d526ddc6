#pragma once

// Making communicators: one by the calling thread, those of a group by a thread each, those with
// blocking = 0 by threads that nobody waits for.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "src/nccl/comm.h"

namespace tutti::nccl {

/// One communicator to be made. Its handle is the caller's from the beginning.
struct Making {
  const char* function = "";                 ///< that was called, for log lines
  std::shared_ptr<Comm> comm;                ///< null: this rank only takes part
  std::shared_ptr<Comm::Parenthood> parent;  ///< null: it has none
  std::function<std::optional<Communicator>()> make;
  /// Of one that is made by a unique id.
  struct Seat {
    UniqueId id;
    int rank = 0, size = 1;
  };
  std::optional<Seat> seat = {};
  ncclComm_t* out = nullptr;  ///< null: the handle was there before
  ncclComm_t handle = nullptr;
  bool blocking = true;
};

/// Checked arguments. Each throws InvalidArgument; then nothing has begun.
Making makeOfId(const char* function, ncclComm_t* out, int size, const ncclUniqueId& id, int rank,
                const ncclConfig_t* config);
Making makeBySplit(ncclComm_t parent, int color, int key, ncclComm_t* out,
                   const ncclConfig_t* config);
Making makeByShrink(ncclComm_t parent, const int* excluded, int excludedCount, ncclComm_t* out,
                    const ncclConfig_t* config, int flags);
/// Of a rank of `parent`; `id` on the one that has made it, else null.
Making makeByGrow(ncclComm_t parent, int size, const ncclUniqueId* id, ncclComm_t* out,
                  const ncclConfig_t* config);

Making makeByResume(ncclComm_t comm);

/// All ranks of a world in this process, with these device numbers. Throws; then there is none.
void makeAll(ncclComm_t* out, const std::vector<int>& devices);

/// Gives up the handle of one that will not be made.
void takeBack(const Making& making);

/// Makes them all at the same time. Success, or ncclInProgress when some were not to be waited for.
/// Throws the first failure among the others; then no handle is left. One that fails ends the
/// making of all.
ncclResult_t run(std::vector<Making> makings);

}  // namespace tutti::nccl
