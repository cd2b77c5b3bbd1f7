// SPDX-License-Identifier: GPL-3.0-or-later
// What a CellView shows of the names its cell shows: formula, source, derivation, values.
#include <QAbstractButton>
#include <QAbstractItemView>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QStackedWidget>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <set>
#include <utility>

#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/code_highlighter.h"
#include "widgets/derivation_view.h"
#include "widgets/elided_combo.h"
#include "widgets/formula_view.h"
#include "widgets/markdown_view.h"
#include "widgets/names.h"
#include "widgets/statements_view.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/wrap_layout.h"

namespace nf {

using protocol::CellStatus;

namespace {

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
  field->setExtraSelections(highlighted(*field, colors));
}

}  // namespace

// Values are of the last run; the rest is of the last text in which the names were made.
void CellView::greyResult() {
  if (!m_pages) return;
  const bool hidden = (m_mistaken || !m_waits.isEmpty()) && m_hidden;
  const bool old = m_status == CellStatus::Stale || (!m_resultMeaning.empty() && m_resultMeaning != m_meaning);
  // What cannot be had is greyed where it is still shown as an earlier text had it. A parameter has no formula at all.
  const bool failed = std::any_of(m_shows.begin(), m_shows.end(), [this](const QString& show) {
    return !isAnswered(show) && m_failures.contains(show) && m_expressions.contains(show);
  });
  setGreyed(m_pages,
            m_checking || hidden || failed || (m_pages->currentIndex() == 3 && old) || (m_pages->currentIndex() == 2 && proves()));
  setGreyed(m_definitions, m_checking || hidden || failed);
}

bool CellView::resultIsGreyed() const { return m_pages && isGreyed(m_pages); }

void CellView::ensureResult() {
  if (m_result) return;
  m_result = new QWidget;
  auto* layout = new QVBoxLayout(m_result);
  layout->setContentsMargins(12, 4, 0, 8);
  layout->setSpacing(4);
  auto* top = new WrapLayout(6);
  m_tabs = new TabRow(m_theme, {tr("Formula"), tr("Source"), tr("Derivation"), tr("Values")});
  m_tabs->setWraps();
  top->addWidget(m_tabs);
  m_which = new ElidedCombo;
  m_which->setAccessibleName(tr("Tensor"));
  leaveWheelToPage(m_which);
  // A long name is elided: it must not make every cell as wide.
  m_which->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_which->setMinimumWidth(72);
  top->addWidget(m_which);
  auto* copyLatex = new IconButton(m_theme, QStringLiteral("copy"), tr("LaTeX"));
  auto* copySource = new IconButton(m_theme, QStringLiteral("copy"), tr("Source"));
  copyLatex->setToolTip(tr("Copy as LaTeX"));
  copySource->setToolTip(tr("Copy as source"));
  copyLatex->setObjectName(QStringLiteral("copyLatex"));
  copySource->setObjectName(QStringLiteral("copySource"));
  for (IconButton* copy : {copyLatex, copySource}) {
    top->addWidget(copy);
    top->setAlignment(copy, Qt::AlignRight);
  }
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
  setUi(m_nothingDerived, m_theme, 13);
  derivationLayout->addWidget(m_nothingDerived);
  derivationLayout->addWidget(m_derivation);
  derivationLayout->addStretch(1);
  m_values = new TensorView(m_theme, false);
  for (QWidget* page :
       {static_cast<QWidget*>(m_formula), static_cast<QWidget*>(m_source), derivation, static_cast<QWidget*>(m_values)})
    m_pages->addWidget(page);
  layout->addWidget(m_pages);
  m_runHere = new IconButton(m_theme, QStringLiteral("run"), tr("Run cell"));
  m_runHere->setAccessibleName(m_runHere->text());
  m_runHere->hide();
  connect(m_runHere, &QToolButton::clicked, this, &CellView::runRequested);
  layout->addWidget(m_runHere, 0, Qt::AlignLeft);
  m_definitionsFold = new QToolButton;
  m_definitionsFold->setObjectName(QStringLiteral("definitions"));
  m_definitionsFold->setCheckable(true);
  m_definitionsFold->setAutoRaise(true);
  m_definitionsFold->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  m_definitionsFold->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_definitionsFold->setToolTip(tr("The derived statements that make what is referred to here"));
  m_definitionsFold->hide();
  layout->addWidget(m_definitionsFold, 0, Qt::AlignLeft);
  m_definitions = new StatementsView(m_theme, m_selection);
  m_definitions->setAccessibleName(tr("What the result is made of"));
  m_definitions->hide();
  layout->addWidget(m_definitions);
  connect(m_definitionsFold, &QToolButton::toggled, this, &CellView::fitResult);
  m_waiting = label({}, "muted");
  m_waiting->setTextFormat(Qt::RichText);
  m_waiting->setWordWrap(true);
  m_waiting->hide();
  layout->addWidget(m_waiting);
  m_partly = label({}, "muted");
  m_partly->setTextFormat(Qt::RichText);
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
  connect(m_values, &TensorView::heightChanged, this, &CellView::fitResult);
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
  if (!isProving(expression.terms)) m_proved[name] = expression.terms;
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
std::vector<protocol::DerivedStatement> CellView::definitions(std::int64_t* count) const {
  std::vector<protocol::DerivedStatement> all;
  std::set<std::string> known;
  const QString own = ownSource() + QLatin1Char('\n');
  std::int64_t leftOut = 0;
  for (const QString& show : m_shows) {
    const auto found = m_expressions.find(show);
    if (found == m_expressions.end()) continue;
    const auto& given = found->second.definitions;
    leftOut = std::max(leftOut, found->second.definitionCount - static_cast<std::int64_t>(given.size()));
    // The counter of one loop may have another letter beside other statements: an operator is known by what it makes.
    for (const protocol::DerivedStatement& statement : given)
      if (!own.contains(QString::fromStdString(statement.text).trimmed() + QLatin1Char('\n')) &&
          known.insert(statement.tensor).second)
        all.push_back(statement);
  }
  if (count) *count = static_cast<std::int64_t>(all.size()) + leftOut;
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
    for (const protocol::DerivedStatement& statement : found->second.definitions)
      if (const QString text = QString::fromStdString(statement.text).trimmed(); known.insert(text).second) all << text;
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
    m_partly->setText(codeText(parts.join(QLatin1Char('\n'))));
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
    // While a proof is under way the derivation before it stays, grey: no page of a cell collapses at a keystroke.
    const auto before = m_proved.find(show);
    const bool proving = isProving(found->second.terms) && before != m_proved.end();
    const auto& shown = proving ? before->second : found->second.terms;
    terms.insert(terms.end(), shown.begin(), shown.end());
  }
  m_formula->setFormulas(std::move(formulas));
  showSource(m_source, ownSource(), m_theme->colors());
  std::int64_t count = 0;
  std::vector<protocol::DerivedStatement> definitions = this->definitions(&count);
  const std::int64_t more = count - static_cast<std::int64_t>(definitions.size());
  m_definitions->setStatements(
      std::move(definitions), more > 0 ? tr("# %1 more before these; neoflow grad prints them all").arg(grouped(more)) : QString());
  m_definitionsFold->setText(tr("Derived before it: %1").arg(counted(count, tr("statement"), tr("statements"))));
  m_derivation->setTerms(terms, true);
  m_nothingDerived->setVisible(terms.empty());
  m_waiting->setText(codeText(waiting.join(QLatin1Char('\n'))));
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
    constexpr int kMostLines = 30;
    const QFontMetrics metrics(m_theme->mono(13));
    if (m_onPaper)
      return metrics
                 .boundingRect(QRect(0, 0, std::max(1, field->viewport()->width() - 8), QWIDGETSIZE_MAX),
                               Qt::TextWordWrap | Qt::TextWrapAnywhere, field->toPlainText())
                 .height() +
             14;
    return std::min(kMostLines, std::max(1, field->blockCount())) * metrics.lineSpacing() + 14 +
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
    case 3:
      height =
          m_values->hasHeightForWidth() ? m_values->heightForWidth(std::max(1, m_pages->width())) : m_values->sizeHint().height();
      break;
  }
  m_pages->setFixedHeight(height);
  const bool defined = m_pages->currentIndex() < 2 && !m_definitions->document()->isEmpty();
  const bool open = defined && m_definitionsFold->isChecked();
  m_definitionsFold->setVisible(defined && (open || !m_onPaper));
  m_definitionsFold->setIcon(m_theme->icon(open ? QStringLiteral("down") : QStringLiteral("right")));
  m_definitions->setVisible(open);
  m_definitions->setFixedHeight(linesHigh(m_definitions));
  updateGeometry();
}

