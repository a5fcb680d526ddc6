#include "parallel/samples/ring_attention/ring_drawing.h"

#include <algorithm>
#include <array>

#include "parallel/samples/drawing.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

using tutti::base::Svg;

constexpr int kLabel = 130, kHead = 64, kFoot = 44;
constexpr int kSquare = 44, kBar = 20, kWidth = 2 * kSquare, kHeight = kBar + 2 * kSquare;
constexpr int kAcross = kWidth + 52, kDown = kHeight + 26;  // from a cell to the next one
constexpr const char* kComputed = "#9fc5e8";
constexpr const char* kDiagonal = "#d6e6f5";
constexpr const char* kSkipped = "#f7f7f7";

struct PairKind {
  const char* fill;
  const char* words;
};
constexpr PairKind kKinds[] = {{kComputed, "computed"},
                               {kDiagonal, "computed up to the diagonal"},
                               {kSkipped, "skipped: the causal mask hides these keys"}};

class RingPicture {
 public:
  explicit RingPicture(const SequenceCut& cut)
      : cut_(cut),
        width_(std::max(640, 2 * kMargin + kLabel + cut.ranks * kAcross)),
        bottom_(kMargin + kHead + cut.ranks * kDown) {}

  std::string make() const {
    Svg svg(width_, bottom_ + kFoot, "ring_attention");
    svg.defineArrow(kInk);
    svg.rectangle({0, 0, width_, bottom_ + kFoot, "#ffffff"});
    svg.text(kMargin, kMargin + 12,
             message("Ring attention, ", cut_.ranks, cut_.ranks == 1 ? " rank" : " ranks", ", ",
                     cut_.length, " positions in ", 2 * cut_.ranks, " pieces"),
             "font-size=\"15\" font-weight=\"bold\"");
    for (int step = 0; step < cut_.ranks; ++step)
      svg.text(left(step), kMargin + kHead - 14, message("step ", step));
    for (int rank = 0; rank < cut_.ranks; ++rank) {
      drawLabel(svg, rank);
      for (int step = 0; step < cut_.ranks; ++step) drawCell(svg, rank, step);
    }
    drawWords(svg);
    return std::move(svg).finish();
  }

 private:
  static int left(int step) { return kMargin + kLabel + step * kAcross; }
  static int top(int rank) { return kMargin + kHead + rank * kDown; }
  /// Of the sequence, as a rank has them.
  std::array<int, 2> piecesOf(int rank) const { return {rank, 2 * cut_.ranks - 1 - rank}; }

  void drawLabel(Svg& svg, int rank) const {
    const auto [early, late] = piecesOf(rank);
    svg.text(kMargin, top(rank) + kBar + 18, message("rank ", rank), "font-weight=\"bold\"");
    svg.text(kMargin, top(rank) + kBar + 36, message("queries ", early, " and ", late));
  }

  void drawCell(Svg& svg, int rank, int step) const {
    const int owner = cut_.ownerOf(rank, step), x = left(step), y = top(rank);
    svg.rectangle({x, y, kWidth, kBar, rankColour(owner), kInk});
    svg.text(x + kWidth / 2, y + 14, message("K, V of rank ", owner), kMiddle);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) drawPair(svg, x, y + kBar, {rank, i}, {owner, j});
    if (step + 1 == cut_.ranks) return;
    const bool wraps = rank + 1 == cut_.ranks;
    const int from = x + kWidth, to = left(step + 1);
    svg.line({from, y + kBar / 2, to, (wraps ? top(0) : top(rank + 1)) + kBar / 2, kInk,
              message(Svg::arrowEnd, wraps ? " stroke-dasharray=\"4 3\"" : "")});
  }

  struct Piece {
    int rank, index;  // 0: the early one
  };
  void drawPair(Svg& svg, int x, int y, const Piece& queries, const Piece& keys) const {
    const auto at = [&](const Piece& p) {
      return cut_.pieces(p.rank)[static_cast<size_t>(p.index)];
    };
    const auto number = [&](const Piece& p) {
      return piecesOf(p.rank)[static_cast<size_t>(p.index)];
    };
    const bool seen = SequenceCut::sees(at(queries), at(keys));
    const char* fill = !seen ? kSkipped : number(queries) == number(keys) ? kDiagonal : kComputed;
    const int left = x + keys.index * kSquare, top = y + queries.index * kSquare;
    svg.rectangle({left, top, kSquare, kSquare, fill, "#a0a0a0"});
    if (seen)
      svg.text(left + kSquare / 2, top + kSquare / 2 + 4,
               message("q", number(queries), " k", number(keys)), kMiddle);
  }

  void drawWords(Svg& svg) const {
    int x = kMargin;
    for (const PairKind& kind : kKinds) {
      svg.rectangle({x, bottom_ + 8, 16, 16, kind.fill, "#a0a0a0"});
      svg.text(x + 22, bottom_ + 20, kind.words);
      x += 50 + 7 * static_cast<int>(std::string(kind.words).size());
    }
  }

  const SequenceCut cut_;
  const int width_, bottom_;
};

}  // namespace

std::string ringSvg(const SequenceCut& cut) {
  requireDrawable(cut.ranks);
  return RingPicture(cut).make();
}

}  // namespace tutti::parallel
