// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QVBoxLayout;

namespace nf {

class IconButton;
class PanelHeader;

// What can compute here, its measured constants, and what is missing and why.
class DevicesView : public QWidget {
  Q_OBJECT
 public:
  explicit DevicesView(const Theme* theme, QWidget* parent = nullptr);
  void setDevices(const protocol::Devices& devices);

 Q_SIGNALS:
  void measureWanted();

 private:
  const Theme* m_theme;
  PanelHeader* m_header;
  QWidget* m_content;
  QVBoxLayout* m_layout;
};

}  // namespace nf
