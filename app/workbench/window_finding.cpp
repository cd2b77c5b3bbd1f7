// SPDX-License-Identifier: GPL-3.0-or-later
// What finds: the palette, the search in the text, the way from mistake to mistake.
#include <QAction>
#include <QDockWidget>
#include <QLineEdit>
#include <QTextCursor>
#include <iterator>
#include <map>
#include <utility>

#include "app/workbench/main_window.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/command_palette.h"
#include "widgets/dock_page.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/find_bar.h"
#include "widgets/graph_view.h"
#include "widgets/markdown_view.h"
#include "widgets/names.h"
#include "widgets/notebook_view.h"

namespace nf {

void MainWindow::openPalette(bool everything) {
  std::vector<CommandPalette::Entry> entries;
  if (everything) {
    for (const auto& s : m_tab->workspace->analysis().symbols) {
      // A gradient that has a name is one row, below.
      if (const auto* t = m_tab->workspace->tensor(s.name); t && t->derivative) continue;
      const bool function = s.kind == protocol::SymbolKind::Function;
      entries.push_back({function ? QStringLiteral("function") : QStringLiteral("tensor"), QString::fromStdString(s.name),
                         QString::fromStdString(s.definition.source.empty() ? s.detail : s.definition.source).left(28),
                         [this, name = QString::fromStdString(s.name)] { goToDefinition(name); },
                         spellings(QString::fromStdString(s.name))});
    }
    for (const auto& t : m_tab->workspace->analysis().tensors)
      if (t.derivative)
        entries.push_back({QStringLiteral("sum"), derivativeText(QString::fromStdString(t.name)), shapeText(t.shape),
                           [this, name = QString::fromStdString(t.name)] {
                             showPage(Page::Author);
                             m_author->panel(QStringLiteral("inspector"))->show();
                             chooseTensor(name);
                           },
                           spellings(QString::fromStdString(t.name))});
    int number = 0;
    for (const Cell& cell : m_tab->workspace->document().cells()) {
      const auto body = m_tab->workspace->document().body(cell);
      const QString text = QString::fromStdString(std::string(body));
      QString first = cell.kind == CellKind::Markdown ? firstLineOf(QString::fromStdString(markdownOf(body)))
                                                      : text.section(QLatin1Char('\n'), 0, 0, QString::SectionSkipEmpty);
      number += cell.kind == CellKind::Code;
      // A cell that trains is known by that.
      if (const CellView* v = m_tab->notebook->view(cell.id); v && v->train())
        for (const QString& line : text.split(QLatin1Char('\n')))
          if (line.startsWith(QLatin1String("train "))) first = line;
      entries.push_back({cell.kind == CellKind::Code ? QStringLiteral("code") : QStringLiteral("text"), first,
                         cell.kind == CellKind::Code ? tr("cell %1").arg(number) : tr("text"), [this, id = cell.id] {
                           showPage(Page::Author);
                           m_tab->notebook->activate(id, false);
                           if (CellView* v = m_tab->notebook->view(id)) m_tab->notebook->showCell(v);
                         }});
    }
    for (const auto& node : m_explain->graph()->graph().nodes)
      entries.push_back({QStringLiteral("graph"), shortName(node.name), tr("node"),
                         [this, id = QString::fromStdString(node.id)] {
                           showPage(Page::Explain);
                           m_explain->graph()->choose(id, true);
                         },
                         spellings(QString::fromStdString(node.name))});
  }
  for (const QString& id : m_actions->order()) {
    QAction* a = action(id);
    if (a->isEnabled())
      entries.push_back({a->property("iconName").toString(), m_actions->group(id) + QStringLiteral(": ") + a->text(),
                         a->shortcut().toString(QKeySequence::NativeText), [a] { a->trigger(); }});
  }
  m_palette->open(everything ? tr("Go to anything") : tr("Run a command"), std::move(entries));
}

// On the page of the graph, in it; else in the notebook.
void MainWindow::openFind(bool replace) {
  if (page() == Page::Explain && !replace) {
    m_explain->finder()->setFocus(Qt::ShortcutFocusReason);
    return m_explain->finder()->selectAll();
  }
  QString text;
  if (const CellView* v = notebook()->view(notebook()->activeCell()); v && notebook()->editing())
    text = v->editor()->textCursor().selectedText();
  if (text.contains(QChar::ParagraphSeparator)) text.clear();
  showPage(Page::Author);
  m_find->open(text, replace);
}

void MainWindow::stepFound(int direction) {
  if (m_find->isVisible()) return notebook()->findNext(direction);
  const QString text = m_find->field()->text();
  if (text.isEmpty()) return openFind(false);
  showPage(Page::Author);
  if (!notebook()->step(text, m_find->exact(), direction)) setStatus("warning", tr("There is no \"%1\" here").arg(text));
}

// Around the end of the text; warnings are mistakes, too.
void MainWindow::stepMistake(int direction) {
  if (!workspace().analysisIsCurrent()) return setStatus("running", tr("The text is still being read"));
  std::map<std::size_t, const protocol::DiagnosticInfo*> places;
  for (const protocol::DiagnosticInfo& d : workspace().analysis().diagnostics)
    if (d.span.source.empty() && !notebook()->placeName(d.span.begin).isEmpty()) places.emplace(d.span.begin, &d);
  if (places.empty()) return setStatus("ok", tr("There is no mistake"));
  showPage(Page::Author);
  const std::size_t caret = notebook()->caretByte();
  auto at = direction > 0 ? places.upper_bound(caret) : places.lower_bound(caret);
  if (direction > 0 && at == places.end()) at = places.begin();
  else if (direction < 0) at = std::prev(at == places.begin() ? places.end() : at);
  notebook()->scrollToByte(at->first, true);
  const protocol::DiagnosticInfo& d = *at->second;
  setStatus(d.severity == protocol::Severity::Error ? "error" : "warning",
            tr("%1 of %2, %3: %4")
                .arg(std::distance(places.begin(), at) + 1)
                .arg(places.size())
                .arg(notebook()->placeName(at->first), QString::fromStdString(d.message).section(QLatin1Char('\n'), 0, 0)));
}

void MainWindow::closeFind() {
  m_find->hide();
  notebook()->goToFound();
  notebook()->find({}, false);
}

}  // namespace nf
