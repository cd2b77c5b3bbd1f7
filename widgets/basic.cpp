// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/basic.h"

#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QGraphicsOpacityEffect>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QStyle>
#include <QStyleOptionToolButton>
#include <QTableView>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/wrap_layout.h"

namespace nf {
namespace {
constexpr int kTabGap = 16;  // px behind each word of a row of tabs
}  // namespace

QString grouped(std::int64_t value) {
  QString digits = QString::number(value < 0 ? -static_cast<double>(value) : static_cast<double>(value), 'f', 0);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, QChar(0x202f));
  return value < 0 ? QStringLiteral("-") + digits : digits;
}

QString counted(std::int64_t n, const QString& one, const QString& many) {
  return grouped(n) + QLatin1Char(' ') + (n == 1 ? one : many);
}

QString significant(double value, int digits) {
  if (!std::isfinite(value))
    return std::isnan(value) ? QStringLiteral("NaN") : value > 0 ? QStringLiteral("inf") : QStringLiteral("-inf");
  if (value == 0) return QStringLiteral("0");
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (exponent < -4 || exponent > 6) return QString::number(value, 'e', digits - 2);
  return QString::number(value, 'f', std::max(0, digits - 1 - exponent));
}

QString plusMinus(double us) {
  const double size = std::abs(us);
  if (us == 0) return QStringLiteral("0");
  return (us > 0 ? QStringLiteral("+") : QStringLiteral("-")) +
         (size >= 0.001 ? QString::number(size, 'f', size >= 1 ? 2 : 3) : significant(size, 2));
}

namespace {
// A number and the ends of its interval are written by one reckoning, so that rounding puts none of them on the other side of another.
struct Unit {
  QString name;
  double times = 1, over = 1;
  QString number(double value) const { return significant(value * times / over); }
  QString text(double value) const { return number(value) + QLatin1Char(' ') + name; }
  QString interval(double low, double high) const { return QStringLiteral("[%1, %2]").arg(number(low), number(high)); }
};

Unit timeUnit(double us) {
  const double size = std::abs(us);
  if (us < 1 && us > 0) return {QStringLiteral("ns"), 1e3, 1};
  return size < 1e3   ? Unit{QStringLiteral("µs"), 1, 1}
         : size < 1e6 ? Unit{QStringLiteral("ms"), 1, 1e3}
                      : Unit{QStringLiteral("s"), 1, 1e6};
}

Unit rateUnit(double rate, const QString& name) {
  Unit unit{name};
  for (const char* prefix : {"k", "M", "G", "T", "P"}) {
    if (std::abs(rate) / unit.over < 1000) break;
    unit.over *= 1000;
    unit.name = QLatin1String(prefix) + name;
  }
  return unit;
}

QString scaled(double value, double base, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (std::abs(value) >= base && unit + 1 != units.end()) value /= base, ++unit;
  return significant(value) + QLatin1Char(' ') + QString::fromUtf8(*unit);
}
}  // namespace

QString bytesText(double bytes) { return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"}); }
QString flopsText(double flops, const QString& unit) { return rateUnit(flops, unit).text(flops); }
QString microsecondsText(double us) { return timeUnit(us).text(us); }
QString microsecondsText(std::optional<double> us) { return us ? microsecondsText(*us) : QStringLiteral("–"); }
QString secondsText(double s) {
  if (s < 1) return microsecondsText(s * 1e6);
  if (s < 120) return QString::number(s, 'f', s < 10 ? 1 : 0) + QStringLiteral(" s");
  if (s < 7200) return QStringLiteral("%1 min %2 s").arg(static_cast<int>(s) / 60).arg(static_cast<int>(s) % 60);
  return QStringLiteral("%1 h %2 min").arg(static_cast<int>(s) / 3600).arg(static_cast<int>(s) / 60 % 60);
}
QString agoText(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) return QObject::tr("%1 s").arg(whole);
  if (whole < 3600) return QObject::tr("%1 min").arg(whole / 60);
  if (whole < 86400) return QObject::tr("%1 h").arg(whole / 3600);
  return counted(whole / 86400, QObject::tr("day"), QObject::tr("days"));
}
QString shapeText(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return QObject::tr("scalar");
  QStringList parts;
  for (const auto extent : shape) parts << QString::number(extent);
  return parts.join(QChar(0xb7));
}

