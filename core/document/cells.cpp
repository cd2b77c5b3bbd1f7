// SPDX-License-Identifier: Apache-2.0
#include "core/document/document.h"

#include <algorithm>

namespace nf {
namespace {

constexpr std::string_view kSeparator = "# %%";

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// Of the line that begins at `at`: one past its newline, or the end of the text.
std::size_t lineEnd(std::string_view text, std::size_t at) {
  const std::size_t newline = text.find('\n', at);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

std::string_view trimmed(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

bool isSeparator(std::string_view line) {
  if (!line.starts_with(kSeparator)) return false;
  return line.size() == kSeparator.size() || std::string_view(" \t\r\n").find(line[kSeparator.size()]) != std::string_view::npos;
}

CellKind kindOf(std::string_view separator) {
  std::string_view rest = trimmed(separator.substr(kSeparator.size()));
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return rest.starts_with("[markdown]") ? CellKind::Markdown : CellKind::Code;
}

// What marks a line of a Markdown cell as a comment.
std::size_t markOf(std::string_view line) {
  const std::size_t mark = line.starts_with("# ") ? 2 : line.starts_with('#') ? 1 : 0;
  return line.substr(mark).starts_with("\\%%") ? mark + 1 : mark;
}

// The end of [begin, end) without the blank lines it ends with.
std::size_t withoutBlankEnd(std::string_view text, std::size_t begin, std::size_t end) {
  while (end > begin && (text[end - 1] == '\n' || text[end - 1] == '\r')) --end;
  while (true) {
    const std::size_t lineBegin = end > begin ? text.rfind('\n', end - 1) : std::string_view::npos;
    const std::size_t from = lineBegin == std::string_view::npos || lineBegin < begin ? begin : lineBegin + 1;
    if (from >= end || !blank(text.substr(from, end - from))) return end;
    end = from;
    while (end > begin && (text[end - 1] == '\n' || text[end - 1] == '\r')) --end;
    if (end == begin) return end;
  }
}

// One unit of display: how many bytes it takes, and the code point it shows.
struct Unit {
  std::size_t bytes;
  char32_t shown;
};

Unit unitAt(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(at);
  if (first == '\r') return at + 1 < bytes.size() && bytes[at + 1] == '\n' ? Unit{2, U'\n'} : Unit{1, U'\u240d'};
  if (first == 0) return {1, U'\u2400'};
  if (first < 0x80) return {1, first};
  const std::size_t length = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
  if (length == 1 || first >= 0xf5 || at + length > bytes.size()) return {1, U'\ufffd'};
  char32_t point = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {1, U'\ufffd'};
    point = (point << 6) | (byte(at + i) & 0x3f);
  }
  const char32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return {1, U'\ufffd'};
  return {length, point};
}

}  // namespace

std::vector<Cell> splitCells(std::string_view text) {
  std::vector<Cell> cells;
  const auto close = [&](std::size_t end) {
    if (cells.empty()) return;
    Cell& cell = cells.back();
    cell.end = end;
    cell.bodyEnd = withoutBlankEnd(text, cell.bodyBegin, end);
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = lineEnd(text, at);
    const std::string_view line = text.substr(at, next - at);
    if (isSeparator(line)) {
      close(at);
      Cell& cell = cells.emplace_back();
      cell.kind = kindOf(line);
      cell.begin = at;
      cell.bodyBegin = next;
    } else if (cells.empty()) {
      cells.emplace_back();
    }
    at = next;
  }
  if (cells.empty()) cells.emplace_back();
  close(text.size());
  // Blank lines above the first separator belong to it: an empty implicit cell is not shown.
  if (cells.size() > 1 && cells[0].begin == 0 && cells[0].bodyBegin == 0 && blank(text.substr(0, cells[0].end))) {
    cells[1].begin = 0;
    cells.erase(cells.begin());
  }
  return cells;
}

std::string markdownOf(std::string_view body) {
  std::string out;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t next = lineEnd(body, at);
    const std::string_view line = trimmed(body.substr(at, next - at));
    if (at > 0) out += '\n';
    out += line.substr(markOf(line));
    at = next;
  }
  return out;
}

std::size_t markdownOffset(std::string_view body, std::size_t byte) {
  std::size_t offset = 0;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t next = lineEnd(body, at);
    const std::string_view line = trimmed(body.substr(at, next - at));
    const std::size_t mark = markOf(line);
    if (byte < next || next == body.size()) return offset + std::clamp(byte, at + mark, at + line.size()) - at - mark;
    offset += line.size() - mark + 1;
    at = next;
  }
  return offset;
}

