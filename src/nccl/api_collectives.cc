// The collectives, sends and receives, and reductions of the program's own.

#include <algorithm>
#include <type_traits>

#include "src/base/check.h"
#include "src/device/cuda.h"
#include "src/nccl/config.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/device_pointers.h"
#include "src/nccl/entry.h"
#include "src/nccl/gpu_calls.h"
#include "src/nccl/group.h"
#include "src/nccl/handles.h"
#include "src/nccl/reductions.h"

using namespace tutti::nccl;
using namespace tutti;

namespace {

// A call of Tutti's, by the type of its arguments.
#define TUTTI_NCCL_START(Args, method)                                     \
  void start(Communicator& communicator, const Args& args, StreamRef to) { \
    communicator.method(args, to);                                         \
  }
TUTTI_NCCL_START(AllReduceArgs, allReduce)
TUTTI_NCCL_START(ReduceArgs, reduce)
TUTTI_NCCL_START(BroadcastArgs, broadcast)
TUTTI_NCCL_START(AllGatherArgs, allGather)
TUTTI_NCCL_START(ReduceScatterArgs, reduceScatter)
TUTTI_NCCL_START(AllToAllArgs, allToAll)
TUTTI_NCCL_START(GatherArgs, gather)
TUTTI_NCCL_START(ScatterArgs, scatter)
TUTTI_NCCL_START(SendArgs, send)
TUTTI_NCCL_START(ReceiveArgs, receive)
#undef TUTTI_NCCL_START

template <class Args>
constexpr bool kExchange = std::is_same_v<Args, SendArgs> || std::is_same_v<Args, ReceiveArgs>;

/// One call, from what all of them have in common.
class NcclCall {
 public:
  /// Throws InvalidArgument for what cannot be right of that.
  NcclCall(const char* name, ncclComm_t handle, cudaStream_t stream, const void* send,
           const void* recv, int type, const ncclCollConfig_t* config = nullptr)
      : name_(name),
        handle_(handle),
        comm_(NcclHandles::ofProcess().find(handle)),
        ncclType_(type),
        type_(dataTypeOf(type)),
        config_(readCallConfig(config)) {
    stream_ = streamFor(comm_->facts().place, stream, {send, recv});
    TUTTI_REQUIRE(stream_ || !config_.launched,
                  "the config has a launchCompletionEvent, which a call on host memory has not");
  }

  DataType type() const { return type_; }

  /// `args` with the reduction that `op` stands for.
  template <class Args>
  Args reducing(int op, Args args) const {
    const auto [known, scalar, scalarAt] = comm_->reductions().find(op, ncclType_);
    args.op = known;
    args.scalar = scalar;
    args.scalarAt = scalarAt;
    return args;
  }

  /// Now, or at the end of the group. A collective of nothing is nothing.
  template <class Args>
  ncclResult_t make(Args args) const {
    const Comm::Use use(comm_);
    check(args, use.communicator());
    log(args);
    if constexpr (!kExchange<Args>) {
      if (args.count == 0) return ncclSuccess;
      args.options = options();
    }
    nccl::NcclGroup& group = nccl::NcclGroup::ofThread();
    if (group.open()) {
      group.add({comm_, use.communicator().prepare(args), stream_, config_.launched});
      return ncclSuccess;
    }
    return Comm::make({&use, 1}, [&] {
      if (config_.launched) device::recordCudaEvent(config_.launched, stream_);
      start(use.communicator(), args, stream_ ? stream_ : use.stream());
    });
  }

 private:
  /// Tutti checks this too, but not of nothing.
  template <class Args>
  void check(const Args& args, const Communicator& communicator) const {
    if constexpr (requires { args.root; })
      TUTTI_REQUIRE(args.root >= 0 && args.root < communicator.size(), "root ", args.root,
                    " is not a rank of 0..", communicator.size() - 1);
  }

  CallOptions options() const {
    const int byPolicy = config_.policyBlocks.value_or(comm_->facts().config.policyBlocks);
    const int said = config_.maxBlocks;
    return {.algorithm = config_.algorithm.empty() ? nullptr : config_.algorithm.c_str(),
            .ifPossible = !config_.forced,
            .gpuBlocks = said && byPolicy ? std::min(said, byPolicy) : std::max(said, byPolicy)};
  }