QString constantsText(const protocol::DeviceConstants& k) {
  return QStringLiteral("P_d %1  ·  P_c %2  ·  L %3")
      .arg(flopsText(k.bandwidth, QStringLiteral("B/s")), flopsText(k.flopRate, QStringLiteral("FLOP/s")),
           microsecondsText(k.launchSeconds * 1e6));
}

namespace {
QString noiseText(const Unit& unit, double low, double high, std::int64_t samples) {
  return samples > 0 ? QStringLiteral("%1  n = %2").arg(unit.interval(low, high)).arg(samples) : QString();
}
}  // namespace

QString rateNoise(double rate, const protocol::Interval& i) { return noiseText(rateUnit(rate, {}), i.low, i.high, i.samples); }
QString secondsNoise(double seconds, const protocol::Interval& i) {
  return noiseText(timeUnit(seconds * 1e6), i.low * 1e6, i.high * 1e6, i.samples);
}

QStringList constantLines(const protocol::DeviceConstants& k) {
  const auto line = [](const QString& text, const QString& noise) {
    return noise.isEmpty() ? text : text + QStringLiteral("  ") + noise;
  };
  return {line(QStringLiteral("P_d ") + flopsText(k.bandwidth, QStringLiteral("B/s")), rateNoise(k.bandwidth, k.bandwidthInterval)),
          line(QStringLiteral("P_c ") + flopsText(k.flopRate, QStringLiteral("FLOP/s")), rateNoise(k.flopRate, k.flopInterval)),
          line(QStringLiteral("L ") + microsecondsText(k.launchSeconds * 1e6), secondsNoise(k.launchSeconds, k.launchInterval))};
}

QString scopeText(const protocol::DeviceConstants& k, std::int64_t ofThreads) {
  QString out = QString::fromStdString(k.device);
  if (k.threads <= 0) return out;
  return out + QStringLiteral(", ") +
         (ofThreads > k.threads ? QObject::tr("%1 of %2 threads").arg(k.threads).arg(ofThreads)
                                : counted(k.threads, QObject::tr("thread"), QObject::tr("threads")));
}

QLabel* label(const QString& text, const char* role, QWidget* parent) {
  auto* l = new QLabel(text, parent);
  l->setTextFormat(Qt::PlainText);
  if (role) l->setProperty("role", QString::fromLatin1(role));
  return l;
}

ElidedLabel::ElidedLabel(const char* role, Qt::TextElideMode mode, QWidget* parent) : QLabel(parent), m_mode(mode) {
  setTextFormat(Qt::PlainText);
  setMinimumWidth(0);
  if (role) setProperty("role", QString::fromLatin1(role));
}

QString ElidedLabel::shown() const {
  const int room = contentsRect().width();
  if (m_lines > 1) {
    // A line ends before a word that has no room in it: what is left of them is less than what they are together.
    QString fits = text();
    for (int most = room * m_lines; linesIn(room, fits) > m_lines && most > 0; most -= std::max(1, room / 20))
      fits = fontMetrics().elidedText(text(), m_mode, most);
    return fits;
  }
  const QString fits = fontMetrics().elidedText(text(), m_mode, room);
  const QString word = text().section(QLatin1Char(' '), 0, 0);
  return m_wholeWords && fits != text() && fontMetrics().horizontalAdvance(word + QChar(0x2026)) > room ? QString() : fits;
}

int ElidedLabel::linesIn(int width, const QString& words) const {
  const QRect room(0, 0, std::max(1, width), QWIDGETSIZE_MAX);
  const QFontMetricsF metrics(font());
  return std::max(
      1, static_cast<int>(std::lround(metrics.boundingRect(room, Qt::TextWordWrap, words).height() / metrics.lineSpacing())));
}

void ElidedLabel::setLines(int most) {
  if (std::exchange(m_lines, most) == most) return;
  updateGeometry();
  update();
}

