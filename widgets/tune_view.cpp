// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/tune_view.h"

#include <QComboBox>
#include <QEvent>
#include <QGridLayout>
#include <QLabel>
#include <QListWidget>
#include <QPainter>
#include <QPushButton>
#include <QResizeEvent>
#include <QScrollArea>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QTimer>
#include <QVBoxLayout>

#include "widgets/basic.h"
#include "widgets/graph_names.h"
#include "widgets/keep_focus.h"
#include "widgets/kernel_view.h"
#include "widgets/names.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/step_chooser.h"
#include "widgets/tune_trials.h"

namespace nf {

using namespace protocol;

namespace {

// One subgraph: state, name, newest time; kind, gainText(); its share of the budget.
class SubgraphDelegate : public QStyledItemDelegate {
 public:
  SubgraphDelegate(const Theme* theme, const std::vector<SubgraphInfo>* subgraphs,
                   std::function<bool(const std::string&)> holdsSelected, QObject* parent)
      : QStyledItemDelegate(parent), m_theme(theme), m_subgraphs(subgraphs), m_holdsSelected(std::move(holdsSelected)) {}
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {100, 58}; }
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const auto i = static_cast<std::size_t>(index.row());
    if (i >= m_subgraphs->size()) return;
    const SubgraphInfo& s = (*m_subgraphs)[i];
    const QRect r = option.rect;
    const bool shown = option.state & QStyle::State_Selected;
    if (shown) p->fillRect(r, c.accentSoft);
    if (shown || m_holdsSelected(s.id)) p->fillRect(QRect(r.left(), r.top(), 3, r.height()), c.accent);
    p->fillRect(QRect(r.left(), r.bottom(), r.width(), 1), c.grid);
    QString icon = QStringLiteral("stale");
    QColor color = c.muted;
    switch (s.state) {
      case SubgraphState::Waiting: break;
      case SubgraphState::Searching: icon = QStringLiteral("running"), color = c.accent; break;
      case SubgraphState::Done:
        if (s.us) icon = QStringLiteral("ok"), color = c.proved;
        break;
      case SubgraphState::Pinned: icon = QStringLiteral("pin"), color = c.text; break;
    }
    p->drawPixmap(r.left() + 12, r.top() + 9, m_theme->pixmap(icon, color, p->device()->devicePixelRatioF()));
    const QRect inner(r.left() + 34, r.top() + 7, r.width() - 48, 18);
    const QString us = !s.us && s.state == SubgraphState::Waiting ? QStringLiteral("–") : timeText(s);
    const QColor ink = index.data(Qt::ForegroundRole).value<QBrush>().color();
    p->setFont(s.us ? m_theme->mono(13) : m_theme->ui(12));
    p->setPen(s.us ? ink : c.muted);
    const int w = p->fontMetrics().horizontalAdvance(us);
    p->drawText(inner, Qt::AlignVCenter | Qt::AlignRight, us);
    p->setFont(m_theme->mono(13));
    p->setPen(ink);
    p->drawText(inner.adjusted(0, 0, -w - 8, 0), Qt::AlignVCenter,
                elidedName(p->fontMetrics(), index.data(Qt::DisplayRole).toString(), inner.width() - w - 8));
    p->setFont(m_theme->ui(12));
    p->setPen(c.muted);
    const QRect second = inner.translated(0, 18);
    const QString gain = index.data(Qt::AccessibleDescriptionRole).toString();
    p->drawText(second, Qt::AlignVCenter | Qt::AlignRight, gain);
    QString kind = QString::fromStdString(s.kind);
    if (!s.loop.empty()) kind += QObject::tr(", in the loop of %1").arg(shortName(s.loop));
    const QString count =
        s.trials > 0 ? QStringLiteral(", ") + counted(s.trials, QObject::tr("trial"), QObject::tr("trials")) : QString();
    const int room = second.width() - p->fontMetrics().horizontalAdvance(gain) - 6;
    const int left = room - p->fontMetrics().horizontalAdvance(count);
    // Where both have no room the kind stays: the number is in the tip.
    const QString words = left > 24 ? p->fontMetrics().elidedText(kind, Qt::ElideRight, left) + count
                                    : p->fontMetrics().elidedText(kind, Qt::ElideRight, std::max(0, room));
    p->drawText(second.adjusted(0, 0, room - second.width(), 0), Qt::AlignVCenter, words);
    p->fillRect(QRect(inner.left(), r.bottom() - 9, inner.width(), 3), c.separator);
    p->fillRect(QRectF(inner.left(), r.bottom() - 9, inner.width() * std::clamp(s.budgetShare, 0.0, 1.0), 3),
                s.state == SubgraphState::Searching ? c.accent : c.muted);
  }

