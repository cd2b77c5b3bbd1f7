// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/data_check.h"

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

}  // namespace

Diagnostics checkData(const CompiledNotebook& notebook) {
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
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const Tensor& tensor = p.tensors[t];
    if (!isFile(tensor.init.kind)) continue;
    const Span place = tensor.origin.valid() ? p[tensor.origin].span : Span{};
    const auto value = initialValue(tensor, 1, directory);
    if (!value) {
      report(value.error(), place);
      continue;
    }
    if (const auto inRange = checkIndexValues(p, TensorId(t), *value); !inRange) report(inRange.error(), place);
  }
  Span place;
  if (const auto feed = DataFeed::open(p, directory, 1, &place); !feed) report(feed.error(), place);
  return diagnostics;
}

}  // namespace nf
