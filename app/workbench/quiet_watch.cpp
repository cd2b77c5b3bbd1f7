// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/quiet_watch.h"

#include <algorithm>

#include "app/workbench/workspace.h"

namespace nf {
namespace {

// Views ask for what they show within 2 s of what they hear.
constexpr int kPatienceMs = 4000, kLooks = 8;

}  // namespace

QuietWatch::QuietWatch(Workspace* workspace, QObject* parent) : QObject(parent), m_workspace(workspace) {
  connect(&m_timer, &QTimer::timeout, this, &QuietWatch::look);
  setPatience(kPatienceMs);
}

void QuietWatch::setPatience(int milliseconds) { m_timer.start(std::max(1, milliseconds / kLooks)); }

void QuietWatch::look() {
  const bool underWay =
      !m_workspace->analysisIsKnown() || !m_workspace->idle() || m_workspace->running() || m_workspace->runAsked();
  m_looks = underWay ? 0 : m_looks + 1;
  if (m_looks == kLooks) Q_EMIT quiet();
}

}  // namespace nf
