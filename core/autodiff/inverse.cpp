// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/inverse.h"

#include <algorithm>
#include <cstdio>

#include "core/autodiff/basis.h"
#include "core/autodiff/explanation.h"
#include "core/autodiff/linear_system.h"
#include "core/autodiff/nest.h"
#include "core/autodiff/partition.h"
#include "core/autodiff/phase.h"
#include "core/support/checked.h"

namespace nf {
namespace {

constexpr std::size_t kDeepestCondition = 64;
constexpr std::size_t kMostCached = 100000;
constexpr std::int64_t kMostClassesShown = 16;
constexpr std::uint64_t kShownClassQuota = 20000;  // isl operations a question

std::string nameOfY(const std::vector<std::string>& names, std::size_t i) {
  return i < names.size() && !names[i].empty() ? names[i] : "y" + std::to_string(i);
}

bool isShallow(const IndexCond& c, std::size_t left) {
  return left > 0 && std::all_of(c.operands.begin(), c.operands.end(), [&](const IndexCond& o) { return isShallow(o, left - 1); });
}

bool hasBounds(const IndexCond& c, const RangeOf& ranges) {
  const bool compare = c.kind == IndexCond::Kind::GreaterEqualZero || c.kind == IndexCond::Kind::EqualZero;
  if (compare) return bounds(c.expr, ranges).has_value();
  return std::all_of(c.operands.begin(), c.operands.end(), [&](const IndexCond& o) { return hasBounds(o, ranges); });
}

// Every value over the box fits 64 bits, so nothing below can overflow unseen.
bool isSound(const AccessProblem& problem) {
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  for (const Range& r : problem.domain)
    if (r.lo < -kFar || r.hi > kFar) return false;
  for (const std::int64_t extent : problem.shape)
    if (extent > kFar) return false;
  const RangeOf ranges = [&](IndexVar v) -> std::optional<Range> {
    if (v < problem.domain.size()) return problem.domain[v];
    return std::nullopt;
  };
  const auto fits = [&](const IndexExpr& e) { return bounds(e, ranges).has_value(); };
  return std::all_of(problem.access.begin(), problem.access.end(), fits) &&
         std::all_of(problem.guards.begin(), problem.guards.end(),
                     [&](const IndexCond& c) { return isShallow(c, kDeepestCondition) && hasBounds(c, ranges); });
}

bool isEmptyBox(const AccessProblem& problem) {
  return std::any_of(problem.domain.begin(), problem.domain.end(), [](const Range& r) { return r.empty(); }) ||
         std::any_of(problem.shape.begin(), problem.shape.end(), [](std::int64_t extent) { return extent <= 0; });
}

// Steps 0 to 6b of one independent part.
NestState solvePart(const Part& part, const InvertOptions& options, const QuestionLimit& limit, const PartNames& names,
                    Nest& nest) {
  nest.shape = part.problem.shape;
  LinearSystem system;
  switch (makeLinearSystem(part.problem, limit, names, system)) {
    case SystemState::Ready: break;
    case SystemState::Empty: return NestState::Empty;
    case SystemState::Overflow: return NestState::Overflow;
  }
  if (!solveSystem(system, names, nest)) return NestState::Overflow;
  NestState state = prune(nest, limit, names);
  if (state == NestState::Ready && options.existenceGuard) state = addExistenceGuards(nest, limit, names);
  return state;
}

double pointsOf(const AccessProblem& problem) {
  double points = 1;
  for (const Range& r : problem.domain) points *= static_cast<double>(r.extent());
  return points;
}

double elementsOf(const AccessProblem& problem) {
  double elements = 1;
  for (const std::int64_t extent : problem.shape) elements *= static_cast<double>(extent);
  return elements;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 1e3 && value < 1e9 ? "%.0f" : "%.4g", value);
  return text;
}

void describe(const AccessProblem& problem, const PartNames& names, std::vector<Inverse::Step>& steps) {
  Inverse::Step step{"Access", {}};
  for (std::size_t j = 0; j < problem.access.size(); ++j)
    step.lines.push_back(names.z[j] + " = " + names.textY(problem.access[j]) + ", 0 <= " + names.z[j] + " < " +
                         std::to_string(problem.shape[j]));
  for (std::size_t i = 0; i < problem.domain.size(); ++i)
    step.lines.push_back(std::to_string(problem.domain[i].lo) + " <= " + names.y[i] +
                         " <= " + std::to_string(problem.domain[i].hi));
  for (const IndexCond& g : problem.guards)
    if (const IndexCond c = folded(g); !c.isAlways()) step.lines.push_back("where " + names.textY(c));
  steps.push_back(std::move(step));
}

// What a scheduler may make of it (phase.h), a line a class.
std::vector<std::string> residueClasses(const AccessProblem& problem, const PartNames& names, const Inverse& inverse) {
  std::vector<std::int64_t> moduli = inverse.phaseModulus;
  keepWithin({}, moduli);
  std::int64_t count = 1;
  for (const std::int64_t h : moduli) count *= h;
  if (count == 1 || count > kMostClassesShown) return {};
  std::vector<std::string> lines;
  for (const NestClass& one : splitPhases(nestOf(problem.shape, inverse), moduli, kShownClassQuota)) {
    std::string line;
    for (std::size_t j = 0; j < moduli.size(); ++j) {
      if (moduli[j] == 1) continue;
      const IndexExpr z = moduli[j] * IndexExpr::variable(static_cast<IndexVar>(j)) + IndexExpr(one.phase[j]);
      line += (line.empty() ? "at " : ", ") + names.textZ(z);
    }
    lines.push_back(line + ": " + toText(inverseOf(one.nest), names.y));
  }
  return lines;
}

void finish(const AccessProblem& problem, const PartNames& names, Explanation& lines, Inverse& inverse) {
  const auto add = [&](const char* title, std::vector<std::string>& text) {
    if (!text.empty()) inverse.derivation.push_back({title, std::move(text)});
  };
  add("Linear system", lines.system);
  add("Solution", lines.solution);
  add("Free axes", lines.axes);
  if (inverse.state == Inverse::State::Empty) {
    std::vector<std::string> together;
    for (const IndexCond& c : inverse.excludedBy) together.push_back(names.textY(c));
    add("Holds at no point", together);
    inverse.derivation.push_back(
        {"Certificate",
         {"proved: no point of the operator reads the tensor (" + rounded(inverse.certificateMilliseconds) + " ms)"}});
    return;
  }
  for (const IndexCond& g : inverse.zGuards) lines.kept.push_back(names.textZ(g) + "   (of z alone: around the sum)");
  for (const IndexCond& g : inverse.tGuards) lines.kept.push_back(names.textZ(g));
  add("Guards that stay", lines.kept);
  add("Guards dropped", lines.dropped);
  add("Where a fibre is not empty", lines.existence);
  const bool solved = inverse.y.size() == problem.domain.size();
  if (solved) {
    inverse.derivation.push_back({"Inverse", {toText(inverse, names.y)}});
    if (inverse.state == Inverse::State::Gather) {
      std::vector<std::string> classes = residueClasses(problem, names, inverse);
      add("Residue classes", classes);
    }
  }
  if (inverse.state == Inverse::State::Checking) {
    inverse.derivation.push_back({"Certificate", {"checking: the proof is under way"}});
  } else if (inverse.state == Inverse::State::Unneeded) {
    inverse.derivation.push_back({"Certificate", {"not needed: " + inverse.why + "; the gradient is a scatter"}});
  } else if (inverse.state == Inverse::State::Gather) {
    inverse.derivation.push_back({"Certificate",
                                  {"proved: every point that reads an element is visited once, and no other (" +
                                   rounded(inverse.certificateMilliseconds) + " ms)"}});
  } else {
    inverse.derivation.push_back({"Certificate", {"none: " + inverse.why + "; the gradient is a scatter"}});
  }
  if (!solved) return;
  const double visits = visitsOf(inverse, problem);
  inverse.derivation.push_back({"Cost",
                                {rounded(visits) + " points against " + rounded(pointsOf(problem)) +
                                 " of the forward nest, ratio " + rounded(visits / std::max(pointsOf(problem), 1.0))}});
}

}  // namespace

