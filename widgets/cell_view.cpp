// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/cell_view.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QStackedWidget>
#include <QTimer>
#include <QToolButton>
#include <algorithm>
#include <set>

#include "widgets/basic.h"
#include "widgets/code_highlighter.h"
#include "widgets/derivation_view.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/markdown_view.h"
#include "widgets/names.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

bool isGiven(protocol::SymbolKind kind) {
  using protocol::SymbolKind;
  return kind == SymbolKind::Input || kind == SymbolKind::Param || kind == SymbolKind::State;
}

using protocol::CellStatus;

constexpr int kGutter = 62, kRight = 30;
constexpr int kLeastHeight = 48;  // px: the mark under the number
constexpr int kSoonMs = 150;      // an answer within it replaces what is shown without a flicker

QPlainTextEdit* sourceField(const QString& name) {
  auto* field = new QPlainTextEdit;
  field->setReadOnly(true);
  field->setFrameShape(QFrame::NoFrame);
  field->setLineWrapMode(QPlainTextEdit::NoWrap);
  leaveWheelToPage(field->horizontalScrollBar());
  field->setAccessibleName(name);
  field->setStyleSheet(QStringLiteral("QPlainTextEdit { background: transparent; }"));
  return field;
}

void showSource(QPlainTextEdit* field, const QString& text, const Palette& colors) {
  if (field->toPlainText() == text) return;
  field->setPlainText(text);
  QList<QTextEdit::ExtraSelection> marks;
  for (const auto& run : highlight(text.toStdString(), colors)) {
    QTextEdit::ExtraSelection s;
    s.format = run.format;
    s.cursor = QTextCursor(field->document());
    s.cursor.setPosition(std::min(run.begin, static_cast<int>(text.size())));
    s.cursor.setPosition(std::min(run.begin + run.length, static_cast<int>(text.size())), QTextCursor::KeepAnchor);
    marks << s;
  }
  field->setExtraSelections(marks);
}

}  // namespace

CellView::CellView(const Theme* theme, Selection* selection, CellId id, CellKind kind, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_id(id), m_kind(kind),
      m_editor(new ExpressionEditor(theme, kind == CellKind::Code)), m_summaryRow(new QWidget), m_messages(new QWidget),
      m_summary(new ElidedLabel("muted")), m_checked(label({}, "hint")), m_note(label({}, "muted")),
      m_failure(new MessageStrip(theme, true)), m_zeros(new MessageStrip(theme, false)), m_layout(new QVBoxLayout),
      m_messageLayout(new QVBoxLayout(m_messages)) {
  // Never less than its content. A minimum set on the widget itself would replace the content's.
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Minimum);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, kRight, 0);
  row->setSpacing(0);
  row->addSpacerItem(
      new QSpacerItem(kGutter, kind == CellKind::Code ? kLeastHeight : 0, QSizePolicy::Fixed, QSizePolicy::MinimumExpanding));
  row->addLayout(m_layout, 1);
  m_layout->setSpacing(0);
  m_editor->setAccessibleName(tr("Cell text"));
  m_editor->setPlaceholderText(kind == CellKind::Code ? tr("Write a statement:  Y[i, j] = sum[k] A[i, k] * B[k, j]")
                                                      : tr("Write Markdown"));
  m_layout->addWidget(m_editor);
  if (kind == CellKind::Markdown) {
    m_markdown = new MarkdownView(theme);
    m_layout->addWidget(m_markdown);
    m_editor->hide();
    connect(m_markdown, &MarkdownView::editRequested, this, [this] {
      Q_EMIT focused();
      editMarkdown();
    });
  }
  auto* summary = new QHBoxLayout(m_summaryRow);
  summary->setContentsMargins(12, 6, 0, 2);
  summary->addWidget(m_summary, 1);
  summary->addWidget(m_checked);
  m_checked->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  m_summaryRow->hide();
  m_layout->addWidget(m_summaryRow);
  m_messageLayout->setContentsMargins(0, 0, 0, 0);
  m_messageLayout->setSpacing(1);
  m_messages->hide();
  m_layout->addWidget(m_messages);
  m_note->setContentsMargins(12, 6, 0, 2);
  m_note->setWordWrap(true);
  m_note->setTextFormat(Qt::RichText);
  m_note->hide();
  m_layout->addWidget(m_note);
  m_failure->hide();
  m_layout->addWidget(m_failure);
  m_zeros->hide();
  m_layout->addWidget(m_zeros);
  connect(m_editor, &ExpressionEditor::focused, this, &CellView::focused);
  connect(m_editor, &ExpressionEditor::caretMoved, this, &CellView::caretMoved);
  connect(m_editor, &ExpressionEditor::leaveUp, this, [this] { Q_EMIT leave(-1); });
  connect(m_editor, &ExpressionEditor::leaveDown, this, [this] { Q_EMIT leave(1); });
  connect(m_editor, &ExpressionEditor::commandModeWanted, this, &CellView::commandModeWanted);
  connect(m_editor, &ExpressionEditor::bytesEdited, this, [this](std::size_t begin, std::size_t end, const QByteArray& text) {
    if (m_kind == CellKind::Markdown) return writeMarkdown(QString::fromStdString(m_editor->bytes()));
    Q_EMIT bytesEdited(begin, end, text);
  });
  m_age.setSingleShot(true);
  m_age.setInterval(kSoonMs);
  connect(&m_age, &QTimer::timeout, this, [this] { setChecking(awaitsAnswer()); });
  connect(selection, &Selection::changed, this, &CellView::showSelection);
  connect(theme, &Theme::changed, this, &CellView::dress);
  dress();
}

