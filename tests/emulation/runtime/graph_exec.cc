// Executable graphs. A graph is cut into chains of nodes, each behind the one before; the first
// chain runs in the stream of the launch and each other one in a stream of its own, with waits
// between them where the graph has edges. So branches really run side by side.

#include <algorithm>
#include <set>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/copy.h"
#include "tests/emulation/runtime/event.h"
#include "tests/emulation/runtime/graph.h"
#include "tests/emulation/runtime/kernel.h"

namespace tutti::emulation {
namespace {

using Nodes = std::vector<ExecNode>;

std::set<cudaGraphExec_t>& executables() {
  static auto* const all = new std::set<cudaGraphExec_t>;
  return *all;
}

/// Appends the graph's nodes, each behind what it depends on; child graphs are dissolved between
/// an empty node and another. Nodes without dependencies come behind `after`. False for a cycle.
bool flatten(const CUgraph_st& graph, std::vector<size_t> after, Nodes& nodes) {
  std::map<cudaGraphNode_t, size_t> done;
  const auto isReady = [&](const CUgraphNode_st& node) {
    return std::all_of(node.after.begin(), node.after.end(),
                       [&](cudaGraphNode_t before) { return done.count(before) > 0; });
  };
  while (done.size() < graph.nodes.size()) {
    const size_t before = done.size();
    for (const auto& node : graph.nodes) {
      if (done.count(node.get()) > 0 || !isReady(*node)) continue;
      ExecNode made{node->task, {}, 0, node.get()};
      for (cudaGraphNode_t each : node->after) made.after.push_back(done.at(each));
      if (made.after.empty()) made.after = after;
      nodes.push_back(made);
      if (node->task->child != nullptr) {
        const size_t begin = nodes.size() - 1;
        if (!flatten(*node->task->child, {begin}, nodes)) return false;
        ExecNode end{makeTask(cudaGraphNodeTypeEmpty, nullptr), {}, 0, nullptr};
        for (size_t i = begin; i < nodes.size(); ++i) end.after.push_back(i);
        nodes.push_back(end);
      }
      done[node.get()] = nodes.size() - 1;
    }
    if (done.size() == before) return false;
  }
  return true;
}

/// A node continues the chain of the first dependency that nobody else continues.
size_t cutIntoChains(Nodes& nodes) {
  std::set<size_t> continued;
  size_t chains = 0;
  for (ExecNode& node : nodes) {
    const auto from = std::find_if(node.after.begin(), node.after.end(),
                                   [&](size_t i) { return continued.count(i) == 0; });
    if (from == node.after.end()) {
      node.chain = chains++;
    } else {
      continued.insert(*from);
      node.chain = nodes[*from].chain;
    }
  }
  return std::max<size_t>(chains, 1);
}

/// The task of a node in this launch, and what else it waits for.
TaskPointer taskNow(const ExecNode& node, std::vector<WorkPointer>& after) {
  TaskPointer task;
  if (!node.isEnabled) return makeTask(cudaGraphNodeTypeEmpty, nullptr);
  if (node.task->type == cudaGraphNodeTypeEventRecord) task = liveRecordTask(node.task->event);
  if (node.task->type == cudaGraphNodeTypeWaitEvent) task = liveWaitTask(node.task->event, after);
  return task != nullptr ? task : node.task;
}

/// Enqueues all nodes; at its end the stream has waited for all of them.
void launch(CUgraphExec_st& exec, cudaStream_t stream) {
  while (exec.helpers.size() + 1 < exec.chainCount)
    exec.helpers.push_back(makeHiddenStream(stream->device));
  std::vector<WorkPointer> earlier, works, ends;
  if (exec.last != nullptr) earlier.push_back(exec.last);
  const WorkPointer begin = enqueue(stream, makeTask(cudaGraphNodeTypeEmpty, nullptr), earlier);
  for (const ExecNode& node : exec.nodes) {
    std::vector<WorkPointer> after;
    if (node.chain > 0 && node.after.empty()) after.push_back(begin);
    for (size_t i : node.after)
      if (exec.nodes[i].chain != node.chain) after.push_back(works[i]);
    TaskPointer task = taskNow(node, after);
    cudaStream_t const to = node.chain == 0 ? stream : exec.helpers[node.chain - 1];
    works.push_back(enqueue(to, std::move(task), std::move(after)));
    if (node.task->type == cudaGraphNodeTypeEventRecord && node.isEnabled)
      recordNow(node.task->event, works.back());
  }
  for (cudaStream_t helper : exec.helpers) ends.push_back(helper->last);
  exec.last = enqueue(stream, makeTask(cudaGraphNodeTypeEmpty, nullptr), ends);
}

cudaError_t instantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long flags) {
  return call([&] {
    constexpr unsigned long long kKnown =
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;
    if (to == nullptr || !isGraph(graph) || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    auto exec = std::make_unique<CUgraphExec_st>();
    if (!flatten(*graph, {}, exec->nodes)) return cudaErrorInvalidValue;
    exec->chainCount = cutIntoChains(exec->nodes);
    exec->flags = flags;
    for (const auto& [object, count] : graph->objects) {
      object->references += count;
      exec->objects[object] = count;
    }
    *to = exec.release();
    executables().insert(*to);
    return cudaSuccess;
  });
}

cudaGraphExecUpdateResult compare(const Nodes& had, const Nodes& has, size_t& differing) {
  for (differing = 0; differing < std::min(had.size(), has.size()); ++differing) {
    const ExecNode &one = had[differing], &other = has[differing];
    if (one.after != other.after) return cudaGraphExecUpdateErrorTopologyChanged;
    if (one.task->type != other.task->type) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (one.task->event != other.task->event) return cudaGraphExecUpdateErrorNotSupported;
  }
  return had.size() == has.size() ? cudaGraphExecUpdateSuccess
                                  : cudaGraphExecUpdateErrorTopologyChanged;
}

template <class Make>
cudaError_t setParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeType type,
                      Make make) {
  return call([&] {
    if (executables().count(exec) == 0) return cudaErrorInvalidValue;
    for (ExecNode& each : exec->nodes)
      if (each.original == node && each.task->type == type) return make(each.task);
    return cudaErrorInvalidValue;
  });
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long flags) {
  return instantiate(to, graph, flags);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* to, cudaGraph_t graph,
                                          unsigned long long flags) {
  return instantiate(to, graph, flags);
}

/// What is under way is finished.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&] {
    if (executables().erase(exec) == 0) return cudaErrorInvalidValue;
    for (cudaStream_t helper : exec->helpers) releaseStream(helper);
    for (const auto& [object, count] : exec->objects) releaseObject(object, count, exec->last);
    delete exec;
    return cudaSuccess;
  });
}

