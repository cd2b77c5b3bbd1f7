// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/notebook_view.h"

#include <QAbstractButton>
#include <QApplication>
#include <QClipboard>
#include <QKeyEvent>
#include <QScrollBar>
#include <QTimer>
#include <QVBoxLayout>
#include <cmath>
#include <functional>
#include <utility>

#include "widgets/command_note.h"
#include "widgets/expression_editor.h"
#include "widgets/tensor_view.h"

namespace nf {

namespace {

// Wherever somebody presses in the application.
class EveryPress : public QObject {
 public:
  EveryPress(QObject* parent, std::function<void(const QWidget*)> pressed) : QObject(parent), m_pressed(std::move(pressed)) {}
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::MouseButtonPress && watched->isWidgetType()) m_pressed(static_cast<const QWidget*>(watched));
    return false;
  }

 private:
  std::function<void(const QWidget*)> m_pressed;
};

}  // namespace

NotebookView::NotebookView(const Theme* theme, Selection* selection, QWidget* parent)
    : QScrollArea(parent), m_look(new Theme(*theme, this)), m_theme(m_look), m_selection(selection), m_content(new QWidget),
      m_layout(new QVBoxLayout(m_content)) {
  m_look->setAsleep(true);
  setWidgetResizable(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Notebook"));
  m_content->setProperty("role", QStringLiteral("page"));
  m_content->setAttribute(Qt::WA_StyledBackground);
  m_layout->setContentsMargins(0, 14, 0, 120);
  m_layout->setSpacing(14);
  m_layout->addStretch(1);
  setMinimumWidth(440);  // px: the tabs of a result beside the gutter
  setWidget(m_content);
  m_note = new CommandNote(m_theme, viewport());
  connect(m_note, &CommandNote::undoRequested, this, &NotebookView::undoDone);
  qApp->installEventFilter(new EveryPress(this, [this](const QWidget* at) { pressed(at); }));
  connect(qApp, &QApplication::focusChanged, this, [this](const QWidget*, const QWidget* now) { followKeyboard(now); });
  connect(verticalScrollBar(), &QScrollBar::actionTriggered, this, [this] { letGo(); });
  connect(verticalScrollBar(), &QScrollBar::rangeChanged, this, [this] { keepHeld(); });
}

// Its parts hand the keyboard on while they go, when the cells are gone.
NotebookView::~NotebookView() { disconnect(qApp, nullptr, this, nullptr); }

void NotebookView::showEvent(QShowEvent* event) {
  QScrollArea::showEvent(event);
  m_look->setAsleep(false);
}

void NotebookView::hideEvent(QHideEvent* event) {
  QScrollArea::hideEvent(event);
  m_look->setAsleep(true);
}

void NotebookView::setFolder(const QString& folder) {
  if (m_folder == folder) return;
  m_folder = folder;
  for (const auto* views : {&m_cells, &m_aside})
    for (CellView* v : *views) v->setFolder(folder);
}

void NotebookView::setDocument(Document* document) {
  m_document = document;
  m_analysis.reset();
  m_analysisCells.clear();
  for (const auto* views : {&m_cells, &m_aside})
    for (CellView* v : *views) v->hide(), v->deleteLater();
  m_cells.clear();
  m_aside.clear();
  m_madeFrom.clear();
  m_active = 0;
  m_editing = false;
  if (!m_document) return;
  followDocument();
  if (!m_cells.empty()) activate(m_cells.front()->id(), false);
}

CellView* NotebookView::make(const Cell& cell) {
  auto* v = new CellView(m_theme, m_selection, cell.id, cell.kind);
  v->setFolder(m_folder);
  v->editor()->setReadOnly(m_readOnly);
  v->installEventFilter(this);
  connect(v, &CellView::bytesEdited, this, [this, v](std::size_t begin, std::size_t end, const QByteArray& text) {
    std::string bytes = text.toStdString();
    // Return behind a separator ends the separator's line, which the cell does not show.
    const bool first = std::exchange(m_begun, v->kind() == CellKind::Markdown ? 0 : m_begun) == v->id();
    const auto newline = [](std::string_view text) { return text == "\n" || text == "\r\n"; };
    if (first && newline(v->editor()->bytes()) && (v->kind() == CellKind::Markdown || newline(bytes))) {
      m_begun = 0;
      v->editor()->setBytes({});
      const Cell* whole = m_document->cell(v->id());
      return v->setBody(whole ? std::string(m_document->body(*whole)) : std::string());
    }
    const std::string& before = m_document->text();
    const Cell* cell = m_document->cell(v->id());
    if (cell && cell->begin < cell->bodyBegin && cell->bodyBegin == before.size() && !before.ends_with('\n'))
      bytes.insert(0, m_document->newline());
    const std::size_t at = v->bodyBegin + begin + bytes.size();
    // Nothing stands between it and the next separator, which is one at the start of its line.
    if (cell && v->bodyBegin + end == cell->end && cell->end < before.size() && !bytes.empty() && !bytes.ends_with('\n'))
      bytes += m_document->newline();
    const bool bare = cell && cell->begin == cell->bodyBegin;
    m_document->replace(v->bodyBegin + begin, v->bodyBegin + end, bytes, tr("Typing").toStdString(), true);
    // The first cell of a notebook may have had no separator: the one that was typed is its own.
    if (const Cell* now = m_document->cell(v->id()); bare && !bytes.empty() && now && now->begin < now->bodyBegin)
      m_begun = v->id();
    Q_EMIT edited();
    followTyped(v->id(), at);
  });
  connect(v->editor(), &ExpressionEditor::signatureChanged, this, &NotebookView::signatureChanged);
  connect(v, &CellView::focused, this, [this, v] { activate(v->id(), v->editor()->hasFocus()); });
  connect(v, &CellView::commandModeWanted, this, [this, v] { activate(v->id(), false); });
  connect(v, &CellView::caretMoved, this, [this, v] {
    if (v->editor()->hasFocus()) {
      m_keptInSight = nullptr;
      // What is typed makes the editor higher behind this.
      QTimer::singleShot(0, v, [this, v, pressed = QGuiApplication::mouseButtons() != Qt::NoButton] { followCaret(v, pressed); });
    }
    // A press in a window that is not active yet gives the editor the keyboard behind it.
    if ((!m_editing || m_active != v->id()) && QGuiApplication::mouseButtons() != Qt::NoButton &&
        v->editor()->window()->focusWidget() == v->editor())
      activate(v->id(), true);
    if (!m_editing || m_active != v->id()) return;
    forgetCommand();
    const std::size_t at = v->bodyBegin + v->editor()->caretByte();
    if (v->kind() == CellKind::Code) selectCaret(v);
    const std::string_view before = std::string_view(m_document->text()).substr(0, at);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const std::size_t lineBegin = before.rfind('\n');
    const auto column = unitOffset(before.substr(lineBegin == std::string_view::npos ? 0 : lineBegin + 1), before.size());
    Q_EMIT caretMoved(static_cast<int>(lines) + 1, static_cast<int>(column) + 1);
  });
  connect(v, &CellView::fixRequested, this, [this](std::uint32_t begin, std::uint32_t end, const QString& text) {
    if (!m_analysis || m_document->revision() != m_analysis->revision || end > m_document->text().size() || begin > end) return;
    m_document->replace(begin, end, text.toStdString(), tr("Fix").toStdString());
    followDocument();
    scrollToByte(begin + text.toStdString().size(), true);
    Q_EMIT edited();
  });
  connect(v, &CellView::leave, this, [this, v](int direction) {
    const std::size_t index = m_document->indexOf(v->id());
    if ((direction < 0 && index == 0) || (direction > 0 && index + 1 >= m_cells.size())) return;
    CellView* next = m_cells[index + static_cast<std::size_t>(direction)];
    activate(next->id(), next->kind() == CellKind::Code);
    next->editor()->moveCaretTo(direction > 0 ? 0 : next->editor()->bytes().size());
  });
  connect(v->editor(), &ExpressionEditor::writingRefused, this, [this] {
    tell(tr("Read-only here: the notebook is open elsewhere"));
    Q_EMIT writingRefused();
  });
  connect(v->editor(), &ExpressionEditor::undoWanted, this, &NotebookView::undoRequested);
  connect(v->editor(), &ExpressionEditor::redoWanted, this, &NotebookView::redoRequested);
  connect(v->editor(), &ExpressionEditor::menuWanted, this,
          [this, v](const QPoint& at) { Q_EMIT textMenuRequested(v->editor(), at); });
  connect(v, &CellView::expressionWanted, this, &NotebookView::expressionWanted);
  connect(v, &CellView::checkingChanged, this, &NotebookView::checkingChanged);
  connect(v, &CellView::sliceWanted, this, [this, v] {
    if (v->tensorView() && !v->tensorView()->tensor().isEmpty()) Q_EMIT tensorWanted(v->tensorView()->request());
  });
  connect(v, &CellView::textCopied, this, &NotebookView::textCopied);
  connect(v, &CellView::pauseRequested, this, &NotebookView::pauseRequested);
  connect(v, &CellView::stopRequested, this, &NotebookView::stopRequested);
  connect(v, &CellView::swapChosen, this, &NotebookView::swapChosen);
  connect(v, &CellView::resumeRequested, this, [this, v] { Q_EMIT resumeRequested(v->id()); });
  connect(v, &CellView::runsRequested, this, [this, v] { Q_EMIT runsRequested(v->id()); });
  connect(v, &CellView::trainAgainRequested, this, [this, v] { Q_EMIT trainAgainRequested(v->id()); });
  connect(v, &CellView::runRequested, this, [this, v] { Q_EMIT runRequested(v->id()); });
  v->setPlaceName([this](std::uint32_t byte) { return placeName(byte); });
  v->editor()->setAbout([this](const protocol::SourceSpan& place) { return aboutAt(place); });
  connect(v, &CellView::mistakeChosen, this, [this, v](std::size_t begin, std::size_t end) {
    activate(v->id(), true);
    const std::size_t size = v->editor()->bytes().size();
    v->editor()->selectBytes(std::min(begin, size), std::min(end, size));
    selectCaret(v);
    showPlace(v, std::min(begin, size));
  });
  connect(v, &CellView::placeRequested, this, [this](std::uint32_t byte) {
    if (m_analysis && m_document->revision() == m_analysis->revision) scrollToByte(byte, true);
  });
  return v;
}

// A separator that was typed begins a cell: what is typed next is that cell's.
void NotebookView::followTyped(CellId id, std::size_t byte) {
  if (!m_editing || m_active != id) return;
  CellView* v = view(id);
  const std::string_view written = v ? std::string_view(v->editor()->bytes()) : std::string_view();
  const std::size_t begin = written.find_first_not_of(" \t");
  if (constexpr std::string_view kMarkdown = "[markdown]";
      m_begun == id && begin != std::string_view::npos && written.substr(begin).starts_with(kMarkdown)) {
    const Cell cell = *m_document->cell(id);
    m_document->replace(cell.bodyBegin, cell.bodyBegin + begin + kMarkdown.size(), {}, tr("Typing").toStdString(), true);
    m_document->setKind(id, CellKind::Markdown);
    followDocument();
    activate(id, true);
    return Q_EMIT edited();
  }
  const auto& cells = m_document->cells();
  const auto here = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) { return byte < c.end; });
  const Cell& cell = here == cells.end() ? cells.back() : *here;
  if (cell.id == id || !view(cell.id)) return;
  m_begun = cell.id;
  activate(cell.id, true);
  view(cell.id)->editor()->moveCaretTo(byte > cell.bodyBegin ? byte - cell.bodyBegin : 0);
}

