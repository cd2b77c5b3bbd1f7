// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/arrival_order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace nf::loop {

ArrivalOrder::ArrivalOrder(const Function& function)
    : m_f(function), m_first(function.buffers.size(), 0), m_needs(function.buffers.size()) {
  std::set<BufferId> arrivals;
  for (const Statement& s : function.statements) {
    if (s.kind == Statement::Kind::TensorCopy)
      m_needs[s.target.buffer.value].resize(static_cast<std::size_t>(function[s.target.buffer].elements));
    if (s.kind == Statement::Kind::TensorCopy) arrivals.insert(s.right.buffer);
    if (s.kind == Statement::Kind::ArrivalInit || s.kind == Statement::Kind::ArrivalExpect ||
        s.kind == Statement::Kind::ArrivalWait)
      arrivals.insert(s.target.buffer);
  }
  for (const BufferId b : arrivals) {
    m_first[b.value] = m_count;
    m_count += static_cast<std::size_t>(function[b].elements);
  }
}

void ArrivalOrder::begin(std::size_t threads) {
  if (m_count == 0) return;
  Arrival fresh;
  fresh.seen.assign(threads, 0);
  fresh.least.assign(threads, 0);
  m_arrivals.assign(m_count, fresh);
  for (std::vector<Need>& needs : m_needs) std::fill(needs.begin(), needs.end(), Need{});
}

std::size_t ArrivalOrder::number(const Place& place, std::int64_t at) const {
  return m_first[place.buffer.value] + static_cast<std::size_t>(at);
}

std::string ArrivalOrder::name(BufferId buffer, std::int64_t at) const {
  return "element " + std::to_string(at) + " of " + m_f[buffer].name;
}

std::string ArrivalOrder::unusable(const Place& place, const Arrival& arrival, std::size_t thread, std::int64_t interval) const {
  const std::string& buffer = m_f[place.buffer].name;
  if (!arrival.begun) return "an arrival of " + buffer + " is used before it begins";
  if (!arrival.fenced || (arrival.owner != thread && arrival.interval >= interval))
    return "an arrival of " + buffer + " is used with no proxy fence and barrier behind its beginning";
  return {};
}

std::string ArrivalOrder::init(const Place& place, std::int64_t at, std::size_t thread, std::int64_t interval) {
  Arrival& a = m_arrivals[number(place, at)];
  if (a.begun) return "an arrival of " + m_f[place.buffer].name + " begins twice";
  a.begun = true;
  a.owner = thread;
  a.interval = interval;
  return {};
}

void ArrivalOrder::proxyFence(std::size_t thread) {
  for (Arrival& a : m_arrivals)
    if (a.begun && a.owner == thread) a.fenced = true;
}

std::string ArrivalOrder::expect(const Place& place, std::int64_t at, std::int64_t bytes, std::size_t thread,
                                 std::int64_t interval) {
  Arrival& a = m_arrivals[number(place, at)];
  if (std::string wrong = unusable(place, a, thread, interval); !wrong.empty()) return wrong;
  if (a.expected) return "an arrival of " + m_f[place.buffer].name + " expects another phase before anybody waited for this one";
  a.expected = true;
  a.bytes = bytes;
  return {};
}

std::string ArrivalOrder::copy(const Place& place, std::int64_t at, std::int64_t bytes, const std::vector<Landing>& landings,
                               std::size_t thread, std::int64_t interval) {
  const std::size_t i = number(place, at);
  Arrival& a = m_arrivals[i];
  if (std::string wrong = unusable(place, a, thread, interval); !wrong.empty()) return wrong;
  if (!a.expected || a.bytes < bytes)
    return "a tensor copy brings bytes that its arrival of " + m_f[place.buffer].name + " does not expect";
  a.bytes -= bytes;
  for (const Landing& l : landings) {
    Need& need = m_needs[l.buffer.value][static_cast<std::size_t>(l.at)];
    if (need.arrival >= 0 && m_arrivals[static_cast<std::size_t>(need.arrival)].ended < need.phases)
      return name(l.buffer, l.at) + " is on its way by two tensor copies";
    need = {static_cast<std::int64_t>(i), a.ended + 1};
    a.landings.push_back(l);
  }
  return {};
}

std::string ArrivalOrder::wait(const Place& place, std::int64_t at, std::int64_t parity, std::size_t thread, std::int64_t interval,
                               std::vector<Landing>& landed) {
  Arrival& a = m_arrivals[number(place, at)];
  if (std::string wrong = unusable(place, a, thread, interval); !wrong.empty()) return wrong;
  // The phase before the one that is under way has the other parity, and has ended.
  if (a.ended % 2 == parity) {
    if (!a.expected || a.bytes > 0)
      return "a thread waits for a phase of an arrival of " + m_f[place.buffer].name + " that never ends";
    ++a.ended;
    a.expected = false;
    landed = std::exchange(a.landings, {});
  }
  a.seen[thread] = a.ended;
  return {};
}

std::string ArrivalOrder::read(BufferId buffer, std::int64_t at, std::size_t first, std::size_t threads) {
  const Need& need = m_needs[buffer.value][static_cast<std::size_t>(at)];
  if (need.arrival < 0) return {};  // never written, which others notice
  Arrival& a = m_arrivals[static_cast<std::size_t>(need.arrival)];
  const auto from = a.seen.begin() + static_cast<std::ptrdiff_t>(first);
  if (threads == 1)
    return *from >= need.phases ? std::string() : name(buffer, at) + " is read by a thread that has not waited for it";
  std::int64_t& least = a.least[first];
  if (least < need.phases) least = *std::min_element(from, from + static_cast<std::ptrdiff_t>(threads));
  return least >= need.phases ? std::string() : name(buffer, at) + " is read by threads of which one has not waited for it";
}

std::string ArrivalOrder::end() const {
  for (const Arrival& a : m_arrivals)
    if (a.expected) return "a thread ends before its tensor copies";
  return {};
}

}  // namespace nf::loop
