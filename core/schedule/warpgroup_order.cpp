// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/warpgroup_order.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace nf::loop {
namespace {

constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::min();

}  // namespace

WarpgroupOrder::WarpgroupOrder(const Function& function)
    : m_f(function), m_roles(function.buffers.size(), Role::None), m_underWay(function.buffers.size()),
      m_unfenced(function.buffers.size()), m_version(function.buffers.size()), m_known(function.buffers.size()) {
  for (const Statement& s : function.statements) {
    m_any = m_any || s.kind == Statement::Kind::WarpgroupCommit || s.kind == Statement::Kind::WarpgroupWait ||
            s.kind == Statement::Kind::WarpgroupTile || s.kind == Statement::Kind::ProxyFence;
    if (s.kind != Statement::Kind::WarpgroupTile) continue;
    m_roles[s.target.buffer.value] = Role::Accumulator;
    m_roles[s.left.buffer.value] = m_roles[s.right.buffer.value] = Role::Operand;
  }
}

void WarpgroupOrder::begin(std::size_t threads) {
  if (!m_any) return;
  m_threads.assign(threads, {});
  for (std::size_t b = 0; b < m_roles.size(); ++b) {
    const auto elements = static_cast<std::size_t>(m_f.buffers[b].elements);
    if (m_roles[b] == Role::Accumulator) {
      m_underWay[b].assign(threads * elements, 0);
      m_unfenced[b].assign(threads * elements, 1);
    } else if (m_roles[b] == Role::Operand) {
      m_version[b].assign(elements, 0);
      m_known[b].assign(elements, kNotYet);
    }
  }
}

std::size_t WarpgroupOrder::cell(BufferId buffer, std::int64_t at, std::size_t thread) const {
  return thread * static_cast<std::size_t>(m_f[buffer].elements) + static_cast<std::size_t>(at);
}

std::string WarpgroupOrder::read(BufferId buffer, std::int64_t at, std::size_t thread) const {
  if (m_roles[buffer.value] != Role::Accumulator || m_underWay[buffer.value][cell(buffer, at, thread)] == 0) return {};
  return "element " + std::to_string(at) + " of " + m_f[buffer].name + " is read before the warpgroup's tiles on it have ended";
}

std::string WarpgroupOrder::written(BufferId buffer, std::int64_t at, std::size_t thread) {
  if (m_roles[buffer.value] == Role::Operand) {
    const auto i = static_cast<std::size_t>(at);
    ++m_version[buffer.value][i];
    m_known[buffer.value][i] = kNotYet;
    m_threads[thread].unknown.push_back({buffer, at, m_version[buffer.value][i]});
    return {};
  }
  const std::size_t i = cell(buffer, at, thread);
  m_unfenced[buffer.value][i] = 1;
  if (m_underWay[buffer.value][i] == 0) return {};
  return "element " + std::to_string(at) + " of " + m_f[buffer].name + " is written before the warpgroup's tiles on it have ended";
}

void WarpgroupOrder::overwritten(BufferId buffer, std::int64_t at) {
  ++m_version[buffer.value][static_cast<std::size_t>(at)];
  m_known[buffer.value][static_cast<std::size_t>(at)] = kNotYet;
}

void WarpgroupOrder::landed(BufferId buffer, std::int64_t at) { m_known[buffer.value][static_cast<std::size_t>(at)] = kAlways; }

void WarpgroupOrder::fence(std::size_t thread) {
  for (std::size_t b = 0; b < m_roles.size(); ++b) {
    if (m_roles[b] != Role::Accumulator) continue;
    const auto from = m_unfenced[b].begin() + static_cast<std::ptrdiff_t>(cell(BufferId(b), 0, thread));
    std::fill(from, from + m_f.buffers[b].elements, 0);
  }
}

void WarpgroupOrder::proxyFence(std::size_t thread, std::int64_t interval) {
  for (const Element& e : std::exchange(m_threads[thread].unknown, {}))
    if (m_version[e.buffer.value][static_cast<std::size_t>(e.at)] == e.version)
      m_known[e.buffer.value][static_cast<std::size_t>(e.at)] = interval;
}

std::string WarpgroupOrder::accumulates(BufferId buffer, std::int64_t at, std::int64_t elements, std::size_t thread) {
  for (std::int64_t e = at; e < at + elements; ++e) {
    const std::size_t i = cell(buffer, e, thread);
    if (m_unfenced[buffer.value][i])
      return "element " + std::to_string(e) + " of " + m_f[buffer].name + " has been written since the last fence of its warpgroup";
    ++m_underWay[buffer.value][i];
  }
  m_threads[thread].open.accumulators.push_back({buffer, at, elements});
  return {};
}

std::string WarpgroupOrder::takes(BufferId buffer, std::int64_t at, std::int64_t interval, std::size_t thread) {
  const auto i = static_cast<std::size_t>(at);
  m_threads[thread].open.taken.push_back({buffer, at, m_version[buffer.value][i]});
  if (m_known[buffer.value][i] < interval) return {};
  return "element " + std::to_string(at) + " of " + m_f[buffer].name +
         " is multiplied with no proxy fence and barrier behind its write";
}

void WarpgroupOrder::commit(std::size_t thread) { m_threads[thread].flying.push_back(std::exchange(m_threads[thread].open, {})); }

std::string WarpgroupOrder::wait(std::size_t thread, std::int64_t inFlight, std::vector<Element>& ended) {
  std::string wrong;
  auto& flying = m_threads[thread].flying;
  while (static_cast<std::int64_t>(flying.size()) > inFlight) {
    for (const Range& r : flying.front().accumulators)
      for (std::int64_t e = r.at; e < r.at + r.elements; ++e) --m_underWay[r.buffer.value][cell(r.buffer, e, thread)];
    for (const Element& e : flying.front().taken) {
      if (m_version[e.buffer.value][static_cast<std::size_t>(e.at)] != e.version && wrong.empty())
        wrong = "element " + std::to_string(e.at) + " of " + m_f[e.buffer].name + " is written while a warpgroup multiplies it";
      ended.push_back(e);
    }
    flying.erase(flying.begin());
  }
  return wrong;
}

std::string WarpgroupOrder::end() const {
  for (const Thread& t : m_threads)
    if (!t.flying.empty() || !t.open.accumulators.empty()) return "a thread ends before its warpgroup's tiles";
  return {};
}

}  // namespace nf::loop
