#pragma once

// The collectives of a process group as calls of a communicator. Each function checks its
// arguments, on the thread of the caller, and returns what runs later. Included by backend.cc
// alone.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/tutti.h>

#include "tensors.h"

namespace tutti_torch::collectives {

using Tensors = std::vector<at::Tensor>;
/// Blocks without a stream; with one it enqueues.
using Body = std::function<void(tutti::Communicator&, tutti::StreamRef)>;

/// Where Tutti reads and writes an operation's elements.
template <class Args>
Args with(const TensorElements& from, const TensorElements& to, size_t count) {
  Args args;
  args.send = from.data;
  args.recv = to.data;
  args.count = count;
  args.type = from.type;
  return args;
}

template <class Args>
Args with(const TensorElements& from, const TensorElements& to, size_t count,
          const TensorReduction& reducing) {
  Args args = with<Args>(from, to, count);
  args.op = reducing.op;
  args.scalar = reducing.scalar;
  return args;
}

inline void checkRoot(const char* call, int64_t root, int size) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "tutti ", call, ": invalid root rank: ", root);
}

inline void checkCount(const char* call, const char* what, size_t count, int size) {
  TORCH_CHECK_VALUE(count == static_cast<size_t>(size), "tutti ", call, ": ", what, " must be ",
                    size, " tensors, not ", count);
}

inline Body allReduce(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  checkOutput(call, tensor);
  checkNumbers(call, tensor, op);
  return [data = Dense(tensor), reducing = reducingOf(call, op, tensor.scalar_type())](
             tutti::Communicator& group, tutti::StreamRef stream) {
    const TensorElements all = elementsOf(asNumbers(data.tensor()));
    group.allReduce(with<tutti::AllReduceArgs>(all, all, all.count, reducing), stream);
    data.giveBack();
  };
}

inline Body reduce(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op,
                   int64_t root, int rank, int size) {
  rank == root ? checkOutput(call, tensor) : checkTensor(call, tensor);
  checkRoot(call, root, size);
  checkNumbers(call, tensor, op);
  const Dense data(tensor);
  const auto reducing = reducingOf(call, op, tensor.scalar_type());
  return [=](tutti::Communicator& group, tutti::StreamRef stream) {
    const TensorElements all = elementsOf(asNumbers(data.tensor()));
    auto args = with<tutti::ReduceArgs>(all, all, all.count, reducing);
    args.root = static_cast<int>(root);
    group.reduce(args, stream);
    if (group.rank() == root) data.giveBack();
  };
}

inline Body broadcast(const char* call, const at::Tensor& tensor, int64_t root, int rank,
                      int size) {
  rank == root ? checkTensor(call, tensor) : checkOutput(call, tensor);
  checkRoot(call, root, size);
  return [data = Dense(tensor), root](tutti::Communicator& group, tutti::StreamRef stream) {
    const TensorElements all = elementsOf(data.tensor());
    auto args = with<tutti::BroadcastArgs>(all, all, all.count);
    args.root = static_cast<int>(root);
    group.broadcast(args, stream);
    if (group.rank() != root) data.giveBack();
  };
}

/// Into one tensor.
inline Body allGather(const char* call, const at::Tensor& output, const at::Tensor& input,
                      int size) {
  checkOutput(call, output);
  checkTensor(call, input);
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), "tutti ", call,
                   ": output tensor of ", output.scalar_type(), " and input tensor of ",
                   input.scalar_type(), " must have the same type");
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size, "tutti ", call,
                    ": the output tensor has ", output.numel(), " elements, and must have ", size,
                    " times the ", input.numel(), " of the input");
  return [to = Dense(output), from = Dense(input)](tutti::Communicator& group,
                                                   tutti::StreamRef stream) {
    const TensorElements all = elementsOf(to.tensor());
    const at::Tensor sent =
        apart(from.tensor(), all, static_cast<size_t>(group.rank()) * from.tensor().nbytes());
    const TensorElements mine = elementsOf(sent);
    group.allGather(with<tutti::AllGatherArgs>(mine, all, mine.count), stream);
    to.giveBack();
  };
}

