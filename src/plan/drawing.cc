#include "src/plan/drawing.h"

#include <algorithm>
#include <tuple>

#include "src/base/check.h"
#include "src/base/svg.h"
#include "src/plan/flat_plan.h"

namespace tutti::plan {
namespace {

constexpr int kColumn = 6;  // characters between ranks
constexpr int kMargin = 9;  // characters before rank 0
constexpr int kColumnPixels = 90;
constexpr int kRowPixels = 70;
constexpr const char* kArrowColour = "#205080";

/// Runs one round with unlimited slots, noting depths.
class Tracer {
 public:
  explicit Tracer(const FlatPlan& flat)
      : flat_(flat),
        next_(flat.lanes.size(), 0),
        depth_(flat.lanes.size(), 0),
        stepDepth_(flat.steps.size(), 0),
        arrived_(flat.edges.size()),
        taken_(flat.edges.size(), 0) {}

  std::vector<Movement> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t lane = 0; lane < flat_.lanes.size(); ++lane)
        while (next_[lane] < flat_.lanes[lane].stepCount && fire(lane)) moved = true;
    }
    std::ranges::sort(movements_, {}, [](const Movement& m) {
      return std::tuple(m.depth, m.kind, m.from, m.to, m.channel, m.chunk);
    });
    return std::move(movements_);
  }

 private:
  bool fire(uint32_t lane) {
    const uint32_t number = flat_.lanes[lane].firstStep + next_[lane];
    const FlatStep& s = flat_.steps[number];
    if (!ready(s)) return false;
    int depth = depth_[lane];
    for (uint32_t i = 0; i < s.afterCount; ++i)
      depth = std::max(depth, stepDepth_[flat_.afterSteps[s.after + i]]);
    for (const FlatPort& port : flat_.sources(s)) {
      if (port.kind == Port::Kind::Channel)
        depth = std::max(depth, arrived_[port.edge][taken_[port.edge]++]);
    }
    const int rank = flat_.lanes[lane].rank;
    for (const FlatPort& port : flat_.sources(s))
      if (port.kind == Port::Kind::Mapped)
        note(Movement::Kind::Mapped, depth, port.rank, rank, port);
    for (const FlatPort& port : flat_.targets(s)) {
      if (port.kind == Port::Kind::Local) continue;
      const bool isMapped = port.kind == Port::Kind::Mapped;
      const auto kind = isMapped           ? Movement::Kind::Mapped
                        : port.chunks == 0 ? Movement::Kind::Signal
                                           : Movement::Kind::Message;
      note(kind, depth, rank, port.rank, port);
      if (!isMapped) arrived_[port.edge].push_back(depth + 1);
    }
    depth_[lane] = depth;
    stepDepth_[number] = depth;
    ++next_[lane];
    return true;
  }

  bool ready(const FlatStep& s) const {
    for (uint32_t i = 0; i < s.afterCount; ++i) {
      const uint32_t awaited = flat_.afterSteps[s.after + i];
      const uint32_t lane = flat_.steps[awaited].lane;
      if (next_[lane] <= awaited - flat_.lanes[lane].firstStep) return false;
    }
    return std::ranges::all_of(flat_.sources(s), [this](const FlatPort& port) {
      return port.kind != Port::Kind::Channel || taken_[port.edge] < arrived_[port.edge].size();
    });
  }

  void note(Movement::Kind kind, int depth, int from, int to, const FlatPort& port) {
    const int channelNumber = port.edge == kNone ? 0 : flat_.edges[port.edge].channel;
    movements_.push_back({kind, depth + 1, from, to, channelNumber, port.chunk, port.chunks});
  }

  const FlatPlan& flat_;
  std::vector<uint32_t> next_;
  std::vector<int> depth_, stepDepth_;
  std::vector<std::vector<int>> arrived_;  // depths
  std::vector<size_t> taken_;
  std::vector<Movement> movements_;
};

std::string labelOf(const Movement& m) {
  if (m.kind == Movement::Kind::Signal) return "signal";
  const char* kind = m.kind == Movement::Kind::Mapped ? "mapped " : "";
  if (m.chunks == 1) return base::message(kind, m.chunk);
  return base::message(kind, m.chunk, "..", m.chunk + m.chunks - 1);
}

size_t columnOf(int rank) { return static_cast<size_t>(kMargin + kColumn * rank); }

std::string arrowLine(int ranks, const Movement& m) {
  std::string line(columnOf(ranks - 1) + 1, ' ');
  for (int rank = 0; rank < ranks; ++rank) line[columnOf(rank)] = '|';
  const size_t left = columnOf(std::min(m.from, m.to)), right = columnOf(std::max(m.from, m.to));
  std::fill(line.begin() + static_cast<std::ptrdiff_t>(left) + 1,
            line.begin() + static_cast<std::ptrdiff_t>(right), '-');
  line[columnOf(m.from)] = 'o';
  line[columnOf(m.to)] = m.from < m.to ? '>' : '<';
  return line + "   " + labelOf(m);
}

void drawArrow(base::Svg& svg, const Movement& m) {
  const int x1 = kColumnPixels * (m.from + 1), x2 = kColumnPixels * (m.to + 1);
  const int y1 = kRowPixels * m.depth, y2 = y1 + kRowPixels * 4 / 5;
  const char* dash = m.kind == Movement::Kind::Message ? "" : " stroke-dasharray=\"4 3\"";
  svg.line({x1, y1, x2, y2, kArrowColour, base::message(base::Svg::arrowEnd, dash)});
  svg.text((2 * x1 + x2) / 3, (2 * y1 + y2) / 3 - 3, labelOf(m));
}

}  // namespace

std::vector<Movement> movementsOf(const PlanSpec& spec, std::span<const Program> programs) {
  FlatPlan flat;
  const auto error = flatten(spec, {programs.begin(), programs.end()}, flat);
  TUTTI_REQUIRE(!error, error->message);
  return Tracer(flat).run();
}

std::string drawText(const PlanSpec& spec, std::span<const Program> programs) {
  std::string text = spec.describe() + "\n";
  std::string head(columnOf(spec.ranks), ' ');
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const std::string number = std::to_string(rank);
    head.replace(columnOf(rank), number.size(), number);
  }
  text += head.substr(0, head.find_last_not_of(' ') + 1) + "\n";
  int depth = 0;
  for (const Movement& m : movementsOf(spec, programs)) {
    std::string line = arrowLine(spec.ranks, m);
    if (m.depth != depth) {
      const std::string title = base::message("step ", m.depth);
      line.replace(0, title.size(), title);
    }
    depth = m.depth;
    text += line + "\n";
  }
  return text;
}

std::string drawSvg(const PlanSpec& spec, std::span<const Program> programs) {
  const std::vector<Movement> movements = movementsOf(spec, programs);
  int depth = 1;
  for (const Movement& m : movements) depth = std::max(depth, m.depth);
  const int width = kColumnPixels * (spec.ranks + 1), height = kRowPixels * (depth + 2);
  base::Svg svg(width, height, spec.describe());
  svg.defineArrow(kArrowColour);
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const int x = kColumnPixels * (rank + 1);
    svg.text(x, kRowPixels / 2, base::message("rank ", rank), "text-anchor=\"middle\"");
    svg.line({x, kRowPixels * 3 / 5, x, height - kRowPixels / 2, "#b0b0b0"});
  }
  for (const Movement& m : movements) drawArrow(svg, m);
  return std::move(svg).finish();
}

}  // namespace tutti::plan
