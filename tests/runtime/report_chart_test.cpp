// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

namespace nf {
namespace {

// However many decades there are, the numbers of the upright axis stand apart by more than they are high.
TEST(ReportChart, NumbersOfALogarithmicAxisStandApart) {
  for (const int decades : {2, 3, 4, 7, 12, 36, 80}) {
    SCOPED_TRACE(decades);
    ReportChart chart;
    chart.title = "loss", chart.logarithmic = true;
    for (int i = 0; i <= 100; ++i) chart.points.push_back({static_cast<double>(i), std::pow(10, -decades * i / 100.0)});
    const std::string svg = chart.svg();
    const std::regex number("<text class=\"axis\" x=\"[^\"]*\" y=\"([^\"]*)\" text-anchor=\"end\">");
    std::vector<double> places;
    for (std::sregex_iterator at(svg.begin(), svg.end(), number), none; at != none; ++at) places.push_back(std::stod((*at)[1]));
    EXPECT_GE(places.size(), 3u);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) EXPECT_GT(places[i] - places[i - 1], 12) << i;
  }
}

}  // namespace
}  // namespace nf
