// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/kernel_view.h"
#include "widgets/names.h"

#include <Qsci/qsciscintilla.h>

#include <QAbstractTextDocumentLayout>
#include <QComboBox>
#include <QLabel>
#include <QPainter>
#include <QPlainTextEdit>
#include <QRegularExpression>
#include <QTextBlock>
#include <QTextLayout>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "widgets/basic.h"
#include "widgets/code_highlighter.h"
#include "widgets/code_lexer.h"

namespace nf {
namespace {

constexpr int kExact = 1, kAround = 2, kAdded = 3, kRemoved = 4;

const char* const kOrder[] = {"cuda", "ptx", "sass", "loops", "llvm", "asm"};

QString shownName(const std::string& language) {
  if (language == "loops") return QObject::tr("Loop IR");
  if (language == "llvm") return QObject::tr("LLVM IR");
  if (language == "asm") return QObject::tr("Assembly");
  if (language == "cuda") return QStringLiteral("CUDA C");
  return QString::fromStdString(language).toUpper();
}

int rankOf(const std::string& language) {
  for (int i = 0; i < static_cast<int>(std::size(kOrder)); ++i)
    if (language == kOrder[i]) return i;
  return static_cast<int>(std::size(kOrder));
}

// Directives that say nothing about what runs: positions for the debugger, unwinding, sections of debug data.
bool isNoise(std::string_view line, bool& inDebugSection) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return true;
  line.remove_prefix(begin);
  if (line.starts_with(".section") || line.starts_with(".text")) inDebugSection = line.find(".debug") != std::string_view::npos;
  if (inDebugSection) return true;
  for (const std::string_view noise :
       {".cfi_", ".loc\t", ".loc ", ".file", ".ident", ".addrsig", ".Ltmp", ".Lfunc_", ".size", ".type", ".section\t\".note"})
    if (line.starts_with(noise)) return true;
  return false;
}

// What lies under it is old: it shows through, and takes the mouse.
class Veil : public QWidget {
 public:
  Veil(const Theme* theme, QWidget* parent) : QWidget(parent), m_theme(theme) {
    setAttribute(Qt::WA_TransparentForMouseEvents);
    hide();
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QColor ground = m_theme->colors().page;
    ground.setAlphaF(0.6F);
    QPainter(this).fillRect(rect(), ground);
  }

 private:
  const Theme* m_theme;
};

}  // namespace

