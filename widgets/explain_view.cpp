// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/explain_view.h"

#include <QComboBox>
#include <QDockWidget>
#include <QEvent>
#include <QFile>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QSortFilterProxyModel>
#include <QStackedWidget>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QTableWidget>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/support/unique_names.h"
#include "core/syntax/derivative_name.h"
#include "widgets/basic.h"
#include "widgets/decision_card.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/names.h"
#include "widgets/stage_slider.h"
#include "widgets/step_chooser.h"
#include "widgets/write_file.h"

namespace nf {

using namespace protocol;

namespace {

// A decision is part of what is selected if one of its ends is. A place that has no name is part of the operator that holds it, and an
// access of what carries there the tensor that it reads. A name without a node, as that of the second of two equal statements, is known
// by its place. Of a place in a function the ends are the operators that compute something there.
bool isRelated(const Selection& selection, const FusionDecisionInfo& d, const ExplainView::Related& related) {
  if (selection.empty()) return false;
  using Relation = Selection::Relation;
  const auto& called = related.called;
  const std::string& led = related.led;
  if (!selection.body().empty() && !related.inBody.empty()) {
    const bool makes = related.inBody.contains(d.producerNode), takes = related.inBody.contains(d.consumerNode);
    if (!selection.readsThere()) return makes || takes;
    const auto isGradient = [&](const std::string& node) {
      const auto names = derivativeNames(std::string(withoutNumber(node)));
      return names && selection.isCalled(names->second);
    };
    return (takes && (called.contains(d.producer) || called.contains(d.producerNode) || isGradient(d.consumerNode))) ||
           (makes && isGradient(d.producerNode));
  }
  const bool named = !selection.tensors().empty();
  const bool copied = std::ranges::any_of(related.again, [&](const auto& copy) {
    const auto& [tensor, kernel] = copy;
    const auto holds = [&](const std::string& end, const std::string& node) {
      return kernel.contains(end) || kernel.contains(node);
    };
    return ((d.producer == tensor || d.producerNode == tensor) && holds(d.consumer, d.consumerNode)) ||
           ((d.consumer == tensor || d.consumerNode == tensor) && holds(d.producer, d.producerNode));
  });
  if (named && !called.empty())
    return copied || called.contains(d.producer) || called.contains(d.consumer) || called.contains(d.producerNode) ||
           called.contains(d.consumerNode);
  // A node that the place does not lead to is no part of it, whatever it shares origins with; inside a loop there are none.
  const auto relationOf = [&](const std::string& node, const protocol::Origins& origins) {
    const auto led = related.nodes.find(node);
    return led == related.nodes.end() || led->second ? selection.relation(origins) : Relation::None;
  };
  const Relation producer = relationOf(d.producerNode, d.origins), consumer = relationOf(d.consumerNode, d.consumerOrigins);
  if (producer == Relation::Exact || consumer == Relation::Exact) return true;
  if (named) return false;
  const bool makes = producer != Relation::None, takes = consumer != Relation::None;
  return led.empty() ? makes || takes
                     : ((d.producer == led || d.producerNode == led) && (makes || takes)) ||
                           ((d.consumer == led || d.consumerNode == led) && takes);
}

class FusionDelegate : public QStyledItemDelegate {
 public:
  FusionDelegate(const Theme* theme, const FusionModel* model, const Selection* selection, const bool& decided,
                 const ExplainView::Related& related, QObject* parent)
      : QStyledItemDelegate(parent), m_theme(theme), m_model(model), m_selection(selection), m_decided(decided),
        m_related(related) {}
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const bool current = option.state & QStyle::State_Selected, selected = current && m_decided;
    const auto& d = m_model->report().decisions[static_cast<std::size_t>(index.data(FusionModel::kDecisionRole).toInt())];
    const bool related = isRelated(*m_selection, d, m_related);
    p->fillRect(option.rect, selected ? c.accentSoft : related ? mixed(c.page, c.accentSoft, 0.45) : c.page);
    // The card's row keeps its bar while something else is selected.
    if ((current || related) && index.column() == 0)
      p->fillRect(QRect(option.rect.left(), option.rect.top(), 3, option.rect.height()),
                  current ? c.accent : mixed(c.page, c.accent, 0.5));
    p->fillRect(QRect(option.rect.left(), option.rect.bottom(), option.rect.width(), 1), c.grid);
    const QRect r = option.rect.adjusted(8, 0, -8, 0);
    if (index.column() == FusionModel::kBar) {
      // Signed, about the middle; a square root keeps small ones visible, the number beside it is exact.
      const double us = index.data(Qt::UserRole).toDouble(), most = std::max(1e-9, m_model->largestReward());
      const double half = r.width() / 2.0, w = half * std::sqrt(std::min(1.0, std::abs(us) / most));
      const double middle = r.left() + half;
      p->fillRect(QRectF(us >= 0 ? middle : middle - w, r.center().y() - 4, std::max(1.5, w), 9),
                  us >= 0 ? c.optimizer : c.backward);
      p->fillRect(QRectF(middle, r.top() + 4, 1, r.height() - 8), c.separator);
      return;
    }
    int left = 0;
    QColor color = c.text;
    if (index.column() == FusionModel::kState) {
      color = c.*stateColor(d.state);
      p->drawPixmap(r.left(), r.center().y() - 7, m_theme->pixmap(stateIcon(d.state), color, p->device()->devicePixelRatioF()));
      left = 22;
      if (d.state != FusionState::Reverted) color = c.text;
    }
    const bool words =
        index.column() == FusionModel::kCategory || index.column() == FusionModel::kState || index.column() == FusionModel::kNumber;
    p->setFont(words ? m_theme->ui(12) : m_theme->mono(12));
    const QString text = index.data(Qt::DisplayRole).toString();
    p->setPen(text == QLatin1String("0") || text == QStringLiteral("–") || index.column() == FusionModel::kNumber ? c.hint : color);
    p->drawText(r.adjusted(left, 0, 0, 0), index.data(Qt::TextAlignmentRole).toInt(),
                p->fontMetrics().elidedText(text, Qt::ElideRight, r.width() - left));
  }

