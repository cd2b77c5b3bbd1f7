// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QElapsedTimer>
#include <QMainWindow>
#include <QPointer>
#include <QTimer>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "app/workbench/actions.h"
#include "app/workbench/kept_run.h"
#include "app/workbench/newest_run.h"
#include "app/workbench/workspace.h"
#include "widgets/leads.h"
#include "widgets/theme.h"
#include "widgets/train_strip.h"
#include "widgets/tune_place.h"

class QJsonObject;
class QBoxLayout;
class QDialog;
class QLabel;
class QProcess;
class QStackedWidget;
class QTabBar;
class QToolButton;

namespace nf {

class CellView;
class CommandPalette;
class DevicesView;
class DockPage;
class ElidedLabel;
class ExplainView;
class ExpressionEditor;
class FindBar;
class RenameBar;
class InspectorView;
class MessageBar;
class NotebookView;
class OutlineView;
class SegmentedSwitch;
class ToolbarFocus;
class TrainStrip;
class TuneView;

// The window: open notebooks as tabs, each with its engine; pages of views over one selection; every command in one registry.
// What each file holds: main_window.cpp the frame, tabs, layout and session; window_commands.cpp the commands and menus;
// window_finding.cpp the palette and the search; window_export.cpp reports and paper; window_wiring.cpp who hears whom; window_state.cpp what
// is shown; window_selection.cpp what is selected and where it leads.
class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  enum class Page { Author, Explain, Tune, Devices };
  MainWindow(Theme* theme, QStringList engineCommand, QWidget* parent = nullptr);
  ~MainWindow() override;

  // In a tab of its own; the tab it is in already, or an untouched empty one, is used.
  void openFile(const QString& path) { openFiles({path}); }
  enum class Missing { Refused, Begun };
  // One bar tells of all that cannot be opened. A file that is not there in a folder that is can be begun.
  void openFiles(const QStringList& paths, Missing missing = Missing::Refused);
  void startEngine();  // of the current notebook now, of the others when they are first looked at
  void showPage(Page page);
  Page page() const;
  Workspace& workspace() { return *m_tab->workspace; }
  NotebookView* notebook() { return m_tab->notebook; }
  QTabBar* tabs() { return m_tabBar; }
  FindBar* finder() { return m_find; }
  RenameBar* renamer() { return m_rename; }
  static Theme::Mode keptTheme();                           // what was chosen last in a window; System: nothing yet
  double textScale() const { return m_text->textScale(); }  // of the notebooks
  void exportHtml(const QString& path);                     // by the command line's own report; says in the status bar how it went
  void exportPdf(const QString& path);
  bool exporting() const { return m_export != nullptr; }
  void showTab(int index);
  void closeTab(int index);
  ExplainView* explain() { return m_explain; }
  TuneView* tune() { return m_tune; }
  InspectorView* inspector() { return m_inspector; }
  OutlineView* outline() { return m_outline; }
  DockPage* authorPage() { return m_author; }
  MessageBar* messages() { return m_messages; }
  CommandPalette* palette() { return m_palette; }
  ActionRegistry& registry() { return *m_actions; }
  QAction* action(const QString& id) const { return m_actions->at(id); }
  const std::map<QString, QAction*>& actions() const { return m_actions->all(); }
  void trainFirst();  // starts the first train cell once the notebook has been checked
  void showCell(CellId id);
  void train();  // the first train cell; where a mistake in another cell keeps it from that, that is gone to
  void pinInspector(const QString& tensor);  // shows it, has its gradient checked by differences, and stays on it
  void fitToScreen();                        // as designed where the screen has room for it and for a frame, else all of the screen
  void restoreLayout();
  void saveLayout();
  // The notebooks of windows that were killed, with what was not saved in them, and those of the window that was closed last.
  void restoreSession();
  bool openLeft();                           // what windows that were killed had open: whether there was any
  void tellOfLeft();                         // that notebooks wait which openLeft() would bring
  void keepSession();                        // which notebooks are open
  void writeSession();                       // what restoreSession() of another window needs, should this one be killed
  void forgetSession() { m_store.reset(); }  // nothing of this window is kept, nothing is recovered
  void end();                                // at once and without a question: what is not saved waits for the next window
  QString statusText() const;
  QString constantsText() const;  // of the device, at the right of the status bar

