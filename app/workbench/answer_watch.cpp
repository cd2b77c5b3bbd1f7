// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/answer_watch.h"

#include <algorithm>
#include <utility>

#include "app/workbench/workspace.h"

namespace nf {
namespace {

constexpr int kPatienceMs = 8000, kLooks = 4;

}  // namespace

AnswerWatch::AnswerWatch(Workspace* workspace, QObject* parent) : QObject(parent), m_workspace(workspace) {
  connect(&m_timer, &QTimer::timeout, this, &AnswerWatch::look);
  const auto heard = [this] {
    m_unanswered = 0;
    if (std::exchange(m_silent, false)) Q_EMIT answered();
  };
  const auto anew = [this] {
    m_unanswered = 0;
    m_silent = false;
  };
  connect(&workspace->engine(), &EngineLink::ready, this, heard);
  connect(&workspace->engine(), &EngineLink::received, this, heard);
  connect(&workspace->engine(), &EngineLink::starting, this, anew);
  connect(&workspace->engine(), &EngineLink::died, this, anew);
  setPatience(kPatienceMs);
}

void AnswerWatch::setPatience(int milliseconds) { m_timer.start(std::max(1, milliseconds / kLooks)); }

void AnswerWatch::look() {
  using State = EngineLink::State;
  const State state = m_workspace->engineState();
  const bool awaited =
      state == State::Starting ||
      (state == State::Ready && (m_workspace->running() || !m_workspace->idle() || !m_workspace->analysisIsKnown()));
  if (m_silent || !awaited) return;
  // One that starts owes its first word.
  if (m_unanswered++ == 0 && state == State::Ready) m_workspace->ask(protocol::TrialsRequest{}, [](const protocol::Envelope&) {});
  if (m_unanswered <= kLooks) return;
  m_silent = true;
  Q_EMIT silent();
}

}  // namespace nf