  template <class Args>
  void log(const Args& args) const {
    DebugLog& to = DebugLog::ofProcess();
    const Subsystem about = kExchange<Args> ? Subsystem::P2p : Subsystem::Coll;
    if (!to.shows(about)) return;
    std::string text = base::message(name_, ": comm ", handle_, " count ", *args.count,
                                     " datatype ", toString(type_));
    if constexpr (requires { args.send; }) text += base::message(" sendbuff ", args.send.data());
    if constexpr (requires { args.recv; }) text += base::message(" recvbuff ", args.recv.data());
    if constexpr (requires { args.op; }) text += base::message(" op ", toString(args.op));
    if constexpr (requires { args.root; }) text += base::message(" root ", args.root);
    if constexpr (requires { args.peer; }) text += base::message(" peer ", args.peer);
    if (config_.tag != 0) text += base::message(" tag ", config_.tag);
    to.info(about, text);
  }

  const char* name_;
  ncclComm_t handle_;
  std::shared_ptr<Comm> comm_;
  int ncclType_;
  DataType type_;
  NcclCallConfig config_;
  StreamRef stream_;  // none on the host
};

}  // namespace

namespace {
ncclResult_t allReduce(const char* function, const void* sendbuff, void* recvbuff, size_t count,
                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                       cudaStream_t stream, const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("AllReduce", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(call.reducing(
        numberOf(op),
        AllReduceArgs{.send = sendbuff, .recv = recvbuff, .count = count, .type = call.type()}));
  });
}
}  // namespace

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream) {
  return allReduce("ncclAllReduce", sendbuff, recvbuff, count, datatype, op, comm, stream, nullptr);
}
TUTTI_NCCL_NAME(ncclAllReduce);

ncclResult_t pncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config) {
  return allReduce("ncclAllReduceConfig", sendbuff, recvbuff, count, datatype, op, comm, stream,
                   config);
}
TUTTI_NCCL_NAME(ncclAllReduceConfig);

namespace {
ncclResult_t reduce(const char* function, const void* sendbuff, void* recvbuff, size_t count,
                    ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                    cudaStream_t stream, const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("Reduce", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(call.reducing(numberOf(op), ReduceArgs{.send = sendbuff,
                                                            .recv = recvbuff,
                                                            .count = count,
                                                            .type = call.type(),
                                                            .root = root}));
  });
}
}  // namespace

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  return reduce("ncclReduce", sendbuff, recvbuff, count, datatype, op, root, comm, stream, nullptr);
}
TUTTI_NCCL_NAME(ncclReduce);

ncclResult_t pncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config) {
  return reduce("ncclReduceConfig", sendbuff, recvbuff, count, datatype, op, root, comm, stream,
                config);
}
TUTTI_NCCL_NAME(ncclReduceConfig);

namespace {
ncclResult_t reduceScatter(const char* function, const void* sendbuff, void* recvbuff,
                           size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("ReduceScatter", comm, stream, sendbuff, recvbuff, numberOf(datatype),
                        config);
    return call.make(call.reducing(
        numberOf(op),
        ReduceScatterArgs{
            .send = sendbuff, .recv = recvbuff, .count = recvcount, .type = call.type()}));
  });
}
}  // namespace

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream) {
  return reduceScatter("ncclReduceScatter", sendbuff, recvbuff, recvcount, datatype, op, comm,
                       stream, nullptr);
}
TUTTI_NCCL_NAME(ncclReduceScatter);

ncclResult_t pncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t* config) {
  return reduceScatter("ncclReduceScatterConfig", sendbuff, recvbuff, recvcount, datatype, op, comm,
                       stream, config);
}
TUTTI_NCCL_NAME(ncclReduceScatterConfig);

namespace {
ncclResult_t broadcast(const char* function, const void* sendbuff, void* recvbuff, size_t count,
                       ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                       const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("Broadcast", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(BroadcastArgs{
        .send = sendbuff, .recv = recvbuff, .count = count, .type = call.type(), .root = root});
  });
}
}  // namespace

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  return broadcast("ncclBroadcast", sendbuff, recvbuff, count, datatype, root, comm, stream,
                   nullptr);
}
TUTTI_NCCL_NAME(ncclBroadcast);

ncclResult_t pncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, int root, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config) {
  return broadcast("ncclBroadcastConfig", sendbuff, recvbuff, count, datatype, root, comm, stream,
                   config);
}
TUTTI_NCCL_NAME(ncclBroadcastConfig);

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return pncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}
TUTTI_NCCL_NAME(ncclBcast);

