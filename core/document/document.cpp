// SPDX-License-Identifier: Apache-2.0
#include "core/document/document.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/support/assert.h"
#include "core/syntax/schedule_text.h"
#include "core/syntax/token.h"

namespace nf {
namespace {

// Steps of the history.
constexpr const char *kForceFusion = "Force fusion", *kForbidFusion = "Forbid fusion", *kNoFusion = "Take the fusion hint out",
                     *kPinSchedule = "Pin schedule", *kUnpinSchedule = "Unpin schedule";

bool isBlank(char c) { return c == ' ' || c == '\t'; }

// In `added`, which stands behind `before`; a Markdown cell gets the blank before a word together with the word.
bool beginsWord(char before, std::string_view added) {
  for (const char c : added) {
    if (isBlank(before) && !isBlank(c)) return true;
    before = c;
  }
  return false;
}

// `hint fuse A, B # why`: its parts, or nullopt.
struct ParsedHint {
  std::string_view word, first, second;
};
// Of any of these characters, outside backquotes.
std::size_t findBare(std::string_view text, std::string_view wanted, std::size_t from = 0) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '`') quoted = !quoted;
    else if (!quoted && i >= from && wanted.find(text[i]) != std::string_view::npos) return i;
  }
  return std::string_view::npos;
}
std::string_view unquoted(std::string_view name) {
  return name.size() > 2 && name.front() == '`' && name.back() == '`' ? name.substr(1, name.size() - 2) : name;
}
std::optional<ParsedHint> parseHint(std::string_view line) {
  line = line.substr(0, line.find_first_of("\r\n"));
  line = line.substr(0, findBare(line, "#"));
  const auto skip = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  const auto word = [&] {
    skip();
    const std::string_view w = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(w.size());
    return w;
  };
  if (word() != "hint") return std::nullopt;
  ParsedHint hint;
  hint.word = word();
  if (hint.word != "fuse" && hint.word != "split") return std::nullopt;
  skip();
  const std::size_t comma = findBare(line, ",");
  if (comma == std::string_view::npos || findBare(line, ",", comma + 1) != std::string_view::npos) return std::nullopt;
  const auto trim = [](std::string_view t) {
    while (!t.empty() && isBlank(t.front())) t.remove_prefix(1);
    while (!t.empty() && isBlank(t.back())) t.remove_suffix(1);
    return unquoted(t);
  };
  hint.first = trim(line.substr(0, comma));
  hint.second = trim(line.substr(comma + 1));
  return hint;
}

// Undone to its beginning and done again to its end, it stays within the text and finds what it says it replaces.
bool fits(std::string text, const History& history) {
  const std::size_t size = history.steps.size();
  if (history.done > size || (history.saved && *history.saved > size)) return false;
  const auto swap = [&](std::size_t begin, const std::string& out, const std::string& in) {
    if (begin > text.size() || text.compare(begin, out.size(), out) != 0) return false;
    text.replace(begin, out.size(), in);
    return true;
  };
  const std::string last = text;
  for (std::size_t i = history.done; i-- > 0;)
    if (const TextEdit& edit = history.steps[i].edit; !swap(edit.begin, edit.inserted, edit.removed)) return false;
  text = last;
  for (std::size_t i = history.done; i < size; ++i)
    if (const TextEdit& edit = history.steps[i].edit; !swap(edit.begin, edit.removed, edit.inserted)) return false;
  return true;
}

// A first cell without a separator gets one with the edit that empties it: nothing else would tell that it is there.
TextEdit keepingFirstCell(TextEdit edit, std::string_view text, const std::vector<Cell>& cells, const std::string& separator) {
  const Cell& first = cells.front();
  const std::size_t end = edit.begin + edit.removed.size();
  if (cells.size() < 2 || first.bodyBegin > first.begin || end > first.end) return edit;
  const auto blank = [](std::string_view t) { return t.find_first_not_of(" \t\r\n") == std::string_view::npos; };
  const std::string left = std::string(text.substr(0, edit.begin)) + edit.inserted;
  if (!blank(left) || !blank(text.substr(end, first.end - end))) return edit;
  return {0, std::string(text.substr(0, end)), separator + left};
}

}  // namespace

