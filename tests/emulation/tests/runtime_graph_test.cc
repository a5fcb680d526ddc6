// Capture: what is recorded, what is refused meanwhile, and graphs that are built node by node.

#include <thread>

#include "tests/emulation/tests/runtime_graph.h"

namespace tutti::emulation {
namespace {

TEST_F(GraphTest, NothingRunsWhileItIsCaptured) {
  begin();
  cudaStreamCaptureStatus status{};
  EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  add(stream_, 3);
  EXPECT_CUDA(cudaMemsetAsync(data_ + 1, 1, sizeof(int), stream_));
  cudaGraph_t const graph = end();
  EXPECT_EQ(value(0), 0);
  EXPECT_EQ(value(1), 0);
  cudaGraphExec_t const exec = instantiate(graph);
  EXPECT_CUDA(cudaGraphDestroy(graph));
  for (int i = 0; i < 5; ++i) EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(0), 15);
  EXPECT_EQ(value(1), 0x01010101);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, ALaunchIsInTheOrderOfItsStream) {
  begin();
  EXPECT_CUDA(launch(doubleAndAdd, {.stream = stream_}, data_, 1, 1));
  cudaGraphExec_t const exec = instantiate(end());
  {
    Gate gate(stream_);
    EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
    EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = stream_}, data_, 1, 5));
    EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  }
  EXPECT_EQ(value(), 2 * (2 * 1 + 5) + 1);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, StreamsForkAndJoinByEvents) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const fork = makeEvent(), join = makeEvent();
  uint32_t* const flags = allocateZeros<uint32_t>(2);
  begin();
  EXPECT_CUDA(cudaMemsetAsync(flags, 0, 2 * sizeof(uint32_t), stream_));
  EXPECT_CUDA(cudaEventRecord(fork, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
  EXPECT_CUDA(launch(meet, {.stream = stream_}, flags, flags + 1, 1u));
  EXPECT_CUDA(launch(meet, {.stream = other}, flags + 1, flags, 1u));
  EXPECT_CUDA(cudaEventRecord(join, other));
  EXPECT_CUDA(cudaStreamWaitEvent(stream_, join, 0));
  add(stream_, 1);
  cudaGraph_t const graph = end();
  size_t count = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 4u);
  EXPECT_CUDA(cudaGraphGetRootNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 1u);
  cudaGraphExec_t const exec = instantiate(graph);
  for (int i = 0; i < 3; ++i) EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(), 3);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(GraphTest, UnjoinedStreamsAreRefused) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const fork = makeEvent();
  begin();
  EXPECT_CUDA(cudaEventRecord(fork, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
  add(other, 1);
  expectEnd(cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(value(), 0);
}

TEST_F(GraphTest, WaitsAndQuestionsInvalidateIt) {
  using Call = cudaError_t (*)(cudaStream_t);
  const Call calls[] = {[](cudaStream_t s) { return cudaStreamSynchronize(s); },
                        [](cudaStream_t s) { return cudaStreamQuery(s); },
                        [](cudaStream_t) { return cudaDeviceSynchronize(); },
                        [](cudaStream_t) {
                          void* memory = nullptr;
                          return cudaMalloc(&memory, 16);
                        }};
  for (const Call call : calls) {
    begin();
    add(stream_, 1);
    EXPECT_EQ(call(stream_), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(launch(addTo, {.stream = stream_}, data_, 1, 1), cudaErrorStreamCaptureInvalidated);
    cudaStreamCaptureStatus status{};
    EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    expectEnd(cudaErrorStreamCaptureInvalidated);
  }
}

/// Found by name, for nothing is linked with libcuda.
CUresult contextOf(cudaStream_t stream, CUcontext* context) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuStreamGetCtx", &function, 9020, cudaEnableDefault,
                                               &found));
  return reinterpret_cast<decltype(&::cuStreamGetCtx)>(function)(stream, context);
}

