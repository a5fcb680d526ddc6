#include "parallel/planner/prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "parallel/engine/describe.h"

namespace tutti::parallel {

namespace {

using Term = std::pair<const char*, double>;

bool less(const Term& a, const Term& b) { return a.second < b.second; }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f%%", 100 * share);
  return text;
}

}  // namespace

std::vector<std::pair<const char*, double>> termsOf(const StepSeconds& s) {
  return {
      {"computes", s.compute},       {"exchanges inside layers", s.layers}, {"waits", s.wait},
      {"gathers weights", s.gather}, {"adds gradients", s.reduce},          {"updates", s.update},
      {"other sums", s.other}};
}

std::string secondsText(double seconds) {
  const char* units[] = {"s", "ms", "us"};
  int unit = 0;
  for (; unit < 2 && seconds < 0.9995; ++unit) seconds *= 1000;
  char text[32];
  const int digits = seconds >= 99.95 ? 0 : seconds >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f %s", digits, seconds, units[unit]);
  return text;
}

size_t bytesOf(const Collectives& collectives) {
  size_t bytes = 0;
  for (const auto& [axes, c] : collectives)
    bytes += c.allReduce.bytes + c.reduceScatter.bytes + c.allGather.bytes + c.allToAll.bytes +
             c.sent.bytes;
  return bytes;
}

std::string boundOf(const Prediction& prediction) {
  std::vector<Term> terms = termsOf(prediction.seconds);
  std::ranges::sort(terms, [](const Term& a, const Term& b) { return less(b, a); });
  const double all = prediction.seconds.total();
  if (all <= 0) return "takes no time";
  std::string text = message(terms[0].first, " ", percent(terms[0].second / all));
  if (terms[1].second >= 0.01 * all)
    text += message(", ", terms[1].first, " ", percent(terms[1].second / all));
  return text;
}

std::string slowerThan(const Prediction& prediction, const Prediction& best) {
  const std::vector<Term> mine = termsOf(prediction.seconds), other = termsOf(best.seconds);
  Term most{"", 0};
  for (size_t i = 0; i < mine.size(); ++i)
    most = std::max(most, Term{mine[i].first, mine[i].second - other[i].second}, less);
  const double more = prediction.seconds.total() - best.seconds.total();
  if (more <= 0.0005 * best.seconds.total()) return "as fast";
  const double share = more / best.seconds.total();
  char text[32];
  std::snprintf(text, sizeof(text), share < 0.095 ? "%.1f%%" : "%.0f%%", 100 * share);
  return message("+", text, ": ", most.first, " ", secondsText(most.second), " more");
}

std::string tooLarge(const TrainingMemory& memory, size_t limit) {
  const auto kinds = kindsOf(memory);
  const auto most = std::ranges::max_element(kinds, {}, [](const auto& k) { return k.second; });
  return message(bytesText(memory.total()), ", ", bytesText(memory.total() - limit),
                 " too much; most of it ", most->first, ", ", bytesText(most->second));
}

std::string Prediction::describe() const {
  std::string text = message(layout.describe(), "\nrank ", memoryRank, " ",
                             parallel::describe(memory), parallel::describe(collectives));
  text += message("takes ", secondsText(seconds.total()), "\n");
  for (const auto& [term, value] : termsOf(seconds)) {
    if (value <= 0) continue;
    std::string line = message("  ", term);
    line.resize(32, ' ');
    text += line + secondsText(value) + "\n";
  }
  return text;
}

}  // namespace tutti::parallel
