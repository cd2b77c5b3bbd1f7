// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/dock_page.h"

#include <QApplication>
#include <QDockWidget>
#include <QEvent>
#include <QLayout>
#include <QMenu>
#include <QSettings>
#include <QTimer>
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
  dock->installEventFilter(this);
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
  for (const Panel& p : m_panels) settings.setValue(QStringLiteral("size/") + p.dock->objectName(), p.wanted);
}

void DockPage::restoreLayout(const QSettings& settings) {
  const QByteArray state = settings.value(QStringLiteral("layout/") + m_id).toByteArray();
  if (!state.isEmpty() && restoreState(state, kLayoutVersion)) m_placed = true;
  for (Panel& p : m_panels) p.wanted = settings.value(QStringLiteral("size/") + p.dock->objectName()).toInt();
}

void DockPage::resetLayout() {
  for (Panel& p : m_panels) {
    p.dock->setFloating(false);
    addDockWidget(p.area, p.dock);
    p.dock->show();
    p.wanted = 0;
  }
  keepSizes();
}

// A window that was small and has grown has its panels as they were wanted.
void DockPage::keepSizes() {
  m_resizing = true;
  layout()->activate();
  for (const Panel& p : m_panels) {
    if (p.dock->isFloating() || p.dock->isHidden()) continue;
    const Qt::DockWidgetArea area = dockWidgetArea(p.dock);
    const bool upright = area == Qt::LeftDockWidgetArea || area == Qt::RightDockWidgetArea;
    // In a small window the view in the middle keeps most of it.
    constexpr double kWidest = 0.30, kHighest = 0.40;
    const int most = static_cast<int>(upright ? width() * kWidest : height() * kHighest);
    const int size = p.wanted > 0 && area == p.area ? p.wanted : std::min(p.size, most);
    resizeDocks({p.dock}, {size}, upright ? Qt::Horizontal : Qt::Vertical);
  }
  layout()->activate();
  m_resizing = false;
}

void DockPage::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  if (!m_placed) return;
  m_resizing = true;
  QTimer::singleShot(0, this, &DockPage::keepSizes);
}

// A hand on the edge between two panels.
bool DockPage::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && QApplication::mouseButtons() & Qt::LeftButton && !m_resizing)
    for (Panel& p : m_panels)
      if (p.dock == watched && !p.dock->isFloating() && dockWidgetArea(p.dock) == p.area)
        p.wanted = p.area == Qt::LeftDockWidgetArea || p.area == Qt::RightDockWidgetArea ? p.dock->width() : p.dock->height();
  return QMainWindow::eventFilter(watched, event);
}

void DockPage::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (m_placed) return;
  m_placed = true;
  resetLayout();
}

}  // namespace nf