int ElidedLabel::heightForWidth(int width) const {
  if (m_lines <= 1) return QLabel::heightForWidth(width);
  const QMargins around = contentsMargins();
  return std::min(m_lines, linesIn(width - around.left() - around.right(), text())) * fontMetrics().lineSpacing() + around.top() +
         around.bottom();
}

void ElidedLabel::setWholeWords() { m_wholeWords = true; }

QSize ElidedLabel::minimumSizeHint() const {
  const QSize whole = QLabel::sizeHint();
  return {std::min(m_least, whole.width()), QLabel::minimumSizeHint().height()};
}

void ElidedLabel::setLeast(int width) {
  m_least = width;
  updateGeometry();
}

void ElidedLabel::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const int flags =
      static_cast<int>(Qt::AlignVCenter | (alignment() & Qt::AlignHorizontal_Mask)) | (m_lines > 1 ? Qt::TextWordWrap : 0);
  style()->drawItemText(&p, contentsRect(), flags, palette(), isEnabled(), shown(), foregroundRole());
}

bool ElidedLabel::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip && toolTip().isEmpty() && shown() != text()) {
    QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(), text(), this);
    return true;
  }
  return QLabel::event(event);
}

QFrame* line(QWidget* parent) {
  auto* l = new QFrame(parent);
  l->setProperty("role", QStringLiteral("line"));
  l->setFixedHeight(1);
  return l;
}

void setUi(QWidget* widget, const Theme* theme, int px, int weight) {
  const auto dress = [=] { widget->setFont(theme->ui(px, weight)); };
  QObject::connect(theme, &Theme::changed, widget, dress);
  dress();
}

void setMono(QWidget* widget, const Theme* theme, int px, int weight) {
  const auto dress = [=] { widget->setFont(theme->mono(px, weight)); };
  QObject::connect(theme, &Theme::changed, widget, dress);
  dress();
}

void setTableMono(QTableView* table, const Theme* theme, int px) {
  setMono(table, theme, px);
  for (QHeaderView* header : {table->horizontalHeader(), table->verticalHeader()})
    for (QWidget* part : {static_cast<QWidget*>(header), header->viewport()}) setUi(part, theme, 13);
}

MessageStrip::MessageStrip(const Theme* theme, bool error, const QString& text, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_error(error), m_words(label({})), m_row(new QHBoxLayout(this)),
      m_buttons(new WrapLayout(8)) {
  m_row->setContentsMargins(36, 4, 8, 4);
  m_row->setSpacing(8);
  m_words->setTextFormat(Qt::RichText);
  m_words->setWordWrap(true);
  QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);
  m_words->setSizePolicy(policy);
  m_words->setTextInteractionFlags(Qt::TextSelectableByMouse);
  // It quotes code: `->` stays two signs.
  const auto dress = [this] {
    QFont font = m_theme->ui(13);
    font.setStyleStrategy(QFont::PreferNoShaping);
    m_words->setFont(font);
  };
  connect(theme, &Theme::changed, this, dress);
  dress();
  m_row->addWidget(m_words, 1);
  m_row->addLayout(m_buttons);
  setMinimumHeight(34);
  setText(text);
}

void MessageStrip::setLeads(const QString& where) {
  setFocusPolicy(Qt::TabFocus);
  setAttribute(Qt::WA_Hover);
  setCursor(Qt::PointingHandCursor);
  setToolTip(where);
  m_words->installEventFilter(this);
}

// The words take the mouse for themselves, to be copied: a click that chose none of them is one on the strip.
bool MessageStrip::eventFilter(QObject* watched, QEvent* event) {
  if (watched == m_words && event->type() == QEvent::MouseButtonRelease && !m_words->hasSelectedText())
    mouseReleaseEvent(static_cast<QMouseEvent*>(event));
  return QWidget::eventFilter(watched, event);
}

void MessageStrip::mousePressEvent(QMouseEvent* event) { event->setAccepted(focusPolicy() == Qt::TabFocus); }