QString NotebookView::placeName(std::uint32_t byte) const {
  int number = 0;
  for (const Cell& cell : m_document->cells()) {
    number += cell.kind == CellKind::Code;
    if (byte < cell.bodyBegin || byte >= cell.end) continue;
    const std::string_view before = std::string_view(m_document->text()).substr(cell.bodyBegin, byte - cell.bodyBegin);
    return tr("cell %1, line %2").arg(number).arg(std::count(before.begin(), before.end(), '\n') + 1);
  }
  return {};
}

QString NotebookView::aboutAt(const protocol::SourceSpan& place) const {
  constexpr int kMost = 240;
  QStringList above, about;  // lines
  QString line;
  const auto read = [&](std::string_view text, std::size_t at) {
    const auto utf16 = [](std::string_view bytes) { return QString::fromUtf8(asUtf8(bytes, '?')); };
    above = utf16(text.substr(0, at)).split(QLatin1Char('\n'));
    line = utf16(text).section(QLatin1Char('\n'), above.size() - 1, above.size() - 1);
    above.removeLast();
    const auto words = [](const QString& comment) { return comment.mid(comment.indexOf(QLatin1Char('#')) + 1).trimmed(); };
    for (; !above.isEmpty() && above.back().trimmed().startsWith(QLatin1Char('#')); above.removeLast())
      about.prepend(words(above.back()));
    if (about.isEmpty() && line.contains(QLatin1Char('#'))) about << words(line);
  };
  if (!place.source.empty()) {
    const std::string text = m_library ? m_library(place.source) : std::string();
    if (place.begin > text.size()) return {};
    read(text, place.begin);
  } else {
    const auto& cells = m_document->cells();
    const auto cell =
        std::find_if(cells.begin(), cells.end(), [&](const Cell& c) { return place.begin >= c.bodyBegin && place.begin < c.end; });
    if (cell == cells.end() || cell->kind != CellKind::Code) return {};
    read(m_document->body(*cell), place.begin - cell->bodyBegin);
    const bool first = std::all_of(above.begin(), above.end(), [](const QString& l) { return l.trimmed().isEmpty(); });
    if (about.isEmpty() && first && cell != cells.begin() && std::prev(cell)->kind == CellKind::Markdown) {
      const QStringList paragraphs =
          QString::fromStdString(markdownOf(m_document->body(*std::prev(cell)))).split(QStringLiteral("\n\n"), Qt::SkipEmptyParts);
      if (!paragraphs.isEmpty()) about = paragraphs.back().trimmed().split(QLatin1Char('\n'));
    }
  }
  const QString text = about.join(QLatin1Char(' ')).simplified();
  return text.size() <= kMost ? text : text.left(kMost - 1) + QChar(0x2026);
}