 private:
  const Theme* m_theme;
  const FusionModel* m_model;
  const Selection* m_selection;
  const bool& m_decided;
  const ExplainView::Related& m_related;
};

class StateProxy : public QSortFilterProxyModel {
 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void setState(int state) {
    m_state = state;
    m_kept.reset();
    invalidateFilter();
  }
  // This one stays in sight when it is decided otherwise: whoever has changed it looks at it.
  void keep(std::optional<std::pair<std::string, std::string>> producerAndConsumer) { m_kept = std::move(producerAndConsumer); }

 protected:
  bool filterAcceptsRow(int row, const QModelIndex&) const override {
    const auto& d = static_cast<const FusionModel*>(sourceModel())->report().decisions[static_cast<std::size_t>(row)];
    return m_state < 0 || static_cast<int>(d.state) == m_state ||
           (m_kept && m_kept->first == d.producer && m_kept->second == d.consumer);
  }

 private:
  int m_state = -1;
  std::optional<std::pair<std::string, std::string>> m_kept;
};

}  // namespace

ExplainView::ExplainView(const Theme* theme, Selection* selection, QWidget* parent)
    : DockPage(theme, QStringLiteral("explain"), parent), m_theme(theme), m_selection(selection),
      m_graphHeader(new PanelHeader(theme, tr("Graph"))), m_fusionHeader(new PanelHeader(theme, tr("Fusion"))),
      m_slider(new StageSlider(theme)), m_steps(new StepChooser), m_graph(new GraphView(theme, selection)),
      m_nodes(new QTableWidget), m_graphStack(new QStackedWidget), m_find(new QLineEdit), m_found(label({}, "muted")),
      m_zoom(new QToolButton), m_model(new FusionModel(this)), m_proxy(new StateProxy(this)), m_table(new QTableView),
      m_states(new QComboBox), m_none(label({}, "muted")), m_card(new DecisionCard(theme)) {
  m_waitTimer.setInterval(500);
  connect(&m_waitTimer, &QTimer::timeout, this, &ExplainView::showWaiting);
  showWaiting();
  auto* top = new QWidget;
  top->setProperty("role", QStringLiteral("page"));
  top->setAttribute(Qt::WA_StyledBackground);
  auto* topLayout = new QVBoxLayout(top);
  topLayout->setContentsMargins(0, 0, 0, 0);
  topLayout->setSpacing(0);
  m_find->setPlaceholderText(tr("Find a node"));
  m_find->setAccessibleName(tr("Find a node"));
  m_find->setMinimumWidth(84);  // narrow windows
  m_find->setMaximumWidth(168);
  QAction* search = m_find->addAction(theme->icon(QStringLiteral("search"), theme->colors().muted), QLineEdit::LeadingPosition);
  connect(theme, &Theme::changed, this,
          [this, search] { search->setIcon(m_theme->icon(QStringLiteral("search"), m_theme->colors().muted)); });
  auto* changes = new IconButton(theme, QStringLiteral("eye"), tr("What this pass changed"));
  changes->setCheckable(true);
  auto* groups = new IconButton(theme, QStringLiteral("group"));
  groups->setAccessibleName(tr("Fused groups"));
  groups->setToolTip(tr("Close or open every fused group"));
  auto* asTable = new IconButton(theme, QStringLiteral("table"), tr("As table"));
  asTable->setCheckable(true);
  auto* svg = new IconButton(theme, QStringLiteral("svg"));
  svg->setAccessibleName(tr("Save as SVG"));
  svg->setToolTip(tr("Save the graph as SVG"));
  auto* minus = new IconButton(theme, QStringLiteral("minus"));
  auto* plus = new IconButton(theme, QStringLiteral("plus"));
  minus->setAccessibleName(tr("Zoom out"));
  minus->setToolTip(tr("Zoom out (-)"));
  plus->setAccessibleName(tr("Zoom in"));
  plus->setToolTip(tr("Zoom in (+)"));
  m_zoom->setText(QStringLiteral("100 %"));
  m_zoom->setFixedWidth(48);
  m_zoom->setFocusPolicy(Qt::TabFocus);
  m_zoom->setAccessibleName(tr("Zoom, show all"));
  m_zoom->setToolTip(tr("Show all of it (0)"));
  for (QWidget* w :
       {static_cast<QWidget*>(m_steps), static_cast<QWidget*>(m_find), static_cast<QWidget*>(m_found),
        static_cast<QWidget*>(changes), static_cast<QWidget*>(groups), static_cast<QWidget*>(asTable), static_cast<QWidget*>(svg),
        static_cast<QWidget*>(minus), static_cast<QWidget*>(m_zoom), static_cast<QWidget*>(plus)})
    m_graphHeader->add(w);
  topLayout->addWidget(m_graphHeader);
  topLayout->addWidget(line());
  topLayout->addWidget(m_slider);
  topLayout->addWidget(line());
  m_nodes->setAccessibleName(tr("Nodes of the graph"));
  m_nodes->setColumnCount(7);
  m_nodes->setHorizontalHeaderLabels({tr("Node"), tr("Phase"), tr("Expression"), tr("Shape"), tr("Size"), tr("Work"), tr("Class")});
  const int nodeWidths[] = {190, 116, 0, 150, 92, 104, 120};
  for (int i = 0; i < 7; ++i) m_nodes->setColumnWidth(i, nodeWidths[i]);
  m_nodes->horizontalHeader()->setSectionResizeMode(2, QHeaderView::Stretch);
  m_nodes->setWordWrap(false);
  m_nodes->verticalHeader()->hide();
  m_nodes->verticalHeader()->setDefaultSectionSize(25);
  m_nodes->setEditTriggers(QAbstractItemView::NoEditTriggers);
  m_nodes->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_nodes->setShowGrid(false);
  m_nodes->setTabKeyNavigation(false);
  m_nodes->horizontalHeader()->setHighlightSections(false);
  m_nodes->horizontalHeader()->setFont(theme->ui(12, QFont::DemiBold));
  m_nodes->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  m_nodes->setFont(theme->mono(12));
  m_graphStack->addWidget(m_graph);
  m_graphStack->addWidget(m_nodes);
  topLayout->addWidget(m_graphStack, 1);
  auto* bottom = new QWidget;
  bottom->setProperty("role", QStringLiteral("page"));
  bottom->setAttribute(Qt::WA_StyledBackground);
  auto* bottomLayout = new QVBoxLayout(bottom);
  bottomLayout->setContentsMargins(0, 0, 0, 0);
  bottomLayout->setSpacing(0);
  m_states->addItem(tr("All states"), -1);
  for (int s = 0; s <= static_cast<int>(FusionState::Reverted); ++s) m_states->addItem(stateWord(static_cast<FusionState>(s)), s);
  m_states->setAccessibleName(tr("States shown"));
  auto* csv = new IconButton(theme, QStringLiteral("save"), tr("CSV"));
  m_fusionHeader->add(m_states);
  m_fusionHeader->add(csv);
  bottomLayout->addWidget(line());
  m_proxy->setSourceModel(m_model);
  m_proxy->setSortRole(FusionModel::kSortRole);
  m_table->setModel(m_proxy);
  m_table->setItemDelegate(new FusionDelegate(theme, m_model, selection, m_decided, m_related, this));
  m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_table->setSelectionMode(QAbstractItemView::SingleSelection);
  m_table->setShowGrid(false);
  m_table->setTabKeyNavigation(false);
  m_table->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  m_table->verticalHeader()->hide();
  m_table->verticalHeader()->setDefaultSectionSize(25);
  m_table->setSortingEnabled(true);
  m_table->sortByColumn(-1, Qt::AscendingOrder);
  m_table->horizontalHeader()->setHighlightSections(false);
  m_table->horizontalHeader()->setFont(theme->ui(12, QFont::DemiBold));
  m_table->horizontalHeader()->setMinimumSectionSize(30);
  connect(m_table->horizontalHeader(), &QHeaderView::sectionResized, this, [this](int column) {
    if (!m_fitting && m_table->horizontalHeader()->sectionResizeMode(column) == QHeaderView::Interactive) m_byHand.insert(column);
  });
  fitTable();
  connect(m_model, &QAbstractItemModel::modelReset, this, &ExplainView::fitTable);
  connect(m_model, &QAbstractItemModel::dataChanged, this, &ExplainView::fitTable);
  m_table->setAccessibleName(tr("Fusion decisions"));
  m_table->installEventFilter(this);
  m_table->viewport()->installEventFilter(this);
  auto* over = new QVBoxLayout(m_table->viewport());
  over->addWidget(m_none, 0, Qt::AlignCenter);
  m_none->hide();
  bottomLayout->addWidget(m_table, 1);
  setCentralWidget(top);
  m_card->setMinimumWidth(DecisionCard::kLeastWidth);
  addPanel(QStringLiteral("decision"), m_card->header(), m_card, Qt::RightDockWidgetArea, 376);
  addPanel(QStringLiteral("fusion"), m_fusionHeader, bottom, Qt::BottomDockWidgetArea, 330);
  connect(groups, &QToolButton::clicked, m_graph, &GraphView::toggleGroups);
  connect(m_zoom, &QToolButton::clicked, m_graph, &GraphView::fit);

  connect(m_slider, &StageSlider::chosen, this, &ExplainView::wantStage);
  m_find->installEventFilter(this);
  connect(m_find, &QLineEdit::returnPressed, this, [this] { m_graph->findNext(m_find->text()); });
  connect(m_find, &QLineEdit::textEdited, this, [this](const QString& text) { m_graph->findFirst(text); });
  connect(m_find, &QLineEdit::textChanged, this, &ExplainView::showFound);
  connect(m_graph, &GraphView::nodeChosen, this, &ExplainView::showFound);
  showFound();
  connect(changes, &QToolButton::toggled, this, [this](bool on) {
    m_graph->setHighlightChanges(on);
    showCounts();
  });
  connect(asTable, &QToolButton::toggled, this, [this](bool on) { m_graphStack->setCurrentIndex(on ? 1 : 0); });
  connect(minus, &QToolButton::clicked, this, [this] { m_graph->zoomBy(0.8); });
  connect(plus, &QToolButton::clicked, this, [this] { m_graph->zoomBy(1.25); });
  connect(m_graph, &GraphView::zoomChanged, this,
          [this](double zoom) { m_zoom->setText(QStringLiteral("%1 %").arg(static_cast<int>(zoom * 100 + 0.5))); });
  connect(svg, &QToolButton::clicked, this, [this] {
    const QString path = askSavePath(this, tr("Save the graph"), QStringLiteral("graph.svg"), tr("SVG (*.svg)"));
    if (!path.isEmpty()) m_graph->saveSvg(path);
  });
  connect(csv, &QToolButton::clicked, this, [this] {
    const QString path = askSavePath(this, tr("Save the decisions"), QStringLiteral("fusion.csv"), tr("CSV (*.csv)"));
    if (path.isEmpty()) return;
    if (const QString error = writeWhole(path, m_model->csv().toStdString()); !error.isEmpty())
      m_fusionHeader->setDetail(tr("%1 was not written: %2").arg(QFileInfo(path).fileName(), error));
  });
  // The current row is another matter: a table that gets the keyboard gives itself one.
  connect(m_nodes->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    const QModelIndexList rows = m_nodes->selectionModel()->selectedRows();
    if (!m_marking && rows.size() == 1) m_graph->choose(rows.front().data(Qt::UserRole).toString(), true);
  });
  connect(selection, &Selection::changed, this, &ExplainView::markSelection);
  connect(m_states, &QComboBox::currentIndexChanged, this, [this] { filterStates(m_states->currentData().toInt()); });
  connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& now) {
    if (!m_filtering) showDecision(m_proxy->mapToSource(now).row(), !m_marking);
  });
  // The row of a decision that is not selected any more is the current one still.
  for (const auto again : {&QTableView::clicked, &QTableView::activated})
    connect(m_table, again, this, [this](const QModelIndex& row) {
      if (!m_decided) showDecision(m_proxy->mapToSource(row).row(), true);
    });
  connect(m_graph, &GraphView::nodeChosen, this, [this] {
    m_decided = false;
    m_table->viewport()->update();
  });
  connect(m_graph, &GraphView::groupChosen, this, [this] {
    m_decided = false;
    m_table->viewport()->update();
  });
  connect(m_card, &DecisionCard::measureRequested, this, [this] {
    if (const auto* d = chosenDecision()) m_measuring = *d;
  });
  connect(m_card, &DecisionCard::hintRequested, this, [this](Document::FusionHint hint) {
    if (const auto* d = chosenDecision())
      Q_EMIT hintRequested(QString::fromStdString(d->producer), QString::fromStdString(d->consumer), hint);
  });
}

