// SPDX-License-Identifier: Apache-2.0
// Extents of indices that are not written: the largest range that keeps every access in bounds, taken first from places
// where the index stands alone.
#include <algorithm>
#include <map>
#include <set>

#include "core/lang/statement.h"

namespace nf::lang {

bool Statement::Use::guarded(const Statement& s, IndexVar v) const {
  const auto& tested = s.m_terms[load].tested;
  return std::find(tested.begin(), tested.end(), v) != tested.end();
}

std::vector<Statement::Use> Statement::uses() const {
  std::vector<Use> all;
  for (TermId id = 0; id < m_terms.size(); ++id) {
    const Term& t = m_terms[id];
    if (t.kind != Term::Kind::Load) continue;
    const Tensor& tensor = m_elab.tensorOf(t.tensor);
    for (std::size_t k = 0; k < t.indices.size(); ++k)
      if (t.indices[k].data == kNoTerm && !t.indices[k].affine.isConstant())
        all.push_back({id, k, &t.indices[k].affine, tensor.shape[k], t.otherwise != kNoTerm});
  }
  return all;
}

RangeOf Statement::ranges() const {
  return [this](IndexVar v) -> std::optional<Range> {
    if (v < m_variables.size()) {
      if (m_variables[v].extent > 0) return Range{0, m_variables[v].extent - 1};
      return std::nullopt;
    }
    if (v >= kLoopVariable && v - kLoopVariable < m_elab.m_trips.size()) return Range{0, m_elab.m_trips[v - kLoopVariable] - 1};
    return std::nullopt;
  };
}

// As the one name that declarations of what is read have for it, else the number.
std::string Statement::extentText(std::int64_t extent) const {
  std::set<std::string> names;
  for (const Use& use : m_elab.m_frame == 0 ? uses() : std::vector<Use>()) {
    const Tensor& tensor = m_elab.tensorOf(m_terms[use.load].tensor);
    if (use.size != extent) continue;
    const std::string text = m_elab.extentTexts(tensor.name, tensor)[use.axis];
    const Entity* named = m_elab.lookup(text);
    if (named && named->kind == Entity::Kind::Number && named->number.isInteger && named->number.integer == extent)
      names.insert(text);
  }
  return names.size() == 1 ? *names.begin() : std::to_string(extent);
}

DiagnosticFix Statement::runOver(const Variable& variable, std::int64_t extent) const {
  const std::string written = variable.name + ": " + extentText(extent);
  return {"write `" + inBrackets(variable.span, written) + "`", variable.span, written};
}

// `text` in place of what stands at `span`, with the brackets around it and the word before them: `sum[k: 4]`. Alone where the line has none.
std::string Statement::inBrackets(Span span, const std::string& text) const {
  const std::string& source = m_elab.m_out.sources.at(span.source).text;
  std::size_t open = span.begin, close = span.end;
  for (int depth = 1; depth > 0;) {
    if (open == 0 || source[open - 1] == '\n') return text;
    const char c = source[--open];
    depth += c == ']' ? 1 : c == '[' ? -1 : 0;
  }
  for (int depth = 1; depth > 0; ++close) {
    if (close >= source.size() || source[close] == '\n') return text;
    depth += source[close] == '[' ? 1 : source[close] == ']' ? -1 : 0;
  }
  std::size_t word = open;
  while (word > 0 && (std::isalnum(static_cast<unsigned char>(source[word - 1])) || source[word - 1] == '_')) --word;
  return source.substr(word, span.begin - word) + text + source.substr(span.end, close - span.end);
}

// Where an index stands alone it has the extent of that axis; two such places must agree.
void Statement::aloneExtents(const std::vector<Use>& uses, bool weak, bool guarded, bool quiet) {
  std::map<IndexVar, std::vector<const Use*>> found;
  for (const Use& use : uses) {
    const auto v = use.index->asVariable();
    if (!v || *v >= m_variables.size() || use.weak != weak || use.guarded(*this, *v) != guarded) continue;
    if (m_variables[*v].extent == 0) found[*v].push_back(&use);
  }
  for (auto& [v, places] : found) {
    const auto [least, most] =
        std::minmax_element(places.begin(), places.end(), [](const Use* a, const Use* b) { return a->size < b->size; });
    Variable& variable = m_variables[v];
    variable.extent = (*least)->size;
    if (quiet || (*least)->size == (*most)->size) continue;
    const Use *first = places.front(), *second = first;
    for (const Use* u : places)
      if (u->size != first->size) {
        second = u;
        break;
      }
    const auto place = [&](const Use* u) {
      return std::to_string(u->size) + " (axis " + std::to_string(u->axis) + " of `" +
             m_elab.tensorOf(m_terms[u->load].tensor).name + "`)";
    };
    const std::string who =
        variable.generated ? "these tensors have different shapes:" : "index `" + variable.name + "` meets two extents:";
    Diagnostic& d = report("extent-conflict", who + " " + place(first) + " and " + place(second),
                           m_terms[second->load].indices[second->axis].span);
    d.notes.push_back({"the first place", m_terms[first->load].indices[first->axis].span});
    if (!variable.generated && (variable.reduced || !m_carried)) d.fixes.push_back(runOver(variable, variable.extent));
  }
}

// The largest n such that `index` stays in [0, size) for v in [0, n) and all other indices in their ranges. nullopt: it bounds
// v by nothing, or another index is not known yet; 0: not even one point fits.
std::optional<std::int64_t> Statement::largestExtent(const IndexExpr& index, std::int64_t size, IndexVar v) const {
  std::int64_t n = 1;
  const RangeOf known = ranges();
  const RangeOf with = [&](IndexVar x) -> std::optional<Range> {
    if (x == v) return Range{0, n - 1};
    return known(x);
  };
  const auto fits = [&](std::int64_t extent) -> std::optional<bool> {
    n = extent;
    const auto range = bounds(index, with);
    if (!range) return std::nullopt;
    return range->lo >= 0 && range->hi < size;
  };
  const auto one = fits(1);
  if (!one) return std::nullopt;
  if (!*one) return 0;
  std::int64_t low = 1, high = 2;
  constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;
  while (high < kUnbounded && fits(high).value_or(false)) {
    low = high;
    high *= 2;
  }
  if (high >= kUnbounded) return std::nullopt;
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle).value_or(false) ? low : high) = middle;
  }
  return low;
}

