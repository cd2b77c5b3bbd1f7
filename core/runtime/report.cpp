// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/protocol/latency.h"
#include "core/runtime/data_file.h"
#include "core/runtime/report_chart.h"
#include "core/runtime/run_folder.h"
#include "core/support/row_names.h"

namespace nf {
namespace {

using Json = nlohmann::json;

std::string number(double value, int digits = 4) {
  char text[40];
  const bool whole = std::abs(value) >= std::pow(10, digits) && std::abs(value) < 1e15;
  if (whole) std::snprintf(text, sizeof text, "%.0f", value);
  else std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string milliseconds(double ms) { return ms >= 1000 ? number(ms * 1e-3, 3) + " s" : number(ms, 3) + " ms"; }

std::string microseconds(double us) {
  if (us >= 1e6) return number(us * 1e-6, 3) + " s";
  if (us >= 1e3) return number(us * 1e-3, 3) + " ms";
  return number(us, 3) + " \u00b5s";
}

double real(const Json& j, const char* key, double otherwise = 0) {
  return j.contains(key) && j[key].is_number() ? j[key].get<double>() : otherwise;
}
std::string text(const Json& j, const char* key) {
  return j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : std::string();
}

// A kernel by its last operator, whose result no other kernel makes: "W.next +4".
std::string shortName(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  const std::size_t last = name.rfind(" + ");
  std::string out = last == std::string::npos ? name : name.substr(last + 3);
  if (out.size() > most - 4) out = out.substr(0, most - 4) + "\u2026";
  std::size_t more = 0;
  for (std::size_t at = name.find(" + "); at != std::string::npos; at = name.find(" + ", at + 3)) ++more;
  return more ? out + " +" + std::to_string(more) : out;
}

void flatten(const Json& j, const std::string& prefix, std::string& rows) {
  for (const auto& [key, value] : j.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + ".", rows);
      continue;
    }
    rows += "<tr><td class=\"t\">" + htmlEscaped(prefix + key) + "</td><td class=\"t\">" +
            htmlEscaped(value.is_string() ? value.get<std::string>() : value.dump()) + "</td></tr>";
  }
}

std::string figure(const std::string& value, const std::string& name, const std::string& note = {}) {
  return "<div><strong>" + htmlEscaped(value) + "</strong><span>" + htmlEscaped(name) + "</span><small>" + htmlEscaped(note) +
         "</small></div>";
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct KernelRow {
  std::string name;
  std::int64_t trials = 0, failed = 0, swaps = 0;
  // Microseconds; 0: not timed. What is in use took its place by a comparison with what was before it: the best trial, which was timed for
  // itself, need not be it.
  double first = 0, inUse = 0, best = 0;
  double gain = 1;  // of all its swaps: each compared two kernels in turn, on its own
};

struct SwapRow {
  std::string name;
  double seconds = 0, step = 0;
  double before = 0, after = 0;  // microseconds; 0: not measured
  bool split = false;            // a fused kernel was split again
  std::int64_t beside = 0;       // kernels that were timed with it then
  std::string shown(std::size_t letters) const {
    return shortName(name, letters) +
           (beside > 0 ? " + " + std::to_string(beside) + (beside == 1 ? " other" : " others") : std::string()) +
           (split ? ", split again" : "");
  }
};

struct Run {
  Json settings, done;
  std::vector<StepRow> steps;
  std::vector<protocol::StepTime> times;  // of the samples that were told while it ran, which curves elsewhere are drawn of
  std::vector<SwapRow> swaps;
  std::map<std::string, KernelRow> kernels;      // by subgraph
  std::optional<std::set<std::string>> running;  // of them, in the newest step
  std::int64_t splits = 0;                       // of the swaps: fused kernels that were split again
  std::vector<ReportChart::Point> accuracy, heldOutLoss;
  std::map<std::string, std::string> evals;  // the newest value of each, as it is printed
  std::set<std::string> averaged;            // of them, over batches, and no means
  bool ofInputs = false;                     // no rows were held out
  double evaluatedAt = 0;                    // the step of the newest
  std::int64_t trials = 0, failed = 0;
};

bool isShare(const std::string& name, double value) { return name == "accuracy" && value >= 0 && value <= 1; }

std::string evalText(const std::string& name, double value) {
  return isShare(name, value) ? number(value * 100, 4) + " %" : number(value, 4);
}

Result<Run> readRun(const std::string& folder) {
  Run run;
  NF_TRY(run.steps, readSteps(folder + "/steps.bin"));
  NF_TRY(const std::string runText, readFile(folder + "/run.json"));
  NF_TRY(const std::string events, readFile(folder + "/events.jsonl"));
  run.settings = Json::parse(runText, nullptr, false);
  for (std::size_t at = 0; at < events.size();) {
    const std::size_t end = std::min(events.find('\n', at), events.size());
    Json e = Json::parse(events.begin() + static_cast<std::ptrdiff_t>(at), events.begin() + static_cast<std::ptrdiff_t>(end),
                         nullptr, false);
    at = end + 1;
    if (!e.is_object()) continue;
    const std::string kind = text(e, "event");
    if (kind == "step") {
      const auto step = static_cast<std::int64_t>(real(e, "step"));
      // What a lost device took along was made again.
      while (!run.times.empty() && run.times.back().step >= step) run.times.pop_back();
      if (real(e, "ms") > 0)
        run.times.push_back({step, real(e, "ms"), std::max<std::int64_t>(1, static_cast<std::int64_t>(real(e, "steps")))});
    } else if (kind == "kernel_swap") {
      KernelRow& k = run.kernels[text(e, "subgraph")];
      k.name = text(e, "name");
      ++k.swaps;
      const double before = real(e, "before_us"), after = real(e, "after_us");
      // As the comparison timed it, which the trial before it was not a part of.
      if (k.swaps == 1 && before > 0) k.first = before;
      k.inUse = after;
      k.gain = before > 0 && after > 0 ? k.gain * before / after : 0;
      run.swaps.push_back({k.name, real(e, "seconds"), real(e, "step"), before, after});
    } else if (kind == "fusion_reverted") {
      ++run.splits;
      const auto beside = std::max<std::int64_t>(1, static_cast<std::int64_t>(real(e, "fused_kernels"))) - 1;
      run.swaps.push_back(
          {text(e, "name"), real(e, "seconds"), real(e, "step"), real(e, "fused_us"), real(e, "split_us"), true, beside});
    } else if (kind == "step_kernels") {
      run.running.emplace();
      if (const auto ids = e.find("subgraphs"); ids != e.end() && ids->is_array())
        for (const Json& id : *ids)
          if (id.is_string()) run.running->insert(id.get<std::string>());
    } else if (kind == "trial") {
      KernelRow& k = run.kernels[text(e, "subgraph")];
      if (k.name.empty()) k.name = text(e, "name");
      const std::string status = text(e, "status");
      const bool bad = status != "ok" && status != "slow";
      const double us = real(e, "us");
      // A first kernel is told when it was checked and again when it was timed: one trial.
      const bool counted = e.contains("counted") && e["counted"].is_boolean() ? e["counted"].get<bool>() : us > 0 || bad;
      run.trials += counted, k.trials += counted;
      run.failed += bad, k.failed += bad;
      if (status == "ok" && us > 0) {
        if (k.first == 0) k.first = us;
        k.best = k.best == 0 ? us : std::min(k.best, us);
      }
    } else if (kind == "eval") {
      run.evaluatedAt = real(e, "step");
      run.ofInputs = e.contains("of_inputs") && e["of_inputs"].is_boolean() && e["of_inputs"].get<bool>();
      run.averaged.clear();
      if (e.contains("averaged") && e["averaged"].is_array())
        for (const Json& name : e["averaged"])
          if (name.is_string()) run.averaged.insert(name.get<std::string>());
      if (e.contains("values") && e["values"].is_object())
        for (const auto& [name, value] : e["values"].items())
          run.evals[name] = value.is_number()   ? evalText(name, value.get<double>())
                            : value.is_string() ? value.get<std::string>()
                                                : "";
      if (!run.ofInputs && e.contains("accuracy") && e["accuracy"].is_number())
        run.accuracy.push_back({real(e, "step"), real(e, "accuracy")});
      if (e.contains("loss") && e["loss"].is_number()) run.heldOutLoss.push_back({real(e, "step"), real(e, "loss")});
    } else if (kind == "done" || (kind == "error" && text(run.done, "event") != "done")) {
      run.done = std::move(e);
    }
  }
  return run;
}

std::string figuresOf(const Run& run, const ReportOptions& options) {
  const Json& d = run.done;
  std::string out = "<div class=\"figures\">";
  if (!d.is_object() || d.empty()) return out + figure("unfinished", "the run has no end on record") + "</div>\n";
  if (text(d, "event") == "error") return out + figure("failed", text(d, "message")) + "</div>\n";
  auto evals = run.evals;
  if (d.contains("accuracy") && d["accuracy"].is_number()) evals.emplace("accuracy", evalText("accuracy", real(d, "accuracy")));
  for (const auto& [name, value] : evals)
    out += figure(value,
                  name + (run.ofInputs ? " on the inputs" : " on held-out rows") +
                      (run.evaluatedAt < real(d, "steps") ? ", at step " + number(run.evaluatedAt, 12) : ""),
                  run.averaged.contains(name) ? "mean over batches, not of all rows at once" : "");
  const double first = real(d, "median_step_ms_first_tenth"), last = real(d, "median_step_ms_last_tenth");
  if (last > 0)
    out += figure(milliseconds(last), "median step, last tenth",
                  first > 0 ? milliseconds(first) + " in the first tenth, " + number(first / last, 3) + "\u00d7" : "");
  if (options.peerStepMilliseconds && last > 0)
    out += figure(number(*options.peerStepMilliseconds / last, 3) + "\u00d7", "the speed of " + options.peerName,
                  "whose step takes " + number(*options.peerStepMilliseconds, 3) + " ms");
  const double resumedAt = real(d, "resumed_at");
  out += figure(number(real(d, "seconds"), 3) + " s",
                number(real(d, "steps") - resumedAt, 9) + " steps" +
                    (resumedAt > 0 ? " since it was resumed from step " + number(resumedAt, 9) : ""),
                d.value("stopped", false) ? "stopped before its last step" : "");
  if (real(d, "first_step_ms") > 0) out += figure(milliseconds(real(d, "first_step_ms")), "to the first step");
  if (d.contains("loss") && d["loss"].is_number()) out += figure(number(real(d, "loss"), 3), "training loss");
  return out + "</div>\n";
}

std::string latencyOf(const Run& run, const ReportOptions& options) {
  ReportChart chart;
  chart.title = "Step latency";
  chart.note = "median, min and max; a tick for each kernel that was swapped in";
  chart.xLabel = "seconds since training began";
  chart.unit = " ms";
  chart.logarithmic = true;
  chart.height = 330;
  for (const StepRow& s : run.steps) chart.points.push_back({s.seconds, s.milliseconds});
  std::vector<double> begin, end;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (i < std::max<std::size_t>(10, run.steps.size() / 10)) begin.push_back(run.steps[i].milliseconds);
    if (i + std::max<std::size_t>(10, run.steps.size() / 10) >= run.steps.size()) end.push_back(run.steps[i].milliseconds);
  }
  if (!end.empty()) chart.lastLabel = milliseconds(median(end));
  if (!run.swaps.empty() && !begin.empty())
    chart.references.push_back({median(begin), "first tenth, " + number(median(begin), 3) + " ms", true});
  for (const SwapRow& s : run.swaps)
    chart.marks.push_back({s.seconds, shortName(s.name, 18) + (s.split ? " split" : ""),
                           s.shown(std::string::npos) + ": " + (s.before > 0 ? microseconds(s.before) : "not measured") + " to " +
                               (s.after > 0 ? microseconds(s.after) : "not measured"),
                           s.before > 0 && s.after > 0 ? s.before - s.after : 0});
  std::string crossing;
  if (options.peerStepMilliseconds) {
    const double peer = *options.peerStepMilliseconds;
    chart.references.push_back({peer, options.peerName + ", " + number(peer, 3) + " ms", false});
    const auto against = protocol::againstPeer(run.times, peer);
    const auto at = against && against->from ? std::find_if(run.steps.begin(), run.steps.end(),
                                                            [&](const StepRow& s) { return s.step >= *against->from; })
                                             : run.steps.end();
    if (at != run.steps.end()) {
      chart.rings.push_back({at->seconds, std::min(peer, at->milliseconds)});
      crossing = "<p>Faster than " + htmlEscaped(options.peerName) + "'s step from step " + std::to_string(at->step) + " on, " +
                 number(at->seconds) + " s after training began: the running median stays below it to the end.</p>\n";
    } else if (against) {
      crossing = "<p>Not faster than " + htmlEscaped(options.peerName) + ": the median at the end is " + milliseconds(against->ms) +
                 " against " + milliseconds(peer) + ".</p>\n";
    }
  }
  return chart.svg() + crossing;
}

std::string learningOf(const Run& run) {
  ReportChart loss, accuracy, held;
  loss.title = "Training loss";
  for (const StepRow& s : run.steps) loss.points.push_back({static_cast<double>(s.step), s.loss});
  if (!run.steps.empty()) loss.lastLabel = number(run.steps.back().loss, 3);
  accuracy.title = "Held-out accuracy";
  accuracy.percent =
      std::all_of(run.accuracy.begin(), run.accuracy.end(), [](const ReportChart::Point& p) { return isShare("accuracy", p.y); });
  accuracy.points = run.accuracy;
  if (!run.accuracy.empty())
    accuracy.lastLabel = accuracy.percent ? number(run.accuracy.back().y * 100, 4) + " %" : number(run.accuracy.back().y, 4);
  held.title = "Held-out loss";
  held.points = run.heldOutLoss;
  if (!run.heldOutLoss.empty()) held.lastLabel = number(run.heldOutLoss.back().y, 3);
  std::string out = "<div class=\"pair\">";
  ReportChart* const second = accuracy.points.empty() ? &held : &accuracy;
  for (ReportChart* chart : {&loss, second}) {
    chart->xLabel = "step";
    chart->logarithmic = chart != &accuracy;
    chart->width = second->points.empty() ? 1000 : 490;
    chart->height = 240;
    out += chart->svg();
  }
  return out + "</div>\n";
}

std::string kernelsOf(const Run& run) {
  if (run.kernels.empty()) return {};
  std::vector<std::pair<const KernelRow*, std::string>> rows;
  for (const auto& [id, row] : run.kernels) rows.emplace_back(&row, id);
  const auto used = [](const KernelRow& k) { return k.swaps > 0 ? k.inUse : k.first; };
  const auto runs = [&](const std::string& id) { return !run.running || run.running->contains(id); };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    const bool first = runs(a.second), second = runs(b.second);
    return first != second ? first : used(*a.first) > used(*b.first);
  });
  const bool all = std::ranges::all_of(rows, [&](const auto& row) { return runs(row.second); });
  std::vector<RowName> called;
  for (const auto& [row, id] : rows) called.push_back({row->name, id});
  const std::vector<std::string> names = rowNames(called, 48);
  auto name = names.begin();
  const auto timed = [](double us) { return us > 0 ? number(us, 3) : std::string("\u2013"); };
  std::string out =
      "<h2>Kernels</h2>\n<p class=\"muted\">In use and gain are of swaps, each of which timed two kernels in turn; where there is "
      "none, the first kernel stayed. Trials are timed by themselves: the best need not have won." +
      std::string(all ? ""
                      : " The last step runs none of the grey kernels: fusion took others, or held-out rows alone need them.") +
      "</p>\n"
      "<div class=\"wide\"><table><tr><th class=\"t\">kernel</th><th>first, \u00b5s</th><th>in use, \u00b5s</th><th>gain</th><th "
      "class=\"t\"></th><th>best trial, \u00b5s</th><th>trials</th><th>failed</th><th>swaps</th></tr>\n";
  for (const auto& [k, id] : rows) {
    const double gain = k->swaps > 0 ? k->gain : 0;
    const double saved = gain > 1 ? 1 - 1 / gain : 0;
    const bool inStep = runs(id);
    out += std::string(inStep ? "<tr>" : "<tr class=\"off\">") + "<td class=\"t m\" title=\"" + htmlEscaped(k->name) + "\">" +
           htmlEscaped(*name++) + "</td><td>" + timed(k->first) + "</td><td>" + (inStep ? timed(k->inUse) : "\u2013") +
           "</td><td>" + (gain > 0 ? number(gain, 3) + "\u00d7" : "\u2013") +
           "</td><td class=\"t\"><i class=\"bar\"><i style=\"width:" + number(saved * 100, 3) + "%\"></i></i></td><td>" +
           timed(k->best) + "</td><td>" + std::to_string(k->trials) + "</td><td>" + std::to_string(k->failed) + "</td><td>" +
           std::to_string(k->swaps) + "</td></tr>\n";
  }
  return out + "</table></div>\n";
}

