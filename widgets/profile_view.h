// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractTableModel>
#include <QWidget>
#include <chrono>
#include <functional>
#include <optional>
#include <set>

#include "core/protocol/message.h"
#include "widgets/plots.h"
#include "widgets/theme.h"

class QComboBox;
class QLabel;
class QStackedWidget;
class QTableView;
class QTimer;

namespace nf {

class PanelHeader;
class CountersView;
class TimelineModel;
class TimelineView;

// Kernels of a step by their wall time, the most expensive first, with their part of the device's measured ceilings.
class ProfileModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { kKernel, kTime, kCalls, kShare, kBandwidth, kArithmetic, kColumns };
  enum Role {
    kBarRole = Qt::UserRole + 1,
    kLimitRole,
    kNowRole,
    kHoldsRole
  };  // 0..1, or nothing; whether this column limits the kernel; isNow(); whether the kernel has a part of what is selected
  using QAbstractTableModel::QAbstractTableModel;
  void setProfile(const protocol::Profile& profile);
  void setDevice(std::optional<protocol::DeviceConstants> device);
  const protocol::Profile& profile() const { return m_profile; }
  int rowOf(const std::string& subgraph) const;  // -1: none
  // The kernels of the step as it is now; nullopt: not known. What was profiled of others is of an earlier step.
  void setKernels(std::optional<std::set<std::string>> subgraphs);
  // The device in use, empty: not known, whether the text that the step is of has changed since, and which subgraphs have another kernel
  // now.
  void setStep(const std::string& device, bool edited, const std::set<std::string>& replaced);
  void setHolds(std::function<bool(const std::string&)> holds) { m_holds = std::move(holds); }
  bool isOfStep(const std::string& subgraph) const;  // the step has it, though it may have another kernel now
  bool isOfPlan(const std::string& subgraph) const;  // of the text as it is, whatever the profile is of
  bool isNow(int row) const;                         // and that is the kernel that was profiled
  bool isNow(const std::string& subgraph) const;
  QString whyNotNow() const;       // "of an earlier text", of the profile; empty: it is of the step as it is now
  QString limitOf(int row) const;  // a sentence: what limits the kernel, and by how much
  PlotTable table() const;
  int rowCount(const QModelIndex& = {}) const override { return static_cast<int>(m_profile.kernels.size()); }
  int columnCount(const QModelIndex& = {}) const override { return kColumns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Rates {
    // Parts of the ceilings; supply: of L2's where the step stays in it, else of memory's; launch: L of the time of a call.
    double bandwidth = 0, supply = 0, arithmetic = 0, launch = 0;
  };
  Rates ratesOf(const protocol::KernelTimeInfo& kernel) const;
  void findCache();
  protocol::Profile m_profile;
  bool m_inCache = false;  // L2 holds all that the kernels read and write: memory limits none of them
  bool ofOtherDevice() const { return !m_deviceInUse.empty() && !m_profile.device.empty() && m_profile.device != m_deviceInUse; }
  std::optional<std::set<std::string>> m_kernels;
  std::string m_deviceInUse;
  bool m_edited = false;
  std::set<std::string> m_replaced;
  std::optional<protocol::DeviceConstants> m_device;
  std::function<bool(const std::string&)> m_holds;
};

// Kernels as a table with a sentence about the chosen one, one step over time, and its launches as a table.
class ProfileView : public QWidget {
  Q_OBJECT
 public:
  explicit ProfileView(const Theme* theme, QWidget* parent = nullptr);
  // `taken`: when, which its age counts from.
  void setProfile(const protocol::Profile& profile, std::chrono::steady_clock::time_point taken = std::chrono::steady_clock::now());
  std::optional<std::chrono::steady_clock::time_point> taken() const { return m_taken; }  // nullopt: there is none
  void setDevice(std::optional<protocol::DeviceConstants> device);
  void choose(const std::string& subgraph);
  void setKernels(std::optional<std::set<std::string>> subgraphs);
  void setStep(const std::string& device, bool edited, const std::set<std::string>& replaced = {});
  void setRunning(bool running);
  void clear();
  void setHolds(std::function<bool(const std::string&)> holds) { m_model->setHolds(std::move(holds)); }
  const ProfileModel* model() const { return m_model; }
  QTableView* table() const { return m_table; }
  enum Page { kKernels, kTimeline, kLaunches, kCounters };
  void showPage(Page page);
  QComboBox* pages() const { return m_pages; }
  TimelineView* timeline() const { return m_timeline; }
  TimelineModel* launches() const { return m_launches; }
  QTableView* launchTable() const { return m_launchTable; }
  // Which launches are selected, by what they came from.
  void setSelected(std::function<bool(const protocol::TimelineSite&)> selected);
  void refreshSelected();
  // Of two kernels of a subgraph: the newest of each is shown.
  void addCounters(const protocol::KernelCountersEvent& counters);
  CountersView* counters() const { return m_counters; }
  QString age() const;  // of what it is, and how old
  QString sentence() const;
  QString save(const QString& path) const;  // csv or json; what went wrong, empty: written

 Q_SIGNALS:
  void kernelChosen(const std::string& subgraph);
  void launchChosen(const nf::protocol::TimelineSite& site);
  void profileWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void showAge();
  void showSentence();
  QTableView* makeLaunchTable();
  void chooseLaunch(int row, bool inTable);
  const Theme* m_theme;
  PanelHeader* m_header;
  ProfileModel* m_model;
  QTableView* m_table;
  TimelineModel* m_launches;
  TimelineView* m_timeline;
  QTableView* m_launchTable;
  CountersView* m_counters;
  QComboBox* m_pages;
  QStackedWidget* m_stack;
  QLabel *m_bolt, *m_sentence;
  QTimer* m_tick;  // keeps the age true
  std::optional<std::chrono::steady_clock::time_point> m_taken;
  std::string m_chosen;
};

}  // namespace nf
