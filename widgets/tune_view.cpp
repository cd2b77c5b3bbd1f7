// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/tune_view.h"

#include <QComboBox>
#include <QGridLayout>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QListWidget>
#include <QPainter>
#include <QPushButton>
#include <QScrollArea>
#include <QSlider>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include "widgets/basic.h"
#include "widgets/kernel_view.h"
#include "widgets/plots.h"

namespace nf {

using namespace protocol;

namespace {

// One subgraph: state, name, newest time; kind, how much faster than its first kernel; its share of the budget.
class SubgraphDelegate : public QStyledItemDelegate {
 public:
  SubgraphDelegate(const Theme* theme, const std::vector<SubgraphInfo>* subgraphs, QObject* parent)
      : QStyledItemDelegate(parent), m_theme(theme), m_subgraphs(subgraphs) {}
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {100, 58}; }
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const auto i = static_cast<std::size_t>(index.row());
    if (i >= m_subgraphs->size()) return;
    const SubgraphInfo& s = (*m_subgraphs)[i];
    const QRect r = option.rect;
    if (option.state & QStyle::State_Selected) {
      p->fillRect(r, c.accentSoft);
      p->fillRect(QRect(r.left(), r.top(), 3, r.height()), c.accent);
    }
    p->fillRect(QRect(r.left(), r.bottom(), r.width(), 1), c.grid);
    QString icon = QStringLiteral("stale");
    QColor color = c.muted;
    switch (s.state) {
      case SubgraphState::Waiting: break;
      case SubgraphState::Searching: icon = QStringLiteral("running"), color = c.accent; break;
      case SubgraphState::Done: icon = QStringLiteral("ok"), color = c.proved; break;
      case SubgraphState::Pinned: icon = QStringLiteral("pin"), color = c.text; break;
    }
    p->drawPixmap(r.left() + 12, r.top() + 9, m_theme->pixmap(icon, color, p->device()->devicePixelRatioF()));
    const QRect inner(r.left() + 34, r.top() + 7, r.width() - 48, 18);
    const QString us = s.us ? microsecondsText(*s.us) : QStringLiteral("–");
    p->setFont(m_theme->mono(13));
    p->setPen(c.text);
    const int w = p->fontMetrics().horizontalAdvance(us);
    p->drawText(inner, Qt::AlignVCenter | Qt::AlignRight, us);
    p->drawText(inner.adjusted(0, 0, -w - 8, 0), Qt::AlignVCenter,
                p->fontMetrics().elidedText(QString::fromStdString(s.name), Qt::ElideMiddle, inner.width() - w - 8));
    p->setFont(m_theme->ui(12));
    p->setPen(c.muted);
    const QRect second = inner.translated(0, 18);
    const QString gain = s.us && s.firstUs && *s.us > 0 ? QObject::tr("%1× first").arg(significant(*s.firstUs / *s.us)) : QString();
    p->drawText(second, Qt::AlignVCenter | Qt::AlignRight, gain);
    QString kind = QString::fromStdString(s.kind);
    if (s.trials > 0) kind += QObject::tr(", %1 trials").arg(grouped(s.trials));
    p->drawText(second.adjusted(0, 0, -p->fontMetrics().horizontalAdvance(gain) - 6, 0), Qt::AlignVCenter,
                p->fontMetrics().elidedText(kind, Qt::ElideRight, second.width() - p->fontMetrics().horizontalAdvance(gain) - 6));
    p->fillRect(QRect(inner.left(), r.bottom() - 9, inner.width(), 3), c.separator);
    p->fillRect(QRectF(inner.left(), r.bottom() - 9, inner.width() * std::clamp(s.budgetShare, 0.0, 1.0), 3),
                s.state == SubgraphState::Searching ? c.accent : c.muted);
  }

 private:
  const Theme* m_theme;
  const std::vector<SubgraphInfo>* m_subgraphs;
};

QJsonObject parsed(const std::string& text) { return QJsonDocument::fromJson(QByteArray::fromStdString(text)).object(); }

QByteArray jsonOf(const QJsonValue& value) {
  QByteArray array = QJsonDocument(QJsonArray{value}).toJson(QJsonDocument::Compact);
  return array.mid(1, array.size() - 2);
}

QJsonValue valueOf(const std::string& text) {
  return QJsonDocument::fromJson(QByteArray::fromStdString("[" + text + "]")).array().at(0);
}