 private:
  const Theme* m_theme;
  const std::vector<SubgraphInfo>* m_subgraphs;
  std::function<bool(const std::string&)> m_holdsSelected;
};

constexpr const char* kEngineGone = "engineGone";

// Says what will stand here while nothing does.
class SubgraphList : public QListWidget {
 public:
  explicit SubgraphList(const Theme* theme) : m_theme(theme) {}

 protected:
  void paintEvent(QPaintEvent* event) override {
    QListWidget::paintEvent(event);
    if (count() > 0) return;
    QPainter p(viewport());
    p.setFont(m_theme->ui(12));
    p.setPen(m_theme->colors().muted);
    p.drawText(viewport()->rect().adjusted(16, 8, -12, -8), Qt::AlignCenter | Qt::TextWordWrap,
               property(kEngineGone).toBool() ? tr("The kernels stand here when the engine runs again.")
                                              : tr("The kernels of what the notebook computes stand here."));
  }
  // What stands above grows while a run goes on.
  void resizeEvent(QResizeEvent* event) override {
    const bool inSight = currentItem() && visualItemRect(currentItem()).intersects(QRect({}, event->oldSize()));
    QListWidget::resizeEvent(event);
    if (inSight) scrollToItem(currentItem());
  }

 private:
  const Theme* m_theme;
};

// Grows with its words and does not shrink with them: what stands around it keeps its place while somebody uses it.
class SteadyLabel : public QLabel {
 public:
  int heightForWidth(int width) const override {
    int& most = m_most[width];
    return most = std::max(most, QLabel::heightForWidth(width));
  }

 protected:
  void changeEvent(QEvent* event) override {
    if (event->type() == QEvent::FontChange) m_most.clear();
    QLabel::changeEvent(event);
  }

 private:
  mutable std::map<int, int> m_most;  // by width
};

QLabel* steadyMuted() {
  auto* steady = new SteadyLabel;
  steady->setTextFormat(Qt::PlainText);
  steady->setProperty("role", QStringLiteral("muted"));
  return steady;
}

}  // namespace

