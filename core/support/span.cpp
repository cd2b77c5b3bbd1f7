// SPDX-License-Identifier: Apache-2.0
#include "core/support/span.h"

#include <algorithm>

namespace nf {

SourceId SourceMap::add(Source source) {
  Entry entry{std::move(source), {0}};
  const std::string& text = entry.source.text;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') entry.lineStarts.push_back(static_cast<std::uint32_t>(i + 1));
  m_sources.push_back(std::move(entry));
  return SourceId(m_sources.size() - 1);
}

std::string_view SourceMap::text(Span span) const {
  if (!span.valid() || span.source.value >= m_sources.size()) return {};
  const std::string& text = at(span.source).text;
  const std::size_t begin = std::min<std::size_t>(span.begin, text.size());
  const std::size_t end = std::clamp<std::size_t>(span.end, begin, text.size());
  return std::string_view(text).substr(begin, end - begin);
}

LineColumn SourceMap::lineColumn(Span span) const {
  if (!span.valid() || span.source.value >= m_sources.size()) return {};
  const Entry& entry = m_sources[span.source.value];
  const auto next = std::upper_bound(entry.lineStarts.begin(), entry.lineStarts.end(), span.begin);
  const std::uint32_t start = *(next - 1);
  const std::size_t end = std::min<std::size_t>(span.begin, entry.source.text.size());
  std::uint32_t column = 1;
  for (std::size_t i = start; i < end; ++i)
    if ((static_cast<unsigned char>(entry.source.text[i]) & 0xc0) != 0x80) ++column;
  return {static_cast<std::uint32_t>(next - entry.lineStarts.begin()), column};
}

std::string_view SourceMap::line(SourceId id, std::uint32_t line) const {
  const Entry& entry = m_sources[id.value];
  if (line == 0 || line > entry.lineStarts.size()) return {};
  const std::string_view text = entry.source.text;
  const std::size_t begin = entry.lineStarts[line - 1];
  std::size_t end = line < entry.lineStarts.size() ? entry.lineStarts[line] - 1 : text.size();
  if (end > begin && text[end - 1] == '\r') --end;
  return text.substr(begin, end - begin);
}

}  // namespace nf
