// ncclPutSignal, ncclSignal, ncclWaitSignal.

#include <vector>

#include <tutti/communicator.h>

#include "src/base/check.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/entry.h"
#include "src/nccl/gpu_calls.h"
#include "src/nccl/group.h"
#include "src/nccl/handles.h"
#include "src/nccl/reductions.h"
#include "src/nccl/windows.h"

using namespace tutti::nccl;
using namespace tutti;

namespace {

void start(Communicator& c, const PutArgs& args, StreamRef to) { c.put(args, to); }
void start(Communicator& c, const SignalArgs& args, StreamRef to) { c.signal(args, to); }
void start(Communicator& c, const WaitSignalsArgs& args, StreamRef to) { c.waitSignals(args, to); }

/// Now, or at the end of the group.
template <class Args>
ncclResult_t make(const std::shared_ptr<Comm>& comm, const Args& args, StreamRef stream) {
  const Comm::Use use(comm);
  nccl::NcclGroup& group = nccl::NcclGroup::ofThread();
  if (group.open()) {
    group.add({comm, use.communicator().prepare(args), stream});
    return ncclSuccess;
  }
  return Comm::make({&use, 1},
                    [&] { start(use.communicator(), args, stream ? stream : use.stream()); });
}

/// The signals of all contexts have numbers of one kind here.
int signalOf(const Comm& comm, int sigIdx, int ctx) {
  const NcclConfig& config = comm.facts().config;
  TUTTI_REQUIRE(
      config.rmaSignals > 0 && config.rmaContexts > 0,
      "the config's numRmaSig or numRmaCtx is 0: one-sided calls need at least 1 of each");
  TUTTI_REQUIRE(sigIdx >= 0 && sigIdx < config.rmaSignals, "sigIdx is ", sigIdx, ", not 0 to ",
                config.rmaSignals - 1, ": the config's numRmaSig");
  TUTTI_REQUIRE(ctx >= 0 && ctx < config.rmaContexts, "ctx is ", ctx, ", not 0 to ",
                config.rmaContexts - 1, ": the config's numRmaCtx");
  return ctx * config.rmaSignals + sigIdx;
}

void requireNoFlags(unsigned flags) { TUTTI_REQUIRE(flags == 0, "flags is ", flags, ", not 0"); }

}  // namespace

ncclResult_t pncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  return guardInGroup("ncclPutSignal", [&] {
    const auto found = NcclHandles::ofProcess().find(comm);
    requireNoFlags(flags);
    const int signal = signalOf(*found, sigIdx, ctx);
    const auto window = WindowHandles::ofProcess().find(peerWin, comm);
    const StreamRef to = streamFor(found->facts().place, stream, {localbuff});
    DebugLog::ofProcess().info(Subsystem::P2p, "ncclPutSignal: comm ", comm, " count ", count,
                               " datatype ", toString(dataTypeOf(datatype)), " localbuff ",
                               localbuff, " peer ", peer, " offset ", peerWinOffset);
    return make(found,
                PutArgs{.send = localbuff,
                        .count = count,
                        .type = dataTypeOf(datatype),
                        .peer = peer,
                        .window = &window->window,
                        .offset = peerWinOffset,
                        .signal = signal},
                to);
  });
}
TUTTI_NCCL_NAME(ncclPutSignal);

ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         cudaStream_t stream) {
  return guardInGroup("ncclSignal", [&] {
    const auto found = NcclHandles::ofProcess().find(comm);
    requireNoFlags(flags);
    const SignalArgs args{.peer = peer, .signal = signalOf(*found, sigIdx, ctx)};
    return make(found, args, streamFor(found->facts().place, stream, {}));
  });
}
TUTTI_NCCL_NAME(ncclSignal);

ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                             cudaStream_t stream) {
  return guardInGroup("ncclWaitSignal", [&] {
    const auto found = NcclHandles::ofProcess().find(comm);
    TUTTI_REQUIRE(nDesc >= 0 && (nDesc == 0 || signalDescs), "nDesc is ", nDesc,
                  " and signalDescs ", static_cast<const void*>(signalDescs));
    std::vector<AwaitedSignals> signals;
    for (int i = 0; i < nDesc; ++i) {
      const ncclWaitSignalDesc_t& d = signalDescs[i];
      TUTTI_REQUIRE(d.opCnt >= 0, "opCnt of signalDescs[", i, "] is ", d.opCnt);
      signals.push_back({.peer = d.peer,
                         .signal = signalOf(*found, d.sigIdx, d.ctx),
                         .count = static_cast<uint64_t>(d.opCnt)});
    }
    return make(found, WaitSignalsArgs{signals}, streamFor(found->facts().place, stream, {}));
  });
}
TUTTI_NCCL_NAME(ncclWaitSignal);