void MessageStrip::mouseReleaseEvent(QMouseEvent* event) {
  const bool inside = rect().contains(mapFromGlobal(event->globalPosition().toPoint()));
  if (focusPolicy() == Qt::TabFocus && event->button() == Qt::LeftButton && inside) Q_EMIT activated();
}

void MessageStrip::keyPressEvent(QKeyEvent* event) {
  const bool presses = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter || event->key() == Qt::Key_Space;
  if (hasFocus() && presses && !(event->modifiers() & ~Qt::KeypadModifier)) Q_EMIT activated();
  else QWidget::keyPressEvent(event);
}

void MessageStrip::addButton(QWidget* button) {
  if (!button->testAttribute(Qt::WA_SetFont)) setUi(button, m_theme, 13);
  m_buttons->addWidget(button);
}

void MessageStrip::arrange() {
  constexpr int kLeastWords = 240;
  const QMargins edge = m_row->contentsMargins();
  const int left = width() - edge.left() - edge.right() - m_buttons->sizeHint().width();
  m_row->setDirection(left >= m_theme->scaled(kLeastWords) ? QBoxLayout::LeftToRight : QBoxLayout::TopToBottom);
}

void MessageStrip::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  arrange();
}

bool MessageStrip::event(QEvent* event) {
  if (event->type() == QEvent::LayoutRequest) arrange();  // another button, or letters of another size
  return QWidget::event(event);
}

void MessageStrip::setText(const QString& text) {
  m_text = text;
  m_words->setText(codeText(text));
  setAccessibleName(QString(text).remove(QLatin1Char('`')));
}

void MessageStrip::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Palette& c = m_theme->colors();
  const QColor color = m_error ? c.failed : c.stale;
  const bool under = testAttribute(Qt::WA_Hover) && underMouse();
  p.fillRect(rect(), mixed(c.page, color, (c.dark ? 0.14 : 0.07) * (under ? 1.5 : 1)));
  p.fillRect(0, 0, 3, height(), color);
  if (hasFocus()) {
    p.setPen(c.accent);
    p.drawRect(rect().adjusted(0, 0, -1, -1));
  }
  p.drawPixmap(12, std::min(height() / 2, 18) - 8,
               m_theme->pixmap(m_error ? QStringLiteral("error") : QStringLiteral("warning"), color, devicePixelRatioF()));
}

PanelHeader::PanelHeader(const Theme*, const QString& title, QWidget* parent)
    : QWidget(parent), m_title(label(title, "title")), m_detail(new ElidedLabel("muted")), m_layout(new QHBoxLayout(this)) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  setFixedHeight(34);
  m_layout->setContentsMargins(16, 0, 10, 0);
  m_layout->setSpacing(8);
  m_layout->addWidget(m_title);
  m_layout->addWidget(m_detail);
  m_layout->addStretch(1);
  m_detail->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  m_detail->setWholeWords();
  m_layout->setStretchFactor(m_detail, 10);
}

void PanelHeader::add(QWidget* widget) { m_layout->addWidget(widget); }

IconButton::IconButton(const Theme* theme, const QString& icon, const QString& text, QWidget* parent)
    : QToolButton(parent), m_theme(theme) {
  setText(text);
  setToolButtonStyle(text.isEmpty() ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon);
  setIconName(icon);
  setIconSize({16, 16});
  setFocusPolicy(Qt::TabFocus);
  setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
  setUi(this, theme, 13);
  connect(theme, &Theme::changed, this, [this] { setIconName(m_name); });
}

void IconButton::setIconName(const QString& icon) {
  m_name = icon;
  setIcon(m_theme->icon(icon));
}

void IconButton::initStyleOption(QStyleOptionToolButton* option) const {
  QToolButton::initStyleOption(option);
  if (!m_measuring && !text().isEmpty() && width() < sizeHint().width()) option->toolButtonStyle = Qt::ToolButtonIconOnly;
}

QSize IconButton::sizeHint() const {
  m_measuring = true;
  const QSize size = QToolButton::sizeHint();
  m_measuring = false;
  return size;
}

QSize IconButton::minimumSizeHint() const {
  const QSize whole = sizeHint();
  return {std::min(whole.width(), whole.height()), whole.height()};
}