/// Into a tensor of each rank, which may be of different sizes.
inline Body allGather(const char* call, const Tensors& outputs, const at::Tensor& input, int rank,
                      int size) {
  checkTensor(call, input);
  checkCount(call, "the output list", outputs.size(), size);
  const Row to(call, outputs, false);
  const auto mine = outputs[static_cast<size_t>(rank)].numel();
  TORCH_CHECK_TYPE(outputs[0].scalar_type() == input.scalar_type(), "tutti ", call,
                   ": output tensors of ", outputs[0].scalar_type(), " and input tensor of ",
                   input.scalar_type());
  TORCH_CHECK_VALUE(mine == input.numel(), "tutti ", call, ": the input tensor has ", input.numel(),
                    " elements, and output tensor ", rank, " has ", mine);
  return [to, from = Dense(input)](tutti::Communicator& group, tutti::StreamRef stream) {
    const at::Tensor sent = apart(from.tensor(), to.elements(), to.offsetOf(group.rank()));
    const TensorElements mine = elementsOf(sent);
    if (to.isEven()) {
      group.allGather(with<tutti::AllGatherArgs>(mine, to.elements(), mine.count), stream);
    } else {
      const auto counts = to.counts();
      tutti::AllGatherVArgs args;
      args.send = mine.data;
      args.recv = to.elements().data;
      args.counts = counts;
      args.type = mine.type;
      group.allGatherV(args, stream);
    }
    to.giveBack();
  };
}

/// Of one tensor.
inline Body reduceScatter(const char* call, const at::Tensor& output, const at::Tensor& input,
                          const c10d::ReduceOp& op, int size) {
  checkOutput(call, output);
  checkTensor(call, input);
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), "tutti ", call,
                   ": input tensor of ", input.scalar_type(),
                   " must be the same type as the output tensor of ", output.scalar_type());
  TORCH_CHECK_VALUE(input.numel() == output.numel() * size, "tutti ", call,
                    ": the input tensor has ", input.numel(),
                    " elements, and must be the same size as the output tensor of ", output.numel(),
                    " times ", size);
  checkNumbers(call, input, op);
  const Dense to(output), from(input);
  return [=, reducing = reducingOf(call, op, input.scalar_type())](tutti::Communicator& group,
                                                                   tutti::StreamRef stream) {
    const TensorElements all = elementsOf(asNumbers(from.tensor()));
    const at::Tensor result =
        apart(to.tensor(), all, static_cast<size_t>(group.rank()) * to.tensor().nbytes());
    const TensorElements mine = elementsOf(asNumbers(result));
    group.reduceScatter(with<tutti::ReduceScatterArgs>(all, mine, mine.count, reducing), stream);
    to.giveBack(result);
  };
}

/// Of a tensor for each rank, which may be of different sizes.
inline Body reduceScatter(const char* call, const at::Tensor& output, Tensors inputs,
                          const c10d::ReduceOp& op, int rank, int size) {
  checkOutput(call, output);
  checkCount(call, "the input list", inputs.size(), size);
  const auto mine = inputs[static_cast<size_t>(rank)].numel();
  TORCH_CHECK_VALUE(mine == output.numel(), "tutti ", call, ": the output tensor has ",
                    output.numel(), " elements, and input tensor ", rank, " has ", mine);
  TORCH_CHECK_TYPE(output.scalar_type() == inputs[0].scalar_type(), "tutti ", call,
                   ": input tensors of ", inputs[0].scalar_type(), " and output tensor of ",
                   output.scalar_type());
  checkNumbers(call, output, op);
  for (auto& each : inputs) each = asNumbers(each);
  const Row from(call, inputs, true);
  const Dense to(output);
  return [=, reducing = reducingOf(call, op, output.scalar_type())](tutti::Communicator& group,
                                                                    tutti::StreamRef stream) {
    const at::Tensor result = apart(to.tensor(), from.elements(), from.offsetOf(group.rank()));
    const TensorElements mine = elementsOf(asNumbers(result));
    if (from.isEven()) {
      group.reduceScatter(
          with<tutti::ReduceScatterArgs>(from.elements(), mine, mine.count, reducing), stream);
    } else {
      const auto counts = from.counts();
      tutti::ReduceScatterVArgs args;
      args.send = from.elements().data;
      args.recv = mine.data;
      args.counts = counts;
      args.type = mine.type;
      args.op = reducing.op;
      args.scalar = reducing.scalar;
      group.reduceScatterV(args, stream);
    }
    to.giveBack(result);
  };
}

/// `outputs` is empty but at the root.
inline Body gather(const char* call, const Tensors& outputs, const at::Tensor& input, int64_t root,
                   int rank, int size) {
  checkTensor(call, input);
  checkRoot(call, root, size);
  const bool isRoot = rank == root;
  if (isRoot) checkCount(call, "the output list", outputs.size(), size);
  TORCH_CHECK_VALUE(isRoot || outputs.empty(), "tutti ", call,
                    ": requires empty output on a rank that is not the root");
  const Row to(call, outputs, false);
  for (const auto& each : outputs)
    TORCH_CHECK_VALUE(each.numel() == input.numel() && each.scalar_type() == input.scalar_type(),
                      "tutti ", call, ": an output tensor has ", each.numel(), " elements of ",
                      each.scalar_type(), ", and the input ", input.numel(), " of ",
                      input.scalar_type());
  return
      [to, from = Dense(input), root, isRoot](tutti::Communicator& group, tutti::StreamRef stream) {
        const TensorElements all = to.elements();  // none but at the root
        const at::Tensor sent =
            isRoot ? apart(from.tensor(), all, to.offsetOf(group.rank())) : from.tensor();
        const TensorElements mine = elementsOf(sent);
        auto args = with<tutti::GatherArgs>(mine, all, mine.count);
        args.root = static_cast<int>(root);
        group.gather(args, stream);
        if (isRoot) to.giveBack();
      };
}

