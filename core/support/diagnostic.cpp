// SPDX-License-Identifier: Apache-2.0
#include "core/support/diagnostic.h"

#include <algorithm>

namespace nf {
namespace {

std::string_view word(Severity severity) {
  switch (severity) {
    case Severity::Error: return "error";
    case Severity::Warning: return "warning";
    case Severity::Note: return "note";
  }
  return "";
}

std::size_t codePoints(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void renderPlace(std::string& out, Severity severity, const std::string& message, Span span, const SourceMap& sources) {
  if (!span.valid()) {
    out.append(word(severity)).append(": ").append(message).append("\n");
    return;
  }
  const LineColumn at = sources.lineColumn(span);
  out.append(sources.at(span.source).name).append(":").append(std::to_string(at.line)).append(":");
  out.append(std::to_string(at.column)).append(": ").append(word(severity)).append(": ").append(message).append("\n");
  constexpr std::size_t kWidest = 160;  // a longer line is shown as a window around the place
  std::string_view line = sources.line(span.source, at.line);
  const std::size_t lineBegin = static_cast<std::size_t>(line.data() - sources.at(span.source).text.data());
  std::size_t offset = std::min<std::size_t>(span.begin - lineBegin, line.size());
  std::size_t length = std::min<std::size_t>(span.length(), line.size() - offset);
  if (line.size() > kWidest) {
    std::size_t from = offset > kWidest / 2 ? offset - kWidest / 2 : 0;
    while (from > 0 && (static_cast<unsigned char>(line[from]) & 0xc0) == 0x80) --from;
    std::size_t to = std::min(line.size(), from + kWidest);
    while (to < line.size() && (static_cast<unsigned char>(line[to]) & 0xc0) == 0x80) ++to;
    line = line.substr(from, to - from);
    offset -= from;
    length = std::min(length, line.size() - offset);
  }
  out.append("  ").append(line).append("\n  ");
  for (const char c : line.substr(0, offset)) {
    if (c == '\t') out.push_back('\t');
    else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) out.push_back(' ');
  }
  const std::size_t carets = codePoints(line.substr(offset, length));
  out.push_back('^');
  if (carets > 1) out.append(carets - 1, '~');
  out.push_back('\n');
}

}  // namespace

bool hasErrors(const Diagnostics& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& d) { return d.severity == Severity::Error; });
}

std::string render(const Diagnostic& diagnostic, const SourceMap& sources) {
  std::string out;
  renderPlace(out, diagnostic.severity, diagnostic.message, diagnostic.span, sources);
  for (const DiagnosticNote& note : diagnostic.notes) renderPlace(out, Severity::Note, note.message, note.span, sources);
  return out;
}

std::string render(const Diagnostics& diagnostics, const SourceMap& sources) {
  std::string out;
  for (const Diagnostic& d : diagnostics) out += render(d, sources);
  return out;
}

}  // namespace nf
