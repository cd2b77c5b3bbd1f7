// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/support/result.h"

namespace nf {

// Who may use a device now: a robust mutex shared by all processes of one user (the engine's steps, the measuring workers, other
// engines). Holders take turns: who releases it and wants it again waits behind the one who waited. A holder that dies frees it.
// The thread that acquires a hold releases it.
class DeviceLease {
 public:
  // `directory` empty: $XDG_RUNTIME_DIR/neoflow, or /tmp/neoflow-UID.
  static Result<std::unique_ptr<DeviceLease>> open(const std::string& device, const std::string& directory = {});
  ~DeviceLease();
  DeviceLease(const DeviceLease&) = delete;
  DeviceLease& operator=(const DeviceLease&) = delete;

  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept : m_lease(other.m_lease) { other.m_lease = nullptr; }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { release(); }
    void release();
    explicit operator bool() const { return m_lease != nullptr; }

   private:
    friend class DeviceLease;
    explicit Hold(DeviceLease* lease) : m_lease(lease) {}
    DeviceLease* m_lease = nullptr;
  };
  Hold acquire();
  std::optional<Hold> acquireWithin(std::chrono::nanoseconds atMost);

  // Waits of this process since it opened the lease. A wait counts when the lease was not free at once.
  struct Waits {
    std::int64_t count = 0;
    std::int64_t totalNanoseconds = 0;
    std::int64_t longestNanoseconds = 0;
    std::int64_t ownersDied = 0;
  };
  Waits waits() const;

 private:
  struct Shared;
  explicit DeviceLease(Shared* shared) : m_shared(shared) {}
  void unlock();
  Shared* m_shared;
  mutable std::mutex m_waitsMutex;
  Waits m_waits;
};

}  // namespace nf
