// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include "widgets/field_bar.h"
#include "widgets/theme.h"

class QLabel;
class QLineEdit;

namespace nf {

// Another name for one of the notebook: Enter gives it, Escape leaves the old one, and why it cannot be given stands below it.
class RenameBar : public FieldBar {
  Q_OBJECT
 public:
  explicit RenameBar(const Theme* theme, QWidget* parent = nullptr);
  void open(const QString& name);
  void refuse(const QString& why);
  QString name() const { return m_name; }
  QLineEdit* field() const { return m_field; }
  QString refusal() const;

 Q_SIGNALS:
  void renameWanted(const QString& name, const QString& to);

 protected:
  void entered(const QObject* field, Qt::KeyboardModifiers modifiers) override;

 private:
  QLabel *m_words, *m_refusal;
  QLineEdit* m_field;
  QString m_name;
};

}  // namespace nf
