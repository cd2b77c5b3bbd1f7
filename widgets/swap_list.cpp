// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/swap_list.h"

#include <QHeaderView>
#include <QTableWidget>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/basic.h"
#include "widgets/names.h"

namespace nf {
namespace {

enum Column { kStep, kKernel, kBefore, kAfter, kChange, kColumns };
constexpr int kRow = 25, kMostRows = 6;
constexpr int kNarrow = 520;  // pixels; below it figures take what they need, above it their columns stay where they are
constexpr int kLeastKernel = 150, kLeastOfAll = 90;  // what a kernel's name is left with before the old time goes, and the new one
constexpr int kUsual[kColumns] = {76, 0, 84, 84, 76};

}  // namespace

SwapList::SwapList(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_sentence(label({}, "muted")), m_table(new QTableWidget(0, kColumns)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(4);
  m_sentence->setWordWrap(true);
  setUi(m_sentence, theme, 12);
  layout->addWidget(m_sentence);
  m_table->setAccessibleName(tr("Kernel swaps"));
  m_table->setHorizontalHeaderLabels({tr("Step"), tr("Kernel swap"), tr("Old  µs"), tr("New  µs"), tr("Change")});
  for (int c = 0; c < kColumns; ++c)
    m_table->horizontalHeaderItem(c)->setTextAlignment((c == kKernel ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  m_table->horizontalHeader()->setHighlightSections(false);
  m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  m_table->horizontalHeader()->setSectionResizeMode(kKernel, QHeaderView::Stretch);
  m_table->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  m_table->verticalHeader()->setDefaultAlignment(Qt::AlignCenter);
  m_table->verticalHeader()->setHighlightSections(false);
  m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
  m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_table->setSelectionMode(QAbstractItemView::SingleSelection);
  m_table->setShowGrid(false);
  m_table->setTabKeyNavigation(false);
  m_table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  layout->addWidget(m_table);
  const auto choose = [this](int row) {
    if (row >= 0 && row < count()) Q_EMIT swapChosen(m_swaps[static_cast<std::size_t>(row)]);
  };
  connect(m_table, &QTableWidget::cellClicked, this, choose);
  connect(m_table, &QTableWidget::activated, this, [choose](const QModelIndex& index) { choose(index.row()); });
  setTableMono(m_table, theme, 12);
  clear();
  connect(theme, &Theme::changed, this, &SwapList::dress);
  dress();
}

void SwapList::dress() {
  m_table->horizontalHeader()->setFixedHeight(m_theme->scaled(kRow));
  m_table->verticalHeader()->setDefaultSectionSize(m_theme->scaled(kRow));
  const QFontMetrics metrics(m_table->font());
  for (int c = 0; c < kColumns; ++c) {
    int& widest = m_widest[static_cast<std::size_t>(c)] = 0;
    for (int row = 0; row < count(); ++row) widest = std::max(widest, metrics.horizontalAdvance(m_table->item(row, c)->text()));
  }
  fitColumns();
  fit();
}

void SwapList::clear() {
  m_swaps.clear();
  m_widest.assign(kColumns, 0);
  m_table->setRowCount(0);
  fitColumns();
  m_sentence->clear();
  fit();
}

void SwapList::setNone(const QString& sentence) {
  m_sentence->setText(sentence);
  fit();
}

QString SwapList::sentence() const { return m_sentence->isHidden() ? QString() : m_sentence->text(); }

void SwapList::nameAgain() {
  if (m_losses == hasSeveralLosses()) return;
  const auto swaps = std::exchange(m_swaps, {});
  m_widest.assign(kColumns, 0);
  m_table->setRowCount(0);
  for (const protocol::KernelSwapEvent& swap : swaps) add(swap);
}

void SwapList::add(const protocol::KernelSwapEvent& swap) {
  const int row = count();
  m_losses = hasSeveralLosses();
  m_swaps.push_back(swap);
  m_table->setRowCount(row + 1);
  const QFontMetrics metrics(m_table->font());
  const auto beside = swap.kernelsBefore - 1;
  const auto put = [&](int column, const QString& text) {
    int& widest = m_widest[static_cast<std::size_t>(column)];
    widest = std::max(widest, metrics.horizontalAdvance(text));
    auto* item = new QTableWidgetItem(text);
    item->setTextAlignment((column == kKernel ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    item->setToolTip(
        swap.split
            ? (beside > 0
                   ? tr("%1, the fused kernel, and %2, which are others where it is split, against the %3 that are there then: "
                        "these were faster beyond noise. The times are of all of them.")
                         .arg(shortName(swap.name), counted(beside, tr("kernel"), tr("kernels")))
                         .arg(swap.kernelsAfter)
                   : tr("%1, the fused kernel, against its parts: they were faster beyond noise").arg(shortName(swap.name)))
            : tr("%1: %2 to %3").arg(shortName(swap.name), microsecondsText(swap.before_us), microsecondsText(swap.after_us)));
    m_table->setItem(row, column, item);
  };
  put(kStep, grouped(swap.step));
  QString name = kernelName(swap.name.empty() ? swap.subgraph.substr(0, 8) : swap.name, 40);
  // Not the search's generations: kernels are counted as they replace one another, the first one being the first.
  if (swap.split)
    name += (beside > 0 ? (beside == 1 ? tr(" + 1 other") : tr(" + %1 others").arg(beside)) : QString()) + tr(", split again");
  else
    name += tr(", kernel %1").arg(1 + std::count_if(m_swaps.begin(), m_swaps.end(), [&](const protocol::KernelSwapEvent& s) {
                                    return !s.split && s.subgraph == swap.subgraph;
                                  }));
  put(kKernel, name);
  const QString unmeasured = QStringLiteral("–");
  put(kBefore, swap.before_us ? significant(*swap.before_us) : unmeasured);
  put(kAfter, swap.after_us ? significant(*swap.after_us) : unmeasured);
  QString change = unmeasured;
  if (swap.before_us && swap.after_us && *swap.before_us > 0) {
    const double ratio = *swap.after_us / *swap.before_us - 1;
    change = QStringLiteral("%1%2 %").arg(ratio > 0 ? QStringLiteral("+") : QString()).arg(std::lround(ratio * 100));
  }
  put(kChange, change);
  fitColumns();
  m_table->scrollToBottom();
  fit();
}

int SwapList::splits() const {
  return static_cast<int>(
      std::count_if(m_swaps.begin(), m_swaps.end(), [](const protocol::KernelSwapEvent& s) { return s.split; }));
}

std::int64_t SwapList::swapsUntil(std::int64_t step) const {
  return std::count_if(m_swaps.begin(), m_swaps.end(),
                       [step](const protocol::KernelSwapEvent& s) { return !s.split && s.step <= step; });
}

void SwapList::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fitColumns();
}

// The name is what a row is about: it has what the figures leave, and where that is too little the old time stands in the tooltip alone,
// and then the new one.
void SwapList::fitColumns() {
  constexpr int kPadding = 18;
  const int narrow = m_theme->scaled(kNarrow);
  const QFontMetrics head(m_table->horizontalHeader()->font());
  int left = width() - m_table->verticalHeader()->sizeHint().width(), pixels[kColumns] = {};
  for (const int c : {kStep, kBefore, kAfter, kChange}) {
    const int text =
        std::max(m_widest[static_cast<std::size_t>(c)], head.horizontalAdvance(m_table->horizontalHeaderItem(c)->text()));
    pixels[c] = width() < narrow ? text + kPadding : std::max(text + kPadding, m_theme->scaled(kUsual[c]));
    left -= pixels[c];
  }
  for (const auto& [c, least] : {std::pair(kBefore, kLeastKernel), std::pair(kAfter, kLeastOfAll)}) {
    const bool hidden = width() < narrow && left < m_theme->scaled(least);
    m_table->setColumnHidden(c, hidden);
    if (hidden) left += pixels[c];
  }
  for (const int c : {kStep, kBefore, kAfter, kChange})
    if (!m_table->isColumnHidden(c)) m_table->setColumnWidth(c, pixels[c]);
}

void SwapList::setOnPaper(bool onPaper) {
  if (m_onPaper == onPaper) return;
  m_onPaper = onPaper;
  m_table->setVerticalScrollBarPolicy(onPaper ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
  fit();
}

void SwapList::fit() {
  m_table->setVisible(count() > 0);
  m_sentence->setVisible(count() == 0 && !m_sentence->text().isEmpty());
  m_table->setFixedHeight(m_theme->scaled(kRow) * (1 + (m_onPaper ? count() : std::min(count(), kMostRows))) + 2);
}

}  // namespace nf
