#include "src/plan/text.h"

#include "src/base/check.h"

namespace tutti::plan {
namespace {

std::string chunksOf(const Port& port) {
  return port.chunks == 1 ? base::message(port.chunk) : base::message(port.chunk, '+', port.chunks);
}

std::string list(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) {
    if (!text.empty()) text += ", ";
    text += toText(port);
  }
  return text;
}

}  // namespace

std::string toText(const Port& port) {
  switch (port.kind) {
    case Port::Kind::Local: return base::message(toString(port.buffer), ' ', chunksOf(port));
    case Port::Kind::Mapped:
      return base::message("mapped ", port.rank, ' ', toString(port.buffer), ' ', chunksOf(port));
    case Port::Kind::Channel: break;
  }
  if (port.chunks == 0) return base::message("signal ", port.rank);
  return base::message("channel ", port.rank, " chunk ", chunksOf(port));
}

std::string toText(const Step& step) {
  std::string text = list(step.sources);
  if (step.fold == Fold::Listed) text = base::message("listed(", text, ")");
  if (step.fold == Fold::Canonical) text = base::message("canonical(", text, ")");
  text += text.empty() ? "-> " : " -> ";
  text += list(step.targets);
  if (step.completes) text += ", completes";
  for (const Dependency& d : step.after) text += base::message(", after ", d.lane, '.', d.step);
  return text;
}

std::string toText(const PlanSpec& spec, std::span<const Program> programs) {
  std::string text = spec.describe() + "\n";
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    text += base::message("rank ", rank, "\n");
    for (size_t lane = 0; lane < programs[rank].lanes.size(); ++lane) {
      const Lane& l = programs[rank].lanes[lane];
      text += base::message("  lane ", lane, ", channel ", l.channel, "\n");
      for (size_t step = 0; step < l.steps.size(); ++step)
        text += base::message("    ", step, ": ", toText(l.steps[step]), "\n");
    }
  }
  return text;
}

}  // namespace tutti::plan