// "3 kernel swaps, 2 fused kernels split again".
std::string swapsText(const Run& run) {
  const auto counted = [](std::size_t n, const char* one, const char* many) { return std::to_string(n) + (n == 1 ? one : many); };
  const auto splits = static_cast<std::size_t>(run.splits);
  return counted(run.swaps.size() - splits, " kernel swap", " kernel swaps") +
         (splits > 0 ? ", " + counted(splits, " fused kernel split again", " fused kernels split again") : std::string());
}

std::string swapsOf(const Run& run) {
  if (run.swaps.empty()) return {};
  std::string rows;
  for (const SwapRow& s : run.swaps)
    rows += "<tr><td>" + number(s.seconds, 3) + "</td><td>" + number(s.step, 9) + "</td><td class=\"t m\" title=\"" +
            htmlEscaped(s.name) + "\">" + htmlEscaped(s.shown(40)) + "</td><td>" + (s.before > 0 ? number(s.before, 3) : "\u2013") +
            "</td><td>" + (s.after > 0 ? number(s.after, 3) : "\u2013") + "</td><td>" +
            (s.before > 0 && s.after > 0 ? number(s.before / s.after, 3) + "\u00d7" : "\u2013") + "</td></tr>\n";
  return "<h2>Kernel swaps</h2>\n<details" + std::string(run.swaps.size() <= 12 ? " open" : "") + "><summary>" + swapsText(run) +
         ", in order</summary>" +
         (run.splits > 0
              ? "<p class=\"muted\">What is split again was timed with all kernels that are others where it is split.</p>"
              : "") +
         "<div class=\"wide\"><table><tr><th>s</th><th>step</th><th "
         "class=\"t\">kernel</th><th>before, \u00b5s</th><th>after, \u00b5s</th><th>gain</th></tr>\n" +
         rows + "</table></div></details>\n";
}