/// No part of another capture.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (executables().count(exec) == 0) return cudaErrorInvalidValue;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = refuseWaiting(stream); bad != cudaSuccess) return bad;
    launch(*exec, stream);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  return call([&] {
    Nodes nodes;
    if (result == nullptr || executables().count(exec) == 0 || !isGraph(graph) ||
        !flatten(*graph, {}, nodes))
      return cudaErrorInvalidValue;
    size_t differing = 0;
    *result = {};
    result->result = compare(exec->nodes, nodes, differing);
    if (result->result != cudaGraphExecUpdateSuccess) {
      if (differing < nodes.size()) result->errorNode = nodes[differing].original;
      return cudaErrorGraphExecUpdateFailure;
    }
    for (size_t i = 0; i < nodes.size(); ++i) exec->nodes[i].task = nodes[i].task;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return setParams(exec, node, cudaGraphNodeTypeKernel,
                   [&](TaskPointer& task) { return makeKernelTask(params, task); });
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  return setParams(exec, node, cudaGraphNodeTypeHost,
                   [&](TaskPointer& task) { return makeHostTask(params, task); });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return setParams(exec, node, cudaGraphNodeTypeMemset,
                   [&](TaskPointer& task) { return makeFillTask(params, task); });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               void* target, const void* source, size_t bytes,
                                               cudaMemcpyKind kind) {
  return setParams(exec, node, cudaGraphNodeTypeMemcpy, [&](TaskPointer& task) {
    return makeCopyTask(plainCopy(target, source, bytes, kind), task);
  });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                    unsigned isEnabled) {
  return call([&] {
    if (executables().count(exec) == 0) return cudaErrorInvalidValue;
    for (ExecNode& each : exec->nodes)
      if (each.original == node && (each.task->type == cudaGraphNodeTypeKernel ||
                                    each.task->type == cudaGraphNodeTypeMemset ||
                                    each.task->type == cudaGraphNodeTypeMemcpy)) {
        each.isEnabled = isEnabled != 0;
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
  });
}

}  // extern "C"
