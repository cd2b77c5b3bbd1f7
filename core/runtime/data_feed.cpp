// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/data_feed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "core/runtime/initialize.h"
#include "core/support/assert.h"
#include "core/support/counter_random.h"
#include "core/support/hash.h"

namespace nf {
namespace {

Error feedError(const std::string& message) { return {"load data", message, {}, {}}; }

// Columns [begin, end) of every row, scaled, in the input's type.
Result<std::vector<std::byte>> columnsOf(const HostTensor& table, const Tensor& input, std::int64_t rowElements,
                                         const std::stop_token& stop) {
  const Initializer& init = input.init;
  const std::int64_t rows = table.shape.front(), columns = table.elements() / rows;
  if (init.columnBegin < 0 || init.columnEnd > columns || init.columnEnd - init.columnBegin != rowElements)
    return feedError("Input " + input.name + " takes columns " + std::to_string(init.columnBegin) + ".." +
                     std::to_string(init.columnEnd) + " of " + init.data + ", which has " + std::to_string(columns) +
                     " columns; a row of the input has " + std::to_string(rowElements) + " elements.");
  std::vector<std::byte> values(static_cast<std::size_t>(rows * rowElements * bytesOf(input.type)));
  for (std::int64_t r = 0; r < rows; ++r) {
    if (r % 1024 == 0 && stop.stop_requested()) return stopped();
    for (std::int64_t c = 0; c < rowElements; ++c) {
      const double value = table.at(r * columns + init.columnBegin + c) * init.scale + init.shift;
      if (input.type == DType::I32 && !(value == std::floor(value) && std::fabs(value) <= 2147483647.0))
        return feedError("Row " + std::to_string(r + 1) + ", column " + std::to_string(init.columnBegin + c + 1) + " of " +
                         init.data + " is " + std::to_string(value) + ", input " + input.name + " takes integers.");
      storeValue(input.type, values.data(), r * rowElements + c, value);
    }
  }
  return values;
}

}  // namespace

Result<DataFeed> DataFeed::open(const Program& program, const std::string& directory, std::uint64_t seed, Span* place,
                                std::stop_token stop, const Program* evaluated) {
  DataFeed feed;
  feed.m_seed = seed;
  Tables tables;
  NF_TRY([[maybe_unused]] const Unit trained, feed.add(program, directory, place, stop, tables));
  feed.m_trained = feed.m_sets.size();
  for (const Set& set : feed.m_sets) {
    for (const DataSet& d : program.data)
      if (place && d.name == set.name) *place = d.origin.valid() ? program[d.origin].span : Span{};
    if (set.rows - set.heldOut < feed.m_batch && set.heldOut < feed.m_batch)
      return feedError("The data set " + set.name + " has " + std::to_string(set.rows - set.heldOut) +
                       (set.rows - set.heldOut == 1 ? " row" : " rows") + " for training, fewer than the batch of " +
                       std::to_string(feed.m_batch) + ".");
  }
  if (evaluated) { NF_TRY([[maybe_unused]] const Unit too, feed.add(*evaluated, directory, place, stop, tables)); }
  if (place) *place = {};
  return feed;
}

Result<Unit> DataFeed::add(const Program& program, const std::string& directory, Span* place, const std::stop_token& stop,
                           Tables& tables) {
  const auto at = [&](OriginId origin) {
    if (place) *place = origin.valid() ? program[origin].span : Span{};
  };
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.init.kind != Initializer::Kind::Batch ||
        std::any_of(m_inputs.begin(), m_inputs.end(), [&](const Input& in) { return in.name == tensor.name; }))
      continue;
    at(tensor.origin);
    auto found = tables.find(tensor.init.data);
    if (found == tables.end()) {
      const DataSet* source = nullptr;
      for (const DataSet& d : program.data)
        if (d.name == tensor.init.data) source = &d;
      if (!source) return feedError("There is no data set " + tensor.init.data + ".");
      at(source->source.origin.valid() ? source->source.origin : source->origin);
      NF_TRY(HostTensor table, readData(source->source, source->directory.empty() ? directory : source->directory, stop));
      if (table.shape.empty() || table.elements() == 0) return feedError("The data set " + source->name + " holds no rows.");
      at(source->origin);
      const std::int64_t rows = table.shape.front();
      if (source->heldOutLast < 0 || source->heldOutLast > rows)
        return feedError("The split of data set " + source->name + " holds out " + std::to_string(source->heldOutLast) + " of " +
                         std::to_string(rows) + " rows.");
      found = tables.emplace(source->name, std::pair(m_sets.size(), std::move(table))).first;
      m_sets.push_back({source->name, rows, source->heldOutLast, -1, {}});
      at(tensor.origin);
    }
    if (tensor.shape.empty()) return feedError("Input " + tensor.name + " is a scalar: a batch needs an axis for its rows.");
    const std::int64_t batch = tensor.shape.front(), rowElements = tensor.elements() / batch;
    if (!m_inputs.empty() && batch != m_batch)
      return feedError("Input " + tensor.name + " takes batches of " + std::to_string(batch) + " rows, input " +
                       m_inputs.front().name + " of " + std::to_string(m_batch) + ".");
    m_batch = batch;
    at(tensor.valuesOrigin());
    NF_TRY(std::vector<std::byte> values, columnsOf(found->second.second, tensor, rowElements, stop));
    at(tensor.origin);
    HostTensor all;
    all.type = tensor.type;
    all.shape = {found->second.second.shape.front(), rowElements};
    all.bytes = std::move(values);
    NF_TRY([[maybe_unused]] const Unit inRange, checkIndexValues(program, TensorId(t), all, stop));
    if (auto stray = strayLabel(program, TensorId(t), all)) m_strayLabels.emplace_back(std::move(*stray), tensor.origin);
    m_inputs.push_back({tensor.name, tensor.type, rowElements, found->second.first});
    m_values.push_back(std::move(all.bytes));
  }
  return Unit{};
}

