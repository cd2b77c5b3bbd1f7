// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/ids.h"

namespace nf {

using SourceId = Id<struct SourceTag>;

// A half-open range of UTF-8 bytes [begin, end) in one source. An invalid source means "no place known".
struct Span {
  SourceId source;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool valid() const { return source.valid(); }
  std::uint32_t length() const { return end - begin; }
  // The smallest span that covers both; spans of different sources yield the first.
  friend Span cover(Span a, Span b) {
    if (!a.valid()) return b;
    if (!b.valid() || a.source != b.source) return a;
    return {a.source, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
  }
  friend bool operator==(const Span&, const Span&) = default;
};

// Line and column count from 1; the column counts Unicode code points.
struct LineColumn {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

// One text the compiler reads: a notebook or a file of the standard library.
struct Source {
  std::string name;       // as shown to a person: "capsule.nf", "std/conv.nf"
  std::string directory;  // data files are found relative to it; empty: the working directory
  std::string text;
};

// The texts of one compilation. SourceId indexes it; texts are never removed.
class SourceMap {
 public:
  SourceId add(Source source);
  const Source& at(SourceId id) const { return m_sources[id.value].source; }
  std::size_t size() const { return m_sources.size(); }
  std::string_view text(Span span) const;
  LineColumn lineColumn(Span span) const;                        // of span.begin
  std::string_view line(SourceId id, std::uint32_t line) const;  // without the newline

 private:
  struct Entry {
    Source source;
    std::vector<std::uint32_t> lineStarts;
  };
  std::vector<Entry> m_sources;
};

}  // namespace nf