 protected:
  void closeEvent(QCloseEvent*) override;
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void moveEvent(QMoveEvent*) override;
  void changeEvent(QEvent*) override;

 private:
  struct Tab {
    std::unique_ptr<Workspace> workspace;
    NotebookView* notebook = nullptr;
    QString inspected, offered;  // offered: inspected before anything was chosen
    QString awaitedLink;         // into the graph, until the stage that has its end comes
    // While another notebook is looked at.
    TunePlace tuned;
    struct Choice {
      std::vector<protocol::SourceSpan> places;
      std::vector<std::string> tensors;
    } choice;
    std::vector<LeftJournal> left;  // of sessions that ended before they were saved
    QString engineLost;             // why its engine ended; empty: nothing to say about it
    bool engineDown = false;        // and no new one was started
    QElapsedTimer restarted;        // since its engine was started anew without being asked
    CellId interrupted = 0;         // what trained when the engine ended
    CellId trained = 0;             // the last run, once it has ended
    CellId resumeWhenChecked = 0;
    std::vector<CellId> runWhenChecked;  // in the order they were asked for
    bool runAllWhenChecked = false;
    bool diskHidden = false, holderHidden = false, journalHidden = false, unwritableHidden = false;  // questions that were put away
    CellId training = 0;
    CellId runOf = 0;  // that the run in the views was begun in
    // Of cells that train, as far as it is known: a mistake that keeps one from being made leaves what it was before.
    struct Train {
      TrainOf of;
      protocol::TrainInfo info;
    };
    std::map<CellId, Train> trains;
    QString begunWith;         // the values of its last run, in words; empty: with none
    bool ran = false;          // since what is shown of it was asked for the last time
    CellId deletedHidden = 0;  // the cell that trains, deleted, and the word about it put away
    bool trainWhenChecked = false;
    bool discard = false;         // its changes, when it closes
    bool recovered = false;       // from a killed window, and nobody has put the word about it away
    bool closeWhenEnded = false;  // what it trains
    bool unwritten = false;       // what its training learnt is on no disk
    std::optional<KeptRun> kept;  // waits for the first analysis
    QString shownRun;             // the folder of the run of a panel that was read from disk; empty: the newest, of this window
    QString resumedRun;           // the same, of the run that the newest one was to go on from
    std::function<void(CellView&)> whenKept;  // to be said beside the run that is read from disk
  };
  static constexpr int kLayoutVersion = 2;

