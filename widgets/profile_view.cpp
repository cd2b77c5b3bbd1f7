// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/profile_view.h"

#include <QAction>
#include <QComboBox>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QStackedWidget>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QTimer>
#include <QVBoxLayout>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/counters_view.h"
#include "widgets/names.h"
#include "widgets/timeline_view.h"
#include "widgets/write_file.h"

namespace nf {
namespace {

constexpr int kLeastBar = 88;                    // px: a column of less has its number alone
constexpr int kSoonMs = 1000, kLaterMs = 20000;  // between two looks at the age, in the first minute and behind it

// A bar and the number beside it; orange where this is what limits.
class BarDelegate : public QStyledItemDelegate {
 public:
  BarDelegate(const Theme* theme, QObject* parent) : QStyledItemDelegate(parent), m_theme(theme) {}
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const QRect r = option.rect;
    if (option.state & QStyle::State_Selected) p->fillRect(r, c.accentSoft);
    if (index.column() == 0 && (option.state & QStyle::State_Selected || index.data(ProfileModel::kHoldsRole).toBool()))
      p->fillRect(QRect(r.left(), r.top(), 3, r.height()), c.accent);
    const bool now = index.data(ProfileModel::kNowRole).toBool();
    p->setFont(m_theme->mono(12));
    p->setPen(now ? c.text : c.hint);
    const QVariant bar = index.data(ProfileModel::kBarRole);
    const QString text = index.data(Qt::DisplayRole).toString();
    if (!bar.isValid()) {
      const bool left = index.column() == ProfileModel::kKernel;
      const QRect inner = r.adjusted(left ? 14 : 6, 0, -8, 0);
      p->drawText(inner, Qt::AlignVCenter | (left ? Qt::AlignLeft : Qt::AlignRight),
                  p->fontMetrics().elidedText(text, left ? Qt::ElideMiddle : Qt::ElideRight, inner.width()));
      return;
    }
    if (r.width() < kLeastBar)
      return p->drawText(r.adjusted(8, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft,
                         p->fontMetrics().elidedText(text, Qt::ElideRight, r.width() - 8));
    const int words = 62, room = std::max(12, r.width() - words - 14);
    const QRect groove(r.left() + 8, r.center().y() - 2, room, 5);
    p->fillRect(groove, c.separator);
    p->fillRect(QRectF(groove.left(), groove.top(), groove.width() * std::clamp(bar.toDouble(), 0.0, 1.0), groove.height()),
                !now                                            ? c.separator
                : index.data(ProfileModel::kLimitRole).toBool() ? c.backward
                                                                : mixed(c.page, c.muted, 0.8));
    p->setPen(!now ? c.hint : index.data(ProfileModel::kLimitRole).toBool() ? c.text : c.muted);
    p->drawText(QRect(groove.right() + 6, r.top(), words - 2, r.height()), Qt::AlignVCenter | Qt::AlignLeft, text);
  }
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {80, 26}; }

 private:
  const Theme* m_theme;
};

QString percent(double share) { return QString::number(std::lround(share * 100)) + QStringLiteral(" %"); }

}  // namespace