/// `inputs` is empty but at the root.
inline Body scatter(const char* call, const at::Tensor& output, const Tensors& inputs, int64_t root,
                    int rank, int size) {
  checkOutput(call, output);
  checkRoot(call, root, size);
  const bool isRoot = rank == root;
  if (isRoot) checkCount(call, "the input list", inputs.size(), size);
  TORCH_CHECK_VALUE(isRoot || inputs.empty(), "tutti ", call,
                    ": requires empty input on a rank that is not the root");
  for (const auto& each : inputs)
    TORCH_CHECK_VALUE(each.numel() == output.numel() && each.scalar_type() == output.scalar_type(),
                      "tutti ", call, ": an input tensor has ", each.numel(), " elements of ",
                      each.scalar_type(), ", and the output ", output.numel(), " of ",
                      output.scalar_type());
  const Row from(call, inputs, true);
  return [from, to = Dense(output), root, isRoot](tutti::Communicator& group,
                                                  tutti::StreamRef stream) {
    const TensorElements all = from.elements();  // none but at the root
    const at::Tensor result =
        isRoot ? apart(to.tensor(), all, from.offsetOf(group.rank())) : to.tensor();
    const TensorElements mine = elementsOf(result);
    tutti::ScatterArgs args;
    args.send = all.data;
    args.recv = mine.data;
    args.count = mine.count;
    args.type = mine.type;
    args.root = static_cast<int>(root);
    group.scatter(args, stream);
    to.giveBack(result);
  };
}

/// Elements for or from each rank, in bytes: a list of tensors has no common place to count from
/// but the lowest.
struct Blocks {
  std::byte* lowest = nullptr;
  std::vector<size_t> counts, offsets;
  explicit Blocks(const Tensors& tensors) {
    for (const auto& each : tensors) {
      auto* const data = static_cast<std::byte*>(each.data_ptr());
      if (data && (!lowest || data < lowest)) lowest = data;
    }
    for (const auto& each : tensors) {
      auto* const data = static_cast<std::byte*>(each.data_ptr());
      counts.push_back(each.nbytes());
      offsets.push_back(data && counts.back() > 0 ? static_cast<size_t>(data - lowest) : 0);
    }
  }
};

/// What an exchange sends: it has no way to do so in place.
inline Tensors apartFromAll(const std::vector<Dense>& sent, const Tensors& received) {
  std::vector<TensorElements> written;
  for (const auto& each : received) written.push_back(elementsOf(each));
  Tensors all;
  for (const auto& each : sent) {
    all.push_back(each.tensor());
    for (const auto& other : written) all.back() = apart(all.back(), other, std::nullopt);
  }
  return all;
}

/// Of lists.
inline Body allToAll(const char* call, const Tensors& outputs, const Tensors& inputs, int size) {
  checkCount(call, "the output list", outputs.size(), size);
  checkCount(call, "the input list", inputs.size(), size);
  std::vector<Dense> to, from;
  for (const auto& each : outputs) checkOutput(call, each), to.emplace_back(each);
  for (const auto& each : inputs) checkTensor(call, each), from.emplace_back(each);
  return [=](tutti::Communicator& group, tutti::StreamRef stream) {
    Tensors received;
    for (const auto& each : to) received.push_back(each.tensor());
    const Tensors sent = apartFromAll(from, received);
    const Blocks receives(received), sends(sent);
    tutti::AllToAllVArgs args;
    args.send = sends.lowest;
    args.sendCounts = sends.counts;
    args.sendOffsets = sends.offsets;
    args.recv = receives.lowest;
    args.recvCounts = receives.counts;
    args.recvOffsets = receives.offsets;
    args.type = tutti::DataType::UInt8;
    group.allToAllV(args, stream);
    for (const auto& each : to) each.giveBack();
  };
}