void CellView::dress() {
  for (QLabel* words : {m_summary, m_checked, m_note, m_waiting, m_partly})
    if (words) words->setFont(m_theme->ui(12));
  // Every answer brings another time to all cells: in a place of a fixed size it lays out none of them.
  const QFontMetrics metrics(m_checked->font());
  m_checked->setFixedSize(metrics.horizontalAdvance(tr("checked %1").arg(QStringLiteral("88.8 ms"))) + 4, metrics.height());
  if (m_which) m_which->setFont(m_theme->mono(12));
  if (m_source) {
    for (QPlainTextEdit* field : {m_source, m_definitions}) field->setFont(m_theme->mono(13));
    m_definitionsFold->setFont(m_theme->ui(12));
    fitResult();
  }
  for (QPushButton* fix : m_messages->findChildren<QPushButton*>(QStringLiteral("fix"))) fix->setFont(m_theme->mono(12));
  update();
}

void CellView::setFound(Found found) {
  m_found = std::move(found);
  if (m_markdown) {
    m_markdown->setFound(m_found.text, m_found.exact ? QTextDocument::FindCaseSensitively : QTextDocument::FindFlags(),
                         m_found.here >= 0);
    showFound();
  } else {
    showSelection();
  }
}

void CellView::showFound() {
  std::vector<ExpressionEditor::Mark> marks;
  addFound(marks);
  m_editor->setMarks(std::move(marks));
}

void CellView::addFound(std::vector<ExpressionEditor::Mark>& marks) const {
  constexpr int kMostShown = 400;  // about the one that is looked at: every mark is a cost at every paint
  const int all = static_cast<int>(m_found.places.size());
  const int first = std::clamp(m_found.here - kMostShown / 2, 0, std::max(0, all - kMostShown));
  for (int i = first; i < std::min(all, first + kMostShown); ++i) {
    const auto [begin, end] = m_found.places[static_cast<std::size_t>(i)];
    marks.push_back(
        {begin, end, i == m_found.here ? ExpressionEditor::Mark::Kind::FoundHere : ExpressionEditor::Mark::Kind::Found});
  }
}

void CellView::setNumber(int number) {
  m_number = number;
  update();
}

void CellView::setBody(const std::string& bytes) {
  m_body = bytes;
  if (m_kind == CellKind::Markdown) {
    const std::string text = markdownOf(bytes);
    // Blanks at a line's end are not kept in the notebook, but they stay in the field while one types on.
    if (!m_editor->isVisible() || markdownToBody(m_editor->bytes()) != markdownToBody(text)) m_editor->setBytes(text);
    m_markdown->setMarkdown(QString::fromStdString(text));
  } else {
    m_editor->setBytes(bytes);
  }
}

// The Markdown of the editor back into comment lines, as the smallest change of the body.
void CellView::writeMarkdown(const QString& markdown) {
  const std::string next = markdownToBody(markdown.toStdString(), m_body.find("\r\n") != std::string::npos ? "\r\n" : "\n");
  std::size_t same = 0, tail = 0;
  while (same < next.size() && same < m_body.size() && next[same] == m_body[same]) ++same;
  while (tail < next.size() - same && tail < m_body.size() - same &&
         next[next.size() - 1 - tail] == m_body[m_body.size() - 1 - tail])
    ++tail;
  const std::size_t end = m_body.size() - tail;
  const QByteArray text = QByteArray::fromStdString(next.substr(same, next.size() - same - tail));
  m_body = next;
  m_markdown->setMarkdown(markdown);
  Q_EMIT bytesEdited(same, end, text);
}

void CellView::editMarkdown() {
  if (!m_markdown) return;
  m_markdown->hide();
  m_editor->show();
  m_editor->setFocus();
}

void CellView::renderMarkdown() {
  if (!m_markdown) return;
  m_editor->hide();
  m_markdown->show();
}

void CellView::setActive(Active active) {
  m_active = active;
  if (active != Active::Editing) renderMarkdown();
  update();
}