KernelView::KernelView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_header(new PanelHeader(theme, tr("Kernel"))),
      m_languages(new TabRow(theme, {})), m_comparison(new QComboBox), m_expression(new QPlainTextEdit), m_tagRow(new QLabel),
      m_code(new QsciScintilla), m_mapping(new ElidedLabel("hint")), m_facts(label({}, "muted")), m_veil(new Veil(theme, this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_languages->setUnderlined(true);
  m_languages->setAccessibleName(tr("Form of the kernel"));
  m_header->add(m_languages);
  m_comparison->setProperty("flat", true);
  m_comparison->setAccessibleName(tr("Compare with"));
  m_comparison->setToolTip(tr("Compare with another candidate"));
  m_comparison->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_comparison->setMinimumContentsLength(13);
  m_comparison->setMaxVisibleItems(24);
  m_header->add(m_comparison);
  layout->addWidget(m_header);
  layout->addWidget(line());
  m_expression->setReadOnly(true);
  m_expression->setLineWrapMode(QPlainTextEdit::WidgetWidth);
  m_expression->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_expression->setFrameShape(QFrame::NoFrame);
  m_expression->setVerticalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  m_expression->setAccessibleName(tr("Expression of the kernel"));
  m_expression->document()->setDocumentMargin(12);
  layout->addWidget(m_expression);
  connect(m_expression->document()->documentLayout(), &QAbstractTextDocumentLayout::documentSizeChanged, this,
          &KernelView::fitExpression, Qt::QueuedConnection);
  m_tagRow->setContentsMargins(16, 0, 16, 8);
  m_tagRow->setTextFormat(Qt::RichText);
  m_tagRow->setWordWrap(true);
  m_tagRow->setMinimumWidth(0);
  m_tagRow->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  m_tagRow->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  m_tagRow->setAccessibleName(tr("Tokens of the source and their lines"));
  connect(m_tagRow, &QLabel::linkActivated, this, [this](const QString& origin) { selectHere({origin.toUInt()}); });
  layout->addWidget(m_tagRow);
  layout->addWidget(line());
  m_code->setReadOnly(true);
  m_code->setFrameShape(QFrame::NoFrame);
  m_code->setUtf8(true);
  m_code->setMarginType(0, QsciScintilla::NumberMargin);
  m_code->setMarginType(kTagMargin, QsciScintilla::TextMarginRightJustified);
  m_code->setMarginWidth(2, 0);
  m_code->setCaretLineVisible(false);
  m_code->setAccessibleName(tr("Code of the kernel"));
  m_code->setObjectName(QStringLiteral("code"));
  for (const int marker : {kExact, kAround, kAdded, kRemoved}) m_code->markerDefine(QsciScintilla::Background, marker);
  m_code->SendScintilla(QsciScintilla::SCI_SETSCROLLWIDTHTRACKING, 1);
  m_code->SendScintilla(QsciScintilla::SCI_SETSCROLLWIDTH, 1);
  m_code->SendScintilla(QsciScintilla::SCI_SETEXTRAASCENT, 2);
  m_code->SendScintilla(QsciScintilla::SCI_SETEXTRADESCENT, 2);
  layout->addWidget(m_code, 1);
  layout->addWidget(line());
  auto* row = new QHBoxLayout;
  row->setContentsMargins(16, 6, 16, 6);
  row->setSpacing(16);
  m_facts->setFont(theme->ui(12));
  m_facts->setTextFormat(Qt::RichText);
  m_facts->setMinimumWidth(0);
  m_facts->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  m_mapping->setFont(theme->ui(12));
  m_mapping->setAlignment(Qt::AlignRight);
  m_mapping->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Preferred);
  row->addWidget(m_facts, 1);
  row->addWidget(m_mapping);
  layout->addLayout(row);
  connect(m_languages, &TabRow::chosen, this, [this](int i) {
    m_current = i;
    m_wishes = {language()};
    showText();
    Q_EMIT languageChosen(language());
  });
  connect(m_comparison, &QComboBox::activated, this, [this](int i) {
    std::optional<std::uint64_t> number;
    if (i > 0 && static_cast<std::size_t>(i) <= m_candidates.size()) number = m_candidates[static_cast<std::size_t>(i - 1)].first;
    if (!number && m_compared) {
      m_compared.reset();
      showText();
    }
    Q_EMIT comparisonWanted(number);
  });
  connect(m_code, &QsciScintilla::cursorPositionChanged, this, [this](int lineNumber, int) {
    if (m_code->hasFocus()) chooseLine(lineNumber);
  });
  connect(m_expression, &QPlainTextEdit::cursorPositionChanged, this, [this] {
    if (!m_expression->hasFocus()) return;
    const int at = m_expression->textCursor().position();
    for (const Tag& tag : m_tags)
      if (at >= tag.begin && at < tag.end) return selectHere({tag.origin});
    const auto block = static_cast<std::size_t>(m_expression->textCursor().blockNumber());
    if (block >= m_kernel.expressionOrigins.size() || m_kernel.expressionOrigins[block].empty()) return;
    // Left of it and at the sign of equality stands the operator.
    const QTextBlock line = m_expression->textCursor().block();
    const bool atName = at - line.position() <= line.text().indexOf(QStringLiteral(" =")) + 2;
    if (const std::string made = madeBy(line.text());
        atName && m_instance == 0 && std::ranges::find(m_operators, made) != m_operators.end())
      return selectHere({}, {made});
    selectHere(chosenByBlock(block));
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
  auto* lexer = new CodeLexer(m_theme, font, m_code);
  m_code->setLexer(lexer);
  delete m_lexer;
  m_lexer = lexer;
  m_code->setColor(c.text);
  m_code->setPaper(c.page);
  m_code->setMarginsBackgroundColor(c.page);
  m_code->setMarginsForegroundColor(c.hint);
  m_code->setMarginsFont(font);
  m_code->setSelectionBackgroundColor(mixed(c.page, c.accent, 0.3));
  m_code->resetSelectionForegroundColor();
  m_code->setCaretForegroundColor(c.text);
  m_code->setMarkerBackgroundColor(c.accentSoft, kExact);
  m_code->setMarkerBackgroundColor(mixed(c.page, c.accentSoft, 0.4), kAround);
  m_code->setMarkerBackgroundColor(mixed(c.page, c.proved, 0.2), kAdded);
  m_code->setMarkerBackgroundColor(mixed(c.page, c.failed, 0.18), kRemoved);
}

void KernelView::clear() {
  m_kernel = {};
  m_shown.clear();
  m_veil->hide();
  m_compared.reset();
  m_header->setToolTip({});
  m_header->setDetail(tr("choose a subgraph"));
  m_languages->setWords({});
  {
    const QSignalBlocker quiet(m_expression);  // nobody has moved its cursor
    m_expression->clear();
  }
  m_expression->setFixedHeight(44);
  showFacts();
  setCandidates({});
  showText();
}

void KernelView::setWaiting(const QString& why) { m_header->setDetail(why); }

void KernelView::setPending(const QString& candidate) {
  m_header->setToolTip({});
  if (empty()) return m_header->setDetail(tr("%1 is on its way").arg(candidate));
  m_header->setDetail(tr("%1 is on its way, below is %2").arg(candidate, m_shown));
  placeVeil();
  m_veil->show();
  m_veil->raise();
}

void KernelView::setFailed(const QString& message) {
  QString sentence = message;
  if (!sentence.isEmpty()) sentence[0] = sentence[0].toUpper();
  if (!sentence.isEmpty() && !sentence.endsWith(QLatin1Char('.'))) sentence += QLatin1Char('.');
  m_header->setDetail(empty() ? sentence : tr("below is %1. %2").arg(m_shown, sentence));
  m_header->setToolTip(sentence);
}

bool KernelView::pending() const { return !m_veil->isHidden(); }
QString KernelView::detail() const { return m_header->detail(); }
QString KernelView::facts() const { return m_facts->text().remove(QRegularExpression(QStringLiteral("<[^>]*>"))); }

void KernelView::placeVeil() {
  const int top = m_header->geometry().bottom() + 1;
  m_veil->setGeometry(0, top, width(), height() - top);
}

// As high as its lines, broken where the panel is narrow; of a long one the first few, the last of them whole.
// Whole statements as far as there is room; of one that is longer than that, whole lines.
void KernelView::fitExpression() {
  constexpr int kMostLines = 6;
  double shown = 0;
  int lines = 0;
  bool all = true;
  for (QTextBlock block = m_expression->document()->begin(); block.isValid() && all; block = block.next()) {
    m_expression->document()->documentLayout()->blockBoundingRect(block);  // lays it out
    const QTextLayout& laid = *block.layout();
    const int count = std::max(1, laid.lineCount());
    all = lines + count <= kMostLines;
    if (all) shown += laid.boundingRect().height();
    else if (lines == 0) shown = laid.lineAt(kMostLines).y();
    lines += count;
  }
  const double margin = m_expression->document()->documentMargin();
  m_expression->setFixedHeight(static_cast<int>(std::ceil(shown + (all ? 2 * margin + 6 : margin + 1))));
  m_expression->setToolTip(all ? QString() : m_expression->toPlainText());
}

void KernelView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fitExpression();
  placeVeil();
  showFacts();
}

// As many as have room beside what the selection led to; all of them in the tooltip.
void KernelView::showFacts() {
  const QFontMetrics words(m_theme->ui(12)), values(m_theme->mono(12));
  const int mapping = m_mapping->text().isEmpty() ? 0 : m_mapping->fontMetrics().horizontalAdvance(m_mapping->text()) + 20;
  constexpr int kGap = 14;
  int room = width() - 32 - mapping;
  QStringList shown, all;
  for (const auto& f : m_kernel.facts) {
    const QString name = QString::fromStdString(f.name), text = QString::fromStdString(f.text);
    all << name + QLatin1Char(' ') + text;
    room -= words.horizontalAdvance(name + QLatin1Char(' ')) + values.horizontalAdvance(text) + kGap;
    if (room < 0) continue;
    shown << QStringLiteral("%1 <span style='color:%2; font-family:\"%3\"'>%4</span>")
                 .arg(name.toHtmlEscaped(), m_theme->colors().text.name(), m_theme->mono().family(), text.toHtmlEscaped());
  }
  m_facts->setText(shown.join(QStringLiteral(" &nbsp;&nbsp; ")));
  m_facts->setToolTip(all.join(QLatin1Char('\n')));
}

QString KernelView::language() const {
  return m_current < static_cast<int>(m_kernel.texts.size())
             ? QString::fromStdString(m_kernel.texts[static_cast<std::size_t>(m_current)].language)
             : QString();
}

std::pair<int, int> KernelView::lineOnScreen(int line) const {
  const auto position = m_code->SendScintilla(QsciScintilla::SCI_POSITIONFROMLINE, line);
  const auto top = m_code->SendScintilla(QsciScintilla::SCI_POINTYFROMPOSITION, 0UL, position);
  return {static_cast<int>(top), static_cast<int>(top + m_code->SendScintilla(QsciScintilla::SCI_TEXTHEIGHT, line))};
}

QString KernelView::text() const { return m_code->text(); }

std::vector<protocol::Origins> KernelView::lineOrigins() const {
  std::vector<protocol::Origins> out;
  for (const ShownLine& line : m_lines) out.push_back(line.origins);
  return out;
}

void KernelView::setCandidates(std::vector<std::pair<std::uint64_t, QString>> candidates) {
  const auto now = static_cast<std::size_t>(std::max(0, m_comparison->currentIndex()));
  const bool any = now > 0 && now <= m_candidates.size();
  const std::uint64_t chosen = any ? m_candidates[now - 1].first : 0;
  if (candidates == m_candidates && m_comparison->count() > 0) return;
  m_candidates = std::move(candidates);
  const QSignalBlocker blocker(m_comparison);
  m_comparison->clear();
  m_comparison->addItem(tr("Diff with..."));
  int index = 0;
  for (std::size_t i = 0; i < m_candidates.size(); ++i) {
    m_comparison->addItem(tr("Diff with %1").arg(m_candidates[i].second));
    if (any && chosen == m_candidates[i].first) index = static_cast<int>(i) + 1;
  }
  m_comparison->setCurrentIndex(index);
  m_comparison->setEnabled(!m_candidates.empty());
}

void KernelView::setKernel(const protocol::Kernel& kernel) {
  if (kernel.subgraph != m_kernel.subgraph) m_compared.reset();
  m_kernel = kernel;
  std::stable_sort(m_kernel.texts.begin(), m_kernel.texts.end(),
                   [](const auto& a, const auto& b) { return rankOf(a.language) < rankOf(b.language); });
  QStringList words;
  for (const auto& text : m_kernel.texts) words << shownName(text.language);
  m_current = std::max(0, textOf(m_wishes));
  m_languages->setWords(words);
  m_languages->setCurrent(m_current);
  m_veil->hide();
  m_shown = kernel.trial ? QStringLiteral("g%1 c%2").arg(kernel.generation).arg(*kernel.trial) : tr("newest");
  m_header->setToolTip({});
  m_header->setDetail(shownDetail());
  showFacts();
  const QString expression = QString::fromStdString(kernel.expression).trimmed();
  if (expression != m_expression->toPlainText()) {
    const QSignalBlocker quiet(m_expression);  // nobody has moved its cursor
    m_expression->setPlainText(expression);
  }
  fitExpression();
  showText();
}

QString KernelView::shownDetail() const {
  return m_kernel.us ? tr("%1, %2 alone").arg(m_shown, microsecondsText(*m_kernel.us)) : m_shown;
}

void KernelView::setTime(const std::string& subgraph, std::optional<std::uint64_t> trial, std::optional<double> us) {
  if (empty() || m_kernel.subgraph != subgraph || m_kernel.trial != trial) return;
  const bool stands = m_header->detail() == shownDetail();
  m_kernel.us = us;
  if (stands) m_header->setDetail(shownDetail());
}

void KernelView::forgetPlaces() {
  const auto forget = [](protocol::Kernel& kernel) {
    const bool had = !std::exchange(kernel.expressionOrigins, {}).empty();
    kernel.expressionPlaces.clear();
    for (protocol::KernelTextInfo& text : kernel.texts) text.lineOrigins.clear();
    return had;
  };
  const bool shown = forget(m_kernel), compared = m_compared && forget(*m_compared);
  if (shown || compared) showText();
}

void KernelView::setCompared(const protocol::Kernel& kernel) {
  m_compared = kernel;
  showText();
}

std::pair<int, int> KernelView::difference() const {
  std::pair<int, int> count{0, 0};
  for (const ShownLine& l : m_lines) {
    count.first += l.kind == DiffLine::Kind::Removed;
    count.second += l.kind == DiffLine::Kind::Added;
  }
  return count;
}

// The first of these languages that the kernel has; -1: none.
int KernelView::textOf(const QStringList& languages) const {
  for (const QString& wish : languages)
    for (std::size_t i = 0; i < m_kernel.texts.size(); ++i)
      if (QString::fromStdString(m_kernel.texts[i].language) == wish) return static_cast<int>(i);
  return -1;
}

void KernelView::choose(const QStringList& languages) {
  m_wishes = languages;
  if (const int found = textOf(languages); found >= 0) m_current = found;
  m_languages->setCurrent(m_current);
  showText();
}

void KernelView::showLanguage(const QString& language) { choose({language}); }

namespace {
// What a device runs, nearest to it first.
const QStringList& machineLanguages() {
  static const QStringList all{QStringLiteral("sass"), QStringLiteral("ptx"), QStringLiteral("asm"), QStringLiteral("cuda"),
                               QStringLiteral("llvm")};
  return all;
}
}  // namespace

void KernelView::showMachineCode() { choose(machineLanguages()); }

std::int64_t KernelView::machineLines() const {
  const int text = textOf(machineLanguages());
  if (text < 0 || m_selection->empty() || !absent().isEmpty()) return 0;
  const auto lines = linesOf(m_kernel, m_kernel.texts[static_cast<std::size_t>(text)].language);
  return std::count_if(lines.begin(), lines.end(),
                       [this](const ShownLine& l) { return m_selection->relation(l.origins) == Selection::Relation::Exact; });
}

std::vector<KernelView::ShownLine> KernelView::linesOf(const protocol::Kernel& kernel, const std::string& wanted) const {
  std::vector<ShownLine> out;
  for (const auto& text : kernel.texts) {
    if (text.language != wanted) continue;
    const bool assembly = text.language == "asm";
    bool debugSection = false;
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.text.size(); ++number) {
      const std::size_t end = std::min(text.text.find('\n', at), text.text.size());
      std::string line = text.text.substr(at, end - at);
      at = end + 1;
      if (assembly && isNoise(line, debugSection)) continue;
      out.push_back({std::move(line), number < text.lineOrigins.size() ? text.lineOrigins[number] : protocol::Origins{},
                     DiffLine::Kind::Same});
    }
  }
  return out;
}

