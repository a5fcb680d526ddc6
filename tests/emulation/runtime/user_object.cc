// User objects: what lives as long as the graphs that use it.

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/graph.h"

namespace tutti::emulation {
namespace {

std::set<cudaUserObject_t>& objects() {
  static auto* const all = new std::set<cudaUserObject_t>;
  return *all;
}

/// Where destructors of user objects run.
cudaStream_t janitor() {
  static cudaStream_t const stream = makeHiddenStream(0);
  return stream;
}

}  // namespace

void releaseObject(cudaUserObject_t object, unsigned count, const WorkPointer& after) {
  object->references -= count;
  if (object->references > 0) return;
  objects().erase(object);
  std::vector<WorkPointer> works;
  if (after != nullptr) works.push_back(after);
  const auto body = [destroy = object->destroy, what = object->object] {
    const InHostFunction inHostFunction;
    destroy(what);
  };
  enqueue(janitor(), makeTask(cudaGraphNodeTypeHost, body), works);
  delete object;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaUserObjectCreate(cudaUserObject_t* to, void* object, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags) {
  return call([&] {
    if (to == nullptr || destroy == nullptr || references == 0 ||
        flags != cudaUserObjectNoDestructorSync)
      return cudaErrorInvalidValue;
    *to = new CUuserObject_st{object, destroy, references};
    objects().insert(*to);
    return cudaSuccess;
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return call([&] {
    if (objects().count(object) == 0 || count == 0) return cudaErrorInvalidValue;
    object->references += count;
    return cudaSuccess;
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return call([&] {
    if (objects().count(object) == 0 || count == 0 || count > object->references)
      return cudaErrorInvalidValue;
    releaseObject(object, count);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return call([&] {
    if (!isGraph(graph) || objects().count(object) == 0 || count == 0 ||
        (flags & ~unsigned(cudaGraphUserObjectMove)) != 0)
      return cudaErrorInvalidValue;
    if (flags != cudaGraphUserObjectMove) object->references += count;
    graph->objects[object] += count;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return call([&] {
    if (!isGraph(graph) || graph->objects.count(object) == 0 || count == 0 ||
        count > graph->objects[object])
      return cudaErrorInvalidValue;
    if ((graph->objects[object] -= count) == 0) graph->objects.erase(object);
    releaseObject(object, count);
    return cudaSuccess;
  });
}

}  // extern "C"