void CellView::mousePressEvent(QMouseEvent*) {
  Q_EMIT focused();
  if (m_kind == CellKind::Markdown || m_active != Active::Editing) Q_EMIT commandModeWanted();
}

void CellView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  if (m_active != Active::No) p.fillRect(0, 0, 3, height(), m_active == Active::Editing ? c.accent : mixed(c.page, c.accent, 0.6));
  if (m_number > 0) {
    p.setPen(m_active == Active::No ? c.muted : c.text);
    p.setFont(m_theme->base()->ui(12, m_active == Active::No ? QFont::Normal : QFont::DemiBold));
    p.drawText(QRect(0, 8, 40, 18), Qt::AlignRight | Qt::AlignVCenter, QString::number(m_number));
  }
  if (m_kind == CellKind::Markdown || !m_known || neverTrained()) return;
  QString icon = QStringLiteral("ok");
  QColor color = c.proved;
  switch (m_status) {
    case CellStatus::Ok:
      if (stoppedEarly()) icon = QStringLiteral("stop"), color = c.muted;
      else if (!m_zeros->isHidden()) icon = QStringLiteral("warning"), color = c.stale;
      break;
    case CellStatus::Error: icon = QStringLiteral("error"), color = c.failed; break;
    case CellStatus::Stale: icon = QStringLiteral("stale"), color = c.stale; break;
    case CellStatus::Queued: icon = QStringLiteral("stale"), color = c.muted; break;
    case CellStatus::Running: icon = QStringLiteral("running"), color = c.accent; break;
  }
  if (m_checking && m_status == CellStatus::Ok) icon = QStringLiteral("running"), color = c.accent;
  else if (m_outdated) color = mixed(c.page, color, 0.45);
  p.drawPixmap(26, 30, m_theme->pixmap(icon, color, devicePixelRatioF()));
  if (m_status == CellStatus::Stale) {
    QColor hatch = c.stale;
    p.fillRect(kGutter - 8, 0, 4, height(), QBrush(hatch, Qt::BDiagPattern));
  }
}

void CellView::setOutdated(bool outdated) {
  if (m_outdated == outdated) return;
  m_outdated = outdated;
  m_editor->setOutdated(outdated);
  followAge();
  update();
}

bool CellView::awaitsAnswer() const {
  if (m_shows.isEmpty() || m_mistaken || !m_waits.isEmpty()) return false;
  if (m_outdated) return true;
  return std::any_of(m_shows.begin(), m_shows.end(), [this](const QString& show) {
    const auto failed = m_failures.find(show);
    return !isAnswered(show) && (failed == m_failures.end() || failed->second.revision < m_revision);
  });
}

bool CellView::proves() const {
  return std::any_of(m_shows.begin(), m_shows.end(), [this](const QString& show) {
    const auto known = m_expressions.find(show);
    return known != m_expressions.end() && isProving(known->second.terms);
  });
}

bool CellView::isAnswered(const QString& show) const {
  const auto known = m_expressions.find(show);
  return known != m_expressions.end() && known->second.revision >= m_revision;
}

void CellView::followAge() {
  if (!awaitsAnswer()) {
    m_age.stop();
    setChecking(false);
  } else if (!m_checking && !m_age.isActive()) {
    m_age.start();
  }
}

void CellView::setChecking(bool checking) {
  if (m_checking == checking) return;
  m_checking = checking;
  m_checked->setText(checking ? tr("checking") : tr("checked %1").arg(microsecondsText(m_analysisMs * 1000)));
  greyResult();
  update();
  Q_EMIT checkingChanged();
}

void CellView::beginRun() {
  m_running = true;
  m_runMeaning = m_meaning;
  setStatus(CellStatus::Running, {});
}

void CellView::setInterrupted(const QString& message) {
  if (!m_running) return;
  m_running = false;
  m_interrupted = true;
  m_ended = message;
  refreshStatus();
}

void CellView::setStatus(CellStatus status, const QString& message, bool trained) {
  m_known = true;
  m_running = status == CellStatus::Running || status == CellStatus::Queued;
  m_failed = status == CellStatus::Error;
  m_interrupted = false;
  if (status == CellStatus::Ok && (trained || !m_train)) m_resultMeaning = m_runMeaning, m_hasRun = true;
  m_ended = message;
  refreshStatus();
}

// A tick would say that it has run.
bool CellView::neverTrained() const { return m_train && m_status == CellStatus::Ok && !m_hasRun; }

bool CellView::stoppedEarly() const { return m_train && m_status == CellStatus::Ok && m_hasRun && m_train->cut(); }

bool CellView::hasRun() const { return m_hasRun || m_running || m_failed || m_interrupted || (m_train && m_train->hasCurves()); }

