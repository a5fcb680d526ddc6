#include "parallel/mesh/awaited.h"

namespace tutti::parallel {

const char* toString(Awaited awaited) {
  switch (awaited) {
    case Awaited::Pipeline: return "pipeline";
    case Awaited::Data: return "data";
    case Awaited::Tensor: return "tensor";
    case Awaited::Context: return "context";
    case Awaited::Experts: return "experts";
    case Awaited::All: return "all";
  }
  return "?";
}

}  // namespace tutti::parallel
