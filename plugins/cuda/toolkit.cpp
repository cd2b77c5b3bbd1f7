// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/toolkit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace nf::cuda {
namespace {

namespace fs = std::filesystem;

Error failure(const std::string& message, const std::string& detail = {}) { return Error{"compile", message, "cuda", detail}; }

std::string ownFolder() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&toolkitFolders), &self) == 0 || !self.dli_fname) return {};
  const std::string own = self.dli_fname;
  return own.substr(0, own.rfind('/') + 1);
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A folder of its own that goes with it.
class Scratch {
 public:
  Scratch() {
    std::error_code ignored;
    std::string name = (fs::temp_directory_path(ignored) / "neoflow-ptx-XXXXXX").string();
    if (::mkdtemp(name.data())) m_path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!m_path.empty()) fs::remove_all(m_path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return m_path; }

 private:
  fs::path m_path;
};

}  // namespace

std::vector<std::string> toolkitFolders(const std::string& inside) {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) folders.push_back(std::string(home) + "/" + inside + "/");
  if (const std::string own = ownFolder(); !own.empty()) folders.push_back(own);
  folders.push_back("/usr/local/cuda/" + inside + "/");
  return folders;
}

std::string findIn(const std::vector<std::string>& folders, const std::string& name) {
  std::error_code ignored;
  for (const std::string& folder : folders)
    if (fs::is_regular_file(folder + name, ignored)) return folder + name;
  return {};
}

std::string ptxasPath() {
  static const std::string found = [] {
    std::vector<std::string> folders = toolkitFolders("bin");
    const char* path = std::getenv("PATH");
    std::istringstream entries(path ? path : "");
    for (std::string entry; std::getline(entries, entry, ':');)
      if (!entry.empty()) folders.push_back(entry + "/");
    return findIn(folders, "ptxas");
  }();
  return found;
}

namespace {

// Waits for it; what it writes goes to `log`.
Result<int> run(const char* const* arguments, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int code = ::posix_spawn(&child, arguments[0], &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return failure("ptxas can't be started.", std::string(arguments[0]) + ": " + std::strerror(code));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

int ptxasMajor() {
  static const int found = [] {
    const std::string ptxas = ptxasPath();
    const Scratch scratch;
    if (ptxas.empty() || scratch.path().empty()) return 0;
    const std::string log = scratch.path() / "log";
    const char* arguments[] = {ptxas.c_str(), "--version", nullptr};
    if (const auto code = run(arguments, log); !code || *code != 0) return 0;
    const std::string words = read(log);
    const std::size_t at = words.find("release ");
    return at == std::string::npos ? 0 : std::atoi(words.c_str() + at + 8);
  }();
  return found;
}

Result<std::vector<std::byte>> assemble(const std::string& ptxas, const std::string& ptx, const std::string& architecture) {
  const Scratch scratch;
  if (scratch.path().empty()) return failure("There is no folder for ptxas to write in.", std::strerror(errno));
  const std::string source = scratch.path() / "kernel.ptx", cubin = scratch.path() / "kernel.cubin", log = scratch.path() / "log";
  std::ofstream out(source, std::ios::binary);
  out.write(ptx.data(), static_cast<std::streamsize>(ptx.size()));
  out.close();
  if (!out) return failure("The file for ptxas can't be written.", source);
  const std::string arch = "-arch=" + architecture;
  // No fused multiplications but those that the loops have.
  const char* arguments[] = {ptxas.c_str(), arch.c_str(),  "--fmad=false", "--generate-line-info",
                             "-o",          cubin.c_str(), source.c_str(), nullptr};
  NF_TRY(const int code, run(arguments, log));
  if (code != 0) return failure("ptxas refuses the kernel.", read(log));
  const std::string made = read(cubin);
  if (made.empty()) return failure("ptxas made no cubin.", read(log));
  std::vector<std::byte> bytes(made.size());
  std::memcpy(bytes.data(), made.data(), made.size());
  return bytes;
}

}  // namespace nf::cuda
