// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/outline_view.h"

#include <QHeaderView>
#include <QLineEdit>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTreeWidget>
#include <algorithm>

#include "widgets/basic.h"
#include "widgets/names.h"

namespace nf {
namespace {

enum Role { kIconRole = Qt::UserRole, kDetailRole, kKindRole, kValueRole, kColorRole, kMonoRole, kGoneRole };
enum ItemKind { kSection, kCell, kTensor, kFunction, kDevice };
struct Colored {
  Shade shade = nullptr;
};

class OutlineDelegate : public QStyledItemDelegate {
 public:
  OutlineDelegate(const Theme* theme, QObject* parent) : QStyledItemDelegate(parent), m_theme(theme) {}
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {100, 25}; }
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const QRect r = option.rect;
    const QRect full(0, r.top(), option.widget ? static_cast<const QTreeWidget*>(option.widget)->viewport()->width() : r.right(),
                     r.height());
    const bool section = index.data(kKindRole).toInt() == kSection;
    if (option.state & QStyle::State_Selected) {
      p->fillRect(full, c.accentSoft);
      p->fillRect(QRect(full.left(), full.top(), 3, full.height()), c.accent);
    } else if (option.state & QStyle::State_MouseOver) {
      p->fillRect(full, mixed(c.page, c.text, 0.04));
    }
    int x = section ? r.left() + 14 : 42;
    const QString icon = index.data(kIconRole).toString();
    const Shade shade = index.data(kColorRole).value<Colored>().shade;
    const QColor special = shade ? c.*shade : QColor();
    if (section) {
      const bool open = static_cast<const QTreeWidget*>(option.widget)->isExpanded(index);
      p->drawPixmap(
          8, r.top() + 4,
          m_theme->pixmap(open ? QStringLiteral("down") : QStringLiteral("right"), c.muted, p->device()->devicePixelRatioF(), 16));
      x = 26;
    } else if (!icon.isEmpty()) {
      p->drawPixmap(x, r.top() + 4, m_theme->pixmap(icon, special.isValid() ? special : c.muted, p->device()->devicePixelRatioF()));
      x += 22;
    }
    const QString detail = index.data(kDetailRole).toString();
    p->setFont(index.data(kMonoRole).toBool() ? m_theme->mono(11) : m_theme->ui(12));
    // The name first: its shape stands in the inspector too. A cell's state is told nowhere else in sight, its title is.
    const QFont nameFont = index.data(kMonoRole).toBool() ? m_theme->mono(13) : m_theme->ui(13);
    const int name = QFontMetrics(nameFont).horizontalAdvance(index.data(Qt::DisplayRole).toString());
    constexpr int kLeastDetail = 28;  // px: less of it says nothing
    const int room = full.width() - x - 28;
    const bool state = index.data(kKindRole).toInt() == kCell;
    int width = std::clamp(p->fontMetrics().horizontalAdvance(detail) + 2, 0, std::max(0, state ? room / 2 : room - name));
    if (width < std::min(kLeastDetail, p->fontMetrics().horizontalAdvance(detail))) width = 0;
    p->setPen(special.isValid() && !section ? special : c.hint);
    const QRect right(full.right() - 12 - width, r.top(), width, r.height());
    p->drawText(right, Qt::AlignVCenter | Qt::AlignRight, p->fontMetrics().elidedText(detail, Qt::ElideMiddle, width));
    p->setFont(index.data(kMonoRole).toBool() ? m_theme->mono(13) : m_theme->ui(13, section ? QFont::Medium : QFont::Normal));
    p->setPen(section ? c.muted : index.data(kGoneRole).toBool() ? c.hint : c.text);
    const QRect left(x, r.top(), right.left() - x - 8, r.height());
    p->drawText(left, Qt::AlignVCenter | Qt::AlignLeft,
                p->fontMetrics().elidedText(index.data(Qt::DisplayRole).toString(), Qt::ElideMiddle, left.width()));
  }

 private:
  const Theme* m_theme;
};

}  // namespace

