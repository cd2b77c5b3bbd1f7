// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/cell_view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QStackedWidget>
#include <QTimer>
#include <QToolButton>
#include <algorithm>
#include <utility>

#include "widgets/basic.h"
#include "widgets/derivation_view.h"
#include "widgets/expression_editor.h"
#include "widgets/markdown_view.h"
#include "widgets/statements_view.h"
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
constexpr int kSoonMs = 150;  // an answer within it replaces what is shown without a flicker

}  // namespace

CellView::CellView(const Theme* theme, Selection* selection, CellId id, CellKind kind, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_id(id), m_kind(kind),
      m_editor(new ExpressionEditor(theme, kind == CellKind::Code)), m_summaryRow(new QWidget), m_messages(new QWidget),
      m_summary(new ElidedLabel("muted")), m_checked(label({}, "hint")), m_note(label({}, "muted")),
      m_failure(new MessageStrip(theme, true)), m_zeros(new MessageStrip(theme, false)), m_layout(new QVBoxLayout),
      m_gutter(new QSpacerItem(kGutter, 0, QSizePolicy::Fixed, QSizePolicy::MinimumExpanding)),
      m_messageLayout(new QVBoxLayout(m_messages)) {
  // Never less than its content. A minimum set on the widget itself would replace the content's.
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Minimum);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, kRight, 0);
  row->setSpacing(0);
  row->addSpacerItem(m_gutter);
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
    if (m_kind == CellKind::Markdown) return writeMarkdown(begin, begin + static_cast<std::size_t>(text.size()));
    Q_EMIT bytesEdited(begin, end, text);
  });
  m_age.setSingleShot(true);
  m_age.setInterval(kSoonMs);
  connect(&m_age, &QTimer::timeout, this, [this] { setChecking(awaitsAnswer()); });
  connect(selection, &Selection::changed, this, &CellView::showSelection);
  connect(theme, &Theme::changed, this, &CellView::dress);
  dress();
}

int CellView::numberHeight() const { return std::max(18, QFontMetrics(m_theme->ui(12)).height()); }