// What ran or is shown is kept for the cell's return; what runs is, in any case.
void NotebookView::putAside(CellView* v) {
  constexpr std::size_t kMostAside = 16;
  if (!v->hasRun() && v->shows().isEmpty()) return v->deleteLater();
  v->setActive(CellView::Active::No);
  m_aside.push_back(v);
  if (m_aside.size() <= kMostAside) return;
  const auto oldest =
      std::find_if(m_aside.begin(), m_aside.end(), [](CellView* a) { return a->status() != protocol::CellStatus::Running; });
  if (oldest == m_aside.end()) return;
  (*oldest)->deleteLater();
  m_aside.erase(oldest);
}

void NotebookView::followDocument() {
  const auto& cells = m_document->cells();
  std::map<CellId, CellView*> old;
  for (CellView* v : m_cells) old[v->id()] = v;
  std::vector<CellView*> next;
  int number = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    CellView* v = nullptr;
    if (const auto found = old.find(cell.id); found != old.end() && found->second->kind() == cell.kind) {
      v = found->second;
      old.erase(found);
    } else if (const auto back = std::find_if(m_aside.begin(), m_aside.end(),
                                              [&](CellView* a) { return a->id() == cell.id && a->kind() == cell.kind; });
               back != m_aside.end()) {
      v = *back;
      m_aside.erase(back);
    } else {
      v = make(cell);
    }
    v->bodyBegin = cell.bodyBegin;
    v->setNewline(std::string(m_document->newline()));
    // A cell whose editor holds blank lines at its end, which the document counts to the gap, keeps them while they are typed.
    const std::string& shown = v->editor()->bytes();
    const std::string_view whole = std::string_view(m_document->text()).substr(cell.bodyBegin, cell.end - cell.bodyBegin);
    const std::string_view body = m_document->body(cell);
    const bool same = cell.kind == CellKind::Code && shown.size() >= body.size() && whole.substr(0, shown.size()) == shown;
    if (!same) v->setBody(std::string(body));
    v->setNumber(cell.kind == CellKind::Code ? ++number : 0);
    if (m_layout->indexOf(v) != static_cast<int>(i)) {
      m_layout->removeWidget(v);
      m_layout->insertWidget(static_cast<int>(i), v);
      v->show();
      if (v->kind() == CellKind::Markdown) v->renderMarkdown();
    }
    next.push_back(v);
  }
  for (auto& [id, v] : old) {
    m_layout->removeWidget(v);
    v->hide();
    putAside(v);
  }
  m_cells = std::move(next);
  if (!m_document->cell(m_active) && !m_cells.empty()) activate(m_cells.back()->id(), false);
  if (m_analysis && m_document->revision() != m_analysis->revision) setOutdated();
  if (!m_find.isEmpty()) {
    refind();
    showFound(false);
  }
}

