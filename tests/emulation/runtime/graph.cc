// Graphs that are built node by node, or by capture; user objects, which live as long as they.

#include "tests/emulation/runtime/graph.h"

#include <algorithm>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/copy.h"
#include "tests/emulation/runtime/event.h"
#include "tests/emulation/runtime/kernel.h"

namespace tutti::emulation {
namespace {

std::set<cudaGraph_t>& graphs() {
  static auto* const all = new std::set<cudaGraph_t>;
  return *all;
}

/// Adds a node whose task `make(task)` makes, or returns its error.
template <class Make>
cudaError_t add(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                Make make) {
  return call([&] {
    if (to == nullptr || !isGraph(graph) || !areNodesOf(graph, after, count))
      return cudaErrorInvalidValue;
    TaskPointer task;
    if (const cudaError_t bad = make(task); bad != cudaSuccess) return bad;
    *to = addNode(graph, std::move(task), {after, after + count});
    return cudaSuccess;
  });
}

template <class Value, class Get>
cudaError_t ask(cudaGraphNode_t node, cudaGraphNodeType type, Value* to, Get get) {
  return call([&] {
    if (to == nullptr || !isNode(node) || node->task->type != type) return cudaErrorInvalidValue;
    *to = get(*node->task);
    return cudaSuccess;
  });
}

/// The runtime's way to return a list: without `to`, its length.
cudaError_t list(const std::vector<cudaGraphNode_t>& all, cudaGraphNode_t* to, size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  if (to != nullptr) {
    for (size_t i = 0; i < *count; ++i) to[i] = i < all.size() ? all[i] : nullptr;
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
  return cudaSuccess;
}

}  // namespace

cudaGraph_t makeGraph() {
  auto* const graph = new CUgraph_st;
  graphs().insert(graph);
  return graph;
}

bool isGraph(cudaGraph_t graph) { return graphs().count(graph) > 0; }

bool isNode(cudaGraphNode_t node) {
  for (cudaGraph_t graph : graphs())
    for (const auto& each : graph->nodes)
      if (each.get() == node) return true;
  return false;
}

bool areNodesOf(cudaGraph_t graph, const cudaGraphNode_t* nodes, size_t count) {
  if (count > 0 && nodes == nullptr) return false;
  return std::all_of(nodes, nodes + count,
                     [&](cudaGraphNode_t node) { return isNode(node) && node->graph == graph; });
}

void dropGraph(cudaGraph_t graph) {
  graphs().erase(graph);
  for (const auto& [object, count] : graph->objects) releaseObject(object, count);
  for (const auto& node : graph->nodes)
    if (node->task->child != nullptr && isGraph(node->task->child)) dropGraph(node->task->child);
  delete graph;
}

cudaGraphNode_t addNode(cudaGraph_t graph, TaskPointer task, std::vector<cudaGraphNode_t> after) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->graph = graph;
  node->task = std::move(task);
  node->after = std::move(after);
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* to, unsigned flags) {
  return call([&] {
    if (to == nullptr || flags != 0) return cudaErrorInvalidValue;
    *to = makeGraph();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] {
    if (!isGraph(graph)) return cudaErrorInvalidValue;
    dropGraph(graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                  const cudaGraphNode_t* after, size_t count) {
  return add(to, graph, after, count, [](TaskPointer& task) {
    task = makeTask(cudaGraphNodeTypeEmpty, nullptr);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaKernelNodeParams* params) {
  return add(to, graph, after, count,
             [&](TaskPointer& task) { return makeKernelTask(params, task); });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                 const cudaGraphNode_t* after, size_t count,
                                 const cudaHostNodeParams* params) {
  return add(to, graph, after, count,
             [&](TaskPointer& task) { return makeHostTask(params, task); });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaMemsetParams* params) {
  return add(to, graph, after, count,
             [&](TaskPointer& task) { return makeFillTask(params, task); });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* to, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, size_t count, void* target,
                                     const void* source, size_t bytes, cudaMemcpyKind kind) {
  return add(to, graph, after, count, [&](TaskPointer& task) {
    return makeCopyTask(plainCopy(target, source, bytes, kind), task);
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaMemcpy3DParms* params) {
  return add(to, graph, after, count, [&](TaskPointer& task) {
    return params == nullptr ? cudaErrorInvalidValue : makeCopyTask(*params, task);
  });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                        const cudaGraphNode_t* after, size_t count,
                                        cudaEvent_t event) {
  return add(to, graph, after, count, [&](TaskPointer& task) {
    if (!isEvent(event)) return cudaErrorInvalidValue;
    task = recordTask(event);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                      const cudaGraphNode_t* after, size_t count,
                                      cudaEvent_t event) {
  return add(to, graph, after, count, [&](TaskPointer& task) {
    if (!isEvent(event)) return cudaErrorInvalidValue;
    auto made = std::make_shared<Task>();
    made->type = cudaGraphNodeTypeWaitEvent;
    made->event = event;
    task = made;
    return cudaSuccess;
  });
}

/// The child is copied: what happens to it later does not matter.
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* to, cudaGraph_t graph,
                                       const cudaGraphNode_t* after, size_t count,
                                       cudaGraph_t child) {
  return add(to, graph, after, count, [&](TaskPointer& task) {
    if (!isGraph(child) || child == graph) return cudaErrorInvalidValue;
    auto made = std::make_shared<Task>();
    made->type = cudaGraphNodeTypeGraph;
    made->child = makeGraph();
    std::map<cudaGraphNode_t, cudaGraphNode_t> copies;
    for (const auto& node : child->nodes) copies[node.get()] = addNode(made->child, node->task, {});
    for (const auto& node : child->nodes)
      for (cudaGraphNode_t each : node->after)
        copies.at(node.get())->after.push_back(copies.at(each));
    task = made;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                     size_t count) {
  return call([&] {
    if (!isGraph(graph) || !areNodesOf(graph, from, count) || !areNodesOf(graph, to, count))
      return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      auto& after = to[i]->after;
      if (from[i] == to[i] || std::find(after.begin(), after.end(), from[i]) != after.end())
        return cudaErrorInvalidValue;
      after.push_back(from[i]);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                        size_t count) {
  return call([&] {
    if (!isGraph(graph) || !areNodesOf(graph, from, count) || !areNodesOf(graph, to, count))
      return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i)
      if (std::erase(to[i]->after, from[i]) == 0) return cudaErrorInvalidValue;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] {
    if (!isGraph(graph)) return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> all;
    for (const auto& node : graph->nodes) all.push_back(node.get());
    return list(all, nodes, count);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] {
    if (!isGraph(graph)) return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> all;
    for (const auto& node : graph->nodes)
      if (node->after.empty()) all.push_back(node.get());
    return list(all, nodes, count);
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData*, size_t* count) {
  return call(
      [&] { return isNode(node) ? list(node->after, nodes, count) : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call([&] {
    if (type == nullptr || !isNode(node)) return cudaErrorInvalidValue;
    if (node->task->type == kBatchMemoryNode) return cudaErrorUnknown;
    *type = node->task->type;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* to) {
  return ask(node, cudaGraphNodeTypeKernel, to, [](const Task& task) { return task.kernel; });
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* to) {
  return ask(node, cudaGraphNodeTypeHost, to, [](const Task& task) { return task.host; });
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* to) {
  return ask(node, cudaGraphNodeTypeMemset, to, [](const Task& task) { return task.fill; });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* to) {
  return ask(node, cudaGraphNodeTypeMemcpy, to, [](const Task& task) { return task.copy; });
}

}  // extern "C"