TEST_F(GraphTest, IdsAndDevicesOfItsStreamsAreNotTold) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const fork = makeEvent();
  unsigned long long id = 0;
  int device = -1;
  EXPECT_CUDA(cudaStreamGetId(stream_, &id));
  EXPECT_CUDA(cudaStreamGetDevice(stream_, &device));
  EXPECT_EQ(device, 0);
  using Call = cudaError_t (*)(cudaStream_t);
  const Call calls[] = {[](cudaStream_t s) {
                          unsigned long long unused = 0;
                          return cudaStreamGetId(s, &unused);
                        },
                        [](cudaStream_t s) {
                          int unused = 0;
                          return cudaStreamGetDevice(s, &unused);
                        }};
  for (const Call call : calls)
    for (cudaStream_t const asked : {stream_, other})
      for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed}) {
        begin(mode);
        EXPECT_CUDA(cudaEventRecord(fork, stream_));
        EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
        EXPECT_EQ(call(asked), cudaErrorStreamCaptureUnsupported);
        expectEnd(cudaErrorStreamCaptureInvalidated);
      }
}

// Nor is it disturbed by what this thread does elsewhere in relaxed mode.
TEST_F(GraphTest, ContextsAreToldAndOthersMayBeAsked) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const outside = makeEvent();
  EXPECT_CUDA(cudaEventRecord(outside, other));
  void* const host = allocatePinned<int>(1);
  CUcontext before = nullptr, context = nullptr;
  EXPECT_EQ(contextOf(stream_, &before), CUDA_SUCCESS);
  begin();
  EXPECT_EQ(contextOf(stream_, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, before);
  unsigned long long id = 0, capture = 0;
  int device = -1;
  EXPECT_CUDA(cudaStreamGetId(other, &id));
  EXPECT_CUDA(cudaStreamGetDevice(other, &device));
  cudaStreamCaptureStatus status{};
  EXPECT_CUDA(cudaStreamGetCaptureInfo(stream_, &status, &capture));
  EXPECT_NE(capture, 0u);
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, data_));
  cudaEvent_t event = nullptr;
  EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  EXPECT_CUDA(cudaEventDestroy(event));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  void* memory = nullptr;
  EXPECT_CUDA(cudaMalloc(&memory, 16));
  EXPECT_CUDA(cudaMemsetAsync(memory, 0, 16, other));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_CUDA(cudaEventQuery(outside));
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_CUDA(cudaHostAlloc(&memory, 16, cudaHostAllocPortable));
  EXPECT_CUDA(cudaFreeHost(memory));
  EXPECT_CUDA(cudaFreeHost(host));
  cudaStream_t made = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  EXPECT_CUDA(cudaStreamDestroy(made));
  EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  add(stream_, 3);
  cudaGraphExec_t const exec = instantiate(end());
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(), 3);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, ModesSayWhomUnsafeCallsHarm) {
  const auto elsewhere = [] {
    cudaError_t error = cudaErrorUnknown;
    std::thread([&] {
      void* memory = nullptr;
      error = cudaMalloc(&memory, 16);
    }).join();
    return error;
  };
  void* memory = nullptr;
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_CUDA(cudaMalloc(&memory, 16));
  EXPECT_CUDA(elsewhere());
  end();
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_CUDA(elsewhere());
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  expectEnd(cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(elsewhere(), cudaErrorStreamCaptureUnsupported);
  expectEnd(cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeGlobal);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_CUDA(cudaMalloc(&memory, 16));
  EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  end();
}

TEST_F(GraphTest, CapturesDoNotMix) {
  cudaStream_t const other = makeStream(), blocking = makeStream(cudaStreamDefault);
  cudaEvent_t const outside = makeEvent(), inside = makeEvent();
  EXPECT_CUDA(cudaEventRecord(outside, other));
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, outside, 0), cudaErrorStreamCaptureIsolation);
  expectEnd(cudaErrorStreamCaptureInvalidated);

  begin();
  EXPECT_CUDA(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA(cudaEventRecord(inside, other));
  EXPECT_EQ(cudaStreamWaitEvent(stream_, inside, 0), cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureInvalidated);
  expectEnd(cudaErrorStreamCaptureInvalidated);

  EXPECT_CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(launch(addTo, {}, data_, 1, 1), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorIllegalState);
}