// [3,1,16,6] as "3 × 1 × 16 × 6", a word without its quotes.
QString pretty(const std::string& json) {
  const QJsonValue v = valueOf(json);
  if (v.isString()) return v.toString();
  if (v.isBool()) return v.toBool() ? QObject::tr("yes") : QObject::tr("no");
  if (!v.isArray()) return QString::fromStdString(json);
  QStringList parts;
  for (const auto& e : v.toArray()) parts << QString::fromUtf8(jsonOf(e));
  return parts.join(QStringLiteral(" × "));
}

}  // namespace

std::map<std::string, std::string> knobsOf(const std::string& schedule) {
  std::map<std::string, std::string> out;
  const QJsonObject knobs = parsed(schedule).value(QStringLiteral("knobs")).toObject();
  for (auto it = knobs.begin(); it != knobs.end(); ++it) out[it.key().toStdString()] = jsonOf(it.value()).toStdString();
  return out;
}

std::string withKnobs(const std::string& schedule, const std::map<std::string, std::string>& wanted) {
  QJsonObject object = parsed(schedule);
  QJsonObject knobs = object.value(QStringLiteral("knobs")).toObject();
  for (const auto& [name, value] : wanted) knobs.insert(QString::fromStdString(name), valueOf(value));
  object.insert(QStringLiteral("knobs"), knobs);
  return QJsonDocument(object).toJson(QJsonDocument::Compact).toStdString();
}

