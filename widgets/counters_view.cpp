// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/counters_view.h"

#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/names.h"

namespace nf {
namespace {

using protocol::CounterInfo;
using protocol::KernelCountersEvent;

constexpr int kBarRole = Qt::UserRole + 1;  // 0..1
constexpr std::size_t kMostStalls = 4, kMostLines = 3;
enum Column { kWhat, kBefore, kAfter, kChange, kColumns };

class BarDelegate : public QStyledItemDelegate {
 public:
  BarDelegate(const Theme* theme, QObject* parent) : QStyledItemDelegate(parent), m_theme(theme) {}
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const QRect r = option.rect;
    if (option.state & QStyle::State_Selected) p->fillRect(r, c.accentSoft);
    p->setFont(m_theme->mono(12));
    p->setPen(c.text);
    const QString text = index.data(Qt::DisplayRole).toString();
    const QVariant bar = index.data(kBarRole);
    if (!bar.isValid()) {
      const auto side = index.column() == kWhat ? Qt::AlignLeft : Qt::AlignRight;
      p->drawText(r.adjusted(12, 0, -8, 0), side | Qt::AlignVCenter,
                  p->fontMetrics().elidedText(text, Qt::ElideRight, r.width() - 20));
      return;
    }
    const int words = 84, room = std::max(12, r.width() - words - 14);
    const QRect groove(r.left() + 8, r.center().y() - 2, room, 5);
    p->fillRect(groove, c.separator);
    p->fillRect(QRectF(groove.left(), groove.top(), groove.width() * std::clamp(bar.toDouble(), 0.0, 1.0), groove.height()),
                index.column() == kAfter ? c.accent : mixed(c.page, c.muted, 0.8));
    p->drawText(QRect(groove.right() + 6, r.top(), words - 2, r.height()), Qt::AlignVCenter | Qt::AlignLeft, text);
  }

 private:
  const Theme* m_theme;
};

QString timeText(double us) { return microsecondsText(us); }
QString rateText(double flops) { return flopsText(flops, QStringLiteral("FLOP/s")); }
QString sizeText(double bytes) { return bytesText(bytes); }
QString partText(double part) { return QString::number(part * 100, 'f', 1) + QStringLiteral(" %"); }
QString countText(double count) { return QString::number(count, 'f', 0); }

std::optional<double> rate(const std::optional<CounterInfo>& c) {
  if (!c || !(c->us > 0)) return std::nullopt;
  return c->flops / c->us * 1e6;
}

}  // namespace

CountersView::CountersView(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_table(new QTableWidget(0, kColumns)), m_sentence(label({}, "muted")) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_table->setAccessibleName(tr("Counters of the kernel before and after its swap"));
  m_table->setHorizontalHeaderLabels({tr("Counter"), tr("Old kernel"), tr("New kernel"), tr("Change")});
  m_table->setItemDelegate(new BarDelegate(theme, this));
  m_table->horizontalHeader()->setHighlightSections(false);
  m_table->horizontalHeader()->setFixedHeight(26);
  m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  m_table->horizontalHeader()->setSectionResizeMode(kChange, QHeaderView::Fixed);
  m_table->setColumnWidth(kChange, 84);
  m_table->verticalHeader()->hide();
  m_table->verticalHeader()->setDefaultSectionSize(24);
  m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
  m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_table->setSelectionMode(QAbstractItemView::SingleSelection);
  m_table->setShowGrid(false);
  m_table->setTabKeyNavigation(false);
  layout->addWidget(m_table, 1);
  m_sentence->setWordWrap(true);
  m_sentence->setContentsMargins(16, 8, 16, 8);
  layout->addWidget(m_sentence);
  refresh();
}

void CountersView::clear() {
  m_counted.clear();
  m_missing.clear();
  refresh();
}

void CountersView::setProfile(const protocol::Profile& profile) {
  if (!profile.countersMissing.empty()) m_missing = profile.countersMissing;
  for (const protocol::KernelTimeInfo& k : profile.kernels) {
    if (!k.counters) continue;
    KernelCountersEvent& known = m_counted[k.subgraph];
    // What a swap has compared stays until another swap does.
    if (known.before.counters) continue;
    known.subgraph = k.subgraph;
    known.name = k.name;
    known.after.counters = k.counters;
  }
  refresh();
}

void CountersView::add(const KernelCountersEvent& counters) {
  if (!counters.missing.empty()) m_missing = counters.missing;
  if (counters.after.counters || counters.before.counters) m_counted[counters.subgraph] = counters;
  refresh();
}

void CountersView::choose(const std::string& subgraph) {
  if (subgraph == m_chosen) return;
  m_chosen = subgraph;
  refresh();
}

