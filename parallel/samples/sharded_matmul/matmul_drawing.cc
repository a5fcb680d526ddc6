#include "parallel/samples/sharded_matmul/matmul_drawing.h"

#include <algorithm>

#include "parallel/engine/describe.h"
#include "parallel/samples/drawing.h"

namespace tutti::parallel {

namespace {

using tutti::base::Svg;

constexpr int kTitle = 34, kSide = 104, kArrow = 118, kSign = 36, kStack = 18;
constexpr int kBand = kSide + 88;  // a product
constexpr const char* kAllRanks = "#dfe7ee";

/// The elements that some ranks have; of a sum, the same summand of it.
struct MatrixBlock {
  Box box;
  MeshPlace summand{};  // along the partial axes; elsewhere 0
  std::vector<int> ranks;
};

/// Those of a matrix, by their first ranks.
std::vector<MatrixBlock> blocksOf(const Shape& global, const Layout& layout,
                                  const MeshShape& mesh) {
  std::vector<MatrixBlock> blocks;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const MeshPlace place = placeOf(mesh, rank);
    MatrixBlock block{.box = boxOf(global, layout, mesh, place), .ranks = {rank}};
    for (int i = 0; i < kAxisCount; ++i)
      if (layout.partial.contains(static_cast<Axis>(i)))
        block.summand[static_cast<size_t>(i)] = place[static_cast<size_t>(i)];
    const auto same = std::ranges::find_if(blocks, [&](const MatrixBlock& b) {
      return b.box == block.box && b.summand == block.summand;
    });
    if (same == blocks.end())
      blocks.push_back(block);
    else
      same->ranks.push_back(rank);
  }
  return blocks;
}

std::string ranksText(const MatrixBlock& block, int ranks) {
  if (static_cast<int>(block.ranks.size()) == ranks) return "all ranks";
  std::string text;
  for (const int rank : block.ranks) text += message(text.empty() ? "" : ",", rank);
  return text;
}

class MatmulPicture {
 public:
  MatmulPicture(const std::vector<DrawnProduct>& products, const LetteredMesh& mesh,
                size_t elementBytes)
      : products_(products), mesh_(mesh), elementBytes_(elementBytes) {}

  std::string make() const {
    int width = 480;
    for (const DrawnProduct& p : products_) width = std::max(width, widthOf(p));
    const int height = 2 * kMargin + kTitle + static_cast<int>(products_.size()) * kBand;
    Svg svg(width, height, "sharded_matmul");
    svg.defineArrow(kInk);
    svg.rectangle({0, 0, width, height, "#ffffff"});
    svg.text(
        kMargin, kMargin + 12,
        message("Products of sharded matrices on ", describe(mesh_), ": ranks by their numbers"),
        "font-size=\"15\" font-weight=\"bold\"");
    for (size_t i = 0; i < products_.size(); ++i)
      drawProduct(svg, products_[i], kMargin + kTitle + static_cast<int>(i) * kBand);
    return std::move(svg).finish();
  }

 private:
  static int widthOf(const DrawnProduct& p) {
    const auto steps =
        static_cast<int>(p.way.stepsOfA.size() + p.way.stepsOfB.size() + p.way.stepsOfC.size());
    return 2 * kMargin + (3 + steps) * kSide + steps * kArrow + 2 * kSign + kStack;
  }

  void drawProduct(Svg& svg, const DrawnProduct& p, int top) const {
    svg.text(kMargin, top + 12, describe(p.product, mesh_.letters), "font-weight=\"bold\"");
    int x = kMargin;
    const int y = top + 24;
    x = drawChain(svg, p, p.product.a, p.way.stepsOfA, x, y);
    x = drawSign(svg, "·", x, y);
    x = drawChain(svg, p, p.product.b, p.way.stepsOfB, x, y);
    x = drawSign(svg, "=", x, y);
    drawChain(svg, p, p.way.multiplied.c, p.way.stepsOfC, x, y);
  }

  static int drawSign(Svg& svg, const char* sign, int x, int y) {
    svg.text(x + kSign / 2, y + kSide / 2 + 6, sign, "text-anchor=\"middle\" font-size=\"20\"");
    return x + kSign;
  }