QString CellView::failure() const {
  if (m_running || !m_failed || m_runMeaning != m_meaning) return {};
  return m_train && m_ended.isEmpty() ? m_train->failure() : m_ended;
}

QString CellView::warning() const {
  if (!m_train || m_runMeaning != m_meaning) return {};
  const QStringList all = m_train->warnings();
  return all.isEmpty() ? QString() : all.front();
}

void CellView::setResultMeaning(std::string meaning) {
  m_resultMeaning = std::move(meaning);
  refreshStatus();
}

QString CellView::note() const { return m_note->isHidden() && m_failure->isHidden() ? QString() : m_noteText; }

// What stands in the gutter and under the cell: what runs, else its mistakes, else what it waits for, else how old its result is.
void CellView::refreshStatus() {
  // What a run said is about the text that it ran on.
  const bool said = m_runMeaning == m_meaning;
  QString text = said ? m_ended : QString();
  m_status = said && m_failed ? CellStatus::Error : said && m_interrupted ? CellStatus::Stale : CellStatus::Ok;
  if (m_running) {
    m_status = CellStatus::Running;
  } else if (m_mistaken) {
    m_status = CellStatus::Error;
  } else if (!m_waits.isEmpty()) {
    m_status = CellStatus::Queued;
    text = tr("Waits for %1: a mistake in another cell keeps it from being made.").arg(m_waits.join(QStringLiteral(", ")));
  } else if (!m_resultMeaning.empty() && m_resultMeaning != m_meaning && !(said && (m_failed || m_interrupted))) {
    m_status = CellStatus::Stale;
    text = tr("Stale: what this depends on has changed since it ran. Shift+Enter runs it again.");
  } else if (!said && m_train && (m_failed || m_interrupted)) {
    // How it ended stands there still.
    m_status = CellStatus::Stale;
    text = tr("Stale: what this depends on has changed since its run ended without a result. Shift+Enter runs it again.");
  }
  m_noteText = text;
  // What a run failed with looks as a mistake in the text does.
  const bool failed = said && m_failed && text == m_ended;
  m_note->setText(codeText(text));
  m_note->setVisible(!text.isEmpty() && !failed);
  m_failure->setText(failed ? text : QString());
  m_failure->setVisible(!text.isEmpty() && failed);
  greyResult();
  refreshRunHere();
  update();
}

// Values are of the last run; the rest is of the last text in which the names were made.
void CellView::greyResult() {
  if (!m_pages) return;
  const bool hidden = (m_mistaken || !m_waits.isEmpty()) && m_hidden;
  const bool old = m_status == CellStatus::Stale || (!m_resultMeaning.empty() && m_resultMeaning != m_meaning);
  // What cannot be had is greyed where it is still shown as an earlier text had it. A parameter has no formula at all.
  const bool failed = std::any_of(m_shows.begin(), m_shows.end(), [this](const QString& show) {
    return !isAnswered(show) && m_failures.contains(show) && m_expressions.contains(show);
  });
  setGreyed(m_pages, m_checking || hidden || failed || (m_pages->currentIndex() == 3 && old));
  setGreyed(m_definitions, m_checking || hidden || failed);
}

bool CellView::resultIsGreyed() const { return m_pages && isGreyed(m_pages); }

QStringList CellView::diagnosticTexts() const { return m_diagnosticTexts; }

