// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractTableModel>
#include <QElapsedTimer>
#include <QWidget>
#include <optional>

#include "core/protocol/message.h"
#include "widgets/plots.h"
#include "widgets/theme.h"

class QLabel;
class QTableView;
class QTimer;

namespace nf {

class PanelHeader;

// Kernels of a step by their wall time, the most expensive first, with their part of the device's measured ceilings.
class ProfileModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { kKernel, kTime, kCalls, kShare, kBandwidth, kArithmetic, kColumns };
  enum Role { kBarRole = Qt::UserRole + 1, kLimitRole };  // 0..1, or nothing; whether this column limits the kernel
  using QAbstractTableModel::QAbstractTableModel;
  void setProfile(const protocol::Profile& profile);
  void setDevice(std::optional<protocol::DeviceConstants> device);
  const protocol::Profile& profile() const { return m_profile; }
  int rowOf(const std::string& subgraph) const;  // -1: none
  QString limitOf(int row) const;                // a sentence: what limits the kernel, and by how much
  PlotTable table() const;
  int rowCount(const QModelIndex& = {}) const override { return static_cast<int>(m_profile.kernels.size()); }
  int columnCount(const QModelIndex& = {}) const override { return kColumns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Rates {
    double bandwidth = 0, arithmetic = 0, launch = 0;  // parts of the ceilings; launch: L of the time of a call
  };
  Rates ratesOf(const protocol::KernelTimeInfo& kernel) const;
  protocol::Profile m_profile;
  QStringList m_names;  // short, each its own
  std::optional<protocol::DeviceConstants> m_device;
};

// The table, its age, and a sentence about the chosen kernel.
class ProfileView : public QWidget {
  Q_OBJECT
 public:
  explicit ProfileView(const Theme* theme, QWidget* parent = nullptr);
  void setProfile(const protocol::Profile& profile);
  void setDevice(std::optional<protocol::DeviceConstants> device);
  void choose(const std::string& subgraph);
  void setRunning(bool running);
  void clear();
  const ProfileModel* model() const { return m_model; }
  QTableView* table() const { return m_table; }
  QString sentence() const;
  QString save(const QString& path) const;  // csv or json; what went wrong, empty: written

 Q_SIGNALS:
  void kernelChosen(const std::string& subgraph);
  void profileWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void showAge();
  void showSentence();
  const Theme* m_theme;
  PanelHeader* m_header;
  ProfileModel* m_model;
  QTableView* m_table;
  QLabel *m_bolt, *m_sentence;
  QTimer* m_tick;  // while the age is below a minute
  QElapsedTimer m_age;
  std::string m_chosen;
};

}  // namespace nf
