// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractButton>
#include <QFrame>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>
#include <QWidget>
#include <cstdint>
#include <optional>

#include "core/protocol/values.h"
#include "widgets/theme.h"

class QBoxLayout;
class QHBoxLayout;
class QScrollArea;
class QScrollBar;
class QTableView;

// The small parts that every panel is made of.
namespace nf {

class WrapLayout;

// Numbers as people read them: "1 000 000", "1.53 MiB", "231 MFLOP", "8.9 µs".
QString grouped(std::int64_t value);
QString counted(std::int64_t n, const QString& one, const QString& many);  // "1 node", "7 nodes"
QString bytesText(double bytes);
QString flopsText(double flops, const QString& unit = QStringLiteral("FLOP"));
QString microsecondsText(double us);
QString microsecondsText(std::optional<double> us);  // a dash where there is none
// "12 s", "6 min", "3 h", "2 days": how long ago something was, rounded down.
QString agoText(double seconds);
QString secondsText(double seconds);
QString shapeText(const std::vector<std::int64_t>& shape);  // "32·8·3·3", "scalar"
// Of what is added up in µs, with its sign: two decimals, of less than one as many as its digits need.
QString plusMinus(double us);
QString significant(double value, int digits = 3);  // minus as U+2212 is left to the caller: columns align on '-'

// The constants of a device by the terms of Equation 4, and what they are of: "cpu, 1 of 2 threads".
QString constantsText(const protocol::DeviceConstants& constants);  // "P_d 5.49 GB/s  ·  P_c 118 GFLOP/s  ·  L 202 ns"
// "[5.41, 5.62]  n = 64", in the unit that the value is written in by flopsText, by microsecondsText; empty: no interval is known
QString rateNoise(double rate, const protocol::Interval& interval);
QString secondsNoise(double seconds, const protocol::Interval& interval);
// A line each, with its interval where one is known.
QStringList constantLines(const protocol::DeviceConstants& constants);
QString scopeText(const protocol::DeviceConstants& constants, std::int64_t ofThreads = 0);

QLabel* label(const QString& text, const char* role = nullptr, QWidget* parent = nullptr);

// A line that gives way: where there is no room for all of it, its end is "..." and the whole stands in the tooltip.
class ElidedLabel : public QLabel {
  Q_OBJECT
 public:
  explicit ElidedLabel(const char* role = nullptr, Qt::TextElideMode mode = Qt::ElideRight, QWidget* parent = nullptr);
  QString shown() const;     // what fits
  void setLeast(int width);  // px: it gives way down to this, and a shorter text not at all
  void setWholeWords();      // shows nothing where not even its first word has room
  void setLines(int most);   // that it takes before it is elided; 1 unless told
  QSize minimumSizeHint() const override;
  bool hasHeightForWidth() const override { return m_lines > 1; }
  int heightForWidth(int width) const override;

 protected:
  void paintEvent(QPaintEvent*) override;
  bool event(QEvent* event) override;

 private:
  int linesIn(int width, const QString& words) const;
  Qt::TextElideMode m_mode;
  int m_least = 0, m_lines = 1;
  bool m_wholeWords = false;
};
QFrame* line(QWidget* parent = nullptr);

// In a face of the theme, now and at every other size that its letters get: below a style sheet no widget has that of what it stands in.
void setUi(QWidget* widget, const Theme* theme, int px, int weight = QFont::Normal);
void setMono(QWidget* widget, const Theme* theme, int px, int weight = QFont::Normal);
// The same of a table and what heads its rows and columns, which is drawn in the font of the ground that it stands on.
void setTableMono(QTableView* table, const Theme* theme, int px);

// What is wrong, or doubtful, with what stands above it: a 3 px bar, the mark, the words, buttons that mend it.
class MessageStrip : public QWidget {
  Q_OBJECT
 public:
  MessageStrip(const Theme* theme, bool error, const QString& text = {}, QWidget* parent = nullptr);
  void setLeads(const QString& where);  // a click, or Enter where Tab led, goes there: the tool tip
  void setText(const QString& text);    // code between backquotes
  QString text() const { return m_text; }
  void addButton(QWidget* button);  // or a word before one: beside the words, below them where that would leave them too little

 Q_SIGNALS:
  void activated();

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  bool event(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void arrange();
  const Theme* m_theme;
  bool m_error;
  QString m_text;
  QLabel* m_words;
  QBoxLayout* m_row;
  WrapLayout* m_buttons;
};

// 34 px: title, a muted word beside it, buttons at the right.
class PanelHeader : public QWidget {
  Q_OBJECT
 public:
  PanelHeader(const Theme* theme, const QString& title, QWidget* parent = nullptr);
  void setTitle(const QString& title) { m_title->setText(title); }
  QString title() const { return m_title->text(); }
  void setDetail(const QString& detail) { m_detail->setText(detail); }
  QString detail() const { return m_detail->text(); }
  void add(QWidget* widget);