void CellView::setAnalysis(const protocol::Analysis& analysis, const protocol::CellInfo* info) {
  if (m_kind == CellKind::Markdown) return;
  m_known = info != nullptr;
  if (!info) {
    m_status = m_running ? CellStatus::Running : CellStatus::Ok;
    m_summaryRow->hide();
    m_messages->hide();
    setOutdated(false);
    update();
    return;
  }
  const std::size_t end = bodyBegin + m_editor->bytes().size();
  std::map<std::pair<std::uint32_t, std::uint32_t>, QStringList> hints;  // by statement
  for (const auto& extent : analysis.extents) {
    if (extent.begin < bodyBegin || extent.end > end + 1) continue;
    hints[{extent.begin, extent.end}] << QString::fromStdString(extent.axis) + QStringLiteral(": %1").arg(extent.extent);
  }
  std::vector<ExpressionEditor::Hint> list;
  for (auto& [statement, entries] : hints) {
    std::size_t at = statement.second - bodyBegin;
    while (at > 0 && (at > m_editor->bytes().size() ||
                      (at <= m_editor->bytes().size() && (m_editor->bytes()[at - 1] == '\n' || m_editor->bytes()[at - 1] == ' '))))
      --at;
    list.push_back({at, entries});
  }
  m_editor->setHints(std::move(list));
  m_mistaken = info->status == CellStatus::Error;
  m_meaning = info->meaning;
  m_waits.clear();
  for (const auto& name : info->waits) m_waits << QString::fromStdString(name);
  for (const auto& d : analysis.diagnostics)
    if (d.severity == protocol::Severity::Error && d.span.source.empty() && d.span.begin >= info->begin &&
        d.span.begin < std::max<std::size_t>(info->end, end))
      m_mistaken = true;
  refreshStatus();
  m_summary->setText(QString::fromStdString(info->summary));
  m_summaryRow->setVisible(!info->summary.empty());
  m_analysisMs = analysis.ms;
  if (!m_checking) m_checked->setText(tr("checked %1").arg(microsecondsText(analysis.ms * 1000)));
  rebuildMessages(analysis, *info);
  m_revision = analysis.revision;
  setOutdated(false);

  QStringList shows;
  for (const auto& name : info->shows) shows << QString::fromStdString(name);
  // What a mistake hides for the moment stays in sight.
  if ((m_mistaken || !m_waits.isEmpty()) && shows.size() < m_shows.size()) shows = m_shows;
  m_hidden = false;
  bool given = !shows.isEmpty();  // nothing has a formula: values are all there is to show
  for (const QString& name : shows) {
    const auto t = std::find_if(analysis.tensors.begin(), analysis.tensors.end(),
                                [wanted = name.toStdString()](const protocol::TensorInfo& info) { return info.name == wanted; });
    if (t == analysis.tensors.end()) m_hidden = true;
    else m_shapes[name] = t->shape;
    given = given && t != analysis.tensors.end() && isGiven(t->kind);
  }
  if (shows != m_shows) {
    m_shows = shows;
    const bool first = !m_result;
    if (!m_shows.isEmpty()) ensureResult();
    if (m_result) m_result->setVisible(!m_shows.isEmpty());
    if (m_which) {
      const QSignalBlocker blocker(m_which);
      const QString was = m_which->currentText();
      const int at = m_which->count() == m_shows.size() ? m_which->currentIndex() : 0;  // one of them has another name
      m_which->clear();
      m_which->addItems(m_shows);
      m_which->setVisible(m_shows.size() > 1 && m_tabs->current() == 3);
      if (m_shows.contains(was)) m_which->setCurrentText(was);
      else if (!m_shows.isEmpty()) m_which->setCurrentIndex(at);
      const QString before = m_values->tensor();
      if (!m_shows.isEmpty()) m_values->setTensor(m_which->currentText(), m_shapes[m_which->currentText()]);
      // Values that were computed under this name may be there, as after an undo.
      if (m_values->tensor() != before && m_pages->currentIndex() == 3) Q_EMIT sliceWanted();
    }
    if (first && given) showResult(3);
  }
  followAge();
  greyResult();
  refreshZeros();
  for (const auto& show : info->shows) Q_EMIT expressionWanted(QString::fromStdString(show));
  if (info->train && !m_train) {
    m_train = new TrainStrip(m_theme->base());
    m_layout->addWidget(m_train);
    m_train->hide();
    connect(m_train, &TrainStrip::pauseRequested, this, &CellView::pauseRequested);
    connect(m_train, &TrainStrip::stopRequested, this, &CellView::stopRequested);
    connect(m_train, &TrainStrip::swapChosen, this, &CellView::swapChosen);
    connect(m_train, &TrainStrip::resumeRequested, this, &CellView::resumeRequested);
    connect(m_train, &TrainStrip::trainAgainRequested, this, &CellView::trainAgainRequested);
  }
  showSelection();
  update();
}

void CellView::rebuildMessages(const protocol::Analysis& analysis, const protocol::CellInfo& info) {
  while (QLayoutItem* item = m_messageLayout->takeAt(0)) {
    item->widget()->hide();
    item->widget()->deleteLater();
    delete item;
  }
  m_diagnosticMarks.clear();
  m_diagnosticTexts.clear();
  m_errors = 0;
  const std::size_t size = m_editor->bytes().size();
  for (const auto& d : analysis.diagnostics) {
    if (!d.span.source.empty() || d.span.begin < info.begin ||
        d.span.begin >= std::max<std::size_t>(info.end, bodyBegin + size + 1) || d.span.begin < bodyBegin)
      continue;
    const bool error = d.severity == protocol::Severity::Error;
    QString text = QString::fromStdString(d.message);
    std::vector<std::pair<QString, std::uint32_t>> places;
    for (const auto& note : d.notes) {
      text += QLatin1Char('\n') + QString::fromStdString(note.message);
      if (!note.span.source.empty() || note.span.begin >= note.span.end || !m_placeName) continue;
      const QString name = m_placeName(note.span.begin);
      if (name.isEmpty()) continue;
      places.emplace_back(name, note.span.begin);
      text += QStringLiteral(": ") + name;
    }
    m_diagnosticTexts << text;
    m_errors += error;
    auto* strip = new MessageStrip(m_theme, error, text);
    if (!d.fixes.empty()) strip->row()->addWidget(label(tr("Fix:"), "muted"));
    for (const auto& fix : d.fixes) {
      auto* button = new QPushButton(QString::fromStdString(fix.label).remove(QLatin1Char('`')));
      button->setFont(m_theme->mono(12));
      button->setProperty("mono", true);
      button->setObjectName(QStringLiteral("fix"));
      connect(button, &QPushButton::clicked, this,
              [this, fix] { Q_EMIT fixRequested(fix.begin, fix.end, QString::fromStdString(fix.text)); });
      strip->row()->addWidget(button);
    }
    for (const auto& [name, byte] : places) {
      auto* button = new QPushButton(tr("Go to %1").arg(name));
      button->setObjectName(QStringLiteral("place"));
      connect(button, &QPushButton::clicked, this, [this, byte = byte] { Q_EMIT placeRequested(byte); });
      strip->row()->addWidget(button);
    }
    m_messageLayout->addWidget(strip);
    const std::size_t begin = std::min<std::size_t>(d.span.begin - bodyBegin, size);
    m_diagnosticMarks.push_back(
        {begin, std::clamp<std::size_t>(d.span.end < bodyBegin ? begin : d.span.end - bodyBegin, begin, size), error});
  }
  m_messages->setVisible(!m_diagnosticMarks.empty());
}