std::vector<CountersView::Row> CountersView::rowsOf(const KernelCountersEvent& counters) const {
  const std::optional<CounterInfo>&before = counters.before.counters, &after = counters.after.counters;
  const auto of = [](const std::optional<CounterInfo>& c, double CounterInfo::*member) {
    return c ? std::optional((*c).*member) : std::nullopt;
  };
  std::vector<Row> rows;
  const auto both = [&](const QString& what, double CounterInfo::*member, QString (*text)(double)) {
    rows.push_back({what, of(before, member), of(after, member), text});
  };
  both(tr("time"), &CounterInfo::us, timeText);
  rows.push_back({tr("arithmetic"), rate(before), rate(after), rateText});
  both(tr("memory, bytes moved"), &CounterInfo::dramBytes, sizeText);
  both(tr("L2, bytes moved"), &CounterInfo::l2Bytes, sizeText);
  both(tr("resident warps"), &CounterInfo::occupancy, partText);
  // The reasons that weigh most in either, by the greater of both.
  std::map<std::string, std::pair<std::optional<double>, std::optional<double>>> stalls;
  if (before)
    for (const auto& s : before->stalls) stalls[s.reason].first = s.share;
  if (after)
    for (const auto& s : after->stalls) stalls[s.reason].second = s.share;
  std::vector<std::pair<std::string, double>> order;
  for (const auto& [reason, shares] : stalls)
    order.emplace_back(reason, std::max(shares.first.value_or(0), shares.second.value_or(0)));
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (order.size() > kMostStalls) order.resize(kMostStalls);
  for (const auto& [reason, share] : order)
    rows.push_back({tr("stalled: %1").arg(QString::fromStdString(reason).replace(QLatin1Char('_'), QLatin1Char(' '))),
                    before ? std::optional(stalls[reason].first.value_or(0)) : std::nullopt,
                    after ? std::optional(stalls[reason].second.value_or(0)) : std::nullopt, partText});
  if (after)
    for (std::size_t i = 0; i < after->lines.size() && i < kMostLines; ++i) {
      const auto& l = after->lines[i];
      if (l.line == 0) continue;
      rows.push_back(
          {tr("line %1, samples: %2").arg(l.line).arg(QString::fromStdString(l.reason).replace(QLatin1Char('_'), QLatin1Char(' '))),
           std::nullopt, static_cast<double>(l.samples), countText});
    }
  return rows;
}

void CountersView::refresh() {
  const auto found = m_counted.find(m_chosen);
  m_rows = found == m_counted.end() ? std::vector<Row>() : rowsOf(found->second);
  m_table->setRowCount(static_cast<int>(m_rows.size()));
  for (std::size_t i = 0; i < m_rows.size(); ++i) {
    const Row& row = m_rows[i];
    const double most = std::max(row.before.value_or(0), row.after.value_or(0));
    const auto put = [&](int column, const QString& text, std::optional<double> bar) {
      auto* item = new QTableWidgetItem(text);
      if (bar) item->setData(kBarRole, most > 0 ? *bar / most : 0.0);
      item->setToolTip(row.what);
      m_table->setItem(static_cast<int>(i), column, item);
    };
    const QString dash = QStringLiteral("\u2013");
    put(kWhat, row.what, std::nullopt);
    put(kBefore, row.before ? row.text(*row.before) : dash, row.before);
    put(kAfter, row.after ? row.text(*row.after) : dash, row.after);
    const bool change = row.before && row.after && *row.before > 0;
    put(kChange,
        change ? QStringLiteral("%1%2 %")
                     .arg(*row.after >= *row.before ? QStringLiteral("+") : QString())
                     .arg(std::lround((*row.after / *row.before - 1) * 100))
               : QString(),
        std::nullopt);
  }
  m_table->setVisible(!m_rows.empty());
  QString text;
  if (!m_rows.empty()) {
    const auto& after = found->second.after.counters;
    if (after && !after->withoutLines.empty()) text = QString::fromStdString(after->withoutLines);
  } else if (!m_missing.empty()) {
    text = QString::fromStdString(m_missing);
  } else {
    text = tr(
        "A GPU's counters stand here: a kernel that beats the one in use is run once more under them, with the old one beside it.");
  }
  m_sentence->setText(text);
  m_sentence->setVisible(!text.isEmpty());
}

QString CountersView::sentence() const { return m_sentence->text(); }

PlotTable CountersView::table() const {
  PlotTable out{{tr("counter"), tr("old kernel"), tr("new kernel")}, {}};
  for (const Row& row : m_rows)
    out.rows.push_back({row.what, row.before ? QVariant(*row.before) : QVariant(), row.after ? QVariant(*row.after) : QVariant()});
  return out;
}

}  // namespace nf