// Columns are as wide as what they say, and the pair has what the others leave. A narrow table is scrolled sideways: what was decided comes
// first there, the terms of R, which the card draws as well, last. What somebody made as wide as it is stays so.
void ExplainView::fitTable() {
  using M = FusionModel;
  constexpr int kLeastPair = 190, kElidedPair = 90, kBarWidth = 90, kBeside = 16, kIcon = 22,
                kMostRows = 500;  // px; rows that are measured
  constexpr int kFirst[M::kColumns] = {M::kNumber,  M::kPair, M::kState,   M::kBar,       M::kReward, M::kMeasured, M::kCategory,
                                       M::kTraffic, M::kWork, M::kKernels, M::kTrafficUs, M::kWorkUs, M::kLaunchUs};
  QHeaderView* header = m_table->horizontalHeader();
  const QFontMetrics heads(header->font()), figures(m_theme->mono(12)), words(m_theme->ui(12));
  int widths[M::kColumns], others = 0;
  for (int c = 0; c < M::kColumns; ++c) {
    const bool spoken = c == M::kCategory || c == M::kState || c == M::kNumber;
    int widest = heads.horizontalAdvance(m_model->headerData(c, Qt::Horizontal, Qt::DisplayRole).toString());
    for (int row = 0; row < std::min(m_model->rowCount(), kMostRows); ++row) {
      const QString text = m_model->data(m_model->index(row, c), Qt::DisplayRole).toString();
      widest = std::max(widest, (spoken ? words : figures).horizontalAdvance(text) + (c == M::kState ? kIcon : 0));
    }
    widths[c] = std::max(header->minimumSectionSize(), c == M::kBar ? kBarWidth : widest + kBeside + 4);
    if (m_byHand.contains(c)) widths[c] = header->sectionSize(c);
    if (c != M::kPair) others += widths[c];
  }
  const int room = m_table->viewport()->width() - others;
  const bool narrow = room < std::min(kLeastPair, widths[M::kPair]);
  m_fitting = true;
  header->setSectionResizeMode(M::kPair, narrow ? QHeaderView::Interactive : QHeaderView::Stretch);
  for (int c = 0; c < M::kColumns; ++c)
    if (c != M::kPair) header->resizeSection(c, widths[c]);
  // What a measurement writes moves no column while somebody reads: the names give way to it, so that the state stays in sight.
  const bool read = m_orderedAt == m_table->viewport()->width() && m_model->rowCount() > 0;
  if (narrow && !m_byHand.contains(M::kPair))
    header->resizeSection(M::kPair, read && !m_narrow
                                        ? std::max(kElidedPair, room)
                                        : std::min(widths[M::kPair], std::max(kLeastPair, m_table->viewport()->width() * 2 / 5)));
  m_fitting = false;
  if (m_model->rowCount() > 0) m_orderedAt = m_table->viewport()->width();
  if (narrow == m_narrow || read) return;
  m_narrow = narrow;
  for (int i = 0; i < M::kColumns; ++i) header->moveSection(header->visualIndex(narrow ? kFirst[i] : i), i);
}

