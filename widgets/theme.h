// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QColor>
#include <QFont>
#include <QIcon>
#include <QObject>
#include <QPixmap>
#include <QString>

class QApplication;

namespace nf {

// Every colour of the workbench by its role; hues of Okabe and Ito, shifted for contrast.
struct Palette {
  bool dark = false;
  QColor chrome, page, code, raised, separator, grid;
  QColor text, muted, hint;
  QColor accent, accentSoft, onAccent;
  QColor forward, backward, optimizer;
  QColor proved, stale, failed, reverted;
  QColor keyword, index, number, call, comment;
  QColor found(bool current) const;  // behind what a search found
  static Palette light();
  static Palette darkOne();
};

// One of its colours, whichever palette is in use.
using Shade = QColor Palette::*;

// `amount` of `over` mixed into `base`, 0..1.
QColor mixed(const QColor& base, const QColor& over, double amount);

// Nothing is set smaller than this at 100 %.
inline constexpr int kSmallestText = 11;

// The look: palette, type, icons. Widgets hold a pointer and repaint on `changed`.
class Theme : public QObject {
  Q_OBJECT
 public:
  enum class Mode { System, Light, Dark };
  explicit Theme(QObject* parent = nullptr);
  // The look of `base`, which it follows, with letters of their own size.
  explicit Theme(const Theme& base, QObject* parent = nullptr);
  // Asleep it stays as it is, whatever its base does: nobody sees what is drawn with it. Awake it is as its base again.
  void setAsleep(bool asleep);
  // Of ui() and mono(); who sets formulas takes it times their size.
  void setTextScale(double scale);
  double textScale() const { return m_textScale * m_baseScale; }
  int scaled(int px) const { return qRound(px * textScale()); }  // of what grows with its words

  void setMode(Mode mode);
  Mode mode() const { return m_mode; }
  const Palette& colors() const { return m_palette; }
  // Style, palette, style sheet and font of the application.
  void apply(QApplication& application) const;

  QFont ui(int px = 13, int weight = QFont::Normal) const;
  QFont mono(int px = 13, int weight = QFont::Normal) const;
  QFont math(double px, bool italic) const;

  QPixmap pixmap(const QString& icon, const QColor& color, double scale = 1, int size = 16) const;
  // In the text colour, muted when disabled.
  QIcon icon(const QString& name) const;
  QIcon icon(const QString& name, const QColor& color) const;

 Q_SIGNALS:
  void changed();

 private:
  void follow();
  Mode m_mode = Mode::System;
  Palette m_palette;
  QString m_uiFamily, m_monoFamily, m_mathFamily;
  const Theme* m_base = nullptr;
  double m_textScale = 1, m_baseScale = 1;
  bool m_asleep = false, m_missed = false;
};

}  // namespace nf
