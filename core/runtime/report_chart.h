// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace nf {

// A line chart as SVG, for reports. Colours are classes of the page's style. Where points are many, one bucket every two pixels: its median
// is the line, its least and its most the band, so that no sample disappears.
struct ReportChart {
  struct Point {
    double x = 0, y = 0;
  };
  // Named where it happened, if there is room; always a tick with the title.
  struct Mark {
    double x = 0;
    std::string name, title;
    double weight = 0;  // the heaviest of those at one place gives the name
  };
  struct Reference {
    double y = 0;
    std::string label;
    bool dotted = false;
  };
  std::string title, note, xLabel;
  bool logarithmic = false;  // where the range spans more than a factor of ten
  bool percent = false;
  double width = 1000, height = 280;
  std::string unit;       // behind the numbers of the axis, " ms"
  std::string lastLabel;  // beside the last point
  std::vector<Point> points;
  std::vector<Mark> marks;
  std::vector<Reference> references;
  std::vector<Point> rings;  // single points worth a ring: a crossing

  std::string svg() const;  // with <figure>; empty where there is nothing to draw
};

}  // namespace nf
