// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/kernel_view.h"

#include <Qsci/qscilexercpp.h>
#include <Qsci/qsciscintilla.h>

#include <QLabel>
#include <QPlainTextEdit>
#include <QTextBlock>
#include <QVBoxLayout>

#include "widgets/basic.h"
#include "widgets/code_highlighter.h"

namespace nf {
namespace {

constexpr int kExact = 1, kAround = 2;

QString shownName(const std::string& language) {
  if (language == "loops") return QObject::tr("Loop IR");
  if (language == "llvm") return QObject::tr("LLVM IR");
  if (language == "asm") return QObject::tr("Assembly");
  if (language == "cuda") return QStringLiteral("CUDA C");
  if (language == "ptx") return QStringLiteral("PTX");
  return QString::fromStdString(language);
}

}  // namespace

KernelView::KernelView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_header(new PanelHeader(theme, tr("Kernel"))),
      m_languages(new TabRow(theme, {})), m_expression(new QPlainTextEdit), m_code(new QsciScintilla), m_facts(label({}, "muted")),
      m_mapping(label({}, "hint")) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_header->add(m_languages);
  layout->addWidget(m_header);
  layout->addWidget(line());
  m_expression->setReadOnly(true);
  m_expression->setLineWrapMode(QPlainTextEdit::NoWrap);
  m_expression->setFrameShape(QFrame::NoFrame);
  m_expression->setVerticalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  m_expression->setAccessibleName(tr("Expression of the kernel"));
  m_expression->document()->setDocumentMargin(12);
  layout->addWidget(m_expression);
  layout->addWidget(line());
  m_code->setReadOnly(true);
  m_code->setFrameShape(QFrame::NoFrame);
  m_code->setUtf8(true);
  m_code->setMarginType(0, QsciScintilla::NumberMargin);
  m_code->setMarginWidth(1, 0);
  m_code->setMarginWidth(2, 0);
  m_code->setCaretLineVisible(false);
  m_code->setAccessibleName(tr("Code of the kernel"));
  m_code->markerDefine(QsciScintilla::Background, kExact);
  m_code->markerDefine(QsciScintilla::Background, kAround);
  m_code->SendScintilla(QsciScintilla::SCI_SETSCROLLWIDTHTRACKING, 1);
  m_code->SendScintilla(QsciScintilla::SCI_SETSCROLLWIDTH, 1);
  layout->addWidget(m_code, 1);
  layout->addWidget(line());
  auto* row = new QHBoxLayout;
  row->setContentsMargins(16, 6, 16, 6);
  m_facts->setFont(theme->mono(12));
  m_facts->setWordWrap(true);
  m_mapping->setFont(theme->ui(12));
  row->addWidget(m_facts, 1);
  row->addWidget(m_mapping);
  layout->addLayout(row);
  connect(m_languages, &TabRow::chosen, this, [this](int i) {
    m_current = i;
    showText();
    Q_EMIT languageChosen(language());
  });
  connect(m_code, &QsciScintilla::cursorPositionChanged, this, [this](int lineNumber, int) {
    if (!m_code->hasFocus() || m_current >= static_cast<int>(m_kernel.texts.size())) return;
    const auto& origins = m_kernel.texts[static_cast<std::size_t>(m_current)].lineOrigins;
    if (lineNumber >= 0 && static_cast<std::size_t>(lineNumber) < origins.size() &&
        !origins[static_cast<std::size_t>(lineNumber)].empty())
      m_selection->select(origins[static_cast<std::size_t>(lineNumber)]);
  });
  connect(m_expression, &QPlainTextEdit::cursorPositionChanged, this, [this] {
    if (!m_expression->hasFocus()) return;
    const auto at = static_cast<std::size_t>(m_expression->textCursor().blockNumber());
    if (at < m_kernel.expressionOrigins.size() && !m_kernel.expressionOrigins[at].empty())
      m_selection->select(m_kernel.expressionOrigins[at]);
  });
  connect(selection, &Selection::changed, this, &KernelView::tint);
  connect(theme, &Theme::changed, this, [this] {
    dress();
    showText();
  });
  dress();
  clear();
}

void KernelView::dress() {
  const Palette& c = m_theme->colors();
  // Scintilla counts in points.
  QFont font = m_theme->mono(12);
  font.setPointSizeF(12 * 72.0 / std::max(1, logicalDpiY()));
  m_expression->setFont(m_theme->mono(13));
  m_expression->setStyleSheet(QStringLiteral("QPlainTextEdit { background: %1; }").arg(c.page.name()));
  auto* lexer = new QsciLexerCPP(m_code);
  lexer->setDefaultFont(font);
  for (int style = 0; style < 128; ++style) {
    lexer->setFont(font, style);
    lexer->setColor(c.text, style);
    lexer->setPaper(c.page, style);
  }
  lexer->setColor(c.keyword, QsciLexerCPP::Keyword);
  lexer->setColor(c.keyword, QsciLexerCPP::PreProcessor);
  lexer->setColor(c.number, QsciLexerCPP::Number);
  lexer->setColor(c.call, QsciLexerCPP::DoubleQuotedString);
  for (const int comment : {QsciLexerCPP::Comment, QsciLexerCPP::CommentLine, QsciLexerCPP::CommentDoc})
    lexer->setColor(c.comment, comment);
  QsciLexer* old = m_code->lexer();
  m_code->setLexer(lexer);
  delete old;
  m_code->setColor(c.text);
  m_code->setPaper(c.page);
  m_code->setMarginsBackgroundColor(c.page);
  m_code->setMarginsForegroundColor(c.hint);
  m_code->setMarginsFont(font);
  m_code->setSelectionBackgroundColor(c.accentSoft);
  m_code->resetSelectionForegroundColor();
  m_code->setCaretForegroundColor(c.text);
  m_code->setMarkerBackgroundColor(c.accentSoft, kExact);
  m_code->setMarkerBackgroundColor(mixed(c.page, c.accentSoft, 0.4), kAround);
}

