// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/theme.h"

#include <QApplication>
#include <QFile>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QPainter>
#include <QPalette>
#include <QStyle>
#include <QStyleFactory>
#include <QSvgRenderer>
#include <utility>

// The icons live in a static library: nothing else makes the linker keep them. Outside of any namespace, as Qt wants it.
static void initIcons() { Q_INIT_RESOURCE(icons); }

namespace nf {
namespace {

QString firstFamily(const QStringList& wishes, QFontDatabase::SystemFont fallback) {
  const QStringList known = QFontDatabase::families();
  for (const QString& wish : wishes)
    if (known.contains(wish)) return wish;
  return QFontDatabase::systemFont(fallback).family();
}

QString sheet(const Palette& p) {
  QString css = QStringLiteral(R"(
QMainWindow, QMenuBar, QStatusBar, QToolBar { background: @chrome; color: @text; border: 0; }
QMenuBar { padding-left: 10px; }
QMenuBar::item { padding: 3px 11px; margin: 2px 0; background: transparent; border-radius: 4px; }
QMenuBar::item:selected { background: @accentSoft; }
QMenu { background: @raised; color: @text; border: 1px solid @separator; padding: 4px; }
QMenu::item { padding: 5px 28px 5px 12px; border-radius: 4px; }
QMenu::item:selected { background: @accentSoft; }
QMenu::item:disabled { color: @hint; }
QMenu::separator { height: 1px; background: @separator; margin: 4px 8px; }
QToolTip { background: @raised; color: @text; border: 1px solid @separator; padding: 4px 6px; }
QToolButton { color: @text; border: 1px solid transparent; border-radius: 4px; padding: 4px 6px; background: transparent; }
QToolButton[role="field"] { background: @raised; border-color: @separator; padding: 0 10px; }
QToolButton:hover { background: @hover; }
QToolButton:pressed, QToolButton:checked { background: @accentSoft; }
QToolButton:disabled { color: @hint; }
QToolButton:focus { border-color: @accent; }
QToolButton::menu-indicator { image: none; }
QPushButton { color: @text; background: @raised; border: 1px solid @separator; border-radius: 4px; padding: 0 12px; min-height: 26px; }
QPushButton:hover { background: @hover; }
QPushButton:focus { border-color: @accent; }
QPushButton:disabled { color: @hint; }
QPushButton[primary="true"] { color: @onAccent; background: @accent; border-color: @accent; font-weight: 600; }
QPushButton[primary="true"]:disabled { color: @hint; background: @raised; border-color: @separator; }
QPushButton[tight="true"] { padding: 0 8px; }
QPushButton[mono="true"] { padding: 0 9px; min-height: 22px; }
QLineEdit, QComboBox, QSpinBox { color: @text; background: @raised; border: 1px solid @separator; border-radius: 4px; min-height: 24px;
  padding: 0 6px; selection-background-color: @accentSoft; selection-color: @text; }
QLineEdit:focus, QComboBox:focus { border-color: @accent; }
QComboBox::drop-down { border: 0; width: 20px; }
QComboBox[flat="true"] { background: transparent; border: 1px solid transparent; padding: 0 2px; min-height: 23px; }
QComboBox[flat="true"]:hover { background: @hover; }
QComboBox[flat="true"]:focus { border-color: @accent; }
QComboBox::down-arrow, QSpinBox::down-arrow { image: url(:/icons/arrow-down-@mode.svg); width: 10px; height: 10px; }
QSpinBox::up-arrow { image: url(:/icons/arrow-up-@mode.svg); width: 10px; height: 10px; }
QSpinBox::up-button, QSpinBox::down-button { border: 0; width: 14px; background: transparent; }
QComboBox QAbstractItemView { background: @raised; border: 1px solid @separator; selection-background-color: @accentSoft; selection-color: @text; }
QAbstractScrollArea { border: 0; background: @page; }
QListView#completions { background: @raised; border: 1px solid @separator; }
QAbstractScrollArea::corner { background: transparent; border: 0; }
QTreeView, QListView, QTableView { background: @page; color: @text; border: 0; outline: 0; selection-background-color: @accentSoft;
  selection-color: @text; alternate-background-color: @page; gridline-color: @grid; }
QHeaderView { background: @page; border: 0; }
QHeaderView::section { background: @page; color: @muted; border: 0; border-bottom: 1px solid @separator; padding: 4px 8px; font-weight: 600; }
QTableCornerButton::section { background: @page; border: 0; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: @scroll; border-radius: 3px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 28px; }
QScrollBar::handle:horizontal { min-width: 28px; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QMainWindow::separator { background: @page; width: 4px; height: 4px; }
QMainWindow::separator:horizontal { background: qlineargradient(x1:0, y1:0, x2:0, y2:1, stop:0 @page, stop:0.74 @page, stop:0.75 @separator, stop:1 @separator); }
QMainWindow::separator:vertical { background: qlineargradient(x1:0, y1:0, x2:1, y2:0, stop:0 @page, stop:0.74 @page, stop:0.75 @separator, stop:1 @separator); }
QDockWidget { color: @text; }
QTabBar { background: @page; border: 0; }
QTabBar::tab { color: @muted; background: @page; border: 0; border-right: 1px solid @separator; border-bottom: 2px solid @page; padding: 0 14px; height: 31px; }
QTabBar::tab:selected { color: @text; border-bottom-color: @accent; }
QTabBar::tab:hover { background: @hover; }
QTabBar QToolButton { background: @page; }
QSplitter::handle { background: @separator; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QStatusBar { min-height: 26px; max-height: 26px; border-top: 1px solid @separator; font-size: 12px; }
QStatusBar::item { border: 0; }
QStatusBar QLabel { color: @muted; font-size: 12px; }
QPlainTextEdit, QTextEdit { color: @text; border: 0; selection-background-color: @select; selection-color: @text; }
QCheckBox, QRadioButton, QLabel { color: @text; background: transparent; }
QLabel[role="muted"] { color: @muted; }
QLabel[role="hint"] { color: @hint; }
QLabel[role="failed"] { color: @failed; }
QLabel[role="title"] { font-weight: 600; }
QLabel[role="accent"] { color: @accent; }
QDialog { background: @page; }
QWidget[role="page"] { background: @page; }
QWidget[role="chrome"] { background: @chrome; }
QFrame[role="note"] { background: @raised; border: 1px solid @accent; border-radius: 6px; }
QFrame[role="line"] { background: @separator; border: 0; min-height: 1px; max-height: 1px; }
QSlider::groove:horizontal { height: 4px; background: @separator; border-radius: 2px; }
QSlider::sub-page:horizontal { background: @accent; border-radius: 2px; }
QSlider::handle:horizontal { width: 12px; height: 12px; margin: -5px 0; border-radius: 7px; border: 2px solid @accent; background: @page; }
QProgressBar { background: @separator; border: 0; border-radius: 2px; min-height: 5px; max-height: 5px; }
QProgressBar::chunk { background: @accent; border-radius: 2px; }
)");
  const std::pair<const char*, QColor> roles[] = {{"@chrome", p.chrome},
                                                  {"@page", p.page},
                                                  {"@code", p.code},
                                                  {"@raised", p.raised},
                                                  {"@separator", p.separator},
                                                  {"@grid", p.grid},
                                                  {"@text", p.text},
                                                  {"@muted", p.muted},
                                                  {"@failed", p.failed},
                                                  {"@hint", p.hint},
                                                  {"@accentSoft", p.accentSoft},
                                                  {"@accent", p.accent},
                                                  {"@onAccent", p.onAccent},
                                                  {"@hover", mixed(p.raised, p.text, 0.06)},
                                                  {"@scroll", mixed(p.page, p.text, 0.22)},
                                                  {"@select", mixed(p.page, p.accent, 0.30)}};
  css.replace(QStringLiteral("@mode"), p.dark ? QStringLiteral("dark") : QStringLiteral("light"));
  for (const auto& [role, color] : roles) css.replace(QLatin1String(role), color.name());
  return css;
}

}  // namespace

Palette Palette::light() {
  const auto c = [](const char* hex) { return QColor(QLatin1String(hex)); };
  Palette p;
  p.chrome = c("#F1F3F5"), p.page = c("#FFFFFF"), p.code = c("#F5F7F9"), p.raised = c("#FFFFFF");
  p.separator = c("#D9DEE3"), p.grid = c("#E9ECEF");
  p.text = c("#1A2027"), p.muted = c("#56626E"), p.hint = c("#7A8591");
  p.accent = c("#0067A6"), p.accentSoft = c("#DCECF7"), p.onAccent = c("#FFFFFF");
  p.forward = c("#0072B2"), p.backward = c("#CC7A00"), p.optimizer = c("#007E5B");
  p.proved = c("#00795A"), p.stale = c("#8A6500"), p.failed = c("#BF3B00"), p.reverted = c("#9C4A7E");
  p.keyword = c("#0067A6"), p.index = c("#93417A"), p.number = c("#00714F"), p.call = c("#8A5A00"), p.comment = c("#74808B");
  return p;
}

Palette Palette::darkOne() {
  const auto c = [](const char* hex) { return QColor(QLatin1String(hex)); };
  Palette p;
  p.dark = true;
  p.chrome = c("#17191D"), p.page = c("#1C1F24"), p.code = c("#191C20"), p.raised = c("#292E35");
  p.separator = c("#343A42"), p.grid = c("#2A2F36");
  p.text = c("#E4E8EC"), p.muted = c("#A3AEB9"), p.hint = c("#7C8793");
  p.accent = c("#56B4E9"), p.accentSoft = c("#1F3A4C"), p.onAccent = c("#10202B");
  p.forward = c("#56B4E9"), p.backward = c("#E69F00"), p.optimizer = c("#2DB88B");
  p.proved = c("#2DB88B"), p.stale = c("#D9C34A"), p.failed = c("#FF7A52"), p.reverted = c("#D98CBE");
  p.keyword = c("#6CBDEB"), p.index = c("#DD9BC6"), p.number = c("#5CC9A4"), p.call = c("#E3B04B"), p.comment = c("#7F8B97");
  return p;
}

QColor Palette::found(bool current) const { return mixed(page, backward, current ? 0.55 : 0.22); }

QColor mixed(const QColor& base, const QColor& over, double amount) {
  const auto mix = [&](int a, int b) { return static_cast<int>(a + (b - a) * amount + 0.5); };
  return {mix(base.red(), over.red()), mix(base.green(), over.green()), mix(base.blue(), over.blue())};
}

Theme::Theme(QObject* parent) : QObject(parent) {
  initIcons();
  m_uiFamily = firstFamily({QStringLiteral("Inter"), QStringLiteral("Inter Variable")}, QFontDatabase::GeneralFont);
  m_monoFamily = firstFamily({QStringLiteral("JetBrains Mono"), QStringLiteral("DejaVu Sans Mono")}, QFontDatabase::FixedFont);
  m_mathFamily = firstFamily({QStringLiteral("STIXGeneral"), QStringLiteral("STIX"), QStringLiteral("DejaVu Serif")},
                             QFontDatabase::GeneralFont);
  m_palette = Palette::light();
}

Theme::Theme(const Theme& base, QObject* parent)
    : QObject(parent), m_mode(base.m_mode), m_palette(base.m_palette), m_uiFamily(base.m_uiFamily), m_monoFamily(base.m_monoFamily),
      m_mathFamily(base.m_mathFamily), m_base(&base), m_baseScale(base.textScale()) {
  connect(&base, &Theme::changed, this, [this] {
    if (m_asleep) m_missed = true;
    else follow();
  });
}

void Theme::follow() {
  m_mode = m_base->m_mode;
  m_palette = m_base->m_palette;
  m_baseScale = m_base->textScale();
  Q_EMIT changed();
}

void Theme::setAsleep(bool asleep) {
  m_asleep = asleep;
  if (!asleep && std::exchange(m_missed, false)) follow();
}

void Theme::setTextScale(double scale) {
  if (m_textScale == scale) return;
  m_textScale = scale;
  Q_EMIT changed();
}

void Theme::setMode(Mode mode) {
  m_mode = mode;
  bool dark = mode == Mode::Dark;
  if (mode == Mode::System) {
    const QPalette system = QApplication::style() ? QApplication::style()->standardPalette() : QPalette();
    dark = system.color(QPalette::Window).lightness() < 128;
  }
  m_palette = dark ? Palette::darkOne() : Palette::light();
  if (auto* application = qobject_cast<QApplication*>(QCoreApplication::instance())) apply(*application);
  Q_EMIT changed();
}

void Theme::apply(QApplication& application) const {
  // Anew each time: of a style that stays, the sheet before it keeps rules of widgets that are gone.
  application.setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  QPalette q;
  const Palette& p = m_palette;
  q.setColor(QPalette::Window, p.chrome);
  q.setColor(QPalette::WindowText, p.text);
  q.setColor(QPalette::Base, p.page);
  q.setColor(QPalette::AlternateBase, p.code);
  q.setColor(QPalette::Text, p.text);
  q.setColor(QPalette::Button, p.raised);
  q.setColor(QPalette::ButtonText, p.text);
  q.setColor(QPalette::Highlight, p.accentSoft);
  q.setColor(QPalette::HighlightedText, p.text);
  q.setColor(QPalette::ToolTipBase, p.raised);
  q.setColor(QPalette::ToolTipText, p.text);
  q.setColor(QPalette::PlaceholderText, p.hint);
  q.setColor(QPalette::Link, p.accent);
  for (const auto role : {QPalette::Text, QPalette::WindowText, QPalette::ButtonText}) q.setColor(QPalette::Disabled, role, p.hint);
  application.setPalette(q);
  if (application.font() != ui()) application.setFont(ui());  // which sets every widget anew
  application.setStyleSheet(sheet(p));
}

QFont Theme::ui(int px, int weight) const {
  QFont font(m_uiFamily);
  font.setPixelSize(scaled(px));
  font.setWeight(static_cast<QFont::Weight>(weight));
  return font;
}

QFont Theme::mono(int px, int weight) const {
  QFont font(m_monoFamily);
  font.setPixelSize(scaled(px));
  font.setWeight(static_cast<QFont::Weight>(weight));
  font.setStyleHint(QFont::Monospace);
  // JetBrains Mono joins `<=` into one sign by contextual alternates, which only shaping applies.
  font.setStyleStrategy(QFont::PreferNoShaping);
  return font;
}

QFont Theme::math(double px, bool italic) const {
  QFont font(m_mathFamily);
  font.setPixelSize(std::max(kSmallestText, static_cast<int>(px + 0.5)));
  font.setItalic(italic);
  return font;
}

QPixmap Theme::pixmap(const QString& icon, const QColor& color, double scale, int size) const {
  QFile file(QStringLiteral(":/icons/%1.svg").arg(icon));
  if (!file.open(QIODevice::ReadOnly)) return {};
  QByteArray svg = file.readAll();
  svg.replace("currentColor", color.name().toLatin1());
  QPixmap out(static_cast<int>(size * scale), static_cast<int>(size * scale));
  out.fill(Qt::transparent);
  QPainter painter(&out);
  QSvgRenderer(svg).render(&painter);
  painter.end();
  out.setDevicePixelRatio(scale);
  return out;
}

QIcon Theme::icon(const QString& name) const { return icon(name, m_palette.text); }

QIcon Theme::icon(const QString& name, const QColor& color) const {
  QIcon out;
  for (const double scale : {1.0, 2.0}) {
    out.addPixmap(pixmap(name, color, scale));
    out.addPixmap(pixmap(name, mixed(m_palette.page, m_palette.hint, 0.7), scale), QIcon::Disabled);
  }
  return out;
}

}  // namespace nf
