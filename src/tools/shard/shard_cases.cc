#include "src/tools/shard/shard_cases.h"

#include "src/base/check.h"

namespace tutti::tools {
namespace {

using base::message;
using parallel::Axis;
using parallel::Conflict;
using parallel::Product;
using parallel::Term;

std::string conflictWords(const Conflict& c, char axis, const Product& p) {
  const Term& split = c.inA != 0 ? p.a : p.b;
  const Term& other = c.inA != 0 ? p.b : p.a;
  const char index = c.inA != 0 ? c.inA : c.inB;
  switch (c.kind) {
    case Conflict::SplitsDifferentIndices:
      return message(axis, " splits ", c.inA, " of ", p.a.name, " and ", c.inB, " of ", p.b.name,
                     ". A rank's parts are those of one block on the diagonal, and nobody could ",
                     "compute the others: one operand is gathered first (AllGather).");
    case Conflict::SplitsOneOperand:
      if (p.c.dimensionOf(index) >= 0)
        return message(axis, " splits ", index, ", which ", p.c.name, " has too, in ", split.name,
                       " alone: ", other.name, " is sliced, which is free, or ", split.name,
                       " gathered.");
      return message(axis, " splits ", index, ", which is summed over, in ", split.name,
                     " alone: ", split.name, " is gathered first (AllGather); or ", other.name,
                     " is sliced, which is free, and then it is case 3.");
    case Conflict::OtherOrder:
      return message(axis, " splits ", index, " in both operands, which are not split by the same ",
                     "axes in the same order: parts do not fit.");
    case Conflict::BothPartial:
      return message("both operands are sums over ", axis,
                     ", and a product of sums is not the sum ",
                     "of the products: one of them is added up first.");
    case Conflict::PartialAndSplit:
      return message(axis, " splits ", index, " of ", split.name, ", and ", other.name,
                     " is a sum over it: each part would meet one summand only. ", split.name,
                     " is gathered first, or ", other.name, " added up.");
  }
  return "";
}

int numberOf(const Conflict& c, const Product& p) {
  if (c.kind == Conflict::SplitsDifferentIndices) return 4;
  const bool summedOver = p.c.dimensionOf(c.inA != 0 ? c.inA : c.inB) < 0;
  return c.kind == Conflict::SplitsOneOperand && summedOver ? 2 : 0;
}

/// Of an axis along which ranks can multiply what they have.
ShardCase withoutConflict(Axis axis, char letter, const Product& p) {
  const char inA = p.a.indexSplitBy(axis), inB = p.b.indexSplitBy(axis);
  if (inA == 0 && inB == 0)
    return {letter, 0,
            message((p.a.layout.partial.contains(axis) ? p.a : p.b).name, " is a sum over ", letter,
                    ", and so is the product.")};
  const char index = inA != 0 ? inA : inB;
  if (p.c.dimensionOf(index) < 0)
    return {letter, 3,
            message(letter, " splits ", index, ", which is summed over, in both operands alike. A ",
                    "rank's product is a summand of ", p.c.name,
                    ": AllReduce, or, where a part of the sum will do, ReduceScatter.")};
  return {letter, 1,
          message(letter, " splits ", index, ", which ", p.c.name,
                  " has too: each rank computes the part of ", p.c.name,
                  " that belongs to its own, and nothing is sent.")};
}

}  // namespace

std::vector<ShardCase> shardCases(const Product& p, const parallel::AxisLetters& letters) {
  std::vector<ShardCase> cases;
  for (size_t i = 0; i < letters.all().size(); ++i) {
    const auto axis = static_cast<Axis>(i);
    const char letter = letters[axis];
    if (!p.a.layout.axes().contains(axis) && !p.b.layout.axes().contains(axis)) continue;
    if (const auto conflict = parallel::conflictOver(axis, p.a, p.b))
      cases.push_back({letter, numberOf(*conflict, p), conflictWords(*conflict, letter, p)});
    else
      cases.push_back(withoutConflict(axis, letter, p));
  }
  return cases;
}

}  // namespace tutti::tools
