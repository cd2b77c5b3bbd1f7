// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/notebook_html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/neoflow/markdown_html.h"
#include "core/runtime/report.h"
#include "core/support/scaled_text.h"
#include "core/syntax/lexer.h"

namespace nf {
namespace {

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

// The text of a Markdown cell, without the signs that make comments of its lines.
std::string markdownOf(std::string_view cell) {
  std::string out;
  for (std::size_t at = 0; at < cell.size();) {
    const std::size_t end = std::min(cell.find('\n', at), cell.size());
    std::string_view line = cell.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# %%")) continue;
    if (line.starts_with("#")) line.remove_prefix(1);
    if (line.starts_with(" ")) line.remove_prefix(1);
    if (line.starts_with("\\%%")) line.remove_prefix(1);
    out.append(line).push_back('\n');
  }
  return out;
}

// "1 536" bytes as people read them.
std::string scaled(double value, double base, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (std::abs(value) >= base && unit + 1 != units.end()) value /= base, ++unit;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g %s", value, *unit);
  return buffer;
}
std::string flopsText(double v) { return scaled(v, 1000, {"", "k", "M", "G", "T"}); }

// Words of the language in colour: the project's own lexer says which they are.
std::string highlighted(std::string_view source) {
  std::string out;
  std::size_t at = 0;
  const auto upTo = [&](std::size_t end) {
    out += htmlEscaped(source.substr(at, end - at));
    at = end;
  };
  for (const Token& token : lex(source, {}).tokens) {
    const char* kind = nullptr;
    if (token.kind == TokenKind::Keyword || token.kind == TokenKind::Reducer) kind = "k";
    else if (token.kind == TokenKind::Number) kind = "n";
    else if (token.kind == TokenKind::Comment) kind = "c";
    if (!kind || token.begin < at) continue;
    upTo(token.begin);
    out += std::string("<b class=\"") + kind + "\">" + htmlEscaped(source.substr(token.begin, token.end - token.begin)) + "</b>";
    at = token.end;
  }
  upTo(source.size());
  return out;
}

std::string_view withoutEnd(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string cellsOf(const CompiledNotebook& notebook, const std::filesystem::path& folder, const ShownValues& values) {
  std::string out;
  for (std::size_t i = 0; i < notebook.cells.size(); ++i) {
    const CellInfo& cell = notebook.cells[i];
    std::string_view text = notebook.sources.text(cell.span);
    if (cell.kind == CellInfo::Kind::Markdown) {
      out += markdownHtml(markdownOf(text), folder);
      continue;
    }
    if (text.starts_with("# %%"))
      text.remove_prefix(std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
    text = withoutEnd(text);
    if (text.empty()) continue;
    out += "<pre>" + highlighted(text) + "</pre>\n";
    std::string defines;
    for (const TensorId t : cell.defines) {
      const Tensor& tensor = notebook.program[t];
      // What functions and optimisers name has a path or is a derivative: nobody wrote it here.
      if (tensor.name.find_first_of(".(") != std::string::npos) continue;
      defines += (defines.empty() ? "<code>" : " &nbsp; <code>") + htmlEscaped(tensor.name) + "</code> " +
                 std::string(nf::name(tensor.type));
      for (std::size_t k = 0; k < tensor.shape.size(); ++k) defines += (k ? ", " : " [") + std::to_string(tensor.shape[k]);
      if (!tensor.shape.empty()) defines += "]";
    }
    if (!defines.empty()) out += "<p class=\"muted\">" + defines + "</p>\n";
    if (const auto shown = values.lines.find(i); shown != values.lines.end()) {
      std::string lines;
      for (const std::string& line : shown->second) lines += htmlEscaped(line) + "\n";
      out += "<pre class=\"values\">" + std::string(withoutEnd(lines)) + "</pre>\n";
    }
  }
  if (!values.note.empty()) out += "<p class=\"muted\">" + htmlEscaped(values.note) + "</p>\n";
  return out;
}

std::string fusionOf(const Stages& stages, const DeviceConstants& device, const std::string& intervals) {
  if (stages.decisions.empty()) return {};
  std::size_t accepted = 0;
  double saved = 0;
  for (const FusionDecision& d : stages.decisions) {
    const bool yes = nf::name(d.state) == "accepted" || nf::name(d.state) == "forced";
    accepted += yes;
    if (yes) saved += d.R;
  }
  std::string out = "<h2>Fusion</h2>\n<p class=\"muted\">" + std::to_string(accepted) + " of " +
                    std::to_string(stages.decisions.size()) + " pairs fused, " + number(saved * 1e6) +
                    " \u00b5s a step saved by the model. R = dT / P_d + dC / P_c + dK L, with P_d " +
                    number(device.bandwidth * 1e-9) + " GB/s, P_c " + number(device.flopRate * 1e-9) + " GFLOP/s, L " +
                    siText(device.launchSeconds, "s") + ", all measured on this machine" +
                    (intervals.empty() ? "" : " (" + htmlEscaped(intervals) + ")") + ".</p>\n";
  out +=
      "<div class=\"wide\"><table><tr><th class=\"t\">producer, consumer</th><th class=\"t\">category</th><th "
      "class=\"t\">state</th><th>dT</th>"
      "<th>dC, FLOP</th><th>dK</th><th>R, \u00b5s</th><th class=\"t\">why</th></tr>\n";
  for (const FusionDecision& d : stages.decisions) {
    const std::string state(nf::name(d.state));
    const char* tone = state == "accepted" || state == "forced" ? "good" : state == "refused" ? "cost" : "muted";
    const char* mark = state == "accepted" ? "\u2713 " : state == "refused" ? "\u2212 " : "";
    out += "<tr><td class=\"t m\">" + htmlEscaped(d.producer) + " \u2192 " + htmlEscaped(d.consumer) + "</td><td class=\"t\">" +
           d.category + "</td><td class=\"t " + tone + "\">" + mark + state + "</td><td>" + siText(d.dT, "B") + "</td><td>" +
           flopsText(d.dC) + "</td><td>" + std::to_string(d.dK) + "</td><td>" + number(d.R * 1e6) + "</td><td class=\"t w\">" +
           htmlEscaped(reasonOf(d)) + "</td></tr>\n";
  }
  return out + "</table></div>\n";
}

std::string gradientsOf(const Stages& stages, const GradientsText& gradients) {
  if (gradients.text.empty()) return {};
  std::size_t gathers = 0, scatters = 0;
  for (const GradientTerm& term : stages.terms) {
    gathers += term.form == GradientTerm::Form::Gather;
    scatters += term.form == GradientTerm::Form::Scatter;
  }
  const auto terms = [](std::size_t n) { return std::to_string(n) + (n == 1 ? " term" : " terms"); };
  return "<h2>Derived gradients</h2>\n<p class=\"muted\">" + terms(gathers) +
         " gathered, each proved to read every contribution once; " + terms(scatters) +
         " scattered. This is the language itself: " +
         (gradients.whole ? "it stands alone, as a notebook of its own." : "it can be pasted into a cell behind the notebook.") +
         "</p>\n<pre>" + highlighted(gradients.text) + "</pre>\n";
}

}  // namespace

std::string notebookHtml(const CompiledNotebook& notebook, const NotebookStages& stages, const DeviceConstants& device,
                         const std::string& intervals, const std::string& training, const GradientsText& gradients,
                         const ShownValues& values, const std::filesystem::path& folder) {
  std::string out = htmlHead(std::filesystem::path(notebook.sources.at(notebook.notebook).name).filename().string());
  out +=
      "<style>.cells h2{border:0;padding:0;margin-top:24px}pre .k{color:var(--accent);font-weight:400}pre "
      ".n{color:var(--good);font-weight:400}pre .c{color:var(--muted);font-weight:400}pre.values{background:none;border-left:2px "
      "solid var(--accent)}</style>\n";
  out += "<section class=\"cells\">\n" + cellsOf(notebook, folder, values) + "</section>\n";
  if (!training.empty()) out += "<h2>The newest run</h2>\n" + training;
  return out + fusionOf(*stages.decided, device, intervals) + gradientsOf(*stages.whole, gradients) + htmlTail();
}

}  // namespace nf