SegmentedSwitch::SegmentedSwitch(const Theme* theme, const QStringList& words, int width, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_words(words), m_segment(width) {
  setFixedSize(sizeHint());
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(tr("Layout"));
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void SegmentedSwitch::setCurrent(int index) {
  m_current = index;
  update();
}

void SegmentedSwitch::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  p.setPen(c.separator);
  p.setBrush(c.raised);
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  for (int i = 0; i < m_words.size(); ++i) {
    const QRect r(i * m_segment, 0, m_segment, height());
    if (i == m_current) {
      p.setPen(QPen(c.accent, 1.2));
      p.setBrush(c.accentSoft);
      p.drawRoundedRect(QRectF(r).adjusted(0.6, 0.6, -0.6, -0.6), 4, 4);
    } else if (i > 0 && i != m_current + 1) {
      p.setPen(c.separator);
      p.drawLine(r.left(), 7, r.left(), height() - 8);
    }
    p.setPen(i == m_current ? c.text : c.muted);
    p.setFont(m_theme->ui(13, i == m_current ? QFont::DemiBold : QFont::Normal));
    p.drawText(r, Qt::AlignCenter, m_words[i]);
  }
  if (hasFocus()) {
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(c.accent, 2));
    p.drawRoundedRect(QRectF(m_current * m_segment, 0, m_segment, height()).adjusted(1, 1, -1, -1), 4, 4);
  }
}

void SegmentedSwitch::mousePressEvent(QMouseEvent* event) {
  const int index = static_cast<int>(event->position().x()) / m_segment;
  if (index >= 0 && index < m_words.size()) Q_EMIT chosen(index);
}

void SegmentedSwitch::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Left ? -1 : event->key() == Qt::Key_Right ? 1 : 0;
  if (step == 0) return QWidget::keyPressEvent(event);
  const int index = std::clamp(m_current + step, 0, static_cast<int>(m_words.size()) - 1);
  if (index != m_current) Q_EMIT chosen(index);
}

TabRow::TabRow(const Theme* theme, const QStringList& words, QWidget* parent) : QWidget(parent), m_theme(theme), m_words(words) {
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(words.join(QStringLiteral(", ")));
  connect(theme, &Theme::changed, this, [this] {
    updateGeometry();  // of another scale of the text
    update();
  });
}

void TabRow::setCurrent(int index) {
  m_current = index;
  update();
}

void TabRow::setWords(const QStringList& words) {
  m_words = words;
  m_current = std::clamp(m_current, 0, std::max(0, static_cast<int>(words.size()) - 1));
  updateGeometry();
  update();
}

void TabRow::setWraps() {
  QSizePolicy policy(QSizePolicy::Maximum, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
}

std::vector<QRect> TabRow::places(int width) const {
  const QFontMetrics bold(m_theme->ui(12, QFont::DemiBold));
  const int height = std::max(28, bold.height() + 8);
  std::vector<QRect> out;
  int x = 0, y = 0;
  for (const QString& word : m_words) {
    const int room = bold.horizontalAdvance(word) + kTabGap;
    if (x > 0 && x + room > width) x = 0, y += height;
    out.emplace_back(x, y, room, height);
    x += room;
  }
  return out;
}

QSize TabRow::sizeHint() const {
  if (m_words.isEmpty()) return {0, 28};
  const QRect last = places(QWIDGETSIZE_MAX).back();
  return {last.right() + 1, last.height()};
}

QSize TabRow::minimumSizeHint() const {
  QSize size(0, 28);
  for (const QRect& r : places(QWIDGETSIZE_MAX)) size = size.expandedTo(r.size());
  return size;
}

int TabRow::heightForWidth(int width) const { return m_words.isEmpty() ? 28 : places(width).back().bottom() + 1; }

void TabRow::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Palette& c = m_theme->colors();
  const std::vector<QRect> rects = places(width());
  for (int i = 0; i < m_words.size(); ++i) {
    const QRect& r = rects[static_cast<std::size_t>(i)];
    p.setFont(m_theme->ui(12, i == m_current ? QFont::DemiBold : QFont::Normal));
    p.setPen(i == m_current ? c.text : c.muted);
    p.drawText(r, Qt::AlignVCenter | Qt::AlignLeft, m_words[i]);
    if (i == m_current && (hasFocus() || m_underlined))
      p.fillRect(QRect(r.left(), r.bottom() - 2, r.width() - kTabGap, 2), c.accent);
  }
}