namespace {

// Steps 0 to 6b until then, and what `prove` says of the result.
Inverse solve(const AccessProblem& problem, const InvertOptions& options, std::optional<Deadline> until,
              const std::function<void(Inverse&)>& prove) {
  Inverse inverse;
  inverse.phaseModulus.assign(problem.shape.size(), 1);
  Explanation lines;
  PartNames names;
  if (options.explain) {
    names.lines = &lines;
    for (std::size_t i = 0; i < problem.domain.size(); ++i) names.y.push_back(nameOfY(options.names, i));
    const InverseLetters letters = lettersBeside(names.y);
    names.t = letters.t;
    for (std::size_t j = 0; j < problem.shape.size(); ++j) names.z.push_back(letters.z + std::to_string(j));
    describe(problem, names, inverse.derivation);
  }
  const auto refused = [&](const char* why) {
    inverse.state = Inverse::State::Uncertified;
    inverse.why = why;
    if (options.explain) finish(problem, names, lines, inverse);
    return std::move(inverse);
  };
  const auto empty = [&](bool proved) {
    inverse.state = Inverse::State::Empty;
    inverse.axes.clear();
    inverse.zGuards.clear();
    inverse.tGuards.clear();
    inverse.y.clear();
    inverse.tOfY.clear();
    if (!proved) prove(inverse);
    if (options.explain) finish(problem, names, lines, inverse);
    return std::move(inverse);
  };

  if (isEmptyBox(problem)) return empty(true);
  if (!isSound(problem)) return refused("its numbers do not fit 64 bits");
  const auto parts = partsOf(problem);
  if (!parts) return empty(false);
  inverse.y.resize(problem.domain.size());
  for (const Part& part : *parts) {
    PartNames partNames;
    if (options.explain) {
      partNames.lines = &lines;
      partNames.firstAxis = inverse.axes.size();
      partNames.t = names.t;
      for (const std::size_t i : part.y) partNames.y.push_back(names.y[i]);
      for (const std::size_t j : part.z) partNames.z.push_back(names.z[j]);
    }
    Nest nest;
    switch (solvePart(part, options, {options.pruneQuota, until, options.stop}, partNames, nest)) {
      case NestState::Ready: break;
      case NestState::Empty: return empty(false);
      case NestState::Overflow: {
        inverse.y.clear();
        return refused("its numbers do not fit 64 bits");
      }
    }
    appendNest(part, nest, problem.shape.size(), inverse);
  }
  for (const std::int64_t extent : inverse.axes) {
    const auto trips = checkedMul(inverse.tripsPerZ, extent);
    if (!trips) return refused("its numbers do not fit 64 bits");
    inverse.tripsPerZ = *trips;
  }
  inverse.phaseModulus = phaseModuli(nestOf(problem.shape, inverse));

  if (options.sabotage) options.sabotage(inverse);
  prove(inverse);
  if (options.explain) finish(problem, names, lines, inverse);
  return inverse;
}

// Step 7. False: the proof did not end within its limit.
bool conclude(const AccessProblem& problem, const QuestionLimit& limit, Inverse& inverse) {
  const double begin = processorMilliseconds();
  const bool empty = inverse.state == Inverse::State::Empty;
  const std::optional<bool> proved = empty ? certifyEmpty(problem, limit) : certify(problem, inverse, limit);
  inverse.certificateMilliseconds = processorMilliseconds() - begin;
  if (empty && proved == true) {
    inverse.excludedBy = excludingConditions(problem, limit);
    return true;
  }
  inverse.state = proved == true ? Inverse::State::Gather : Inverse::State::Uncertified;
  if (proved) inverse.why = *proved ? "" : "the proof failed";
  else inverse.why = limit.isOver() ? "the proof did not end within its time" : "the proof did not end within its quota";
  return proved.has_value();
}

void putOffProof(Inverse& inverse) {
  inverse.state = Inverse::State::Checking;
  inverse.why = "the proof is under way";
}

// Good enough to look at; who runs it asks again.
bool isPreliminary(const Inverse& inverse) { return inverse.state == Inverse::State::Checking || inverse.hasty; }

void spareProof(const AccessProblem& problem, Inverse& inverse) {
  inverse.state = Inverse::State::Unneeded;
  inverse.why = "the gather would visit " + rounded(visitsOf(inverse, problem) / pointsOf(problem)) +
                " times the points of the forward nest, more than " + rounded(kPatience) + " times does not pay";
}

}  // namespace