void ProfileModel::setProfile(const protocol::Profile& profile) {
  const bool same = profile.kernels.size() == m_profile.kernels.size();
  if (!same) beginResetModel();
  m_profile = profile;
  findCache();
  if (!same) endResetModel();
  else if (!profile.kernels.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

void ProfileModel::setDevice(std::optional<protocol::DeviceConstants> device) {
  m_device = std::move(device);
  findCache();
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

void ProfileModel::setKernels(std::optional<std::set<std::string>> subgraphs) {
  if (m_kernels == subgraphs) return;
  m_kernels = std::move(subgraphs);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

void ProfileModel::setStep(const std::string& device, bool edited, const std::set<std::string>& replaced) {
  if (m_deviceInUse == device && m_edited == edited && m_replaced == replaced) return;
  m_deviceInUse = device, m_edited = edited, m_replaced = replaced;
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

bool ProfileModel::isNow(int row) const { return isNow(m_profile.kernels[static_cast<std::size_t>(row)].subgraph); }

bool ProfileModel::isNow(const std::string& subgraph) const { return isOfStep(subgraph) && !m_replaced.contains(subgraph); }

bool ProfileModel::isOfStep(const std::string& subgraph) const { return !m_edited && isOfPlan(subgraph); }

bool ProfileModel::isOfPlan(const std::string& subgraph) const {
  const bool interpreted = m_profile.device == "reference";  // operator by operator: none of it is a kernel of the plan
  return !ofOtherDevice() && (!m_kernels || interpreted || m_kernels->contains(subgraph));
}

QString ProfileModel::whyNotNow() const {
  if (rowCount() == 0) return {};
  if (ofOtherDevice()) return tr("on %1, which is not in use").arg(QString::fromStdString(m_profile.device));
  if (m_edited) return tr("of an earlier text");
  const auto all = [&](auto&& is) { return std::ranges::all_of(m_profile.kernels, is, &protocol::KernelTimeInfo::subgraph); };
  if (!all([&](const std::string& id) { return isOfStep(id); })) return tr("of another plan");
  return all([&](const std::string& id) { return isNow(id); }) ? QString() : tr("before kernels were replaced");
}

int ProfileModel::rowOf(const std::string& subgraph) const {
  for (std::size_t i = 0; i < m_profile.kernels.size(); ++i)
    if (m_profile.kernels[i].subgraph == subgraph) return static_cast<int>(i);
  return -1;
}

ProfileModel::Rates ProfileModel::ratesOf(const protocol::KernelTimeInfo& k) const {
  if (!m_device || !(k.us > 0)) return {};
  Rates r;
  const double seconds = k.us * 1e-6;
  if (m_device->bandwidth > 0) r.bandwidth = static_cast<double>(k.bytes) / seconds / m_device->bandwidth;
  if (m_device->flopRate > 0) r.arithmetic = static_cast<double>(k.flops) / seconds / m_device->flopRate;
  r.supply = m_inCache ? static_cast<double>(k.bytes) / seconds / m_device->l2Bandwidth : r.bandwidth;
  r.launch = m_device->launchSeconds / seconds;
  return r;
}

void ProfileModel::findCache() {
  std::int64_t bytes = 0;
  for (const protocol::KernelTimeInfo& k : m_profile.kernels) bytes += k.bytes;
  m_inCache = m_device && m_device->l2Bandwidth > 0 && bytes <= m_device->l2Bytes;
}

QString ProfileModel::limitOf(int row) const {
  if (row < 0 || row >= rowCount()) return {};
  const auto& k = m_profile.kernels[static_cast<std::size_t>(row)];
  const Rates r = ratesOf(k);
  if (!m_device || !(k.us > 0)) return {};
  const double supply = r.supply;
  const QString source = m_inCache ? tr("L2, where all of it stays,") : tr("memory");
  if (r.launch > 0.5) return tr("Limited by its launch: %1 of the call.").arg(percent(std::min(1.0, r.launch)));
  if (supply > 1 && supply >= r.arithmetic)
    return tr("Served by a cache: it moves %1 of what %2 could, arithmetic runs at %3.")
        .arg(percent(supply), m_inCache ? tr("L2") : tr("memory"), percent(r.arithmetic));
  if (supply < 0.3 && r.arithmetic < 0.3)
    return tr("Limited by neither ceiling: %1 at %2, arithmetic at %3. Latency, order or too little parallel work.")
        .arg(source, percent(supply), percent(r.arithmetic));
  if (r.arithmetic > 1 && r.arithmetic >= supply)
    return tr("At the peak of arithmetic: as it is written it counts %1 of what was measured, of which the kernel does less. "
              "%2 at %3.")
        .arg(percent(r.arithmetic), m_inCache ? source : tr("Memory"), percent(supply));
  if (supply >= r.arithmetic)
    return tr("Limited by %1: %2 of its bandwidth, arithmetic at %3.")
        .arg(m_inCache ? tr("L2, where all of it stays") : tr("memory"), percent(supply), percent(r.arithmetic));
  return tr("Limited by arithmetic: %1 of its peak, %2 at %3.").arg(percent(r.arithmetic), source, percent(supply));
}

PlotTable ProfileModel::table() const {
  PlotTable out{{tr("kernel"), tr("µs a call"), tr("calls a step"), tr("share of the step"), tr("GB/s"), tr("GFLOP/s"), tr("bytes"),
                 tr("FLOP"), tr("subgraph")},
                {}};
  for (const auto& k : m_profile.kernels)
    out.rows.push_back({QString::fromStdString(k.name), k.us, k.calls, m_profile.stepUs > 0 ? k.us * k.calls / m_profile.stepUs : 0,
                        k.us > 0 ? static_cast<double>(k.bytes) / k.us * 1e-3 : 0,
                        k.us > 0 ? static_cast<double>(k.flops) / k.us * 1e-3 : 0, QVariant::fromValue<qlonglong>(k.bytes),
                        QVariant::fromValue<qlonglong>(k.flops), QString::fromStdString(k.subgraph)});
  return out;
}

QVariant ProfileModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  if (role == kNowRole) return isNow(index.row());
  if (role == kHoldsRole) return m_holds && m_holds(m_profile.kernels[static_cast<std::size_t>(index.row())].subgraph);
  const auto& k = m_profile.kernels[static_cast<std::size_t>(index.row())];
  const double share = m_profile.stepUs > 0 ? k.us * k.calls / m_profile.stepUs : 0;
  const Rates r = ratesOf(k);
  const double gb = k.us > 0 ? static_cast<double>(k.bytes) / k.us * 1e-3 : 0,
               gflop = k.us > 0 ? static_cast<double>(k.flops) / k.us * 1e-3 : 0;
  if (role == Qt::DisplayRole) switch (index.column()) {
      case kKernel: return kernelName(k.name, 26);
      case kTime: return microsecondsText(k.us);
      case kCalls: return QString::number(k.calls, 'g', 4);
      case kShare: return percent(share);
      case kBandwidth: return significant(gb);
      case kArithmetic: return significant(gflop);
    }
  if (role == Qt::ToolTipRole) switch (index.column()) {
      case kBandwidth:
        return (m_inCache ? tr("%1 a call, %2 of the measured bandwidth of L2") : tr("%1 a call, %2 of the measured bandwidth"))
            .arg(bytesText(static_cast<double>(k.bytes)), percent(r.supply));
      case kArithmetic:
        return tr("%1 a call, %2 of the measured peak").arg(flopsText(static_cast<double>(k.flops)), percent(r.arithmetic));
      default: return shortName(k.name);
    }
  if (role == kBarRole) switch (index.column()) {
      case kShare: return share;
      case kBandwidth: return m_device ? QVariant(r.supply) : QVariant(0.0);
      case kArithmetic: return m_device ? QVariant(r.arithmetic) : QVariant(0.0);
      default: return {};
    }
  if (role == kLimitRole) switch (index.column()) {
      case kBandwidth: return r.supply >= 0.3 && r.supply <= 1 && r.supply >= r.arithmetic;
      case kArithmetic: return r.arithmetic >= 0.3 && r.arithmetic > r.supply;
      default: return false;
    }
  return {};
}

QVariant ProfileModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>((section == kTime || section == kCalls ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kKernel: return tr("Kernel");
    case kTime: return tr("A call");
    case kCalls: return tr("Calls");
    case kShare: return tr("Share");
    case kBandwidth: return tr("GB/s");
    case kArithmetic: return tr("GFLOP/s");
  }
  return {};
}

ProfileView::ProfileView(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_header(new PanelHeader(theme, tr("Profile"))), m_model(new ProfileModel(this)),
      m_table(new QTableView), m_launches(new TimelineModel(this)), m_timeline(new TimelineView(theme, m_launches)),
      m_launchTable(makeLaunchTable()), m_counters(new CountersView(theme)), m_pages(new QComboBox), m_stack(new QStackedWidget),
      m_bolt(new QLabel), m_sentence(label({})), m_tick(new QTimer(this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* profile = new IconButton(theme, QStringLiteral("measure"), tr("Profile"));
  profile->setObjectName(QStringLiteral("profile"));
  profile->setToolTip(tr("Run some steps and time every kernel"));
  connect(profile, &QToolButton::clicked, this, &ProfileView::profileWanted);
  m_pages->addItems({tr("Kernels"), tr("Timeline"), tr("Launches"), tr("Counters")});
  m_pages->setProperty("flat", true);
  m_pages->setObjectName(QStringLiteral("profilePages"));
  m_pages->setAccessibleName(tr("Profile as kernels, over time, launch by launch, or by counters"));
  m_header->add(m_pages);
  m_header->add(profile);
  layout->addWidget(m_header);
  layout->addWidget(line());
  m_table->setTabKeyNavigation(false);
  m_table->setModel(m_model);
  m_table->setItemDelegate(new BarDelegate(theme, this));
  m_table->setAccessibleName(tr("Kernels of a step"));
  m_table->setShowGrid(false);
  m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_table->setSelectionMode(QAbstractItemView::SingleSelection);
  m_table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_table->verticalHeader()->hide();
  m_table->verticalHeader()->setDefaultSectionSize(26);
  m_table->horizontalHeader()->setHighlightSections(false);
  m_table->horizontalHeader()->setFixedHeight(26);
  m_table->horizontalHeader()->setMinimumSectionSize(40);
  m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  m_table->horizontalHeader()->setSectionResizeMode(ProfileModel::kKernel, QHeaderView::Stretch);
  const int widths[] = {0, 74, 54, 112, 126, 126};
  for (int i = 1; i < ProfileModel::kColumns; ++i) m_table->setColumnWidth(i, widths[i]);
  m_table->setMinimumHeight(78);
  m_stack->addWidget(m_table);
  m_stack->addWidget(m_timeline);
  m_stack->addWidget(m_launchTable);
  m_stack->addWidget(m_counters);
  layout->addWidget(m_stack, 1);
  // No taller than the kernels alone would be.
  m_stack->setMinimumHeight(78);
  connect(m_pages, &QComboBox::currentIndexChanged, this, [this](int page) { showPage(static_cast<Page>(page)); });
  m_timeline->setNow([this](const protocol::TimelineSite& site) { return m_model->isNow(site.subgraph); });
  connect(m_timeline, &TimelineView::chosenByHand, this, [this](int row) { chooseLaunch(row, false); });
  layout->addWidget(line());
  auto* foot = new QHBoxLayout;
  foot->setContentsMargins(16, 6, 16, 6);
  foot->setSpacing(8);
  foot->addWidget(m_bolt, 0, Qt::AlignTop);
  m_sentence->setWordWrap(true);
  foot->addWidget(m_sentence, 1);
  layout->addLayout(foot);
  m_tick->setInterval(kSoonMs);
  connect(m_tick, &QTimer::timeout, this, [this] {
    showAge();
    if (!m_taken) m_tick->stop();
    else if (std::chrono::steady_clock::now() - *m_taken > std::chrono::minutes(1)) m_tick->setInterval(kLaterMs);
  });
  connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& now) {
    if (!now.isValid()) return;
    const auto& k = m_model->profile().kernels[static_cast<std::size_t>(now.row())];
    if (k.subgraph == m_chosen) return showSentence();
    m_chosen = k.subgraph;
    m_counters->choose(m_chosen);
    showSentence();
    if (m_model->isOfPlan(k.subgraph)) Q_EMIT kernelChosen(k.subgraph);
  });
  connect(theme, &Theme::changed, this, [this] { showSentence(); });
  setContextMenuPolicy(Qt::ActionsContextMenu);
  for (const char* suffix : {"csv", "json"}) {
    auto* a = new QAction(tr("Save as %1...").arg(QString::fromLatin1(suffix).toUpper()), this);
    a->setObjectName(QLatin1String(suffix));
    connect(a, &QAction::triggered, this, [this, ending = QString::fromLatin1(suffix)] {
      const QString path = askSavePath(this, tr("Save the profile"), QStringLiteral("profile.") + ending);
      if (path.isEmpty()) return;
      if (const QString error = save(path); !error.isEmpty())
        m_header->setDetail(tr("%1 was not written: %2").arg(QFileInfo(path).fileName(), error));
    });
    addAction(a);
  }
  clear();
}

QTableView* ProfileView::makeLaunchTable() {
  auto* table = new QTableView;
  table->setTabKeyNavigation(false);
  table->setModel(m_launches);
  table->setAccessibleName(tr("Launches of a step"));
  table->setShowGrid(false);
  table->setFont(m_theme->mono(12));
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setSelectionMode(QAbstractItemView::SingleSelection);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(24);
  table->horizontalHeader()->setHighlightSections(false);
  table->horizontalHeader()->setFixedHeight(26);
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  table->horizontalHeader()->setSectionResizeMode(TimelineModel::kKernel, QHeaderView::Stretch);
  for (const auto& [column, width] : {std::pair{TimelineModel::kBegin, 92},
                                      {TimelineModel::kDuration, 86},
                                      {TimelineModel::kWhat, 132},
                                      {TimelineModel::kLane, 84}})
    table->setColumnWidth(column, width);
  connect(table->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& now) {
    if (now.isValid() && now.row() != m_timeline->chosen()) chooseLaunch(now.row(), true);
  });
  return table;
}

void ProfileView::chooseLaunch(int row, bool inTable) {
  // The chosen one is the same on both pages.
  if (inTable) return m_timeline->choose(row);
  if (m_launchTable->currentIndex().row() != row) m_launchTable->setCurrentIndex(m_launches->index(row, 0));
  if (const auto* site = m_launches->siteOf(row)) {
    const protocol::TimelineSite chosen = *site;
    m_chosen = chosen.subgraph;
    m_counters->choose(m_chosen);
    Q_EMIT launchChosen(chosen);
  }
}

void ProfileView::showPage(Page page) {
  m_pages->setCurrentIndex(page);
  m_stack->setCurrentIndex(page);
  showSentence();
}

void ProfileView::setSelected(std::function<bool(const protocol::TimelineSite&)> selected) {
  m_timeline->setSelected(std::move(selected));
}

void ProfileView::addCounters(const protocol::KernelCountersEvent& counters) { m_counters->add(counters); }

void ProfileView::refreshSelected() {
  m_timeline->update();
  m_table->viewport()->update();
}

// Names first: bars give way to them.
void ProfileView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  const bool narrow = width() < 600, least = width() < 460;
  m_table->setColumnHidden(ProfileModel::kCalls, narrow);
  m_table->setColumnWidth(ProfileModel::kTime, least ? 68 : 74);
  for (const auto& [column, wide] :
       {std::pair{ProfileModel::kShare, 112}, {ProfileModel::kBandwidth, 126}, {ProfileModel::kArithmetic, 126}})
    m_table->setColumnWidth(column, least ? m_table->horizontalHeader()->sectionSizeHint(column) : narrow ? 92 : wide);
}

void ProfileView::clear() {
  m_taken.reset();
  m_model->setProfile({});
  m_launches->setTimeline({});
  m_counters->clear();
  showAge();
  showSentence();
}

void ProfileView::setProfile(const protocol::Profile& profile, std::chrono::steady_clock::time_point taken) {
  m_taken = taken;
  m_tick->start(kSoonMs);
  m_model->setProfile(profile);
  m_launches->setTimeline(profile.timeline);
  m_counters->setProfile(profile);
  choose(m_chosen);
  showAge();
  showSentence();
}

void ProfileView::setDevice(std::optional<protocol::DeviceConstants> device) {
  m_model->setDevice(std::move(device));
  showSentence();
}

void ProfileView::setRunning(bool running) { findChild<IconButton*>(QStringLiteral("profile"))->setVisible(!running); }

void ProfileView::choose(const std::string& subgraph) {
  m_chosen = subgraph;
  const int row = m_model->rowOf(subgraph);
  if (row >= 0 && row != m_table->currentIndex().row()) m_table->setCurrentIndex(m_model->index(row, 0));
  if (row < 0) m_table->clearSelection();
  m_counters->choose(subgraph);
  showSentence();
}

void ProfileView::setKernels(std::optional<std::set<std::string>> subgraphs) {
  m_model->setKernels(std::move(subgraphs));
  m_timeline->update();
  showAge();
  showSentence();
}

void ProfileView::setStep(const std::string& device, bool edited, const std::set<std::string>& replaced) {
  m_model->setStep(device, edited, replaced);
  m_timeline->update();
  showAge();
  showSentence();
}

void ProfileView::showAge() {
  const auto& p = m_model->profile();
  if (!m_taken) return m_header->setDetail(tr("wall time of each, once a step was profiled"));
  const QString why = m_model->whyNotNow();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - *m_taken).count();
  const QString of =
      tr("median of %1, %2")
          .arg(counted(p.runs, tr("step"), tr("steps")), seconds < 2 ? tr("just now") : tr("%1 ago").arg(agoText(seconds)));
  const QString where = !why.isEmpty() ? why : p.training ? tr("in the steps that train") : tr("of a profiled step");
  m_header->setDetail(where + QStringLiteral(", ") + of);
}

void ProfileView::showSentence() {
  const int row = m_model->rowOf(m_chosen);
  const bool kernels = m_stack->currentIndex() == kKernels;
  const std::string& why = m_model->profile().timeline.why;
  const QString limit = row >= 0 && m_model->isNow(row) ? m_model->limitOf(row) : QString();
  const QString text =
      row >= 0 && !m_model->isOfPlan(m_chosen)
          ? tr("The step has no such kernel now: this profile is %1. Profile measures the step as it is.").arg(m_model->whyNotNow())
      : row >= 0 && !m_model->isOfStep(m_chosen)
          ? tr("This profile is %1. Profile measures the step as it is.").arg(m_model->whyNotNow())
      : row >= 0 && !m_model->isNow(row) ? tr("Another kernel has taken its place since. Profile measures the step as it is.")
      : kernels || why.empty()           ? limit
                                         : tr("Times are the host's, around each launch. %1").arg(QString::fromStdString(why));
  m_sentence->setText(text);
  m_sentence->setVisible(!text.isEmpty());
  m_bolt->setVisible(!limit.isEmpty() && text == limit);
  m_bolt->setPixmap(m_theme->pixmap(QStringLiteral("bolt"), m_theme->colors().backward, devicePixelRatioF()));
}

QString ProfileView::age() const { return m_header->detail(); }

QString ProfileView::sentence() const { return m_sentence->text(); }

QString ProfileView::save(const QString& path) const {
  const int page = m_stack->currentIndex();
  const PlotTable table = page == kKernels ? m_model->table() : page == kCounters ? m_counters->table() : m_launches->table();
  const QByteArray bytes = path.endsWith(QLatin1String(".json")) ? jsonOf(table) : csvOf(table).toUtf8();
  return writeWhole(path, {bytes.constData(), static_cast<std::size_t>(bytes.size())});
}

}  // namespace nf
