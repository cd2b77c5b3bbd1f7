// SPDX-License-Identifier: Apache-2.0
#include "tests/session/engine_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace nf {

using namespace protocol;

EngineProcess::EngineProcess(const std::string& folder, const std::map<std::string, std::string>& environment) : m_folder(folder) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::abort();
  m_pid = fork();
  if (m_pid == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    setenv("NEOFLOW_RECORDS", (folder + "/records.sqlite").c_str(), 1);
    execl(NF_NEOFLOW, NF_NEOFLOW, "engine", nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  m_in = in[1];
  m_out = out[0];
  signal(SIGPIPE, SIG_IGN);
  await<Hello>();
}

EngineProcess::~EngineProcess() {
  close(m_in);
  if (m_pid > 0) {
    int status = 0;
    // What it still says is read: it must not wait for a reader.
    char buffer[65536];
    while (read(m_out, buffer, sizeof buffer) > 0) {}
    waitpid(m_pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the engine ended with status " << status;
  }
  close(m_out);
}

void EngineProcess::sendBytes(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = write(m_in, bytes.data() + sent, bytes.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    ASSERT_GT(n, 0) << "the engine does not read any more";
    sent += static_cast<std::size_t>(n);
  }
}

void EngineProcess::send(const Message& message, RequestId id) { sendBytes(encode(message, id) + "\n"); }

Analysis EngineProcess::document(const std::string& text, std::uint64_t revision) {
  send(DocumentReplaced{revision, "test.nf", m_folder, text});
  auto analysis = await<Analysis>();
  EXPECT_EQ(analysis.revision, revision);
  EXPECT_TRUE(analysis.diagnostics.empty()) << analysis.diagnostics.front().message;
  return analysis;
}

Envelope EngineProcess::next() {
  while (m_received.empty()) {
    char buffer[65536];
    const ssize_t count = read(m_out, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ADD_FAILURE() << "the engine closed its output";
      std::abort();  // nothing that follows could mean anything
    }
    std::vector<Error> errors;
    for (Envelope& e : m_reader.feed(std::string_view(buffer, static_cast<std::size_t>(count)), errors))
      m_received.push_back(std::move(e));
    EXPECT_TRUE(errors.empty()) << (errors.empty() ? "" : errors[0].message);
  }
  Envelope e = std::move(m_received.front());
  m_received.pop_front();
  return e;
}

Envelope EngineProcess::awaitThat(const std::function<bool(const Envelope&)>& wanted) {
  for (;;) {
    Envelope e = next();
    if (wanted(e)) {
      m_binary = e.binary;
      return e;
    }
    m_passed.push_back(std::move(e));
  }
}

std::vector<pid_t> EngineProcess::children() const {
  std::vector<pid_t> found;
  const std::string folder = "/proc/" + std::to_string(m_pid) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(folder)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t pid; list >> pid;) found.push_back(pid);
  }
  return found;
}

void EngineProcess::kill() {
  ::kill(m_pid, SIGKILL);
  waitpid(m_pid, nullptr, 0);
  m_pid = -1;
}

void awaitEnd(pid_t pid) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return;  // gone already
  pollfd end{descriptor, POLLIN, 0};
  while (poll(&end, 1, -1) < 0 && errno == EINTR) {}
  close(descriptor);
}

}  // namespace nf
