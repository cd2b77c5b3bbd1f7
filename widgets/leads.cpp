// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/leads.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QStyleOptionToolButton>

#include "widgets/basic.h"

namespace nf {
namespace {

// Keeps as much of its name as there is room for.
class LeadButton : public IconButton {
 public:
  using IconButton::IconButton;
  QSize sizeHint() const override {
    m_whole = true;
    const QSize size = IconButton::sizeHint();
    m_whole = false;
    return size;
  }

 protected:
  void initStyleOption(QStyleOptionToolButton* option) const override {
    QToolButton::initStyleOption(option);
    if (m_whole) return;
    const QFontMetrics metrics = fontMetrics();
    if (const int missing = sizeHint().width() - width(); missing > 0)
      option->text = metrics.elidedText(text(), Qt::ElideRight, metrics.horizontalAdvance(text()) - missing);
  }

 private:
  mutable bool m_whole = false;
};

}  // namespace

void showLeads(Section* section, const Theme* theme, const std::vector<Lead>& leads,
               const std::function<void(const QString&)>& go) {
  section->clear();
  section->setVisible(!leads.empty());
  section->setDetail(QString::number(leads.size()));
  for (const Lead& lead : leads) {
    auto* button = new LeadButton(theme, lead.icon, lead.text);
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
