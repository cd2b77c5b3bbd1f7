// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/devices_view.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QScrollArea>
#include <QTimer>
#include <QVBoxLayout>

#include "widgets/basic.h"

namespace nf {
namespace {

constexpr int kNames = 148, kColumn = 980;

QLabel* wrapped(QLabel* l) {
  l->setWordWrap(true);
  l->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return l;
}

// Where the interval is wider than this share of its value, the figure is told to be shaky.
constexpr double kWide = 0.2;

bool isWide(double value, const protocol::Interval& i) { return i.samples > 0 && i.high - i.low > kWide * value; }

QString known(const QString& noise) { return noise.isEmpty() ? DevicesView::tr("interval not known") : noise; }

// A measured constant: the number large, what it is and how far it may be off below it.
QWidget* figure(const Theme* theme, const QString& value, const QString& name, const QString& noise, const QString& note) {
  auto* widget = new QWidget;
  auto* layout = new QVBoxLayout(widget);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* number = label(value);
  number->setFont(theme->ui(20, QFont::DemiBold));
  layout->addWidget(number);
  auto* words = label(name);
  words->setFont(theme->ui(12));
  layout->addWidget(words);
  auto* interval = label(noise, "muted");
  interval->setObjectName(QStringLiteral("noise"));
  interval->setFont(theme->ui(12));
  interval->setToolTip(DevicesView::tr("Holds the true value with 95 %, as far as the samples of one measurement can tell"));
  layout->addWidget(interval);
  auto* under = label(note, "muted");
  under->setObjectName(QStringLiteral("note"));
  under->setFont(theme->ui(12));
  layout->addWidget(under);
  widget->setAccessibleName(name + QLatin1Char(' ') + value + QLatin1Char(' ') + noise);
  return widget;
}

}  // namespace

DevicesView::DevicesView(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_header(new PanelHeader(theme, tr("Devices"))), m_content(new QWidget),
      m_layout(new QVBoxLayout(m_content)), m_measure(new IconButton(theme, QStringLiteral("measure"), tr("Measure again"))),
      m_tick(new QTimer(this)) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_header->add(m_measure);
  m_measure->setToolTip(tr("The new constants count from the next start of the engine"));
  m_header->setDetail(tr("constants are measured on this machine, never looked up"));
  connect(m_measure, &QToolButton::clicked, this, &DevicesView::measureWanted);
  layout->addWidget(m_header);
  layout->addWidget(line());
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  m_content->setProperty("role", QStringLiteral("page"));
  scroll->setWidget(m_content);
  layout->addWidget(scroll, 1);
  m_layout->setContentsMargins(24, 20, 24, 24);
  m_layout->setSpacing(16);
  m_layout->addWidget(label(tr("Waiting for the engine."), "muted"));
  m_layout->addStretch(1);
  connect(theme, &Theme::changed, this, [this] {
    if (m_devices) fill();
  });
  m_tick->setInterval(1000);
  connect(m_tick, &QTimer::timeout, this, [this] {
    if (isVisible()) showAges();
    else m_tick->stop();
  });
}

void DevicesView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  showAges();
  m_tick->start();
}

void DevicesView::setRunning(const std::string& device, const QString& what) {
  if (device == m_running && what == m_what) return;
  m_running = device, m_what = what;
  showStates();
}

QString DevicesView::stateOf(const std::string& device) const {
  for (const State& s : m_states)
    if (s.device == device) return s.words;
  return {};
}

void DevicesView::showStates() {
  for (State& s : m_states) {
    const bool runs = !s.missing && !m_running.empty() && s.device == m_running;
    s.words = s.missing ? tr("missing") : runs ? (m_what.isEmpty() ? tr("in use") : tr("in use: %1").arg(m_what)) : tr("ready");
    s.badge->show(s.missing ? QStringLiteral("refused")
                  : runs    ? QStringLiteral("running")
                            : QStringLiteral("ok"),
                  s.words,
                  s.missing ? &Palette::muted
                  : runs    ? &Palette::accent
                            : &Palette::proved);
  }
}

void DevicesView::showAges() {
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - m_taken).count();
  for (const Age& a : m_ages) {
    const double ago = a.secondsAgo + passed;
    a.label->setText(ago < 5 ? tr("measured now")
                     : ago < 86400
                         ? tr("measured %1 ago").arg(ago < 60 ? tr("%1 s").arg(static_cast<int>(ago)) : secondsText(ago))
                         : tr("measured %1 ago").arg(counted(static_cast<std::int64_t>(ago / 86400), tr("day"), tr("days"))));
  }
}