// ---------------------------------------------------------------- layout
TuneView::TuneView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_budget(label({})), m_spent(steadyMuted()),
      m_byHand(label({}, "muted")), m_now(new ElidedLabel("muted")), m_reason(steadyMuted()), m_share(new BudgetSlider(theme)),
      m_steps(new StepChooser), m_list(new SubgraphList(theme)), m_roofHeader(new PanelHeader(theme, tr("Roofline"))),
      m_trialsHeader(new PanelHeader(theme, tr("Trials"))), m_latencyHeader(new PanelHeader(theme, tr("Step latency"))),
      m_knobHeader(new PanelHeader(theme, tr("Knobs"))), m_lineageHeader(new PanelHeader(theme, tr("Lineage"))),
      m_knobBox(new QWidget), m_lineageBox(new QWidget), m_besideKnobs(new QVBoxLayout), m_belowKnobs(new QVBoxLayout),
      m_lineage(new SteadyLabel), m_result(label({}, "muted")), m_pin(new QPushButton(tr("Pin"))),
      m_replay(new QPushButton(tr("Replay"))), m_measure(new QPushButton(tr("Measure"))), m_tune(new QPushButton(tr("Tune"))),
      m_legend(new TrialsLegend(theme)), m_trials(new TrialsPlot(theme)), m_generations(new GenerationStrip(theme)),
      m_latency(new LatencyPlot(theme, false)), m_loss(new LossPlot(theme, false)), m_profile(new ProfileView(theme)),
      m_roofline(new RooflinePlot(theme)), m_kernel(new KernelView(theme, selection)), m_kernelTimer(new QTimer(this)),
      m_spaceTimer(new QTimer(this)), m_shareTimer(new QTimer(this)), m_play(new QTimer(this)),
      m_columns(new QSplitter(Qt::Horizontal)), m_rows(new QSplitter(Qt::Vertical)) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  m_columns->setHandleWidth(1);
  m_columns->addWidget(makeLeft());
  m_columns->addWidget(makeMiddle());
  m_columns->addWidget(makeRight());
  m_columns->setStretchFactor(0, 0);
  m_columns->setStretchFactor(1, 1);
  m_columns->setStretchFactor(2, 1);
  m_columns->setSizes({264, 690, 646});
  layout->addWidget(m_columns);

  // A playhead in motion asks for one kernel and then for none; where it rests, that one is made.
  m_kernelTimer->setSingleShot(true);
  m_kernelTimer->setInterval(120);
  connect(m_kernelTimer, &QTimer::timeout, this, [this] {
    if (std::exchange(m_kernelPending, false)) Q_EMIT trialWanted(m_current, m_asked);
  });
  m_spaceTimer->setSingleShot(true);
  m_spaceTimer->setInterval(120);
  connect(m_spaceTimer, &QTimer::timeout, this, [this] {
    if (!m_knobs.empty() && !told()) Q_EMIT spaceWanted(m_current, chosenSchedule());
  });
  m_shareTimer->setSingleShot(true);
  m_shareTimer->setInterval(100);
  connect(m_shareTimer, &QTimer::timeout, this, [this] { Q_EMIT budgetRequested(m_share->value() / 100.0); });
  m_play->setInterval(500);
  connect(m_play, &QTimer::timeout, this, [this] {
    const int at = m_generations->current(), last = static_cast<int>(m_generations->generations().size()) - 1;
    if (at < last) m_generations->step(1);
    if (at >= last - 1) m_playButton->setChecked(false);
  });

  connect(m_list, &QListWidget::currentRowChanged, this, [this](int row) {
    if (row < 0 || static_cast<std::size_t>(row) >= m_subgraphs.size()) return;
    if (const std::string id = m_subgraphs[static_cast<std::size_t>(row)].id; id != m_current) pick(id);
  });
  // A press on the row that is shown already chooses it, too: something else may be what is selected.
  const auto pickShown = [this] {
    if (m_selection->empty() || m_led != m_selection->choices()) pick(m_current);
  };
  connect(m_list, &QListWidget::itemPressed, this, pickShown);
  connect(m_list, &QListWidget::itemActivated, this, pickShown);
  connect(m_trials, &TrialsPlot::trialChosen, this, [this](std::uint64_t number) { chooseTrial(number); });
  connect(m_generations, &GenerationStrip::trialChosen, this, [this](std::uint64_t number) { chooseTrial(number); });
  connect(m_roofline, &RooflinePlot::subgraphChosen, this, &TuneView::pick);
  connect(m_profile, &ProfileView::kernelChosen, this, &TuneView::pick);
  connect(m_profile, &ProfileView::launchChosen, this, [this](const protocol::TimelineSite& site) {
    if (!knows(site.subgraph)) return;
    // Its origins are those of the notebook as it was profiled.
    if (!profileIsNow()) return pick(site.subgraph);
    if (site.subgraph != m_current) chooseSubgraph(site.subgraph);
    if (!site.origins.empty() || !site.operators.empty()) lead(site.origins, site.operators);
  });
  m_profile->setSelected([this](const protocol::TimelineSite& site) {
    return !m_selection->empty() && (profileIsNow() || !m_selection->tensors().empty()) &&
           m_selection->relation(site.operators, site.origins) == Selection::Relation::Exact;
  });
  m_profile->setHolds([this](const std::string& subgraph) { return holdsSelected(subgraph); });
  connect(selection, &Selection::changed, m_profile, &ProfileView::refreshSelected);
  connect(selection, &Selection::changed, m_list->viewport(), qOverload<>(&QWidget::update));
  connect(m_profile, &ProfileView::profileWanted, this, &TuneView::profileWanted);
  connect(m_latency, &LatencyPlot::swapChosen, this, [this](const KernelSwapEvent& swap) {
    if (swap.split || !knows(swap.subgraph)) return;
    if (swap.subgraph != m_current) pick(swap.subgraph);
    chooseTrial(std::nullopt);
  });
  connect(m_share, &QSlider::valueChanged, this, [this] {
    showBudget();
    if (m_settingShare) return;
    m_sinceShare.start();
    if (!m_shareTimer->isActive()) m_shareTimer->start();
  });
  connect(m_measure, &QPushButton::clicked, this, [this] {
    const JsonText wanted = chosenSchedule();
    // A schedule that has a figure is measured again beside it: two runs of one kernel make none of them faster.
    if (const auto known = measuredAlready(m_trialList, shownTrial(), wanted)) {
      if (*known != m_trial) chooseTrial(*known);
      setReplaying(*known);
      return Q_EMIT replayRequested(m_current, *known, wanted);
    }
    setMeasuring();
    const TrialInfo* base = m_trial || !pinned() ? shownTrial() : nullptr;
    Q_EMIT measureRequested(m_current, wanted, base ? std::optional(base->number) : std::nullopt);
  });
  connect(m_tune, &QPushButton::clicked, this, &TuneView::tuneRequested);
  connect(m_replay, &QPushButton::clicked, this, [this] {
    const TrialInfo* t = shownTrial();
    if (!t) return;
    const TrialInfo trial = *t;
    setReplaying(trial.number);
    Q_EMIT replayRequested(m_current, trial.number, trial.schedule);
  });
  connect(m_pin, &QPushButton::clicked, this, [this] {
    const SubgraphInfo* s = subgraph();
    if (!s || s->pinTensor.empty()) return;
    const std::string tensor = s->pinTensor;
    if (pinned()) Q_EMIT unpinRequested(tensor);
    else Q_EMIT pinRequested(tensor, chosenSchedule());
    refreshPin();
  });
  connect(m_kernel, &KernelView::comparisonWanted, this, [this](std::optional<std::uint64_t> number) {
    m_compared = number;
    if (number) Q_EMIT trialWanted(m_current, number);
  });
  connect(selection, &Selection::changed, this, &TuneView::markSelection);
  const auto dress = [this] {
    m_pin->setIcon(m_theme->icon(QStringLiteral("pin")));
    m_replay->setIcon(m_theme->icon(QStringLiteral("reload")));
  };
  dress();
  connect(theme, &Theme::changed, this, [this, dress] {
    dress();
    showKnobs();
    showLineage();
  });
  setUsable(m_measure, false);
  showOffers();
  m_result->hide();
  refreshPin();
  m_knobHeader->setDetail(tr("of the chosen subgraph"));
  showBudget();
  setRunState({});
}