  Tab* newTab();
  QString tryToOpen(const QString& path, Missing missing);  // why it was not; empty: it was
  int indexOf(const Tab* tab) const;
  void leaveChoice();  // of the current notebook
  void returnToChoice();
  void keepSessionSoon();    // what changes all the time does not put it off
  int freeUntitled() const;  // the least number that no notebook without a file has
  QWidget* makeToolbar();
  void makeAuthor();
  void makeActions();
  void makeMenus();
  void connectTab(Tab* tab);
  void connectRun(Tab* tab);
  void connectNotebook(Tab* tab);
  void connectViews();
  void afterRunChange();
  void focusPage();
  void refreshPage();
  void refreshTitle();
  void refreshPlace();
  void refreshTabs();
  void refreshPeer();
  void followRun();
  void refreshValues();
  void refreshSteps();  // of which training the views show one
  void refreshOutline();
  void refreshStatus();
  void refreshDevice();
  void refreshRunActions();
  void refreshLeads();
  void showStep();
  void showTimes();  // of kernels in the graph, and whether the profile's are of the step as it is
  void showRun();    // on Tune, as the notebook has it
  // `token`: the places are inside operators, which they lead to as well. The tensor that is looked for is the last.
  std::vector<Lead> leadsOf(const protocol::Origins& origins, const std::vector<std::string>& tensors, bool token);
  std::vector<std::string> withParts(const std::vector<std::string>& tensors) const;
  void follow(const QString& target);
  bool followInGraph(const QString& target);  // false: the stage in sight does not have it
  void inspect(const QString& tensor);
  void checkGradient();
  void chooseTensor(const QString& name);
  protocol::Origins placesOf(const std::vector<std::string>& tensors) const;
  std::optional<protocol::TensorInfo> tensorNamed(const std::string& name) const;
  protocol::Origins writtenOf(const std::vector<std::string>& tensors) const;
  const protocol::ExpansionInfo* expansionAt(std::uint32_t span) const;  // of a place in a function of the notebook; else null
  const protocol::ExpansionInfo* expansionAround(const protocol::Origins& origins) const;
  protocol::Origins bodyAt(std::uint32_t place) const;
  protocol::Origins placesOfSelection() const;
  std::vector<std::string> tensorsOfCallsAt(const protocol::Origins& origins) const;
  std::string tensorMadeAround(const protocol::Origins& origins) const;
  std::string lastUpdateOf(const protocol::Origins& origins) const;
  protocol::Origins statementInLoop(const protocol::Origins& origins) const;
  std::string reductionAt(const protocol::Origins& origins) const;
  std::string tensorMadeAt(const protocol::Origins& origins) const;
  static TrainStrip::Place placeAt(const Tab* tab, std::int64_t line, std::int64_t column);  // from 1; no name: there is none
  TrainStrip::Place mistakeAt(const QJsonObject& mistake) const;
  const protocol::TokenInfo* tokenAt(const protocol::SourceSpan& span) const;  // of exactly this place; null: none
  const protocol::TokenInfo* selectedToken() const;
  bool isOfCommand(const protocol::SourceSpan& span) const;
  void showLed();
  void inspectSelection();
  bool isCarried(const std::string& name) const;
  bool isOutsideStep(const std::string& tensor) const;  // no node of it is in the step that is looked at
  std::string madeByKernel(const std::vector<std::string>& tensors) const;
  void revealSelection();
  TrainStrip* strip(Tab* tab) const;
  enum class AfterRun { Stay, Next, NextIfAny, InsertBelow };  // Next: a new cell below the last one
  void runActive(AfterRun then);
  void resumeTraining();  // of the current cell, else of the first that can; why not, where none can
  bool runCell(CellId id, bool resume = false, const QString& weights = {});  // weights: a file that a training begins with
  bool resume(Tab* tab, CellId id);
  Tab* tabOf(const QString& path) const;
  bool engineAnswers();
  bool waitsForCheck(const QString& then);
  void runWhatWaited(Tab* tab);
  void runAll();
  void undoOrRedo(bool undo);
  void showTextMenu(ExpressionEditor* editor, const QPoint& at);
  void insertCell(void (NotebookView::*insert)());
  void save(bool ask);
  void openPalette(bool everything);
  void openFind(bool replace);
  void closeFind();
  void stepFound(int direction);  // with the search open or not
  void stepMistake(int direction);
  void openRename();
  void goToDefinition();  // of the name at the caret
  void goToDefinition(const QString& name);
  void showLibrary(const protocol::SourceSpan& place);
  static QByteArray libraryText(const std::string& source);  // "std/conv.nf"; empty: it is not at hand
  void closeRename();
  void zoom(int steps);  // 0: back to 100 %
  void setTextScale(double scale);
  void keepForNotebook();
  void chooseTheme(Theme::Mode mode);  // somebody's choice, which is kept
  void exportAs(const QString& title, const QString& filter, const QString& ending, void (MainWindow::*write)(const QString&));
  void placeTabs();
  void showShortcuts();
  void editShortcuts();
  QDialog* compare(const std::string& before, const std::string& after, const QString& title);
  void answer(const QString& key, int index);
  void askOnce(const QString& key, const QString& text, const QStringList& answers);
  void refreshMessages();
  void saveAllAndQuit();
  void quit();                // whatever trains ends with it
  void closeEnded(Tab* tab);  // where somebody waits for the end of its run
  std::vector<Tab*> unsavedTabs() const;
  QStringList trainingNames() const;
  QString endsWithWindow() const;  // what closing the window costs besides unsaved text, as sentences; empty: nothing
  // An empty folder: the newest run; again: also where what it did stands already.
  void lookForKept(Tab* tab, const QString& folder = {}, bool again = false);
  void noteTrains(Tab* tab);
  static const Tab::Train* trainIn(const Tab* tab, CellId id);  // null: it trains nothing, as far as it is known
  void refreshCheckpoint(Tab* tab, CellId id);                  // what a run of this cell can go on from
  void showKept(Tab* tab);
  void showOtherRuns(Tab* tab);
  void showRuns(Tab* tab, CellId id);
  void showRuns();  // of the cell that is chosen, else of the first one whose panel has runs
  void sayNoRuns();
  RunCheckpoint shownCheckpoint(const Tab* tab, const TrainOf* train) const;  // of the run shown, if it is of this statement
  void saveTo(const QString& path, bool overwrite);
  bool untouchedTab() const;
  void useSession(const Session& session);
  void compareWithDisk();
  void setStatus(const QString& icon, const QString& text);   // what answers somebody: errors and warnings stay for a while
  void showStatus(const QString& icon, const QString& text);  // until the next one
  static QString checkingText();
  static QString provingText();
  void remember(const QString& path);