constexpr const char* kStyle =
    ":root{--page:#fff;--code:#f5f7f9;--line:#d9dee3;--grid:#e9ecef;--text:#1a2027;--muted:#56626e;--accent:#0067a6;--good:#00795a;"
    "--cost:"
    "#cc7a00;--bad:#bf3b00}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#1c1f24;--code:#191c20;--line:#343a42;--grid:#2a2f36;--text:#e4e8ec;--muted:#"
    "a3aeb9;"
    "--accent:#56b4e9;--good:#2db88b;--cost:#e69f00;--bad:#ff7a52}}\n"
    "*{box-sizing:border-box}body{font:14px/1.5 Inter,system-ui,sans-serif;margin:0;color:var(--text);background:var(--page)}\n"
    "main{max-width:1032px;margin:32px auto 64px;padding:0 16px}h1{font-size:24px;line-height:1.2;margin:0 0 4px}\n"
    "h2{font-size:15px;margin:36px 0 8px;padding-top:16px;border-top:1px solid var(--line)}h3{font-size:14px;margin:20px 0 "
    "4px}p{margin:8px 0}\n"
    "pre,code,.m{font-family:'JetBrains Mono','DejaVu Sans Mono',monospace;font-variant-ligatures:none}\n"
    "pre{font-size:13px;line-height:1.5;background:var(--code);padding:12px 16px;overflow-x:auto;border-radius:4px;margin:8px 0}\n"
    "code{font-size:.93em}.muted,figcaption span,summary{color:var(--muted);font-size:12px}summary{cursor:pointer;padding:4px 0}\n"
    "table{border-collapse:collapse;font-size:12px;width:100%;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}\n"
    "td,th{padding:5px 12px 5px 0;border-bottom:1px solid var(--grid);text-align:right;vertical-align:top}th{color:var(--muted);"
    "font-weight:600;white-space:nowrap}td{white-space:nowrap}.t{text-align:left}td.w{white-space:normal;min-width:220px}\n"
    ".figures{display:flex;flex-wrap:wrap;gap:12px 40px;margin:20px 0}.figures div{display:flex;flex-direction:column}\n"
    ".figures strong{font-size:20px;line-height:1.3}.figures span{font-size:12px}.figures "
    "small{font-size:12px;color:var(--muted)}\n"
    "figure{margin:12px 0}figcaption{font-size:13px}.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 20px}\n"
    "@media(max-width:720px){.pair{grid-template-columns:1fr}}svg{display:block;width:100%;font:11px Inter,system-ui,sans-serif}\n"
    "svg .axis{fill:var(--muted)}svg .name{fill:var(--text)}svg "
    ".strong{fill:var(--text);font-weight:600}.grid{stroke:var(--grid)}\n"
    ".line{fill:none;stroke:var(--accent);stroke-width:1.8;stroke-linejoin:round}.band{fill:var(--accent);opacity:.18}.dot{fill:"
    "var(--accent)}\n"
    ".ring{fill:var(--page);stroke:var(--accent);stroke-width:1.6}.mark{stroke:var(--muted);stroke-dasharray:1 3;opacity:.8}\n"
    ".dashed{stroke:var(--muted);stroke-dasharray:5 4}.dotted{stroke:var(--muted);stroke-dasharray:1 3}\n"
    ".bar{display:block;width:90px;height:5px;margin-top:6px;background:var(--grid)}.bar "
    "i{display:block;height:5px;background:var(--good)}\n"
    ".off td{color:var(--muted)}\n"
    ".good{color:var(--good)}.cost{color:var(--cost)}.bad{color:var(--bad)}\n"
    "@media print{body{font-size:12px}main{margin:0}pre{white-space:pre-wrap}details>*{display:block}}";

}  // namespace

