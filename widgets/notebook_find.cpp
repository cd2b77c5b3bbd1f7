// SPDX-License-Identifier: GPL-3.0-or-later
// What is found in a notebook, replaced and renamed.
#include <algorithm>
#include <utility>

#include "core/syntax/rename.h"
#include "widgets/expression_editor.h"
#include "widgets/notebook_view.h"

namespace nf {

void NotebookView::refind() {
  const auto how = m_findExact ? Qt::CaseSensitive : Qt::CaseInsensitive;
  for (CellView* v : m_cells) {
    CellView::Found found;
    found.text = m_find, found.exact = m_findExact;
    const std::string& bytes = v->editor()->bytes();
    const std::u16string units = displayText(bytes);
    const QString text = QString::fromUtf16(units.data(), static_cast<qsizetype>(units.size()));
    qsizetype unit = 0;
    std::size_t byte = 0;
    const auto byteOf = [&](qsizetype place) {
      byte += byteOffset(std::string_view(bytes).substr(byte), static_cast<std::size_t>(place - unit));
      unit = place;
      return byte;
    };
    for (qsizetype at = m_find.isEmpty() ? -1 : text.indexOf(m_find, 0, how); at >= 0;
         at = text.indexOf(m_find, at + m_find.size(), how)) {
      const std::size_t begin = byteOf(at);
      found.places.emplace_back(begin, byteOf(at + m_find.size()));
    }
    const bool none = found.places.empty() && v->found().places.empty();
    if (!none) v->setFound(std::move(found));
  }
  const int all = foundPlaces();
  m_foundHere = all == 0 ? -1 : std::clamp(m_foundHere, 0, all - 1);
}

int NotebookView::foundPlaces() const {
  std::size_t all = 0;
  for (const CellView* v : m_cells) all += v->found().places.size();
  return static_cast<int>(all);
}

std::pair<CellView*, std::size_t> NotebookView::placeFound(int index) const {
  for (CellView* v : m_cells) {
    const auto here = static_cast<int>(v->found().places.size());
    if (index >= 0 && index < here) return {v, static_cast<std::size_t>(index)};
    index -= here;
  }
  return {nullptr, 0};
}

void NotebookView::showFound(bool reveal) {
  const auto [cell, place] = placeFound(m_foundHere);
  for (CellView* v : m_cells) {
    const int here = v == cell ? static_cast<int>(place) : -1;
    if (v->found().here == here) continue;
    CellView::Found found = v->found();
    found.here = here;
    v->setFound(std::move(found));
  }
  if (cell && reveal) {
    if (cell->editor()->isVisibleTo(cell)) {
      cell->editor()->selectBytes(cell->found().places[place].second, cell->found().places[place].second);
      const QPoint at = cell->editor()->rectOf(cell->found().places[place].first).center();
      const QPoint there = cell->editor()->mapTo(m_content, at);
      ensureVisible(there.x(), there.y(), 0, viewport()->height() / 4);
    } else {
      showCell(cell);
    }
  }
  Q_EMIT foundChanged();
}

void NotebookView::find(const QString& text, bool exact) {
  const bool fresh = m_find.isEmpty();
  m_find = text;
  m_findExact = exact;
  if (fresh) m_foundHere = 0;
  refind();
  // The first place after the caret of the active cell.
  if (fresh && !text.isEmpty()) {
    int index = 0;
    for (CellView* v : m_cells) {
      if (v->id() == m_active) {
        const std::size_t caret = m_editing ? v->editor()->selectionBytes().first : 0;
        for (const auto& [begin, end] : v->found().places) index += begin < caret;
        break;
      }
      index += static_cast<int>(v->found().places.size());
    }
    if (const int all = foundPlaces(); all > 0) m_foundHere = index % all;
  }
  showFound(true);
}

void NotebookView::findNext(int direction) {
  const int all = foundPlaces();
  if (all == 0) return;
  m_foundHere = (m_foundHere + direction + all) % all;
  showFound(true);
}

bool NotebookView::step(const QString& text, bool exact, int direction) {
  const CellView* active = m_editing ? view(m_active) : nullptr;
  const auto chosen = active ? active->editor()->selectionBytes() : std::pair<std::size_t, std::size_t>();
  find(text, exact);
  const auto [cell, place] = placeFound(m_foundHere);
  // The first one behind the caret is the next one, unless it is the one that was gone to last.
  if (cell && (direction < 0 || (cell == active && cell->found().places[place] == chosen))) findNext(direction);
  if (cell) goToFound();
  find({}, false);
  return cell;
}

void NotebookView::replaceFound(const QString& with) {
  const auto [cell, place] = placeFound(m_foundHere);
  if (!cell || m_readOnly) return;
  const auto [begin, end] = cell->found().places[place];
  const int before = foundPlaces();
  cell->editor()->selectBytes(begin, end);
  cell->editor()->insertAtCaret(with);
  refind();
  // What was put in may hold what is looked for: that is behind.
  if (foundPlaces() >= before && foundPlaces() > 0) m_foundHere = (m_foundHere + 1) % foundPlaces();
  showFound(true);
}

void NotebookView::replaceAllFound(const QString& with) {
  if (m_readOnly || m_find.isEmpty()) return;
  std::vector<Document::Replacement> all;
  for (const CellView* v : m_cells) {
    const auto& places = v->found().places;
    const Cell* cell = m_document->cell(v->id());
    if (places.empty() || !cell) continue;
    if (v->kind() == CellKind::Code) {
      for (const auto& [begin, end] : places) all.push_back({v->bodyBegin + begin, v->bodyBegin + end, with.toStdString()});
      continue;
    }
    const std::string& bytes = v->editor()->bytes();
    std::string text;
    std::size_t at = 0;
    for (const auto& [begin, end] : places) {
      text += bytes.substr(at, begin - at) + with.toStdString();
      at = end;
    }
    all.push_back({cell->bodyBegin, cell->bodyEnd, markdownToBody(text + bytes.substr(at), m_document->newline())});
  }
  if (all.empty()) return;
  m_document->replaceAll(all, tr("Replace all").toStdString());
  followDocument();
  Q_EMIT edited();
  refind();
  showFound(true);
}

QString NotebookView::rename(const QString& name, const QString& to) {
  if (m_readOnly) return tr("The notebook is open in another window.");
  const std::string next = to.trimmed().toStdString(), &text = m_document->text();
  if (next == name.toStdString()) return {};
  if (const std::string why = whyNotNamed(text, next); !why.empty()) return QString::fromStdString(why);
  // A function of the notebook may take the name of one of the library, which the notebook does not call: the name stands nowhere.
  const bool function =
      m_analysis && std::ranges::any_of(m_analysis->symbols, [&](const protocol::SymbolInfo& s) {
        return s.name == name.toStdString() && s.kind == protocol::SymbolKind::Function && s.definition.source.empty();
      });
  if (m_analysis && !function)
    for (const protocol::SymbolInfo& s : m_analysis->symbols)
      if (s.name == next && !s.definition.source.empty())
        return tr("`%1` is taken: it is a function of %2.").arg(to.trimmed(), QString::fromStdString(s.definition.source));
  std::vector<Document::Replacement> all;
  for (const auto& [begin, end] : placesOfName(text, name.toStdString())) all.push_back({begin, end, next});
  if (all.empty()) return tr("`%1` stands in no cell.").arg(name);
  m_document->replaceAll(all, tr("Rename %1").arg(name).toStdString());
  followDocument();
  Q_EMIT edited();
  return {};
}

void NotebookView::goToFound() {
  const auto [cell, place] = placeFound(m_foundHere);
  if (!cell) return activate(m_active, m_editing);
  const auto [begin, end] = cell->found().places[place];
  activate(cell->id(), true);
  cell->editor()->selectBytes(begin, end);
}

}  // namespace nf