// The wheel with Ctrl changes the size of the text.
void NotebookView::wheelEvent(QWheelEvent* event) {
  letGo();
  if (!(event->modifiers() & Qt::ControlModifier)) return QScrollArea::wheelEvent(event);
  if (event->angleDelta().y() != 0) Q_EMIT zoomWanted(event->angleDelta().y() > 0 ? 1 : -1);
  event->accept();
}

void NotebookView::setReadOnly(bool readOnly) {
  m_readOnly = readOnly;
  for (const auto* views : {&m_cells, &m_aside})
    for (CellView* v : *views) v->editor()->setReadOnly(readOnly);
}

void NotebookView::setOutdated() {
  for (CellView* v : m_cells) v->setOutdated(true);
}

bool NotebookView::proves() const {
  return std::any_of(m_cells.begin(), m_cells.end(), [](const CellView* v) { return v->proves(); });
}

bool NotebookView::awaitsAnswers() const {
  return std::any_of(m_cells.begin(), m_cells.end(), [](const CellView* v) { return v->awaitsAnswer(); });
}

CellView* NotebookView::view(CellId id) const {
  const auto found = std::find_if(m_cells.begin(), m_cells.end(), [&](CellView* v) { return v->id() == id; });
  return found == m_cells.end() ? nullptr : *found;
}