Document::Document(std::string text, std::uint64_t revision) : m_text(std::move(text)), m_revision(revision) {
  m_crlf = m_text.find("\r\n") != std::string::npos;
  m_cells = splitCells(m_text);
  for (Cell& cell : m_cells) cell.id = m_nextId++;
}

Document::Document(std::string text, History history, std::uint64_t revision) : Document(std::move(text), revision) {
  if (fits(m_text, history)) m_history = std::move(history);
  else m_history.saved.reset();
}

History Document::history(std::size_t mostBytes) const {
  const auto& steps = m_history.steps;
  std::size_t first = steps.size(), bytes = 0;
  while (first > 0) {
    const History::Step& step = steps[first - 1];
    bytes += step.edit.removed.size() + step.edit.inserted.size() + step.label.size();
    if (bytes > mostBytes) break;
    --first;
  }
  // What is undone stays only together with all that comes before it.
  if (first > m_history.done) return {{}, 0, modified() ? std::nullopt : std::optional<std::size_t>(0)};
  History out;
  out.steps.assign(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end());
  out.done = m_history.done - first;
  out.saved.reset();
  if (m_history.saved && *m_history.saved >= first) out.saved = *m_history.saved - first;
  return out;
}

const Cell* Document::cell(CellId id) const {
  const std::size_t i = indexOf(id);
  return i < m_cells.size() ? &m_cells[i] : nullptr;
}

std::size_t Document::indexOf(CellId id) const {
  return static_cast<std::size_t>(std::find_if(m_cells.begin(), m_cells.end(), [&](const Cell& c) { return c.id == id; }) -
                                  m_cells.begin());
}

std::string_view Document::body(const Cell& cell) const {
  return std::string_view(m_text).substr(cell.bodyBegin, cell.bodyEnd - cell.bodyBegin);
}

// `kept`: the ids of the cells that begin there, where that is known.
void Document::apply(const TextEdit& edit, const std::map<std::size_t, CellId>* kept, bool travels) {
  NF_ASSERT(edit.begin + edit.removed.size() <= m_text.size());
  const std::string before = m_text;
  m_text.replace(edit.begin, edit.removed.size(), edit.inserted);
  resplit(before, edit, kept, travels);
  ++m_revision;
}

// A cell keeps its id where the edit did not reach it, or left its text whole somewhere, or else began after its first byte. One that comes
// back with the text with which it went, undone or pasted, has its id again; in the place of an empty cell where the edit `travels`
// through the history, for what is typed there is that cell's.
void Document::resplit(const std::string& textBefore, const TextEdit& edit, const std::map<std::size_t, CellId>* kept,
                       bool travels) {
  const std::vector<Cell> before = std::exchange(m_cells, splitCells(m_text));
  std::map<CellId, const Cell*> left;
  std::map<std::size_t, CellId> begins;
  for (const Cell& cell : before) left[cell.id] = &cell, begins[cell.begin] = cell.id;
  const auto bodyBefore = [&](const Cell& cell) {
    return std::string_view(textBefore).substr(cell.bodyBegin, cell.bodyEnd - cell.bodyBegin);
  };
  const auto take = [&](Cell& cell, CellId id) {
    if (left.erase(id) > 0) cell.id = id;
  };
  const auto bringBack = [&](Cell& cell) {
    const auto gone =
        std::find_if(m_gone.rbegin(), m_gone.rend(), [&](const Gone& g) { return g.kind == cell.kind && g.body == body(cell); });
    if (gone == m_gone.rend()) return;
    cell.id = gone->id;
    m_gone.erase(std::prev(gone.base()));
  };
  if (kept) {
    for (Cell& cell : m_cells)
      if (const auto found = kept->find(cell.begin); found != kept->end()) take(cell, found->second);
  } else {
    const std::size_t newEnd = edit.begin + edit.inserted.size(), oldEnd = edit.begin + edit.removed.size();
    const auto idAt = [&](std::size_t place) {
      const auto found = begins.find(place);
      return found == begins.end() ? CellId{0} : found->second;
    };
    for (Cell& cell : m_cells) {
      if (cell.end < edit.begin) take(cell, idAt(cell.begin));
      else if (cell.begin > newEnd) take(cell, idAt(cell.begin - newEnd + oldEnd));
    }
    for (Cell& cell : m_cells) {
      if (cell.id != 0 || body(cell).empty()) continue;
      for (const auto& [id, was] : left)
        if (was->kind == cell.kind && bodyBefore(*was) == body(cell)) {
          take(cell, id);
          break;
        }
    }
    if (travels)
      for (Cell& cell : m_cells) {
        const auto stood = left.find(idAt(cell.begin));
        if (cell.id == 0 && stood != left.end() && bodyBefore(*stood->second).empty()) bringBack(cell);
      }
    for (Cell& cell : m_cells) {
      if (cell.id != 0) continue;
      if (cell.begin >= newEnd && (cell.begin > edit.begin || newEnd == edit.begin)) take(cell, idAt(cell.begin - newEnd + oldEnd));
      if (cell.id == 0 && cell.begin <= edit.begin) take(cell, idAt(cell.begin));
    }
  }
  for (Cell& cell : m_cells)
    if (cell.id == 0) bringBack(cell);
  // One step over several cells, undone, done again or read from disk, leaves each in its place.
  if (travels && before.size() == m_cells.size())
    for (std::size_t i = 0; i < m_cells.size(); ++i)
      if (m_cells[i].id == 0 && m_cells[i].kind == before[i].kind) take(m_cells[i], before[i].id);
  for (Cell& cell : m_cells)
    if (cell.id == 0) cell.id = m_nextId++;
  constexpr std::size_t kMostGone = 64;
  for (const auto& [id, was] : left)
    if (!bodyBefore(*was).empty()) m_gone.push_back({id, was->kind, std::string(bodyBefore(*was))});
  if (m_gone.size() > kMostGone) m_gone.erase(m_gone.begin(), m_gone.end() - static_cast<std::ptrdiff_t>(kMostGone));
}

