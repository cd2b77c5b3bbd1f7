// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/command_palette.h"

#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <algorithm>

#include "widgets/basic.h"

namespace nf {
namespace {

class EntryDelegate : public QStyledItemDelegate {
 public:
  EntryDelegate(const Theme* theme, QObject* parent) : QStyledItemDelegate(parent), m_theme(theme) {}
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {100, 28}; }
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    if (option.state & QStyle::State_Selected) p->fillRect(option.rect, c.accentSoft);
    const QRect r = option.rect.adjusted(12, 0, -12, 0);
    if (const QString icon = index.data(Qt::UserRole + 1).toString(); !icon.isEmpty())
      p->drawPixmap(r.left(), r.top() + 6, m_theme->pixmap(icon, c.muted, p->device()->devicePixelRatioF()));
    p->setFont(m_theme->ui(13));
    p->setPen(c.text);
    const QString detail = index.data(Qt::UserRole + 2).toString();
    const QFontMetrics small(m_theme->ui(12));
    const int beside = detail.isEmpty() ? 0 : std::min(small.horizontalAdvance(detail), r.width() / 2) + 12;
    const QRect words = r.adjusted(26, 0, -beside, 0);
    p->drawText(words, Qt::AlignVCenter,
                p->fontMetrics().elidedText(index.data(Qt::DisplayRole).toString(), Qt::ElideRight, words.width()));
    p->setFont(m_theme->ui(12));
    p->setPen(c.hint);
    p->drawText(r, Qt::AlignVCenter | Qt::AlignRight, small.elidedText(detail, Qt::ElideRight, r.width() / 2));
  }

 private:
  const Theme* m_theme;
};

// Letters of `wish` in order in `text`: how well, lower is better; -1: not at all. A whole word comes before one that goes on.
int score(const QString& text, const QString& wish) {
  if (wish.isEmpty()) return 0;
  if (const auto whole = static_cast<int>(text.indexOf(wish, 0, Qt::CaseInsensitive)); whole >= 0) {
    const qsizetype end = whole + wish.size();
    return 2 * whole + (whole == 0 || !text[whole - 1].isLetterOrNumber() ? 0 : 200) +
           (end < text.size() && text[end].isLetterOrNumber());
  }
  int at = 0, cost = 1000;
  for (const QChar letter : wish) {
    if (letter.isSpace()) continue;
    const int found = static_cast<int>(text.indexOf(letter, at, Qt::CaseInsensitive));
    if (found < 0) return -1;
    const bool start = found == 0 || !text[found - 1].isLetterOrNumber();
    cost += (found - at) * (start ? 1 : 3);
    at = found + 1;
  }
  return cost;
}

// Behind all that have the letters in order: each word somewhere, in whatever order they were written.
int wordsScore(const QString& text, const QString& wish) {
  const QStringList words = wish.split(QLatin1Char(' '), Qt::SkipEmptyParts);
  if (words.size() < 2) return -1;
  int cost = 5000;
  for (const QString& word : words) {
    const auto at = static_cast<int>(text.indexOf(word, 0, Qt::CaseInsensitive));
    if (at < 0) return -1;
    cost += 2 * at;
  }
  return cost;
}

int leastScore(const CommandPalette::Entry& entry, const QString& wish) {
  int least = -1;
  for (const QString& name : QStringList(entry.text) + entry.names)
    for (const int cost : {score(name, wish), wordsScore(name, wish)})
      if (cost >= 0 && (least < 0 || cost < least)) least = cost;
  return least;
}

}  // namespace

CommandPalette::CommandPalette(const Theme* theme, QWidget* parent)
    : QFrame(parent), m_theme(theme), m_field(new QLineEdit), m_list(new QListWidget), m_nothing(label({}, "muted")) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  layout->setSpacing(6);
  layout->addWidget(m_field);
  layout->addWidget(m_list);
  m_nothing->setContentsMargins(12, 4, 12, 4);
  m_nothing->setAlignment(Qt::AlignTop);
  m_nothing->hide();
  layout->addWidget(m_nothing, 1);
  m_list->setItemDelegate(new EntryDelegate(theme, this));
  m_list->setFocusPolicy(Qt::NoFocus);
  m_field->setMinimumHeight(30);
  m_field->installEventFilter(this);
  connect(m_field, &QLineEdit::textChanged, this, &CommandPalette::filter);
  connect(m_list, &QListWidget::itemClicked, this, &CommandPalette::choose);
  hide();
}

void CommandPalette::open(const QString& placeholder, std::vector<Entry> entries) {
  m_entries = std::move(entries);
  m_field->clear();
  m_field->setPlaceholderText(placeholder);
  m_field->setAccessibleName(placeholder);
  filter();
  const int width = std::min(620, parentWidget()->width() - 80);
  setGeometry((parentWidget()->width() - width) / 2, 64, width, std::min(440, parentWidget()->height() - 120));
  if (QWidget* now = window()->focusWidget(); now != m_field) m_before = now;
  show();
  raise();
  m_field->setFocus();
}

// Hidden with the keyboard it would leave it to whatever comes next, which is the first button of the window.
void CommandPalette::leave() {
  QWidget* to = m_before && m_before->isVisible() && m_before->isEnabled() ? m_before.data() : parentWidget();
  to->setFocus();
  hide();
}

void CommandPalette::filter() {
  m_list->clear();
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t i = 0; i < m_entries.size(); ++i)
    if (const int cost = leastScore(m_entries[i], m_field->text()); cost >= 0) order.emplace_back(cost, i);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [cost, i] : order) {
    auto* item = new QListWidgetItem(m_entries[i].text, m_list);
    item->setData(Qt::UserRole, static_cast<qulonglong>(i));
    item->setData(Qt::UserRole + 1, m_entries[i].icon);
    item->setData(Qt::UserRole + 2, m_entries[i].detail);
    if (m_list->count() >= 200) break;
  }
  m_list->setCurrentRow(0);
  m_nothing->setText(tr("Nothing found for \"%1\"").arg(m_field->text()));
  m_nothing->setVisible(order.empty());
  m_list->setVisible(!order.empty());
}

QString CommandPalette::nothing() const { return m_nothing->isHidden() ? QString() : m_nothing->text(); }

void CommandPalette::choose() {
  const QListWidgetItem* item = m_list->currentItem();
  if (!item) return;
  const auto run = m_entries[item->data(Qt::UserRole).toULongLong()].run;
  leave();
  run();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    switch (static_cast<QKeyEvent*>(event)->key()) {
      case Qt::Key_Escape: leave(); return true;
      case Qt::Key_Return:
      case Qt::Key_Enter: choose(); return true;
      case Qt::Key_Down: m_list->setCurrentRow(std::min(m_list->currentRow() + 1, m_list->count() - 1)); return true;
      case Qt::Key_Up: m_list->setCurrentRow(std::max(m_list->currentRow() - 1, 0)); return true;
      default: break;
    }
  } else if (event->type() == QEvent::FocusOut) {
    hide();
  }
  return QFrame::eventFilter(watched, event);
}

void CommandPalette::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(m_theme->colors().separator);
  p.setBrush(m_theme->colors().page);
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
}

}  // namespace nf