std::string htmlEscaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

std::string htmlHead(std::string_view title) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width\"><meta "
         "name=\"color-scheme\" content=\"light dark\"><title>" +
         htmlEscaped(title) + "</title>\n<style>" + kStyle + "</style></head><body><main>\n";
}

std::string htmlTail() { return "</main></body></html>\n"; }

Result<std::string> htmlOfRun(const std::string& runFolder, const ReportOptions& options) {
  NF_TRY(const Run run, readRun(runFolder));
  std::string html;
  if (!options.meanings.empty() && run.settings.is_object())
    if (const std::string meaning = text(run.settings, "meaning");
        !meaning.empty() && std::ranges::find(options.meanings, meaning) == options.meanings.end())
      html +=
          "<p>It trained something else than the text above says: the text was edited after it, or it had settings of its "
          "own.</p>\n";
  html += figuresOf(run, options);
  std::int64_t steps = 0;
  for (const StepRow& row : run.steps) steps += row.steps;
  html += "<p class=\"muted\">" + std::to_string(steps) + " steps, " + swapsText(run) + ", " + std::to_string(run.trials) +
          " trials (" + std::to_string(run.failed) + " failed)" +
          (real(run.done, "resumed_at") > 0 ? " since it was resumed" : "") + "</p>\n";
  html += latencyOf(run, options) + learningOf(run) + kernelsOf(run) + swapsOf(run);
  std::string settings;
  if (run.settings.is_object()) flatten(run.settings, "", settings);
  if (run.done.is_object()) flatten(run.done, "", settings);
  return html + "<h2>Settings and machine</h2>\n<details><summary>everything that is on record</summary><table>" + settings +
         "</table></details>\n";
}

