// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/leads.h"

#include <QHBoxLayout>
#include <QLabel>

#include "widgets/basic.h"

namespace nf {

void showLeads(Section* section, const Theme* theme, const std::vector<Lead>& leads,
               const std::function<void(const QString&)>& go) {
  section->clear();
  section->setVisible(!leads.empty());
  section->setDetail(QString::number(leads.size()));
  for (const Lead& lead : leads) {
    auto* button = new IconButton(theme, lead.icon, lead.text);
    button->setCursor(Qt::PointingHandCursor);
    button->setObjectName(lead.target);
    button->setToolTip(lead.text);
    // A long name gives way to the panel's width.
    button->setMinimumWidth(80);
    button->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
    button->setStyleSheet(QStringLiteral("QToolButton { text-align: left; padding: 2px 4px; }"));
    auto* row = new QHBoxLayout;
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(8);
    row->addWidget(button, 1);
    auto* detail = label(lead.detail, "hint");
    detail->setFont(theme->mono(12));
    row->addWidget(detail);
    section->body()->addLayout(row);
    QObject::connect(button, &QToolButton::clicked, section, [go, target = lead.target] { go(target); });
  }
}

}  // namespace nf