void CellView::showSelection() {
  if (m_kind == CellKind::Markdown) return;
  std::vector<ExpressionEditor::Mark> marks;
  const std::size_t size = m_editor->bytes().size();
  if (!m_outdated)
    for (const auto& span : m_selection->selectedSpans())
      if (span.begin >= bodyBegin && span.end <= bodyBegin + size)
        marks.push_back({span.begin - bodyBegin, span.end - bodyBegin, ExpressionEditor::Mark::Kind::Selected});
  for (const auto& m : m_diagnosticMarks)
    marks.push_back({m.begin, m.end, m.error ? ExpressionEditor::Mark::Kind::Error : ExpressionEditor::Mark::Kind::Warning});
  addFound(marks);
  m_editor->setMarks(std::move(marks));
}

void CellView::ensureResult() {
  if (m_result) return;
  m_result = new QWidget;
  auto* layout = new QVBoxLayout(m_result);
  layout->setContentsMargins(12, 4, 0, 8);
  layout->setSpacing(4);
  auto* top = new QHBoxLayout;
  m_tabs = new TabRow(m_theme, {tr("Formula"), tr("Source"), tr("Derivation"), tr("Values")});
  top->addWidget(m_tabs);
  m_which = new QComboBox;
  m_which->setAccessibleName(tr("Tensor"));
  top->addWidget(m_which);
  top->addStretch(1);
  auto* copyLatex = new IconButton(m_theme, QStringLiteral("copy"), tr("LaTeX"));
  auto* copySource = new IconButton(m_theme, QStringLiteral("copy"), tr("Source"));
  copyLatex->setToolTip(tr("Copy as LaTeX"));
  copySource->setToolTip(tr("Copy as source"));
  copyLatex->setObjectName(QStringLiteral("copyLatex"));
  copySource->setObjectName(QStringLiteral("copySource"));
  top->addWidget(copyLatex);
  top->addWidget(copySource);
  layout->addLayout(top);
  m_pages = new QStackedWidget;
  m_formula = new FormulaView(m_theme, m_selection);
  m_source = sourceField(tr("Source of the result"));
  auto* derivation = new QWidget;
  auto* derivationLayout = new QVBoxLayout(derivation);
  derivationLayout->setContentsMargins(0, 4, 0, 4);
  m_derivation = new DerivationView(m_theme);
  m_nothingDerived = label(tr("Nothing was derived here: these are operators as written."), "muted");
  m_nothingDerived->setWordWrap(true);
  derivationLayout->addWidget(m_nothingDerived);
  derivationLayout->addWidget(m_derivation);
  derivationLayout->addStretch(1);
  m_values = new TensorView(m_theme->base(), false);
  for (QWidget* page :
       {static_cast<QWidget*>(m_formula), static_cast<QWidget*>(m_source), derivation, static_cast<QWidget*>(m_values)})
    m_pages->addWidget(page);
  layout->addWidget(m_pages);
  m_runHere = new IconButton(m_theme->base(), QStringLiteral("run"), tr("Run cell"));
  m_runHere->setAccessibleName(m_runHere->text());
  m_runHere->hide();
  connect(m_runHere, &QToolButton::clicked, this, &CellView::runRequested);
  layout->addWidget(m_runHere, 0, Qt::AlignLeft);
  m_definitionsFold = new QToolButton;
  m_definitionsFold->setObjectName(QStringLiteral("definitions"));
  m_definitionsFold->setCheckable(true);
  m_definitionsFold->setAutoRaise(true);
  m_definitionsFold->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_definitionsFold->setToolTip(tr("The derived statements that make what is referred to here"));
  m_definitionsFold->hide();
  layout->addWidget(m_definitionsFold, 0, Qt::AlignLeft);
  m_definitions = sourceField(tr("What the result is made of"));
  m_definitions->hide();
  layout->addWidget(m_definitions);
  connect(m_definitionsFold, &QToolButton::toggled, this, &CellView::fitResult);
  m_waiting = label({}, "muted");
  m_waiting->setWordWrap(true);
  m_waiting->hide();
  layout->addWidget(m_waiting);
  m_partly = label({}, "muted");
  m_partly->setWordWrap(true);
  m_partly->hide();
  layout->addWidget(m_partly);
  m_layout->addWidget(m_result);
  connect(m_formula, &FormulaView::heightChanged, this, &CellView::fitResult);
  connect(m_tabs, &TabRow::chosen, this, [this](int tab) { showResult(tab); });
  connect(m_which, &QComboBox::currentTextChanged, this, [this](const QString& name) {
    m_values->setTensor(name, m_shapes[name]);
    if (m_pages->currentIndex() == 3) Q_EMIT sliceWanted();
  });
  connect(m_values, &TensorView::sliceWanted, this, &CellView::sliceWanted);
  connect(copyLatex, &QToolButton::clicked, this, [this] {
    QApplication::clipboard()->setText(latex());
    Q_EMIT textCopied(tr("LaTeX"));
  });
  connect(copySource, &QToolButton::clicked, this, [this] {
    QApplication::clipboard()->setText(source());
    Q_EMIT textCopied(tr("source"));
  });
  m_which->hide();
  dress();
  refreshResult();
}

