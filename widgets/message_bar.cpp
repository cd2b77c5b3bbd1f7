// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/message_bar.h"

#include <QAction>
#include <QApplication>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QMainWindow>
#include <QPainter>
#include <QPushButton>
#include <QSet>
#include <algorithm>
#include <utility>

#include "widgets/basic.h"
#include "widgets/wrapped_label.h"

namespace nf {

class MessageBar::Row : public QWidget {
 public:
  Row(const Theme* theme, MessageBar* bar, const QString& key)
      : m_key(key), m_theme(theme), m_bar(bar), m_text(new WrappedLabel), m_row(new QHBoxLayout(this)),
        m_close(new IconButton(theme, QStringLiteral("close"))) {
    m_row->setContentsMargins(16, 4, 8, 4);
    m_row->setSpacing(8);
    m_row->addWidget(m_text, 1);
    m_close->setAccessibleName(MessageBar::tr("Dismiss"));
    m_row->addWidget(m_close);
    connect(m_close, &QToolButton::clicked, this, [this] { answer(-1); });
  }
  void set(const QString& text, const QStringList& answers) {
    m_text->setWords(text);
    m_answers = answers;
    const QList<QPushButton*> before = std::exchange(m_buttons, {});
    for (int i = 0; i < answers.size(); ++i) {
      auto* button = new QPushButton(answers[i]);
      if (i == 0) button->setProperty("primary", true);
      // Reached by Tab; a click leaves the keys where they are.
      button->setFocusPolicy(Qt::TabFocus);
      connect(button, &QPushButton::clicked, this, [this, i] { answer(i); });
      m_row->insertWidget(1 + i, button);
      button->setAccessibleName(answers[i]);
      m_buttons << button;
    }
    // The new ones take the keys before the old ones lose them to whatever is next.
    const bool focused = std::any_of(before.begin(), before.end(), [](const QPushButton* b) { return b->hasFocus(); });
    if (focused) focusFirst();
    for (QPushButton* b : before) m_row->removeWidget(b), b->hide(), b->deleteLater();
  }
  void focusFirst() {
    QAbstractButton* first = m_close;
    if (!m_buttons.isEmpty()) first = m_buttons.front();
    first->show();
    first->setFocus(Qt::ShortcutFocusReason);
  }
  // `taken`: letters that others have; those given here join them.
  void giveLetters(QSet<QChar>& taken) {
    for (int i = 0; i < m_buttons.size(); ++i) {
      QString text = m_answers[i];
      const auto free =
          std::find_if(text.cbegin(), text.cend(), [&](QChar c) { return c.isLetter() && !taken.contains(c.toUpper()); });
      if (free != text.cend()) {
        taken.insert(free->toUpper());
        text.insert(free - text.cbegin(), QLatin1Char('&'));
      }
      m_buttons[i]->setText(text);
    }
  }
  // Its place stays, empty, while the pointer is in it: what stands below is not moved under a hand that may press again.
  void empty() {
    setFixedHeight(height());
    m_spent = true;
    for (QWidget* child : findChildren<QWidget*>(Qt::FindDirectChildrenOnly)) child->hide();
    update();
  }
  bool underPointer() const { return isVisible() && rect().contains(mapFromGlobal(QCursor::pos())); }
  const QString& key() const { return m_key; }
  QString text() const { return m_text->words(); }
  const QList<QPushButton*>& buttons() const { return m_buttons; }
  const QStringList& answers() const { return m_answers; }

 protected:
  void keyPressEvent(QKeyEvent* event) override {
    switch (event->key()) {
      case Qt::Key_Return:
      case Qt::Key_Enter:
        if (auto* focused = qobject_cast<QAbstractButton*>(QApplication::focusWidget()); focused && isAncestorOf(focused))
          return focused->click();
        break;
      case Qt::Key_Escape: return answer(-1);
    }
    QWidget::keyPressEvent(event);
  }
  void leaveEvent(QEvent* event) override {
    QWidget::leaveEvent(event);
    if (m_spent) m_bar->closeGap();
  }
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const Palette& c = m_theme->colors();
    if (m_spent) return p.fillRect(rect(), c.page);
    p.fillRect(rect(), mixed(c.page, c.stale, 0.12));
    p.fillRect(0, 0, 3, height(), c.stale);
    p.fillRect(0, height() - 1, width(), 1, c.separator);
  }

