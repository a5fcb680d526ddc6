// A schedule as a picture: a lane for each rank, time from left to right, colours by what is done,
// darker in later chunks; below them the time, and what the colours mean.

#include <algorithm>
#include <array>

#include "parallel/pipeline/schedule_text.h"
#include "src/base/check.h"
#include "src/base/svg.h"
#include "src/tools/common/units.h"
#include "src/tools/schedule/schedule.h"

namespace tutti::tools {
namespace {

using base::Svg;
using parallel::ActionKind;
using parallel::Schedule;
using parallel::Span;
using parallel::Timeline;

constexpr int kMargin = 20, kLabel = 60, kLane = 26, kGap = 6, kCell = 24, kHead = 40, kFoot = 56;
constexpr int kCharacter = 7, kMostWidth = 30000;
constexpr const char* kInk = "#303030";
constexpr const char* kIdle = "#f2f2f2";
constexpr const char* kEdge = "#ffffff";

struct Colours {
  ActionKind kind;
  const char* words;
  std::array<const char*, 4> fill;  // by chunk; those beyond begin again
};
constexpr std::array kColours{
    Colours{ActionKind::F, "forward", {"#a8cbe8", "#6fa3cf", "#c9dff1", "#8ab6dc"}},
    Colours{ActionKind::B, "backward", {"#f4c28a", "#e59a4b", "#fadfbd", "#eeb06c"}},
    Colours{ActionKind::W, "weight gradients", {"#b5dba6", "#84bd6f", "#d6ebcd", "#9dcd8b"}}};

const Colours& coloursOf(ActionKind kind) { return kColours[static_cast<size_t>(kind)]; }

class SchedulePicture {
 public:
  SchedulePicture(const Schedule& s, const Timeline& timeline)
      : s_(s), timeline_(timeline), shortest_(timeline.end()) {
    for (const auto& spans : timeline.byRank)
      for (const Span& span : spans) shortest_ = std::min(shortest_, span.end - span.begin);
    const int64_t lanes = timeline.end() * kCell / shortest_;
    TUTTI_REQUIRE(lanes <= kMostWidth, "--svg: the picture would be ", lanes,
                  " pixels wide; at most ", kMostWidth, " are drawn");
    width_ = std::max(kLabel + 2 * kMargin + position(timeline.end()), 520);
    bottom_ = kMargin + kHead + s.ranks * (kLane + kGap);
  }

  std::string make() {
    Svg svg(width_, bottom_ + kFoot, "tutti schedule: " + s_.name);
    svg.rectangle({0, 0, width_, bottom_ + kFoot, "#ffffff"});
    svg.text(kMargin, kMargin + 12, title(), "font-size=\"15\" font-weight=\"bold\"");
    for (int rank = 0; rank < s_.ranks; ++rank) drawLane(svg, rank);
    drawTime(svg);
    drawWords(svg);
    return std::move(svg).finish();
  }

 private:
  /// Pixels from the beginning of the step.
  int position(int64_t time) const { return static_cast<int>(time * kCell / shortest_); }
  static int left() { return kMargin + kLabel; }

  std::string title() const {
    return base::message(s_.name, ", ", countText(static_cast<uint64_t>(s_.ranks), "rank"), ", ",
                         s_.microBatches, s_.microBatches == 1 ? " micro-batch" : " micro-batches",
                         ": idle ", shareText(timeline_.bubble()));
  }

  void drawLane(Svg& svg, int rank) const {
    const int top = kMargin + kHead + rank * (kLane + kGap);
    svg.text(kMargin, top + 17, base::message("rank ", rank));
    svg.rectangle({left(), top, position(timeline_.end()), kLane, kIdle});
    for (const Span& span : timeline_.byRank[static_cast<size_t>(rank)]) {
      const int begin = position(span.begin), end = position(span.end);
      const auto& fill = coloursOf(span.action.kind).fill;
      svg.rectangle({left() + begin, top, end - begin, kLane,
                     fill[static_cast<size_t>(span.action.chunk) % fill.size()], kEdge});
      svg.text(left() + (begin + end) / 2, top + 17, std::to_string(span.action.microBatch),
               "text-anchor=\"middle\" font-size=\"11\"");
    }
  }

  /// The beginning, the end, and where there is room between.
  void drawTime(Svg& svg) const {
    const std::string end = numberText(timeline_.length());
    svg.line({left(), bottom_, left() + position(timeline_.end()), bottom_, kInk});
    svg.text(left(), bottom_ + 15, "0", "font-size=\"11\"");
    svg.text(left() + position(timeline_.end()), bottom_ + 15, end,
             "text-anchor=\"end\" font-size=\"11\"");
  }

  void drawWords(Svg& svg) const {
    int x = left();
    for (const Colours& colours : kColours) {
      if (colours.kind == ActionKind::W && !s_.splitsBackward) continue;
      for (int chunk = 0; chunk < std::min(s_.chunks, 4); ++chunk) {
        svg.rectangle({x, bottom_ + 28, 14, 14, colours.fill[static_cast<size_t>(chunk)]});
        x += 16;
      }
      const std::string words =
          colours.words +
          std::string(s_.chunks > 1 && colours.kind == ActionKind::F ? ", by chunk" : "");
      svg.text(x + 4, bottom_ + 40, words);
      x += 24 + static_cast<int>(words.size()) * kCharacter;
    }
  }

  const Schedule& s_;
  const Timeline& timeline_;
  int64_t shortest_;
  int width_ = 0, bottom_ = 0;
};

}  // namespace

std::string scheduleSvg(const Schedule& schedule, const parallel::Costs& costs) {
  const Timeline timeline = timelineOf(schedule, costs);
  return SchedulePicture(schedule, timeline).make();
}

}  // namespace tutti::tools