void Document::leaveState() {
  std::vector<CellId> ids;
  for (const Cell& cell : m_cells) ids.push_back(cell.id);
  const std::size_t state = m_history.done;
  m_idsOf.resize(std::max(m_idsOf.size(), state + 1));
  const auto before = state > 0 ? m_idsOf[state - 1] : nullptr;
  m_idsOf[state] = before && *before == ids ? before : std::make_shared<const std::vector<CellId>>(std::move(ids));
}

// To the state that the history has come to: its cells are those that they were in it.
void Document::travel(const TextEdit& edit) {
  apply(edit, nullptr, true);
  const auto known = m_history.done < m_idsOf.size() ? m_idsOf[m_history.done] : nullptr;
  if (known && known->size() == m_cells.size()) {
    for (std::size_t i = 0; i < m_cells.size(); ++i) m_cells[i].id = (*known)[i];
    std::erase_if(m_gone, [&](const Gone& gone) { return indexOf(gone.id) < m_cells.size(); });
  }
  if (edited) edited(edit);
}

// A step that is done now; what was undone is gone.
void Document::record(TextEdit edit, std::string label, bool typing) {
  leaveState();
  m_idsOf.resize(m_history.done + 1);
  auto& [steps, done, saved] = m_history;
  steps.resize(done);
  if (saved && *saved > done) saved.reset();
  steps.push_back({std::move(edit), std::move(label), typing});
  ++done;
}

void Document::push(TextEdit edit, std::string label, bool typing) {
  if (edit.removed == edit.inserted) return;
  if (m_readOnly) {
    if (refused) refused();
    return;
  }
  edit = keepingFirstCell(std::move(edit), m_text, m_cells, separator(CellKind::Code));
  const bool atSaved = m_history.saved == m_history.done;
  bool joined = false;
  if (typing && m_history.done > 0 && m_history.done == m_history.steps.size() && !atSaved) {
    History::Step& last = m_history.steps.back();
    if (last.typing && last.label == label && edit.inserted.find('\n') == std::string::npos) {
      const bool types = edit.removed.empty() && edit.begin == last.edit.begin + last.edit.inserted.size() &&
                         !last.edit.inserted.empty() && !beginsWord(last.edit.inserted.back(), edit.inserted) &&
                         last.edit.inserted.back() != '\n';
      const bool erases =
          edit.inserted.empty() && last.edit.inserted.empty() && edit.begin + edit.removed.size() == last.edit.begin;
      if (types) last.edit.inserted += edit.inserted;
      if (erases) {
        last.edit.begin = edit.begin;
        last.edit.removed.insert(0, edit.removed);
      }
      joined = types || erases;
    }
  }
  if (!joined) record(edit, std::move(label), typing);
  apply(edit);
  if (edited) edited(edit);
}