void CellView::showResult(int tab) {
  ensureResult();
  m_tabs->setCurrent(tab);
  m_pages->setCurrentIndex(tab);
  m_which->setVisible(tab == 3 && m_shows.size() > 1);
  if (tab == 3) Q_EMIT sliceWanted();
  greyResult();
  refreshResult();
}

void CellView::setExpression(const protocol::Expression& expression) {
  const QString name = QString::fromStdString(expression.tensor);
  if (const auto known = m_expressions.find(name); known != m_expressions.end() && expression.revision < known->second.revision)
    return;
  m_failures.erase(name);
  m_expressions[name] = expression;
  followAge();
  greyResult();
  refreshResult();
}

void CellView::setExpressionFailed(const QString& tensor, const QString& message) {
  m_failures[tensor] = {m_revision, message};
  followAge();
  greyResult();
  refreshResult();
}

// What the shown expressions refer to, without what one of them makes itself.
QStringList CellView::definitions(std::int64_t* count) const {
  QStringList all;
  std::set<QString> known;
  const QString own = ownSource() + QLatin1Char('\n');
  std::int64_t leftOut = 0;
  for (const QString& show : m_shows) {
    const auto found = m_expressions.find(show);
    if (found == m_expressions.end()) continue;
    const auto& given = found->second.definitions;
    leftOut = std::max(leftOut, found->second.definitionCount - static_cast<std::int64_t>(given.size()));
    for (const std::string& statement : given)
      if (const QString text = QString::fromStdString(statement).trimmed();
          !own.contains(text + QLatin1Char('\n')) && known.insert(text).second)
        all << text;
  }
  if (count) *count = all.size() + leftOut;
  return all;
}

QString CellView::ownSource() const {
  QStringList parts;
  for (const QString& show : m_shows)
    if (const auto found = m_expressions.find(show); found != m_expressions.end())
      parts << QString::fromStdString(found->second.text).trimmed();
  return parts.join(QLatin1Char('\n'));
}

// Every statement once, behind those that it refers to: it can be run.
QString CellView::source() const {
  QStringList all;
  std::set<QString> known;
  for (const QString& show : m_shows) {
    const auto found = m_expressions.find(show);
    if (found == m_expressions.end()) continue;
    for (const std::string& statement : found->second.definitions)
      if (const QString text = QString::fromStdString(statement).trimmed(); known.insert(text).second) all << text;
    QString own = QString::fromStdString(found->second.text).trimmed() + QLatin1Char('\n');
    for (const QString& text : known) own.remove(text + QLatin1Char('\n'));
    own = own.trimmed();
    if (!own.isEmpty() && known.insert(own).second) all << own;
  }
  return all.join(QLatin1Char('\n'));
}

QString CellView::latex() const {
  QStringList parts;
  if (m_formula)
    for (const auto& f : m_formula->formulas()) parts << toLatex(f);
  return parts.join(QStringLiteral(" \\\\\n"));
}

QString CellView::zeros() const { return m_zeros->isHidden() ? QString() : m_zeros->text(); }