QWidget* TuneView::makeLeft() {
  auto* left = new QWidget;
  left->setMinimumWidth(220);
  auto* layout = new QVBoxLayout(left);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* header = new PanelHeader(m_theme, tr("Budget"));
  header->setDetail(tr("share of the device's time"));
  layout->addWidget(header);
  auto* budget = new QVBoxLayout;
  budget->setContentsMargins(16, 0, 16, 10);
  budget->setSpacing(4);
  auto* figure = new QHBoxLayout;
  m_budget->setFont(m_theme->ui(20, QFont::DemiBold));
  figure->addWidget(m_budget);
  figure->addStretch(1);
  QSizePolicy place = m_tune->sizePolicy();
  place.setRetainSizeWhenHidden(true);  // what stands below does not move when a run begins
  m_tune->setSizePolicy(place);
  figure->addWidget(m_tune);
  budget->addLayout(figure);
  m_share->setToolTip(tr("Share of the device that tuning may take while training; drag it at any time. Solid: taken so far"));
  budget->addWidget(m_share);
  m_byHand->hide();
  for (QLabel* l : {m_spent, m_byHand, m_now}) {
    l->setFont(m_theme->ui(12));
    l->setMinimumWidth(0);
    l->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    budget->addWidget(l);
  }
  m_spent->setWordWrap(true);
  m_reason->setFont(m_theme->ui(12));
  m_reason->setWordWrap(true);
  m_reason->setMinimumWidth(0);
  m_reason->hide();
  budget->addWidget(m_reason);
  layout->addLayout(budget);
  layout->addWidget(line());
  auto* subgraphHeader = new PanelHeader(m_theme, tr("Subgraphs"));
  subgraphHeader->setDetail(tr("timed alone"));
  subgraphHeader->add(m_steps);
  layout->addWidget(subgraphHeader);
  m_list->setItemDelegate(new SubgraphDelegate(
      m_theme, &m_subgraphs, [this](const std::string& id) { return holdsSelected(id); }, this));
  m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_list->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  m_list->setAccessibleName(tr("Subgraphs"));
  auto* details = new QWidget;
  details->setProperty("role", QStringLiteral("page"));
  auto* inside = new QVBoxLayout(details);
  inside->setContentsMargins(0, 0, 0, 0);
  inside->setSpacing(0);
  inside->addWidget(m_knobHeader);
  m_knobBox->setProperty("role", QStringLiteral("page"));
  new QGridLayout(m_knobBox);
  inside->addWidget(m_knobBox);
  auto* lineage = new QVBoxLayout(m_lineageBox);
  lineage->setContentsMargins(0, 0, 0, 0);
  lineage->setSpacing(0);
  lineage->addWidget(line());
  lineage->addWidget(m_lineageHeader);
  lineage->addWidget(m_lineage);
  m_lineage->setContentsMargins(16, 0, 12, 8);
  m_lineage->setTextFormat(Qt::RichText);
  m_lineage->setWordWrap(true);
  m_lineage->setMinimumWidth(0);
  m_lineage->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  m_lineage->setFocusPolicy(Qt::TabFocus);
  m_lineage->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  connect(m_lineage, &QLabel::linkActivated, this, [this](const QString& number) { chooseTrial(number.toULongLong()); });
  inside->addLayout(m_besideKnobs);
  inside->addStretch(1);
  auto* scroll = new QScrollArea;
  scroll->setObjectName(QStringLiteral("trialDetails"));
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setMinimumHeight(m_theme->scaled(60));
  scroll->setWidget(details);
  m_list->setMinimumHeight(m_theme->scaled(60));
  auto* parts = new QSplitter(Qt::Vertical);
  parts->setHandleWidth(1);
  parts->setChildrenCollapsible(false);
  parts->addWidget(m_list);
  parts->addWidget(scroll);
  parts->setStretchFactor(0, 1);
  parts->setStretchFactor(1, 1);
  parts->setSizes({300, 300});
  layout->addWidget(parts, 1);
  layout->addLayout(m_belowKnobs);
  m_belowKnobs->addWidget(m_lineageBox);
  layout->addWidget(line());
  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(12, 8, 12, 8);
  buttons->setSpacing(6);
  m_measure->setProperty("primary", true);
  m_replay->setToolTip(tr("Measure the chosen trial once more and show the new figure beside the old one"));
  for (QPushButton* b : {m_pin, m_replay, m_measure}) b->setProperty("tight", true);
  m_result->setFont(m_theme->ui(12));
  m_result->setWordWrap(true);
  m_result->setMinimumWidth(0);
  m_result->setContentsMargins(16, 8, 12, 0);
  layout->addWidget(m_result);
  buttons->addWidget(m_pin);
  buttons->addWidget(m_replay);
  buttons->addStretch(1);
  buttons->addWidget(m_measure);
  layout->addLayout(buttons);
  return left;
}

