// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/dock_page.h"

#include <QApplication>
#include <QDockWidget>
#include <QEvent>
#include <QLayout>
#include <QMenu>
#include <QSettings>
#include <QTimer>
#include <QToolBar>
#include <algorithm>

#include "widgets/basic.h"

namespace nf {
namespace {
bool isUpright(Qt::DockWidgetArea area) { return area == Qt::LeftDockWidgetArea || area == Qt::RightDockWidgetArea; }
}  // namespace

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

const DockPage::Panel* DockPage::find(const QString& id) const {
  const auto found = std::ranges::find(m_panels, m_id + QLatin1Char('.') + id, [](const Panel& p) { return p.dock->objectName(); });
  return found == m_panels.end() ? nullptr : &*found;
}

QDockWidget* DockPage::panel(const QString& id) const {
  const Panel* p = find(id);
  return p ? p->dock : nullptr;
}

void DockPage::keepForMiddle(int width, const QStringList& panels) {
  m_middle = width;
  m_folds = panels;
  for (const auto area : {Qt::LeftDockWidgetArea, Qt::RightDockWidgetArea}) {
    if (m_rails.contains(area)) continue;
    const bool left = area == Qt::LeftDockWidgetArea;
    auto* rail = m_rails[area] = new QToolBar(left ? tr("Folded panels, left") : tr("Folded panels, right"));
    rail->setObjectName(m_id + (left ? QStringLiteral(".leftRail") : QStringLiteral(".rightRail")));
    rail->setMovable(false);
    rail->toggleViewAction()->setVisible(false);
    addToolBar(left ? Qt::LeftToolBarArea : Qt::RightToolBarArea, rail);
    rail->hide();
  }
  if (m_placed) keepSizes();
}

bool DockPage::isFolded(const QString& id) const {
  const Panel* p = find(id);
  return p && p->folded;
}

// By what the panels take when nobody has dragged them: how wide somebody likes one folds no other.
void DockPage::fold() {
  const auto beside = [this](const Panel& p) {
    return !p.dock->isFloating() && isUpright(dockWidgetArea(p.dock)) && (p.folded || !p.dock->isHidden());
  };
  const auto take = [this](const Panel& p) { return std::max(p.dock->minimumSizeHint().width(), mostOf(p, true)); };
  int room = width() - m_middle;
  for (const Panel& p : m_panels)
    if (beside(p)) room -= take(p);
  if (room >= 0)
    for (Panel& p : m_panels) p.byHand = false;
  m_folding = true;
  for (const QString& id : m_folds)
    for (Panel& p : m_panels) {
      if (p.dock != panel(id) || !beside(p)) continue;
      p.folded = room < 0 && !p.byHand;
      if (p.folded) room += take(p);
      p.dock->setVisible(!p.folded);
    }
  m_folding = false;
  showRails();
}

void DockPage::showRails() {
  std::map<QDockWidget*, Qt::DockWidgetArea> folded;
  for (const Panel& p : m_panels)
    if (p.folded) folded.emplace(p.dock, dockWidgetArea(p.dock));
  if (folded == m_onRails) return;
  m_onRails = std::move(folded);
  for (const auto& [area, rail] : m_rails) {
    qDeleteAll(rail->actions());
    for (const Panel& p : m_panels) {
      if (!p.folded || dockWidgetArea(p.dock) != area) continue;
      auto* open = new IconButton(m_theme, area == Qt::LeftDockWidgetArea ? QStringLiteral("right") : QStringLiteral("left"));
      open->setAccessibleName(tr("Open %1").arg(p.dock->windowTitle()));
      open->setToolTip(tr("%1: folded, for the window is narrow").arg(p.dock->windowTitle()));
      connect(open, &QToolButton::clicked, p.dock, &QDockWidget::show, Qt::QueuedConnection);
      rail->addWidget(open);
    }
    rail->setVisible(!rail->actions().isEmpty());
  }
}

void DockPage::saveLayout(QSettings& settings) const {
  settings.setValue(QStringLiteral("layout/") + m_id, saveState(kLayoutVersion));
  for (const Panel& p : m_panels) {
    settings.setValue(QStringLiteral("size/") + p.dock->objectName(), p.wanted);
    settings.setValue(QStringLiteral("folded/") + p.dock->objectName(), p.folded);
  }
}

void DockPage::restoreLayout(const QSettings& settings) {
  const QByteArray state = settings.value(QStringLiteral("layout/") + m_id).toByteArray();
  m_folding = true;
  if (!state.isEmpty() && restoreState(state, kLayoutVersion)) m_placed = true;
  m_folding = false;
  for (Panel& p : m_panels) {
    p.wanted = settings.value(QStringLiteral("size/") + p.dock->objectName()).toInt();
    p.folded = m_placed && settings.value(QStringLiteral("folded/") + p.dock->objectName()).toBool();
  }
}

void DockPage::resetLayout() {
  m_folding = true;
  for (Panel& p : m_panels) {
    p.dock->setFloating(false);
    addDockWidget(p.area, p.dock);
    p.dock->show();
    p.wanted = 0;
    p.folded = p.byHand = false;
  }
  m_folding = false;
  keepSizes();
}

// In a small window the view in the middle keeps most of it.
int DockPage::mostOf(const Panel& p, bool upright) const {
  constexpr double kWidest = 0.30, kHighest = 0.40;
  return std::min(p.size, static_cast<int>(upright ? width() * kWidest : height() * kHighest));
}

// A window that was small and has grown has its panels as they were wanted.
void DockPage::keepSizes() {
  m_resizing = true;
  fold();
  layout()->activate();
  for (const Panel& p : m_panels) {
    if (p.dock->isFloating() || p.dock->isHidden()) continue;
    const Qt::DockWidgetArea area = dockWidgetArea(p.dock);
    const bool upright = isUpright(area);
    const int size = p.wanted > 0 && area == p.area ? p.wanted : mostOf(p, upright);
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

// A hand on the edge between two panels, or on what shows and hides one.
bool DockPage::eventFilter(QObject* watched, QEvent* event) {
  if (!m_folding && (event->type() == QEvent::ShowToParent || event->type() == QEvent::HideToParent))
    for (Panel& p : m_panels)
      if (p.dock == watched) {
        p.folded = false;
        p.byHand = event->type() == QEvent::ShowToParent;
        // Nor does one that is opened fold another.
        for (Panel& other : m_panels) other.byHand = other.byHand || (p.byHand && !other.dock->isHidden());
        showRails();
        if (m_placed) QTimer::singleShot(0, this, &DockPage::keepSizes);
      }
  if (event->type() == QEvent::Resize && QApplication::mouseButtons() & Qt::LeftButton && !m_resizing)
    for (Panel& p : m_panels)
      if (p.dock == watched && !p.dock->isFloating() && dockWidgetArea(p.dock) == p.area)
        p.wanted = isUpright(p.area) ? p.dock->width() : p.dock->height();
  return QMainWindow::eventFilter(watched, event);
}

void DockPage::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (m_placed) return;
  m_placed = true;
  resetLayout();
}

}  // namespace nf
