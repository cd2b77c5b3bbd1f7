// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "core/device/backend.h"

namespace nf {

void BackendRegistry::add(std::string name, PluginEntry entry) {
  Entry made{std::move(name), {}, entry(kPluginVersion)};
  if (!made.backend) made.reason = "It was built for another version of NeoFlow.";
  else made.reason = made.backend->unavailable();
  m_entries.push_back(std::move(made));
}

void BackendRegistry::load(const std::string& directory) {
  namespace fs = std::filesystem;
  constexpr std::string_view kPrefix = "neoflow-plugin-", kSuffix = ".so";
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(directory, error)) {
    const std::string file = item.path().filename().string();
    if (file.starts_with(kPrefix) && file.ends_with(kSuffix)) files.push_back(item.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::string name = file.stem().string().substr(kPrefix.size());
    if (std::any_of(m_entries.begin(), m_entries.end(), [&](const Entry& e) { return e.name == name; })) continue;
    // Local symbols: two LLVMs in one process (a GL driver may bring its own) must not meet. Never closed: kernels and
    // threads of a plugin outlive its last visible use.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* words = dlerror();
      m_entries.push_back(
          {std::move(name), std::string("It can't be loaded: ") + (words ? words : "no reason given") + ".", nullptr});
      continue;
    }
    const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, "neoflowPlugin"));
    if (!entry) {
      m_entries.push_back({std::move(name), "It lacks the entry point neoflowPlugin.", nullptr});
      continue;
    }
    add(std::move(name), entry);
  }
}

Backend* BackendRegistry::find(std::string_view name) const {
  for (const Entry& entry : m_entries)
    if (entry.name == name && entry.reason.empty()) return entry.backend;
  return nullptr;
}

Backend* BackendRegistry::generator(std::string_view name) const {
  for (const Entry& entry : m_entries)
    if (entry.name == name) return entry.backend;
  return nullptr;
}

}  // namespace nf