void Document::replace(std::size_t begin, std::size_t end, std::string_view text, std::string label, bool typing) {
  NF_ASSERT(begin <= end && end <= m_text.size());
  push({begin, m_text.substr(begin, end - begin), std::string(text)}, std::move(label), typing);
}

void Document::replaceAll(const std::vector<Replacement>& places, std::string label) {
  if (places.empty()) return;
  if (m_readOnly) {
    if (refused) refused();
    return;
  }
  const std::size_t begin = places.front().begin, end = places.back().end;
  std::string inserted;
  std::map<std::size_t, CellId> ids;
  auto cell = m_cells.begin();
  // Cells that begin up to here have moved by as much as the text before them grew.
  const auto keep = [&](std::size_t upTo, std::size_t at) {
    for (; cell != m_cells.end() && cell->begin <= upTo; ++cell) ids[begin + inserted.size() + cell->begin - at] = cell->id;
  };
  std::size_t at = begin;
  for (; cell != m_cells.end() && cell->begin <= begin; ++cell) ids[cell->begin] = cell->id;
  for (const Replacement& place : places) {
    NF_ASSERT(at <= place.begin && place.begin <= place.end && place.end <= m_text.size());
    keep(place.begin, at);
    inserted.append(m_text, at, place.begin - at).append(place.text);
    at = place.end;
  }
  keep(m_text.size(), at);
  TextEdit edit{begin, m_text.substr(begin, end - begin), std::move(inserted)};
  if (edit.removed == edit.inserted) return;
  const std::size_t first = edit.begin;
  edit = keepingFirstCell(std::move(edit), m_text, m_cells, separator(CellKind::Code));
  record(edit, std::move(label), false);
  apply(edit, edit.begin == first ? &ids : nullptr);
  if (edited) edited(edit);
}

void Document::reload(std::string text) {
  if (TextEdit edit{0, m_text, std::move(text)}; edit.removed != edit.inserted) {
    record(edit, "Reload", false);
    apply(edit, nullptr, true);
    if (edited) edited(edit);
  }
  m_crlf = m_text.find("\r\n") != std::string::npos;
  markSaved();
}

std::string Document::separator(CellKind kind) const {
  return std::string(kind == CellKind::Markdown ? "# %% [markdown]" : "# %%").append(newline());
}

std::vector<Document::Chunk> Document::chunks() const {
  std::vector<Chunk> out;
  for (const Cell& cell : m_cells) out.push_back({m_text.substr(cell.begin, cell.end - cell.begin), cell.id});
  return out;
}

// Puts chunks together again, each but the first with a separator and each but the last closed by a newline, as one edit.
// Returns the id of chunk `wanted`.
CellId Document::restructure(std::vector<Chunk> parts, std::string label, std::size_t wanted) {
  if (m_readOnly) {
    if (refused) refused();
    return m_cells[std::min(wanted, m_cells.size() - 1)].id;
  }
  if (parts.empty()) parts.push_back({"", 0});
  std::string whole;
  std::vector<std::pair<std::size_t, CellId>> starts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string& text = parts[i].text;
    const auto split = splitCells(text);
    const bool separated = !split.empty() && split[0].bodyBegin > split[0].begin;
    const bool hidden = parts.size() > 1 && !split.empty() && split[0].bodyBegin == split[0].bodyEnd;
    if (!separated && (i > 0 || hidden)) text.insert(0, separator(CellKind::Code));
    if (i > 0 && !whole.empty()) {
      if (!whole.ends_with('\n')) whole += newline();
      if (parts[i].id == 0 || parts[i - 1].id == 0)
        if (!whole.ends_with("\n\n") && !whole.ends_with("\n\r\n")) whole += newline();
    }
    starts.emplace_back(whole.size(), parts[i].id);
    whole += text;
  }
  std::size_t same = 0;
  while (same < whole.size() && same < m_text.size() && whole[same] == m_text[same]) ++same;
  std::size_t tail = 0;
  while (tail < whole.size() - same && tail < m_text.size() - same &&
         whole[whole.size() - 1 - tail] == m_text[m_text.size() - 1 - tail])
    ++tail;
  TextEdit edit{same, m_text.substr(same, m_text.size() - same - tail), whole.substr(same, whole.size() - same - tail)};
  if (edit.removed == edit.inserted) return parts[std::min(wanted, parts.size() - 1)].id;
  record(edit, std::move(label), false);
  std::map<std::size_t, CellId> ids;
  for (const auto& [at, id] : starts)
    if (id != 0) ids[at] = id;
  apply(edit, &ids);
  CellId result = 0;
  for (const Cell& cell : m_cells)
    if (wanted < starts.size() && cell.begin == starts[wanted].first) result = cell.id;
  if (edited) edited(edit);
  return result != 0 ? result : m_cells.back().id;
}