bool ExplainView::eventFilter(QObject* watched, QEvent* event) {
  if (watched == m_table->viewport() && event->type() == QEvent::Resize) {
    fitTable();
    revealRelated(relatedDecisions());
    // The card may have grown over it.
    if (m_decided && m_table->currentIndex().isValid()) bringIntoSight(m_table->currentIndex());
  }
  // A table that gets the focus would choose its first row, as when a button of the card is hidden.
  if (watched == m_table && event->type() == QEvent::FocusIn && !m_table->currentIndex().isValid()) {
    m_table->viewport()->update();
    return true;
  }
  const bool key = event->type() == QEvent::KeyPress || event->type() == QEvent::ShortcutOverride;
  if (watched == m_find && key && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
    event->accept();
    if (event->type() == QEvent::ShortcutOverride) return true;
    // At the node that was found.
    m_find->clear();
    m_graphStack->currentWidget()->setFocus(Qt::OtherFocusReason);
    return true;
  }
  return DockPage::eventFilter(watched, event);
}

std::vector<int> ExplainView::relatedDecisions() const {
  std::vector<int> out;
  const auto& decisions = m_model->report().decisions;
  for (std::size_t i = 0; i < decisions.size(); ++i)
    if (isRelated(*m_selection, decisions[i], m_related)) out.push_back(static_cast<int>(i));
  return out;
}