OutlineView::OutlineView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_filter(new QLineEdit), m_tree(new QTreeWidget) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(12, 0, 12, 8);
  m_filter->setPlaceholderText(tr("Filter names"));
  m_filter->setAccessibleName(tr("Filter names"));
  m_filter->setClearButtonEnabled(true);
  QAction* search = m_filter->addAction(theme->icon(QStringLiteral("search"), theme->colors().muted), QLineEdit::LeadingPosition);
  connect(theme, &Theme::changed, this, [this, search] {
    search->setIcon(m_theme->icon(QStringLiteral("search"), m_theme->colors().muted));
    m_tree->viewport()->update();
  });
  row->addWidget(m_filter);
  layout->addLayout(row);
  layout->addWidget(m_tree, 1);
  m_tree->setHeaderHidden(true);
  m_tree->setIndentation(0);
  m_tree->setRootIsDecorated(false);
  m_tree->setUniformRowHeights(true);
  m_tree->setMouseTracking(true);
  m_tree->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_tree->setItemDelegate(new OutlineDelegate(theme, this));
  m_tree->setAccessibleName(tr("Outline"));
  m_cells = section(tr("Cells"));
  m_tensors = section(tr("Tensors"));
  m_functions = section(tr("Functions"));
  m_devices = section(tr("Devices"));
  connect(m_filter, &QLineEdit::textChanged, this, &OutlineView::applyFilter);
  connect(m_tree, &QTreeWidget::itemClicked, this, [this](QTreeWidgetItem* item) {
    if (item->data(0, kGoneRole).toBool()) return;
    switch (item->data(0, kKindRole).toInt()) {
      case kSection: item->setExpanded(!item->isExpanded()); break;
      case kCell: Q_EMIT cellChosen(item->data(0, kValueRole).toULongLong()); break;
      case kTensor: Q_EMIT tensorChosen(item->data(0, kValueRole).toString()); break;
      case kFunction: Q_EMIT placeChosen(item->data(0, kValueRole).toUInt()); break;
      case kDevice: Q_EMIT deviceChosen(); break;
    }
  });
  connect(m_tree, &QTreeWidget::itemActivated, this, [this](QTreeWidgetItem* item) {
    if (item->data(0, kGoneRole).toBool()) return;
    switch (item->data(0, kKindRole).toInt()) {
      case kSection: break;  // the click has opened or closed it
      case kCell: Q_EMIT cellOpened(item->data(0, kValueRole).toULongLong()); break;
      case kTensor: Q_EMIT tensorOpened(item->data(0, kValueRole).toString()); break;
      default: Q_EMIT m_tree->itemClicked(item, 0);
    }
  });
  connect(selection, &Selection::changed, this, &OutlineView::markSelection);
}

QTreeWidgetItem* OutlineView::section(const QString& title) {
  auto* item = new QTreeWidgetItem(m_tree, {title});
  item->setData(0, kKindRole, kSection);
  item->setFlags(item->flags() & ~Qt::ItemIsSelectable);
  item->setExpanded(true);
  item->setHidden(true);
  return item;
}

void OutlineView::setCount(QTreeWidgetItem* s) {
  s->setData(0, kDetailRole, QString::number(s->childCount()));
  s->setHidden(s->childCount() == 0);
  applyFilter();
}

void OutlineView::setCells(const std::vector<CellLine>& cells, CellId active) {
  qDeleteAll(m_cells->takeChildren());
  for (const CellLine& line : cells) {
    auto* item = new QTreeWidgetItem(m_cells, {line.title});
    item->setData(0, kKindRole, kCell);
    item->setData(0, kValueRole, QVariant::fromValue(line.id));
    item->setData(0, kIconRole, line.kind == CellLine::Kind::Text ? QStringLiteral("text") : QStringLiteral("code"));
    item->setData(0, kDetailRole, line.state);
    if (!line.state.isEmpty()) {
      switch (static_cast<protocol::CellStatus>(line.status)) {
        case protocol::CellStatus::Error: item->setData(0, kColorRole, QVariant::fromValue(Colored{&Palette::failed})); break;
        case protocol::CellStatus::Stale: item->setData(0, kColorRole, QVariant::fromValue(Colored{&Palette::stale})); break;
        case protocol::CellStatus::Queued:
        case protocol::CellStatus::Running: item->setData(0, kColorRole, QVariant::fromValue(Colored{&Palette::accent})); break;
        case protocol::CellStatus::Ok: break;
      }
    }
    if (line.id == active) item->setSelected(true);
  }
  setCount(m_cells);
}