 private:
  QLabel* m_title;
  ElidedLabel* m_detail;
  QHBoxLayout* m_layout;
};

// A button of icon and word whose icon follows the theme.
class IconButton : public QToolButton {
  Q_OBJECT
 public:
  IconButton(const Theme* theme, const QString& icon, const QString& text = {}, QWidget* parent = nullptr);
  void setIconName(const QString& icon);
  // Its word goes where a row is too narrow for it; the tool tip and the accessible name stay.
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  void initStyleOption(QStyleOptionToolButton* option) const override;

 private:
  const Theme* m_theme;
  QString m_name;
  mutable bool m_measuring = false;
};

// One of a few: Author | Explain | Tune.
class SegmentedSwitch : public QWidget {
  Q_OBJECT
 public:
  SegmentedSwitch(const Theme* theme, const QStringList& words, int width, QWidget* parent = nullptr);
  int current() const { return m_current; }
  void setCurrent(int index);
  QSize sizeHint() const override { return {m_segment * static_cast<int>(m_words.size()), 30}; }

 Q_SIGNALS:
  void chosen(int index);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  const Theme* m_theme;
  QStringList m_words;
  int m_segment;
  int m_current = 0;
};

// Words that switch a result in place: Formula | Source | Derivation.
class TabRow : public QWidget {
  Q_OBJECT
 public:
  TabRow(const Theme* theme, const QStringList& words, QWidget* parent = nullptr);
  int current() const { return m_current; }
  void setCurrent(int index);
  void setWords(const QStringList& words);
  void setWraps();                                                    // in as many rows as there is room for its words
  void setUnderlined(bool underlined) { m_underlined = underlined; }  // the current one has a line below it
  QSize sizeHint() const override;                                    // of one row
  QSize minimumSizeHint() const override;
  int heightForWidth(int width) const override;

 Q_SIGNALS:
  void chosen(int index);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  std::vector<QRect> places(int width) const;  // of the words
  const Theme* m_theme;
  QStringList m_words;
  int m_current = 0;
  bool m_underlined = false;
};

// A collapsible part of a side panel, closed below by a line.
class Section : public QWidget {
  Q_OBJECT
 public:
  Section(const Theme* theme, const QString& title, QWidget* parent = nullptr);
  QVBoxLayout* body() { return m_body; }
  void setDetail(const QString& detail) { m_detail->setText(detail); }
  void clear();

 private:
  QLabel* m_detail;
  QToolButton* m_chevron;
  QWidget* m_content;
  QVBoxLayout* m_body;
};

// Icon and words in a tinted, outlined box.
class Badge : public QWidget {
  Q_OBJECT
 public:
  explicit Badge(const Theme* theme, QWidget* parent = nullptr);
  void show(const QString& icon, const QString& text, Shade color);
  QColor color() const { return m_color ? m_theme->colors().*m_color : QColor(); }
  QString icon() const { return m_icon; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;  // its words give way

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  const Theme* m_theme;
  QString m_icon, m_text;
  Shade m_color = nullptr;
};

// A page of lines that break, scrolled upright: as high as it is at the width that there is, not as at its narrowest.
void scrollAsWide(QScrollArea* area, QWidget* page);

// The wheel over a horizontal bar, a choice or a number scrolls the page and changes none of them.
void leaveWheelToPage(QWidget* control);

// "`x` is not defined" for a label of rich text: what stands between backticks in bold.
QString codeText(const QString& text);
// The same as words without a font for code: names bare, signs in quotes.
QString plainCodeText(const QString& text);
// Beside an interval up to `highUs`: in the unit of the larger of the two.
QString microsecondsText(double us, double highUs);
// Of half the values, around `us`, in the unit of the largest of the three: "[402, 522] µs", "[0.845, 77.6] ms".
QString intervalText(double lowUs, double highUs, double us);
// "41.8 µs [41.4, 42.3]", "0.934 ms [0.845, 77.6]": one unit for all, that of the largest.
QString measuredText(double us, std::optional<double> lowUs, std::optional<double> highUs);

// Where dialogs that save begin: beside this notebook ("" : it has no file), until one of them ends in another folder.
void setSavePlace(const QString& notebook);
// Asks for a file, under the notebook's name: "graph.svg" of net.nf is net-graph.svg. Empty: none was chosen.
QString askSavePath(QWidget* parent, const QString& title, const QString& name, const QString& filter = {});

// Drawn faint: what it shows is of an earlier text.
void setGreyed(QWidget* widget, bool greyed);
bool isGreyed(const QWidget* widget);

}  // namespace nf
