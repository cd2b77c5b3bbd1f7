// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QLabel>

namespace nf {

// Plain words in as many lines as they take. A word that is wider than the label, such as a long name, is elided in its middle and
// stands whole in the tooltip: it never widens what is around.
class WrappedLabel : public QLabel {
 public:
  explicit WrappedLabel(const QString& words = {}, const char* role = nullptr, QWidget* parent = nullptr);
  void setWords(const QString& words);
  QString words() const { return m_words; }

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void fit();
  QString m_words;
};

}  // namespace nf