// In a low window the ancestors of a trial scroll with its knobs: rows of the list stay in sight.
void TuneView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  constexpr int kLow = 760;
  QVBoxLayout* place = height() < m_theme->scaled(kLow) ? m_besideKnobs : m_belowKnobs;
  if (place->indexOf(m_lineageBox) < 0) place->addWidget(m_lineageBox);
}

QToolButton* TuneView::tableButton(Plot* plot) {
  auto* button = new IconButton(m_theme, QStringLiteral("table"));
  button->setCheckable(true);
  button->setToolTip(tr("Show as a table"));
  button->setAccessibleName(tr("%1 as a table").arg(plot->accessibleName()));
  connect(button, &QToolButton::toggled, plot, &Plot::showTable);
  connect(plot, &Plot::tableShown, button, &QToolButton::setChecked);
  return button;
}

QWidget* TuneView::makeMiddle() {
  const auto panel = [](std::initializer_list<std::pair<QWidget*, int>> parts) {
    auto* widget = new QWidget;
    auto* layout = new QVBoxLayout(widget);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    for (const auto& [part, stretch] : parts) layout->addWidget(part, stretch);
    return widget;
  };
  m_rows->setHandleWidth(1);
  m_rows->setChildrenCollapsible(false);
  auto* axis = new QComboBox;
  axis->addItems({tr("Trials"), tr("Time"), tr("Predicted")});
  axis->setItemData(2, tr("Measured against what the cost model predicted"), Qt::ToolTipRole);
  axis->setAccessibleName(tr("Horizontal axis of the trials"));
  axis->setObjectName(QStringLiteral("trialsAxis"));
  axis->setProperty("flat", true);
  connect(axis, &QComboBox::currentIndexChanged, this, [this](int i) { m_trials->setAxis(static_cast<TrialsPlot::Axis>(i)); });
  m_trialsHeader->add(axis);
  m_trialsHeader->add(tableButton(m_trials));
  m_trials->setMinimumHeight(80);
  auto* strip = new QWidget;
  auto* stripRow = new QHBoxLayout(strip);
  stripRow->setContentsMargins(8, 0, 8, 0);
  stripRow->setSpacing(0);
  m_playButton = new IconButton(m_theme, QStringLiteral("run"));
  m_playButton->setCheckable(true);
  m_playButton->setObjectName(QStringLiteral("play"));
  m_playButton->setToolTip(tr("Play the generations; the arrow keys scrub"));
  m_playButton->setAccessibleName(tr("Play the generations"));
  connect(m_playButton, &QToolButton::toggled, this, [this](bool on) {
    static_cast<IconButton*>(m_playButton)->setIconName(on ? QStringLiteral("pause") : QStringLiteral("run"));
    if (!on) return m_play->stop();
    const auto& all = m_generations->generations();
    if (all.empty()) return m_playButton->setChecked(false);
    if (m_generations->current() + 1 >= static_cast<int>(all.size())) chooseTrial(all.front().best);
    m_play->start();
  });
  stripRow->addWidget(m_playButton);
  stripRow->addWidget(m_generations, 1);
  m_rows->addWidget(panel({{m_trialsHeader, 0}, {line(), 0}, {m_legend, 0}, {m_trials, 1}, {strip, 0}}));

  auto* time = new QComboBox;
  time->addItems({tr("Steps"), tr("Time")});
  time->setAccessibleName(tr("Horizontal axis of latency and loss"));
  time->setObjectName(QStringLiteral("trainingAxis"));
  time->setProperty("flat", true);
  connect(time, &QComboBox::currentIndexChanged, this, [this](int i) {
    m_latency->setAxis(static_cast<TrainingAxis>(i));
    m_loss->setAxis(static_cast<TrainingAxis>(i));
  });
  m_latencyHeader->setDetail(tr("median, min and max; loss below"));
  m_latencyHeader->add(time);
  auto* latencyTable = tableButton(m_latency);
  connect(latencyTable, &QToolButton::toggled, m_loss, &Plot::showTable);
  m_latencyHeader->add(latencyTable);
  m_latency->setMinimumHeight(64);
  m_loss->setMinimumHeight(76);  // three labels, one below the other
  m_rows->addWidget(panel({{m_latencyHeader, 0}, {line(), 0}, {m_latency, 3}, {m_loss, 2}}));
  m_rows->addWidget(m_profile);
  m_rows->setStretchFactor(0, 5);
  m_rows->setStretchFactor(1, 5);
  m_rows->setStretchFactor(2, 3);
  m_rows->setSizes({330, 320, 220});
  return m_rows;
}