void TabRow::mousePressEvent(QMouseEvent* event) {
  const std::vector<QRect> rects = places(width());
  for (int i = 0; i < m_words.size(); ++i)
    if (rects[static_cast<std::size_t>(i)].contains(event->pos())) {
      setCurrent(i);
      Q_EMIT chosen(i);
    }
}

void TabRow::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Left ? -1 : event->key() == Qt::Key_Right ? 1 : 0;
  if (step == 0) return QWidget::keyPressEvent(event);
  const int index = std::clamp(m_current + step, 0, static_cast<int>(m_words.size()) - 1);
  if (index == m_current) return;
  setCurrent(index);
  Q_EMIT chosen(index);
}

Section::Section(const Theme* theme, const QString& title, QWidget* parent)
    : QWidget(parent), m_detail(new ElidedLabel("muted")), m_chevron(new IconButton(theme, QStringLiteral("down"))),
      m_content(new QWidget), m_body(new QVBoxLayout(m_content)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(12, 8, 16, 0);
  row->setSpacing(4);
  m_chevron->setFixedSize(22, 22);
  m_chevron->setAccessibleName(tr("Fold %1").arg(title));
  row->addWidget(m_chevron);
  row->addWidget(label(title, "title"));
  // All that is left of the row: a longer text needs no new layout.
  m_detail->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  m_detail->setFont(theme->ui(12));
  row->addWidget(m_detail, 1);
  layout->addLayout(row);
  m_body->setContentsMargins(16, 4, 16, 12);
  m_body->setSpacing(6);
  layout->addWidget(m_content);
  layout->addWidget(line());
  connect(m_chevron, &QToolButton::clicked, this, [this] {
    m_content->setVisible(!m_content->isVisible());
    static_cast<IconButton*>(m_chevron)->setIconName(m_content->isVisible() ? QStringLiteral("down") : QStringLiteral("right"));
  });
}

void Section::clear() {
  while (QLayoutItem* item = m_body->takeAt(0)) {
    if (QWidget* widget = item->widget()) widget->hide(), widget->deleteLater();
    if (QLayout* child = item->layout()) {
      while (QLayoutItem* inner = child->takeAt(0)) {
        if (inner->widget()) inner->widget()->hide(), inner->widget()->deleteLater();
        delete inner;
      }
    }
    delete item;
  }
}

Badge::Badge(const Theme* theme, QWidget* parent) : QWidget(parent), m_theme(theme) {
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
  setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
}

void Badge::show(const QString& icon, const QString& text, Shade color) {
  m_icon = icon, m_text = text, m_color = color;
  setAccessibleName(text);
  setToolTip(text);
  // One that stands nowhere yet would come up as a window of its own.
  if (parentWidget() || text.isEmpty()) setVisible(!text.isEmpty());
  updateGeometry();
  update();
}

QSize Badge::sizeHint() const {
  return {QFontMetrics(m_theme->ui(12, QFont::Medium)).horizontalAdvance(m_text) + (m_icon.isEmpty() ? 16 : 34), 22};
}

QSize Badge::minimumSizeHint() const { return {std::min(sizeHint().width(), 96), 22}; }

void Badge::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  const QColor own = color();
  p.setPen(mixed(c.page, own, 0.55));
  p.setBrush(mixed(c.page, own, c.dark ? 0.16 : 0.1));
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  int x = 8;
  if (!m_icon.isEmpty()) {
    p.drawPixmap(6, 3, m_theme->pixmap(m_icon, own, devicePixelRatioF()));
    x = 26;
  }
  p.setPen(own);
  p.setFont(m_theme->ui(12, QFont::Medium));
  p.drawText(QRect(x, 0, width() - x, height()), Qt::AlignVCenter,
             p.fontMetrics().elidedText(m_text, Qt::ElideRight, width() - x - 7));
}