void KernelView::showText() {
  m_lines = linesOf(m_kernel, language().toStdString());
  if (m_compared) {
    const auto before = linesOf(*m_compared, language().toStdString());
    const auto joined = [](const std::vector<ShownLine>& lines) {
      std::string text;
      for (const ShownLine& l : lines) text += l.text + '\n';
      return text;
    };
    std::vector<ShownLine> both;
    std::size_t i = 0, k = 0;
    for (const DiffLine& d : diffLines(joined(before), joined(m_lines))) {
      const bool removed = d.kind == DiffLine::Kind::Removed;
      const auto& from = removed ? before : m_lines;
      std::size_t& at = removed ? i : k;
      both.push_back({d.text, at < from.size() ? from[at].origins : protocol::Origins{}, d.kind});
      ++at;
      if (d.kind == DiffLine::Kind::Same) ++i;
    }
    m_lines = std::move(both);
  }
  QString text;
  for (const ShownLine& l : m_lines) {
    QString lineText = QString::fromStdString(l.text);
    text += lineText.replace(QLatin1Char('\t'), QStringLiteral("    ")) + QLatin1Char('\n');
  }
  m_lexer->setCodeLanguage(language());
  const bool another = text != m_code->text();
  if (another) {
    m_code->setReadOnly(false);
    m_code->setText(text);
    m_code->setReadOnly(true);
    m_code->SendScintilla(QsciScintilla::SCI_SETXOFFSET, 0);
  }
  m_code->recolor();
  m_code->setMarginWidth(0, text.isEmpty() ? QString() : QStringLiteral("0") + QString::number(std::max(100, m_code->lines())));
  findTags();
  showTags();
  tint();
  if (another) showTinted();
}