// Indices that are the only unknown one of an access, `p*2 + r` once r is known.
bool Statement::solvedExtents(const std::vector<Use>& uses) {
  std::map<IndexVar, std::int64_t> found;
  std::vector<IndexVar> variables;
  for (const Use& use : uses) {
    if (use.weak) continue;
    variables.clear();
    use.index->collectVariables(variables);
    IndexVar unknown = 0;
    int count = 0;
    for (const IndexVar v : variables)
      if (v < m_variables.size() && m_variables[v].extent == 0) {
        unknown = v;
        ++count;
      }
    if (count != 1 || use.guarded(*this, unknown)) continue;
    const auto n = largestExtent(*use.index, use.size, unknown);
    if (!n) continue;
    const auto [at, isNew] = found.emplace(unknown, *n);
    if (!isNew) at->second = std::min(at->second, *n);
  }
  for (const auto& [v, n] : found) m_variables[v].extent = std::max<std::int64_t>(n, 1);
  return !found.empty();
}

void Statement::reportAmbiguous(IndexVar v, const std::vector<Use>& uses) {
  const Variable& variable = m_variables[v];
  Diagnostic& d = report(
      "ambiguous-extent",
      "the extent of index `" + variable.name + "` can't be inferred: write it behind the name, as in `" + variable.name + ": 8`",
      variable.span);
  std::optional<std::int64_t> natural;
  for (const Use& use : uses) {
    std::vector<IndexVar> variables;
    use.index->collectVariables(variables);
    if (std::find(variables.begin(), variables.end(), v) == variables.end()) continue;
    const Span span = m_terms[use.load].indices[use.axis].span;
    std::string why = "`" + textOf(span) + "` does not fix it";
    if (use.weak) why = "an access with `else` bounds it by nothing";
    else if (use.guarded(*this, v)) why = "this access is read under a condition on `" + variable.name + "` only";
    else {
      for (const IndexVar other : variables)
        if (other != v && other < m_variables.size() && m_variables[other].extent == 0)
          why = "`" + textOf(span) + "` leaves `" + variable.name + "` and `" + m_variables[other].name + "` open";
    }
    if (d.notes.size() < 3) d.notes.push_back({why, span});
    const auto n = largestExtent(*use.index, use.size, v);
    if (n && *n > 0) natural = natural ? std::min(*natural, *n) : *n;
  }
  if (uses.empty() || d.notes.empty()) d.notes.push_back({"no access uses it alone", {}});
  if (!natural) return;
  d.message = "the extent of index `" + variable.name + "` can't be inferred: write `" + variable.name + ": " +
              extentText(*natural) + "`, if it runs over all that is read";
  d.fixes.push_back(runOver(variable, *natural));
}

