// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/outline_view.h"

#include <QHeaderView>
#include <QLineEdit>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTreeWidget>
#include <algorithm>

#include "core/support/unique_names.h"
#include "widgets/basic.h"
#include "widgets/names.h"
#include "widgets/wrapped_label.h"

namespace nf {
namespace {

enum Role { kIconRole = Qt::UserRole, kDetailRole, kKindRole, kValueRole, kColorRole, kMonoRole, kGoneRole };
enum ItemKind { kSection, kCell, kTensor, kFunction, kLibrary, kDevice };
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
    : QWidget(parent), m_theme(theme), m_selection(selection), m_filter(new QLineEdit), m_nothing(new WrappedLabel({}, "muted")),
      m_tree(new QTreeWidget) {
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
  m_nothing->setContentsMargins(14, 0, 12, 8);
  m_nothing->hide();
  layout->addWidget(m_nothing);
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
      case kLibrary: Q_EMIT functionOpened(item->data(0, kValueRole).toString()); break;
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
  const QString count = QString::number(s->childCount());
  if (s->data(0, kDetailRole).toString() != count) s->setData(0, kDetailRole, count);
  if (!m_filter->text().isEmpty()) filter(s);
  else if (s->isHidden() != (s->childCount() == 0)) s->setHidden(s->childCount() == 0);
  sayNothing();
}

void OutlineView::write(QTreeWidgetItem* item, const Row& row) {
  item->setText(0, row.text);
  item->setToolTip(0, row.tip);
  item->setData(0, kKindRole, row.kind);
  item->setData(0, kValueRole, row.value);
  item->setData(0, kIconRole, row.icon);
  item->setData(0, kDetailRole, row.detail);
  item->setData(0, kColorRole, row.shade ? QVariant::fromValue(Colored{row.shade}) : QVariant());
  item->setData(0, kMonoRole, row.mono);
  item->setData(0, kGoneRole, row.gone);
  Qt::ItemFlags flags = item->flags();
  flags.setFlag(Qt::ItemIsSelectable, row.selectable);
  if (flags != item->flags()) item->setFlags(flags);
}

// Every key brings all rows anew, and a tree of thousands takes longer to make than a text to check: only what differs is touched.
void OutlineView::fill(QTreeWidgetItem* section, std::vector<Row>& shown, std::vector<Row> rows) {
  const std::size_t least = std::min(shown.size(), rows.size());
  std::size_t same = 0, tail = 0;
  while (same < least && shown[same] == rows[same]) ++same;
  while (tail < least - same && shown[shown.size() - 1 - tail] == rows[rows.size() - 1 - tail]) ++tail;
  const std::size_t both = least - tail;
  for (std::size_t i = same; i < both; ++i)
    if (shown[i] != rows[i]) write(section->child(static_cast<int>(i)), rows[i]);
  for (std::size_t i = shown.size() - tail; i-- > both;) delete section->takeChild(static_cast<int>(i));
  QList<QTreeWidgetItem*> added;
  for (std::size_t i = both; i < rows.size() - tail; ++i) {
    added << new QTreeWidgetItem;
    write(added.back(), rows[i]);
  }
  if (!added.isEmpty()) section->insertChildren(static_cast<int>(both), added);
  shown = std::move(rows);
  setCount(section);
}

void OutlineView::setCells(const std::vector<CellLine>& cells, CellId active) {
  std::vector<Row> rows;
  int chosen = -1;
  for (const CellLine& line : cells) {
    if (line.id == active) chosen = static_cast<int>(rows.size());
    Row row;
    row.text = line.title;
    row.kind = kCell;
    row.value = QVariant::fromValue(line.id);
    row.icon = line.kind == CellLine::Kind::Text ? QStringLiteral("text") : QStringLiteral("code");
    row.detail = line.state;
    if (!line.state.isEmpty()) {
      switch (static_cast<protocol::CellStatus>(line.status)) {
        case protocol::CellStatus::Error: row.shade = &Palette::failed; break;
        case protocol::CellStatus::Stale: row.shade = &Palette::stale; break;
        case protocol::CellStatus::Queued:
        case protocol::CellStatus::Running: row.shade = &Palette::accent; break;
        case protocol::CellStatus::Ok: break;
      }
    }
    rows.push_back(std::move(row));
  }
  fill(m_cells, m_cellRows, std::move(rows));
  QTreeWidgetItem* const now = chosen < 0 ? nullptr : m_cells->child(chosen);
  for (QTreeWidgetItem* item : m_tree->selectedItems())
    if (item->parent() == m_cells && item != now) item->setSelected(false);
  if (now && !now->isSelected()) {
    now->setSelected(true);
    if (m_cells->isExpanded() && !now->isHidden()) m_tree->scrollToItem(now);
  }
}

void OutlineView::setNames(const protocol::Analysis& analysis, const std::set<std::string>& missing) {
  const auto markGone = [](Row& row) {
    row.gone = true;
    row.shade = &Palette::hint;
    row.selectable = false;
    row.tip = tr("Not made while the notebook has a mistake");
  };
  std::vector<Row> tensors, functions;
  m_named.clear();
  for (const auto& t : analysis.tensors) {
    const QString name = QString::fromStdString(t.name);
    Row row;
    row.text = derivativeText(name);
    row.kind = kTensor;
    row.value = name;
    row.mono = true;
    row.detail = shapeText(t.shape);
    row.icon = QStringLiteral("tensor");
    switch (t.kind) {
      case protocol::SymbolKind::Input: row.icon = QStringLiteral("input"); break;
      case protocol::SymbolKind::Param: row.icon = QStringLiteral("param"); break;
      case protocol::SymbolKind::State: row.icon = QStringLiteral("state"); break;
      case protocol::SymbolKind::Data: row.icon = QStringLiteral("data"); break;
      case protocol::SymbolKind::Extent: row.icon = QStringLiteral("extent"); break;
      case protocol::SymbolKind::Function: row.icon = QStringLiteral("function"); break;
      case protocol::SymbolKind::Const:
      case protocol::SymbolKind::Tensor:
      case protocol::SymbolKind::Loss:
      case protocol::SymbolKind::Eval: break;
    }
    if (t.derivative) row.icon = QStringLiteral("sum"), row.shade = &Palette::backward;
    if (missing.contains(t.name)) markGone(row);
    tensors.push_back(std::move(row));
    m_named.emplace_back(t.name, t.origins);
  }
  for (const auto& s : analysis.symbols) {
    if (s.kind != protocol::SymbolKind::Function) continue;
    Row row;
    row.text = QString::fromStdString(s.name);
    row.kind = kFunction;
    row.value = s.definition.begin;
    row.icon = QStringLiteral("function");
    row.mono = true;
    if (!s.definition.source.empty())
      row.kind = kLibrary, row.value = row.text,
      row.detail = QString::fromStdString(s.definition.source).section(QLatin1Char('/'), 0, 0);
    row.tip = QString::fromStdString(s.detail);
    if (missing.contains(s.name)) markGone(row);
    functions.push_back(std::move(row));
  }
  fill(m_tensors, m_tensorRows, std::move(tensors));
  fill(m_functions, m_functionRows, std::move(functions));
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

void OutlineView::filter(QTreeWidgetItem* s) {
  const QString wish = m_filter->text();
  int visible = 0;
  for (int i = 0; i < s->childCount(); ++i) {
    const bool match = wish.isEmpty() || s->child(i)->text(0).contains(wish, Qt::CaseInsensitive);
    s->child(i)->setHidden(!match);
    visible += match;
  }
  s->setHidden(visible == 0);
}

void OutlineView::applyFilter() {
  for (QTreeWidgetItem* s : {m_cells, m_tensors, m_functions, m_devices}) filter(s);
  sayNothing();
}

void OutlineView::sayNothing() {
  const auto sections = {m_cells, m_tensors, m_functions, m_devices};
  const bool any = std::any_of(sections.begin(), sections.end(), [](const QTreeWidgetItem* s) { return !s->isHidden(); });
  const bool nothing = !any && !m_filter->text().isEmpty();
  if (nothing) m_nothing->setWords(tr("No name here has \"%1\" in it.").arg(m_filter->text()));
  m_nothing->setVisible(nothing);
}

QString OutlineView::nothing() const { return m_nothing->isHidden() ? QString() : m_nothing->words(); }

void OutlineView::markSelection() {
  std::set<int> wanted;
  if (!m_selection->empty())
    for (std::size_t i = 0; i < m_named.size(); ++i)
      if (m_selection->relation({m_named[i].first}, m_named[i].second) == Selection::Relation::Exact ||
          (m_selection->tensors().empty() && m_selection->reads() == m_named[i].first))
        wanted.insert(static_cast<int>(i));
  for (QTreeWidgetItem* item : m_tree->selectedItems())
    if (item->parent() == m_tensors && wanted.erase(m_tensors->indexOfChild(item)) == 0) item->setSelected(false);
  for (const int i : wanted) m_tensors->child(i)->setSelected(true);
}

QString cellTitle(const std::vector<std::string>& defines, const std::function<bool(const std::string& name)>& isResult) {
  constexpr std::size_t kMost = 3;
  // As they are written: what a loop goes on from and what it leaves are one name.
  std::vector<std::string> names;
  for (const std::string& n : defines)
    if (std::string name(withoutNumber(n)); std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
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