Result<std::string> htmlReport(const std::string& runFolder, const ReportOptions& options) {
  NF_TRY(const std::string body, htmlOfRun(runFolder, options));
  NF_TRY(const std::string runText, readFile(runFolder + "/run.json"));
  const Json run = Json::parse(runText, nullptr, false);
  const std::string title = options.title.empty() && run.is_object() ? text(run, "notebook") : options.title;
  return htmlHead(title) + "<h1>" + htmlEscaped(title) + "</h1>\n<p class=\"muted\">report of a training run</p>\n" + body +
         htmlTail();
}

std::optional<PeerFigure> peerBeside(const std::string& file) {
  std::ifstream in(std::filesystem::path(file).replace_extension(".peer.json"), std::ios::binary);
  if (!in) return std::nullopt;
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() || !json.contains("step_ms") ||
      !json["step_ms"].is_number())
    return std::nullopt;
  const double ms = json["step_ms"].get<double>();
  if (!(ms > 0)) return std::nullopt;
  return PeerFigure{json["name"].get<std::string>(), ms};
}

Result<Unit> writeReport(const std::string& runFolder, const std::string& notebook) {
  ReportOptions options;
  options.title = std::filesystem::path(notebook).filename().string();
  if (const auto peer = peerBeside(notebook)) {
    options.peerName = peer->name;
    options.peerStepMilliseconds = peer->stepMilliseconds;
  }
  NF_TRY(const std::string html, htmlReport(runFolder, options));
  return writeFileAtomically(runFolder + "/report.html", html);
}

}  // namespace nf
