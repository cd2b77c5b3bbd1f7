// SPDX-License-Identifier: Apache-2.0
// A command that takes long says so on a terminal, and nowhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tune/fakes.h"

namespace nf {
namespace {

// Waits for its notebook on standard input, so that it takes as long as the test wants.
struct Command {
  Command(const std::vector<const char*>& arguments, int out, int err) {
    std::array<int, 2> in{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
    process = fork();
    if (process == 0) {
      dup2(in[0], STDIN_FILENO), dup2(out, STDOUT_FILENO), dup2(err, STDERR_FILENO);
      execv(NF_NEOFLOW, const_cast<char* const*>(arguments.data()));
      _exit(127);
    }
    close(in[0]);
    input = in[1];
  }
  int end(const std::string& notebook) const {
    EXPECT_EQ(write(input, notebook.data(), notebook.size()), static_cast<ssize_t>(notebook.size()));
    close(input);
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t process = -1;
  int input = -1;
};

TEST(WorkingLine, IsWrittenToATerminalOnly) {
  const std::string notebook = "param W[2] = normal(0, 1)\nloss L = sum[i] W[i]^2\n";
  const fakes::Folder folder;
  const std::vector<std::vector<const char*>> commands{{"neoflow", "grad", "-", "L", "W", nullptr},
                                                       {"neoflow", "show", "-", nullptr}};
  for (const std::vector<const char*>& arguments : commands) {
    const int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const std::string path = folder.path("err");
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int terminal = -1, slave = -1;
    ASSERT_EQ(openpty(&terminal, &slave, nullptr, nullptr, nullptr), 0);
    fcntl(terminal, F_SETFD, FD_CLOEXEC), fcntl(slave, F_SETFD, FD_CLOEXEC);
    const Command quiet(arguments, out, file), told(arguments, out, slave);
    std::string said;
    for (std::array<char, 256> part{}; said.find('\n') == std::string::npos;) {
      const ssize_t count = read(terminal, part.data(), part.size());
      ASSERT_GT(count, 0);
      said.append(part.data(), static_cast<std::size_t>(count));
    }
    EXPECT_THAT(said, testing::StartsWith("neoflow: deriving gradients, "));
    EXPECT_EQ(told.end(notebook), 0);
    EXPECT_EQ(quiet.end(notebook), 0);  // it has waited for as long
    std::stringstream written;
    written << std::ifstream(path).rdbuf();
    EXPECT_EQ(written.str(), "");
    for (const int fd : {out, file, terminal, slave}) close(fd);
  }
}

}  // namespace
}  // namespace nf