namespace {
ncclResult_t allGather(const char* function, const void* sendbuff, void* recvbuff, size_t sendcount,
                       ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                       const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("AllGather", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(
        AllGatherArgs{.send = sendbuff, .recv = recvbuff, .count = sendcount, .type = call.type()});
  });
}
}  // namespace

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return allGather("ncclAllGather", sendbuff, recvbuff, sendcount, datatype, comm, stream, nullptr);
}
TUTTI_NCCL_NAME(ncclAllGather);

ncclResult_t pncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  return allGather("ncclAllGatherConfig", sendbuff, recvbuff, sendcount, datatype, comm, stream,
                   config);
}
TUTTI_NCCL_NAME(ncclAllGatherConfig);

namespace {
ncclResult_t alltoAll(const char* function, const void* sendbuff, void* recvbuff, size_t count,
                      ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                      const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("AlltoAll", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(
        AllToAllArgs{.send = sendbuff, .recv = recvbuff, .count = count, .type = call.type()});
  });
}
}  // namespace

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return alltoAll("ncclAlltoAll", sendbuff, recvbuff, count, datatype, comm, stream, nullptr);
}
TUTTI_NCCL_NAME(ncclAlltoAll);

ncclResult_t pncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config) {
  return alltoAll("ncclAlltoAllConfig", sendbuff, recvbuff, count, datatype, comm, stream, config);
}
TUTTI_NCCL_NAME(ncclAlltoAllConfig);

namespace {
ncclResult_t gather(const char* function, const void* sendbuff, void* recvbuff, size_t count,
                    ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                    const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("Gather", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(GatherArgs{
        .send = sendbuff, .recv = recvbuff, .count = count, .type = call.type(), .root = root});
  });
}
}  // namespace

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return gather("ncclGather", sendbuff, recvbuff, count, datatype, root, comm, stream, nullptr);
}
TUTTI_NCCL_NAME(ncclGather);

ncclResult_t pncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config) {
  return gather("ncclGatherConfig", sendbuff, recvbuff, count, datatype, root, comm, stream,
                config);
}
TUTTI_NCCL_NAME(ncclGatherConfig);

namespace {
ncclResult_t scatter(const char* function, const void* sendbuff, void* recvbuff, size_t count,
                     ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config) {
  return guardInGroup(function, [&] {
    const NcclCall call("Scatter", comm, stream, sendbuff, recvbuff, numberOf(datatype), config);
    return call.make(ScatterArgs{
        .send = sendbuff, .recv = recvbuff, .count = count, .type = call.type(), .root = root});
  });
}
}  // namespace

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return scatter("ncclScatter", sendbuff, recvbuff, count, datatype, root, comm, stream, nullptr);
}
TUTTI_NCCL_NAME(ncclScatter);

ncclResult_t pncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t* config) {
  return scatter("ncclScatterConfig", sendbuff, recvbuff, count, datatype, root, comm, stream,
                 config);
}
TUTTI_NCCL_NAME(ncclScatterConfig);

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return guardInGroup("ncclSend", [&] {
    const NcclCall call("Send", comm, stream, sendbuff, nullptr, numberOf(datatype));
    return call.make(SendArgs{.send = sendbuff, .count = count, .type = call.type(), .peer = peer});
  });
}
TUTTI_NCCL_NAME(ncclSend);

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return guardInGroup("ncclRecv", [&] {
    const NcclCall call("Recv", comm, stream, nullptr, recvbuff, numberOf(datatype));
    return call.make(
        ReceiveArgs{.recv = recvbuff, .count = count, .type = call.type(), .peer = peer});
  });
}
TUTTI_NCCL_NAME(ncclRecv);

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return guard("ncclRedOpCreatePreMulSum", [&] {
    TUTTI_REQUIRE(op, "op is null");
    const auto found = NcclHandles::ofProcess().find(comm);
    if (found->facts().place.kind == DeviceKind::Host) requireHostMemory({scalar});
    *op = found->reductions().addPreMulSum(scalar, numberOf(datatype), numberOf(residence));
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclRedOpCreatePreMulSum);

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guard("ncclRedOpDestroy", [&] {
    NcclHandles::ofProcess().find(comm)->reductions().remove(numberOf(op));
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclRedOpDestroy);