CellView* NotebookView::viewThatRan(CellId id) const {
  const auto found = std::find_if(m_aside.begin(), m_aside.end(), [&](CellView* v) { return v->id() == id; });
  return found == m_aside.end() ? view(id) : *found;
}

std::vector<CellView*> NotebookView::cellsThatRan() const {
  std::vector<CellView*> all = m_cells;
  all.insert(all.end(), m_aside.begin(), m_aside.end());
  return all;
}

void NotebookView::setAnalysis(const protocol::Analysis& analysis) {
  m_analysis = analysis;
  m_analysisCells.clear();
  if (!m_document || analysis.revision != m_document->revision()) return;  // of a text that is gone: its places mean nothing here
  const auto symbols = std::make_shared<const std::vector<protocol::SymbolInfo>>(analysis.symbols);
  // Whatever a cell shows or hides would lay out all of them.
  m_layout->setEnabled(false);
  for (std::size_t i = 0; i < m_cells.size(); ++i) {
    CellView* v = m_cells[i];
    const Cell* cell = m_document->cell(v->id());
    const protocol::CellInfo* info = nullptr;
    for (std::size_t k = 0; cell && k < analysis.cells.size(); ++k) {
      const auto& c = analysis.cells[k];
      if (c.begin < std::max(cell->end, cell->begin + 1) && c.end > cell->begin &&
          c.markdown == (v->kind() == CellKind::Markdown)) {
        info = &c;
        m_analysisCells[v->id()] = static_cast<std::uint32_t>(k);
        break;
      }
    }
    v->editor()->setSymbols(symbols);
    v->setAnalysis(analysis, info);
  }
  m_layout->setEnabled(true);
  m_layout->activate();
  // What was typed has places now. Whoever has chosen something else since keeps that.
  const CellView* v = m_editing && m_selection->choices() == m_caretChoice ? view(m_active) : nullptr;
  if (v && v->kind() == CellKind::Code && v->editor()->hasFocus()) selectCaret(v);
}

// As soon as the places of the text as it is now are known.
void NotebookView::selectCaret(const CellView* v) {
  m_caretChoice = m_selection->choices();
  if (!m_analysis || m_analysis->revision != m_document->revision()) return;
  const auto [begin, end] = v->editor()->selectionBytes();
  m_selection->selectBytes(static_cast<std::uint32_t>(v->bodyBegin + begin), static_cast<std::uint32_t>(v->bodyBegin + end));
  m_caretChoice = m_selection->choices();
}

std::optional<std::uint32_t> NotebookView::analysisCell(CellId id) const {
  const auto found = m_analysisCells.find(id);
  return found == m_analysisCells.end() ? std::nullopt : std::optional(found->second);
}

CellView* NotebookView::viewOfAnalysisCell(std::uint32_t index) const {
  for (const auto& [id, k] : m_analysisCells)
    if (k == index) return view(id);
  return nullptr;
}

void NotebookView::setExpression(const protocol::Expression& expression) {
  for (CellView* v : m_cells)
    if (v->shows().contains(QString::fromStdString(expression.tensor))) v->setExpression(expression);
}

void NotebookView::setExpressionFailed(const QString& tensor, const QString& message) {
  for (CellView* v : m_cells)
    if (v->shows().contains(tensor)) v->setExpressionFailed(tensor, message);
}

void NotebookView::setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values) {
  for (CellView* v : m_cells)
    if (v->wantsValuesOf(QString::fromStdString(slice.tensor))) v->setSlice(slice, values);
}

void NotebookView::setCellStatus(CellId id, protocol::CellStatus status, const QString& message) {
  if (CellView* v = viewThatRan(id)) v->setStatus(status, message);
}

bool NotebookView::mark(CellId id, bool edit) {
  const bool changed = m_active != id || m_editing != edit;
  if (changed || edit) forgetCommand();
  if (changed) letGo();
  m_active = id;
  m_editing = edit;
  for (CellView* v : m_cells)
    v->setActive(v->id() != id ? CellView::Active::No : edit ? CellView::Active::Editing : CellView::Active::Command);
  return changed;
}