TuneView::TuneView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_budget(label({})), m_spent(label({}, "muted")),
      m_legend(label({}, "muted")), m_share(new QSlider(Qt::Horizontal)), m_list(new QListWidget),
      m_trialsHeader(new PanelHeader(theme, tr("Trials"))), m_latencyHeader(new PanelHeader(theme, tr("Step latency"))),
      m_knobHeader(new PanelHeader(theme, tr("Knobs"))), m_knobBox(new QWidget), m_lineage(label({}, "muted")),
      m_measure(new QPushButton(tr("Measure"))), m_tune(new QPushButton(tr("Tune"))), m_trials(new TrialsPlot(theme)),
      m_latency(new LatencyPlot(theme, false)), m_roofline(new RooflinePlot(theme)), m_kernel(new KernelView(theme, selection)) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  auto* split = new QSplitter(Qt::Horizontal);
  split->setHandleWidth(1);

  auto* left = new QWidget;
  auto* leftLayout = new QVBoxLayout(left);
  leftLayout->setContentsMargins(0, 0, 0, 0);
  leftLayout->setSpacing(0);
  leftLayout->addWidget(new PanelHeader(theme, tr("Budget")));
  auto* budget = new QVBoxLayout;
  budget->setContentsMargins(16, 0, 16, 12);
  budget->setSpacing(6);
  auto* figure = new QHBoxLayout;
  m_budget->setFont(theme->ui(20, QFont::DemiBold));
  figure->addWidget(m_budget);
  figure->addStretch(1);
  figure->addWidget(m_tune);
  m_tune->setToolTip(tr("Search without training"));
  budget->addLayout(figure);
  m_share->setRange(0, 90);
  m_share->setValue(30);
  m_share->setAccessibleName(tr("Share of device time for tuning"));
  budget->addWidget(m_share);
  m_spent->setFont(theme->ui(12));
  m_spent->setWordWrap(true);
  budget->addWidget(m_spent);
  leftLayout->addLayout(budget);
  leftLayout->addWidget(line());
  auto* subgraphHeader = new PanelHeader(theme, tr("Subgraphs"));
  subgraphHeader->setDetail(tr("share of the budget"));
  leftLayout->addWidget(subgraphHeader);
  m_list->setItemDelegate(new SubgraphDelegate(theme, &m_subgraphs, this));
  m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_list->setAccessibleName(tr("Subgraphs"));
  leftLayout->addWidget(m_list, 3);
  leftLayout->addWidget(line());
  leftLayout->addWidget(m_knobHeader);
  auto* knobScroll = new QScrollArea;
  knobScroll->setWidgetResizable(true);
  knobScroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_knobBox->setProperty("role", QStringLiteral("page"));
  new QGridLayout(m_knobBox);
  knobScroll->setWidget(m_knobBox);
  leftLayout->addWidget(knobScroll, 2);
  m_lineage->setContentsMargins(16, 6, 16, 6);
  m_lineage->setFont(theme->mono(12));
  m_lineage->setWordWrap(true);
  leftLayout->addWidget(m_lineage);
  leftLayout->addWidget(line());
  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(12, 10, 12, 10);
  m_measure->setProperty("primary", true);
  buttons->addStretch(1);
  buttons->addWidget(m_measure);
  leftLayout->addLayout(buttons);
  split->addWidget(left);

  auto* middle = new QWidget;
  auto* middleLayout = new QVBoxLayout(middle);
  middleLayout->setContentsMargins(0, 0, 0, 0);
  middleLayout->setSpacing(0);
  auto* axis = new QComboBox;
  axis->addItems({tr("Trials"), tr("Time")});
  axis->setAccessibleName(tr("Horizontal axis"));
  m_trialsHeader->add(axis);
  middleLayout->addWidget(m_trialsHeader);
  middleLayout->addWidget(line());
  m_legend->setContentsMargins(16, 8, 16, 0);
  m_legend->setFont(theme->ui(11));
  m_legend->setTextFormat(Qt::RichText);
  middleLayout->addWidget(m_legend);
  middleLayout->addWidget(m_trials, 3);
  middleLayout->addWidget(line());
  m_latencyHeader->setDetail(tr("last, min and max of each bucket; dotted: kernel swaps"));
  middleLayout->addWidget(m_latencyHeader);
  middleLayout->addWidget(line());
  middleLayout->addWidget(m_latency, 2);
  split->addWidget(middle);

  auto* right = new QWidget;
  auto* rightLayout = new QVBoxLayout(right);
  rightLayout->setContentsMargins(0, 0, 0, 0);
  rightLayout->setSpacing(0);
  auto* roofHeader = new PanelHeader(theme, tr("Roofline"));
  roofHeader->setDetail(tr("under measured ceilings"));
  rightLayout->addWidget(roofHeader);
  rightLayout->addWidget(line());
  rightLayout->addWidget(m_roofline, 2);
  rightLayout->addWidget(line());
  rightLayout->addWidget(m_kernel, 4);
  split->addWidget(right);
  split->setStretchFactor(0, 0);
  split->setStretchFactor(1, 1);
  split->setStretchFactor(2, 1);
  split->setSizes({264, 690, 646});
  layout->addWidget(split);

  connect(axis, &QComboBox::currentIndexChanged, this,
          [this](int i) { m_trials->setAxis(i == 1 ? TrialsPlot::Axis::Time : TrialsPlot::Axis::Trials); });
  connect(m_list, &QListWidget::currentRowChanged, this, [this](int row) {
    if (row < 0 || static_cast<std::size_t>(row) >= m_subgraphs.size()) return;
    const SubgraphInfo s = m_subgraphs[static_cast<std::size_t>(row)];
    if (s.id == m_current) return;
    chooseSubgraph(s.id);
    m_selection->select(s.origins);
  });
  connect(m_trials, &TrialsPlot::trialChosen, this, [this](std::uint64_t number) { chooseTrial(number); });
  connect(m_share, &QSlider::sliderReleased, this, [this] { Q_EMIT budgetRequested(m_share->value() / 100.0); });
  connect(m_share, &QSlider::valueChanged, this, [this](int value) { m_budget->setText(tr("%1 % of the device").arg(value)); });
  connect(m_measure, &QPushButton::clicked, this, [this] { Q_EMIT measureRequested(m_current, chosenSchedule()); });
  connect(m_tune, &QPushButton::clicked, this, &TuneView::tuneRequested);
  connect(selection, &Selection::changed, this, &TuneView::markSelection);
  m_budget->setText(tr("%1 % of the device").arg(30));
  m_spent->setText(tr("Tuning shares the device with training; this is its part."));
  m_measure->setEnabled(false);
  m_tune->setEnabled(false);
  m_knobHeader->setDetail(tr("of the chosen subgraph"));
}

const SubgraphInfo* TuneView::subgraph() const {
  for (const SubgraphInfo& s : m_subgraphs)
    if (s.id == m_current) return &s;
  return nullptr;
}

