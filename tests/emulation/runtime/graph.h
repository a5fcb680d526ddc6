#pragma once

// Graphs: nodes and what they depend on; and executable copies of them.

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/emulation/runtime/stream.h"

struct CUgraphNode_st {
  cudaGraph_t graph = nullptr;
  tutti::emulation::TaskPointer task;
  std::vector<cudaGraphNode_t> after;
  unsigned long long capture = 0;  // which recorded it; 0: it was added to the graph
};

struct CUuserObject_st {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  unsigned references = 0;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::map<cudaUserObject_t, unsigned> objects;  // and how many references to each
};

namespace tutti::emulation {

/// One of the chains that an executable graph is cut into, each run by one stream.
struct ExecNode {
  TaskPointer task;
  std::vector<size_t> after;
  size_t chain = 0;
  cudaGraphNode_t original = nullptr;
  bool isEnabled = true;
};

}  // namespace tutti::emulation

struct CUgraphExec_st {
  std::vector<tutti::emulation::ExecNode> nodes;
  size_t chainCount = 1;
  std::vector<cudaStream_t> helpers;   // of every chain but the first
  tutti::emulation::WorkPointer last;  // of the newest launch: launches do not overlap
  unsigned long long flags = 0;
  std::map<cudaUserObject_t, unsigned> objects;
};

namespace tutti::emulation {

// Under the runtime's lock.

cudaGraph_t makeGraph();
bool isGraph(cudaGraph_t graph);
void dropGraph(cudaGraph_t graph);
cudaGraphNode_t addNode(cudaGraph_t graph, TaskPointer task, std::vector<cudaGraphNode_t> after);
/// The node, if it is one of a graph that still is.
bool isNode(cudaGraphNode_t node);
bool areNodesOf(cudaGraph_t graph, const cudaGraphNode_t* nodes, size_t count);

/// Takes references away. When none is left, the object's destructor runs once `after` is done.
void releaseObject(cudaUserObject_t object, unsigned count, const WorkPointer& after = nullptr);

}  // namespace tutti::emulation