Inverse invert(const AccessProblem& problem, const InvertOptions& options) {
  return solve(problem, options, {}, [&](Inverse& inverse) {
    conclude(problem, {options.certificateQuota, std::nullopt, options.stop}, inverse);
  });
}

double visitsOf(const Inverse& inverse, const AccessProblem& problem) {
  return elementsOf(problem) * inverse.zShare * static_cast<double>(inverse.tripsPerZ);
}

bool cheap(const Inverse& inverse, const AccessProblem& problem, double patience) {
  return visitsOf(inverse, problem) <= patience * pointsOf(problem);
}

namespace {

void addTo(Hasher& hasher, const IndexCond& c) {
  hasher.add(static_cast<std::uint64_t>(c.kind)).add(c.operands.size());
  c.expr.addTo(hasher);
  for (const IndexCond& operand : c.operands) addTo(hasher, operand);
}

}  // namespace

Hash hashOf(const AccessProblem& problem) {
  Hasher hasher;
  hasher.add(problem.domain.size()).add(problem.access.size()).add(problem.guards.size());
  for (const Range& r : problem.domain) hasher.add(static_cast<std::uint64_t>(r.lo)).add(static_cast<std::uint64_t>(r.hi));
  for (const IndexExpr& f : problem.access) f.addTo(hasher);
  for (const std::int64_t extent : problem.shape) hasher.add(static_cast<std::uint64_t>(extent));
  for (const IndexCond& g : problem.guards) addTo(hasher, g);
  return hasher.finish();
}

