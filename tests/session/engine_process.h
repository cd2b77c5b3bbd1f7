// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "core/protocol/message.h"

namespace nf {

// `neoflow engine` as the workbench starts it: a process of its own with its workers, the real CPU back end, and records and results
// in `folder`. Nothing here waits for a time: a reply that never comes ends with the test's own limit.
class EngineProcess {
 public:
  explicit EngineProcess(const std::string& folder, const std::map<std::string, std::string>& environment = {});
  ~EngineProcess();  // closes its input; it must end by itself with exit code 0, unless kill() was called
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  void sendBytes(const std::string& bytes);
  void send(const protocol::Message& message, protocol::RequestId id = 0);
  protocol::Analysis document(const std::string& text, std::uint64_t revision = 1);

  protocol::Envelope next();
  // The next one for which `wanted` holds; those before it are kept in passed().
  protocol::Envelope awaitThat(const std::function<bool(const protocol::Envelope&)>& wanted);
  // The next message of this type with this id. Another answer or an ErrorEvent in its place fails the test.
  template <class T>
  T await(protocol::RequestId id = 0) {
    const protocol::Envelope e = awaitThat([&](const protocol::Envelope& m) {
      if (m.id == id && std::holds_alternative<T>(m.message)) return true;
      if (const auto* f = std::get_if<protocol::Failed>(&m.message); f && m.id == id && id != 0) {
        ADD_FAILURE() << f->stage << ": " << f->message << " " << f->detail;
        return true;
      }
      if (id != 0 && m.id == id && !std::holds_alternative<protocol::CellResult>(m.message)) {
        ADD_FAILURE() << "another answer: " << protocol::encode(m.message, id);
        return true;
      }
      if (const auto* f = std::get_if<protocol::ErrorEvent>(&m.message)) {
        ADD_FAILURE() << f->stage << ": " << f->message;
        return true;
      }
      return false;
    });
    if (const T* m = std::get_if<T>(&e.message)) return *m;
    return {};
  }
  template <class T>
  T ask(const protocol::Message& request) {
    const protocol::RequestId id = ++m_lastId;
    send(request, id);
    return await<T>(id);
  }
  protocol::RequestId newId() { return ++m_lastId; }

  // Every message so far that no await has returned.
  template <class T>
  std::vector<T> passed() const {
    std::vector<T> found;
    for (const protocol::Envelope& e : m_passed)
      if (const T* m = std::get_if<T>(&e.message)) found.push_back(*m);
    return found;
  }
  const std::vector<protocol::Envelope>& allPassed() const { return m_passed; }
  const std::string& binary() const { return m_binary; }  // of the message returned last

  pid_t pid() const { return m_pid; }
  std::vector<pid_t> children() const;
  void kill();  // SIGKILL; returns when it is gone

 private:
  void receive();
  std::string m_folder;
  pid_t m_pid = -1;
  int m_in = -1, m_out = -1;
  protocol::RequestId m_lastId = 100;
  protocol::FrameReader m_reader;
  std::deque<protocol::Envelope> m_received;
  std::vector<protocol::Envelope> m_passed;
  std::string m_binary;
};

// Returns when no process of this id runs any more.
void awaitEnd(pid_t pid);

}  // namespace nf
