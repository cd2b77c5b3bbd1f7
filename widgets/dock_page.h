// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QMainWindow>
#include <map>
#include <vector>

#include "widgets/theme.h"

class QDockWidget;
class QSettings;
class QToolBar;

namespace nf {

class PanelHeader;

// A page of the workbench: one view in the middle, panels around it that are dragged, floated, hidden, and stay where they were put. Where
// the page is too narrow for what stands in the middle, panels beside it fold to a button on a rail, and unfold when there is room again;
// one that is opened by hand stays.
class DockPage : public QMainWindow {
  Q_OBJECT
 public:
  DockPage(const Theme* theme, const QString& id, QWidget* parent = nullptr);
  // `header` becomes the panel's title bar, with a menu at its right end; `size` is its width or height when the layout is reset.
  QDockWidget* addPanel(const QString& id, PanelHeader* header, QWidget* content, Qt::DockWidgetArea area, int size);
  // The middle is to have so many pixels: these panels beside it give way, the first one first.
  void keepForMiddle(int width, const QStringList& panels);
  bool isFolded(const QString& id) const;
  QList<QAction*> panelActions() const;  // show and hide, one a panel
  QDockWidget* panel(const QString& id) const;
  void saveLayout(QSettings& settings) const;
  void restoreLayout(const QSettings& settings);
  void resetLayout();

 protected:
  void showEvent(QShowEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void keepSizes();
  void fold();
  void showRails();
  // Another number when panels come or go: an older layout is not restored.
  static constexpr int kLayoutVersion = 1;
  struct Panel {
    QDockWidget* dock;
    Qt::DockWidgetArea area;
    int size;
    int wanted = 0;                       // as a person has dragged it; 0: `size`
    bool folded = false, byHand = false;  // byHand: shown by a person, in however small a page
  };
  const Panel* find(const QString& id) const;
  int mostOf(const Panel& panel, bool upright) const;  // pixels
  const Theme* m_theme;
  QString m_id;
  std::vector<Panel> m_panels;
  bool m_placed = false, m_resizing = false, m_folding = false;
  int m_middle = 0;     // pixels
  QStringList m_folds;  // panels
  std::map<Qt::DockWidgetArea, QToolBar*> m_rails;
  std::map<QDockWidget*, Qt::DockWidgetArea> m_onRails;
};

}  // namespace nf
