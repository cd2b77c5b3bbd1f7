// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/command_note.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>

#include "widgets/basic.h"
#include "widgets/theme.h"

namespace nf {

CommandNote::CommandNote(const Theme* theme, QWidget* over)
    : QFrame(over), m_theme(theme), m_words(label({})), m_undo(new QToolButton) {
  setProperty("role", QStringLiteral("note"));
  m_words->setTextFormat(Qt::PlainText);
  m_words->setWordWrap(true);
  m_undo->setText(tr("Undo"));
  m_undo->setToolTip(tr("Undo (Z)"));
  m_undo->setFocusPolicy(Qt::NoFocus);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(14, 5, 8, 5);
  row->setSpacing(10);
  row->addWidget(m_words, 1);
  row->addWidget(m_undo);
  over->installEventFilter(this);
  connect(m_undo, &QToolButton::clicked, this, &CommandNote::undoRequested);
  connect(theme, &Theme::changed, this, &CommandNote::dress);
  dress();
  hide();
}

void CommandNote::dress() {
  m_words->setFont(m_theme->ui(12));
  m_undo->setFont(m_theme->ui(12));
}

void CommandNote::say(const QString& words, bool undoes) {
  m_words->setText(words);
  m_undo->setVisible(undoes);
  setVisible(!words.isEmpty());
  place();
}

QString CommandNote::words() const { return isHidden() ? QString() : m_words->text(); }

void CommandNote::place() {
  constexpr int kAside = 16, kBelow = 20;
  if (isHidden()) return;
  const QWidget* over = parentWidget();
  const int most = over->width() - 2 * kAside;
  const QMargins margins = layout()->contentsMargins();
  const int words = m_words->fontMetrics().horizontalAdvance(m_words->text()) + 4;
  const int beside = m_undo->isHidden() ? 0 : m_undo->sizeHint().width() + layout()->spacing();
  const int width = std::min(most, words + beside + margins.left() + margins.right() + 2 * frameWidth() + 2);
  const int height = layout()->hasHeightForWidth() ? layout()->totalHeightForWidth(width) : sizeHint().height();
  setGeometry((over->width() - width) / 2, over->height() - kBelow - height, width, height);
  raise();
}

bool CommandNote::eventFilter(QObject* watched, QEvent* event) {
  if (watched == parentWidget() && event->type() == QEvent::Resize) place();
  return QFrame::eventFilter(watched, event);
}

}  // namespace nf