void TuneView::setSubgraphs(const std::vector<SubgraphInfo>& subgraphs) {
  m_subgraphs = subgraphs;
  const QSignalBlocker blocker(m_list);
  while (m_list->count() > static_cast<int>(subgraphs.size())) delete m_list->takeItem(m_list->count() - 1);
  while (m_list->count() < static_cast<int>(subgraphs.size())) new QListWidgetItem(m_list);
  int row = -1;
  for (std::size_t i = 0; i < subgraphs.size(); ++i) {
    m_list->item(static_cast<int>(i))->setText(QString::fromStdString(subgraphs[i].name));
    if (subgraphs[i].id == m_current) row = static_cast<int>(i);
  }
  m_list->setCurrentRow(row);
  m_list->viewport()->update();
  m_roofline->setSubgraphs(subgraphs, m_current);
  m_tune->setEnabled(!subgraphs.empty());
  if (row < 0 && !subgraphs.empty()) {
    m_list->setCurrentRow(0);
    chooseSubgraph(subgraphs.front().id);
  }
}

void TuneView::chooseSubgraph(const std::string& id) {
  m_current = id;
  m_trial.reset();
  m_space = {};
  const QSignalBlocker blocker(m_list);
  for (std::size_t i = 0; i < m_subgraphs.size(); ++i)
    if (m_subgraphs[i].id == id) m_list->setCurrentRow(static_cast<int>(i));
  const SubgraphInfo* s = subgraph();
  m_trialsHeader->setDetail(s ? tr("%1, every trial a point, none hidden").arg(QString::fromStdString(s->name)) : QString());
  m_roofline->setSubgraphs(m_subgraphs, m_current);
  m_trials->setCurrent(std::nullopt);
  setTrials(id, {});
  m_kernel->clear();
  showKnobs();
  Q_EMIT subgraphChosen(id);
  Q_EMIT trialWanted(id, std::nullopt);
}

void TuneView::setTrials(const std::string& id, const std::vector<TrialInfo>& trials) {
  if (id != m_current) return;
  m_trialList = trials;
  m_trials->setTrials(trials);
  m_roofline->setTrials(trials);
  std::map<TrialStatus, int> counts;
  for (const TrialInfo& t : trials) ++counts[t.status];
  const Palette& c = m_theme->colors();
  QString text = QStringLiteral("<span style='color:%1'>●</span> trial %2 &nbsp;&nbsp; <span style='color:%3'>▬</span> best so far")
                     .arg(c.muted.name())
                     .arg(counts[TrialStatus::Ok])
                     .arg(c.accent.name());
  const auto add = [&](TrialStatus status, const char* shape, const QString& word) {
    if (counts[status] > 0)
      text += QStringLiteral(" &nbsp;&nbsp; <span style='color:%1'>%2</span> %3 %4")
                  .arg(c.failed.name(), QString::fromUtf8(shape), word)
                  .arg(counts[status]);
  };
  add(TrialStatus::Wrong, "✕", tr("wrong result"));
  add(TrialStatus::Failed, "△", tr("compile"));
  add(TrialStatus::Slow, "□", tr("too slow"));
  add(TrialStatus::Killed, "□", tr("timed out"));
  add(TrialStatus::Crashed, "◇", tr("killed its worker"));
  m_legend->setText(trials.empty() ? tr("No trials yet: train, or press Tune.") : text);
  showLineage();
}

void TuneView::chooseTrial(std::optional<std::uint64_t> number) {
  m_trial = number;
  m_trials->setCurrent(number);
  showKnobs();
  showLineage();
  Q_EMIT trialWanted(m_current, number);
}

void TuneView::showLineage() {
  QStringList lines;
  std::optional<std::uint64_t> at = m_trial;
  if (!at) {
    double best = 1e300;
    for (const TrialInfo& t : m_trialList)
      if (t.us && t.status == TrialStatus::Ok && *t.us < best) best = *t.us, at = t.number;
  }
  for (int depth = 0; at && depth < 4; ++depth) {
    const auto found = std::find_if(m_trialList.begin(), m_trialList.end(), [&](const TrialInfo& t) { return t.number == *at; });
    if (found == m_trialList.end()) break;
    QString text = QStringLiteral("g%1 c%2  %3").arg(found->generation).arg(found->number).arg(QString::fromStdString(found->how));
    if (depth == 0 && found->predictedUs) text += tr("  predicted %1").arg(microsecondsText(*found->predictedUs));
    lines << text;
    at = found->parents.empty() || found->parents.front() >= found->number ? std::nullopt : std::optional(found->parents.front());
  }
  m_lineage->setText(lines.join(QLatin1Char('\n')));
  m_lineage->setVisible(!lines.isEmpty());
}

