// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/ir/program.h"
#include "core/lang/compile.h"
#include "core/protocol/values.h"

namespace nf {

// Turns origins into the span numbers that every view selects by. One table serves all stages of one revision: passes only
// append origins, so the numbers that the source program gives stay true for what was derived from it.
class OriginSpans {
 public:
  // `references`, `symbols`: of the notebook. The name that begins an access is no place of its own, that of a function is.
  OriginSpans(const Program& source, const SourceMap& sources, SourceId notebook,
              const std::vector<TensorReference>& references = {}, const std::vector<Symbol>& symbols = {});

  const std::vector<protocol::SourceSpan>& spans() const { return m_spans; }
  // The spans of a thing and of everything it was made from, the nearest first, at most 64.
  protocol::Origins of(const Program& program, OriginId origin) const;
  // The places in bodies of functions of the notebook that it was written out from: no origins, but places of its text.
  protocol::Origins expandedFrom(const Program& program, OriginId origin) const;
  // Where an operator and all that it computes is written: tokens of the text, of bodies of functions and of loops, and calls.
  std::set<std::uint32_t> placesOf(const Program& program, OperatorId op) const;
  // Where what an access reads is written: the access; of one in a function its place there, parameters and arguments that hand it over,
  // where there are none of these the calls.
  protocol::Origins readAt(const Program& program, OriginId access) const;
  protocol::SourceSpan place(Span span) const;
  std::optional<std::uint32_t> number(Span span) const;  // of exactly this place
  // Of a call: it stands in the body of a function of the notebook. Such a place has a number; what it became is of the call, for
  // each call has its own.
  bool isExpanded(const Origin& origin) const;
  const SourceMap& sources() const { return m_sources; }

 private:
  using Key = std::array<std::uint32_t, 3>;  // source, begin, end
  void addPlaces(std::set<std::uint32_t>& into, const Program& program, OriginId origin) const;
  void addPlaces(std::set<std::uint32_t>& into, const Program& program, OperatorId op) const;
  template <class Wanted>
  protocol::Origins among(const Program& program, OriginId origin, const Wanted& wanted) const;
  const SourceMap& m_sources;
  SourceId m_notebook;
  std::vector<protocol::SourceSpan> m_spans;
  std::map<Key, std::uint32_t> m_numbers;
};

}  // namespace nf
