// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/runtime/report.h"

namespace nf {
namespace {

std::string number(double value, int digits = 5) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

// "14,430" with a thin space, as the workbench writes it.
std::string grouped(double value) {
  std::string digits = number(std::round(value), 15);
  for (std::size_t at = digits.size(); at > 3 && digits[at - 4] != '-';) {
    at -= 3;
    digits.insert(at, "\u202f");
  }
  return digits;
}

std::vector<double> linearTicks(double low, double high, int most) {
  const double raw = (high - low) / most, power = std::pow(10, std::floor(std::log10(raw)));
  double step = power * 10;
  for (const double factor : {1.0, 2.0, 5.0})
    if (power * factor >= raw) {
      step = power * factor;
      break;
    }
  std::vector<double> ticks;
  for (double t = std::ceil(low / step) * step; t <= high + step * 1e-9 && ticks.size() < 20; t += step)
    ticks.push_back(std::abs(t) < step * 1e-6 ? 0 : t);
  return ticks;
}

// Few enough to be read, however many decades there are.
std::vector<double> decadeTicks(double low, double high) {
  constexpr int kMostDecades = 6, kMostWithin = 3;  // within: 2 and 5 of each are told, too
  const int first = static_cast<int>(std::floor(std::log10(low))), decades = static_cast<int>(std::ceil(std::log10(high / low)));
  const int apart = std::max(1, (decades + kMostDecades - 1) / kMostDecades);  // decades
  std::vector<double> ticks;
  for (int e = first - first % apart - apart; std::pow(10, e) <= high; e += apart)
    for (const double factor : {1.0, 2.0, 5.0})
      if (const double t = factor * std::pow(10, e); t >= low && t <= high && (factor == 1 || decades <= kMostWithin))
        ticks.push_back(t);
  return ticks;
}

struct Bucket {
  double x, low, middle, high;
};

std::vector<Bucket> bucketed(const std::vector<ReportChart::Point>& points, std::size_t most) {
  std::vector<Bucket> out;
  const std::size_t per = std::max<std::size_t>(1, (points.size() + most - 1) / most);
  for (std::size_t at = 0; at < points.size(); at += per) {
    std::vector<double> values;
    const std::size_t end = std::min(points.size(), at + per);
    for (std::size_t i = at; i < end; ++i)
      if (std::isfinite(points[i].y)) values.push_back(points[i].y);
    if (values.empty()) continue;
    std::sort(values.begin(), values.end());
    out.push_back({points[end - 1].x, values.front(), values[values.size() / 2], values.back()});
  }
  return out;
}

struct Box {
  double left, top, right, bottom;
  bool meets(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

double widthOf(const std::string& text) {
  double characters = 0;
  for (const char c : text) characters += (c & 0xC0) != 0x80;
  return characters * 6.1 + 4;  // 11 px of a plain face
}

}  // namespace

std::string ReportChart::svg() const {
  const double left = 62, right = lastLabel.empty() ? 20 : 78, top = 14, bottom = 40;
  const auto buckets = bucketed(points, static_cast<std::size_t>(std::max(40.0, (width - left - right) / 2)));
  if (buckets.empty()) return {};
  double y0 = HUGE_VAL, y1 = -HUGE_VAL;
  for (const Bucket& b : buckets) y0 = std::min(y0, b.low), y1 = std::max(y1, b.high);
  for (const Reference& r : references) y0 = std::min(y0, r.y), y1 = std::max(y1, r.y);
  const bool log = logarithmic && y0 > 0 && y1 / y0 > 10;
  double x0 = std::min(0.0, points.front().x), x1 = points.back().x;
  if (x1 <= x0) x1 = x0 + 1;
  if (y1 <= y0) y0 -= 0.5, y1 += 0.5;
  if (log) y0 /= 1.15, y1 *= 1.3;
  else {
    const double room = (y1 - y0) * 0.08;
    y0 = y0 >= 0 ? std::max(0.0, y0 - room) : y0 - room;
    y1 = percent ? std::min(1.0 + room, y1 + room) : y1 + room;
  }
  const auto X = [&](double x) { return left + (x - x0) / (x1 - x0) * (width - left - right); };
  const auto Y = [&](double y) {
    const double t = log ? (std::log(y1) - std::log(std::max(y, 1e-300))) / (std::log(y1) - std::log(y0)) : (y1 - y) / (y1 - y0);
    return top + std::clamp(t, 0.0, 1.0) * (height - top - bottom);
  };
  std::string s = "<figure><figcaption><b>" + htmlEscaped(title) + "</b> <span>" + htmlEscaped(note) +
                  "</span></figcaption><svg viewBox=\"0 0 " + number(width) + " " + number(height) +
                  "\" role=\"img\" aria-label=\"" + htmlEscaped(title) + "\">";
  const auto line = [&](const char* kind, double ax, double ay, double bx, double by) {
    s += std::string("<line class=\"") + kind + "\" x1=\"" + number(ax) + "\" y1=\"" + number(ay) + "\" x2=\"" + number(bx) +
         "\" y2=\"" + number(by) + "\"/>";
  };
  const auto text = [&](const char* kind, double x, double y, const char* anchor, const std::string& words) {
    s += std::string("<text class=\"") + kind + "\" x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
         "\">" + htmlEscaped(words) + "</text>";
  };
  for (const double y : log ? decadeTicks(y0, y1) : linearTicks(y0, y1, 5)) {
    line("grid", left, Y(y), width - right, Y(y));
    text("axis", left - 8, Y(y) + 4, "end", percent ? number(y * 100, 4) + " %" : number(y, 4) + unit);
  }
  for (const double x : linearTicks(x0, x1, 8)) {
    line("grid", X(x), top, X(x), height - bottom);
    text("axis", X(x), height - bottom + 16, "middle", x1 >= 1000 ? grouped(x) : number(x, 4));
  }
  text("axis", (left + width - right) / 2, height - 6, "middle", xLabel);

  std::vector<Box> taken;
  std::string band, path;
  for (const Bucket& b : buckets) {
    path += number(X(b.x)) + "," + number(Y(b.middle)) + " ";
    band += number(X(b.x)) + "," + number(Y(b.high)) + " ";
    taken.push_back({X(b.x) - 2, Y(b.high) - 2, X(b.x) + 2, Y(b.low) + 2});
  }
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) band += number(X(b->x)) + "," + number(Y(b->low)) + " ";
  for (const Mark& m : marks) {
    s += "<line class=\"mark\" x1=\"" + number(X(m.x)) + "\" x2=\"" + number(X(m.x)) + "\" y1=\"" + number(top) + "\" y2=\"" +
         number(height - bottom) + "\"><title>" + htmlEscaped(m.title) + "</title></line>";
  }
  if (points.size() > buckets.size()) s += "<polygon class=\"band\" points=\"" + band + "\"/>";
  s += "<polyline class=\"line\" points=\"" + path + "\"/>";
  if (buckets.size() <= 60)
    for (const Bucket& b : buckets)
      s += "<circle class=\"ring\" r=\"2.6\" cx=\"" + number(X(b.x)) + "\" cy=\"" + number(Y(b.middle)) + "\"/>";
  const auto place = [&](double x, double y, const std::string& words, int rows, bool before) -> std::optional<Box> {
    const double w = widthOf(words);
    for (int row = 0; row <= rows; ++row)
      for (const bool leftward : {before, !before}) {
        const double bx = leftward ? x - w - 4 : x + 4, by = y - 4 - row * 13.0;
        const Box box{bx, by - 11, bx + w, by + 2};
        if (box.left < left || box.right > width - 2 || box.top < 0 || box.bottom > height - bottom) continue;
        if (std::any_of(taken.begin(), taken.end(), [&](const Box& t) { return t.meets(box); })) continue;
        taken.push_back(box);
        return box;
      }
    return std::nullopt;
  };
  const Bucket& last = buckets.back();
  s += "<circle class=\"dot\" r=\"3.5\" cx=\"" + number(X(last.x)) + "\" cy=\"" + number(Y(last.middle)) + "\"/>";
  if (!lastLabel.empty()) text("strong", X(last.x) + 9, Y(last.middle) + 4, "start", lastLabel);
  for (const Reference& r : references) {
    line(r.dotted ? "dotted" : "dashed", left, Y(r.y), width - right, Y(r.y));
    // Above the line, else below it, at the right, else further left.
    std::optional<Box> box;
    for (double x = width - right; !box && x > left + 120; x -= 60)
      for (const double y : {Y(r.y), Y(r.y) + 19})
        if (!box) box = place(x, y, r.label, 0, true);
    if (box) text("axis", box->right, box->bottom - 2, "end", r.label);
    taken.push_back({left, Y(r.y) - 1, width - right, Y(r.y) + 1});
  }
  for (const Point& p : rings) s += "<circle class=\"ring\" r=\"5\" cx=\"" + number(X(p.x)) + "\" cy=\"" + number(Y(p.y)) + "\"/>";
  for (std::size_t i = 0; i < marks.size();) {
    std::size_t end = i + 1, chief = i;
    while (end < marks.size() && X(marks[end].x) - X(marks[i].x) < 10) {
      if (marks[end].weight > marks[chief].weight) chief = end;
      ++end;
    }
    std::string words = marks[chief].name;
    if (end - i > 1) words += " and " + std::to_string(end - i - 1) + " more";
    const auto at = std::lower_bound(buckets.begin(), buckets.end(), marks[i].x, [](const Bucket& b, double x) { return b.x < x; });
    const double y = Y(at == buckets.end() ? last.high : at->high);
    if (const auto box = place(X(marks[i].x), y, words, 16, false)) text("name", box->left, box->bottom - 2, "start", words);
    i = end;
  }
  return s + "</svg></figure>\n";
}

}  // namespace nf