// Nobody can ask for an event of a capture or wait for it: that ends the capture, in every mode.
TEST_F(GraphTest, ItsEventsAreNotAsked) {
  cudaEvent_t const event = makeEvent();
  for (const auto ask : {&cudaEventQuery, &cudaEventSynchronize})
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                            cudaStreamCaptureModeRelaxed}) {
      begin(mode);
      add(stream_, 1);
      EXPECT_CUDA(cudaEventRecord(event, stream_));
      EXPECT_EQ(ask(event), cudaErrorCapturedEvent);
      EXPECT_EQ(ask(event), cudaErrorInvalidValue) << "asked twice";
      cudaStreamCaptureStatus status{};
      EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
      EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
      expectEnd(cudaErrorStreamCaptureInvalidated);
      EXPECT_EQ(ask(event), cudaErrorInvalidValue) << "after the end";
    }
  begin();
  add(stream_, 1);
  EXPECT_CUDA(cudaEventRecord(event, stream_));
  EXPECT_CUDA(cudaGraphDestroy(end()));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaEventRecord(event, stream_));
  EXPECT_CUDA(cudaEventSynchronize(event));
}

TEST_F(GraphTest, TakesNoMemoryOfCudaMalloc) {
  int* const memory = allocateZeros<int>(1);
  begin();
  add(stream_, 3);
  EXPECT_EQ(cudaFreeAsync(memory, stream_), cudaErrorInvalidValue);
  cudaGraphExec_t const exec = instantiate(end());  // it has gone on
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(), 3);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaFree(memory));
}

TEST_F(GraphTest, EndsWhereAndByWhomItBegan) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const fork = makeEvent();
  cudaGraph_t graph = nullptr;
  begin();
  EXPECT_CUDA(cudaEventRecord(fork, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
  expectEnd(cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeThreadLocal);
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = cudaStreamEndCapture(stream_, &graph); }).join();
  EXPECT_EQ(error, cudaErrorStreamCaptureWrongThread);
  expectEnd(cudaErrorIllegalState);  // it has ended all the same
}

cudaGraphNode_t addHostNode(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                            Called* called) {
  cudaHostNodeParams params{};
  params.fn = [](void* data) { ++static_cast<Called*>(data)->count; };
  params.userData = called;
  cudaGraphNode_t node = nullptr;
  EXPECT_CUDA(cudaGraphAddHostNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

TEST_F(GraphTest, IsBuiltNodeByNode) {
  Called called;
  int *data = data_, count = 1, amount = 4;
  void* arguments[] = {&data, &count, &amount};
  EXPECT_CUDA(launch(addTo, {}, data_, 1, 0));  // the emulation knows kernels that were launched
  EXPECT_CUDA(cudaDeviceSynchronize());
  cudaGraph_t graph = nullptr, child = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  ASSERT_CUDA(cudaGraphCreate(&child, 0));
  addHostNode(child, {addHostNode(child, {}, &called)}, &called);
  cudaMemsetParams fill{};
  fill.dst = data_;
  fill.value = 7;
  fill.elementSize = 4;
  fill.width = fill.height = 1;
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(&addTo);
  kernel.gridDim = kernel.blockDim = dim3(1, 1, 1);
  kernel.kernelParams = arguments;
  cudaGraphNode_t nodes[5] = {};
  EXPECT_CUDA(cudaGraphAddMemsetNode(&nodes[0], graph, nullptr, 0, &fill));
  EXPECT_CUDA(cudaGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &kernel));
  EXPECT_CUDA(cudaGraphAddMemcpyNode1D(&nodes[2], graph, &nodes[1], 1, data_ + 1, data_,
                                       sizeof(int), cudaMemcpyDeviceToDevice));
  EXPECT_CUDA(cudaGraphAddChildGraphNode(&nodes[3], graph, &nodes[0], 1, child));
  EXPECT_CUDA(cudaGraphAddEmptyNode(&nodes[4], graph, &nodes[2], 2));
  cudaGraphNodeType type{};
  EXPECT_CUDA(cudaGraphNodeGetType(nodes[2], &type));
  EXPECT_EQ(type, cudaGraphNodeTypeMemcpy);
  cudaGraphExec_t const exec = instantiate(graph);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(1), 11);
  EXPECT_EQ(called.count, 2);

  amount = 5;  // arguments were copied; a change of the executable graph is for later launches
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(1), 11);
  EXPECT_CUDA(cudaGraphExecKernelNodeSetParams(exec, nodes[1], &kernel));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(1), 12);
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(exec, nodes[0], &kernel), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphAddEmptyNode(&nodes[4], nullptr, nullptr, 0), cudaErrorInvalidValue);
  kernel.blockDim = dim3(1025, 1, 1);
  EXPECT_EQ(cudaGraphAddKernelNode(&nodes[4], graph, nullptr, 0, &kernel), cudaErrorInvalidValue);
  fill.elementSize = 3;
  EXPECT_EQ(cudaGraphAddMemsetNode(&nodes[4], graph, nullptr, 0, &fill), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphAddDependencies(graph, &nodes[2], &nodes[0], nullptr, 1));
  cudaGraphExec_t cyclic = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&cyclic, graph, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaGraphDestroy(child));
}