// Wide lines are hard to read: one column, as wide as a page.
void DevicesView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  m_layout->setContentsMargins(24, 20, std::max(24, width() - 24 - kColumn), 24);
}

void DevicesView::setMeasuring(bool measuring) {
  m_measure->setEnabled(!measuring);
  m_header->setDetail(measuring ? tr("measuring") : tr("constants are measured on this machine, never looked up"));
}

void DevicesView::setFailed(const QString& message) {
  setMeasuring(false);
  m_header->setDetail(message);
}

QString DevicesView::detail() const { return m_header->detail(); }

void DevicesView::setDevices(const protocol::Devices& devices, std::chrono::steady_clock::time_point taken) {
  m_devices = devices;
  m_taken = taken;
  setMeasuring(false);
  fill();
}

void DevicesView::fill() {
  const protocol::Devices& devices = *m_devices;
  m_states.clear();
  m_ages.clear();
  while (QLayoutItem* item = m_layout->takeAt(0)) {
    if (item->widget()) item->widget()->hide(), item->widget()->deleteLater();
    delete item;
  }
  // What can serve first, what is missing after it.
  std::vector<const protocol::DeviceInfo*> order;
  for (const bool missing : {false, true})
    for (const auto& d : devices.devices)
      if (d.unavailable.empty() != missing) order.push_back(&d);
  for (const auto* d : order) m_layout->addWidget(deviceCard(*d));
  if (!devices.doctor.empty()) m_layout->addWidget(doctorTable(devices.doctor));
  m_layout->addStretch(1);
  showStates();
  showAges();
}