void OutlineView::setNames(const protocol::Analysis& analysis, const std::set<std::string>& missing) {
  qDeleteAll(m_tensors->takeChildren());
  qDeleteAll(m_functions->takeChildren());
  m_origins.clear();
  const auto markGone = [&](QTreeWidgetItem* item) {
    item->setData(0, kGoneRole, true);
    item->setData(0, kColorRole, QVariant::fromValue(Colored{&Palette::hint}));
    item->setFlags(item->flags() & ~Qt::ItemIsSelectable);
    item->setToolTip(0, tr("Not made while the notebook has a mistake"));
  };
  for (const auto& t : analysis.tensors) {
    const QString name = QString::fromStdString(t.name);
    auto* item = new QTreeWidgetItem(m_tensors, {derivativeText(name)});
    item->setData(0, kKindRole, kTensor);
    item->setData(0, kValueRole, name);
    item->setData(0, kMonoRole, true);
    item->setData(0, kDetailRole, shapeText(t.shape));
    QString icon = QStringLiteral("tensor");
    switch (t.kind) {
      case protocol::SymbolKind::Input: icon = QStringLiteral("input"); break;
      case protocol::SymbolKind::Param: icon = QStringLiteral("param"); break;
      case protocol::SymbolKind::State: icon = QStringLiteral("state"); break;
      case protocol::SymbolKind::Data: icon = QStringLiteral("data"); break;
      case protocol::SymbolKind::Extent: icon = QStringLiteral("extent"); break;
      case protocol::SymbolKind::Function: icon = QStringLiteral("function"); break;
      case protocol::SymbolKind::Const:
      case protocol::SymbolKind::Tensor:
      case protocol::SymbolKind::Loss:
      case protocol::SymbolKind::Eval: break;
    }
    item->setData(0, kIconRole, t.derivative ? QStringLiteral("sum") : icon);
    if (t.derivative) item->setData(0, kColorRole, QVariant::fromValue(Colored{&Palette::backward}));
    if (missing.contains(t.name)) markGone(item);
    m_origins[name] = t.origins;
  }
  for (const auto& s : analysis.symbols) {
    if (s.kind != protocol::SymbolKind::Function) continue;
    auto* item = new QTreeWidgetItem(m_functions, {QString::fromStdString(s.name)});
    item->setData(0, kKindRole, kFunction);
    item->setData(0, kValueRole, s.definition.begin);
    item->setData(0, kIconRole, QStringLiteral("function"));
    item->setData(0, kMonoRole, true);
    item->setData(
        0, kDetailRole,
        s.definition.source.empty() ? QString() : QString::fromStdString(s.definition.source).section(QLatin1Char('/'), 0, 0));
    item->setToolTip(0, QString::fromStdString(s.detail));
    if (!s.definition.source.empty()) item->setFlags(item->flags() & ~Qt::ItemIsSelectable);
    if (missing.contains(s.name)) markGone(item);
  }
  setCount(m_tensors);
  setCount(m_functions);
  markSelection();
}

void OutlineView::setDevices(const protocol::Devices& devices) {
  qDeleteAll(m_devices->takeChildren());
  for (const auto& d : devices.devices) {
    auto* item = new QTreeWidgetItem(m_devices, {QString::fromStdString(d.description.empty() ? d.name : d.description)});
    item->setData(0, kKindRole, kDevice);
    item->setData(0, kIconRole, QStringLiteral("chip"));
    item->setData(0, kDetailRole, !d.unavailable.empty() ? tr("missing") : d.inUse ? tr("in use") : tr("idle"));
    if (d.inUse) item->setData(0, kColorRole, QVariant::fromValue(Colored{&Palette::accent}));
    item->setToolTip(0, QString::fromStdString(d.unavailable));
  }
  setCount(m_devices);
}

void OutlineView::applyFilter() {
  const QString wish = m_filter->text();
  for (QTreeWidgetItem* s : {m_cells, m_tensors, m_functions, m_devices}) {
    int visible = 0;
    for (int i = 0; i < s->childCount(); ++i) {
      const bool match = wish.isEmpty() || s->child(i)->text(0).contains(wish, Qt::CaseInsensitive);
      s->child(i)->setHidden(!match);
      visible += match;
    }
    s->setHidden(visible == 0);
  }
}

void OutlineView::markSelection() {
  for (int i = 0; i < m_tensors->childCount(); ++i) {
    QTreeWidgetItem* item = m_tensors->child(i);
    const QString name = item->data(0, kValueRole).toString();
    item->setSelected(!m_selection->empty() &&
                      m_selection->relation({name.toStdString()}, m_origins[name]) == Selection::Relation::Exact);
  }
}

QString cellTitle(const std::vector<std::string>& defines, const std::function<bool(const std::string& name)>& isResult) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names = defines;
  const auto parts =
      std::stable_partition(names.begin(), names.end(), [](const std::string& n) { return n.find('.') == std::string::npos; });
  if (parts != names.begin()) names.erase(parts, names.end());
  if (names.size() > kMost) std::stable_partition(names.begin(), names.end(), isResult);
  QStringList shown;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) shown << QString::fromStdString(names[i]);
  if (names.size() > kMost) shown << QStringLiteral("...");
  return shown.join(QStringLiteral(", "));
}

}  // namespace nf