// Once the tags around it have taken their room.
void KernelView::showTinted() {
  if (m_tinted.empty()) return;
  QTimer::singleShot(0, this, [this] {
    if (m_tinted.empty()) return;
    const int line = m_tinted.front(), first = m_code->firstVisibleLine();
    const int rows = static_cast<int>(m_code->SendScintilla(QsciScintilla::SCI_LINESONSCREEN));
    if (line < first || line >= first + rows) m_code->setFirstVisibleLine(std::max(0, line - rows / 3));
  });
}

void KernelView::setInstances(std::vector<KernelInstance> instances) {
  if (instances == m_instances) return;
  m_instances = std::move(instances);
  m_instance = activeInstance();
  findTags();
  tint();
}

QString KernelView::absent() const {
  const auto& tensors = m_selection->tensors();
  if (!m_outside || tensors.empty() || !std::ranges::all_of(tensors, m_outside)) return {};
  return shortName(tensors.back());
}

void KernelView::selectHere(const protocol::Origins& origins, std::vector<std::string> tensors) {
  const std::uint64_t before = m_selection->choices();
  m_choice = before + 1;
  m_selection->select(origins, std::move(tensors));
  if (m_selection->choices() == before) m_choice = before;
}

void KernelView::chooseLine(int number) {
  if (number < 0 || static_cast<std::size_t>(number) >= m_lines.size()) return;
  const protocol::Origins origins = chosenByLine(m_lines[static_cast<std::size_t>(number)].origins);
  if (!origins.empty()) selectHere(origins);
}