QWidget* TuneView::makeRight() {
  auto* right = new QWidget;
  auto* layout = new QVBoxLayout(right);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_roofHeader->setDetail(tr("timed alone, FLOP/s under measured ceilings"));
  m_roofHeader->add(tableButton(m_roofline));
  layout->addWidget(m_roofHeader);
  layout->addWidget(line());
  m_roofline->setMinimumHeight(140);
  layout->addWidget(m_roofline, 2);
  layout->addWidget(line());
  layout->addWidget(m_kernel, 4);
  return right;
}

// ---------------------------------------------------------------- what runs
void TuneView::setKernel(const Kernel& kernel) {
  if (kernel.subgraph != m_current) return;
  const bool compared = m_compared && kernel.trial == m_compared;
  if (kernel.trial == m_asked || (!m_trial && !compared)) m_kernel->setKernel(kernel);
  if (compared) m_kernel->setCompared(kernel);
  if (isGone()) m_kernel->forgetPlaces();
}

void TuneView::setKernelFailed(const QString& message) { m_kernel->setFailed(message); }

void TuneView::setDevice(std::optional<DeviceConstants> device) {
  m_roofHeader->setDetail(device ? tr("timed alone, FLOP/s under the measured ceilings of %1").arg(scopeText(*device))
                                 : tr("FLOP/s under measured ceilings"));
  m_profile->setDevice(device);
  m_roofline->setDevice(std::move(device));
}

void TuneView::setProfile(const Profile& profile, std::chrono::steady_clock::time_point taken) {
  m_profile->setProfile(profile, taken);
  m_profile->choose(m_current);
}

void TuneView::setPeer(const QString& name, double milliseconds) { m_latency->setPeer(name, milliseconds); }

void TuneView::setBudget(double share) {
  m_settingShare = true;
  m_share->setValue(static_cast<int>(share * 100 + 0.5));
  m_settingShare = false;
}

void TuneView::finishBudget() {
  if (!m_shareTimer->isActive()) return;
  m_shareTimer->stop();
  Q_EMIT budgetRequested(m_share->value() / 100.0);
}

void TuneView::showBudget() { m_budget->setText(tr("%1 %").arg(m_share->value())); }

