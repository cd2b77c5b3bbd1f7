// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QLabel;
class QTimer;
class QVBoxLayout;

namespace nf {

class Badge;
class IconButton;
class PanelHeader;

// What can compute here, its measured constants and versions, and what is missing and why.
class DevicesView : public QWidget {
  Q_OBJECT
 public:
  explicit DevicesView(const Theme* theme, QWidget* parent = nullptr);
  // `taken`: when the engine told of them; ages count from it.
  void setDevices(const protocol::Devices& devices, std::chrono::steady_clock::time_point taken = std::chrono::steady_clock::now());
  std::chrono::steady_clock::time_point taken() const { return m_taken; }
  void setMeasuring(bool measuring);
  void setFailed(const QString& message);  // nothing was measured
  QString detail() const;                  // beside the title
  // What runs now, and on which device; empty: nothing.
  void setRunning(const std::string& device, const QString& what);
  QString stateOf(const std::string& device) const;  // "in use: training", "ready", "missing"
  IconButton* measure() const { return m_measure; }

 Q_SIGNALS:
  void measureWanted();
  void deviceWanted(const QString& name);  // to compute on from now on

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  void fill();
  void showStates();
  void showAges();
  QWidget* deviceCard(const protocol::DeviceInfo& device);
  QWidget* doctorTable(const std::vector<protocol::DoctorLine>& lines);
  const Theme* m_theme;
  std::optional<protocol::Devices> m_devices;
  PanelHeader* m_header;
  QWidget* m_content;
  QVBoxLayout* m_layout;
  IconButton* m_measure;
  struct State {
    std::string device;
    bool missing;
    Badge* badge;
    QString words;
  };
  struct Age {
    QLabel* label;
    double secondsAgo;  // when it arrived
  };
  std::vector<State> m_states;
  std::vector<Age> m_ages;
  std::chrono::steady_clock::time_point m_taken;
  QTimer* m_tick;
  std::string m_running;
  QString m_what;
};

}  // namespace nf
