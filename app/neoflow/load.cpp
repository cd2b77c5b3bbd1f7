// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/neoflow/commands.h"

namespace nf {

int report(const Error& error, bool json, int exitCode, const std::string& file) {
  if (json) {
    std::cout << nlohmann::json{{"event", "error"},
                                {"stage", error.stage},
                                {"message", error.message},
                                {"detail", error.detail},
                                {"file", file},
                                {"line", 0},
                                {"column", 0}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    std::cerr << "neoflow: " << error.message << "\n";
    if (!error.detail.empty()) std::cerr << error.detail << "\n";
  }
  return exitCode;
}

int exitCodeOf(const Error& error) {
  if (isStopped(error)) return kExitMachineLacks;
  for (const char* stage :
       {"source", "check", "train", "resume", "hint", "load data", "load weights", "data", "read", "replay", "tensor"})
    if (error.stage == stage) return kExitWrongInput;
  return error.stage == "device name" ? kExitUsage : error.stage == "verify" ? kExitInternal : kExitMachineLacks;
}

std::size_t nameColumns(std::size_t others, std::size_t longest) {
  constexpr std::size_t kLeast = 32, kWithoutTerminal = 120;
  winsize window{};
  const bool terminal = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  const std::size_t columns = terminal ? window.ws_col : kWithoutTerminal;
  return std::min(std::max(columns > others ? columns - others : 0, kLeast), std::max<std::size_t>(longest, 16));
}

Result<Source> readSource(const std::string& file, const std::string& as) {
  Source source;
  constexpr std::size_t kLargest = 64u << 20;
  const auto readAll = [&](std::istream& in) {
    std::vector<char> chunk(std::size_t{1} << 16);
    while (in && source.text.size() <= kLargest) {
      in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      source.text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    }
    return source.text.size() <= kLargest;
  };
  const Error tooLarge{"read", file + " is larger than 64 MiB: that is no notebook.", {}, {}};
  if (file == "-") {
    source.name = as.empty() ? "standard input" : as;
    std::error_code none;
    if (std::filesystem::exists(as, none)) source.directory = std::filesystem::path(as).parent_path().string();
    if (!readAll(std::cin)) return tooLarge;
    return source;
  }
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status)) return Error{"read", file + " is a folder, a notebook (.nf) was expected.", {}, {}};
  if (fs::is_character_file(status) || fs::is_block_file(status))
    return Error{"read", file + " is a device, a notebook (.nf) was expected.", {}, {}};
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{"read", "There is no file " + file + " that can be read.", {}, {}};
  source.name = file;
  source.directory = fs::path(file).parent_path().string();
  if (!readAll(in)) return tooLarge;
  return source;
}

Result<std::map<std::string, std::string>> parseSets(const std::vector<std::string>& sets) {
  std::map<std::string, std::string> result;
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) return Error{"usage", "--set takes NAME=VALUE, not \"" + set + "\".", {}, {}};
    result[set.substr(0, equals)] = set.substr(equals + 1);
  }
  return result;
}

Loaded loadNotebook(const FileOptions& options, CompileOptions compile) {
  Loaded loaded;
  auto sets = parseSets(options.sets);
  if (!sets) {
    loaded.exitCode = report(sets.error(), options.json, kExitUsage);
    return loaded;
  }
  compile.sets = std::move(*sets);
  auto source = readSource(options.file, options.as);
  if (!source) {
    loaded.exitCode = report(source.error(), options.json, kExitWrongInput, options.file);
    return loaded;
  }
  loaded.notebook = compileNotebook(std::move(*source), compile);
  if (!loaded.notebook.ok()) loaded.exitCode = kExitWrongInput;
  else if (compile.train > 0 && compile.train >= loaded.notebook.trains.size())
    loaded.exitCode = report({"usage", "There is no `train` statement " + std::to_string(compile.train + 1) + ".", {}, {}},
                             options.json, kExitUsage, options.file);
  return loaded;
}

}  // namespace nf