// The card, and where it is `select`ed the edge and the source as well.
void ExplainView::showDecision(int i, bool select) {
  if (i < 0) return m_card->clear();
  const auto& d = m_model->report().decisions[static_cast<std::size_t>(i)];
  m_card->setDecision(i + 1, d, m_model->report().device, m_hints ? m_hints(d.producer, d.consumer) : Document::FusionHint::None);
  if (const auto* comparison = comparisonOf(d)) m_card->setComparison(*comparison);
  if (select) {
    m_pair.emplace(d.producer, d.consumer);
    m_deciding = true;
    protocol::Origins both = d.origins;
    both.insert(both.end(), d.consumerOrigins.begin(), d.consumerOrigins.end());
    std::ranges::sort(both);
    both.erase(std::ranges::unique(both).begin(), both.end());
    m_selection->select(both, {d.producer, d.consumer});
    m_deciding = false;
    m_decided = true;
    m_decisionChoice = m_selection->choices();
    m_graph->setDecision(QString::fromStdString(d.producerNode), QString::fromStdString(d.consumerNode),
                         QStringLiteral("R %1 µs").arg(plusMinus(d.R * 1e6)));
    m_table->viewport()->update();
  }
  Q_EMIT decisionChosen();
}

// What was selected elsewhere lights up in the tables, too: rows of decisions are tinted, those of nodes selected.
void ExplainView::markSelection() {
  // Decisions are about the operators of the plan, whatever stage is in sight.
  const GraphPage &shown = m_graph->graph(), &planned = plannedGraph();
  const auto& nodes = shown.nodes;
  const bool same = planned.stage == shown.stage && planned.revision == shown.revision && planned.nodes.size() == nodes.size();
  const auto calledIn = [this](const GraphPage& graph) {
    auto names = calledNames(graph, *m_selection);
    if (std::ranges::none_of(graph.nodes, [&](const GraphNode& n) { return names.contains(n.id); })) names.clear();
    return names;
  };
  m_related.called = calledIn(planned);
  // What is read there, else what the place is part of making; of equal statements the one that computes both.
  m_related.led = m_selection->reads();
  for (const GraphNode& node : planned.nodes)
    if (std::ranges::any_of(node.merged, [this](const MergedOperator& m) { return m.name == m_selection->reads(); }))
      m_related.led = node.id;
  m_related.again.clear();
  for (const GraphNode& node : planned.nodes) {
    if (!isAgain(planned, node) || !m_selection->isCalled(node.id)) continue;
    auto& [tensor, kernel] = m_related.again.emplace_back(tensorOf(planned, node), std::set<std::string>());
    for (const auto& group : planned.groups)
      if (std::ranges::find(group.nodes, node.id) != group.nodes.end())
        for (const GraphNode& other : planned.nodes)
          if (std::ranges::find(group.nodes, other.id) != group.nodes.end()) kernel.insert(tensorOf(planned, other));
  }
  m_byPlace = m_selection->byPlace() ? ledTo(shown, *m_selection, m_selection->reads()) : std::vector<bool>();
  m_plannedByPlace = same || !m_selection->byPlace() ? m_byPlace : ledTo(planned, *m_selection, m_selection->reads());
  m_related.nodes.clear();
  for (std::size_t i = 0; i < std::min(planned.nodes.size(), m_plannedByPlace.size()); ++i)
    m_related.nodes.emplace(planned.nodes[i].id, m_plannedByPlace[i]);
  m_related.inBody = m_selection->body().empty() ? std::set<std::string>() : ledOperators();
  if (!m_deciding && m_selection->choices() != m_decisionChoice) {
    m_decided = false;
    const auto* chosen = chosenDecision();
    if (chosen && !m_selection->empty() && !isRelated(*m_selection, *chosen, m_related)) {
      m_pair.reset();
      m_marking = true;
      m_table->setCurrentIndex({});
      m_marking = false;
      m_card->clear();
      Q_EMIT decisionChosen();
    }
  }
  m_table->viewport()->update();
  const auto related = relatedDecisions();
  m_card->setRelated(related);
  revealRelated(related);
  m_marking = true;
  QItemSelection rows;
  const bool byPlace = m_selection->tensors().empty() || leadsToOperator(shown, m_byPlace);
  const std::set<std::string> called = same || byPlace ? m_related.called : calledIn(shown);
  for (int i = 0; i < m_nodes->rowCount() && i < static_cast<int>(nodes.size()); ++i)
    if (byPlace ? m_byPlace[static_cast<std::size_t>(i)] : called.contains(nodes[static_cast<std::size_t>(i)].id))
      rows.select(m_nodes->model()->index(i, 0), m_nodes->model()->index(i, m_nodes->columnCount() - 1));
  m_nodes->selectionModel()->select(rows, QItemSelectionModel::ClearAndSelect);
  m_marking = false;
}

