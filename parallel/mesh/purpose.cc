#include "parallel/mesh/purpose.h"

#include "parallel/mesh/exchange_observer.h"

namespace tutti::parallel {

namespace {

constexpr bool inOrder() {
  for (size_t i = 0; i < kPurposes.size(); ++i)
    if (kPurposes[i].purpose != static_cast<Purpose>(i)) return false;
  return kPurposes.back().purpose == Purpose::RouterTallyPerSequence;  // the last
}
static_assert(inOrder());

/// A row is of exchanges, in each of which a rank waits for somebody, or of a factor.
constexpr bool areExchangesOrFactors() {
  for (const PurposeRow& row : kPurposes) {
    const bool factor = row.forms == PurposeForms(PurposeForm::Factor);
    const bool result = row.result == PurposeResult::Factor || row.result == PurposeResult::Flag;
    if (row.forms.empty() || row.forms.contains(PurposeForm::Factor) != factor ||
        result != factor || row.awaited.has_value() == factor)
      return false;
  }
  return true;
}
static_assert(areExchangesOrFactors());

}  // namespace

const char* toString(Purpose purpose) { return rowOf(purpose).name; }

const char* toString(PurposeForm form) {
  switch (form) {
    case PurposeForm::AllReduce: return "AllReduce";
    case PurposeForm::ReduceScatter: return "ReduceScatter";
    case PurposeForm::ReduceScatterV: return "ReduceScatterV";
    case PurposeForm::AllGather: return "AllGather";
    case PurposeForm::AllGatherV: return "AllGatherV";
    case PurposeForm::AllToAll: return "AllToAll";
    case PurposeForm::AllToAllV: return "AllToAllV";
    case PurposeForm::Exchange: return "exchange";
    case PurposeForm::Factor: return "factor";
  }
  return "?";
}

double factor(Purpose purpose, double value, double without) {
  ExchangeObserver* const observer = exchangeObserver();
  return observer == nullptr ? value : observer->factor(purpose, value, without);
}

}  // namespace tutti::parallel
