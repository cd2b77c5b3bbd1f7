// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/wrapped_label.h"

#include <QEvent>
#include <QFontMetrics>

namespace nf {

WrappedLabel::WrappedLabel(const QString& words, const char* role, QWidget* parent) : QLabel(parent) {
  setTextFormat(Qt::PlainText);
  if (role) setProperty("role", QString::fromLatin1(role));
  setWordWrap(true);
  QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);  // a policy that is set anew forgets that the text wraps
  setSizePolicy(policy);
  setWords(words);
}

void WrappedLabel::setWords(const QString& words) {
  m_words = words;
  fit();
}

void WrappedLabel::resizeEvent(QResizeEvent* event) {
  QLabel::resizeEvent(event);
  fit();
}

void WrappedLabel::changeEvent(QEvent* event) {
  QLabel::changeEvent(event);
  if (event->type() == QEvent::FontChange) fit();
}

void WrappedLabel::fit() {
  const QFontMetrics metrics(font());
  const int room = contentsRect().width();
  const auto breaks = [](QChar c) { return c == QLatin1Char(' ') || c == QLatin1Char('\n') || c == QChar(0x200b); };
  QString shown;
  for (qsizetype begin = 0; begin < m_words.size();) {
    qsizetype end = begin;
    while (end < m_words.size() && !breaks(m_words[end])) ++end;
    const QString word = m_words.mid(begin, end - begin);
    shown += metrics.horizontalAdvance(word) > room ? metrics.elidedText(word, Qt::ElideMiddle, room) : word;
    if (end < m_words.size()) shown += m_words[end];
    begin = end + 1;
  }
  setToolTip(shown == m_words ? QString() : QString(m_words).remove(QChar(0x200b)));
  if (shown != text()) setText(shown);
}

}  // namespace nf