void CellView::dress() {
  constexpr int kMark = 30;  // px: that under the number, with what is around it
  if (m_kind == CellKind::Code)
    m_gutter->changeSize(kGutter, numberHeight() + kMark, QSizePolicy::Fixed, QSizePolicy::MinimumExpanding);
  layout()->invalidate();
  for (QLabel* words : {m_summary, m_checked, m_note, m_waiting, m_partly})
    if (words) words->setFont(m_theme->ui(12));
  // Every answer brings another time to all cells: in a place of a fixed size it lays out none of them.
  const QFontMetrics metrics(m_checked->font());
  m_checked->setFixedSize(metrics.horizontalAdvance(tr("checked %1").arg(QStringLiteral("88.8 ms"))) + metrics.averageCharWidth(),
                          metrics.height() + 2);
  if (m_which) m_which->setFont(m_theme->mono(12));
  if (m_source) {
    m_source->setFont(m_theme->mono(13));
    m_definitionsFold->setFont(m_theme->ui(12));
    m_source->clear();  // its colours are of another theme
    m_definitions->dress();
    refreshResult();
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

void CellView::setNewline(const std::string& newline) {
  m_newline = newline;
  if (m_kind == CellKind::Code) m_editor->setNewline(newline);
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

// The Markdown of the editor, written in [from, to], back into comment lines, as the smallest change of the body.
void CellView::writeMarkdown(std::size_t from, std::size_t to) {
  const std::string& markdown = m_editor->bytes();
  const std::string next = markdownToCells(markdown, from, to, m_newline);
  std::size_t same = 0, tail = 0;
  while (same < next.size() && same < m_body.size() && next[same] == m_body[same]) ++same;
  while (tail < next.size() - same && tail < m_body.size() - same &&
         next[next.size() - 1 - tail] == m_body[m_body.size() - 1 - tail])
    ++tail;
  const std::size_t end = m_body.size() - tail;
  const QByteArray text = QByteArray::fromStdString(next.substr(same, next.size() - same - tail));
  m_body = next;
  m_markdown->setMarkdown(QString::fromStdString(markdown));
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

void CellView::setFolder(const QString& folder) {
  if (m_markdown) m_markdown->setFolder(folder);
}

void CellView::setActive(Active active) {
  m_active = active;
  if (active != Active::Editing) renderMarkdown();
  update();
}

// Beside its text: the whole cell. The edge around the text is the text's.
void CellView::mousePressEvent(QMouseEvent* event) {
  if (!m_editor->isVisible() || !m_editor->geometry().contains(event->pos())) return Q_EMIT commandModeWanted();
  m_editor->pressBeside(m_editor->mapFrom(this, event->pos()));
}

void CellView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  const bool active = m_active != Active::No && !m_onPaper;
  if (active && m_active == Active::Command) p.fillRect(0, 0, kGutter, height(), mixed(c.page, c.accentSoft, 0.6));
  if (active) p.fillRect(0, 0, 3, height(), c.accent);
  if (m_number > 0) {
    p.setPen(active ? c.text : c.muted);
    p.setFont(m_theme->ui(12, active ? QFont::DemiBold : QFont::Normal));
    p.drawText(QRect(0, 8, 40, numberHeight()), Qt::AlignRight | Qt::AlignVCenter, QString::number(m_number));
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
    case CellStatus::Running:
      icon = m_train && m_train->paused() ? QStringLiteral("pause") : QStringLiteral("running"), color = c.accent;
      break;
  }
  if (m_checking && m_status == CellStatus::Ok) icon = QStringLiteral("running"), color = c.accent;
  else if (m_outdated) color = mixed(c.page, color, 0.45);
  p.drawPixmap(26, 12 + numberHeight(), m_theme->pixmap(icon, color, devicePixelRatioF()));
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

void CellView::beginRun(bool behindTraining) {
  m_running = true;
  m_runMeaning = m_meaning;
  setStatus(behindTraining ? CellStatus::Queued : CellStatus::Running, {});
}

void CellView::trainingEnded() {
  if (!std::exchange(m_behindTraining, false)) return;
  refreshStatus();
}

void CellView::setRefused() {
  m_refused = true;
  refreshStatus();
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
  m_behindTraining = status == CellStatus::Queued;
  m_failed = status == CellStatus::Error;
  m_refused = false;
  m_failedAt = m_revision;
  m_interrupted = false;
  if (status == CellStatus::Ok && (trained || !m_train)) m_resultMeaning = m_runMeaning, m_hasRun = true;
  m_ended = message;
  refreshStatus();
}

// A tick would say that it has run.
bool CellView::neverTrained() const { return m_train && m_status == CellStatus::Ok && !m_hasRun; }

bool CellView::stoppedEarly() const { return m_train && m_status == CellStatus::Ok && m_hasRun && m_train->cut(); }

bool CellView::runIsOld() const {
  if (!m_train || !m_train->hasCurves()) return false;
  // The curves of a run that its engine took along stay, whatever had ended before it.
  if (m_running || m_interrupted) return m_runMeaning != m_meaning;
  return !m_resultMeaning.empty() && m_resultMeaning != m_meaning;
}

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

void CellView::setResultMeaning(std::string meaning, bool whole) {
  m_resultMeaning = std::move(meaning);
  m_hasRun = whole;
  if (std::exchange(m_interrupted, false)) m_ended.clear();  // said of another run
  refreshStatus();
}

QString CellView::note() const { return m_note->isHidden() && m_failure->isHidden() ? QString() : m_noteText; }

// What stands in the gutter and under the cell: what runs, else its mistakes, else what it waits for, else how old its result is.
void CellView::refreshStatus() {
  // What a run said is about the text that it ran on.
  const bool said = m_runMeaning == m_meaning;
  QString text = said ? m_ended : QString();
  const QString again = m_onPaper ? QString() : tr(" Shift+Enter runs it again.");
  m_status = said && m_failed ? CellStatus::Error : said && m_interrupted ? CellStatus::Stale : CellStatus::Ok;
  if (m_running) {
    m_status = m_behindTraining ? CellStatus::Queued : CellStatus::Running;
    if (m_behindTraining) text = tr("Waits until the training has ended.");
    else if (m_train && !said)
      text = tr("Trains the text as it was when it began. What was changed since is trained when this cell is run again.");
  } else if (m_mistaken) {
    m_status = CellStatus::Error;
  } else if (!m_waits.isEmpty()) {
    m_status = CellStatus::Queued;
    text = tr("Waits for %1: a mistake in another cell keeps it from being made.").arg(m_waits.join(QStringLiteral(", ")));
  } else if (!m_resultMeaning.empty() && m_resultMeaning != m_meaning && !(said && (m_failed || m_interrupted))) {
    m_status = CellStatus::Stale;
    text = tr("Stale: what this depends on has changed since it ran.") + again;
  } else if (!said && m_train && ((m_failed && !m_refused) || m_interrupted)) {
    // How it ended stands there still.
    m_status = CellStatus::Stale;
    text = tr("Stale: what this depends on has changed since its run ended without a result.") + again;
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
  // What shows nothing has no meaning to compare: any other text may have mended what its run failed by.
  if (m_failed && m_meaning.empty() && analysis.revision != m_failedAt) m_failed = false, m_ended.clear();
  m_waits.clear();
  for (const auto& name : info->waits) m_waits << QString::fromStdString(name);
  for (const auto& d : analysis.diagnostics)
    if (d.severity == protocol::Severity::Error && isAbout(d, *info)) m_mistaken = true;
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
      qsizetype longest = 4;
      for (const QString& name : m_shows) longest = std::max(longest, name.size());
      m_which->setMinimumContentsLength(static_cast<int>(std::min<qsizetype>(longest, 24)));
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
    m_train = new TrainStrip(m_theme);
    m_layout->addWidget(m_train);
    m_train->hide();
    connect(m_train, &TrainStrip::pauseRequested, this, &CellView::pauseRequested);
    connect(m_train, &TrainStrip::stopRequested, this, &CellView::stopRequested);
    connect(m_train, &TrainStrip::swapChosen, this, &CellView::swapChosen);
    connect(m_train, &TrainStrip::resumeRequested, this, &CellView::resumeRequested);
    connect(m_train, &TrainStrip::trainAgainRequested, this, &CellView::trainAgainRequested);
    connect(m_train, &TrainStrip::runsRequested, this, &CellView::runsRequested);
  }
  showSelection();
  update();
}

// What is missing at the end of its text is, too.
bool CellView::isAbout(const protocol::DiagnosticInfo& d, const protocol::CellInfo& info) const {
  return d.span.source.empty() && d.span.begin >= info.begin &&
         d.span.begin < std::max<std::size_t>(info.end, bodyBegin + m_editor->bytes().size() + 1);
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
    if (!isAbout(d, info) || d.span.begin < bodyBegin) continue;
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
    QLabel* fixes = nullptr;
    if (!d.fixes.empty()) strip->addButton(fixes = label(tr("Fix:"), "muted"));
    QStringList names;
    for (const auto& fix : d.fixes) {
      names << QString::fromStdString(fix.label).remove(QLatin1Char('`'));
      auto* button = new QPushButton(names.back());
      button->setFont(m_theme->mono(12));
      button->setProperty("mono", true);
      button->setObjectName(QStringLiteral("fix"));
      connect(button, &QPushButton::clicked, this,
              [this, fix] { Q_EMIT fixRequested(fix.begin, fix.end, QString::fromStdString(fix.text)); });
      strip->addButton(button);
    }
    if (fixes) fixes->setObjectName(QStringLiteral("fixes")), fixes->setProperty("names", names);
    for (const auto& [name, byte] : places) {
      auto* button = new QPushButton(tr("Go to %1").arg(name));
      button->setObjectName(QStringLiteral("place"));
      connect(button, &QPushButton::clicked, this, [this, byte = byte] { Q_EMIT placeRequested(byte); });
      strip->addButton(button);
    }
    m_messageLayout->addWidget(strip);
    const std::size_t begin = std::min<std::size_t>(d.span.begin - bodyBegin, size);
    const std::size_t end = std::clamp<std::size_t>(d.span.end < bodyBegin ? begin : d.span.end - bodyBegin, begin, size);
    m_diagnosticMarks.push_back({begin, end, error});
    strip->setLeads(tr("Go to its place in the text"));
    connect(strip, &MessageStrip::activated, this, [this, begin, end] { Q_EMIT mistakeChosen(begin, end); });
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

}  // namespace nf
