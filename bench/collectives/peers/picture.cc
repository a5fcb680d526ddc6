// The panels of a comparison: sizes from left to right and ratios upwards, both by their
// logarithms.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bench/collectives/peers/report.h"
#include "src/base/check.h"
#include "src/base/svg.h"
#include "src/tools/common/units.h"

namespace tutti::bench {
namespace {

using base::message;
using base::Svg;

constexpr int kMargin = 20, kWidth = 210, kHeight = 150, kLeft = 40, kHead = 24, kFoot = 34;
constexpr int kColumns = 4, kTitle = 50, kDot = 4;
constexpr const char* kInk = "#303030";
constexpr const char* kGrid = "#dddddd";
constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#3a7d44", "#8a5a99"};
constexpr double kLeastSpan = 2;  // of ratios: 1/2 to 2

struct Point {
  uint64_t bytes;
  double ratio;
};
struct Line {
  int ranks;
  std::string memory;
  bool operator<(const Line& o) const {
    return std::tie(ranks, memory) < std::tie(o.ranks, o.memory);
  }
};
using Lines = std::map<Line, std::vector<Point>>;

class Panels {
 public:
  explicit Panels(const Contest& contest) {
    for (const Row& row : contest.rows) add(row);
    for (const auto& [collective, lines] : panels_)
      for (const auto& [line, points] : lines) {
        ranks_.insert(line.ranks);
        for (const Point& p : points) {
          span_ = std::max({span_, p.ratio, 1 / p.ratio});
          if (p.bytes == 0) continue;
          least_ = std::min(least_, p.bytes);
          most_ = std::max(most_, p.bytes);
        }
      }
  }

  std::string draw() && {
    const int count = static_cast<int>(panels_.size());
    const int columns = std::clamp(count, 1, kColumns), rows = (count + kColumns - 1) / kColumns;
    const int width = std::max(2 * kMargin + columns * (kLeft + kWidth), 640);
    const int height = kTitle + kMargin + rows * (kHead + kHeight + kFoot);
    Svg svg(width, height, "the best peer's time over Tutti's");
    svg.rectangle({0, 0, width, height, "#ffffff"});
    svg.text(kMargin, kMargin + 6, "The best peer's time over Tutti's: above 1 Tutti is faster",
             "font-size=\"15\" font-weight=\"bold\"");
    drawKey(svg);
    int at = 0;
    for (const auto& [collective, lines] : panels_) {
      left_ = kMargin + at % kColumns * (kLeft + kWidth) + kLeft;
      top_ = kTitle + at / kColumns * (kHead + kHeight + kFoot) + kHead;
      drawFrame(svg, collectiveNames()[collective], collective != WORKER_BARRIER);
      for (const auto& [line, points] : lines) drawLine(svg, line, points);
      ++at;
    }
    return std::move(svg).finish();
  }

 private:
  void add(const Row& row) {
    for (const char* memory : {"allocate", "ordinary"})
      if (const Series* best = row.bestPeer(memory)) {
        auto& points = panels_[row.what.collective][{row.what.ranks, memory}];
        points.push_back({row.what.bytes, row.ratio(*best, memory)->median});
        std::ranges::sort(points, {}, &Point::bytes);
      }
  }

  int x(uint64_t bytes) const {
    const double whole = std::log2(static_cast<double>(most_) / static_cast<double>(least_));
    const double part = std::log2(static_cast<double>(bytes) / static_cast<double>(least_));
    return left_ + static_cast<int>(whole > 0 ? part / whole * (kWidth - 20) : (kWidth - 20) / 2.0);
  }
  int y(double ratio) const {
    const double part = std::log2(ratio) / std::log2(span_);
    return top_ + static_cast<int>(kHeight / 2.0 * (1 - part));
  }
  const char* colour(int ranks) const {
    const auto at = static_cast<size_t>(std::distance(ranks_.begin(), ranks_.find(ranks)));
    return kColours[at % std::size(kColours)];
  }

  void drawKey(Svg& svg) const {
    int at = kMargin;
    for (const int ranks : ranks_) {
      svg.line({at, kMargin + 22, at + 24, kMargin + 22, colour(ranks), "stroke-width=\"2\""});
      svg.text(at + 30, kMargin + 26, message(ranks, " ranks"));
      at += 100;
    }
    svg.text(at, kMargin + 26, "whole line: memory from allocate; dashed: ordinary memory");
  }

  void drawFrame(Svg& svg, const std::string& name, bool hasSizes) const {
    svg.text(left_, top_ - 8, name, "font-weight=\"bold\"");
    for (double ratio = 1; ratio <= span_; ratio *= 2)
      for (const double at : {ratio, 1 / ratio}) {
        const char* const stroke = at == 1 ? "#888888" : kGrid;
        svg.line({left_, y(at), left_ + kWidth - 20, y(at), stroke});
        svg.text(left_ - 6, y(at) + 4, base::message(at), "text-anchor=\"end\" font-size=\"11\"");
        if (ratio == 1) break;
      }
    if (!hasSizes || most_ < least_) return;
    const int below = top_ + kHeight + 16;
    svg.text(left_, below, tools::bytesText(least_), "font-size=\"11\"");
    svg.text(left_ + kWidth - 20, below, tools::bytesText(most_),
             "text-anchor=\"end\" font-size=\"11\"");
  }

  /// A barrier's, which has no size, is as long as the panel.
  void drawLine(Svg& svg, const Line& line, const std::vector<Point>& points) const {
    const std::string stroke = colour(line.ranks);
    const std::string attributes = line.memory == "ordinary"
                                       ? "stroke-width=\"2\" stroke-dasharray=\"5 4\""
                                       : "stroke-width=\"2\"";
    if (points.front().bytes == 0) {
      const int at = y(points.front().ratio);
      svg.line({left_, at, left_ + kWidth - 20, at, stroke, attributes});
      return;
    }
    for (size_t i = 0; i < points.size(); ++i) {
      const int atX = x(points[i].bytes), atY = y(points[i].ratio);
      if (i > 0)
        svg.line({x(points[i - 1].bytes), y(points[i - 1].ratio), atX, atY, stroke, attributes});
      svg.rectangle({atX - kDot / 2, atY - kDot / 2, kDot, kDot, stroke, "none", kDot / 2});
    }
  }

  std::map<worker_collective, Lines> panels_;
  std::set<int> ranks_;
  double span_ = kLeastSpan;
  uint64_t least_ = UINT64_MAX, most_ = 0;
  int left_ = 0, top_ = 0;
};

}  // namespace

std::string picture(const Contest& contest) { return Panels(contest).draw(); }

}  // namespace tutti::bench
