// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/runtime/tensor_store.h"
#include "core/support/hash.h"

namespace nf {

double checkpointDistance(double trained, double cost, double period) {
  const double bound = 50 * cost, wanted = std::min(period, std::max(1.0, trained));
  return trained > 0 ? std::max(wanted, bound) : std::clamp(bound, wanted, period);
}

namespace {

// Of all that it holds: a disk's or a copy's flipped bit is found before it is trained with.
std::string checksum(const Checkpoint& c) {
  std::vector<const std::pair<std::string, HostTensor>*> sorted;
  for (const auto& entry : c.tensors) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(c.step)).add(c.seed).add(c.program).add(toJsonLines(c.swaps));
  for (const auto& [name, how] : c.declared) hasher.add(name).add(how);
  // Older files have none of these.
  for (const std::string* later : {&c.optimizer, &c.device, &c.mode})
    if (!later->empty()) hasher.add(*later);
  for (const auto& [name, place] : c.places) hasher.add(name).add(place);
  for (const auto* entry : sorted) {
    const HostTensor& tensor = entry->second;
    hasher.add(entry->first).add(name(tensor.type)).add(tensor.shape.size());
    for (const std::int64_t extent : tensor.shape) hasher.add(static_cast<std::uint64_t>(extent));
    hasher.add(std::string_view(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
  }
  return hasher.finish().hex();
}

}  // namespace

Result<Unit> writeCheckpoint(const std::string& path, const Checkpoint& c) {
  const nlohmann::json state{
      {"version", 1},           {"step", c.step}, {"seed", c.seed},         {"program", c.program}, {"optimizer", c.optimizer},
      {"device", c.device},     {"mode", c.mode}, {"declared", c.declared}, {"places", c.places},   {"swaps", toJsonLines(c.swaps)},
      {"checksum", checksum(c)}};
  return writeFileAtomically(path, safetensorsBytes(c.tensors, {{"neoflow", state.dump()}}));
}

std::map<std::string, std::string> renamedParameters(const std::map<std::string, std::string>& thenPlaces,
                                                     const std::map<std::string, std::string>& nowPlaces) {
  std::map<std::string, std::string> thenAt, now;  // thenAt: by place
  for (const auto& [name, at] : thenPlaces)
    if (!nowPlaces.contains(name)) thenAt.emplace(at, name);
  for (const auto& [name, at] : nowPlaces)
    if (const auto then = thenAt.find(at); then != thenAt.end() && !thenPlaces.contains(name)) now.emplace(then->second, name);
  return now;
}

void renameTensors(NamedTensors& tensors, const std::map<std::string, std::string>& renamed) {
  for (auto& [name, value] : tensors)
    for (std::size_t end = name.size(); end != std::string::npos && end > 0; end = name.rfind('.', end - 1))
      if (const auto found = renamed.find(name.substr(0, end)); found != renamed.end()) {
        name.replace(0, end, found->second);
        break;
      }
}

Result<Checkpoint> readCheckpoint(const std::string& path) {
  NF_TRY(const std::string bytes, readFile(path));
  Checkpoint c;
  NF_TRY(c.tensors, parseSafetensors(bytes, path));
  const auto metadata = safetensorsMetadata(bytes);
  const auto written = metadata.find("neoflow");
  const Error none{"resume", path + " holds weights, but no state of a training run.", {}, {}};
  if (written == metadata.end()) return none;
  const auto state = nlohmann::json::parse(written->second, nullptr, false);
  if (!state.is_object() || state.value("version", nlohmann::json()) != 1)
    return Error{"resume", path + " was written by another version.", {}, {}};
  for (const char* key : {"step", "seed"})
    if (!state.contains(key) || !state[key].is_number_integer()) return none;
  for (const char* key : {"program", "swaps"})
    if (!state.contains(key) || !state[key].is_string()) return none;
  c.step = state["step"].get<std::int64_t>();
  c.seed = state["seed"].get<std::uint64_t>();
  c.program = state["program"].get<std::string>();
  for (const auto& [key, into] : {std::pair{"optimizer", &c.optimizer}, {"device", &c.device}, {"mode", &c.mode}})
    if (const auto found = state.find(key); found != state.end() && found->is_string()) *into = found->get<std::string>();
  for (const auto& [key, into] : {std::pair{"declared", &c.declared}, {"places", &c.places}})
    if (const auto found = state.find(key); found != state.end() && found->is_object())
      for (const auto& [name, text] : found->items())
        if (text.is_string()) into->emplace(name, text.get<std::string>());
  NF_TRY(c.swaps, swapsFromJsonLines(state["swaps"].get<std::string>()));
  if (c.step < 0) return none;
  // Those of older versions have none.
  if (state.contains("checksum") && state["checksum"] != checksum(c))
    return Error{"resume", path + " is damaged: what it holds is not what was written.", {}, {}};
  return c;
}

Result<NamedTensors> readWeights(const std::string& path) {
  if (path.ends_with(".npz")) return readNpzAll(path);
  NF_TRY(const std::string bytes, readFile(path));
  if (!safetensorsMetadata(bytes).contains("neoflow")) return parseSafetensors(bytes, path);
  NF_TRY(Checkpoint checkpoint, readCheckpoint(path));
  return std::move(checkpoint.tensors);
}

Result<std::vector<std::string>> writeWeights(TensorStore& store, const NamedTensors& tensors, const std::string& from) {
  constexpr std::size_t kMost = 8;  // names that a message has room for
  std::string others;
  std::size_t differing = 0;
  for (const auto& [name, value] : tensors) {
    const TensorStore::Entry* entry = store.find(name);
    if (!entry || entry->shape == value.shape || ++differing > kMost) continue;
    others += (others.empty() ? "" : "; ") + name + " has the shape " + shapeText(value.shape) + ", here it is " +
              shapeText(entry->shape);
  }
  if (differing > 0) return Error{"load weights", from + ": " + others + (differing > kMost ? "; ..." : "."), {}, {}};
  std::vector<std::string> written;
  for (const auto& [name, value] : tensors) {
    TensorStore::Entry* entry = store.find(name);
    if (!entry) continue;
    if (entry->type == DType::I32 && value.type != DType::I32)
      for (std::int64_t i = 0, n = value.elements(); i < n; ++i)
        if (const double v = value.at(i); !(v >= -2147483648.0 && v <= 2147483647.0))
          return Error{"load weights",
                       from + ": element " + std::to_string(i) + " of " + name + " is no integer of 32 bits, as it is here.",
                       {},
                       {}};
    NF_TRY([[maybe_unused]] const Unit there, store.write(*entry, value));
    written.push_back(name);
  }
  std::vector<std::string> here, given;
  for (const auto& [name, entry] : store.entries())
    if (entry->kind == TensorKind::Param) here.push_back(name);
  for (const auto& t : tensors) given.push_back(t.first);
  const auto list = [&](const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "" : ", ") + names[i];
    return names.empty() ? std::string("nothing") : text + (names.size() > kMost ? ", ..." : "");
  };
  if (written.empty() && !here.empty())
    return Error{"load weights",
                 from + " holds " + list(given) + ": no parameter here has such a name, they are " + list(here) + ".",
                 {},
                 {}};
  return written;
}

}  // namespace nf
