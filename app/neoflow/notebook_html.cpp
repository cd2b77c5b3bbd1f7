// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/notebook_html.h"

#include <algorithm>
#include <cstdio>

namespace nf {
namespace {

std::string escaped(std::string_view text) {
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

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

// The little Markdown that notebooks use: headings, lists, paragraphs, `code`.
std::string markdown(std::string_view cell) {
  std::string out, paragraph;
  bool list = false;
  const auto inlineText = [](std::string_view text) {
    std::string html;
    bool code = false;
    for (const char c : escaped(text)) {
      if (c == '`') {
        html += code ? "</code>" : "<code>";
        code = !code;
      } else {
        html.push_back(c);
      }
    }
    return code ? html + "</code>" : html;
  };
  const auto flush = [&] {
    if (!paragraph.empty()) out += "<p>" + inlineText(paragraph) + "</p>\n";
    paragraph.clear();
    if (list) out += "</ul>\n";
    list = false;
  };
  for (std::size_t at = 0; at < cell.size();) {
    const std::size_t end = std::min(cell.find('\n', at), cell.size());
    std::string_view line = cell.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# %%")) continue;
    if (line.starts_with("#")) line.remove_prefix(1);
    if (line.starts_with(" ")) line.remove_prefix(1);
    if (line.starts_with("\\%%")) line.remove_prefix(1);
    std::size_t level = 0;
    while (level < line.size() && level < 4 && line[level] == '#') ++level;
    if (level > 0 && level < line.size() && line[level] == ' ') {
      flush();
      const std::string tag = "h" + std::to_string(level);
      out += "<" + tag + ">" + inlineText(line.substr(level + 1)) + "</" + tag + ">\n";
    } else if (line.starts_with("* ") || line.starts_with("- ")) {
      if (!list) flush();
      if (!list) out += "<ul>\n";
      list = true;
      out += "<li>" + inlineText(line.substr(2)) + "</li>\n";
    } else if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      flush();
    } else {
      if (list) flush();
      if (!paragraph.empty()) paragraph += " ";
      paragraph += line;
    }
  }
  flush();
  return out;
}

constexpr const char* kStyle =
    "body{font:14px/1.5 Inter,system-ui,sans-serif;max-width:1000px;margin:32px auto;padding:0 16px;color:#1a2027;background:#fff}"
    "pre{font:13px/1.45 'JetBrains Mono','DejaVu Sans "
    "Mono',monospace;background:#f5f7f9;padding:12px;overflow-x:auto;border-radius:4px}"
    "code{font-family:'JetBrains Mono','DejaVu Sans Mono',monospace}table{border-collapse:collapse;font-size:12px}"
    "td,th{padding:4px 10px;border-bottom:1px solid "
    "#d9dee3;text-align:right}td:first-child,th:first-child,td.t,th.t{text-align:left}"
    ".muted{color:#56626e;font-size:12px}@media(prefers-color-scheme:dark){body{background:#1c1f24;color:#e4e8ec}pre{background:#"
    "191c20}"
    "td,th{border-color:#343a42}.muted{color:#a3aeb9}}";

}  // namespace

std::string notebookHtml(const CompiledNotebook& notebook, const Stages& stages, const DeviceConstants& device) {
  const std::string& name = notebook.sources.at(notebook.notebook).name;
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>" +
      escaped(name) + "</title><style>" + kStyle + "</style></head><body>\n";
  for (const CellInfo& cell : notebook.cells) {
    std::string_view text = notebook.sources.text(cell.span);
    if (cell.kind == CellInfo::Kind::Markdown) {
      out += markdown(text);
      continue;
    }
    if (text.starts_with("# %%"))
      text.remove_prefix(std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    if (text.empty()) continue;
    out += "<pre>" + escaped(text) + "</pre>\n";
    for (const TensorId t : cell.defines) {
      const Tensor& tensor = notebook.program[t];
      out += "<p class=\"muted\"><code>" + escaped(tensor.name) + "</code> " + std::string(nf::name(tensor.type)) + " [";
      for (std::size_t k = 0; k < tensor.shape.size(); ++k) out += (k ? ", " : "") + std::to_string(tensor.shape[k]);
      out += "]</p>\n";
    }
  }
  if (stages.differentiated) {
    std::string gradients;
    const Program& p = *stages.differentiated;
    for (std::size_t i = 0; i < p.operators.size(); ++i)
      if (p.operators[i].phase == Phase::Backward && p.operators[i].kind != OperatorKind::Loop)
        gradients += toText(p, OperatorId(i)) + "\n";
    if (!gradients.empty()) {
      std::size_t proved = 0, scatters = 0;
      for (const GradientTerm& term : stages.terms) {
        proved += term.form == GradientTerm::Form::Gather;
        scatters += term.form == GradientTerm::Form::Scatter;
      }
      out += "<h2>Derived gradients</h2>\n<p class=\"muted\">" + std::to_string(proved) +
             " terms gather, each proved to read every contribution once; " + std::to_string(scatters) + " scatter.</p>\n<pre>" +
             escaped(gradients) + "</pre>\n";
    }
  }
  if (!stages.decisions.empty()) {
    out += "<h2>Fusion</h2>\n<p class=\"muted\">R = dT / P_d + dC / P_c + dK L, with P_d " + number(device.bandwidth * 1e-9) +
           " GB/s, P_c " + number(device.flopRate * 1e-9) + " GFLOP/s, L " + number(device.launchSeconds * 1e6) + " us</p>\n";
    out +=
        "<table><tr><th>producer, consumer</th><th class=\"t\">category</th><th class=\"t\">state</th><th>dT, bytes</th><th>dC, "
        "operations</th><th>dK</th><th>R, us</th><th class=\"t\">why</th></tr>\n";
    for (const FusionDecision& d : stages.decisions)
      out += "<tr><td>" + escaped(d.producer) + ", " + escaped(d.consumer) + "</td><td class=\"t\">" + d.category +
             "</td><td class=\"t\">" + std::string(nf::name(d.state)) + "</td><td>" + number(d.dT) + "</td><td>" + number(d.dC) +
             "</td><td>" + std::to_string(d.dK) + "</td><td>" + number(d.R * 1e6) + "</td><td class=\"t\">" + escaped(d.why) +
             "</td></tr>\n";
    out += "</table>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace nf