void ExplainView::bringIntoSight(const QModelIndex& row) {
  m_table->visualRect(row);  // lays out the rows that just came: Qt does not scroll to one without
  m_table->scrollTo(row);
}

void ExplainView::revealRelated(const std::vector<int>& related) {
  m_revealed = related;
  if (related.empty() || m_table->hasFocus()) return;
  const QModelIndex now = m_table->currentIndex();
  const int row = now.isValid() ? m_proxy->mapToSource(now).row() : -1;
  if (std::find(related.begin(), related.end(), row) != related.end()) return;
  const QModelIndex first = m_proxy->mapFromSource(m_model->index(related.front(), 0));
  bringIntoSight(first);
}

const GraphPage& ExplainView::plannedGraph() const {
  const GraphPage* plan = m_graph->plan();
  return plan && plan->revision == m_graph->graph().revision ? *plan : m_graph->graph();
}

std::set<std::string> ExplainView::ledOperators() const {
  std::set<std::string> operators;
  const auto& nodes = plannedGraph().nodes;
  if (!leadsToOperator(plannedGraph(), m_plannedByPlace)) return operators;
  for (std::size_t i = 0; i < std::min(nodes.size(), m_plannedByPlace.size()); ++i)
    if (m_plannedByPlace[i]) operators.insert(nodes[i].id);
  return operators;
}

void ExplainView::showFound() {
  const auto hits = m_graph->found(m_find->text());
  const auto& nodes = m_graph->graph().nodes;
  const auto here = std::find_if(hits.begin(), hits.end(),
                                 [&](std::size_t i) { return QString::fromStdString(nodes[i].id) == m_graph->chosen(); });
  m_found->setText(hits.empty()         ? tr("nothing")
                   : here == hits.end() ? tr("%1 found").arg(hits.size())
                                        : tr("%1 of %2").arg(here - hits.begin() + 1).arg(hits.size()));
  m_found->setVisible(!m_find->text().isEmpty());
}

QString ExplainView::counts() const { return m_graphHeader->detail(); }

QString ExplainView::foundText() const { return m_find->text().isEmpty() ? QString() : m_found->text(); }

void ExplainView::setPlan(const GraphPage& plan) { m_graph->setPlan(plan); }

void ExplainView::setSubgraphs(const std::vector<SubgraphInfo>& subgraphs) { m_graph->setSubgraphs(subgraphs); }