void CellView::setOnPaper(bool onPaper) {
  if (m_onPaper == onPaper) return;
  m_onPaper = onPaper;
  m_editor->setOnPaper(onPaper);
  if (m_train) m_train->setOnPaper(onPaper);
  if (m_formula) m_formula->setOnPaper(onPaper);
  if (m_values) m_values->setOnPaper(onPaper);
  if (m_definitions) m_definitions->setOnPaper(onPaper);
  if (onPaper) refreshStatus();
  // What is written there is read on paper.
  if (m_markdown && onPaper && (m_written = !m_editor->isHidden())) renderMarkdown();
  else if (m_markdown && std::exchange(m_written, false)) m_markdown->hide(), m_editor->show();
  for (QLabel* fixes : m_messages->findChildren<QLabel*>(QStringLiteral("fixes")))
    fixes->setText(onPaper ? tr("Fix: %1").arg(fixes->property("names").toStringList().join(tr(" or "))) : tr("Fix:"));
  if (m_source)
    for (QPlainTextEdit* field : std::initializer_list<QPlainTextEdit*>{m_source, m_definitions}) {
      field->setLineWrapMode(onPaper ? QPlainTextEdit::WidgetWidth : QPlainTextEdit::NoWrap);
      field->setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
      for (const auto setPolicy :
           {&QAbstractScrollArea::setHorizontalScrollBarPolicy, &QAbstractScrollArea::setVerticalScrollBarPolicy})
        (field->*setPolicy)(onPaper ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
    }
  if (onPaper) {
    // A button that stays down heads what it has opened.
    const auto isHeading = [](const QWidget* w) {
      const auto* button = qobject_cast<const QAbstractButton*>(w);
      return button && button->isChecked();
    };
    for (QWidget* w : findChildren<QWidget*>()) {
      const bool clicked = qobject_cast<QAbstractButton*>(w) || qobject_cast<TabRow*>(w) || w == m_which;
      if (!clicked || w->isHidden() || isHeading(w) || qobject_cast<QAbstractItemView*>(w->parentWidget())) continue;
      m_offPaper.emplace_back(w);
      w->hide();
    }
  } else {
    for (const QPointer<QWidget>& w : std::exchange(m_offPaper, {}))
      if (w) w->show();
    refreshStatus();
    if (m_pages) fitResult();
  }
  update();
}

void CellView::fitOnPaper() {
  if (m_pages) fitResult();
}

void CellView::drawOnPaper() {
  if (m_train) m_train->drawOnPaper();
}

bool CellView::wantsValuesOf(const QString& tensor) const { return m_values && m_values->tensor() == tensor; }

void CellView::setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values) {
  if (!m_values) return;
  m_values->setSlice(slice, values);
  refreshResult();
}

}  // namespace nf