// What is clicked in a cell's output and takes the keyboard has none of the keys that write: they are those of whole cells.
void NotebookView::followKeyboard(const QWidget* now) {
  if (!m_editing || !now || QGuiApplication::mouseButtons() == Qt::NoButton || !m_content->isAncestorOf(now)) return;
  for (const CellView* v : m_cells)
    if (v->isAncestorOf(now)) {
      if (now != v->editor() && !v->editor()->isAncestorOf(now) && mark(v->id(), false)) Q_EMIT activeChanged();
      return;
    }
}

void NotebookView::activate(CellId id, bool edit) {
  const bool changed = mark(id, edit);
  CellView* v = view(id);
  if (!v) return;
  if (edit) {
    if (v->kind() == CellKind::Markdown) v->editMarkdown();
    if (!v->editor()->hasFocus()) v->editor()->setFocus();
  } else if (!hasFocus()) {
    setFocus();
  }
  if (changed) Q_EMIT activeChanged();
}

void NotebookView::activateBeside(int direction) {
  const std::size_t index = m_document->indexOf(m_active);
  if ((direction < 0 && index == 0) || (direction > 0 && index + 1 >= m_cells.size())) return;
  goTo(m_cells[index + static_cast<std::size_t>(direction)]);
}

void NotebookView::goTo(CellView* cell) {
  activate(cell->id(), false);
  showCell(cell);
}

std::size_t NotebookView::caretByte() const {
  const CellView* v = view(m_active);
  return v ? v->bodyBegin + caretInBody(v) : 0;
}

std::size_t NotebookView::caretInBody(const CellView* v) const {
  const std::size_t caret = v->editor()->caretByte();
  const Cell* cell = v->kind() == CellKind::Markdown ? m_document->cell(v->id()) : nullptr;
  return cell ? bodyOffset(m_document->body(*cell), caret) : caret;
}

void NotebookView::insertInto(CellView* v, const QString& text) { v->editor()->insertAtCaret(text); }

// Beside the cells nothing is edited: the keys are those of whole cells.
void NotebookView::mousePressEvent(QMouseEvent* event) {
  QScrollArea::mousePressEvent(event);
  if (event->button() == Qt::LeftButton) activate(m_active, false);
}

void NotebookView::enterCommandMode() { activate(m_active, false); }

NotebookView::From NotebookView::whereFrom(CellId made, CellId above) const {
  if (const auto from = m_madeFrom.find(made); from != m_madeFrom.end() && m_document->cell(from->second.cell)) return from->second;
  return {m_document->cell(above) ? above : m_document->cells().front().id, false};
}

void NotebookView::insertAbove() {
  const CellId id = m_document->insertCell(m_document->indexOf(m_active), CellKind::Code);
  m_madeFrom[id] = {m_active, m_editing};
  followDocument();
  activate(id, false);
  Q_EMIT edited();
}

void NotebookView::insertBelow() {
  const CellId id = m_document->insertCell(std::min(m_document->indexOf(m_active) + 1, m_document->cells().size()), CellKind::Code);
  m_madeFrom[id] = {m_active, m_editing};
  followDocument();
  activate(id, false);
  Q_EMIT edited();
  if (CellView* v = view(id)) QTimer::singleShot(0, v, [this, v] { showCell(v); });
}

void NotebookView::removeActive() {
  const std::size_t index = m_document->indexOf(m_active);
  m_document->removeCell(m_active);
  followDocument();
  const auto& cells = m_document->cells();
  activate(cells[std::min(index, cells.size() - 1)].id, false);
  Q_EMIT edited();
}

void NotebookView::copyActive() {
  const Cell* cell = m_document->cell(m_active);
  if (!cell) return;
  QApplication::clipboard()->setText(QString::fromStdString(m_document->text().substr(cell->begin, cell->end - cell->begin)));
  Q_EMIT textCopied(tr("cell"));
}

void NotebookView::cutActive() {
  copyActive();
  removeActive();
}

void NotebookView::pasteBelow() {
  const std::string text = QApplication::clipboard()->text().toStdString();
  if (text.empty()) return;
  std::size_t index = std::min(m_document->indexOf(m_active) + 1, m_document->cells().size());
  CellId last = m_active;
  for (const Cell& cell : splitCells(text)) {
    last = m_document->insertCell(index++, cell.kind, text.substr(cell.bodyBegin, cell.bodyEnd - cell.bodyBegin));
    m_madeFrom[last] = {m_active, m_editing};
  }
  followDocument();
  activate(last, false);
  Q_EMIT edited();
}

