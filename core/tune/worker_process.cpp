// SPDX-License-Identifier: Apache-2.0
#include "core/tune/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

extern char** environ;

namespace nf {
namespace {

constexpr std::size_t kPrefix = 12;

template <class T>
void putLittleEndian(std::vector<std::byte>& into, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) into.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <class T>
T getLittleEndian(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(from[i]) << (8 * i);
  return value;
}

// Nanoseconds on a core, nanoseconds of waiting for one: what Linux keeps of its first thread, which does the work.
std::chrono::nanoseconds coreWaitOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  std::int64_t ran = 0, waited = 0;
  return file >> ran >> waited ? std::chrono::nanoseconds(waited) : std::chrono::nanoseconds(0);
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::vector<std::byte> encode(const Frame& frame) {
  std::vector<std::byte> bytes;
  bytes.reserve(kPrefix + frame.header.size() + frame.body.size());
  putLittleEndian(bytes, static_cast<std::uint32_t>(frame.header.size()));
  putLittleEndian(bytes, static_cast<std::uint64_t>(frame.body.size()));
  const auto* header = reinterpret_cast<const std::byte*>(frame.header.data());
  bytes.insert(bytes.end(), header, header + frame.header.size());
  bytes.insert(bytes.end(), frame.body.begin(), frame.body.end());
  return bytes;
}

std::optional<Frame> FrameReader::next() {
  if (m_garbled || m_buffer.size() < kPrefix) return std::nullopt;
  const std::uint64_t header = getLittleEndian<std::uint32_t>(m_buffer.data());
  const std::uint64_t body = getLittleEndian<std::uint64_t>(m_buffer.data() + 4);
  if (header > kMaximumHeader || body > kMaximumBody) {
    m_garbled = true;
    return std::nullopt;
  }
  if (m_buffer.size() < kPrefix + header + body) return std::nullopt;
  Frame frame;
  const auto begin = m_buffer.begin() + kPrefix;
  const auto middle = begin + static_cast<std::ptrdiff_t>(header);
  const auto end = middle + static_cast<std::ptrdiff_t>(body);
  frame.header.assign(reinterpret_cast<const char*>(m_buffer.data()) + kPrefix, header);
  frame.body.assign(middle, end);
  m_buffer.erase(m_buffer.begin(), end);
  return frame;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const std::vector<std::string>& command, CoreWait coreWait) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{"start worker", "cannot make a pipe", {}, std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  // Its own process group: an interrupt from the keyboard is the parent's to handle. Signals as in a fresh process.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int code = posix_spawn(&pid, command.front().c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    return Error{"start worker", "cannot start " + command.front(), {}, std::strerror(code)};
  }
  fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(pid, ends[0], coreWait ? std::move(coreWait) : coreWaitOf));
}

WorkerProcess::~WorkerProcess() { ended(Failure::Died); }

bool WorkerProcess::hungUp() const {
  if (m_pid < 0) return true;
  pollfd p{m_socket, POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

WorkerProcess::Reply WorkerProcess::ended(Failure failure, std::string how) {
  bool fromOutside = false;
  if (m_pid > 0) {
    // One that died by itself has left its own status; the signal then finds nobody.
    if (failure == Failure::Died && !how.empty()) {
      int status = 0;
      pid_t reaped = 0;
      // The end of the stream comes just before the process can be reaped; a worker that only closed its pipe is killed.
      for (int i = 0; i < 200 && (reaped = waitpid(m_pid, &status, WNOHANG)) == 0; ++i) poll(nullptr, 0, 1);
      if (reaped == m_pid) {
        how = describe(status);
        fromOutside = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        m_pid = -1;
      }
    }
    if (m_pid > 0) {
      kill(m_pid, SIGKILL);
      waitpid(m_pid, nullptr, 0);
      m_pid = -1;
    }
  }
  if (m_socket >= 0) close(m_socket);
  m_socket = -1;
  return {failure, {}, std::move(how), fromOutside};
}

WorkerProcess::Reply WorkerProcess::exchange(const Frame& request, Time deadline, int wake,
                                             const std::function<std::optional<Time>()>& woken) {
  const std::vector<std::byte> bytes = encode(request);
  const Time start = std::chrono::steady_clock::now();
  // On a busy machine it gets so much longer, but no end of it.
  constexpr int kLongest = 6;
  constexpr std::chrono::milliseconds kLeastWait{1};
  Time::duration patience = (kLongest - 1) * (deadline - start), counted = m_coreWait(m_pid);
  std::size_t sent = 0;
  FrameReader reader;
  std::vector<std::byte> chunk(1 << 16);
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) {
      const Time::duration waited = m_coreWait(m_pid), longer = std::min(waited - counted, patience);
      if (longer < kLeastWait) {
        const auto given = std::chrono::round<std::chrono::milliseconds>(deadline - start).count();
        return ended(Failure::Deadline, "no answer within " + std::to_string(given) + " ms");
      }
      counted = waited;
      patience -= longer;
      deadline += longer;
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count() + 1;
    pollfd fds[2] = {{m_socket, static_cast<short>(POLLIN | (sent < bytes.size() ? POLLOUT : 0)), 0}, {wake, POLLIN, 0}};
    if (poll(fds, 2, static_cast<int>(std::min<long>(left, 1 << 30))) < 0 && errno != EINTR)
      return ended(Failure::Died, "poll failed");
    if (fds[1].revents & POLLIN)
      if (const auto earlier = woken(); earlier && *earlier < deadline) {
        deadline = *earlier;
        patience = {};
      }
    if (fds[0].revents & POLLOUT) {
      const ssize_t n = send(m_socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return ended(Failure::Died, "gone");
    }
    if (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) {
      const ssize_t n = recv(m_socket, chunk.data(), chunk.size(), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return ended(Failure::Died, "gone");
      if (n > 0) reader.add(chunk.data(), static_cast<std::size_t>(n));
      if (auto frame = reader.next()) return {Failure::None, std::move(*frame), {}, false};
      if (reader.garbled()) return ended(Failure::Died, "an answer that is no frame");
    }
  }
}

}  // namespace nf