// A derivative that is 0 whatever the values are is rarely what was meant.
void CellView::refreshZeros() {
  QStringList lines, parts;
  for (const QString& show : m_shows) {
    const auto found = m_expressions.find(show);
    if (found == m_expressions.end()) continue;
    if (const QString why = zeroByRule(found->second.terms); !why.isEmpty())
      lines << tr("%1 is 0: %2").arg(derivativeText(show), why);
    else
      for (const auto& t : found->second.terms)
        if (t.form == protocol::GradientForm::Zero && !t.why.empty())
          parts << tr("A part of %1 is 0: %2").arg(derivativeText(show), QString::fromStdString(t.why));
  }
  parts.removeDuplicates();
  if (m_partly) {
    m_partly->setText(parts.join(QLatin1Char('\n')));
    m_partly->setVisible(!parts.isEmpty());
  }
  m_zeros->setText(lines.join(QLatin1Char('\n')));
  m_zeros->setVisible(!lines.isEmpty());
  update();
}

void CellView::refreshRunHere() {
  if (m_runHere)
    m_runHere->setVisible(m_pages->currentIndex() == 3 && m_values->model()->rowCount() == 0 && !m_running && !m_mistaken &&
                          m_waits.isEmpty() && !m_shows.isEmpty());
}

void CellView::refreshResult() {
  if (!m_result) return;
  refreshZeros();
  refreshRunHere();
  std::vector<protocol::Formula> formulas;
  std::vector<protocol::GradientTermInfo> terms;
  QStringList waiting;
  for (const QString& show : m_shows) {
    const auto found = m_expressions.find(show);
    const auto failed = m_failures.find(show);
    if (failed != m_failures.end())
      waiting << (failed->second.message.startsWith(show + QLatin1Char(' '))
                      ? failed->second.message
                      : QStringLiteral("%1: %2").arg(show, failed->second.message));
    else if (found == m_expressions.end()) waiting << tr("%1 is being derived").arg(show);
    if (found == m_expressions.end()) continue;
    for (const auto& f : found->second.formulas) formulas.push_back(f);
    terms.insert(terms.end(), found->second.terms.begin(), found->second.terms.end());
  }
  m_formula->setFormulas(std::move(formulas));
  showSource(m_source, ownSource(), m_theme->colors());
  std::int64_t count = 0;
  const QStringList definitions = this->definitions(&count);
  QString defining = definitions.join(QLatin1Char('\n'));
  if (count > definitions.size())
    defining.prepend(tr("# %1 more before these; neoflow grad prints them all\n").arg(grouped(count - definitions.size())));
  showSource(m_definitions, defining, m_theme->colors());
  m_definitionsFold->setText(tr("Derived before it: %1").arg(counted(count, tr("statement"), tr("statements"))));
  m_derivation->setTerms(terms, true);
  m_nothingDerived->setVisible(terms.empty());
  m_waiting->setText(waiting.join(QLatin1Char('\n')));
  // Values have words of their own for why there are none.
  m_waiting->setVisible(!waiting.isEmpty() && m_pages->currentIndex() != 3);
  fitResult();
  // Rows that were made just now have a height once they are shown, which layouts do later.
  if (m_pages->currentIndex() == 2) QTimer::singleShot(0, this, &CellView::fitResult);
}

// The stack is as high as the page that shows.
void CellView::fitResult() {
  int height = 0;
  const auto linesHigh = [this](const QPlainTextEdit* field) {
    return std::min(30, std::max(1, field->blockCount())) * QFontMetrics(m_theme->mono(13)).lineSpacing() + 14 +
           field->horizontalScrollBar()->sizeHint().height();
  };
  switch (m_pages->currentIndex()) {
    case 0: height = std::max(24, m_formula->sizeHint().height()); break;
    case 1: height = linesHigh(m_source); break;
    case 2: {
      QWidget* page = m_pages->widget(2);
      const int wide = std::max(300, m_pages->width());
      height = page->hasHeightForWidth() ? page->heightForWidth(wide) : page->sizeHint().height();
      break;
    }
    case 3: height = m_values->sizeHint().height(); break;
  }
  m_pages->setFixedHeight(height);
  const bool defined = m_pages->currentIndex() < 2 && !m_definitions->document()->isEmpty();
  const bool open = defined && m_definitionsFold->isChecked();
  m_definitionsFold->setVisible(defined);
  m_definitionsFold->setIcon(m_theme->icon(open ? QStringLiteral("down") : QStringLiteral("right")));
  m_definitions->setVisible(open);
  m_definitions->setFixedHeight(linesHigh(m_definitions));
  updateGeometry();
}

bool CellView::wantsValuesOf(const QString& tensor) const { return m_values && m_values->tensor() == tensor; }

void CellView::setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values) {
  if (!m_values) return;
  m_values->setSlice(slice, values);
  refreshResult();
}

}  // namespace nf
