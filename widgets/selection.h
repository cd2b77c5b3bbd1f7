// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QObject>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/protocol/values.h"

namespace nf {

inline bool holds(const protocol::SourceSpan& outer, const protocol::SourceSpan& inner) {
  return outer.source == inner.source && outer.begin <= inner.begin && outer.end >= inner.end;
}

// The one selection of all views: source spans of one revision, and by name the tensors that were chosen, as ids of graph nodes: several
// come from one place, an operand stands inside the place of its operator. By its places a thing is Exact when it comes from inside a
// selected span, Around when it comes from a span that contains one; siblings stay None. What has a name is selected by it alone.
class Selection : public QObject {
  Q_OBJECT
 public:
  enum class Relation : std::uint8_t { None, Around, Exact };
  using QObject::QObject;

  // A new analysis: ids mean other spans. What was selected is found again by its place where the text there is the same span.
  // Of the functions of the notebook, by span id: the words of their calls, which have the places of all that a function makes, what
  // stands in their bodies, and of this what operators are written out from: neither a function's name, which stands for all of its body,
  // nor what holds a call, which stands for all that another one makes.
  struct Functions {
    std::set<std::uint32_t> calls, bodies, expanded;
  };
  void setSpans(std::vector<protocol::SourceSpan> spans, Functions functions = {});
  bool isCall(std::uint32_t span) const { return m_functions.calls.contains(span); }
  bool isInBody(std::uint32_t span) const { return m_functions.bodies.contains(span); }
  protocol::Origins expandedOf(const protocol::Origins& places) const;  // those of them that operators are written out from
  const std::vector<protocol::SourceSpan>& spans() const { return m_spans; }

  // `tensors`: what was chosen by name, the one that is made last; empty: places alone.
  void select(const protocol::Origins& origins, std::vector<std::string> tensors = {});
  // Where what is selected comes from, of the same choice.
  void place(const protocol::Origins& origins);
  // The same choice, with the names of what stands there.
  void call(std::vector<std::string> tensors);
  // The smallest spans of the notebook that contain bytes [begin, end).
  void selectBytes(std::uint32_t begin, std::uint32_t end);
  // The same choice, of a place in the body of a function: the names of what its calls make there, else of what they read. What is made
  // is not chosen whole, views go by the place. The chosen place first; behind the name of a function all places of its body.
  void callIn(protocol::Origins body, std::vector<std::string> tensors, bool reads);
  const protocol::Origins& body() const { return m_body; }
  // Where in functions of the notebook what is chosen by its names is made, of the same choice: all else that their calls make is not meant.
  void write(protocol::Origins places);
  const protocol::Origins& written() const { return m_written; }
  bool readsThere() const { return m_readsThere; }
  bool byPlace() const { return m_tensors.empty() || !m_body.empty(); }
  // Of the chosen places, those in a body alone where there are any.
  Relation relationOfPlaces(const protocol::Origins& places) const;
  // The tensor that the chosen places, which have no name, read.
  void read(std::string tensor);
  const std::string& reads() const { return m_reads; }
  void clear() { select({}); }
  // Of these, those that hold no other one of them: what is smallest is what was meant.
  protocol::Origins innermost(const protocol::Origins& origins) const;

  const protocol::Origins& origins() const { return m_selected; }
  const std::vector<std::string>& tensors() const { return m_tensors; }
  bool isCalled(std::string_view tensor) const;  // among tensors()
  // Grows with every choice of something else; what a new analysis makes of a choice is the same choice.
  std::uint64_t choices() const { return m_choices; }
  bool empty() const { return m_selected.empty() && m_tensors.empty(); }
  Relation relation(const protocol::Origins& origins) const;
  // Of what makes these tensors: by their names where the selection has names.
  Relation relation(const std::vector<std::string>& tensors, const protocol::Origins& origins) const;
  // Selected spans of the notebook, for the editor's tint.
  std::vector<protocol::SourceSpan> selectedSpans() const;

 Q_SIGNALS:
  void changed();

 private:
  void relate();
  static Relation best(const std::vector<Relation>& relations, const protocol::Origins& origins);
  std::vector<Relation> relationsTo(const protocol::Origins& chosen) const;
  std::vector<protocol::SourceSpan> m_spans;
  Functions m_functions;
  protocol::Origins m_selected;
  std::vector<std::string> m_tensors;
  std::string m_reads;
  protocol::Origins m_body, m_written;
  bool m_readsThere = false;
  std::vector<Relation> m_relation, m_ofBody;  // by span id
  std::uint64_t m_choices = 0;
};

}  // namespace nf
