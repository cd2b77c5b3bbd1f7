// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/data_check.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "core/runtime/data_feed.h"
#include "core/runtime/initialize.h"

namespace nf {
namespace {

bool isFile(Initializer::Kind kind) {
  switch (kind) {
    case Initializer::Kind::Csv:
    case Initializer::Kind::Npy:
    case Initializer::Kind::Npz:
    case Initializer::Kind::Idx:
    case Initializer::Kind::Safetensors: return true;
    default: return false;
  }
}

// Inputs without values that `run` or `train` would need: such a notebook can be differentiated, not computed. Warnings.
void warnOfMissingValues(const CompiledNotebook& notebook, Diagnostics& diagnostics) {
  const Program& p = notebook.program;
  const auto made = producers(p);
  std::unordered_map<std::uint32_t, const Derivative*> derivatives;
  for (const Derivative& d : p.derivatives) derivatives.emplace(d.result.value, &d);
  std::vector<bool> seen(p.tensors.size(), false);
  const auto trained = [&](const Output& o) {
    return o.role == OutputRole::Loss &&
           std::any_of(notebook.trains.begin(), notebook.trains.end(), [&](const TrainSettings& t) { return t.loss == o.name; });
  };
  for (const Output& o : p.outputs) {
    const bool evaluated = o.role == OutputRole::Eval && !notebook.trains.empty();
    if (o.role != OutputRole::Show && !evaluated && !trained(o)) continue;
    std::vector<TensorId> stack{o.tensor};
    while (!stack.empty()) {
      const TensorId t = stack.back();
      stack.pop_back();
      if (!t.valid() || seen[t.value]) continue;
      seen[t.value] = true;
      if (made[t.value].valid())
        for (const TensorId read : readsOf(p, made[t.value])) stack.push_back(read);
      if (const auto d = derivatives.find(t.value); d != derivatives.end())
        for (const TensorId read : {d->second->of, d->second->seed}) stack.push_back(read);
      const Tensor& tensor = p[t];
      const bool given = tensor.kind == TensorKind::Input || tensor.kind == TensorKind::Const;
      if (!given || tensor.init.kind != Initializer::Kind::None || !tensor.origin.valid()) continue;
      Diagnostic d;
      d.severity = Severity::Warning;
      d.code = "no-values";
      d.message = "`" + tensor.name + "` has no values, and `" +
                  (o.role == OutputRole::Show ? "show "
                   : evaluated                ? "eval "
                                              : "train ") +
                  o.name + "` needs them";
      d.span = p[tensor.origin].span;
      d.notes.push_back({"as in `input X[3] = normal(0, 1)`, `= npy(\"x.npy\")`, or a batch of a data set", {}});
      diagnostics.push_back(std::move(d));
    }
  }
}

}  // namespace

Diagnostics checkFiles(const CompiledNotebook& notebook, std::stop_token stop) {
  Diagnostics diagnostics;
  const Program& p = notebook.program;
  const std::string& directory = notebook.sources.at(notebook.notebook).directory;
  const auto report = [&](const Error& error, Span place) {
    Diagnostic d;
    d.code = "data";
    d.message = error.message;
    d.span = place;
    if (!error.detail.empty()) d.notes.push_back({error.detail, {}});
    diagnostics.push_back(std::move(d));
  };
  const auto warn = [&](const std::string& message, Span span) {
    Diagnostic d;
    d.severity = Severity::Warning;
    d.code = "stray-label";
    d.message = message;
    d.span = span;
    diagnostics.push_back(std::move(d));
  };
  for (std::size_t t = 0; t < p.tensors.size() && !stop.stop_requested(); ++t) {
    const Tensor& tensor = p.tensors[t];
    const bool number = tensor.init.kind == Initializer::Kind::Constant && tensor.type == DType::I32;
    if (!isFile(tensor.init.kind) && !number) continue;
    const auto spanOf = [&](OriginId origin) { return origin.valid() ? p[origin].span : Span{}; };
    const Span place = spanOf(tensor.origin);
    const auto value = initialValue(tensor, 1, directory);
    if (!value) {
      report(value.error(), spanOf(tensor.valuesOrigin()));
      continue;
    }
    if (const auto inRange = checkIndexValues(p, TensorId(t), *value); !inRange) report(inRange.error(), place);
    if (const auto stray = strayLabel(p, TensorId(t), *value)) warn(*stray, place);
  }
  Span place;
  const auto feed = DataFeed::open(p, directory, 1, &place, stop);
  if (!feed && isStopped(feed.error())) return diagnostics;
  if (!feed) {
    report(feed.error(), place);
  } else {
    for (const auto& [text, origin] : feed->strayLabels()) warn(text, origin.valid() ? p[origin].span : Span{});
  }
  return diagnostics;
}

Diagnostics checkData(const CompiledNotebook& notebook) {
  Diagnostics diagnostics = checkFiles(notebook);
  warnOfMissingValues(notebook, diagnostics);
  return diagnostics;
}

Hash filesRead(const CompiledNotebook& notebook) {
  const Program& p = notebook.program;
  const std::string& directory = notebook.sources.at(notebook.notebook).directory;
  Hasher hasher;
  bool any = false;
  const auto number = [&](auto value) { hasher.add(static_cast<std::uint64_t>(value)); };
  const auto add = [&](const Initializer& init) {
    any = true;
    hasher.add(std::string_view(init.data));
    number(init.kind), number(init.columnBegin), number(init.columnEnd);
    for (const std::string& s : init.strings) hasher.add(std::string_view(s));
    if (init.strings.empty()) return;
    std::error_code none;
    const std::filesystem::path file = std::filesystem::path(directory) / init.strings[0];
    number(std::filesystem::file_size(file, none));
    number(std::filesystem::last_write_time(file, none).time_since_epoch().count());
  };
  for (const Tensor& t : p.tensors) {
    if (!isFile(t.init.kind) && t.init.kind != Initializer::Kind::Batch) continue;
    add(t.init);
    number(t.type);
    for (const std::int64_t extent : t.shape) number(extent);
  }
  for (const DataSet& d : p.data) {
    add(d.source);
    hasher.add(std::string_view(d.name));
    number(d.heldOutLast);
  }
  return any ? hasher.add(std::string_view(directory)).finish() : Hash();
}

}  // namespace nf