/// In what elementsOf() counts, for rows of the first dimension.
inline std::vector<size_t> splitCounts(const char* call, const at::Tensor& tensor,
                                       const std::vector<int64_t>& splits, int size) {
  const auto rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  const size_t all = elementsOf(tensor).count;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0, "tutti ", call, ": Tensor's dim 0 of ", rows,
                      " does not divide equally across group size ", size);
    return std::vector<size_t>(static_cast<size_t>(size), all / static_cast<size_t>(size));
  }
  TORCH_CHECK_VALUE(splits.size() == static_cast<size_t>(size), "tutti ", call,
                    ": Number of tensor splits not equal to group size: ", splits.size(), " for ",
                    size, " ranks");
  int64_t sum = 0;
  for (const auto each : splits) {
    TORCH_CHECK_VALUE(each >= 0, "tutti ", call, ": a split of ", each, " rows");
    sum += each;
  }
  TORCH_CHECK_VALUE(sum == rows, "tutti ", call,
                    ": Split sizes doesn't match total dim 0 size: ", sum, " for ", rows, " rows");
  std::vector<size_t> counts;
  for (const auto each : splits)
    counts.push_back(rows == 0 ? 0 : static_cast<size_t>(each) * (all / static_cast<size_t>(rows)));
  return counts;
}

/// Of rows of one tensor. Without splits all ranks send as much to each.
inline Body allToAll(const char* call, const at::Tensor& output, const at::Tensor& input,
                     const std::vector<int64_t>& outputSplits,
                     const std::vector<int64_t>& inputSplits, int size) {
  checkOutput(call, output);
  checkTensor(call, input);
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), "tutti ", call, ": tensors of ",
                   input.scalar_type(), " and ", output.scalar_type());
  const Dense to(output), from(input);
  auto recvCounts = splitCounts(call, to.tensor(), outputSplits, size);
  auto sendCounts = splitCounts(call, from.tensor(), inputSplits, size);
  const bool even = outputSplits.empty() && inputSplits.empty();
  TORCH_CHECK_VALUE(!even || output.numel() == input.numel(), "tutti ", call,
                    ": the output tensor has ", output.numel(), " elements, and the input ",
                    input.numel());
  return [=](tutti::Communicator& group, tutti::StreamRef stream) {
    const TensorElements received = elementsOf(to.tensor());
    const at::Tensor source =
        apart(from.tensor(), received, even ? std::optional<size_t>(0) : std::nullopt);
    const TensorElements sent = elementsOf(source);
    if (even) {
      group.allToAll(with<tutti::AllToAllArgs>(sent, received, sendCounts[0]), stream);
    } else {
      tutti::AllToAllVArgs args;
      args.send = sent.data;
      args.sendCounts = sendCounts;
      args.recv = received.data;
      args.recvCounts = recvCounts;
      args.type = sent.type;
      group.allToAllV(args, stream);
    }
    to.giveBack();
  };
}

/// Of sparse tensors: every rank gets the indices and values of all.
inline Body sparseAllReduce(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  TORCH_CHECK_VALUE(op.op_ == c10d::ReduceOp::SUM,
                    "tutti all_reduce: sparse tensors take SUM alone");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.is_cpu(), "tutti all_reduce: the sparse tensor is on ",
                              tensor.device(), "; sparse tensors must be on cpu");
  return [tensor](tutti::Communicator& group, tutti::StreamRef stream) {
    at::NoGradGuard noGrad;
    const at::Tensor mine = tensor.coalesce();
    const at::Tensor entries = at::empty({group.size()}, at::kLong);
    auto* const counts = entries.data_ptr<int64_t>();
    counts[group.rank()] = mine._nnz();
    const TensorElements own{counts + group.rank(), 1, tutti::DataType::Int64};
    group.allGather(with<tutti::AllGatherArgs>(own, elementsOf(entries), 1), stream);
    const auto gathered = [&](const at::Tensor& part) {
      auto sizes = part.sizes().vec();
      sizes[0] = entries.sum().item<int64_t>();
      const at::Tensor all = at::empty(sizes, part.options());
      const size_t each = elementsOf(part.narrow(0, 0, 0).sum(0)).count;
      std::vector<size_t> blocks;
      for (int rank = 0; rank < group.size(); ++rank)
        blocks.push_back(static_cast<size_t>(counts[rank]) * each);
      tutti::AllGatherVArgs args;
      args.send = part.data_ptr();
      args.recv = all.data_ptr();
      args.counts = blocks;
      args.type = elementsOf(part).type;
      group.allGatherV(args, stream);
      return all;
    };
    const at::Tensor indices = gathered(mine._indices().t().contiguous());
    const at::Tensor values = gathered(Dense(mine._values()).tensor());
    at::_validate_sparse_coo_tensor_args(indices.t(), values, tensor.sizes());  // of other ranks
    const at::Tensor sum =
        at::_sparse_coo_tensor_unsafe(indices.t(), values, tensor.sizes(), tensor.options())
            .coalesce();
    copyInto(tensor, sum);
  };
}

/// One after the other.
inline Body allOf(std::vector<Body> bodies) {
  return [bodies = std::move(bodies)](tutti::Communicator& group, tutti::StreamRef stream) {
    for (const auto& each : bodies) each(group, stream);
  };
}

}  // namespace tutti_torch::collectives