CellId Document::insertCell(std::size_t index, CellKind kind, std::string_view body) {
  std::vector<Chunk> parts = chunks();
  index = std::min(index, parts.size());
  std::string text = separator(kind).append(body);
  if (!body.empty() && !body.ends_with('\n')) text += newline();
  // A blank line before the next cell; what is written into an empty one ends with the first of two.
  if (index < parts.size()) text.append(newline()).append(body.empty() ? newline() : "");
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(index), Chunk{std::move(text), 0});
  return restructure(std::move(parts), "Insert cell", index);
}

void Document::removeCell(CellId id) {
  const std::size_t index = indexOf(id);
  if (index >= m_cells.size()) return;
  std::vector<Chunk> parts = chunks();
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(index));
  restructure(std::move(parts), "Delete cell");
}

void Document::moveCell(CellId id, std::size_t toIndex) {
  const std::size_t index = indexOf(id);
  if (index >= m_cells.size() || toIndex >= m_cells.size() || index == toIndex) return;
  std::vector<Chunk> parts = chunks();
  Chunk moved = std::move(parts[index]);
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(index));
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(toIndex), std::move(moved));
  restructure(std::move(parts), "Move cell");
}

void Document::setKind(CellId id, CellKind kind) {
  const std::size_t index = indexOf(id);
  if (index >= m_cells.size() || m_cells[index].kind == kind) return;
  const Cell cell = m_cells[index];
  std::vector<Chunk> parts = chunks();
  const std::string_view old = body(cell);
  std::string text = separator(kind);
  text += kind == CellKind::Markdown ? markdownToBody(old, newline()) : markdownOf(old);
  text += m_text.substr(cell.bodyEnd, cell.end - cell.bodyEnd);
  parts[index].text = std::move(text);
  restructure(std::move(parts), kind == CellKind::Markdown ? "Change to Markdown" : "Change to code");
}

CellId Document::splitCell(CellId id, std::size_t byteInBody) {
  const std::size_t index = indexOf(id);
  if (index >= m_cells.size()) return id;
  const Cell cell = m_cells[index];
  const std::size_t at = std::min(cell.bodyBegin + byteInBody, cell.bodyEnd);
  std::vector<Chunk> parts = chunks();
  std::string first = m_text.substr(cell.begin, at - cell.begin), second = m_text.substr(at, cell.end - at);
  if (cell.kind == CellKind::Markdown) {  // each half is comments of its own
    const std::string markdown = markdownOf(body(cell));
    const std::size_t offset = markdownOffset(body(cell), byteInBody);
    const std::size_t from = std::min(markdown.find_first_not_of('\n', offset), markdown.size());
    const std::size_t to = offset > 0 ? markdown.find_last_not_of('\n', offset - 1) + 1 : 0;
    first = m_text.substr(cell.begin, cell.bodyBegin - cell.begin) + markdownToBody(markdown.substr(0, to), newline());
    second = markdownToBody(markdown.substr(from), newline()) + m_text.substr(cell.bodyEnd, cell.end - cell.bodyEnd);
  }
  if (!first.ends_with('\n')) first += newline();
  second.erase(0, std::min(second.find_first_not_of("\r\n"), second.size()));
  parts[index].text = std::move(first);
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(index) + 1, Chunk{separator(cell.kind) + second, 0});
  return restructure(std::move(parts), "Split cell", index + 1);
}