void TuneView::setRunState(const RunState& s, std::int64_t others) {
  m_state = s;
  const bool runs = s.phase != RunPhase::Idle;
  if (s.phase == RunPhase::Idle || s.phase == RunPhase::Paused) showTried({});
  m_profile->setRunning(runs);
  m_tune->setVisible(!runs);
  const bool reasons = s.phase == RunPhase::Training && !s.detail.empty();
  m_reason->setText(reasons ? QString::fromStdString(s.detail) : QString());
  // A search that waits, or has ended before the training, tries none.
  if (reasons) showTried({}), m_now->setText(tr("no trial now"));
  if (reasons || !runs) m_reason->setVisible(reasons);  // once there, its place stays until the end
  if (!runs) {
    m_now->setText(tr("nothing runs"));
    if (!m_spentInAll.isEmpty()) m_spent->setText(std::exchange(m_spentInAll, {}));
    // What the last search has spent stands until the next one.
    if (m_spent->text().isEmpty()) m_spent->setText(tr("shared with training; drag it at any time"));
    return;
  }
  constexpr auto phases = enumNames(RunPhase{});
  if (s.phase != RunPhase::Training && s.phase != RunPhase::Tuning)
    m_now->setText(s.detail.empty() ? QString::fromLatin1(phases[static_cast<std::size_t>(s.phase)])
                                    : QString::fromStdString(s.detail));
  else if (s.phase == RunPhase::Training && s.trials == 0 && !reasons) m_now->setText(tr("no trial so far"));
  // The handle is the person's while it is dragged and until the engine has taken the wish up.
  if (!m_share->isSliderDown() && !m_shareTimer->isActive() && (!m_sinceShare.isValid() || m_sinceShare.elapsed() > 1000) &&
      s.budgetShare > 0) {
    setBudget(s.budgetShare);
  }
  if (s.phase == RunPhase::Tuning) {
    // Nothing trains: the search has the device for itself.
    m_share->setSpent(0);
    QStringList words;
    if (s.trials > 0) words << counted(s.trials, tr("trial"), tr("trials"));
    if (s.seconds > 0) words << secondsText(s.seconds);
    const auto spent = [&] {
      return words.isEmpty() ? tr("the whole device") : tr("the whole device: %1").arg(words.join(QStringLiteral(", ")));
    };
    m_spentInAll = spent();
    if (s.secondsLeft) words << tr("%1 left").arg(secondsText(*s.secondsLeft));
    m_spent->setText(spent());
    if (s.trials == 0) m_now->setText(s.detail.empty() ? tr("tuning") : shortName(s.detail));
    return;
  }
  // A show cell that is computed spends nothing of it.
  if (s.phase != RunPhase::Training && s.budgetShare <= 0) return;
  const double share = s.seconds > 0 ? s.budgetSpentSeconds / s.seconds : 0;
  m_share->setSpent(share);
  QString trials = counted(s.trials, tr("trial"), tr("trials"));
  if (others > 0) trials += tr(" (%1 of other kernels)").arg(grouped(others));
  m_spent->setText(tr("%1 used, %2 %: %3, %4")
                       .arg(secondsText(s.budgetSpentSeconds))
                       .arg(std::lround(share * 100))
                       .arg(trials, counted(s.swaps, tr("swap"), tr("swaps"))));
}

void TuneView::setByHand(std::int64_t trials) {
  m_byHand->setText(tr("besides %1 by hand").arg(counted(trials, tr("trial"), tr("trials"))));
  m_byHand->setVisible(trials > 0);
}

// The ring is that of the one kernel that is tried now.
void TuneView::showTried(const std::string& subgraph) {
  m_tried = subgraph;
  for (SubgraphInfo& s : m_subgraphs) {
    if (s.state == SubgraphState::Searching && s.id != subgraph) s.state = s.us ? SubgraphState::Done : SubgraphState::Waiting;
    else if (s.id == subgraph && s.state != SubgraphState::Pinned) s.state = SubgraphState::Searching;
  }
  m_list->viewport()->update();
}

void TuneView::addTrial(const TrialEvent& t) {
  showTried(t.subgraph);
  std::string name = t.name;
  for (const SubgraphInfo& s : m_subgraphs)
    if (s.id == t.subgraph) name = s.name;
  const QString what =
      t.us ? microsecondsText(*t.us) : QString::fromLatin1(enumNames(TrialStatus{})[static_cast<std::size_t>(t.status)]);
  m_now->setText(tr("now %1 g%2 c%3: %4").arg(kernelName(name, 16)).arg(t.generation).arg(t.number).arg(what));
  m_now->setToolTip(shortName(name) + QStringLiteral("\n") + QString::fromStdString(t.how));
}

void TuneView::addCounters(const KernelCountersEvent& counters) { m_profile->addCounters(counters); }

