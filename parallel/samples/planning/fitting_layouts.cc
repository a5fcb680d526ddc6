#include "parallel/samples/planning/fitting_layouts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "parallel/nn/tensor_parallel.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

struct Field {
  const char* flag;
  int LayoutFlags::*ranks;
};
constexpr std::array kFields{Field{"--dp", &LayoutFlags::dp}, Field{"--fsdp", &LayoutFlags::fsdp},
                             Field{"--cp", &LayoutFlags::cp}, Field{"--ep", &LayoutFlags::ep},
                             Field{"--pp", &LayoutFlags::pp}, Field{"--tp", &LayoutFlags::tp}};

int64_t product(const LayoutFlags& layout) {
  int64_t all = 1;
  for (const Field& field : kFields) all *= std::max(layout.*field.ranks, 1);
  return all;
}

bool suitsModel(const LayoutFlags& layout, const LayoutNeeds& needs) {
  const int64_t keyParts = std::min<int64_t>(layout.tp, needs.kvHeads);
  return headsFit(needs.heads, needs.kvHeads, layout.tp) &&
         (!needs.exchangesHeads ||
          headsFit(needs.heads / layout.tp, needs.kvHeads / keyParts, layout.cp)) &&
         layout.pp <= needs.stages &&
         (needs.experts == 0 ? layout.ep == 1 : needs.experts % layout.ep == 0);
}

constexpr int kNotAsked = 10;  // as many axes count as one that nobody asked for

/// How many axes differ, and by which factors.
std::pair<int, double> distance(const LayoutFlags& layout, const LayoutFlags& wanted) {
  std::pair<int, double> far{0, 0};
  for (const Field& field : kFields) {
    const int x = layout.*field.ranks, y = wanted.*field.ranks;
    if (x == y) continue;
    far.first += y == 1 ? kNotAsked : 1;
    far.second += std::abs(std::log2(std::max(x, 1)) - std::log2(std::max(y, 1)));
  }
  return far;
}

/// All layouts of numbers that divide the job's ranks together; what is open stays open.
class Divisions {
 public:
  Divisions(const LayoutFlags& wanted, int ranks) : layout_(wanted) {
    for (int n = 1; n <= ranks; ++n)
      if (ranks % n == 0) divisors_.push_back(n);
  }

  template <class Visit>
  void visit(const Visit& each) {
    visit(0, divisors_.back(), each);
  }

 private:
  template <class Visit>
  void visit(size_t at, int left, const Visit& each) {
    if (at == kFields.size()) return each(layout_);
    int& ranks = layout_.*kFields[at].ranks;
    if (ranks == 0) return visit(at + 1, left, each);
    for (const int n : divisors_) {
      if (left % n != 0) continue;
      ranks = n;
      visit(at + 1, left / n, each);
    }
  }

  LayoutFlags layout_;
  std::vector<int> divisors_;
};

/// One axis has another number of ranks, up to twice as many.
template <class Visit>
void forEachOneAxisAway(const LayoutFlags& wanted, const Visit& visit) {
  for (const Field& field : kFields) {
    LayoutFlags layout = wanted;
    for (int n = 1; n <= 2 * wanted.*field.ranks; ++n) {
      if (n == wanted.*field.ranks) continue;
      layout.*field.ranks = n;
      visit(layout);
    }
  }
}

/// Axis by axis the number of ranks that is nearest and suits the model; tp before cp, which
/// divides the heads that tp leaves.
LayoutFlags eachNearest(const LayoutFlags& wanted, const LayoutNeeds& needs) {
  LayoutFlags layout{.dp = wanted.dp, .fsdp = wanted.fsdp};
  for (size_t i = kFields.size(); i-- > 0;) {
    int LayoutFlags::*const axis = kFields[i].ranks;
    int best = layout.*axis;
    for (int n = 1; n <= 2 * wanted.*axis; ++n) {
      LayoutFlags other = layout;
      other.*axis = n;
      LayoutFlags nearest = layout;
      nearest.*axis = best;
      if (suitsModel(other, needs) && distance(other, wanted) < distance(nearest, wanted)) best = n;
    }
    layout.*axis = best;
  }
  return layout;
}

}  // namespace

std::string LayoutFlags::describe() const {
  std::string text;
  for (const Field& field : kFields)
    if (this->*field.ranks > 1)
      text += message(text.empty() ? "" : " ", field.flag, " ", this->*field.ranks);
  return text.empty() ? "one rank" : text;
}

bool fits(const LayoutFlags& layout, const LayoutNeeds& needs) {
  if (!suitsModel(layout, needs)) return false;
  if (needs.ranks == 0) return true;
  const bool open = layout.dp == 0 || layout.fsdp == 0;
  const int64_t ranks = product(layout);
  return open ? needs.ranks % ranks == 0 : needs.ranks == ranks;
}

std::vector<LayoutFlags> nearestFitting(const LayoutFlags& wanted, const LayoutNeeds& needs,
                                        int most) {
  std::vector<LayoutFlags> all;
  const auto visit = [&](const LayoutFlags& layout) {
    if (fits(layout, needs)) all.push_back(layout);
  };
  if (needs.ranks > 0)
    Divisions(wanted, needs.ranks).visit(visit);
  else
    forEachOneAxisAway(wanted, visit);
  if (all.empty() && needs.ranks == 0) visit(eachNearest(wanted, needs));
  std::stable_sort(all.begin(), all.end(), [&](const LayoutFlags& a, const LayoutFlags& b) {
    return distance(a, wanted) < distance(b, wanted);
  });
  if (all.size() > static_cast<size_t>(most)) all.resize(static_cast<size_t>(most));
  while (all.size() > 1 && distance(all.back(), wanted).first >= kNotAsked) all.pop_back();
  if (needs.ranks > 0)
    for (LayoutFlags& layout : all) {
      const int others = static_cast<int>(needs.ranks / product(layout));
      if (layout.dp == 0)
        layout.dp = others;
      else if (layout.fsdp == 0)
        layout.fsdp = others;
    }
  return all;
}

}  // namespace tutti::parallel