// The place that the selection came from; the last one while it comes from none.
int KernelView::activeInstance() const {
  for (std::size_t i = 0; i < m_instances.size(); ++i)
    if (!m_selection->empty() && m_selection->relation(m_instances[i].origins) != Selection::Relation::None)
      return static_cast<int>(i);
  return m_instance < static_cast<int>(m_instances.size()) ? m_instance : 0;
}

// The expression is that of the first place.
QString KernelView::also() const {
  QStringList others;
  for (const Equal& e : m_equal)
    if (e.another && m_spanText && e.statement < m_selection->spans().size())
      others << m_spanText(m_selection->spans()[e.statement]).section(QLatin1Char('['), 0, 0).trimmed();
  if (!others.isEmpty()) return tr("also %1:").arg(others.join(QStringLiteral(", ")));
  if (m_instance <= 0 || m_instance >= static_cast<int>(m_instances.size()) || empty()) return {};
  const QString& name = m_instances[static_cast<std::size_t>(m_instance)].name;
  return name.isEmpty() ? QString() : tr("also %1:").arg(name);
}

void KernelView::showTags() {
  const Palette& c = m_theme->colors();
  QStringList parts;
  for (std::size_t t = 0; t < m_tags.size(); ++t) {
    const Tag& tag = m_tags[t];
    QStringList numbers;
    for (std::size_t i = 0; i < tag.lines.size() && i < 3; ++i) numbers << QString::number(tag.lines[i] + 1);
    QString lines = numbers.join(QStringLiteral(", "));
    if (tag.lines.size() > 3) lines += tr(" and %1 more").arg(tag.lines.size() - 3);
    QString text = tag.text;
    if (text.size() > 30) text = text.left(29) + QChar(0x2026);
    const bool chosen =
        m_selection->origins() == protocol::Origins{tag.origin} || m_selection->body() == protocol::Origins{tag.origin};
    const QString words = QString(text).replace(QLatin1Char(' '), QChar(0xa0)).toHtmlEscaped();
    parts << QStringLiteral(
                 "<a href='%1' style='text-decoration:none; color:%2%6'><b>%3</b>&nbsp;<span style='font-family:\"%7\"'>%4"
                 "</span></a>&nbsp;<span style='color:%8'>%5</span>")
                 .arg(tag.origin)
                 .arg((chosen ? c.text : c.accent).name())
                 .arg(t + 1)
                 .arg(words, QString(lines).replace(QLatin1Char(' '), QChar(0xa0)),
                      chosen ? QStringLiteral("; background-color:") + c.accentSoft.name() : QString(), m_theme->mono().family(),
                      c.muted.name());
  }
  if (const QString place = also(); !place.isEmpty())
    parts.prepend(QStringLiteral("<span style='color:%1'>%2</span>").arg(c.text.name(), place.toHtmlEscaped()));
  m_tagRow->setText(QStringLiteral("<span style='font-size:12px'>%1</span>").arg(parts.join(QStringLiteral(" &nbsp; "))));
  m_tagRow->setVisible(!parts.isEmpty());
}