void NotebookView::moveActive(int by) {
  const auto index = static_cast<std::ptrdiff_t>(m_document->indexOf(m_active)) + by;
  if (index < 0 || index >= static_cast<std::ptrdiff_t>(m_document->cells().size())) return;
  m_document->moveCell(m_active, static_cast<std::size_t>(index));
  followDocument();
  Q_EMIT edited();
}

void NotebookView::toggleKind() {
  const Cell* cell = m_document->cell(m_active);
  if (!cell) return;
  m_document->setKind(m_active, cell->kind == CellKind::Code ? CellKind::Markdown : CellKind::Code);
  followDocument();
  activate(m_active, false);
  Q_EMIT edited();
}

void NotebookView::splitActive() {
  CellView* v = view(m_active);
  if (!v) return;
  const CellId id = m_document->splitCell(m_active, caretInBody(v));
  followDocument();
  activate(id, true);
  Q_EMIT edited();
}

void NotebookView::joinActive() {
  m_document->joinWithNext(m_active);
  followDocument();
  Q_EMIT edited();
}

namespace {

QString typedBy(const QKeyEvent& event) {
  const QString text = event.text();
  return text.isEmpty() || !text.front().isPrint() ? QString() : text;
}

constexpr qint64 kSameWordMs = 1000;  // between two letters of a word

bool isCommand(int key) {
  constexpr int kCommands[] = {Qt::Key_A, Qt::Key_B, Qt::Key_X, Qt::Key_C, Qt::Key_V, Qt::Key_M,
                               Qt::Key_Y, Qt::Key_D, Qt::Key_J, Qt::Key_K, Qt::Key_Z};
  return std::ranges::find(kCommands, key) != std::end(kCommands);
}

}  // namespace

// A letter that is no command, and whatever is typed right behind one: somebody writes who takes a whole cell for its text.
bool NotebookView::isText(const QKeyEvent& event) {
  const QString text = typedBy(event);
  const bool writes = !m_typed.isEmpty() && m_letterAgo.elapsed() < kSameWordMs;
  if (text.isEmpty() || (event.key() == Qt::Key_Z && !m_done.isEmpty())) return false;
  if (text.front().isSpace() ? !writes : isCommand(event.key()) && !writes) return false;
  if (!writes) m_typed.clear();
  // The commands right before it were the beginning of the word: what all of them did is undone together.
  if (!m_word.empty() && m_letterAgo.elapsed() < kSameWordMs) tellDone(0);
  m_word.clear();
  m_typed += text;
  m_letterAgo.restart();
  return true;
}

// Who types text here while whole cells are chosen sees what it did, and how it is undone.
void NotebookView::tellCommand(const QKeyEvent& event, std::uint64_t changes) {
  const QString text = typedBy(event).toUpper();
  if (text.isEmpty() || text.front().isSpace()) return;
  QString what;
  switch (event.key()) {
    case Qt::Key_A: what = tr("a cell above"); break;
    case Qt::Key_B: what = tr("a cell below"); break;
    case Qt::Key_X: what = tr("cell cut"); break;
    case Qt::Key_V: what = tr("pasted below"); break;
    case Qt::Key_M: what = tr("cell turned into text"); break;
    case Qt::Key_Y: what = tr("cell turned into code"); break;
    case Qt::Key_D:
      if (m_lastKey == Qt::Key_D) return tell(tr("D again deletes the cell"));
      what = tr("cell deleted");
      break;
    default: return forgetWords();
  }
  forgetWords();
  if (changes == 0) return;
  m_word.push_back({tr("%1: %2").arg(text, what), changes});
  tellDone(m_word.size() - 1);
  tell(m_done, true);
}

void NotebookView::tellDone(std::size_t first) {
  QStringList what;
  m_doneSteps = 0;
  for (std::size_t i = first; i < m_word.size(); ++i) what << m_word[i].what, m_doneSteps += m_word[i].steps;
  m_done = (what.size() == 1 ? tr("%1, Z undoes it") : tr("%1, Z undoes all of it")).arg(what.join(QStringLiteral(", ")));
}

void NotebookView::undoDone() {
  const std::uint64_t steps = std::max<std::uint64_t>(m_doneSteps, 1);
  forgetCommand();
  for (std::uint64_t i = 0; i < steps; ++i) Q_EMIT undoRequested();
}

// It stands until something else is done; a click anywhere is.
void NotebookView::tell(const QString& words, bool undoes) { m_note->say(words, undoes); }

void NotebookView::forgetWords() {
  m_done.clear();
  m_doneSteps = 0;
  m_typed.clear();
  m_note->say({}, false);
}

void NotebookView::forgetCommand() {
  m_lastKey = 0;
  m_word.clear();
  forgetWords();
}