void Document::joinWithNext(CellId id) {
  const std::size_t index = indexOf(id);
  if (index + 1 >= m_cells.size()) return;
  const Cell a = m_cells[index], b = m_cells[index + 1];
  std::vector<Chunk> parts = chunks();
  std::string text = m_text.substr(a.begin, a.bodyEnd - a.begin);
  if (!text.empty() && !text.ends_with('\n')) text += newline();
  const std::string_view second = body(b);
  text += a.kind == b.kind               ? std::string(second)
          : a.kind == CellKind::Markdown ? markdownToBody(second, newline())
                                         : markdownOf(second);
  text += m_text.substr(b.bodyEnd, b.end - b.bodyEnd);
  parts[index].text = std::move(text);
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(index) + 1);
  restructure(std::move(parts), "Join cells");
}

std::optional<Document::HintLine> Document::findHint(std::string_view producer, std::string_view consumer) const {
  for (const Cell& cell : m_cells) {
    if (cell.kind != CellKind::Code) continue;
    for (std::size_t at = cell.bodyBegin; at < cell.bodyEnd;) {
      const std::size_t newlineAt = m_text.find('\n', at);
      const std::size_t next = newlineAt == std::string::npos ? m_text.size() : newlineAt + 1;
      const auto hint = parseHint(std::string_view(m_text).substr(at, next - at));
      if (hint && hint->first == producer && hint->second == consumer)
        return HintLine{at, next, hint->word == "fuse" ? FusionHint::Fuse : FusionHint::Split};
      at = next;
    }
  }
  return std::nullopt;
}

bool Document::labelsFusionHint(std::string_view label) {
  return label == kNoFusion || label == kForceFusion || label == kForbidFusion;
}

bool Document::labelsScheduleHint(std::string_view label) { return label == kPinSchedule || label == kUnpinSchedule; }

Document::FusionHint Document::fusionHint(std::string_view producer, std::string_view consumer) const {
  const auto found = findHint(producer, consumer);
  return found ? found->hint : FusionHint::None;
}

void Document::setFusionHint(std::string_view producer, std::string_view consumer, FusionHint hint) {
  const auto found = findHint(producer, consumer);
  if ((found ? found->hint : FusionHint::None) == hint) return;
  std::string line;
  if (hint != FusionHint::None)
    line.append(hint == FusionHint::Fuse ? "hint fuse " : "hint split ")
        .append(quotedName(producer))
        .append(", ")
        .append(quotedName(consumer))
        .append(newline());
  const std::string label = hint == FusionHint::None ? kNoFusion : hint == FusionHint::Fuse ? kForceFusion : kForbidFusion;
  if (!found) addHint(line, label);
  else if (hint == FusionHint::None) removeHint(found->begin, found->end, label);
  else replace(found->begin, found->end, line, label);
}