// What is left open stays 0.
void Statement::settleExtents(const std::vector<Use>& all, bool quiet) {
  aloneExtents(all, false, false, quiet);
  aloneExtents(all, true, false, quiet);
  while (solvedExtents(all)) {}
  // Only conditional places are left: taken where they all say the same.
  for (IndexVar v = 0; v < m_variables.size(); ++v) {
    if (m_variables[v].extent != 0) continue;
    std::optional<std::int64_t> agreed;
    bool unique = true;
    for (const Use& use : all) {
      if (use.weak || !use.index->uses(v)) continue;
      const auto n = largestExtent(*use.index, use.size, v);
      if (!n || (agreed && *agreed != *n)) unique = false;
      else agreed = n;
    }
    if (unique && agreed && *agreed > 0) m_variables[v].extent = *agreed;
  }
  while (solvedExtents(all)) {}
}

bool Statement::inferExtents() {
  if (m_failed) return false;
  const bool open = std::any_of(m_variables.begin(), m_variables.end(), [](const Variable& v) { return v.extent == 0; });
  if (!open) return true;
  for (Variable& v : m_variables) v.inferred |= v.extent == 0;
  const std::vector<Use> all = uses();
  settleExtents(all, false);
  for (IndexVar v = 0; v < m_variables.size(); ++v)
    if (m_variables[v].extent == 0) {
      reportAmbiguous(v, all);
      m_variables[v].extent = 1;
    }
  return !m_failed;
}

// `else` takes from the access what it says about extents: those that nothing else says in the same way are written.
DiagnosticFix Statement::readZeroOutside(TermId load) {
  std::vector<Use> all = uses();
  for (Use& use : all) use.weak |= use.load == load;
  const auto settled = m_variables;
  for (Variable& variable : m_variables)
    if (variable.inferred) variable.extent = 0;
  settleExtents(all, true);
  const Span access = m_terms[load].span;
  std::vector<std::pair<Span, std::string>> edits{{Span{access.source, access.end, access.end}, " else 0"}};
  for (IndexVar v = 0; v < m_variables.size(); ++v)
    if (m_variables[v].extent != settled[v].extent && !settled[v].generated && settled[v].span.source == access.source) {
      const DiagnosticFix written = runOver(settled[v], settled[v].extent);
      edits.emplace_back(written.span, written.text);
    }
  m_variables = settled;
  std::sort(edits.begin(), edits.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  Span span{access.source, edits.front().first.begin, edits.front().first.begin};
  std::string text;
  for (const auto& [place, words] : edits) {
    text += textOf(Span{span.source, span.end, place.begin});
    text += words;
    span.end = place.end;
  }
  return {"read 0 outside", span, text};
}

std::vector<std::int64_t> Statement::outputShape() const {
  std::vector<std::int64_t> shape;
  for (const OutputItem& item : m_outputs) {
    if (!item.isGroup) shape.push_back(m_variables[item.variable].extent);
    else
      for (const IndexVar v : m_groups[0].variables) shape.push_back(m_variables[v].extent);
  }
  return shape;
}

std::vector<std::string> Statement::outputNames() const {
  std::vector<std::string> names;
  for (const OutputItem& item : m_outputs) {
    if (!item.isGroup) names.push_back(m_variables[item.variable].name);
    else
      for (const IndexVar v : m_groups[0].variables) names.push_back(m_variables[v].name);
  }
  return names;
}

void Statement::noteHints(Span statement) {
  if (m_failed || !m_elab.inNotebook(statement) || m_elab.m_frame != 0) return;
  for (const Variable& v : m_variables) {
    // What a function of one line brings along has names of its own.
    const bool own = v.span.begin >= statement.begin && v.span.end <= statement.end;
    if (own && !v.given && !v.generated && m_elab.inNotebook(v.span)) m_elab.m_out.extents.push_back({statement, v.name, v.extent});
  }
}

}  // namespace nf::lang