void KernelView::clear() {
  m_kernel = {};
  m_header->setDetail(tr("choose a subgraph"));
  m_languages->setWords({});
  m_expression->setFixedHeight(44);
  showText();
}

QString KernelView::language() const {
  return m_current < static_cast<int>(m_kernel.texts.size())
             ? QString::fromStdString(m_kernel.texts[static_cast<std::size_t>(m_current)].language)
             : QString();
}

QString KernelView::text() const { return m_code->text(); }

void KernelView::setKernel(const protocol::Kernel& kernel) {
  const QString was = language();
  m_kernel = kernel;
  QStringList words;
  m_current = 0;
  for (std::size_t i = 0; i < kernel.texts.size(); ++i) {
    words << shownName(kernel.texts[i].language);
    if (QString::fromStdString(kernel.texts[i].language) == was) m_current = static_cast<int>(i);
  }
  m_languages->setWords(words);
  m_languages->setCurrent(m_current);
  QString detail = QString::fromStdString(kernel.name);
  if (kernel.trial) detail += QStringLiteral("  g%1 c%2").arg(kernel.generation).arg(*kernel.trial);
  if (kernel.us) detail += QStringLiteral("  ") + microsecondsText(*kernel.us);
  m_header->setDetail(detail);
  QStringList facts;
  for (const auto& f : kernel.facts) facts << QString::fromStdString(f.name) + QLatin1Char(' ') + QString::fromStdString(f.text);
  m_facts->setText(facts.join(QStringLiteral("   ")));
  const QString expression = QString::fromStdString(kernel.expression).trimmed();
  m_expression->setPlainText(expression);
  const int lines = std::clamp(static_cast<int>(expression.count(QLatin1Char('\n'))) + 1, 1, 7);
  m_expression->setFixedHeight(lines * QFontMetrics(m_theme->mono(13)).lineSpacing() + 36);
  showText();
}

void KernelView::showLanguage(const QString& wish) {
  for (std::size_t i = 0; i < m_kernel.texts.size(); ++i)
    if (QString::fromStdString(m_kernel.texts[i].language) == wish) m_current = static_cast<int>(i);
  m_languages->setCurrent(m_current);
  showText();
}

void KernelView::showText() {
  m_code->setReadOnly(false);
  m_code->setText(m_current < static_cast<int>(m_kernel.texts.size())
                      ? QString::fromStdString(m_kernel.texts[static_cast<std::size_t>(m_current)].text)
                      : QString());
  m_code->setReadOnly(true);
  m_code->setMarginWidth(0, QStringLiteral("0") + QString::number(std::max(100, m_code->lines())) + QLatin1Char(' '));
  tint();
}

void KernelView::tint() {
  m_code->markerDeleteAll(kExact);
  m_code->markerDeleteAll(kAround);
  m_tinted.clear();
  QList<QTextEdit::ExtraSelection> marks;
  const Palette& c = m_theme->colors();
  const QString expression = m_expression->toPlainText();
  for (const auto& run : highlight(expression.toStdString(), c)) {
    QTextEdit::ExtraSelection s;
    s.format = run.format;
    s.cursor = QTextCursor(m_expression->document());
    s.cursor.setPosition(std::min(run.begin, static_cast<int>(expression.size())));
    s.cursor.setPosition(std::min(run.begin + run.length, static_cast<int>(expression.size())), QTextCursor::KeepAnchor);
    marks << s;
  }
  bool mapped = false;
  if (m_current < static_cast<int>(m_kernel.texts.size()) && !m_selection->empty()) {
    const auto& origins = m_kernel.texts[static_cast<std::size_t>(m_current)].lineOrigins;
    for (std::size_t i = 0; i < origins.size(); ++i) {
      mapped = mapped || !origins[i].empty();
      switch (m_selection->relation(origins[i])) {
        case Selection::Relation::None: break;
        case Selection::Relation::Around: m_code->markerAdd(static_cast<int>(i), kAround); break;
        case Selection::Relation::Exact:
          m_code->markerAdd(static_cast<int>(i), kExact);
          m_tinted.push_back(static_cast<int>(i));
          break;
      }
    }
    if (!m_tinted.empty() && !m_code->hasFocus()) m_code->ensureLineVisible(m_tinted.front());
    for (std::size_t i = 0; i < m_kernel.expressionOrigins.size(); ++i) {
      if (m_selection->relation(m_kernel.expressionOrigins[i]) != Selection::Relation::Exact) continue;
      QTextEdit::ExtraSelection s;
      s.format.setBackground(c.accentSoft);
      s.format.setProperty(QTextFormat::FullWidthSelection, true);
      s.cursor = QTextCursor(m_expression->document()->findBlockByNumber(static_cast<int>(i)));
      marks.prepend(s);
    }
  }
  m_expression->setExtraSelections(marks);
  QString words;
  if (!m_selection->empty() && !m_kernel.texts.empty())
    words = !m_tinted.empty()
                ? counted(static_cast<std::int64_t>(m_tinted.size()), tr("line"), tr("lines")) + tr(" from the selection")
            : mapped ? tr("nothing here comes from the selection")
                     : tr("these lines carry no mapping");
  m_mapping->setText(words);
}

}  // namespace nf
