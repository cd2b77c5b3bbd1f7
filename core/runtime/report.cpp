// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/runtime/data_file.h"
#include "core/runtime/run_folder.h"

namespace nf {
namespace {

using Json = nlohmann::json;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string number(double value, int digits = 4) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

struct Point {
  double x = 0, y = 0;
};
struct Mark {
  double x = 0;
  std::string title;
};

// A line chart as SVG; each point of a line is a bucket's median where there are more than fit, its range a band.
class Chart {
 public:
  Chart(std::string title, std::string xLabel, std::string yLabel, bool logarithmic)
      : m_title(std::move(title)), m_xLabel(std::move(xLabel)), m_yLabel(std::move(yLabel)), m_log(logarithmic) {}
  std::vector<Point> points;
  std::vector<Mark> marks;
  std::optional<double> reference;
  std::string referenceLabel;

  std::string svg() const {
    if (points.empty()) return {};
    double x0 = points.front().x, x1 = points.back().x, y0 = INFINITY, y1 = -INFINITY;
    for (const Point& p : points) {
      if (!std::isfinite(p.y) || (m_log && p.y <= 0)) continue;
      y0 = std::min(y0, p.y);
      y1 = std::max(y1, p.y);
    }
    if (reference) {
      y0 = std::min(y0, *reference);
      y1 = std::max(y1, *reference);
    }
    if (!std::isfinite(y0)) return {};
    if (x1 <= x0) x1 = x0 + 1;
    if (m_log) {
      y0 = std::log10(y0) - 0.05;
      y1 = std::log10(y1) + 0.05;
    }
    if (y1 <= y0) {
      y0 -= 0.5;
      y1 += 0.5;
    }
    const auto X = [&](double x) { return kLeft + (x - x0) / (x1 - x0) * (kWidth - kLeft - kRight); };
    const auto Y = [&](double y) {
      return kTop + (y1 - (m_log ? std::log10(std::max(y, 1e-300)) : y)) / (y1 - y0) * (kHeight - kTop - kBottom);
    };
    std::string s = "<figure><figcaption>" + escaped(m_title) + "</figcaption><svg viewBox=\"0 0 " + number(kWidth) + " " +
                    number(kHeight) + "\" role=\"img\">";
    for (const double y : ticks(y0, y1)) {
      const double at = kTop + (y1 - y) / (y1 - y0) * (kHeight - kTop - kBottom);
      s += "<line class=\"grid\" x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) + "\" y1=\"" + number(at) +
           "\" y2=\"" + number(at) + "\"/>";
      s += "<text x=\"" + number(kLeft - 6) + "\" y=\"" + number(at + 4) + "\" text-anchor=\"end\">" +
           number(m_log ? std::pow(10, y) : y, 3) + "</text>";
    }
    for (const double x : linearTicks(x0, x1))
      s += "<text x=\"" + number(X(x)) + "\" y=\"" + number(kHeight - kBottom + 16) + "\" text-anchor=\"middle\">" + number(x, 4) +
           "</text>";
    s += "<text x=\"" + number((kLeft + kWidth - kRight) / 2) + "\" y=\"" + number(kHeight - 4) + "\" text-anchor=\"middle\">" +
         escaped(m_xLabel) + "</text>";
    s += "<text x=\"4\" y=\"" + number(kTop - 8) + "\">" + escaped(m_yLabel) + "</text>";
    for (const Mark& m : marks)
      s += "<line class=\"mark\" x1=\"" + number(X(m.x), 6) + "\" x2=\"" + number(X(m.x), 6) + "\" y1=\"" + number(kTop) +
           "\" y2=\"" + number(kHeight - kBottom) + "\"><title>" + escaped(m.title) + "</title></line>";
    if (reference) {
      s += "<line class=\"reference\" x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) + "\" y1=\"" +
           number(Y(*reference)) + "\" y2=\"" + number(Y(*reference)) + "\"/><text class=\"reference\" x=\"" +
           number(kWidth - kRight) + "\" y=\"" + number(Y(*reference) - 5) + "\" text-anchor=\"end\">" + escaped(referenceLabel) +
           "</text>";
    }
    std::string band, line;
    constexpr std::size_t kBuckets = 500;
    const std::size_t per = (points.size() + kBuckets - 1) / kBuckets;
    std::vector<std::array<double, 4>> buckets;  // x, low, median, high
    for (std::size_t at = 0; at < points.size(); at += per) {
      std::vector<double> ys;
      for (std::size_t i = at; i < std::min(points.size(), at + per); ++i)
        if (std::isfinite(points[i].y)) ys.push_back(points[i].y);
      if (ys.empty()) continue;
      std::sort(ys.begin(), ys.end());
      buckets.push_back({points[at].x, ys.front(), ys[ys.size() / 2], ys.back()});
    }
    for (const auto& b : buckets) line += number(X(b[0]), 6) + "," + number(Y(b[2]), 6) + " ";
    if (per > 1) {
      for (const auto& b : buckets) band += number(X(b[0]), 6) + "," + number(Y(b[3]), 6) + " ";
      for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) band += number(X((*b)[0]), 6) + "," + number(Y((*b)[1]), 6) + " ";
      s += "<polygon class=\"band\" points=\"" + band + "\"/>";
    }
    s += "<polyline class=\"line\" points=\"" + line + "\"/>";
    if (buckets.size() <= 60)
      for (const auto& b : buckets)
        s += "<circle class=\"dot\" r=\"2.5\" cx=\"" + number(X(b[0]), 6) + "\" cy=\"" + number(Y(b[2]), 6) + "\"/>";
    return s + "</svg></figure>\n";
  }