TEST_F(GraphTest, NodesOfAnyKindAreAdded) {
  cudaGraph_t graph = nullptr, child = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  ASSERT_CUDA(cudaGraphCreate(&child, 0));
  cudaGraphNode_t node = nullptr, before = nullptr;
  int count = 1, value = 3;
  void* arguments[] = {&data_, &count, &value};
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeMemset;
  params.memset = {.dst = data_, .pitch = 0, .value = 4, .elementSize = 4, .width = 1, .height = 1};
  EXPECT_CUDA(cudaGraphAddNode(&before, graph, nullptr, nullptr, 0, &params));
  params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = const_cast<void*>(cuda::addressOf(addTo));
  params.kernel.gridDim = params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = arguments;
  EXPECT_CUDA(cudaGraphAddNode(&node, graph, &before, nullptr, 1, &params));
  before = node;
  params = {};
  params.type = cudaGraphNodeTypeMemcpy;
  params.memcpy.copyParams.srcPtr = {data_, 4, 4, 1};
  params.memcpy.copyParams.dstPtr = {data_ + 1, 4, 4, 1};
  params.memcpy.copyParams.extent = {4, 1, 1};
  params.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
  EXPECT_CUDA(cudaGraphAddNode(&node, graph, &before, nullptr, 1, &params));
  Called called;
  params = {};
  params.type = cudaGraphNodeTypeHost;
  params.host = {[](void* it) { ++static_cast<Called*>(it)->count; }, &called};
  EXPECT_CUDA(cudaGraphAddNode(&before, graph, &node, nullptr, 1, &params));
  params = {};
  params.type = cudaGraphNodeTypeGraph;
  params.graph.graph = child;
  EXPECT_CUDA(cudaGraphAddNode(&node, graph, &before, nullptr, 1, &params));
  params = {};
  params.type = cudaGraphNodeTypeEventRecord;
  params.eventRecord.event = makeEvent();
  EXPECT_CUDA(cudaGraphAddNode(&node, graph, &before, nullptr, 1, &params));
  cudaGraphExec_t const exec = instantiate(graph);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(this->value(1), 7);
  EXPECT_EQ(called.count, 1);
  EXPECT_CUDA(cudaEventQuery(params.eventRecord.event));
  EXPECT_EQ(cudaGraphAddNode(&node, graph, nullptr, nullptr, 1, &params), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(GraphTest, ACaptureGoesOnInAGraph) {
  cudaGraph_t graph = nullptr, same = nullptr;
  cudaGraphNode_t first = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  const cudaMemsetParams fill{data_, 0, 2, 4, 1, 1};
  EXPECT_CUDA(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &fill));
  const auto mode = cudaStreamCaptureModeGlobal;
  EXPECT_EQ(cudaStreamBeginCaptureToGraph(stream_, nullptr, nullptr, nullptr, 0, mode),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamBeginCaptureToGraph(stream_, graph, nullptr, nullptr, 1, mode),
            cudaErrorInvalidValue);
  for (int i = 0; i < 2; ++i) {  // two captures side by side, both behind the first node
    EXPECT_CUDA(cudaStreamBeginCaptureToGraph(stream_, graph, &first, nullptr, 1, mode));
    EXPECT_CUDA(cudaMemcpyAsync(data_ + 1 + i, data_, 4, cudaMemcpyDeviceToDevice, stream_));
    EXPECT_CUDA(cudaStreamEndCapture(stream_, &same));
    EXPECT_EQ(same, graph);
  }
  EXPECT_CUDA(cudaGraphLaunch(instantiate(graph), stream_));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(value(1), 2);
  EXPECT_EQ(value(2), 2);
}

TEST_F(GraphTest, GraphsHoldNoMemory) {
  unsigned long long bytes = 1;
  EXPECT_CUDA(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_CUDA(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &bytes));
  EXPECT_EQ(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(deviceCount(), cudaGraphMemAttrUsedMemHigh, &bytes),
            cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaDeviceGraphMemTrim(0));
}

}  // namespace
}  // namespace tutti::emulation
