// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/dock_page.h"

#include <QDockWidget>
#include <QLayout>
#include <QMenu>
#include <QSettings>
#include <algorithm>

#include "widgets/basic.h"

namespace nf {

DockPage::DockPage(const Theme* theme, const QString& id, QWidget* parent) : QMainWindow(parent), m_theme(theme), m_id(id) {
  setObjectName(id);
  setWindowFlags(Qt::Widget);
  setContextMenuPolicy(Qt::PreventContextMenu);
  setDockOptions(QMainWindow::AllowNestedDocks | QMainWindow::AllowTabbedDocks);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
}

QDockWidget* DockPage::addPanel(const QString& id, PanelHeader* header, QWidget* content, Qt::DockWidgetArea area, int size) {
  auto* dock = new QDockWidget(header->title(), this);
  dock->setObjectName(m_id + QLatin1Char('.') + id);
  dock->setAccessibleName(header->title());
  dock->setTitleBarWidget(header);
  dock->setWidget(content);
  auto* more = new IconButton(m_theme, QStringLiteral("more"));
  more->setAccessibleName(tr("Panel %1").arg(header->title()));
  more->setToolTip(tr("Float or hide this panel"));
  more->setPopupMode(QToolButton::InstantPopup);
  auto* menu = new QMenu(more);
  QAction* floating = menu->addAction(tr("Float"), dock, [dock] { dock->setFloating(!dock->isFloating()); });
  connect(dock, &QDockWidget::topLevelChanged, floating,
          [floating](bool top) { floating->setText(top ? tr("Back into the window") : tr("Float")); });
  menu->addAction(tr("Hide"), dock, [dock] { dock->hide(); });
  menu->addAction(tr("Reset this page"), this, &DockPage::resetLayout);
  more->setMenu(menu);
  header->add(more);
  addDockWidget(area, dock);
  m_panels.push_back({dock, area, size});
  return dock;
}

QList<QAction*> DockPage::panelActions() const {
  QList<QAction*> actions;
  for (const Panel& p : m_panels) actions << p.dock->toggleViewAction();
  return actions;
}

QDockWidget* DockPage::panel(const QString& id) const {
  for (const Panel& p : m_panels)
    if (p.dock->objectName() == m_id + QLatin1Char('.') + id) return p.dock;
  return nullptr;
}

void DockPage::saveLayout(QSettings& settings) const {
  settings.setValue(QStringLiteral("layout/") + m_id, saveState(kLayoutVersion));
}

void DockPage::restoreLayout(const QSettings& settings) {
  const QByteArray state = settings.value(QStringLiteral("layout/") + m_id).toByteArray();
  if (!state.isEmpty() && restoreState(state, kLayoutVersion)) m_placed = true;
}

void DockPage::resetLayout() {
  for (const Panel& p : m_panels) {
    p.dock->setFloating(false);
    addDockWidget(p.area, p.dock);
    p.dock->show();
  }
  layout()->activate();
  for (const Panel& p : m_panels) {
    const bool upright = p.area == Qt::LeftDockWidgetArea || p.area == Qt::RightDockWidgetArea;
    // In a small window the view in the middle keeps most of it.
    constexpr double kWidest = 0.30, kHighest = 0.40;
    const int most = static_cast<int>(upright ? width() * kWidest : height() * kHighest);
    resizeDocks({p.dock}, {std::min(p.size, most)}, upright ? Qt::Horizontal : Qt::Vertical);
  }
  layout()->activate();
}

void DockPage::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (m_placed) return;
  m_placed = true;
  resetLayout();
}

}  // namespace nf