 private:
  void answer(int index) {
    const QPointer<MessageBar> bar = m_bar;
    const QString key = m_key;
    bar->m_answered = key;
    bar->m_answeredAt = static_cast<int>(bar->m_rows.indexOf(this));
    bar->remove(key);
    Q_EMIT bar->answered(key, index);
    if (bar) bar->m_answered.clear();
  }
  QString m_key;
  const Theme* m_theme;
  MessageBar* m_bar;
  WrappedLabel* m_text;
  QHBoxLayout* m_row;
  IconButton* m_close;
  QStringList m_answers;
  bool m_spent = false;
  QList<QPushButton*> m_buttons;  // in the order of the answers
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

// Its buttons hand the keyboard on while they go.
MessageBar::~MessageBar() { disconnect(qApp, nullptr, this, nullptr); }

void MessageBar::ask(const QString& key, const QString& text, const QStringList& answers) {
  const auto at = std::find_if(m_rows.begin(), m_rows.end(), [&](const Row* r) { return r->key() == key; }) - m_rows.begin();
  if (at < std::min<qsizetype>(m_rows.size(), kMostShown)) {
    m_rows[at]->set(text, answers);
    return arrange();
  }
  // One that nobody could read comes forward.
  Row* asked = at < m_rows.size() ? m_rows.takeAt(at) : new Row(m_theme, this, key);
  asked->set(text, answers);
  const int place = m_answered == key && at >= m_rows.size() ? m_answeredAt : 0;
  m_rows.insert(place, asked);
  shiftPlaces(place, 1);
  closeGap();
}

void MessageBar::askNow(const QString& key, const QString& text, const QStringList& answers) {
  if (QWidget* focused = window()->focusWidget(); focused && !isAncestorOf(focused)) m_before = focused;
  ask(key, text, answers);
  for (Row* row : m_rows)
    if (row->key() == key) return row->focusFirst();
}

// Of what stands behind the place where another one came or went.
void MessageBar::shiftPlaces(int from, int by) {
  for (int* at : {&m_gapAt, &m_answeredAt})
    if (*at >= from) *at += by;
}

bool MessageBar::focusNext() {
  if (m_rows.isEmpty()) return false;
  const QWidget* focused = QApplication::focusWidget();
  const auto at = std::find_if(m_rows.begin(), m_rows.end(), [&](const Row* r) { return focused && r->isAncestorOf(focused); });
  const auto next = at == m_rows.end() ? 0 : at - m_rows.begin() + 1;
  if (next < std::min<qsizetype>(m_rows.size(), kMostShown)) m_rows[next]->focusFirst();
  else leave();
  return true;
}

void MessageBar::leave() {
  if (m_before && m_before->isVisible()) m_before->setFocus();
  else Q_EMIT focusLeft();
}

void MessageBar::dismiss(const QString& key) { remove(key); }

void MessageBar::remove(const QString& key) {
  const auto found = std::find_if(m_rows.begin(), m_rows.end(), [&](const Row* r) { return r->key() == key; });
  if (found == m_rows.end()) return;
  Row* row = *found;
  const auto at = static_cast<int>(found - m_rows.begin());
  m_rows.erase(found);
  shiftPlaces(at + 1, -1);
  const bool focused = QApplication::focusWidget() && row->isAncestorOf(QApplication::focusWidget());
  if (focused) leave();
  if (!m_gap && !m_rows.isEmpty() && row->underPointer()) {
    row->empty();
    m_gap = row;
    m_gapAt = at;
    return arrange();
  }
  row->hide();
  row->deleteLater();
  arrange();
}

void MessageBar::closeGap() {
  // Hidden under the pointer it hears that the pointer has left, which closes the gap.
  if (Row* gap = std::exchange(m_gap, nullptr)) gap->hide(), gap->deleteLater();
  arrange();
}

void MessageBar::arrange() {
  for (int i = 0; i < m_rows.size(); ++i) {
    m_layout->removeWidget(m_rows[i]);
    m_layout->insertWidget(i, m_rows[i]);
    m_rows[i]->setVisible(i < kMostShown);
  }
  if (m_gap) {
    m_layout->removeWidget(m_gap);
    m_layout->insertWidget(m_gapAt, m_gap);
  }
  giveLetters();
  const auto more = m_rows.size() - kMostShown;
  m_more->setText(more > 0 ? tr("%1 behind these").arg(counted(more, tr("message waits"), tr("messages wait"))) : QString());
  m_more->setVisible(more > 0);
  if (m_rows.isEmpty() && m_gap) return closeGap();
  setVisible(!m_rows.isEmpty());
}

void MessageBar::giveLetters() {
  QSet<QChar> taken;
  if (const auto* frame = qobject_cast<const QMainWindow*>(window()))
    if (const QWidget* menus = frame->menuWidget())
      for (const QAction* menu : menus->actions())
        if (const auto at = menu->text().indexOf(QLatin1Char('&')); at >= 0 && at + 1 < menu->text().size())
          taken.insert(menu->text()[at + 1].toUpper());
  for (Row* row : m_rows.mid(0, kMostShown)) row->giveLetters(taken);
}

QString MessageBar::key() const { return m_rows.isEmpty() ? QString() : m_rows.front()->key(); }
QString MessageBar::text() const { return m_rows.isEmpty() ? QString() : m_rows.front()->text(); }
QList<QPushButton*> MessageBar::buttons() const { return m_rows.isEmpty() ? QList<QPushButton*>() : m_rows.front()->buttons(); }

QStringList MessageBar::answers() const { return m_rows.isEmpty() ? QStringList() : m_rows.front()->answers(); }

QStringList MessageBar::shown() const {
  QStringList keys;
  for (const Row* row : m_rows.mid(0, kMostShown)) keys << row->key();
  return keys;
}

}  // namespace nf
