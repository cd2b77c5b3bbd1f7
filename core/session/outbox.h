// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/protocol/message.h"

namespace nf {

// Sends messages from any thread in the order they were given. A thread of its own writes them in batches, at most one write
// every 2 ms, so that 50,000 small events a second cost 500 system calls. Destruction writes what is left.
class Outbox {
 public:
  // Returns false when the other side is gone: later messages are dropped.
  using Write = std::function<bool(std::string_view bytes)>;
  explicit Outbox(Write write);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void send(const protocol::Message& message, protocol::RequestId id = 0);
  void send(const protocol::Envelope& envelope);
  // Written down before it is sent, for those who may not be kept while it is.
  struct Encoded {
    std::string line;
  };
  static Encoded encoded(const protocol::Message& message, protocol::RequestId id);
  void send(Encoded message);
  bool closed() const;

 private:
  void push(std::string bytes);
  void run(std::stop_token stop);
  Write m_write;
  mutable std::mutex m_mutex;
  std::condition_variable_any m_filled;
  std::string m_bytes;
  bool m_closed = false;
  std::jthread m_thread;  // last: it uses all of the above
};

}  // namespace nf