std::int64_t DataFeed::trainingRows() const { return m_trained == 0 ? 0 : m_sets.front().rows - m_sets.front().heldOut; }

std::int64_t DataFeed::heldOutRows() const {
  std::int64_t rows = 0;
  for (const Set& set : m_sets)
    if (set.heldOut > 0 && (rows == 0 || set.heldOut < rows)) rows = set.heldOut;
  return rows;
}

std::int64_t DataFeed::stepsPerEpoch() const { return m_trained == 0 ? 1 : std::max<std::int64_t>(1, trainingRows() / m_batch); }

Result<Unit> DataFeed::trains(const Program& program, Span* place) const {
  for (const Set& set : std::span(m_sets).first(m_trained)) {
    if (set.rows - set.heldOut >= m_batch) continue;
    for (const DataSet& d : program.data)
      if (place && d.name == set.name && d.origin.valid()) *place = program[d.origin].span;
    return feedError("The split of data set " + set.name + " leaves " + std::to_string(set.rows - set.heldOut) + " of " +
                     std::to_string(set.rows) + " rows for training, fewer than the batch of " + std::to_string(m_batch) + ".");
  }
  return Unit{};
}

void DataFeed::shuffle(Set& set, std::int64_t epoch) const {
  const std::int64_t rows = set.rows - set.heldOut;
  set.order.resize(static_cast<std::size_t>(rows));
  std::iota(set.order.begin(), set.order.end(), std::int64_t{0});
  const std::uint64_t key =
      randomKey(m_seed, static_cast<std::uint64_t>(epoch), Hasher().add(std::string_view(set.name)).finish().low);
  for (std::int64_t i = rows - 1; i > 0; --i) {
    const auto j = static_cast<std::int64_t>(
        (static_cast<unsigned __int128>(randomBits(key, i)) * static_cast<unsigned __int128>(i + 1)) >> 64);
    std::swap(set.order[static_cast<std::size_t>(i)], set.order[static_cast<std::size_t>(j)]);
  }
  set.epoch = epoch;
}

void DataFeed::training(std::int64_t step, std::size_t input, std::byte* to) {
  const Input& in = m_inputs[input];
  Set& set = m_sets[in.set];
  const std::int64_t perEpoch = (set.rows - set.heldOut) / m_batch;
  if (perEpoch == 0) {
    heldOut(0, m_batch, input, to);
    return;
  }
  if (set.epoch != step / perEpoch) shuffle(set, step / perEpoch);
  const std::int64_t first = step % perEpoch * m_batch;
  const auto rowBytes = static_cast<std::size_t>(in.rowElements * bytesOf(in.type));
  for (std::int64_t r = 0; r < m_batch; ++r)
    std::memcpy(to + static_cast<std::size_t>(r) * rowBytes,
                m_values[input].data() + static_cast<std::size_t>(set.order[static_cast<std::size_t>(first + r)]) * rowBytes,
                rowBytes);
}

void DataFeed::first(std::size_t input, std::byte* to) const {
  const Input& in = m_inputs[input];
  const Set& set = m_sets[in.set];
  if (set.rows - set.heldOut < m_batch) return heldOut(0, m_batch, input, to);
  std::memcpy(to, m_values[input].data(), static_cast<std::size_t>(m_batch * in.rowElements * bytesOf(in.type)));
}

void DataFeed::heldOut(std::int64_t first, std::int64_t count, std::size_t input, std::byte* to) const {
  const Input& in = m_inputs[input];
  const Set& set = m_sets[in.set];
  NF_ASSERT(first >= 0 && count >= 0 && first + count <= set.heldOut);
  const auto rowBytes = static_cast<std::size_t>(in.rowElements * bytesOf(in.type));
  std::memcpy(to, m_values[input].data() + static_cast<std::size_t>(set.rows - set.heldOut + first) * rowBytes,
              static_cast<std::size_t>(count) * rowBytes);
}

}  // namespace nf