void TuneView::setSpace(const Space& space) {
  if (space.subgraph != m_current) return;
  m_space = space;
  showKnobs();
}

void TuneView::showKnobs() {
  auto* grid = static_cast<QGridLayout*>(m_knobBox->layout());
  while (QLayoutItem* item = grid->takeAt(0)) {
    if (item->widget()) item->widget()->hide(), item->widget()->deleteLater();
    delete item;
  }
  m_knobs.clear();
  grid->setContentsMargins(16, 0, 12, 8);
  grid->setHorizontalSpacing(8);
  grid->setVerticalSpacing(2);
  std::string schedule = m_space.current.text;
  for (const TrialInfo& t : m_trialList)
    if (m_trial && t.number == *m_trial) schedule = t.schedule.text;
  const auto values = knobsOf(schedule);
  int row = 0;
  for (const KnobInfo& knob : m_space.knobs) {
    const QString name = QString::fromStdString(knob.name);
    auto* title = label(name);
    title->setToolTip(QString::fromStdString(knob.help));
    title->setFont(m_theme->ui(12));
    auto* box = new QComboBox;
    box->setFont(m_theme->mono(12));
    box->setAccessibleName(name);
    box->setToolTip(QString::fromStdString(knob.help));
    const auto now = values.find(knob.name);
    bool present = false;
    for (const JsonText& v : knob.values) present = present || (now != values.end() && v.text == now->second);
    if (now != values.end() && !present) box->addItem(pretty(now->second), QString::fromStdString(now->second));
    for (const JsonText& v : knob.values) box->addItem(pretty(v.text), QString::fromStdString(v.text));
    if (now != values.end()) box->setCurrentIndex(std::max(0, box->findData(QString::fromStdString(now->second))));
    grid->addWidget(title, row, 0);
    grid->addWidget(box, row++, 1);
    m_knobs[name] = box;
  }
  grid->setColumnStretch(1, 1);
  grid->setRowStretch(row, 1);
  QString detail = tr("edit, then measure");
  if (m_space.size > 0) detail = tr("%1 schedules").arg(significant(m_space.size, 2));
  m_knobHeader->setDetail(m_space.knobs.empty() ? QString() : detail);
  m_measure->setEnabled(!m_space.knobs.empty());
}

JsonText TuneView::chosenSchedule() const {
  std::string schedule = m_space.current.text;
  for (const TrialInfo& t : m_trialList)
    if (m_trial && t.number == *m_trial) schedule = t.schedule.text;
  std::map<std::string, std::string> knobs;
  for (const auto& [name, box] : m_knobs) knobs[name.toStdString()] = box->currentData().toString().toStdString();
  return {withKnobs(schedule, knobs)};
}

void TuneView::setKernel(const Kernel& kernel) {
  if (kernel.subgraph == m_current) m_kernel->setKernel(kernel);
}

void TuneView::setDevice(std::optional<DeviceConstants> device) { m_roofline->setDevice(std::move(device)); }

void TuneView::setRunState(const RunState& s) {
  if (s.phase == RunPhase::Idle) return;
  if (!m_share->isSliderDown() && s.budgetShare > 0) m_share->setValue(static_cast<int>(s.budgetShare * 100 + 0.5));
  m_spent->setText(tr("%1 used, %2 trials, %3 swaps").arg(secondsText(s.budgetSpentSeconds), grouped(s.trials), grouped(s.swaps)));
}

void TuneView::setSteps(const std::vector<StepEvent>& steps, const std::vector<KernelSwapEvent>& swaps) {
  m_latency->setSteps(steps, swaps);
}
void TuneView::addStep(const StepEvent& step) { m_latency->addStep(step); }
void TuneView::addSwap(const KernelSwapEvent& swap) { m_latency->addSwap(swap); }
void TuneView::clearSteps() { m_latency->clear(); }

void TuneView::markSelection() {
  if (m_selection->empty()) return;
  if (const SubgraphInfo* s = subgraph(); s && m_selection->relation(s->origins) == Selection::Relation::Exact) return;
  for (const SubgraphInfo& s : m_subgraphs)
    if (m_selection->relation(s.origins) == Selection::Relation::Exact) return chooseSubgraph(s.id);
}

}  // namespace nf
