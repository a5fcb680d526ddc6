// Pictures as SVG documents.

#include "src/base/svg.h"

#include <gtest/gtest.h>

namespace tutti::base {
namespace {

TEST(Svg, IsADocumentOfItsPiecesInOrder) {
  Svg svg(20, 10, "a title", 8);
  svg.defineArrow("#205080");
  svg.rectangle({.x = 1, .y = 2, .width = 3, .height = 4, .fill = "#ffffff", .radius = 5});
  svg.line({.x1 = 1, .y1 = 2, .x2 = 3, .y2 = 4, .stroke = "#000000", .attributes = Svg::arrowEnd});
  svg.text(5, 6, "words", "text-anchor=\"middle\"");
  EXPECT_EQ(std::move(svg).finish(),
            R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10" )svg"
            R"svg(viewBox="0 0 20 10" style="max-width:100%;height:auto" )svg"
            R"svg(font-family="sans-serif" font-size="8">
<title>a title</title>
<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" )svg"
            R"svg(orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#205080"/></marker></defs>
<rect x="1" y="2" width="3" height="4" rx="5" fill="#ffffff" stroke="none"/>
<line x1="1" y1="2" x2="3" y2="4" stroke="#000000" marker-end="url(#head)"/>
<text x="5" y="6" text-anchor="middle">words</text>
</svg>
)svg");
}

TEST(Svg, EscapesText) {
  Svg svg(1, 1, "a < b");
  svg.text(0, 0, "<&>\n\x01\"");
  const std::string document = std::move(svg).finish();
  EXPECT_NE(document.find("<title>a &lt; b</title>"), std::string::npos) << document;
  EXPECT_NE(document.find(">&lt;&amp;&gt;  \"</text>"), std::string::npos) << document;
}

TEST(Svg, IsUtf8WhateverTheTextIs) {
  Svg svg(1, 1, "h\xF6st");
  svg.text(0, 0, "\xEF\xBF\xBE \xEF\xBF\xBF \xC3\xB6");
  const std::string document = std::move(svg).finish();
  EXPECT_NE(document.find("<title>h\xEF\xBF\xBDst</title>"), std::string::npos) << document;
  EXPECT_NE(document.find(">\xEF\xBF\xBD \xEF\xBF\xBD \xC3\xB6</text>"), std::string::npos)
      << document;
}

}  // namespace
}  // namespace tutti::base
