#include "parallel/tensor/layout.h"

#include <algorithm>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

const char* toString(Axis axis) {
  switch (axis) {
    case Axis::Pipeline: return "pp";
    case Axis::Data: return "dp";
    case Axis::Fsdp: return "fsdp";
    case Axis::Context: return "cp";
    case Axis::Expert: return "ep";
    case Axis::Tensor: return "tp";
    case Axis::Rep: return "rep";
  }
  return "unknown axis";
}

std::string AxisSet::describe() const {
  std::string text = "{";
  for (int i = 0; i < kAxisCount; ++i) {
    const Axis axis = static_cast<Axis>(i);
    if (!contains(axis)) continue;
    if (text.size() > 1) text += ",";
    text += toString(axis);
  }
  return text + "}";
}

AxisList::AxisList(std::initializer_list<Axis> axes) {
  for (Axis axis : axes) append(axis);
}

void AxisList::insert(int place, Axis axis) {
  require(size_ < axes_.size(), "a dimension can be split by at most ", axes_.size(), " axes");
  ensure(place >= 0 && place <= size_, "place ", place, " of ", int{size_}, " axes");
  std::copy_backward(axes_.begin() + place, axes_.begin() + size_, axes_.begin() + size_ + 1);
  axes_[static_cast<size_t>(place)] = axis;
  ++size_;
}

void AxisList::removeInnermost() {
  ensure(size_ > 0, "no axis to remove");
  axes_[--size_] = Axis{};
}

AxisSet Layout::axes() const {
  AxisSet named = partial;
  for (const AxisList& list : dims)
    for (const Axis axis : list) named.insert(axis);
  return named;
}

std::string Layout::describe(int rank) const {
  std::string text = "[";
  for (int d = 0; d < rank; ++d) {
    const AxisList& axes = dims[static_cast<size_t>(d)];
    if (d > 0) text += ", ";
    if (axes.size() == 0) text += "_";
    for (int i = 0; i < axes.size(); ++i) {
      if (i > 0) text += ".";
      text += toString(axes[i]);
    }
  }
  text += "]";
  return partial.empty() ? text : text + " " + partial.describe();
}

}  // namespace tutti::parallel
