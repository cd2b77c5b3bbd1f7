// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QObject>
#include <QStringList>
#include <QThread>
#include <memory>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

class EngineProcess;

// The engine as a child process. Its output is cut and parsed on a thread of its own; the main thread gets whole envelopes in batches.
// Its death is an event like another: nothing else happens until restart().
class EngineLink : public QObject {
  Q_OBJECT
 public:
  enum class State { Stopped, Starting, Ready, Dead };
  // `command`: program and arguments, e.g. {"/usr/bin/neoflow", "engine"} or {"ssh", "gpu-host", "neoflow", "engine"}.
  explicit EngineLink(QStringList command, QObject* parent = nullptr);
  ~EngineLink() override;

  void start();
  State state() const { return m_state; }
  std::int64_t processId() const { return m_processId; }
  const protocol::Hello& hello() const { return m_hello; }
  // Returns the id; 0 where the engine is not ready: nothing was sent.
  protocol::RequestId request(const protocol::Message& message);
  void notify(const protocol::Message& message);

 Q_SIGNALS:
  void starting();
  void ready();
  void died(const QString& reason);
  void received(const nf::protocol::Envelope& envelope);

 private:
  friend class EngineProcess;
  void send(const protocol::Message& message, protocol::RequestId id);
  void handle(const protocol::Envelope& envelope);
  QStringList m_command;
  QThread m_thread;
  EngineProcess* m_process = nullptr;
  State m_state = State::Stopped;
  protocol::Hello m_hello;
  protocol::RequestId m_nextId = 1;
  std::int64_t m_processId = 0;
  int m_generation = 0;  // of the process: what an older one still had under way is dropped
};

}  // namespace nf
