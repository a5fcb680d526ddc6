// Graphs that are launched, changed and destroyed.

#include <atomic>
#include <thread>

#include "tests/emulation/tests/runtime_graph.h"

namespace tutti::emulation {
namespace {

struct Steps {
  std::atomic<int> done{0}, tooEarly{0};
};
struct Step {
  Steps* all;
  int bit, needs, milliseconds;
};

cudaGraphNode_t addStep(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after, Step* step) {
  cudaHostNodeParams params{};
  params.fn = [](void* data) {
    const auto* const mine = static_cast<Step*>(data);
    if ((mine->all->done & mine->needs) != mine->needs) ++mine->all->tooEarly;
    std::this_thread::sleep_for(std::chrono::milliseconds(mine->milliseconds));
    mine->all->done |= mine->bit;
  };
  params.userData = step;
  cudaGraphNode_t node = nullptr;
  EXPECT_CUDA(cudaGraphAddHostNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

TEST_F(GraphTest, BranchesKeepTheirOrder) {
  Steps all;
  Step root{&all, 1, 0, 20}, left{&all, 2, 1, 0}, right{&all, 4, 1, 20};
  Step join{&all, 8, 6, 0}, alone{&all, 16, 0, 200};
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t const first = addStep(graph, {}, &root);
  cudaGraphNode_t const second = addStep(graph, {first}, &left);
  addStep(graph, {second, addStep(graph, {first}, &right)}, &join);
  addStep(graph, {}, &alone);
  cudaGraphExec_t const exec = instantiate(graph);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(all.done, 31);
  EXPECT_EQ(all.tooEarly, 0);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(GraphTest, IsUpdatedWhereOnlyParametersDiffer) {
  begin();
  add(stream_, 1);
  cudaGraph_t const one = end();
  begin();
  add(stream_, 2);
  cudaGraph_t const other = end();
  begin();
  EXPECT_CUDA(cudaMemsetAsync(data_, 0, sizeof(int), stream_));
  cudaGraph_t const different = end();
  cudaGraphExec_t const exec = instantiate(one);
  cudaGraphExecUpdateResultInfo result{};
  EXPECT_CUDA(cudaGraphExecUpdate(exec, other, &result));
  EXPECT_EQ(result.result, cudaGraphExecUpdateSuccess);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(), 2);
  EXPECT_EQ(cudaGraphExecUpdate(exec, different, &result), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(result.result, cudaGraphExecUpdateErrorNodeTypeChanged);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, LaunchesOfOneDoNotOverlapAndOthersDo) {
  cudaStream_t const other = makeStream(), third = makeStream();
  uint32_t* const flags = allocatePinned<uint32_t>(2);
  Called begun;
  const auto count = [](void* data) { ++static_cast<Called*>(data)->count; };
  begin();
  EXPECT_CUDA(cudaLaunchHostFunc(stream_, count, &begun));
  EXPECT_CUDA(launch(meet, {.stream = stream_}, flags, flags + 1, 1u));
  EXPECT_CUDA(launch(doubleAndAdd, {.stream = stream_}, data_, 1, 1));
  cudaGraphExec_t const exec = instantiate(end());
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_CUDA(cudaGraphLaunch(exec, other));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
  EXPECT_LE(begun.count, 1);
  EXPECT_CUDA(launch(meet, {.stream = third}, flags + 1, flags, 1u));
  EXPECT_CUDA(cudaStreamSynchronize(third));
  EXPECT_EQ(value(), 3);
  EXPECT_EQ(begun.count, 2);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, LaunchesAreNotCaptured) {
  begin();
  add(stream_, 3);
  cudaGraphExec_t const inner = instantiate(end());
  begin();
  add(stream_, 1);
  EXPECT_EQ(cudaGraphLaunch(inner, stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaGraphLaunch(inner, stream_), cudaErrorStreamCaptureUnsupported) << "once more";
  expectEnd(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(value(), 0);
  EXPECT_CUDA(cudaGraphLaunch(inner, stream_));
  EXPECT_EQ(value(), 3);
}

TEST_F(GraphTest, ExternalEventsAreRecordedByLaunches) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const event = makeEvent();
  begin();
  add(stream_, 3);
  EXPECT_CUDA(cudaEventRecordWithFlags(event, stream_, cudaEventRecordExternal));
  cudaGraphExec_t const exec = instantiate(end());
  {
    Gate gate(stream_);
    EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = other}, data_, 1, 0));
  }
  EXPECT_EQ(value(), 6);
}

// What a graph waits for was recorded when it was launched, and not when it was captured.
TEST_F(GraphTest, ExternalEventsAreWaitedForByLaunches) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const event = makeEvent();
  begin();
  EXPECT_CUDA(cudaStreamWaitEvent(stream_, event, cudaEventWaitExternal));
  add(stream_, 3);
  cudaGraphExec_t const exec = instantiate(end());
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(value(), 3);
  {
    Gate gate(other);
    EXPECT_CUDA(launch(doubleAndAdd, {.stream = other}, data_, 1, 0));
    EXPECT_CUDA(cudaEventRecord(event, other));
    EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
    EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  }
  EXPECT_EQ(value(), 9);
}

// While it is captured, a node is moved behind another one.
TEST_F(GraphTest, EdgesMayBeRemoved) {
  cudaStream_t const other = makeStream();
  cudaEvent_t const event = makeEvent();
  const auto last = [&](cudaGraph_t* graph) {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
    EXPECT_CUDA(
        cudaStreamGetCaptureInfo(stream_, &status, nullptr, graph, &nodes, nullptr, &count));
    EXPECT_EQ(count, 1);
    return nodes[0];
  };
  begin();
  add(stream_, 3);
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t record = nullptr;
  cudaGraphNode_t const first = last(&graph);
  EXPECT_CUDA(cudaGraphAddEventRecordNode(&record, graph, &first, 1, event));
  add(stream_, 4);
  cudaGraphNode_t const second = last(&graph);
  EXPECT_CUDA(cudaGraphRemoveDependencies(graph, &first, &record, nullptr, 1));
  EXPECT_EQ(cudaGraphRemoveDependencies(graph, &first, &record, nullptr, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGraphAddDependencies(graph, &second, &record, nullptr, 1));
  cudaGraph_t const captured = end();
  cudaGraphExec_t const exec = instantiate(captured);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
  EXPECT_CUDA(launch(doubleAndAdd, {.stream = other}, data_, 1, 0));
  EXPECT_EQ(value(), 14);
  cudaGraph_t outer = nullptr;
  cudaGraphNode_t child = nullptr;
  EXPECT_CUDA(cudaGraphCreate(&outer, 0));
  EXPECT_CUDA(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, captured));
  EXPECT_CUDA(cudaGraphLaunch(instantiate(outer), stream_));
  EXPECT_EQ(value(), 21);
}

TEST_F(GraphTest, UserObjectsLiveAsLongAsGraphs) {
  Called destroyed;
  const auto destroy = [](void* object) { ++static_cast<Called*>(object)->count; };
  cudaUserObject_t object = nullptr;
  ASSERT_CUDA(
      cudaUserObjectCreate(&object, &destroyed, destroy, 1, cudaUserObjectNoDestructorSync));
  begin();
  add(stream_, 1);
  cudaGraph_t const graph = end();
  EXPECT_CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  cudaGraphExec_t const exec = instantiate(graph);
  EXPECT_CUDA(cudaGraphDestroy(graph));
  {
    Gate gate(stream_);
    EXPECT_CUDA(cudaGraphLaunch(exec, stream_));
    EXPECT_CUDA(cudaGraphExecDestroy(exec));
    EXPECT_EQ(destroyed.count, 0);
  }
  EXPECT_EQ(value(), 1);
  while (destroyed.count == 0) std::this_thread::yield();
  EXPECT_EQ(cudaUserObjectCreate(&object, &destroyed, destroy, 1, 0), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tutti::emulation
