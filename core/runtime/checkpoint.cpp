// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace nf {

double checkpointDistance(double trained, double cost, double period) {
  const double bound = 50 * cost, wanted = std::min(period, std::max(1.0, trained));
  return trained > 0 ? std::max(wanted, bound) : std::clamp(bound, wanted, period);
}

Result<Unit> writeCheckpoint(const std::string& path, const Checkpoint& c) {
  const nlohmann::json state{{"version", 1},         {"step", c.step},         {"seed", c.seed},
                             {"program", c.program}, {"declared", c.declared}, {"swaps", toJsonLines(c.swaps)}};
  return writeFileAtomically(path, safetensorsBytes(c.tensors, {{"neoflow", state.dump()}}));
}

Result<Checkpoint> readCheckpoint(const std::string& path) {
  NF_TRY(const std::string bytes, readFile(path));
  Checkpoint c;
  NF_TRY(c.tensors, parseSafetensors(bytes, path));
  const auto metadata = safetensorsMetadata(bytes);
  const auto found = metadata.find("neoflow");
  const Error none{"resume", path + " holds weights, but no state of a training run.", {}, {}};
  if (found == metadata.end()) return none;
  const auto state = nlohmann::json::parse(found->second, nullptr, false);
  if (!state.is_object() || state.value("version", nlohmann::json()) != 1)
    return Error{"resume", path + " was written by another version.", {}, {}};
  for (const char* key : {"step", "seed"})
    if (!state.contains(key) || !state[key].is_number_integer()) return none;
  for (const char* key : {"program", "swaps"})
    if (!state.contains(key) || !state[key].is_string()) return none;
  c.step = state["step"].get<std::int64_t>();
  c.seed = state["seed"].get<std::uint64_t>();
  c.program = state["program"].get<std::string>();
  if (const auto declared = state.find("declared"); declared != state.end() && declared->is_object())
    for (const auto& [name, how] : declared->items())
      if (how.is_string()) c.declared.emplace(name, how.get<std::string>());
  NF_TRY(c.swaps, swapsFromJsonLines(state["swaps"].get<std::string>()));
  if (c.step < 0) return none;
  return c;
}

}  // namespace nf