void scrollAsWide(QScrollArea* area, QWidget* page) {
  page->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Ignored);
  area->setWidget(page);
}

namespace {

class UprightWheel : public QObject {
 public:
  using QObject::QObject;
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() != QEvent::Wheel) return false;
    const QPoint turned = static_cast<QWheelEvent*>(event)->angleDelta();
    if (std::abs(turned.x()) > std::abs(turned.y())) return false;
    event->ignore();
    return true;
  }
};

}  // namespace

void leaveWheelToPage(QWidget* control) { control->installEventFilter(new UprightWheel(control)); }

namespace {
// A label is never narrower than its longest word: one of thousands of characters may be broken.
QString breakable(const QString& text) {
  constexpr int kMost = 24;
  QString out;
  int run = 0;
  for (const QChar c : text) {
    run = c.isSpace() ? 0 : run + 1;
    if (run > kMost && !c.isLowSurrogate()) {
      out += QChar(0x200b);
      run = 1;
    }
    out += c;
  }
  return out;
}
}  // namespace

QString codeText(const QString& text) {
  // Rich text takes the narrow space of grouped() for one to break a line at.
  const QStringList parts = breakable(text)
                                .toHtmlEscaped()
                                .replace(QLatin1Char('\n'), QStringLiteral("<br>"))
                                .replace(QChar(0x202f), QChar(0xa0))
                                .split(QLatin1Char('`'));
  QString out = parts.front();
  // A backtick without its other one stays.
  for (qsizetype i = 1; i < parts.size(); ++i)
    out += i % 2 == 0 ? parts[i] : i + 1 < parts.size() ? QStringLiteral("<b>%1</b>").arg(parts[i]) : QLatin1Char('`') + parts[i];
  return out;
}

QString plainCodeText(const QString& text) {
  static const QRegularExpression sign(QStringLiteral("`([^`\\w]+)`"), QRegularExpression::UseUnicodePropertiesOption);
  return QString(text).replace(sign, QStringLiteral("\u201c\\1\u201d")).remove(QLatin1Char('`'));
}

QString microsecondsText(double us, double highUs) { return timeUnit(std::max(us, highUs)).text(us); }

QString intervalText(double lowUs, double highUs, double us) {
  const Unit unit = timeUnit(std::max(us, highUs));
  return unit.interval(lowUs, highUs) + QLatin1Char(' ') + unit.name;
}

QString measuredText(double us, std::optional<double> lowUs, std::optional<double> highUs) {
  if (!lowUs || !highUs) return microsecondsText(us);
  const Unit unit = timeUnit(std::max(us, *highUs));
  return unit.text(us) + QLatin1Char(' ') + unit.interval(*lowUs, *highUs);
}

void setGreyed(QWidget* widget, bool greyed) {
  if (isGreyed(widget) == greyed) return;
  if (!greyed) return widget->setGraphicsEffect(nullptr);
  auto* faint = new QGraphicsOpacityEffect(widget);
  faint->setOpacity(0.5);
  widget->setGraphicsEffect(faint);
}

bool isGreyed(const QWidget* widget) { return widget->graphicsEffect() != nullptr; }

namespace {
struct SavePlace {
  QString notebook, folder = QDir::homePath();
};
SavePlace& savePlace() {
  static SavePlace place;
  return place;
}
}  // namespace

void setSavePlace(const QString& notebook) {
  SavePlace& place = savePlace();
  if (place.notebook == notebook) return;
  place = {notebook, notebook.isEmpty() ? QDir::homePath() : QFileInfo(notebook).absolutePath()};
}

QString askSavePath(QWidget* parent, const QString& title, const QString& name, const QString& filter) {
  SavePlace& place = savePlace();
  const QString stem = place.notebook.isEmpty() ? QString() : QFileInfo(place.notebook).completeBaseName() + QLatin1Char('-');
  const QString path = QFileDialog::getSaveFileName(parent, title, QDir(place.folder).filePath(stem + name), filter);
  if (!path.isEmpty()) place.folder = QFileInfo(path).absolutePath();
  return path;
}

}  // namespace nf