InverseCache::InverseCache(InvertOptions options) : m_options(std::move(options)) {
  m_options.explain = false;
  m_options.names.clear();
  m_options.cache = nullptr;
  m_options.stop = {};
}

void InverseCache::putOff(const Hash& key, const AccessProblem& problem) {
  m_waiting.emplace(key, problem);
  // What nobody waits for any more makes room.
  if (m_settling && !m_waiting.contains(*m_settling)) m_settlingStop.request_stop();
}

void InverseCache::forgetWaiting() {
  const std::lock_guard lock(m_mutex);
  m_waiting.clear();
}

std::shared_ptr<const Inverse> InverseCache::invert(const AccessProblem& problem, Proof proof, std::stop_token stop) {
  const Hash key = hashOf(problem);
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_inverses.find(key);
    if (found != m_inverses.end() && (proof != Proof::Now || !isPreliminary(*found->second))) {
      ++m_hits;
      if (isPreliminary(*found->second)) putOff(key, problem);
      return found->second;
    }
  }
  const Deadline until =
      proof == Proof::Now ? Deadline::ofProcessor(m_options.proofMilliseconds) : Deadline::ofClock(m_options.accessMilliseconds);
  InvertOptions options = m_options;
  options.stop = stop;
  auto made = std::make_shared<const Inverse>(solve(problem, options, until, [&](Inverse& inverse) {
    const bool empty = inverse.state == Inverse::State::Empty;
    const bool now = proof == Proof::Now || problem.domain.empty();
    const QuestionLimit limit(now ? m_options.certificateQuota : m_options.interactiveQuota, until, stop);
    if (!empty && !cheap(inverse, problem)) {
      // What was solved in haste may be dearer than it need be.
      inverse.hasty = !now && limit.isOver();
      return spareProof(problem, inverse);
    }
    const bool putOff = proof == Proof::PutOff && !empty && !now;
    if (putOff || (!conclude(problem, limit, inverse) && !now)) putOffProof(inverse);
  }));
  if (stop.stop_requested()) return made;
  const std::lock_guard lock(m_mutex);
  if (m_inverses.size() >= kMostCached) {
    m_inverses.clear();
    m_waiting.clear();
  }
  auto& kept = m_inverses[key];
  // Another thread may have been here: its proof is as good, and better than none.
  if (!kept || isPreliminary(*kept)) kept = std::move(made);
  if (isPreliminary(*kept)) putOff(key, problem);
  else m_waiting.erase(key);
  return kept;
}

