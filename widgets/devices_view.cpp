// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/devices_view.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QScrollArea>
#include <QVBoxLayout>

#include "widgets/basic.h"

namespace nf {

DevicesView::DevicesView(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_header(new PanelHeader(theme, tr("Devices"))), m_content(new QWidget),
      m_layout(new QVBoxLayout(m_content)) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* measure = new IconButton(theme, QStringLiteral("measure"), tr("Measure again"));
  m_header->add(measure);
  m_header->setDetail(tr("constants are measured on this machine, never looked up"));
  connect(measure, &QToolButton::clicked, this, &DevicesView::measureWanted);
  layout->addWidget(m_header);
  layout->addWidget(line());
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  m_content->setProperty("role", QStringLiteral("page"));
  scroll->setWidget(m_content);
  layout->addWidget(scroll, 1);
  m_layout->setContentsMargins(24, 16, 24, 16);
  m_layout->setSpacing(12);
  m_layout->addWidget(label(tr("Waiting for the engine."), "muted"));
  m_layout->addStretch(1);
}

void DevicesView::setDevices(const protocol::Devices& devices) {
  while (QLayoutItem* item = m_layout->takeAt(0)) {
    if (item->widget()) item->widget()->hide(), item->widget()->deleteLater();
    delete item;
  }
  const Palette& c = m_theme->colors();
  for (const auto& d : devices.devices) {
    auto* card = new QWidget;
    auto* box = new QVBoxLayout(card);
    box->setContentsMargins(0, 0, 0, 0);
    box->setSpacing(6);
    auto* head = new QHBoxLayout;
    auto* icon = new QLabel;
    icon->setPixmap(m_theme->pixmap(QStringLiteral("chip"), c.text, devicePixelRatioF()));
    head->addWidget(icon);
    auto* title = label(QString::fromStdString(d.description.empty() ? d.name : d.description));
    title->setFont(m_theme->ui(15, QFont::DemiBold));
    head->addWidget(title);
    auto* badge = new Badge(m_theme);
    if (!d.unavailable.empty()) badge->show(QStringLiteral("refused"), tr("missing"), c.muted);
    else if (d.inUse) badge->show(QStringLiteral("running"), tr("in use"), c.accent);
    else badge->show(QStringLiteral("ok"), tr("ready"), c.proved);
    head->addWidget(badge);
    head->addStretch(1);
    head->addWidget(label(QString::fromStdString(d.name), "hint"));
    box->addLayout(head);
    if (!d.unavailable.empty()) {
      auto* why = label(QString::fromStdString(d.unavailable), "muted");
      why->setWordWrap(true);
      box->addWidget(why);
    }
    auto* grid = new QGridLayout;
    grid->setHorizontalSpacing(24);
    grid->setVerticalSpacing(4);
    int row = 0;
    const auto add = [&](const QString& name, const QString& value, const QString& note = {}) {
      grid->addWidget(label(name, "muted"), row, 0);
      auto* v = label(value);
      v->setFont(m_theme->mono(13));
      v->setWordWrap(true);
      v->setTextInteractionFlags(Qt::TextSelectableByMouse);
      grid->addWidget(v, row, 1);
      grid->addWidget(label(note, "hint"), row, 2);
      ++row;
    };
    if (d.constants) {
      const auto& k = *d.constants;
      const QString ago =
          k.measuredSecondsAgo > 0 ? tr("measured %1 ago").arg(secondsText(k.measuredSecondsAgo)) : tr("measured now");
      add(tr("Bandwidth, P_d"), flopsText(k.bandwidth, QStringLiteral("B/s")), ago);
      add(tr("Arithmetic, P_c"), flopsText(k.flopRate, QStringLiteral("FLOP/s")));
      add(tr("One launch, L"), microsecondsText(k.launchSeconds * 1e6));
      if (k.l2Bandwidth > 0) add(tr("L2 bandwidth"), flopsText(k.l2Bandwidth, QStringLiteral("B/s")));
    }
    for (const auto& fact : d.facts) add(QString::fromStdString(fact.name), QString::fromStdString(fact.text));
    grid->setColumnStretch(1, 1);
    grid->setColumnMinimumWidth(0, 150);
    box->addLayout(grid);
    m_layout->addWidget(card);
    m_layout->addWidget(line());
  }
  if (!devices.doctor.empty()) {
    auto* title = label(tr("Doctor"));
    title->setFont(m_theme->ui(15, QFont::DemiBold));
    m_layout->addWidget(title);
    auto* table = new QWidget;
    auto* grid = new QGridLayout(table);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(12);
    int row = 0;
    for (const auto& entry : devices.doctor) {
      auto* icon = new QLabel;
      icon->setPixmap(m_theme->pixmap(entry.ok ? QStringLiteral("ok") : QStringLiteral("refused"), entry.ok ? c.proved : c.muted,
                                      devicePixelRatioF()));
      icon->setAccessibleName(entry.ok ? tr("found") : tr("missing"));
      grid->addWidget(icon, row, 0);
      grid->addWidget(label(QString::fromStdString(entry.item)), row, 1);
      auto* text = label(QString::fromStdString(entry.text), "muted");
      text->setWordWrap(true);
      grid->addWidget(text, row++, 2);
    }
    grid->setColumnStretch(2, 1);
    grid->setColumnMinimumWidth(1, 150);
    m_layout->addWidget(table);
  }
  m_layout->addStretch(1);
}

}  // namespace nf
