#pragma once

// Module: a part of a model with an explicit forward and backward; there is no tape. Every
// computation and every collective of training is visible in the code of some module.
//
// Between modules an activation is a matrix, [tokens, width], the sequences of a micro-batch one
// after the other; under sequence parallelism each rank has some of its rows
// (nn/tensor_parallel.h).
//
// A module declares its Parameters and holds no values. forward() allocates its result from
// saved.untilWeights (it is the next layer's input, which that layer's weight gradient needs) and
// pushes what backward will pop. backward() takes the gradient of the result, which must stay
// untouched until the weight work has run, returns that of the input, allocated from
// saved.untilWeights, and appends WeightWork.

#include <string>

#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/nn/saved.h"
#include "parallel/nn/tensor_parallel.h"
#include "parallel/store/parameter_store.h"

namespace tutti::parallel {

/// All that modules use besides their arguments: there are no globals. One for each rank.
struct ParallelContext {
  DeviceMesh& mesh;
  Kernels& kernels;
  ParameterStore& store;
  Arena& scratch;
  TensorParallel tensor{mesh};
};

class Module {
 public:
  virtual ~Module() = default;
  virtual Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) = 0;
  virtual Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) = 0;
  /// Adds this module's parameters to `store`, in the order of forward. Throws InvalidArgument when
  /// the store's mesh does not suit the module.
  virtual void declare(ParameterStore& store) = 0;
};

/// A module from int32 token ids [batch, context] to logits [batch, context, vocabulary], which
/// are cut by the last dimension where their layout says so. Token ids have no gradient: backward
/// returns an empty tensor.
class Model : public Module {
 public:
  virtual int64_t vocabulary() const = 0;
};

}  // namespace tutti::parallel
