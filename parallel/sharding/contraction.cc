#include "parallel/sharding/contraction.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tutti::parallel {

namespace {

AxisList axesOfEither(const Term& a, const Term& b, char index) {
  return a.dimensionOf(index) >= 0 ? a.axesOf(index) : b.axesOf(index);
}

std::vector<Axis> listed(AxisSet axes) {
  std::vector<Axis> list;
  for (int i = 0; i < kAxisCount; ++i)
    if (axes.contains(static_cast<Axis>(i))) list.push_back(static_cast<Axis>(i));
  return list;
}

std::vector<Axis> axesNamed(const Product& p) {
  AxisSet named;
  for (const Term* term : {&p.a, &p.b, &p.c})
    for (const Axis axis : listed(term->layout.axes())) named.insert(axis);
  return listed(named);
}

/// Tries what each axis could do while ranks multiply: split an index, stay partial in an operand,
/// or nothing; in every order in which axes can split one index.
class Derivations {
 public:
  Derivations(const Product& product, const Sizes& sizes, const MeshShape& mesh)
      : product_(product),
        sizes_(sizes),
        mesh_(mesh),
        axes_(axesNamed(product)),
        shapeA_(globalShape(product.a, sizes)),
        shapeB_(globalShape(product.b, sizes)),
        shapeC_(globalShape(product.c, sizes)) {
    require(axes_.size() <= kMostProductAxes, "a product names at most ", kMostProductAxes,
            " axes of the mesh, not ", axes_.size());
    indices_.insert(product.a.indices.begin(), product.a.indices.end());
    indices_.insert(product.b.indices.begin(), product.b.indices.end());
  }

  std::vector<Derivation> best(size_t most) {
    Term a = product_.a, b = product_.b;
    a.layout = b.layout = {};
    place(0, a, b);
    std::ranges::stable_sort(candidates_, {}, &Derivation::sent);
    std::vector<Derivation> found;
    for (Derivation& candidate : candidates_) {
      if (found.size() >= most && candidate.sent > found.back().sent) break;
      if (!finish(candidate)) continue;
      found.insert(std::ranges::upper_bound(found, key(candidate), {}, key), candidate);
      if (found.size() > most) found.pop_back();
    }
    require(!found.empty(), "no product of ", product_.a.name, " and ", product_.b.name,
            " is partial as ", product_.c.name, " is to be");
    return found;
  }

 private:
  static std::tuple<int64_t, double, size_t> key(const Derivation& d) {
    return {d.sent, d.flops, d.stepsOfA.size() + d.stepsOfB.size() + d.stepsOfC.size()};
  }

  /// Places this axis and those behind it in operands where those before it are.
  void place(size_t next, const Term& a, const Term& b) {
    if (next == axes_.size()) return add(a, b);
    const Axis axis = axes_[next];
    place(next + 1, a, b);
    for (const char index : indices_)
      for (int at = 0; at <= axesOfEither(a, b, index).size(); ++at) {
        Term splitA = a, splitB = b;
        for (Term* term : {&splitA, &splitB})
          if (const int d = term->dimensionOf(index); d >= 0)
            term->layout.dims[static_cast<size_t>(d)].insert(at, axis);
        place(next + 1, splitA, splitB);
      }
    Term partial = a;
    partial.layout.partial.insert(axis);
    if (product_.a.layout.partial.contains(axis)) place(next + 1, partial, b);
    partial = b;
    partial.layout.partial.insert(axis);
    if (product_.b.layout.partial.contains(axis)) place(next + 1, a, partial);
  }

  void add(const Term& a, const Term& b) {
    Derivation d;
    d.stepsOfA = redistribution(shapeA_, mesh_, product_.a.layout, a.layout);
    d.stepsOfB = redistribution(shapeB_, mesh_, product_.b.layout, b.layout);
    d.multiplied = {a, b, product_.c};
    const auto product = multiply(a, b, product_.c.indices);
    ensure(std::holds_alternative<Layout>(product), "operands that fit do not");
    d.multiplied.c.layout = std::get<Layout>(product);
    d.sent = elementsSent(d.stepsOfA) + elementsSent(d.stepsOfB);
    d.flops = 2;
    for (const char index : indices_) {
      int64_t part = sizes_.at(index);
      for (const Axis axis : axesOfEither(a, b, index)) part = partOf(part, mesh_[axis], 0).count();
      d.flops *= static_cast<double>(part);
    }
    candidates_.push_back(std::move(d));
  }

  /// False when the result cannot become what is wanted.
  bool finish(Derivation& d) const {
    const Layout &has = d.multiplied.c.layout, &wants = product_.c.layout;
    for (const Axis axis : listed(wants.partial))
      if (!has.partial.contains(axis)) return false;
    d.stepsOfC = redistribution(shapeC_, mesh_, has, wants);
    d.sent += elementsSent(d.stepsOfC);
    return true;
  }

  const Product& product_;
  const Sizes& sizes_;
  const MeshShape& mesh_;
  const std::vector<Axis> axes_;
  const Shape shapeA_, shapeB_, shapeC_;
  std::set<char> indices_;
  std::vector<Derivation> candidates_;
};

}  // namespace

std::optional<Conflict> conflictOver(Axis axis, const Term& a, const Term& b) {
  const bool partialA = a.layout.partial.contains(axis), partialB = b.layout.partial.contains(axis);
  const char inA = a.indexSplitBy(axis), inB = b.indexSplitBy(axis);
  const auto conflict = [&](Conflict::Kind kind) { return Conflict{kind, axis, inA, inB}; };
  if (partialA && partialB) return conflict(Conflict::BothPartial);
  if ((partialA && inB != 0) || (partialB && inA != 0)) return conflict(Conflict::PartialAndSplit);
  if (inA != 0 && inB != 0 && inA != inB) return conflict(Conflict::SplitsDifferentIndices);
  const char index = inA != 0 ? inA : inB;
  if (index == 0 || a.dimensionOf(index) < 0 || b.dimensionOf(index) < 0) return std::nullopt;
  if (inA != inB) return conflict(Conflict::SplitsOneOperand);
  if (a.axesOf(index) != b.axesOf(index)) return conflict(Conflict::OtherOrder);
  return std::nullopt;
}

std::variant<Layout, Conflict> multiply(const Term& a, const Term& b, const std::string& indices) {
  for (const Term* term : {&a, &b})
    for (const Axis axis : listed(term->layout.axes()))
      if (const auto conflict = conflictOver(axis, a, b)) return *conflict;
  Layout result;
  for (size_t d = 0; d < indices.size(); ++d) result.dims[d] = axesOfEither(a, b, indices[d]);
  const AxisSet kept = result.axes();
  // What remains splits an index that is summed over, or is partial in an operand.
  for (const Term* term : {&a, &b})
    for (const Axis axis : listed(term->layout.axes()))
      if (!kept.contains(axis)) result.partial.insert(axis);
  return result;
}

Shape globalShape(const Term& term, const Sizes& sizes) {
  std::vector<int64_t> extents;
  for (const char index : term.indices) {
    const auto size = sizes.find(index);
    require(size != sizes.end(), "the size of ", index, " is missing");
    extents.push_back(size->second);
  }
  return Shape(extents);
}

std::vector<Derivation> derive(const Product& product, const Sizes& sizes, const MeshShape& mesh,
                               size_t most) {
  return Derivations(product, sizes, mesh).best(most);
}

}  // namespace tutti::parallel