void KernelView::tint() {
  if (const int now = activeInstance(); now != m_instance || !m_equal.empty()) {
    m_instance = now;
    findTags();
  }
  for (const int marker : {kExact, kAround, kAdded, kRemoved}) m_code->markerDeleteAll(marker);
  m_tinted.clear();
  const QString absent = this->absent();
  const std::unique_ptr<Selection> inBody = selectedInBody();
  const std::unique_ptr<Selection> called = inBody ? nullptr : calledInBody();
  const Selection* const selected = inBody ? inBody.get() : m_selection;
  const auto relation = [&](const protocol::Origins& origins) {
    if (selected->empty() || !absent.isEmpty()) return Selection::Relation::None;
    const Selection::Relation whole = selected->relation(origins);
    const bool written = called && std::ranges::any_of(origins, [this](std::uint32_t o) { return isInBody(o); });
    return written ? std::min(whole, called->relation(origins)) : whole;
  };
  const auto ofBlock = [&](std::size_t block) {
    const protocol::Origins& origins = m_kernel.expressionOrigins[block];
    if (!absent.isEmpty()) return relation(origins);
    if (makesCalled(block)) return Selection::Relation::Exact;
    if (called) {
      const protocol::Origins bodies = bodiesOfBlock(block);
      return bodies.empty() ? relation(origins) : std::min(selected->relation(origins), called->relation(bodies));
    }
    const protocol::Origins places = m_selection->byPlace() ? placesOfBlock(block) : protocol::Origins();
    if (inBody) return places.empty() ? relation(origins) : inBody->relation(places);
    return std::max(relation(origins), selected->relation(places));
  };
  std::vector<Selection::Relation> blocks;
  for (std::size_t i = 0; i < m_kernel.expressionOrigins.size(); ++i) blocks.push_back(ofBlock(i));
  const Palette& c = m_theme->colors();
  QList<QTextEdit::ExtraSelection> marks = highlighted(*m_expression, c);
  const QString expression = m_expression->toPlainText();
  const auto mark = [&](int begin, int end) {
    QTextEdit::ExtraSelection s;
    s.cursor = QTextCursor(m_expression->document());
    s.cursor.setPosition(std::clamp(begin, 0, static_cast<int>(expression.size())));
    s.cursor.setPosition(std::clamp(end, 0, static_cast<int>(expression.size())), QTextCursor::KeepAnchor);
    return s;
  };
  for (const Tag& tag : m_tags) {
    if (tag.begin < 0) continue;
    auto s = mark(tag.begin, tag.end);
    const bool chosen = relation({tag.origin}) == Selection::Relation::Exact;
    if (chosen) s.format.setBackground(c.accentSoft);
    s.format.setUnderlineStyle(QTextCharFormat::SingleUnderline);
    s.format.setUnderlineColor(chosen ? c.accent : c.separator);
    marks << s;
  }
  bool mapped = false, around = false;
  for (std::size_t i = 0; i < m_lines.size(); ++i) {
    const int number = static_cast<int>(i);
    mapped = mapped || !m_lines[i].origins.empty();
    if (m_lines[i].kind == DiffLine::Kind::Added) m_code->markerAdd(number, kAdded);
    if (m_lines[i].kind == DiffLine::Kind::Removed) m_code->markerAdd(number, kRemoved);
    switch (relation(m_lines[i].origins)) {
      case Selection::Relation::None: break;
      case Selection::Relation::Around:
        around = true;
        if (m_lines[i].kind == DiffLine::Kind::Same) m_code->markerAdd(number, kAround);
        break;
      case Selection::Relation::Exact:
        if (m_lines[i].kind == DiffLine::Kind::Same) m_code->markerAdd(number, kExact);
        m_tinted.push_back(number);
        break;
    }
  }
  if (!m_code->hasFocus()) showTinted();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] != Selection::Relation::Exact) continue;
    QTextEdit::ExtraSelection s;
    s.format.setBackground(c.accentSoft);
    s.format.setProperty(QTextFormat::FullWidthSelection, true);
    s.cursor = QTextCursor(m_expression->document()->findBlockByNumber(static_cast<int>(i)));
    // However it wraps: a selection fills each line but its last, a place its own.
    s.cursor.movePosition(QTextCursor::EndOfBlock, QTextCursor::KeepAnchor);
    marks.prepend(s);
    s.cursor.clearSelection();
    marks.prepend(s);
  }
  m_expression->setExtraSelections(marks);
  showTags();
  for (const Selection::Relation block : blocks) around = around || block != Selection::Relation::None;
  QString words;
  if (m_compared) {
    const auto [removed, added] = difference();
    words = removed + added == 0 ? tr("the same code") : tr("%1 lines gone, %2 new").arg(removed).arg(added);
  } else if (!absent.isEmpty()) {
    words = tr("no kernel of a step computes %1").arg(absent);
  } else if (!m_selection->empty() && !m_kernel.texts.empty()) {
    words = !m_tinted.empty()
                ? counted(static_cast<std::int64_t>(m_tinted.size()), tr("line"), tr("lines")) + tr(" from the selection")
            : mapped && around ? tr("part of this kernel: the selection has no line of its own")
            : mapped           ? tr("nothing here comes from the selection")
                               : tr("these lines carry no mapping");
  }
  m_mapping->setText(words);
  showFacts();
}

}  // namespace nf
