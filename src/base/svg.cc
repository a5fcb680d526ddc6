#include "src/base/svg.h"

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::base {
namespace {

/// XML knows UTF-8 only, and of that not the last two characters of the first plane.
std::string withoutUnknown(const std::string& text) {
  std::string known = asUtf8(text);
  for (const char* unknown : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"})
    for (size_t at = 0; (at = known.find(unknown, at)) != std::string::npos;)
      known.replace(at, 3, "\xEF\xBF\xBD");
  return known;
}

std::string escape(const std::string& text) {
  std::string safe;
  for (const char c : withoutUnknown(text)) {
    const bool control = static_cast<unsigned char>(c) < ' ';  // XML has no way to write these
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else
      safe += control ? ' ' : c;
  }
  return safe;
}

std::string spaced(const std::string& attributes) {
  return attributes.empty() ? attributes : " " + attributes;
}

/// As large as it is drawn where there is room, else as wide as the page.
constexpr const char* kFits = "style=\"max-width:100%;height:auto\"";

}  // namespace

Svg::Svg(int width, int height, const std::string& title, int fontPixels)
    : document_(message("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"",
                        height, "\" viewBox=\"0 0 ", width, " ", height, "\" ", kFits,
                        " font-family=\"sans-serif\" font-size=\"", fontPixels, "\">\n<title>",
                        escape(title), "</title>\n")) {}

void Svg::defineArrow(const std::string& colour) {
  document_ += message(
      "<defs><marker id=\"head\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" "
      "orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"",
      colour, "\"/></marker></defs>\n");
}

void Svg::rectangle(const Rectangle& r) {
  document_ +=
      message("<rect x=\"", r.x, "\" y=\"", r.y, "\" width=\"", r.width, "\" height=\"", r.height,
              "\" rx=\"", r.radius, "\" fill=\"", r.fill, "\" stroke=\"", r.stroke, "\"/>\n");
}

void Svg::line(const Line& l) {
  document_ += message("<line x1=\"", l.x1, "\" y1=\"", l.y1, "\" x2=\"", l.x2, "\" y2=\"", l.y2,
                       "\" stroke=\"", l.stroke, "\"", spaced(l.attributes), "/>\n");
}

void Svg::text(int x, int y, const std::string& text, const std::string& attributes) {
  document_ += message("<text x=\"", x, "\" y=\"", y, "\"", spaced(attributes), ">", escape(text),
                       "</text>\n");
}

std::string Svg::finish() && { return std::move(document_) + "</svg>\n"; }

}  // namespace tutti::base