// A click on a button takes no keyboard for the button, and Qt gives it to what is around it: who writes goes on writing.
void NotebookView::focusInEvent(QFocusEvent* event) {
  QScrollArea::focusInEvent(event);
  const CellView* v = m_editing && event->reason() == Qt::MouseFocusReason ? view(m_active) : nullptr;
  if (v && v->editor()->isVisible()) v->editor()->setFocus();
}

void NotebookView::focusOutEvent(QFocusEvent* event) {
  QScrollArea::focusOutEvent(event);
  forgetCommand();
}

// Tab leads from a chosen cell to what it has to press, and to that of the cells below it.
bool NotebookView::focusNextPrevChild(bool next) {
  if (!next || !hasFocus()) return QScrollArea::focusNextPrevChild(next);
  const auto at = std::ranges::find(m_cells, m_active, &CellView::id);
  for (auto cell = at; cell != m_cells.end(); ++cell)
    for (QWidget* w = (*cell)->nextInFocusChain(); w != *cell; w = w->nextInFocusChain())
      if ((*cell)->isAncestorOf(w) && w->isVisible() && w->isEnabled() && (w->focusPolicy() & Qt::TabFocus) == Qt::TabFocus) {
        w->setFocus(Qt::TabFocusReason);
        ensureWidgetVisible(w, 0, 24);
        return true;
      }
  return QScrollArea::focusNextPrevChild(next);
}

void NotebookView::keyPressEvent(QKeyEvent* event) {
  if (!m_document || m_cells.empty() || m_editing || event->modifiers() & (Qt::ControlModifier | Qt::AltModifier))
    return handleKey(event);
  if (isText(*event)) {
    constexpr int kMostShown = 24;
    const QString typed = m_typed.size() <= kMostShown ? m_typed : QChar(0x2026) + m_typed.right(kMostShown);
    const QString words = tr("\u201c%1\u201d is not written: a whole cell is chosen, Enter writes into it").arg(typed);
    return tell(m_done.isEmpty() ? words : m_done + QStringLiteral(". ") + words, !m_done.isEmpty());
  }
  const std::uint64_t before = m_document->revision();
  const bool goesOn =
      isCommand(event->key()) && event->key() != Qt::Key_Z && m_letterAgo.isValid() && m_letterAgo.elapsed() < kSameWordMs;
  std::vector<Done> word;
  if (goesOn) word = std::move(m_word);
  m_letterAgo.restart();
  handleKey(event);  // what it chooses begins anew
  if (m_editing) return;
  m_word = std::move(word);
  tellCommand(*event, m_document->revision() - before);
}

void NotebookView::handleKey(QKeyEvent* event) {
  if (!m_document || m_cells.empty() || m_editing) return QScrollArea::keyPressEvent(event);
  const int key = event->key();
  const int last = m_lastKey;
  m_lastKey = key;
  if (event->modifiers() & Qt::AltModifier) return QScrollArea::keyPressEvent(event);
  if (key == Qt::Key_Home) return goTo(m_cells.front());
  if (key == Qt::Key_End) return goTo(m_cells.back());
  if (event->modifiers() & Qt::ControlModifier) return QScrollArea::keyPressEvent(event);
  switch (key) {
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (event->modifiers()) return QScrollArea::keyPressEvent(event);
      // Tab led to it: what is pressed is the button.
      if (auto* button = qobject_cast<QAbstractButton*>(QApplication::focusWidget()); button && m_content->isAncestorOf(button))
        return button->click();
      return activate(m_active, true);
    case Qt::Key_J:
    case Qt::Key_Down: return activateBeside(1);
    case Qt::Key_K:
    case Qt::Key_Up: return activateBeside(-1);
    case Qt::Key_A: return insertAbove();
    case Qt::Key_B: return insertBelow();
    case Qt::Key_X: return cutActive();
    case Qt::Key_C: return copyActive();
    case Qt::Key_V: return pasteBelow();
    case Qt::Key_M:
      if (m_document->cell(m_active)->kind == CellKind::Code) toggleKind();
      return;
    case Qt::Key_Y:
      if (m_document->cell(m_active)->kind == CellKind::Markdown) toggleKind();
      return;
    case Qt::Key_Z:
      if (event->modifiers() & Qt::ShiftModifier) Q_EMIT redoRequested();
      else undoDone();
      return;
    case Qt::Key_D:
      if (last == Qt::Key_D) {
        m_lastKey = 0;
        removeActive();
      }
      return;
    default: return QScrollArea::keyPressEvent(event);
  }
}

}  // namespace nf