Inverse InverseCache::explained(const AccessProblem& problem, std::vector<std::string> names, Proof proof, std::stop_token stop) {
  const std::shared_ptr<const Inverse> known = invert(problem, proof, stop);
  InvertOptions options = m_options;
  options.stop = std::move(stop);
  options.explain = true;
  options.names = std::move(names);
  const Deadline until =
      isPreliminary(*known) ? Deadline::ofClock(m_options.accessMilliseconds) : Deadline::ofProcessor(m_options.proofMilliseconds);
  // Solved in haste it may come out otherwise: what was proved is what is known.
  return solve(problem, options, until, [&](Inverse& again) {
    std::vector<Inverse::Step> steps = std::move(again.derivation);
    again = *known;
    again.derivation = std::move(steps);
  });
}

bool InverseCache::settle(std::stop_token stop) {
  bool any = false;
  while (!stop.stop_requested()) {
    std::optional<AccessProblem> problem;
    std::stop_source under;
    {
      const std::lock_guard lock(m_mutex);
      if (m_waiting.empty()) return any;
      m_settling = m_waiting.begin()->first;
      problem = m_waiting.begin()->second;
      m_settlingStop = under;
    }
    {
      const std::stop_callback onStop(stop, [&] { under.request_stop(); });
      invert(*problem, Proof::Now, under.get_token());
    }
    const std::lock_guard lock(m_mutex);
    const auto made = m_inverses.find(*m_settling);
    m_settling.reset();
    if (made == m_inverses.end() || isPreliminary(*made->second)) continue;  // it was given up
    ++m_settled;
    any = true;
  }
  return any;
}

std::size_t InverseCache::putOff() const {
  const std::lock_guard lock(m_mutex);
  return m_waiting.size();
}

std::uint64_t InverseCache::settledProofs() const {
  const std::lock_guard lock(m_mutex);
  return m_settled;
}

std::size_t InverseCache::size() const {
  const std::lock_guard lock(m_mutex);
  return m_inverses.size();
}

std::size_t InverseCache::hits() const {
  const std::lock_guard lock(m_mutex);
  return m_hits;
}

InverseLetters lettersBeside(const std::vector<std::string>& names) {
  const auto isTaken = [&](const std::string& letter) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.size() > letter.size() && name.starts_with(letter) &&
             name.find_first_not_of("0123456789_", letter.size()) == name.npos;
    });
  };
  InverseLetters letters{"z", "t"};
  while (isTaken(letters.z) || isTaken(letters.t))
    letters = {letters.z == "z" ? "w" : letters.z + "w", letters.t == "t" ? "u" : letters.t + "u"};
  return letters;
}

std::string toText(const Inverse& inverse, const std::vector<std::string>& names) {
  switch (inverse.state) {
    case Inverse::State::Empty: return "0";
    case Inverse::State::Gather:
    case Inverse::State::Checking:
    case Inverse::State::Unneeded:
    case Inverse::State::Uncertified: break;
  }
  const std::size_t m = inverse.phaseModulus.size();
  const InverseLetters letters = lettersBeside(names);
  const auto name = [&](IndexVar v) { return v < m ? letters.z + std::to_string(v) : letters.t + std::to_string(v - m); };
  const auto joined = [&](const std::vector<IndexCond>& guards) { return toText(IndexCond::all(guards), name); };
  std::string text;
  if (!inverse.zGuards.empty()) text += "if " + joined(inverse.zGuards) + ": ";
  if (!inverse.axes.empty()) {
    text += "sum";
    for (std::size_t k = 0; k < inverse.axes.size(); ++k)
      text += (k == 0 ? " " : ", ") + letters.t + std::to_string(k) + ":" + std::to_string(inverse.axes[k]);
    if (!inverse.tGuards.empty()) text += " where " + joined(inverse.tGuards);
    text += ": ";
  }
  for (std::size_t i = 0; i < inverse.y.size(); ++i)
    text += (i == 0 ? "" : ", ") + nameOfY(names, i) + " = " + toText(inverse.y[i], name);
  return text;
}

}  // namespace nf