  /// A matrix before, between and after its steps. Returns where it ends.
  int drawChain(Svg& svg, const DrawnProduct& p, Term term,
                const std::vector<RedistributionStep>& steps, int x, int y) const {
    x = drawMatrix(svg, p, term, x, y);
    for (const RedistributionStep& step : steps) {
      drawStep(svg, step, x, y + kSide / 2);
      term.layout = step.after;
      x = drawMatrix(svg, p, term, x + kArrow, y);
    }
    return x;
  }

  void drawStep(Svg& svg, const RedistributionStep& step, int x, int y) const {
    const size_t bytes = static_cast<size_t>(step.sent) * elementBytes_;
    svg.line({x + 10, y, x + kArrow - 4, y, kInk, Svg::arrowEnd});
    svg.text(x + kArrow / 2, y - 8, message(toString(step.move), " ", mesh_.letters[step.axis]),
             kMiddle);
    svg.text(x + kArrow / 2, y + 18,
             bytes == 0 ? "nothing is sent" : message("sends ", bytesText(bytes)), kMiddle);
  }

  int drawMatrix(Svg& svg, const DrawnProduct& p, const Term& term, int x, int y) const {
    const Shape global = globalShape(term, p.sizes);
    const std::vector<MatrixBlock> blocks = blocksOf(global, term.layout, mesh_.shape);
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      // Summands of the same elements lie behind each other.
      const auto same = [&](const MatrixBlock& b) { return b.box == block->box; };
      const auto summands = static_cast<int>(std::ranges::count_if(blocks, same));
      const auto before = static_cast<int>(std::count_if(blocks.begin(), block, same));
      const int shift = summands == 1 ? 0 : before * kStack / (summands - 1);
      drawBlock(svg, *block, global, x + shift, y + shift);
      if (summands > 1 && before + 1 == summands)
        drawWords(svg, *block, global, x + shift, y + shift, message(summands, " summands"));
      if (summands == 1) drawWords(svg, *block, global, x, y, ranksText(*block, ranks()));
    }
    svg.text(x + kSide / 2, y + kSide + 36, describe(term, mesh_.letters),
             "text-anchor=\"middle\"");
    return x + kSide + (term.layout.partial.empty() ? 0 : kStack);
  }

  int ranks() const { return mesh_.shape.ranks(); }

  /// Pixels from the corner of a matrix.
  struct Area {
    int left, right, upper, lower;
  };
  static Area areaOf(const Box& box, const Shape& global) {
    const auto at = [&](int dimension, int64_t index) {
      return static_cast<int>(index * kSide / std::max<int64_t>(global[dimension], 1));
    };
    return {at(1, box[1].begin), at(1, box[1].end), at(0, box[0].begin), at(0, box[0].end)};
  }

  void drawBlock(Svg& svg, const MatrixBlock& block, const Shape& global, int x, int y) const {
    const Area a = areaOf(block.box, global);
    const bool all = static_cast<int>(block.ranks.size()) == ranks();
    if (a.left == a.right || a.upper == a.lower) return;
    svg.rectangle({x + a.left, y + a.upper, a.right - a.left, a.lower - a.upper,
                   all ? kAllRanks : rankColour(block.ranks[0]), kInk});
  }
  static void drawWords(Svg& svg, const MatrixBlock& block, const Shape& global, int x, int y,
                        const std::string& words) {
    const Area a = areaOf(block.box, global);
    if (a.left == a.right || a.upper == a.lower) return;
    svg.text(x + (a.left + a.right) / 2, y + (a.upper + a.lower) / 2 + 4, words, kMiddle);
  }

  const std::vector<DrawnProduct>& products_;
  const LetteredMesh& mesh_;
  const size_t elementBytes_;
};

}  // namespace

std::string matmulSvg(const std::vector<DrawnProduct>& products, const LetteredMesh& mesh,
                      size_t elementBytes) {
  requireDrawable(mesh.shape.ranks());
  return MatmulPicture(products, mesh, elementBytes).make();
}

}  // namespace tutti::parallel