 private:
  static constexpr double kWidth = 860, kHeight = 280, kLeft = 64, kRight = 16, kTop = 26, kBottom = 40;

  static std::vector<double> linearTicks(double low, double high) {
    const double raw = (high - low) / 6, power = std::pow(10, std::floor(std::log10(raw)));
    double step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
      if (power * factor >= raw) {
        step = power * factor;
        break;
      }
    std::vector<double> ticks;
    for (double t = std::ceil(low / step) * step; t <= high && ticks.size() < 20; t += step) ticks.push_back(t);
    return ticks;
  }
  std::vector<double> ticks(double low, double high) const {
    if (!m_log) return linearTicks(low, high);
    std::vector<double> ticks;
    for (double decade = std::floor(low); decade <= high; ++decade)
      for (const double factor : {1.0, 2.0, 5.0})
        if (const double t = decade + std::log10(factor); t >= low && t <= high) ticks.push_back(t);
    return ticks;
  }

  std::string m_title, m_xLabel, m_yLabel;
  bool m_log;
};

double real(const Json& j, const char* key, double otherwise = 0) {
  return j.contains(key) && j[key].is_number() ? j[key].get<double>() : otherwise;
}
std::string text(const Json& j, const char* key) {
  return j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : std::string();
}

void flatten(const Json& j, const std::string& prefix, std::string& rows) {
  for (const auto& [key, value] : j.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + ".", rows);
      continue;
    }
    rows += "<tr><td>" + escaped(prefix + key) + "</td><td>" +
            escaped(value.is_string() ? value.get<std::string>() : value.dump()) + "</td></tr>";
  }
}

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#1d232b;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:2px 14px 2px 0;text-align:left;border-bottom:1px solid "
    "#e3e7ec;font-variant-numeric:tabular-nums;vertical-align:top}"
    "figure{margin:1em 0}figcaption{font-weight:600}svg{width:100%;font:11px "
    "system-ui,sans-serif;fill:#5a6572}.grid{stroke:#e3e7ec}"
    ".line{fill:none;stroke:#2563eb;stroke-width:1.5}.band{fill:#2563eb;opacity:.15}.dot{fill:#2563eb}.mark{stroke:#d97706;stroke-"
    "dasharray:2 3}"
    ".reference{stroke:#b91c1c;stroke-dasharray:6 4}text.reference{stroke:none;fill:#b91c1c}details{margin:.5em 0}"
    "@media(prefers-color-scheme:dark){body{color:#dfe5ec;background:#14181d}td,th{border-color:#2b333d}.grid{stroke:#2b333d}svg{"
    "fill:#9aa6b2}"
    ".line,.dot{stroke:#6ea8fe}.dot{fill:#6ea8fe}.band{fill:#6ea8fe}}";

}  // namespace

