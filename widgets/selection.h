// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QObject>
#include <cstdint>
#include <vector>

#include "core/protocol/values.h"

namespace nf {

// The one selection of all views: source spans of one revision. A thing is Exact when it comes from inside a selected span, Around when
// it comes from a span that contains one; siblings stay None.
class Selection : public QObject {
  Q_OBJECT
 public:
  enum class Relation : std::uint8_t { None, Around, Exact };
  using QObject::QObject;

  // A new analysis: ids mean other spans. What was selected is found again by its place where the text there is the same span.
  void setSpans(std::vector<protocol::SourceSpan> spans);
  const std::vector<protocol::SourceSpan>& spans() const { return m_spans; }

  void select(const protocol::Origins& origins);
  // The smallest spans of the notebook that contain bytes [begin, end).
  void selectBytes(std::uint32_t begin, std::uint32_t end);
  void clear() { select({}); }

  const protocol::Origins& origins() const { return m_selected; }
  // Grows with every choice of something else; what a new analysis makes of a choice is the same choice.
  std::uint64_t choices() const { return m_choices; }
  bool empty() const { return m_selected.empty(); }
  Relation relation(const protocol::Origins& origins) const;
  // Selected spans of the notebook, for the editor's tint.
  std::vector<protocol::SourceSpan> selectedSpans() const;

 Q_SIGNALS:
  void changed();

 private:
  void relate();
  std::vector<protocol::SourceSpan> m_spans;
  protocol::Origins m_selected;
  std::vector<Relation> m_relation;  // by span id
  std::uint64_t m_choices = 0;
};

}  // namespace nf
