#include "parallel/store/offload.h"

#include <algorithm>

namespace tutti::parallel {

Backing backingAt(Place place, const Offload& offload, const DeviceMesh& mesh) {
  switch (place) {
    case Place::Device: break;
    case Place::Host: return mesh.backingOfHost();
    case Place::File: return mesh.backing(offload.folder);
  }
  return mesh.backing();
}

OffloadedUpdates::OffloadedUpdates(DeviceMesh& mesh, Away away, size_t partBytes)
    : mesh_(mesh),
      away_(away),
      partBytes_(partBytes),
      memory_("parts of offloaded state", mesh.backing()),
      slots_{Slot(mesh.device()), Slot(mesh.device())},
      enqueued_(mesh.device()),
      in_(mesh.device()),
      out_(mesh.device()) {}

void OffloadedUpdates::begin() {
  enqueued_.record(mesh_.stream());
  enqueued_.wait(in_);
}

void OffloadedUpdates::end() {
  enqueued_.record(out_);
  enqueued_.wait(mesh_.stream());
}

const Tensor& OffloadedUpdates::part(Slot& slot, size_t operand, DType type) {
  if (slot.parts.size() <= operand) slot.parts.resize(operand + 1);
  Tensor& part = slot.parts[operand];
  if (part.data == nullptr)
    part = memory_.allocate(type, {static_cast<int64_t>(partBytes_ / sizeOf(type))});
  return part;
}

void OffloadedUpdates::update(const UpdateArgs& args, double gradientScale, Optimizer& optimizer,
                              Kernels& kernels) {
  const int64_t count = args.weight.count();
  const auto flat = [&](const Tensor& tensor) { return tensor.view({count}); };
  std::vector<Operand> operands{{flat(args.weight), away_.weight, true},
                                {flat(args.gradient), away_.gradient, false}};
  size_t widest = std::max(sizeOf(args.weight.type), sizeOf(args.gradient.type));
  for (const Tensor& state : args.state) {
    operands.push_back({flat(state), away_.state, true});
    widest = std::max(widest, sizeOf(state.type));
  }
  const auto most = static_cast<int64_t>(partBytes_ / widest);
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t elements = std::min(most, count - begin);
    const auto number = static_cast<size_t>(partsBegun_++);
    Slot& slot = slots_[number % slots_.size()];
    // A capture, which tests make, does not allow to wait for what was never recorded.
    if (number >= slots_.size()) slot.free.wait(in_);
    std::vector<Tensor> parts;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Tensor rows = operands[i].tensor.rows(begin, elements);
      if (operands[i].away) {
        parts.push_back(part(slot, i, rows.type).rows(0, elements));
        copy({.to = parts[i].data, .from = rows.data, .bytes = rows.bytes()}, in_);
      } else {
        parts.push_back(rows);
      }
    }
    slot.there.record(in_);
    slot.there.wait(mesh_.stream());
    const UpdateArgs update{.weight = parts[0],
                            .gradient = parts[1],
                            .state = std::span(parts).subspan(2),
                            .decay = args.decay};
    optimizer.update({&update, 1}, gradientScale, kernels);
    slot.computed.record(mesh_.stream());
    slot.computed.wait(out_);
    for (size_t i = 0; i < operands.size(); ++i) {
      const Operand& operand = operands[i];
      if (!operand.away || !operand.changes) continue;
      const Tensor rows = operand.tensor.rows(begin, elements);
      copy({.to = rows.data, .from = parts[i].data, .bytes = rows.bytes()}, out_);
    }
    slot.free.record(out_);
  }
}

}  // namespace tutti::parallel