Result<std::string> htmlReport(const std::string& runFolder, const ReportOptions& options) {
  NF_TRY(const auto steps, readSteps(runFolder + "/steps.bin"));
  NF_TRY(const std::string runText, readFile(runFolder + "/run.json"));
  NF_TRY(const std::string eventText, readFile(runFolder + "/events.jsonl"));
  const Json run = Json::parse(runText, nullptr, false);
  Chart latency("Step latency", "seconds since training began", "ms", true), loss("Training loss", "step", "", false),
      accuracy("Held-out accuracy", "step", "", false), heldOutLoss("Held-out loss", "step", "", false);
  std::string swapRows, summary;
  std::int64_t trials = 0, failed = 0, swaps = 0;
  for (std::size_t at = 0; at < eventText.size();) {
    const std::size_t end = std::min(eventText.find('\n', at), eventText.size());
    const Json e = Json::parse(eventText.begin() + static_cast<std::ptrdiff_t>(at),
                               eventText.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    at = end + 1;
    if (!e.is_object()) continue;
    const std::string kind = text(e, "event");
    if (kind == "kernel_swap") {
      ++swaps;
      const double before = real(e, "before_us"), after = real(e, "after_us");
      latency.marks.push_back({real(e, "seconds"), text(e, "name") + ": " + number(before) + " to " + number(after) + " us"});
      swapRows += "<tr><td>" + number(real(e, "seconds")) + "</td><td>" + number(real(e, "step"), 9) + "</td><td>" +
                  escaped(text(e, "name")) + "</td><td>" + number(before) + "</td><td>" + number(after) + "</td><td>" +
                  number(real(e, "generation"), 9) + "</td></tr>";
    } else if (kind == "trial") {
      ++trials;
      failed += text(e, "status") != "ok" && text(e, "status") != "slow";
    } else if (kind == "eval") {
      if (e.contains("accuracy") && e["accuracy"].is_number())
        accuracy.points.push_back({real(e, "step"), e["accuracy"].get<double>()});
      if (e.contains("loss") && e["loss"].is_number()) heldOutLoss.points.push_back({real(e, "step"), e["loss"].get<double>()});
    } else if (kind == "done" || kind == "error") {
      std::string rows;
      flatten(e, "", rows);
      summary += "<table>" + rows + "</table>";
    }
  }
  double total = 0;
  for (const StepRow& s : steps) {
    latency.points.push_back({s.seconds, s.milliseconds});
    loss.points.push_back({static_cast<double>(s.step), s.loss});
    total += s.milliseconds;
  }
  std::string crossing;
  if (options.peerStepMilliseconds) {
    latency.reference = options.peerStepMilliseconds;
    latency.referenceLabel = options.peerName + ", " + number(*options.peerStepMilliseconds) + " ms";
    // From the first of ten steps in a row that are all faster.
    constexpr std::size_t kRun = 10;
    std::size_t faster = 0;
    for (std::size_t i = 0; i < steps.size() && crossing.empty(); ++i) {
      faster = steps[i].milliseconds < *options.peerStepMilliseconds ? faster + 1 : 0;
      if (faster == kRun)
        crossing = "<p>Faster than " + escaped(options.peerName) + "'s step from step " + std::to_string(steps[i + 1 - kRun].step) +
                   " on, " + number(steps[i + 1 - kRun].seconds) + " s after training began.</p>";
    }
    if (crossing.empty()) crossing = "<p>Never faster than " + escaped(options.peerName) + "'s step for ten steps in a row.</p>";
  }
  const std::string title = options.title.empty() ? text(run, "notebook") : options.title;
  std::string html =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>" +
      escaped(title) + "</title><style>" + kStyle + "</style><h1>" + escaped(title) + "</h1>";
  html += "<p>" + std::to_string(steps.size()) + " steps, " + std::to_string(swaps) + " kernel swaps, " + std::to_string(trials) +
          " trials (" + std::to_string(failed) + " failed).</p>" + summary;
  html += "<h2>Latency</h2>" + latency.svg() + crossing + "<h2>Learning</h2>" + loss.svg() + accuracy.svg() + heldOutLoss.svg();
  if (!swapRows.empty())
    html += "<h2>Kernel swaps</h2><details open><summary>" + std::to_string(swaps) +
            " swaps</summary><table><tr><th>s</th><th>step</th><th>kernel</th><th>before, us</th><th>after, "
            "us</th><th>generation</th></tr>" +
            swapRows + "</table></details>";
  std::string settings;
  if (run.is_object()) flatten(run, "", settings);
  html += "<h2>Settings and machine</h2><table>" + settings + "</table></html>\n";
  return html;
}

}  // namespace nf
