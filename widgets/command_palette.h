// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QFrame>
#include <QPointer>
#include <functional>
#include <vector>

#include "widgets/theme.h"

class QLabel;
class QLineEdit;
class QListWidget;

namespace nf {

// A list to type in: commands, or everything that has a name.
class CommandPalette : public QFrame {
  Q_OBJECT
 public:
  explicit CommandPalette(const Theme* theme, QWidget* parent);
  struct Entry {
    QString icon, text, detail;
    std::function<void()> run;
    QStringList names = {};  // by which it is found, too
  };
  void open(const QString& placeholder, std::vector<Entry> entries);
  QLineEdit* field() const { return m_field; }
  QListWidget* list() const { return m_list; }
  QString nothing() const;  // what stands in place of the list where nothing is found

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void paintEvent(QPaintEvent*) override;

 private:
  void filter();
  void choose();
  void leave();
  const Theme* m_theme;
  QLineEdit* m_field;
  QListWidget* m_list;
  QLabel* m_nothing;
  std::vector<Entry> m_entries;
  QPointer<QWidget> m_before;  // had the keyboard when it was opened
};

}  // namespace nf
