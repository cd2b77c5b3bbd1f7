// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/message_bar.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QPainter>
#include <QPushButton>
#include <algorithm>

#include "widgets/basic.h"

namespace nf {

class MessageBar::Row : public QWidget {
 public:
  Row(const Theme* theme, MessageBar* bar, const QString& key)
      : m_key(key), m_theme(theme), m_bar(bar), m_text(label({})), m_row(new QHBoxLayout(this)) {
    m_row->setContentsMargins(16, 4, 8, 4);
    m_row->setSpacing(8);
    m_text->setWordWrap(true);
    m_row->addWidget(m_text, 1);
    auto* close = new IconButton(theme, QStringLiteral("close"));
    close->setAccessibleName(tr("Dismiss"));
    m_row->addWidget(close);
    connect(close, &QToolButton::clicked, this, [this] { answer(-1); });
  }
  void set(const QString& text, const QStringList& answers) {
    m_text->setText(text);
    for (QPushButton* b : m_buttons) m_row->removeWidget(b), b->hide(), b->deleteLater();
    m_buttons.clear();
    for (int i = 0; i < answers.size(); ++i) {
      auto* button = new QPushButton(answers[i]);
      if (i == 0) button->setProperty("primary", true);
      // Reached by Tab; a click leaves the keys where they are.
      button->setFocusPolicy(Qt::TabFocus);
      connect(button, &QPushButton::clicked, this, [this, i] { answer(i); });
      m_row->insertWidget(1 + i, button);
      m_buttons << button;
    }
  }
  const QString& key() const { return m_key; }
  QString text() const { return m_text->text(); }
  const QList<QPushButton*>& buttons() const { return m_buttons; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const Palette& c = m_theme->colors();
    p.fillRect(rect(), mixed(c.page, c.stale, 0.12));
    p.fillRect(0, 0, 3, height(), c.stale);
    p.fillRect(0, height() - 1, width(), 1, c.separator);
  }

 private:
  void answer(int index) {
    MessageBar* bar = m_bar;
    const QString key = m_key;
    bar->remove(key);
    Q_EMIT bar->answered(key, index);
  }
  QString m_key;
  const Theme* m_theme;
  MessageBar* m_bar;
  QLabel* m_text;
  QHBoxLayout* m_row;
  QList<QPushButton*> m_buttons;
};

MessageBar::MessageBar(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_layout(new QVBoxLayout(this)), m_more(label({}, "muted")) {
  m_layout->setContentsMargins(0, 0, 0, 0);
  m_layout->setSpacing(0);
  m_more->setContentsMargins(16, 2, 8, 2);
  m_layout->addWidget(m_more);
  connect(qApp, &QApplication::focusChanged, this, [this](QWidget* before, QWidget* now) {
    if (now && isAncestorOf(now) && before && !isAncestorOf(before) && before->window() == window()) m_before = before;
  });
  hide();
}

void MessageBar::ask(const QString& key, const QString& text, const QStringList& answers) {
  auto row = std::find_if(m_rows.begin(), m_rows.end(), [&](const Row* r) { return r->key() == key; });
  Row* asked = row == m_rows.end() ? new Row(m_theme, this, key) : *row;
  if (row != m_rows.end()) m_rows.erase(row);
  asked->set(text, answers);
  m_rows.prepend(asked);
  arrange();
}

void MessageBar::dismiss(const QString& key) { remove(key); }

void MessageBar::remove(const QString& key) {
  const auto found = std::find_if(m_rows.begin(), m_rows.end(), [&](const Row* r) { return r->key() == key; });
  if (found == m_rows.end()) return;
  Row* row = *found;
  m_rows.erase(found);
  const bool focused = QApplication::focusWidget() && row->isAncestorOf(QApplication::focusWidget());
  if (focused && m_before && m_before->isVisible()) m_before->setFocus();
  else if (focused) Q_EMIT focusLeft();
  row->hide();
  row->deleteLater();
  arrange();
}

void MessageBar::arrange() {
  for (int i = 0; i < m_rows.size(); ++i) {
    m_layout->removeWidget(m_rows[i]);
    m_layout->insertWidget(i, m_rows[i]);
    m_rows[i]->setVisible(i < kMostShown);
  }
  const auto more = m_rows.size() - kMostShown;
  m_more->setText(more > 0 ? tr("%1 behind these").arg(counted(more, tr("message waits"), tr("messages wait"))) : QString());
  m_more->setVisible(more > 0);
  setVisible(!m_rows.isEmpty());
}

QString MessageBar::key() const { return m_rows.isEmpty() ? QString() : m_rows.front()->key(); }
QString MessageBar::text() const { return m_rows.isEmpty() ? QString() : m_rows.front()->text(); }
QList<QPushButton*> MessageBar::buttons() const { return m_rows.isEmpty() ? QList<QPushButton*>() : m_rows.front()->buttons(); }

QStringList MessageBar::shown() const {
  QStringList keys;
  for (const Row* row : m_rows.mid(0, kMostShown)) keys << row->key();
  return keys;
}

}  // namespace nf