  Theme* m_theme;
  Theme* m_text;  // of the notebooks, which are read larger or smaller; outlives the widgets
  QStringList m_engineCommand;
  Selection m_selection;
  std::uint64_t m_revealed = 0;     // choice of it that was brought into sight in the text
  std::uint64_t m_amongChoice = 0;  // choice of it of which somebody went to another of the tensors of its place
  bool m_valuesOfPause = false;     // asked for since the run was paused
  bool m_staysInSight = false;      // what is chosen now moves no page
  ActionRegistry* m_actions;
  std::vector<std::unique_ptr<Tab>> m_tabs;
  Tab* m_tab = nullptr;  // the current one
  bool m_enginesWanted = false;
  bool m_kernelLost = false;  // the Tune page waits for one that no engine was asked for, or that ended with its engine
  ElidedLabel *m_name, *m_constants;
  QLabel *m_state, *m_statusIcon, *m_status, *m_place;
  QElapsedTimer m_refused;  // since the status bar told why something cannot be
  QToolButton* m_device;
  SegmentedSwitch* m_switch;
  MessageBar* m_messages;
  QStackedWidget *m_pages, *m_notebooks;
  QTabBar* m_tabBar;
  QWidget* m_tabRow;  // where the tabs stand on other pages than Author
  QBoxLayout* m_authorTabs = nullptr;
  FindBar* m_find;
  RenameBar* m_rename;
  QProcess* m_export = nullptr;
  std::function<void()> m_toMistake;  // that kept a report from being written
  QPointer<QDialog> m_comparison;     // of the file with what is here
  DockPage* m_author;
  OutlineView* m_outline;
  InspectorView* m_inspector;
  ExplainView* m_explain;
  TuneView* m_tune;
  DevicesView* m_devices;
  ToolbarFocus* m_toolbarFocus = nullptr;
  CommandPalette* m_palette = nullptr;
  QTimer m_leadsTimer, m_profileTimer, m_valuesTimer;
  bool m_pausedShown = false;  // in the outline
  QTimer m_sessionTimer;
  std::optional<SessionStore> m_store{std::in_place};
  std::vector<LeftJournal> m_waiting;  // nobody has decided about them, and their notebook was closed
  std::map<QString, QString> m_asked;  // what each question says
  QString m_restored;                  // about the window before, until it is put away
  QString m_statusShown;
  enum class Close { No, Tab, Window };
  Close m_closeAsked = Close::No;   // what the question "close" is about, while it stands
  Close m_closeWanted = Close::No;  // once what is being saved is saved
  bool m_quitting = false;          // training was asked about
};

}  // namespace nf
