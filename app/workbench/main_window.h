// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QMainWindow>
#include <map>
#include <memory>

#include "app/workbench/workspace.h"
#include "widgets/theme.h"

class QLabel;
class QAction;
class QSplitter;
class QStackedWidget;
class QToolButton;

namespace nf {

class CommandPalette;
class DevicesView;
class ExplainView;
class IconButton;
class InspectorView;
class MessageBar;
class NotebookView;
class OutlineView;
class PanelHeader;
class SegmentedSwitch;
class TuneView;

// The window: one notebook, four layouts of views over one selection, every command in one registry.
class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  enum class Page { Author, Explain, Tune, Devices };
  MainWindow(Theme* theme, QStringList engineCommand, QWidget* parent = nullptr);
  ~MainWindow() override;

  void openFile(const QString& path);
  void showPage(Page page);
  Page page() const;
  Workspace& workspace() { return *m_workspace; }
  NotebookView* notebook() { return m_notebook; }
  ExplainView* explain() { return m_explain; }
  TuneView* tune() { return m_tune; }
  InspectorView* inspector() { return m_inspector; }
  MessageBar* messages() { return m_messages; }
  CommandPalette* palette() { return m_palette; }
  QAction* action(const QString& id) const { return m_actions.at(id); }
  const std::map<QString, QAction*>& actions() const { return m_actions; }
  void trainFirst();  // starts the first train cell once the notebook has been checked
  void showCell(CellId id);
  void restoreLayout();

 protected:
  void closeEvent(QCloseEvent*) override;
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  QAction* add(const QString& id, const QString& text, const QKeySequence& key, std::function<void()> run,
               const QString& icon = {});
  void makeActions();
  void makeMenus();
  QWidget* makeToolbar();
  QWidget* makeAuthor();
  void connectWorkspace();
  void connectViews();
  void afterRunChange();
  void refreshPage();
  void refreshTitle();
  void refreshPeer();
  void refreshOutline();
  void refreshStatus();
  void refreshDevice();
  void refreshLeads();
  void inspect(const QString& tensor);
  void inspectSelection();
  void runActive(int then);
  void runCell(CellId id);
  void undoOrRedo(bool undo);
  void save(bool ask);
  void openPalette(bool everything);
  void showShortcuts();
  void compare(const std::string& before, const std::string& after, const QString& title);
  void answer(const QString& key, int index);
  void setStatus(const QString& icon, const QString& text);
  void remember(const QString& path);

  Theme* m_theme;
  std::unique_ptr<Workspace> m_workspace;
  std::map<QString, QAction*> m_actions;
  std::vector<QString> m_actionOrder;
  QLabel *m_name, *m_state, *m_statusIcon, *m_status, *m_constants, *m_place;
  QToolButton* m_device;
  SegmentedSwitch* m_switch;
  MessageBar* m_messages;
  QStackedWidget* m_pages;
  QSplitter* m_authorSplit;
  PanelHeader* m_notebookHeader;
  OutlineView* m_outline;
  NotebookView* m_notebook;
  InspectorView* m_inspector;
  ExplainView* m_explain;
  TuneView* m_tune;
  DevicesView* m_devices;
  CommandPalette* m_palette = nullptr;
  QString m_inspected;
  std::optional<Journal> m_left;
  CellId m_training = 0;
  bool m_trainWhenChecked = false;
  bool m_closing = false;
};

}  // namespace nf