std::size_t bodyOffset(std::string_view body, std::size_t offset) {
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t next = lineEnd(body, at);
    const std::string_view line = trimmed(body.substr(at, next - at));
    const std::size_t mark = markOf(line), content = line.size() - mark;
    if (offset <= content || next == body.size()) return at + mark + std::min(offset, content);
    offset -= content + 1;
    at = next;
  }
  return body.size();
}

std::string markdownToBody(std::string_view markdown, std::string_view newline) {
  std::string out;
  for (std::size_t at = 0; at <= markdown.size();) {
    const std::size_t end = std::min(markdown.find('\n', at), markdown.size());
    const std::string_view line = trimmed(markdown.substr(at, end - at));
    if (at > 0) out += newline;
    out += line.empty() ? "#" : line.starts_with("%%") ? "# \\" : "# ";
    out += line;
    at = end + 1;
  }
  return out;
}

std::string markdownToCells(std::string_view markdown, std::size_t from, std::size_t to, std::string_view newline) {
  std::string out;
  CellKind kind = CellKind::Markdown;
  const auto addLines = [&](std::string_view lines) {
    for (const char c : lines) c == '\n' ? out += newline : out += c;
  };
  const auto add = [&](std::string_view part, bool last) {
    if (kind == CellKind::Code) return addLines(part);
    // Blank lines before a separator are those between two cells.
    const std::size_t end = last ? part.size() : withoutBlankEnd(part, 0, part.size());
    if (last || end > 0) out += markdownToBody(part.substr(0, end), newline);
    addLines(part.substr(end));
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < markdown.size();) {
    const std::size_t next = lineEnd(markdown, at);
    const std::string_view line = markdown.substr(at, next - at);
    if (at <= to && from <= at + trimmed(line).size() && isSeparator(line)) {
      add(markdown.substr(begin, at - begin), false);
      addLines(line);
      kind = kindOf(line);
      begin = next;
    }
    at = next;
  }
  add(markdown.substr(begin), true);
  return out;
}

std::u16string displayText(std::string_view bytes) {
  std::u16string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Unit unit = unitAt(bytes, at);
    if (unit.shown >= 0x10000) {
      out.push_back(static_cast<char16_t>(0xd7c0 + (unit.shown >> 10)));
      out.push_back(static_cast<char16_t>(0xdc00 + (unit.shown & 0x3ff)));
    } else {
      out.push_back(static_cast<char16_t>(unit.shown));
    }
    at += unit.bytes;
  }
  return out;
}

std::string asUtf8(std::string_view bytes, char standIn) {
  std::string out(bytes);
  for (std::size_t at = 0; at < bytes.size();) {
    const Unit unit = unitAt(bytes, at);
    if (unit.shown == U'\ufffd' && unit.bytes == 1) out[at] = standIn;
    at += unit.bytes;
  }
  return out;
}

std::size_t byteOffset(std::string_view bytes, std::size_t unit) {
  std::size_t at = 0;
  for (std::size_t units = 0; at < bytes.size() && units < unit;) {
    const Unit u = unitAt(bytes, at);
    units += u.shown >= 0x10000 ? 2 : 1;
    if (units > unit) break;
    at += u.bytes;
  }
  return at;
}

std::size_t unitOffset(std::string_view bytes, std::size_t byte) {
  std::size_t units = 0;
  for (std::size_t at = 0; at < bytes.size() && at < byte;) {
    const Unit u = unitAt(bytes, at);
    if (at + u.bytes > byte) break;
    units += u.shown >= 0x10000 ? 2 : 1;
    at += u.bytes;
  }
  return units;
}

}  // namespace nf