// With what the pass changed while that is looked for.
void ExplainView::showCounts() {
  QStringList parts{m_counts};
  if (m_graph->highlightsChanges()) {
    if (m_added > 0) parts << tr("%1 added").arg(m_added);
    if (m_changed > 0) parts << tr("%1 changed").arg(m_changed);
    if (m_stage == QLatin1String("fused") && m_fused > 0)
      parts << counted(m_fused, tr("kernel of several"), tr("kernels of several"));
    if (parts.size() == 1) parts << tr("nothing that this pass added or changed");
  }
  m_graphHeader->setDetail(parts.join(QStringLiteral(", ")));
}

void ExplainView::wantStage(const QString& stage) {
  m_stage = stage;
  m_slider->setCurrent(stage);
  Q_EMIT stageWanted(stage);
}

void ExplainView::setGraph(const GraphPage& graph) {
  m_stage = QString::fromStdString(graph.stage);
  m_slider->setStages(graph.stages);
  m_slider->setCurrent(m_stage);
  m_graph->setGraph(graph);
  m_counts = counted(static_cast<std::int64_t>(graph.nodes.size()), tr("node"), tr("nodes")) + QStringLiteral(", ") +
             counted(static_cast<std::int64_t>(graph.edges.size()), tr("edge"), tr("edges"));
  m_added = std::ranges::count_if(graph.nodes, &GraphNode::added);
  m_changed = std::ranges::count_if(graph.nodes, [](const GraphNode& n) { return n.changed && !n.added; });
  m_fused = std::ranges::count_if(graph.groups, [](const GraphGroup& g) { return g.nodes.size() > 1; });
  showCounts();
  showFound();
  const int rows = static_cast<int>(std::min<std::size_t>(graph.nodes.size(), 5000));
  m_marking = true;
  m_nodes->setRowCount(rows);
  const QStringList captions = captionsOf(graph);
  constexpr auto phases = enumNames(Phase{});
  constexpr auto kinds = enumNames(NodeKind{});
  for (int i = 0; i < rows; ++i) {
    const auto& n = graph.nodes[static_cast<std::size_t>(i)];
    const QString cells[] = {shortName(n.id),
                             n.outsideStep                  ? tr("outside the step")
                             : n.kind == NodeKind::Operator ? QString(QLatin1String(phases[static_cast<std::size_t>(n.phase)]))
                                                            : QString(QLatin1String(kinds[static_cast<std::size_t>(n.kind)])),
                             n.statement.empty() ? captions[i] : shortName(n.statement),
                             shapeText(n.shape),
                             bytesText(static_cast<double>(n.bytes)),
                             n.flops > 0 ? flopsText(static_cast<double>(n.flops)) : QString(),
                             QString::fromStdString(n.category)};
    for (int k = 0; k < 7; ++k) m_nodes->setItem(i, k, new QTableWidgetItem(cells[k]));
    m_nodes->item(i, 0)->setData(Qt::UserRole, QString::fromStdString(n.id));
    m_nodes->item(i, 2)->setToolTip(QString::fromStdString(n.statement));
  }
  markSelection();
}

void ExplainView::setFusion(const FusionReport& report) {
  if (m_table->currentIndex().isValid()) static_cast<StateProxy*>(m_proxy)->keep(m_pair);
  m_model->setReport(report);
  greyDecisions();
  for (const auto& d : report.decisions)
    if (const auto* comparison = comparisonOf(d))  // newer than what is on record
      m_model->setMeasured(d.producer, d.consumer, comparison->saving);
  const auto inState = [&report](FusionState state) {
    return std::count_if(report.decisions.begin(), report.decisions.end(), [state](const auto& d) { return d.state == state; });
  };
  const QString forced = inState(FusionState::Forced) > 0 ? tr(", %1 forced").arg(inState(FusionState::Forced)) : QString();
  m_fusionHeader->setDetail(counted(static_cast<std::int64_t>(report.decisions.size()), tr("decision"), tr("decisions")) +
                            tr(", %1 accepted").arg(inState(FusionState::Accepted)) + forced +
                            tr("; in the order of acceptance, by R as it was then, in seconds saved; optimistic on purpose"));
  showNone();
  if (const int chosen = chosenRow(); chosen >= 0) {
    m_marking = !m_decided;
    chooseDecision(chosen);
    m_marking = false;
    return;
  }
  const auto related = relatedDecisions();
  m_card->setRelated(related);
  m_card->clear();
  m_decided = false;
  if (m_revealed != related) revealRelated(related);
}

void ExplainView::setComparison(const DecisionCard::Comparison& comparison) {
  const auto begun = std::exchange(m_measuring, std::nullopt);
  for (const auto& d : m_model->report().decisions) {
    if (d.producer != comparison.producer || d.consumer != comparison.consumer) continue;
    const FusionDecisionInfo& was = begun && begun->producer == d.producer && begun->consumer == d.consumer ? *begun : d;
    m_compared[{d.producer, d.consumer}] = {comparison, was.state, was.dT, was.dC, was.dK, was.parts};
    if (!comparisonOf(d)) return m_card->setComparisonFailed(tr("it was decided anew meanwhile"));
    break;
  }
  m_card->setComparison(comparison);
  m_model->setMeasured(comparison.producer, comparison.consumer, comparison.saving);
}

