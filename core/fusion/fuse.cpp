// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/fuse.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/fusion/kernel_graph.h"
#include "core/fusion/partition.h"
#include "core/fusion/size_classes.h"
#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf {

double FusionFlip::rewardAt(double x) const {
  double seconds = 0;
  for (const Term& t : terms) seconds += t.seconds * std::pow(x / now, t.power);
  return seconds;
}

std::string_view name(FusionState state) {
  switch (state) {
    case FusionState::Accepted: return "accepted";
    case FusionState::Refused: return "refused";
    case FusionState::NotLowerable: return "not lowerable";
    case FusionState::Forced: return "forced";
    case FusionState::Forbidden: return "forbidden";
    case FusionState::Reverted: return "reverted by measurement";
  }
  return "";
}

namespace {
constexpr const char* kOutdatedStage = "outdated";
}  // namespace

Error outdatedFusion() { return {kOutdatedStage, "The program has changed since: its fusion is decided anew.", {}, {}}; }
bool isOutdated(const Error& error) { return error.stage == kOutdatedStage; }

namespace {

using Move = KernelGraph::Move;

constexpr const char* kAskedAndMet =
    "A `hint fuse` asks for it, and other decisions bring both into one kernel: nothing is left to count.";

double reward(double bytes, double operations, std::int64_t kernels, const DeviceConstants& d) {
  return bytes / d.bandwidth + operations / d.flopRate + static_cast<double>(kernels) * d.launchSeconds;
}

double reward(const Move& m, const DeviceConstants& d) { return reward(m.bytes, m.operations, m.kernels, d); }

// Of one program: what its Fusers, one after the other, have found of the kernels that were measured.
struct Barring {
  std::map<KernelGraph::Barred, std::vector<Hash>> parts;  // that stood in its place when it was met first
  std::set<KernelGraph::Barred> spared;                    // measured with others
};

class Fuser {
 public:
  // repeats: how often a step runs the program, the trips of the loops around it.
  Fuser(const Program& program, const DeviceConstants& device, const FusionOptions& options, std::int64_t repeats, std::string loop,
        Barring& barring)
      : m_graph(program, options.limits), m_program(&program), m_device(device), m_options(options), m_repeats(repeats),
        m_loop(std::move(loop)), m_barring(barring) {
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      const TensorId id(i);
      m_byName.emplace(program.tensors[i].name, id);
    }
    for (std::size_t i = 0; i < program.operators.size(); ++i)
      for (const TensorId t : writesOf(program, OperatorId(i))) m_readerName.emplace(t, toldName(program, OperatorId(i)));
    // The gradient that flows back through a forward tensor: d(L)/d(T).
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      const std::string& name = program.tensors[i].name;
      const std::size_t middle = name.find(")/d(");
      if (!name.starts_with("d(") || middle == std::string::npos || name.back() != ')') continue;
      const auto of = m_byName.find(name.substr(middle + 4, name.size() - middle - 5));
      if (of != m_byName.end() && m_graph.producerOf(TensorId(i)).valid()) {
        if (m_gradient.emplace(of->second, TensorId(i)).second) m_isGradient.emplace(static_cast<std::uint32_t>(i), of->second);
      }
    }
  }

  // False: at some places the verdicts are of other parts than those that stand there. They are spared now, and another Fuser has to
  // decide again.
  bool decide() {
    const Program& p = m_graph.program();
    std::vector<std::pair<std::string, std::string>> force = m_options.force, forbid = m_options.forbid;
    for (const Hint& hint : p.hints) {
      if (hint.kind == Hint::Kind::Schedule) continue;
      for (std::size_t i = 0; i + 1 < hint.tensors.size(); ++i)
        (hint.kind == Hint::Kind::Fuse ? force : forbid).emplace_back(hint.tensors[i], hint.tensors[i + 1]);
    }
    for (const auto& [a, b] : forbid)
      if (m_byName.contains(a) && m_byName.contains(b)) m_graph.forbid(m_byName.at(a), m_byName.at(b));
    m_graph.bar(m_options.reverted, m_barring.spared);
    for (const auto& [a, b] : force) forceFusion(a, b);
    greedy();
    if (outdated()) return true;
    for (std::size_t i = 0; i < m_program->tensors.size(); ++i)
      if (m_graph.producerOf(TensorId(i)).valid()) noteMeasured(TensorId(i));
    const std::size_t before = m_barring.spared.size();
    for (const KernelGraph::Barred& kernel : m_barred) {
      m_barring.parts.try_emplace(kernel, m_graph.partsOf(kernel.made));
      if (!verdictOn(kernel)) m_barring.spared.insert(kernel);
    }
    return m_barring.spared.size() == before;
  }

  Result<FusionResult> finish() {
    findEdges();
    forgetMet();
    recordTakenBack();
    recordRefused();
    recordOtherEdges();
    if (outdated()) return outdatedFusion();
    const std::uint64_t work = m_graph.work();
    FusionResult result{std::move(m_graph).take(), std::move(m_decisions), {}, work};
    return result;
  }

  std::uint64_t work() const { return m_graph.work(); }

 private:
  // Once it is, all that is left is skipped.
  bool outdated() { return m_outdated || (m_outdated = m_options.outdated && m_options.outdated()); }

  // What is decided about one tensor: its own move, its gradient's, or both.
  struct Choice {
    std::optional<Move> forward, gradient;
    double R = -HUGE_VAL;
  };

  // Of those that can be done only one with a positive reward.
  std::optional<Move> best(TensorId t, bool onlyFeasible) const {
    if (onlyFeasible) return m_graph.bestFor(t, [this](const Move& m) { return reward(m, m_device); });
    std::optional<Move> best;
    for (Move& m : m_graph.movesFor(t)) {
      if (!best || reward(m, m_device) > reward(*best, m_device)) best = std::move(m);
    }
    return best;
  }

  // Forward and backward stand or fall together where both gain; else the half that gains.
  Choice choose(TensorId t, bool onlyFeasible = true) const {
    Choice c;
    c.forward = best(t, onlyFeasible);
    const auto gradient = m_gradient.find(t);
    if (gradient != m_gradient.end()) c.gradient = best(gradient->second, onlyFeasible);
    const double f = c.forward ? reward(*c.forward, m_device) : -HUGE_VAL;
    const double g = c.gradient ? reward(*c.gradient, m_device) : -HUGE_VAL;
    c.R = 0;
    if (c.forward) c.R += f;
    if (c.gradient) c.R += g;
    if (!c.forward && !c.gradient) c.R = -HUGE_VAL;
    return c;
  }

  TensorId leading(TensorId t, const Choice& c) const { return c.forward ? t : c.gradient->tensor; }

  // A tensor that an operator reads, as the program had them before anything was computed again.
  using Edge = std::pair<TensorId, TensorId>;  // the reader by its first output
  Edge edgeOf(TensorId t, OperatorId reader) const {
    return {m_graph.originalOf(t), m_graph.originalOf(writesOf(m_graph.program(), reader).front())};
  }

  struct Met {
    TensorId tensor;
    OperatorId reader;
    bool apart = false;
  };

  FusionDecision between(TensorId t, OperatorId consumer, FusionState state) const {
    const Program& p = m_graph.program();
    const OperatorId producer = m_graph.producerOf(t);
    FusionDecision d;
    d.producer = p[t].name;
    d.consumer = toldName(p, consumer);
    d.producerClass = m_graph.classOf(producer);
    d.consumerClass = m_graph.classOf(consumer);
    const auto many = [&](OperatorId op) { return m_graph.readsOf(op).size() > 1 ? "Many" : "One"; };
    d.category = std::string(many(producer)) + "+" + many(consumer);
    d.loop = m_loop;
    d.repeats = m_repeats;
    d.state = state;
    d.origin = p[producer].origin;
    return d;
  }

  // The reader that a move on `t` brings into the kernel of its producer.
  OperatorId readerOf(TensorId t, const Move& move) const {
    for (const OperatorId r : m_graph.readersOf(t)) {
      const bool fits =
          move.kind == Move::Kind::Inline ? m_graph.kernelOf(r) != move.producer : m_graph.kernelOf(r) == move.consumer;
      if (fits) return r;
    }
    return m_graph.readersOf(t).empty() ? m_graph.producerOf(t) : m_graph.readersOf(t).front();
  }

  // A hint names the reader; else it is the first that the move concerns.
  void record(TensorId t, const Choice& c, FusionState state, std::optional<OperatorId> named = {}) {
    const TensorId lead = leading(t, c);
    const OperatorId consumer = named ? *named : readerOf(lead, c.forward ? *c.forward : *c.gradient);
    m_told.insert(edgeOf(lead, consumer));
    m_decisions.push_back(describe(t, c, state, consumer));
    if (const auto& move = c.forward ? c.forward : c.gradient; state == FusionState::Reverted)
      tellMeasured(m_decisions.back(), *move->reverted);
  }

  FusionDecision describe(TensorId t, const Choice& c, FusionState state, OperatorId consumer) const {
    FusionDecision d = between(leading(t, c), consumer, state);
    count(d, c);
    const Move& move = c.forward ? *c.forward : *c.gradient;
    d.why = state == FusionState::Forbidden ? forbidden(move, leading(t, c), consumer) : sentence(d, c);
    return d;
  }

  // What is known of it with the parts that stand there; null: it was measured with others. A part that has lost in its turn is split
  // by now: what took its place is faster still.
  const MeasuredKernels::value_type* verdictOn(const KernelGraph::Barred& kernel) const {
    const auto& known = m_options.reverted;
    const auto stood = m_barring.parts.find(kernel);
    const auto& parts = stood != m_barring.parts.end() ? stood->second : m_graph.partsOf(kernel.made);
    if (const auto found = known.find({kernel.kernel, parts}); found != known.end()) return &*found;
    for (auto v = known.lower_bound({kernel.kernel, {}}); v != known.end() && v->first.kernel == kernel.kernel; ++v)
      if (v->first.parts.empty() || std::ranges::any_of(v->first.parts, [&](const Hash& part) { return isMeasured(known, part); }))
        return &*v;
    return nullptr;
  }
  bool isReverted(const Move& move) const { return !move.obstacle && move.reverted && verdictOn(*move.reverted); }

  // What measured it, when all is decided: only then do its parts stand.
  void tellMeasured(FusionDecision& d, const KernelGraph::Barred& kernel) const {
    const auto* verdict = verdictOn(kernel);
    NF_ASSERT(verdict);
    d.lost = verdict->first;
    d.measured = verdict->second;
    d.why = verdict->second.pairs > 0 ? sentence(verdict->second) : "The fused kernel was measured to be slower than its parts.";
  }

  void count(FusionDecision& d, const Choice& c) const {
    const Program& p = m_graph.program();
    std::map<TensorId, double> traffic;
    d.dT = d.dC = 0;
    d.dK = 0;
    d.traffic.clear();
    d.arithmetic.clear();
    d.recomputed.clear();
    d.kept.clear();
    std::vector<std::string> recomputed, kept;
    std::vector<KernelGraph::Work> work;
    for (const Move* m : {c.forward ? &*c.forward : nullptr, c.gradient ? &*c.gradient : nullptr}) {
      if (!m) continue;
      if (m->traffic)
        for (const auto& [tensor, bytes] : *m->traffic) traffic[tensor] += bytes;
      d.dT += m->bytes;
      d.dC += m->operations;
      d.dK += m->kernels;
      if (m->work) work.insert(work.end(), m->work->begin(), m->work->end());
      if (m->operations != 0) d.arithmetic.push_back({p[m->tensor].name, m->operations});
      const auto join = [](std::vector<std::string>& all, const std::vector<std::string>& more) {
        for (const std::string& name : more)
          if (std::ranges::find(all, name) == all.end()) all.push_back(name);
      };
      if (m->operations < 0) join(recomputed, m->recomputed);
      join(kept, m->kept);
    }
    for (const std::string& name : recomputed) d.recomputed += (d.recomputed.empty() ? "" : ", ") + name;
    for (const std::string& name : kept) d.kept += (d.kept.empty() ? "" : ", ") + name;
    for (const auto& [tensor, bytes] : traffic)
      if (bytes != 0) d.traffic.push_back({p[tensor].name, bytes});
    std::stable_sort(d.traffic.begin(), d.traffic.end(),
                     [](const auto& a, const auto& b) { return std::abs(a.amount) > std::abs(b.amount); });
    const double times = static_cast<double>(m_repeats);
    d.dT *= times;
    d.dC *= times;
    d.dK *= m_repeats;
    for (FusionTerm& term : d.traffic) term.amount *= times;
    for (FusionTerm& term : d.arithmetic) term.amount *= times;
    d.R = reward(d.dT, d.dC, d.dK, m_device);
    d.flips = flips(d, traffic, work);
  }

  using Powers = std::map<SizeClasses::Class, int>;

  // How R changes with each size that it depends on, and what that is called here.
  void addSizes(std::vector<FusionFlip>& result, const FusionDecision& d, const std::map<TensorId, double>& traffic,
                const std::vector<KernelGraph::Work>& work) const {
    if (!m_sizes) m_sizes.emplace(*m_program);
    const auto with = [](Powers& powers, const std::vector<SizeClasses::Class>& classes, int by) {
      for (const auto c : classes)
        if (c != SizeClasses::kNone) powers[c] += by;
    };
    const double times = static_cast<double>(m_repeats);
    std::vector<std::pair<double, Powers>> parts;  // seconds
    std::vector<TensorId> named;
    for (const auto& [tensor, bytes] : traffic) {
      parts.emplace_back(bytes * times / m_device.bandwidth, Powers());
      with(parts.back().second, m_sizes->dimensionsOf(m_graph.originalOf(tensor)), 1);
      named.push_back(m_graph.originalOf(tensor));
    }
    std::vector<std::pair<double, Powers>> evaluations;
    for (const KernelGraph::Work& w : work) {
      parts.emplace_back(w.operations * times / m_device.flopRate, Powers());
      with(parts.back().second, m_sizes->axesOf(w.of), 1);
      if (!w.reader.valid()) continue;
      Powers reads;
      with(reads, m_sizes->axesOf(w.reader), 1);
      with(reads, m_sizes->dimensionsOf(w.at), -1);
      for (const auto& [size, power] : reads) parts.back().second[size] += power;
      evaluations.emplace_back(m_graph.evaluationsOf(w), std::move(reads));
    }
    // By what is decided about first.
    for (const std::string& name : {d.consumer, d.producer})
      if (const auto found = m_byName.find(name); found != m_byName.end())
        named.insert(named.begin(), m_graph.originalOf(found->second));
    std::set<SizeClasses::Class> classes;
    for (const auto& part : parts)
      for (const auto& [c, power] : part.second)
        if (power != 0) classes.insert(c);
    for (const SizeClasses::Class c : classes) {
      FusionFlip flip;
      for (const TensorId t : named) {
        const auto [name, extent] = m_sizes->nameIn(*m_program, t, c);
        if (name.empty()) continue;
        flip.quantity = name;
        flip.now = static_cast<double>(extent);
        break;
      }
      if (flip.quantity.empty()) continue;
      std::map<int, double> seconds;
      for (const auto& [amount, powers] : parts) {
        const auto power = powers.find(c);
        seconds[power == powers.end() ? 0 : power->second] += amount;
      }
      seconds[0] += static_cast<double>(d.dK) * m_device.launchSeconds;
      for (const auto& [power, s] : seconds) flip.terms.push_back({s, power});
      if (const auto turned = firstTurn(flip)) {
        // What is read so often by then would be kept, and no work done again.
        double most = 0;
        for (const auto& [now, powers] : evaluations) {
          const auto power = powers.find(c);
          most += now * std::pow(*turned / flip.now, power == powers.end() ? 0 : power->second);
        }
        if (most >= kKeptFrom) continue;
        flip.threshold = *turned;
        result.push_back(std::move(flip));
      }
    }
  }

  // The nearest whole number at which R has the other sign; none up to a thousand times more or less.
  static std::optional<double> firstTurn(const FusionFlip& flip) {
    // Of one sign all of them, so is their sum.
    const auto saves = [](const FusionFlip::Term& t) { return t.seconds > 0; };
    const auto costs = [](const FusionFlip::Term& t) { return t.seconds < 0; };
    if (std::ranges::none_of(flip.terms, saves) || std::ranges::none_of(flip.terms, costs)) return std::nullopt;
    constexpr double kFurthest = 1024, kStep = 1.1892071150027210667;  // 2^(1/4)
    const bool positive = flip.rewardAt(flip.now) > 0;
    const auto turned = [&](double x) { return (flip.rewardAt(x) > 0) != positive; };
    const auto nearest = [&](double inside, double outside) {
      for (int i = 0; i < 60 && std::abs(outside - inside) > 1e-3; ++i) {
        const double middle = (inside + outside) / 2;
        (turned(middle) ? outside : inside) = middle;
      }
      return outside > inside ? std::ceil(outside) : std::floor(outside);
    };
    for (double by = kStep; by <= kFurthest; by *= kStep) {
      const double up = flip.now * by, down = flip.now / by;
      if (turned(up)) return nearest(flip.now * by / kStep, up);
      if (down >= 1 && turned(down)) {
        const double found = nearest(flip.now / by * kStep, down);
        if (found >= 1 && turned(found)) return found;
      }
    }
    return std::nullopt;
  }

  std::vector<FusionFlip> flips(const FusionDecision& d, const std::map<TensorId, double>& bytes,
                                const std::vector<KernelGraph::Work>& work) const {
    std::vector<FusionFlip> result;
    const double launches = static_cast<double>(d.dK) * m_device.launchSeconds;
    const double traffic = d.dT / m_device.bandwidth, arithmetic = d.dC / m_device.flopRate;
    const auto add = [&](std::string quantity, double now, double threshold, std::string unit,
                         std::vector<FusionFlip::Term> terms) {
      if (std::isfinite(threshold) && threshold > 0 && threshold != now)
        result.push_back({std::move(quantity), now, threshold, std::move(unit), std::move(terms)});
    };
    if (d.dT != 0)
      add("P_d", m_device.bandwidth, -d.dT / (arithmetic + launches), "B/s", {{traffic, -1}, {arithmetic + launches, 0}});
    if (d.dC != 0)
      add("P_c", m_device.flopRate, -d.dC / (traffic + launches), "FLOP/s", {{arithmetic, -1}, {traffic + launches, 0}});
    if (d.dK != 0)
      add("L", m_device.launchSeconds, -(traffic + arithmetic) / static_cast<double>(d.dK), "s",
          {{launches, 1}, {traffic + arithmetic, 0}});
    addSizes(result, d, bytes, work);
    std::stable_sort(result.begin(), result.end(), [](const FusionFlip& a, const FusionFlip& b) {
      return std::abs(std::log(a.threshold / a.now)) < std::abs(std::log(b.threshold / b.now));
    });
    return result;
  }

  // What stands in the way may be neither of the two, but what shares a kernel with them by then.
  std::string alsoInside(const FusionDecision& d, const Move& move) const {
    constexpr std::size_t kMost = 3;
    if (move.kind != Move::Kind::Merge) return {};
    std::vector<std::string> names;
    for (const KernelGraph::KernelId k : {move.producer, move.consumer})
      for (const OperatorId op : m_graph.operatorsOf(k)) {
        const std::string& name = m_graph.program()[op].name;
        // What is computed again has the name of what it repeats.
        if (name != d.producer && name != d.consumer && std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    if (names.empty()) return {};
    const std::size_t shown = std::min(names.size(), kMost);
    std::string text = " Their kernels hold ";
    for (std::size_t i = 0; i < shown; ++i) {
      const bool last = i + 1 == names.size();
      text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
    }
    if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
    return text + ", too.";
  }

  // Its row counts nothing.
  std::string gradientToo(const Choice& c) const {
    if (!c.forward || !c.gradient) return {};
    const TensorId g = c.gradient->tensor;
    return " Counted with it: " + m_graph.program()[g].name + " -> " + toldName(m_graph.program(), readerOf(g, *c.gradient)) +
           ", its gradient's.";
  }

  static std::string sentence(const FusionMeasurement& m) {
    const auto time = [](double us) {
      char text[32];
      std::snprintf(text, sizeof text, us >= 100 ? "%.0f \u00b5s" : "%.3g \u00b5s", us);
      return std::string(text);
    };
    const auto kernels = [](std::int64_t n) { return n == 1 ? std::string("one kernel") : std::to_string(n) + " kernels"; };
    const std::string pairs = " (" + std::to_string(m.pairs) + " pairs).";
    if (m.fusedKernels <= 1) return "Measured, the fused kernel took " + time(m.fused) + " and its parts " + time(m.split) + pairs;
    return "Measured with all that changes beside it: fused, " + kernels(m.fusedKernels) + " took " + time(m.fused) + "; split, " +
           kernels(m.splitKernels) + " took " + time(m.split) + pairs;
  }

  // By a hint against these two.
  bool isNamed(const Move& move, TensorId producer, OperatorId consumer) const {
    if (!move.forbidden) return false;
    const TensorId made = m_graph.originalOf(producer);
    const auto [a, b] = *move.forbidden;
    return std::ranges::any_of(writesOf(m_graph.program(), consumer), [&](TensorId t) {
      const TensorId written = m_graph.originalOf(t);
      return (a == made && b == written) || (b == made && a == written);
    });
  }

  // A hint against these two says so whatever else stands in the way by then. One against others says nothing where this could not be
  // without it, either.
  bool isForbidden(const Move& move, TensorId producer, OperatorId consumer) const {
    return move.obstacle ? isNamed(move, producer, consumer) : move.forbidden.has_value();
  }

  // What is computed again, and what shares a kernel with the two, may be what a hint names.
  std::string forbidden(const Move& move, TensorId producer, OperatorId consumer) const {
    if (isNamed(move, producer, consumer)) return "A `hint split` keeps them apart.";
    const auto [a, b] = *move.forbidden;
    return "It would bring `" + m_graph.program()[a].name + "` and `" + m_graph.program()[b].name +
           "` into one kernel, which a `hint split` keeps apart.";
  }

  std::string sentence(const FusionDecision& d, const Choice& c) const {
    const Move& move = c.forward ? *c.forward : *c.gradient;
    switch (d.state) {
      case FusionState::NotLowerable: return move.obstacle.value_or("No template takes it.") + alsoInside(d, move);
      case FusionState::Forbidden:
      case FusionState::Reverted: break;
      case FusionState::Forced:
        return "A `hint fuse` asks for it." +
               (d.kept.empty() ? std::string()
                               : " Its kernel writes and reads " + d.kept + " all the same, for more than the cache holds.");
      case FusionState::Accepted:
      case FusionState::Refused: break;
    }
    const char* verb = d.state == FusionState::Accepted ? "Saves more than it costs: " : "Costs more than it saves: ";
    std::string text = verb;
    text += d.dT > 0 ? "less traffic" : d.dT < 0 ? "more traffic" : "as much traffic";
    if (d.dK > 0) text += d.dK == 1 ? ", one launch less" : ", " + std::to_string(d.dK) + " launches less";
    if (!d.recomputed.empty()) text += ", " + d.recomputed + " computed again";
    if (!d.kept.empty()) text += ", " + d.kept + " written and read inside, for more than the cache holds";
    return text + "." + gradientToo(c);
  }

  void carryOut(TensorId t, Choice choice, FusionState state, std::optional<OperatorId> named = {}) {
    record(t, choice, state, named);
    m_decided.insert(t.value);
    std::vector<KernelGraph::KernelId> changed;
    if (choice.forward) changed = m_graph.apply(*choice.forward);
    if (choice.gradient) {
      // The forward half may have changed what the gradient's move meets: it is scored again before it is carried out, and what is
      // carried out is what counts.
      const TensorId g = choice.gradient->tensor;
      if (choice.forward) choice.gradient = best(g, true);
      if (choice.gradient && state != FusionState::Forced && !(reward(*choice.gradient, m_device) > 0)) choice.gradient.reset();
      if (choice.forward) {
        FusionDecision& d = m_decisions.back();
        count(d, choice);
        d.why = sentence(d, choice);
      }
      if (choice.gradient) {
        const auto more = m_graph.apply(*choice.gradient);
        changed.insert(changed.end(), more.begin(), more.end());
      }
      m_decided.insert(g.value);
    }
    for (const auto k : changed)
      for (const TensorId around : m_graph.tensorsAround(k)) push(around);
  }

  // What greedy would consider here, had it not been measured; other merges may leave no such move at the end.
  void noteMeasured(TensorId t) {
    if (m_options.reverted.empty()) return;
    std::optional<Move> best;
    for (Move& m : m_graph.movesFor(t)) {
      if (!m.reverted || m.obstacle || m.forbidden || !(reward(m, m_device) > 0)) continue;
      m_barred.insert(*m.reverted);
      if (!best || reward(m, m_device) > reward(*best, m_device)) best = std::move(m);
    }
    if (!best || m_measured.contains(t.value)) return;
    const OperatorId reader = readerOf(t, *best);
    Choice c;
    c.R = reward(*best, m_device);
    c.forward = std::move(best);
    FusionDecision d = describe(t, c, FusionState::Reverted, reader);
    m_measured.emplace(t.value, Measured{edgeOf(t, reader), std::move(d), *c.forward->reverted});
  }

  void push(TensorId t) {
    if (!m_graph.producerOf(t).valid()) return;
    noteMeasured(t);
    const Choice c = choose(t);
    if (c.R > 0) m_queue.push({c.R, t.value});
  }

  void greedy() {
    const std::size_t count = m_graph.program().tensors.size();
    for (std::size_t i = 0; i < count && !outdated(); ++i) push(TensorId(i));
    while (!m_queue.empty() && !outdated()) {
      const auto [R, id] = m_queue.top();
      m_queue.pop();
      const TensorId t(id);
      Choice c = choose(t);
      if (c.forward && c.gradient && m_graph.exclude(*c.forward, *c.gradient)) {
        const double f = reward(*c.forward, m_device), g = reward(*c.gradient, m_device);
        (f < g ? c.forward : c.gradient).reset();
        c.R = std::max(f, g);
      }
      if (!(c.R > 0)) continue;
      // Rewards change as kernels merge: one that fell waits for its new turn.
      if (c.R < R * (1 - 1e-12) && !m_queue.empty() && c.R < m_queue.top().first) {
        m_queue.push({c.R, id});
        continue;
      }
      carryOut(t, std::move(c), FusionState::Accepted);
    }
  }

  void forceFusion(const std::string& first, const std::string& second) {
    const auto a = m_byName.find(first), b = m_byName.find(second);
    if (a == m_byName.end() || b == m_byName.end()) return;
    const OperatorId opA = m_graph.producerOf(a->second), opB = m_graph.producerOf(b->second);
    m_asked.insert({first, second});
    if (!opA.valid() || !opB.valid() || m_graph.kernelOf(opA) == m_graph.kernelOf(opB)) return;
    const auto reads = [&](OperatorId reader, TensorId t) {
      const auto& readers = m_graph.readersOf(t);
      return std::find(readers.begin(), readers.end(), reader) != readers.end();
    };
    const bool backwards = !reads(opB, a->second) && reads(opA, b->second);
    const TensorId from = backwards ? b->second : a->second;
    const OperatorId consumer = backwards ? opA : opB;
    Choice c;
    const KernelGraph::KernelId into = m_graph.kernelOf(consumer);
    c.forward = m_graph.mergeOf(m_graph.kernelOf(m_graph.producerOf(from)), into, from);
    // Of the ways that bring them into one kernel the one that greedy would prefer.
    const auto can = [](const Move& m) { return !m.obstacle && !m.forbidden; };
    if (reads(consumer, from))
      for (Move& m : m_graph.movesFor(from))
        if (m.kind == Move::Kind::Inline && can(m) && (!can(*c.forward) || reward(m, m_device) > reward(*c.forward, m_device)))
          c.forward = std::move(m);
    c.R = reward(*c.forward, m_device);
    const std::optional<OperatorId> named = reads(consumer, from) ? std::optional(consumer) : std::nullopt;
    if (c.forward->obstacle || c.forward->forbidden) {
      // The language has warned of others that do not read each other, which are no edge; what a derivative reads it did not know.
      const bool derived = first.starts_with("d(") || second.starts_with("d(");
      if (!reads(consumer, from) && !derived) return;
      record(from, c, isForbidden(*c.forward, from, consumer) ? FusionState::Forbidden : FusionState::NotLowerable, named);
      m_decisions.back().askedInVain = {first, second};
      m_takenBack.insert(from.value);
      m_decided.insert(from.value);
      return;
    }
    carryOut(from, std::move(c), FusionState::Forced, named);
  }

  // What a hint could not have at first, and greedy brought together after all.
  void forgetMet() {
    for (FusionDecision& d : m_decisions) {
      if (d.askedInVain.first.empty()) continue;
      const OperatorId a = m_graph.producerOf(m_byName.at(d.askedInVain.first)),
                       b = m_graph.producerOf(m_byName.at(d.askedInVain.second));
      if (!a.valid() || !b.valid() || m_graph.kernelOf(a) != m_graph.kernelOf(b)) continue;
      d.askedInVain = {};
      d.state = FusionState::Forced;
      d.why = kAskedAndMet;
      d.dT = d.dC = d.R = 0;
      d.dK = 0;
      d.traffic.clear();
      d.arithmetic.clear();
      d.flips.clear();
      d.recomputed.clear();
    }
  }

  FusionState refusal(const Choice& c) const {
    const Move& move = c.forward ? *c.forward : *c.gradient;
    return c.R > 0 && move.obstacle ? FusionState::NotLowerable : FusionState::Refused;
  }

  // What would have been fused, had it not been measured or forbidden. Forward and backward are kernels of their own here.
  void recordTakenBack() {
    const std::size_t count = m_graph.program().tensors.size();
    if (m_options.reverted.empty() && !m_graph.forbidsAny()) return;
    for (std::size_t i = 0; i < count && !outdated(); ++i) {
      const TensorId t(i);
      if (m_takenBack.contains(t.value)) continue;
      std::optional<Move> best;
      for (Move& m : m_graph.movesFor(t)) {
        if (!isForbidden(m, t, readerOf(t, m)) && !isReverted(m)) continue;
        if (!best || reward(m, m_device) > reward(*best, m_device)) best = std::move(m);
      }
      if (!best) continue;
      const FusionState state = best->forbidden ? FusionState::Forbidden : FusionState::Reverted;
      Choice c;
      c.R = reward(*best, m_device);
      c.forward = std::move(best);
      record(t, c, state);
      m_takenBack.insert(t.value);
    }
    for (auto& [t, met] : m_measured) {
      if (m_takenBack.contains(t) || m_told.contains(met.edge) || standsTogether(met.edge) || !verdictOn(met.kernel)) continue;
      m_told.insert(met.edge);
      tellMeasured(met.decision, met.kernel);
      m_decisions.push_back(std::move(met.decision));
      m_takenBack.insert(t);
    }
  }

  void recordRefused() {
    const std::size_t count = m_graph.program().tensors.size();
    for (std::size_t i = 0; i < count && !outdated(); ++i) {
      const TensorId t(i);
      if (!m_graph.producerOf(t).valid() || m_graph.consumersOf(t, 0).empty() || m_decided.contains(t.value)) continue;
      if (m_takenBack.contains(t.value)) continue;
      if (m_isGradient.contains(t.value)) {
        // Told with the forward tensor it belongs to, where that has a decision of its own.
        const TensorId of = m_isGradient.at(t.value);
        if (m_graph.producerOf(of).valid() && (m_decided.contains(of.value) || !m_graph.consumersOf(of, 0).empty())) continue;
      }
      const Choice c = choose(t, false);
      if (!c.forward && !c.gradient) continue;
      const TensorId lead = leading(t, c);
      if (standsTogether(edgeOf(lead, readerOf(lead, c.forward ? *c.forward : *c.gradient))))
        continue;  // only its copy stays apart
      record(t, c, refusal(c));
    }
  }

  // By a `hint fuse`, in either order.
  bool asked(const Edge& edge) const {
    const std::string &producer = m_graph.program()[edge.first].name, &consumer = m_readerName.at(edge.second);
    return m_asked.contains({producer, consumer}) || m_asked.contains({consumer, producer});
  }

  void record(const Edge& edge, FusionDecision d) {
    d.producer = m_graph.program()[edge.first].name;
    d.consumer = m_readerName.at(edge.second);
    m_decisions.push_back(std::move(d));
  }

  // Of each edge one place where it stands; where its ends were computed again, one that a kernel has whole.
  void findEdges() {
    for (std::size_t k = 0; k < m_graph.kernelCount() && !outdated(); ++k)
      for (const OperatorId reader : m_graph.operatorsOf(static_cast<KernelGraph::KernelId>(k)))
        for (const TensorId t : m_graph.readsOf(reader)) {
          const OperatorId producer = m_graph.producerOf(t);
          if (!producer.valid() || producer == reader) continue;
          const bool apart = m_graph.kernelOf(producer) != k;
          Met& met = m_edges.emplace(edgeOf(t, reader), Met{t, reader, apart}).first->second;
          if (!apart && met.apart) met = {t, reader, false};
        }
  }

  bool standsTogether(const Edge& edge) const {
    const auto met = m_edges.find(edge);
    return met != m_edges.end() && !met->second.apart;
  }

  // What the decisions so far settle without naming it: a tensor that several operators read, and the ends that a merge of larger
  // kernels, or of a gradient's, brings together. Nothing of it is counted twice.
  void recordOtherEdges() {
    const Program& p = m_graph.program();
    for (const auto& [edge, met] : m_edges) {
      if (outdated()) return;
      if (m_told.contains(edge)) continue;
      if (!met.apart) {
        const auto of = m_isGradient.find(edge.first.value);
        const bool asked = this->asked(edge);
        FusionDecision d = between(met.tensor, met.reader, asked ? FusionState::Forced : FusionState::Accepted);
        if (asked) d.why = kAskedAndMet;
        else if (met.tensor != edge.first) d.why = "Computed again where it is read, as was decided and counted once.";
        else if (of != m_isGradient.end() && m_decided.contains(of->second.value))
          d.why = "Decided and counted with `" + p[of->second].name + "`, whose gradient it is.";
        else d.why = "Other decisions bring both into one kernel: nothing is left to count.";
        record(edge, std::move(d));
      } else if (m_graph.hasManyConsumers(met.tensor)) {
        FusionDecision d = between(met.tensor, met.reader, FusionState::Refused);
        d.why = "Too many kernels read it: it stays in memory.";
        record(edge, std::move(d));
      } else {
        Choice c;
        c.forward = m_graph.mergeOf(m_graph.kernelOf(m_graph.producerOf(met.tensor)), m_graph.kernelOf(met.reader), met.tensor);
        c.R = reward(*c.forward, m_device);
        const FusionState state = isForbidden(*c.forward, met.tensor, met.reader) ? FusionState::Forbidden
                                  : isReverted(*c.forward)                        ? FusionState::Reverted
                                                                                  : refusal(c);
        FusionDecision d = describe(met.tensor, c, state, met.reader);
        if (state == FusionState::Reverted) tellMeasured(d, *c.forward->reverted);
        record(edge, std::move(d));
      }
    }
  }

  KernelGraph m_graph;
  const Program* m_program;                    // before anything was computed again
  mutable std::optional<SizeClasses> m_sizes;  // of it, once they are asked for
  const DeviceConstants& m_device;
  const FusionOptions& m_options;
  std::int64_t m_repeats;
  std::string m_loop;
  std::map<std::string, TensorId> m_byName;
  std::map<TensorId, TensorId> m_gradient;
  std::unordered_map<std::uint32_t, TensorId> m_isGradient;  // of which tensor
  std::map<TensorId, std::string> m_readerName;              // of the operator that writes it
  std::set<Edge> m_told;                                     // by a decision
  std::set<std::pair<std::string, std::string>> m_asked;     // by hints: tensors to be fused
  std::map<Edge, Met> m_edges;                               // of the partition that was decided
  std::unordered_set<std::uint32_t> m_decided;
  std::unordered_set<std::uint32_t> m_takenBack;  // told of already
  struct Measured {
    Edge edge;
    FusionDecision decision;
    KernelGraph::Barred kernel;
  };
  std::map<std::uint32_t, Measured> m_measured;  // by tensor: what a measurement kept from being done
  std::set<KernelGraph::Barred> m_barred;        // all that measurements kept from being made
  Barring& m_barring;
  std::priority_queue<std::pair<double, std::uint32_t>> m_queue;
  std::vector<FusionDecision> m_decisions;
  bool m_outdated = false;
};

struct Surroundings {
  std::int64_t repeats = 1;
  std::string loop;  // names, outermost first
  int depth = 0;
};

Result<FusionResult> fuseAt(const Program& program, const DeviceConstants& device, FusionOptions options,
                            const Surroundings& around) {
  if (around.depth > 64) return Error{"fuse", "Loops are nested too deep.", {}, {}};
  Barring barring;
  std::optional<Fuser> fuser;
  std::uint64_t work = 0;
  while (!fuser.emplace(program, device, options, around.repeats, around.loop, barring).decide()) work += fuser->work();
  NF_TRY(FusionResult result, fuser->finish());
  result.work += work;
  for (const auto& [kernel, parts] : barring.parts) {
    BarredKernel told{{kernel.kernel, parts}, {}, around.loop};
    for (const TensorId t : kernel.made) told.made.push_back(program[t].name);
    result.barred.push_back(std::move(told));
  }
  // A hint names tensors of the program or of the bodies in it.
  for (const Hint& hint : program.hints) {
    if (hint.kind == Hint::Kind::Schedule) continue;
    for (std::size_t i = 0; i + 1 < hint.tensors.size(); ++i)
      (hint.kind == Hint::Kind::Fuse ? options.force : options.forbid).emplace_back(hint.tensors[i], hint.tensors[i + 1]);
  }
  for (const Operator& op : result.program.operators) {
    if (op.kind != OperatorKind::Loop) continue;
    Loop& loop = result.program[op.loop];
    const Surroundings inside{checkedMul(around.repeats, loop.trips).value_or(around.repeats),
                              around.loop.empty() ? op.name : around.loop + "/" + op.name, around.depth + 1};
    NF_TRY(FusionResult body, fuseAt(*loop.body, device, options, inside));
    loop.body = std::make_shared<const Program>(std::move(body.program));
    for (FusionDecision& d : body.decisions)
      if (!d.body) d.body = loop.body;
    result.work += body.work;
    result.barred.insert(result.barred.end(), std::make_move_iterator(body.barred.begin()),
                         std::make_move_iterator(body.barred.end()));
    result.decisions.insert(result.decisions.end(), std::make_move_iterator(body.decisions.begin()),
                            std::make_move_iterator(body.decisions.end()));
  }
  numberSubgraphs(result.program);
  return result;
}

}  // namespace

bool isMeasured(const MeasuredKernels& kernels, const Hash& signature) {
  const auto first = kernels.lower_bound({signature, {}});
  return first != kernels.end() && first->first.kernel == signature;
}

Result<FusionResult> fuse(const Program& partitioned, const DeviceConstants& device, const FusionOptions& options) {
  if (partitioned.groups.empty() && !partitioned.operators.empty()) return Error{"fuse", "The program is not partitioned.", {}, {}};
  return fuseAt(partitioned, device, options, {});
}

}  // namespace nf
