// SPDX-License-Identifier: Apache-2.0
#include "core/session/outbox.h"

#include <chrono>

namespace nf {

Outbox::Outbox(Write write) : m_write(std::move(write)), m_thread([this](std::stop_token stop) { run(stop); }) {}

Outbox::~Outbox() {
  m_thread.request_stop();
  m_thread.join();
}

void Outbox::send(const protocol::Message& message, protocol::RequestId id) { send(encoded(message, id)); }
void Outbox::send(Encoded message) { push(std::move(message.line)); }
Outbox::Encoded Outbox::encoded(const protocol::Message& message, protocol::RequestId id) {
  return {protocol::encode(message, id) + "\n"};
}
void Outbox::send(const protocol::Envelope& envelope) { push(protocol::encodeFrame(envelope)); }

void Outbox::push(std::string bytes) {
  {
    const std::lock_guard lock(m_mutex);
    if (m_closed) return;
    m_bytes += bytes;
  }
  m_filled.notify_one();
}

bool Outbox::closed() const {
  const std::lock_guard lock(m_mutex);
  return m_closed;
}

void Outbox::run(std::stop_token stop) {
  std::unique_lock lock(m_mutex);
  for (;;) {
    m_filled.wait(lock, stop, [this] { return !m_bytes.empty(); });
    if (m_bytes.empty() && stop.stop_requested()) return;
    // A little patience gathers what comes together; the end of the program does not wait.
    if (!stop.stop_requested()) m_filled.wait_for(lock, stop, std::chrono::milliseconds(2), [] { return false; });
    std::string batch;
    batch.swap(m_bytes);
    lock.unlock();
    const bool written = m_write(batch);
    lock.lock();
    if (!written) {
      m_closed = true;
      m_bytes.clear();
      return;
    }
  }
}

}  // namespace nf
