#pragma once

// Writing a picture as an SVG document, piece by piece: what is written later lies above.

#include <string>

namespace tutti::base {

/// Coordinates are pixels from the upper left corner. A document that is wider than the page it is
/// shown on is scaled to it. Colours are SVG's: "#205080", "none".
class Svg {
 public:
  /// `title` is what a browser shows; `fontPixels` holds for text that names no size of its own.
  Svg(int width, int height, const std::string& title, int fontPixels = 12);

  /// Lines may end in an arrow of one colour, from now on: see `arrowEnd`.
  void defineArrow(const std::string& colour);
  static constexpr const char* arrowEnd = "marker-end=\"url(#head)\"";

  struct Rectangle {
    int x, y, width, height;
    std::string fill = "none", stroke = "none";
    int radius = 0;
  };
  void rectangle(const Rectangle& r);
  struct Line {
    int x1, y1, x2, y2;
    std::string stroke;
    std::string attributes = {};  ///< as they stand in the document
  };
  void line(const Line& l);
  /// `attributes` as they stand in the document: "text-anchor=\"middle\"". The text is escaped.
  void text(int x, int y, const std::string& text, const std::string& attributes = {});

  /// The whole document, once.
  std::string finish() &&;

 private:
  std::string document_;
};

}  // namespace tutti::base
