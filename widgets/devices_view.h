// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <optional>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QVBoxLayout;

namespace nf {

class IconButton;
class PanelHeader;

// What can compute here, its measured constants and versions, and what is missing and why.
class DevicesView : public QWidget {
  Q_OBJECT
 public:
  explicit DevicesView(const Theme* theme, QWidget* parent = nullptr);
  void setDevices(const protocol::Devices& devices);
  void setMeasuring(bool measuring);
  IconButton* measure() const { return m_measure; }

 Q_SIGNALS:
  void measureWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  QWidget* deviceCard(const protocol::DeviceInfo& device);
  QWidget* doctorTable(const std::vector<protocol::DoctorLine>& lines);
  const Theme* m_theme;
  std::optional<protocol::Devices> m_devices;
  PanelHeader* m_header;
  QWidget* m_content;
  QVBoxLayout* m_layout;
  IconButton* m_measure;
};

}  // namespace nf