QWidget* DevicesView::deviceCard(const protocol::DeviceInfo& d) {
  const Palette& c = m_theme->colors();
  auto* card = new QWidget;
  card->setObjectName(QString::fromStdString(d.name));
  auto* box = new QVBoxLayout(card);
  box->setContentsMargins(0, 0, 0, 0);
  box->setSpacing(10);
  auto* head = new QHBoxLayout;
  head->setSpacing(8);
  auto* icon = new QLabel;
  icon->setPixmap(m_theme->pixmap(QStringLiteral("chip"), d.unavailable.empty() ? c.text : c.hint, devicePixelRatioF()));
  head->addWidget(icon);
  auto* name = label(QString::fromStdString(d.name));
  name->setFont(m_theme->ui(15, QFont::DemiBold));
  head->addWidget(name);
  head->addWidget(label(QString::fromStdString(d.description), "muted"));
  auto* badge = new Badge(m_theme);
  m_states.push_back({d.name, !d.unavailable.empty(), badge, {}});
  head->addStretch(1);
  if (d.unavailable.empty()) {
    auto* use = new IconButton(m_theme, QStringLiteral("chip"), d.inUse ? tr("Used") : tr("Use"));
    use->setObjectName(QStringLiteral("use"));
    use->setEnabled(!d.inUse);
    use->setToolTip(d.inUse ? tr("Cells run, train and are tuned here, where they ask for no other device")
                            : tr("Run, train and tune here, where a cell asks for no other device"));
    const QString device = QString::fromStdString(d.name);
    use->setAccessibleName(tr("Use %1").arg(device));
    connect(use, &QToolButton::clicked, this, [this, device, use] {
      use->setEnabled(false);
      Q_EMIT deviceWanted(device);
    });
    head->addWidget(use);
  }
  head->addWidget(badge);
  box->addLayout(head);
  if (!d.unavailable.empty()) {
    auto* why = wrapped(label(QString::fromStdString(d.unavailable)));
    why->setContentsMargins(24, 0, 0, 0);
    box->addWidget(why);
  }
  const auto figures = [&](const protocol::DeviceConstants& k, const QString& title, const QString& note) {
    if (!title.isEmpty()) {
      auto* words = label(title);
      words->setFont(m_theme->ui(13, QFont::DemiBold));
      words->setContentsMargins(24, 4, 0, 0);
      box->addWidget(words);
    }
    auto* row = new QHBoxLayout;
    row->setContentsMargins(24, 0, 0, 4);
    row->setSpacing(48);
    auto* bandwidth = figure(m_theme, flopsText(k.bandwidth, QStringLiteral("B/s")), tr("P_d, memory bandwidth"),
                             known(rateNoise(k.bandwidth, k.bandwidthInterval)), {});
    m_ages.push_back({bandwidth->findChild<QLabel*>(QStringLiteral("note")), k.measuredSecondsAgo});
    row->addWidget(bandwidth);
    row->addWidget(
        figure(m_theme, flopsText(k.flopRate, QStringLiteral("FLOP/s")), tr("P_c, arithmetic, f32"),
               known(rateNoise(k.flopRate, k.flopInterval)),
               k.bandwidth > 0 ? tr("%1 FLOP a byte to be limited by it").arg(significant(k.flopRate / k.bandwidth)) : QString()));
    row->addWidget(figure(m_theme, microsecondsText(k.launchSeconds * 1e6), tr("L, one launch"),
                          known(secondsNoise(k.launchSeconds, k.launchInterval)), QString()));
    if (k.l2Bandwidth > 0)
      row->addWidget(figure(m_theme, flopsText(k.l2Bandwidth, QStringLiteral("B/s")), tr("L2 bandwidth"),
                            known(rateNoise(k.l2Bandwidth, k.l2Interval)), QString()));
    row->addStretch(1);
    box->addLayout(row);
    QStringList shaky;
    if (isWide(k.bandwidth, k.bandwidthInterval)) shaky << QStringLiteral("P_d");
    if (isWide(k.flopRate, k.flopInterval)) shaky << QStringLiteral("P_c");
    if (isWide(k.launchSeconds, k.launchInterval)) shaky << QStringLiteral("L");
    if (isWide(k.l2Bandwidth, k.l2Interval)) shaky << tr("L2 bandwidth");
    if (!shaky.isEmpty()) {
      auto* warning = new MessageStrip(m_theme, true);
      warning->setObjectName(QStringLiteral("shaky"));
      warning->setText(tr("The interval of %1 is wide: the machine was busy while it was measured. Measure again when it is idle.")
                           .arg(shaky.join(QStringLiteral(", "))));
      warning->setContentsMargins(24, 0, 0, 0);
      box->addWidget(warning);
    }
    if (note.isEmpty()) return;
    auto* under = wrapped(label(note, "muted"));
    under->setContentsMargins(24, 0, 0, 4);
    box->addWidget(under);
  };
  if (d.kernels && d.constants)
    figures(*d.kernels, scopeText(*d.kernels, d.constants->threads),
            tr("What kernels run on here: fusion decisions, roofline and profile count with these."));
  if (d.constants)
    figures(*d.constants, d.kernels ? tr("All of it: %1").arg(scopeText(*d.constants)) : scopeText(*d.constants), {});
  if (!d.facts.empty()) {
    auto* grid = new QGridLayout;
    grid->setContentsMargins(24, 0, 0, 0);
    grid->setHorizontalSpacing(16);
    grid->setVerticalSpacing(3);
    int row = 0;
    for (const auto& fact : d.facts) {
      grid->addWidget(label(QString::fromStdString(fact.name), "muted"), row, 0, Qt::AlignTop);
      auto* value = wrapped(label(QString::fromStdString(fact.text)));
      value->setFont(m_theme->mono(12));
      grid->addWidget(value, row++, 1);
    }
    grid->setColumnStretch(1, 1);
    grid->setColumnMinimumWidth(0, kNames);
    box->addLayout(grid);
  }
  box->addSpacing(2);
  box->addWidget(line());
  return card;
}

QWidget* DevicesView::doctorTable(const std::vector<protocol::DoctorLine>& lines) {
  const Palette& c = m_theme->colors();
  auto* block = new QWidget;
  auto* layout = new QVBoxLayout(block);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(8);
  auto* title = label(tr("Doctor"));
  title->setFont(m_theme->ui(15, QFont::DemiBold));
  layout->addWidget(title);
  auto* grid = new QGridLayout;
  grid->setHorizontalSpacing(8);
  grid->setVerticalSpacing(3);
  int row = 0;
  for (const auto& entry : lines) {
    auto* icon = new QLabel;
    icon->setPixmap(m_theme->pixmap(entry.ok ? QStringLiteral("ok") : QStringLiteral("refused"), entry.ok ? c.proved : c.stale,
                                    devicePixelRatioF()));
    icon->setAccessibleName(entry.ok ? tr("found") : tr("missing"));
    grid->addWidget(icon, row, 0, Qt::AlignTop);
    grid->addWidget(label(QString::fromStdString(entry.item)), row, 1, Qt::AlignTop);
    // The font of the words would set the x of `x86_64` as a sign.
    auto* text = wrapped(label(QString::fromStdString(entry.text), "muted"));
    text->setFont(m_theme->mono(12));
    grid->addWidget(text, row++, 2);
  }
  grid->setColumnStretch(2, 1);
  grid->setColumnMinimumWidth(1, kNames);
  layout->addLayout(grid);
  return block;
}

}  // namespace nf