std::optional<Document::ScheduleLines> Document::findScheduleHint(std::string_view tensor) const {
  for (const Cell& cell : m_cells) {
    if (cell.kind != CellKind::Code) continue;
    const std::string_view all = std::string_view(m_text).substr(0, cell.bodyEnd);
    for (std::size_t at = cell.bodyBegin; at < cell.bodyEnd;) {
      const std::size_t newlineAt = all.find('\n', at);
      const std::size_t next = newlineAt == std::string_view::npos ? all.size() : newlineAt + 1;
      std::size_t p = at;
      const auto word = [&](std::string_view wanted) {
        while (p < next && isBlank(all[p])) ++p;
        if (all.substr(p, wanted.size()) != wanted) return false;
        p += wanted.size();
        return p < next && isBlank(all[p]);
      };
      if (word("hint") && word("schedule")) {
        while (p < next && isBlank(all[p])) ++p;
        const std::size_t brace = all.find('{', p);
        std::size_t nameEnd = brace == std::string_view::npos ? p : brace;
        while (nameEnd > p && std::string_view(" \t\r\n").find(all[nameEnd - 1]) != std::string_view::npos) --nameEnd;
        if (brace != std::string_view::npos && unquoted(all.substr(p, nameEnd - p)) == tensor) {
          int depth = 0;
          for (std::size_t i = brace; i < all.size(); ++i) {
            depth += all[i] == '{' ? 1 : all[i] == '}' ? -1 : 0;
            if (depth > 0) continue;
            const std::size_t lineEnd = all.find('\n', i);
            return ScheduleLines{at, lineEnd == std::string_view::npos ? all.size() : lineEnd + 1, brace, i + 1};
          }
        }
      }
      at = next;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Document::scheduleHint(std::string_view tensor) const {
  const auto found = findScheduleHint(tensor);
  if (!found) return std::nullopt;
  return m_text.substr(found->jsonBegin, found->jsonEnd - found->jsonBegin);
}

void Document::setScheduleHint(std::string_view tensor, std::optional<std::string_view> json) {
  constexpr std::size_t kColumns = 88;
  const auto found = findScheduleHint(tensor);
  if (!json) {
    if (found) removeHint(found->begin, found->end, kUnpinSchedule);
    return;
  }
  std::string line = "hint schedule ";
  line.append(quotedName(tensor)).append(" ");
  std::string written;
  for (const char c : scheduleText(*json, line.size(), kColumns)) {
    if (c == '\n') written += newline();
    else written += c;
  }
  if (!found) {
    addHint(line + written + std::string(newline()), kPinSchedule);
  } else if (std::string_view(m_text).substr(found->jsonBegin, found->jsonEnd - found->jsonBegin) != written) {
    replace(found->jsonBegin, found->jsonEnd, written, kPinSchedule);
  }
}

void Document::addHint(const std::string& line, const std::string& label) {
  // A last cell of nothing but hints takes the new one; else a cell of its own, after every name it may use.
  const Cell& last = m_cells.back();
  bool onlyHints = last.kind == CellKind::Code && last.bodyEnd > last.bodyBegin;
  std::ptrdiff_t open = 0;  // braces of a schedule
  for (std::size_t at = last.bodyBegin; onlyHints && at < last.bodyEnd;) {
    const std::size_t newlineAt = m_text.find('\n', at);
    const std::size_t next = newlineAt == std::string::npos ? m_text.size() : newlineAt + 1;
    const std::string_view text = std::string_view(m_text).substr(at, next - at);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    onlyHints = open > 0 || first == std::string_view::npos || text.substr(first).starts_with("hint ") || text[first] == '#';
    open += std::count(text.begin(), text.end(), '{') - std::count(text.begin(), text.end(), '}');
    at = next;
  }
  std::string text;
  if (onlyHints) {
    replace(last.bodyEnd, last.bodyEnd, std::string(newline()) + line.substr(0, line.size() - newline().size()), label);
  } else {
    if (!m_text.empty() && !m_text.ends_with('\n')) text += newline();
    text.append(newline()).append(separator(CellKind::Code)).append(line);
    replace(m_text.size(), m_text.size(), text, label);
  }
}

void Document::removeHint(std::size_t begin, std::size_t end, const std::string& label) {
  const auto holds = [&](const Cell& c) { return c.bodyBegin <= begin && end <= c.end; };
  const auto cell = std::find_if(m_cells.begin(), m_cells.end(), holds);
  NF_ASSERT(cell != m_cells.end());
  const std::string_view text = m_text;
  const std::string rest =
      std::string(text.substr(cell->bodyBegin, begin - cell->bodyBegin)).append(text.substr(end, cell->end - end));
  if (m_cells.size() == 1 || rest.find_first_not_of(" \t\r\n") != std::string::npos) return replace(begin, end, {}, label);
  std::vector<Chunk> parts = chunks();
  const bool last = cell + 1 == m_cells.end();
  parts.erase(parts.begin() + (cell - m_cells.begin()));
  // The blank line that addHint() put before it.
  if (std::string& before = parts.back().text; last && (before.ends_with("\n\n") || before.ends_with("\n\r\n")))
    before.resize(before.size() - newline().size());
  restructure(std::move(parts), label);
}

std::optional<std::size_t> Document::undo() {
  if (!canUndo()) return std::nullopt;
  leaveState();
  const TextEdit& done = m_history.steps[--m_history.done].edit;
  const TextEdit edit{done.begin, done.inserted, done.removed};
  travel(edit);
  return edit.begin + edit.inserted.size();
}

std::optional<std::size_t> Document::redo() {
  if (!canRedo()) return std::nullopt;
  leaveState();
  const TextEdit edit = m_history.steps[m_history.done++].edit;
  travel(edit);
  return edit.begin + edit.inserted.size();
}

void Document::markSaved() {
  m_history.saved = m_history.done;
  if (m_history.done > 0) m_history.steps[m_history.done - 1].typing = false;
}

}  // namespace nf