void ExplainView::setComparisonFailed(const QString& message) {
  m_measuring.reset();
  m_card->setComparisonFailed(message);
}

// What was measured of a decision holds while it is decided alike, by the same terms, of the same kernels: it survives the page and the
// engine that measured it. A reward is no such term: it moves with the device's constants, which another engine measures anew.
const DecisionCard::Comparison* ExplainView::comparisonOf(const FusionDecisionInfo& d) const {
  const auto found = m_compared.find({d.producer, d.consumer});
  if (found == m_compared.end()) return nullptr;
  const Compared& was = found->second;
  const bool same = was.state == d.state && was.dT == d.dT && was.dC == d.dC && was.dK == d.dK && was.parts == d.parts;
  return same ? &was.comparison : nullptr;
}

void ExplainView::chooseDecision(int number) {
  if (number < 0 || number >= m_model->rowCount()) return;
  const QModelIndex index = m_proxy->mapFromSource(m_model->index(number, 0));
  // The states that are shown may leave it out.
  if (!index.isValid()) return showDecision(number, !m_marking);
  m_table->setCurrentIndex(index);
  if (!m_marking && !m_decided) showDecision(number, true);  // it was the current one
  bringIntoSight(index);
}

void ExplainView::selectDecision() {
  if (!m_decided) chooseDecision(chosenRow());
}

// The decision in the card stays, among the rows or not.
void ExplainView::filterStates(int state) {
  m_filtering = true;
  static_cast<StateProxy*>(m_proxy)->setState(state);
  const int chosen = chosenRow();
  const QModelIndex index = chosen < 0 ? QModelIndex() : m_proxy->mapFromSource(m_model->index(chosen, 0));
  m_table->setCurrentIndex(index);
  if (index.isValid()) bringIntoSight(index);
  m_filtering = false;
  showNone();
}

void ExplainView::showNone() {
  const int all = m_model->rowCount();
  m_none->setText(tr("None of the %1 is %2.").arg(counted(all, tr("decision"), tr("decisions")), m_states->currentText()));
  m_none->setVisible(all > 0 && m_proxy->rowCount() == 0);
}

// Its number is another when the table is decided anew.
int ExplainView::chosenRow() const {
  const auto& decisions = m_model->report().decisions;
  const auto found = std::find_if(decisions.begin(), decisions.end(), [this](const FusionDecisionInfo& d) {
    return m_pair && d.producer == m_pair->first && d.consumer == m_pair->second;
  });
  return found == decisions.end() ? -1 : static_cast<int>(found - decisions.begin());
}

const FusionDecisionInfo* ExplainView::chosenDecision() const {
  const int chosen = chosenRow();
  return chosen < 0 ? nullptr : &m_model->report().decisions[static_cast<std::size_t>(chosen)];
}

void ExplainView::reset() {
  m_find->clear();
  m_states->setCurrentIndex(0);
  m_orderedAt = -1;
  m_stage = QStringLiteral("fused");
  m_slider->setCurrent(m_stage);
  m_slider->clear();
  m_nodes->setRowCount(0);
  m_graph->reset();
  m_graph->setDecision({}, {}, {});
  m_decided = false;
  m_compared.clear();
  m_pair.reset();
  m_measuring.reset();
  setFusion({});
  m_graphHeader->setDetail({});
  m_fusionHeader->setDetail({});
}

void ExplainView::setRevision(std::uint64_t revision) {
  m_revision = revision;
  m_graph->setRevision(revision);
  greyDecisions();
}

void ExplainView::movePlaces(const MovedPlaces& moved) {
  m_graph->movePlaces(moved);
  m_model->movePlaces(moved);
}

void ExplainView::takePlaces(const GraphPage& newer) {
  m_graph->takePlaces(newer);
  markSelection();
}

void ExplainView::greyDecisions() {
  const bool old = !m_model->report().decisions.empty() && m_model->report().revision < m_revision;
  setGreyed(m_table, old);
  setGreyed(m_card, old);
}

void ExplainView::setWaiting(bool waiting) {
  if (waiting == m_waitTimer.isActive()) return;
  waiting ? m_waitTimer.start() : m_waitTimer.stop();
  m_waitBegan.start();
  showWaiting();
}

void ExplainView::setEngineGone(bool gone) {
  if (std::exchange(m_engineGone, gone) != gone) showWaiting();
}

void ExplainView::showWaiting() {
  if (m_engineGone) return m_graph->setNothing(tr("The graph of the operators stands here when the engine runs again."));
  if (!m_waitTimer.isActive()) {
    m_graph->setNothing(tr("The graph of the operators stands here as soon as one of them is free of errors."));
    return;
  }
  const double seconds = static_cast<double>(m_waitBegan.elapsed()) / 1000;
  m_graph->setNothing(seconds < 1 ? tr("Deciding which operators share a kernel")
                                  : tr("Deciding which operators share a kernel: %1").arg(secondsText(seconds)));
}

}  // namespace nf
