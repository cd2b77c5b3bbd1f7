// SPDX-License-Identifier: Apache-2.0
#include "core/support/diagnostic.h"

#include <algorithm>

#include "core/support/bidi.h"

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

// Bytes of the UTF-8 character at `at`; 0 where there is none.
std::size_t characterLength(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return 0;
  return length;
}

// What a terminal may show: control characters, those that reorder text, and bytes that are no text become a mark, one for one.
std::string printable(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbf\xbd";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = characterLength(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    const auto part = [&](std::size_t k) { return static_cast<char32_t>(static_cast<unsigned char>(text[i + k]) & 0x3f); };
    const bool reorders = length == 3 && reordersText(static_cast<char32_t>(c & 0xf) << 12 | part(1) << 6 | part(2));
    const bool shown = (length > 1 && !reorders) || (length == 1 && c != 0x7f && (c >= 0x20 || c == '\t'));
    if (shown) out.append(text.substr(i, length));
    else out.append(kMark);
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

void renderPlace(std::string& out, Severity severity, const std::string& message, Span span, const SourceMap& sources) {
  if (!span.valid()) {
    out.append(word(severity)).append(": ").append(printable(message)).append("\n");
    return;
  }
  const LineColumn at = sources.lineColumn(span);
  out.append(sources.at(span.source).name).append(":").append(std::to_string(at.line)).append(":");
  out.append(std::to_string(at.column)).append(": ").append(word(severity)).append(": ").append(printable(message)).append("\n");
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
  out.append("  ").append(printable(line)).append("\n  ");
  for (const char c : printable(line.substr(0, offset))) {
    if (c == '\t') out.push_back('\t');
    else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) out.push_back(' ');
  }
  const std::size_t carets = codePoints(printable(line.substr(offset, length)));
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
  for (const DiagnosticFix& fix : diagnostic.fixes) {
    out.append("help: ").append(printable(fix.label));
    if (fix.label.find('`') == std::string::npos && !fix.text.empty()) out.append(": `").append(printable(fix.text)).append("`");
    out.push_back('\n');
  }
  return out;
}

std::string render(const Diagnostics& diagnostics, const SourceMap& sources) {
  std::string out;
  for (const Diagnostic& d : diagnostics) out += render(d, sources);
  return out;
}

}  // namespace nf
