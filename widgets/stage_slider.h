// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>

#include "core/protocol/message.h"
#include "widgets/theme.h"

namespace nf {

// The stages of the compiler as stops on a line.
class StageSlider : public QWidget {
  Q_OBJECT
 public:
  explicit StageSlider(const Theme* theme, QWidget* parent = nullptr);
  void clear();  // nothing is known of any stage
  void setStages(const std::vector<protocol::StageSummary>& stages);
  void setCurrent(const QString& stage);
  QString current() const { return m_current; }
  // Of every stage, in pixels: its name with what it did, which never meets that of another.
  std::vector<QRectF> labels() const;

 Q_SIGNALS:
  void chosen(const QString& stage);

 protected:
  void resizeEvent(QResizeEvent*) override;
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  int count() const;
  double xOf(int i) const;
  struct Words {
    QString word, whole;  // its name, what it did
    bool fits = true;     // on one line
    int lines = 1;
    QRectF wordAt, noteAt;
  };
  std::vector<Words> words() const;
  void fit();
  const Theme* m_theme;
  std::vector<protocol::StageSummary> m_stages;
  QString m_current;
  bool m_below = false;  // what a stage did stands below its name: side by side they would be cut
};

}  // namespace nf
