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
constexpr int kLinePixels = 24;    // between arrows of one step
constexpr int kMarginPixels = 12;  // above and below them
constexpr int kHeadPixels = 62;    // before the first step
constexpr int kTailPixels = 7;     // between a rank and its arrow, so that two do not look like one
constexpr const char* kArrowColour = "#205080";
constexpr const char* kRankColour = "#b8b8b8";
constexpr const char* kBandColour = "#eef2f6";  // of every other step
// A label is drawn twice, so that it is readable where something passes behind it.
constexpr const char* kHalo = "text-anchor=\"middle\" stroke=\"white\" stroke-width=\"3\"";
constexpr const char* kLabel = "text-anchor=\"middle\"";

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

int centerOf(int rank) { return kColumnPixels * (rank + 1) + kColumnPixels / 4; }

/// The lines of one step: arrows that share one lie beside each other.
class StepLines {
 public:
  /// The first line on which nothing lies between the two ranks, which from now on this does.
  int place(int from, int to) {
    const auto first = static_cast<size_t>(std::min(from, to));
    const auto last = static_cast<size_t>(std::max(from, to));
    size_t line = 0;
    while (line < taken_.size() && anyTaken(taken_[line], first, last)) ++line;
    if (line == taken_.size()) taken_.emplace_back();
    taken_[line].resize(std::max(taken_[line].size(), last));
    std::fill(taken_[line].begin() + static_cast<std::ptrdiff_t>(first),
              taken_[line].begin() + static_cast<std::ptrdiff_t>(last), true);
    return static_cast<int>(line);
  }
  int count() const { return static_cast<int>(taken_.size()); }

 private:
  /// Of the gaps between neighbours.
  static bool anyTaken(const std::vector<bool>& gaps, size_t first, size_t last) {
    for (size_t gap = first; gap < std::min(last, gaps.size()); ++gap)
      if (gaps[gap]) return true;
    return false;
  }
  std::vector<std::vector<bool>> taken_;
};

struct PlacedArrow {
  Movement movement;
  int y;
};
struct Band {
  int depth, y, height;
};
/// Where everything is: steps are bands, one below the other.
struct PlanPicture {
  std::vector<PlacedArrow> arrows;
  std::vector<Band> steps;
  int end = kHeadPixels;
};

PlanPicture arrange(const std::vector<Movement>& movements) {
  PlanPicture picture;
  for (auto begin = movements.begin(); begin != movements.end();) {
    const auto end = std::find_if(begin, movements.end(),
                                  [&](const Movement& m) { return m.depth != begin->depth; });
    const int depth = begin->depth;
    StepLines lines;
    for (; begin != end; ++begin) {
      const int line = lines.place(begin->from, begin->to);
      picture.arrows.push_back({*begin, picture.end + kMarginPixels + kLinePixels * (line + 1)});
    }
    const int height = kLinePixels * lines.count() + 2 * kMarginPixels;
    picture.steps.push_back({depth, picture.end, height});
    picture.end += height;
  }
  return picture;
}

void drawArrow(base::Svg& svg, const Movement& m, int y) {
  const char* dash = m.kind == Movement::Kind::Message ? "" : " stroke-dasharray=\"4 3\"";
  const int tail = m.from < m.to ? kTailPixels : -kTailPixels;
  svg.line({centerOf(m.from) + tail, y, centerOf(m.to), y, kArrowColour,
            base::message(base::Svg::arrowEnd, dash)});
  for (const char* style : {kHalo, kLabel})
    svg.text((centerOf(m.from) + centerOf(m.to)) / 2, y - 5, labelOf(m), style);
}

/// "all_reduce ring simple, 4 ranks"; the rest is in the document's title.
std::string headingOf(const PlanSpec& spec) {
  const std::string all = spec.describe();
  return all.substr(0, all.find(',', all.find(',') + 1));
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
  const PlanPicture picture = arrange(movementsOf(spec, programs));
  const int width = std::max(centerOf(spec.ranks) - kColumnPixels / 4, 300);
  base::Svg svg(width, picture.end + kLinePixels, spec.describe());
  svg.defineArrow(kArrowColour);
  svg.rectangle({0, 0, width, picture.end + kLinePixels, "white"});
  svg.text(kMarginPixels, 20, headingOf(spec), "font-weight=\"bold\"");
  for (const Band& step : picture.steps) {
    if (step.depth % 2 == 1) svg.rectangle({0, step.y, width, step.height, kBandColour});
    svg.text(kMarginPixels, step.y + kLinePixels, base::message("step ", step.depth));
  }
  for (int rank = 0; rank < spec.ranks; ++rank) {
    svg.text(centerOf(rank), kHeadPixels - 16, base::message("rank ", rank),
             "text-anchor=\"middle\"");
    svg.line({centerOf(rank), kHeadPixels - 10, centerOf(rank), picture.end, kRankColour});
  }
  for (const PlacedArrow& arrow : picture.arrows) drawArrow(svg, arrow.movement, arrow.y);
  svg.text(kMarginPixels, picture.end + 17, "numbers: the blocks that move");
  return std::move(svg).finish();
}

}  // namespace tutti::plan