QString TuneView::lineage() const { return m_lineage->text(); }
QString TuneView::now() const { return m_now->text(); }
void TuneView::setEngineGone(bool gone) {
  m_list->setProperty(kEngineGone, gone);
  m_list->viewport()->update();
}

bool TuneView::profileIsNow() const { return m_subgraphs.empty() || m_profile->model()->profile().revision == m_revision; }

void TuneView::setRunOf(bool old, const QString& other) {
  if (m_runOld == old && m_runOf == other) return;
  m_runOld = old;
  m_runOf = other;
  const QString of = other.isEmpty() ? QString() : tr("of training %1; ").arg(other);
  m_latencyHeader->setDetail(
      of + (old ? tr("of an earlier text of the notebook; median, min and max") : tr("median, min and max; loss below")));
  for (QWidget* plot : {static_cast<QWidget*>(m_latency), static_cast<QWidget*>(m_loss)}) setGreyed(plot, old);
}

void TuneView::setStep(const std::string& device, bool edited, const std::set<std::string>& replaced) {
  m_profile->setStep(device, edited, replaced);
  if (device.empty() || device == m_device) return;
  const bool another = !std::exchange(m_device, device).empty();
  showOffers();
  // Kernel, knobs and times are another device's.
  if (another && !m_current.empty()) chooseSubgraph(m_current);
}

void TuneView::showOffers() {
  m_tune->setEnabled(!m_subgraphs.empty() && !interprets());
  for (Plot* plot : std::initializer_list<Plot*>{m_trials, m_roofline}) plot->setNever(interprets() ? noKernels() : QString());
  m_tune->setToolTip(interprets() ? noKernels() : tr("Search without training"));
  m_measure->setToolTip(interprets() ? noKernels()
                        : isGone()   ? goneWords()
                                     : tr("Compile, check and time the schedule that the knobs say"));
}

bool TuneView::interprets() const { return m_device == "reference"; }

QString TuneView::noKernels() const {
  return tr("This device interprets the operators: it has no kernels to look at or to tune. The devices view has others.");
}

QString TuneView::spent() const { return m_spent->text(); }
QString TuneView::byHand() const { return m_byHand->isHidden() ? QString() : m_byHand->text(); }
QString TuneView::reason() const { return m_reason->text(); }
QString TuneView::ceilings() const { return m_roofHeader->detail(); }

std::vector<Plot*> TuneView::plots() const { return {m_trials, m_latency, m_loss, m_roofline}; }

void TuneView::setRun(const std::vector<StepEvent>& steps, const std::vector<KernelSwapEvent>& swaps,
                      const std::vector<EvalEvent>& evals) {
  m_latency->setSteps(steps, swaps);
  m_loss->setRun(steps, evals);
}
void TuneView::addStep(const StepEvent& step) {
  m_latency->addStep(step);
  m_loss->addStep(step);
}
void TuneView::addSwap(const KernelSwapEvent& swap) { m_latency->addSwap(swap); }
void TuneView::addEval(const EvalEvent& eval) { m_loss->addEval(eval); }
void TuneView::reset() {
  m_current.clear();
  m_trial.reset();
  m_compared.reset();
  m_asked.reset();
  m_space = {};
  m_kernelTimer->stop();
  m_kernelPending = false;
  m_measuring = false;
  m_playButton->setChecked(false);
  clearSteps();
  setSubgraphs({});
  setTrials({}, {});
  m_fastest.clear();
  m_trialsHeader->setDetail({});
  m_roofline->setSubgraphs({}, {});
  m_trials->setCurrent(std::nullopt);
  m_generations->setCurrent(std::nullopt);
  m_roofline->setCurrent(std::nullopt);
  m_kernel->setInstances({});
  m_kernel->clear();
  say({});
  showKnobs();
  m_spent->clear();
  m_spentInAll.clear();
  m_back = {};
  setRunState({});
}

TunePlace TuneView::place() const {
  const QString spent = m_spentInAll.isEmpty() ? m_spent->text() : m_spentInAll;
  return m_current.empty() ? TunePlace{m_back.subgraph, m_back.trial, spent} : TunePlace{m_current, m_trial, spent};
}

void TuneView::goBack(const TunePlace& place) {
  m_back = place;
  if (!place.spent.isEmpty()) m_spent->setText(place.spent);
}

void TuneView::clearSteps() {
  m_latency->clear();
  m_loss->clear();
  m_profile->clear();
  m_spent->clear();
  m_share->setSpent(0);
}

}  // namespace nf
