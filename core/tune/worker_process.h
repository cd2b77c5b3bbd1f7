// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/support/result.h"

namespace nf {

// One message on a worker's pipe: JSON text and raw bytes, each preceded by its length
// (header length u32, body length u64, little endian, then both).
struct Frame {
  std::string header;
  std::vector<std::byte> body;
};
std::vector<std::byte> encode(const Frame& frame);

// Collects bytes until a frame is complete. A length beyond the limits means that the stream is garbled.
class FrameReader {
 public:
  static constexpr std::uint64_t kMaximumHeader = 256u << 20, kMaximumBody = 1u << 30;
  void add(const std::byte* bytes, std::size_t count) { m_buffer.insert(m_buffer.end(), bytes, bytes + count); }
  std::optional<Frame> next();
  bool garbled() const { return m_garbled; }
  bool empty() const { return m_buffer.empty(); }

 private:
  std::vector<std::byte> m_buffer;
  bool m_garbled = false;
};

// A child process on a socket that is its standard input and output. It is killed with this object, and it dies when the thread
// that started it ends (it asks for that itself, see worker_main). Not thread-safe: one thread starts it and talks to it.
class WorkerProcess {
 public:
  // How long a process has waited for a core since it began, while others ran; none: as Linux has it.
  using CoreWait = std::function<std::chrono::nanoseconds(pid_t)>;
  static Result<std::unique_ptr<WorkerProcess>> start(const std::vector<std::string>& command, CoreWait coreWait = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return m_pid; }
  int descriptor() const { return m_socket; }
  bool hungUp() const;  // it is gone, or it said something unasked; either way it is of no use

  enum class Failure : std::uint8_t { None, Died, Deadline };
  struct Reply {
    Failure failure = Failure::None;
    Frame frame;
    std::string how;                 // "signal 6 (Aborted)", "exit code 1", "no answer within 500 ms"
    bool killedFromOutside = false;  // SIGKILL that was not ours: hardly the fault of what it worked on
  };
  using Time = std::chrono::steady_clock::time_point;
  // Sends, then waits for the answer. After a failure the process is dead and reaped. What it waits for a core puts the deadline off, to
  // six times its distance at most. When `wake` becomes readable `woken` drains it and may give an earlier deadline, which stands.
  Reply exchange(const Frame& request, Time deadline, int wake, const std::function<std::optional<Time>()>& woken);

 private:
  WorkerProcess(pid_t pid, int socket, CoreWait coreWait) : m_pid(pid), m_socket(socket), m_coreWait(std::move(coreWait)) {}
  Reply ended(Failure failure, std::string how = {});
  pid_t m_pid;
  int m_socket;
  CoreWait m_coreWait;
};

}  // namespace nf
