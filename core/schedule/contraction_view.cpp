// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/contraction.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "core/ir/integer_set.h"
#include "core/ir/paths.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

void addAxes(const IndexExpr& e, std::set<std::size_t>& axes) {
  std::vector<IndexVar> variables;
  e.collectVariables(variables);
  for (const IndexVar v : variables)
    if (v < kLoopVariable) axes.insert(v);
}

}  // namespace

std::set<std::size_t> axesOf(const GroupView& group, ExprId root) {
  const Program& p = *group.program;
  std::set<std::size_t> axes;
  for (const ExprId e : nodesOf(p, root)) {
    const ScalarNode& node = p[e];
    if (node.index.valid()) addAxes(p[node.index], axes);
    if (node.access.valid())
      for (const AccessIndex& i : p[node.access].indices)
        if (!i.isData()) addAxes(i.affine, axes);
  }
  return axes;
}

namespace {

bool readsTensor(const Program& p, ExprId root) {
  const auto nodes = nodesOf(p, root);
  return std::any_of(nodes.begin(), nodes.end(), [&](ExprId e) { return p[e].op == ScalarOp::Load; });
}

// Factors of a product; a select(c, x, 0) splits its conjunction of index conditions over them later.
void factorsOf(const Program& p, ExprId root, std::vector<ExprId>& factors) {
  std::vector<ExprId> stack{root};
  while (!stack.empty()) {
    const ExprId e = stack.back();
    stack.pop_back();
    if (p[e].op == ScalarOp::Mul && isFloating(p[e].type)) {
      stack.push_back(p[e].operands[1]);
      stack.push_back(p[e].operands[0]);
    } else {
      factors.push_back(e);
    }
  }
}

constexpr std::uint64_t kInsideQuota = 100000;  // isl operations a question

// Does every read of the expression stay inside its tensor where the conditions hold?
bool staysInside(const Program& p, const Operator& op, ExprId root, const std::vector<IndexCond>& conditions) {
  const RangeOf ranges = rangesOf(op);
  std::unique_ptr<IntegerContext> context;
  std::optional<IntegerSet> points;
  const auto ofAxes = [&](std::vector<IndexVar> used) {
    return std::all_of(used.begin(), used.end(), [&](IndexVar v) { return v < op.axes.size(); });
  };
  const auto inside = [&](const IndexExpr& e, std::int64_t extent) {
    const auto range = bounds(e, ranges);
    if (range && range->lo >= 0 && range->hi < extent) return true;
    std::vector<IndexVar> used;
    e.collectVariables(used);
    if (!ofAxes(std::move(used))) return false;
    if (!points) {
      context = std::make_unique<IntegerContext>(kInsideQuota);
      std::vector<Range> box;
      for (const Axis& axis : op.axes) box.push_back({0, axis.extent - 1});
      points = IntegerSet::box(*context, box);
      for (const IndexCond& c : conditions) {
        std::vector<IndexVar> ofCondition;
        collectVariables(c, ofCondition);
        if (ofAxes(std::move(ofCondition))) points = points->constrained(c);
      }
    }
    const auto never = [&](const IndexExpr& negative) { return points->constrained(IndexCond::ge0(negative)).isEmpty() == true; };
    return never(-e - IndexExpr(1)) && never(e - IndexExpr(extent));
  };
  for (const ExprId e : nodesOf(p, root)) {
    if (p[e].op != ScalarOp::Load) continue;
    const Access& access = p[p[e].access];
    for (std::size_t k = 0; k < access.indices.size(); ++k)
      if (access.indices[k].isData() || !inside(access.indices[k].affine, p[access.tensor].shape[k])) return false;
  }
  return true;
}

// sum of select(c, a*b, 0): c goes to the factors that use its axes, as select(c, a, 0) * b. (0 times what is never read.)
// The program is the caller's copy.
void distributeGuards(Program& p, Operator& op, std::set<ExprId>& skips) {
  const Peeled peeled = peel(p, op.body);
  const std::vector<ExprId>& conditions = peeled.conditions;
  if (conditions.empty()) return;
  std::vector<ExprId> factors;
  factorsOf(p, peeled.value, factors);
  if (factors.size() < 2) return;
  const auto axesIn = [&](ExprId e) {
    GroupView view;
    view.program = &p;
    return axesOf(view, e);
  };
  std::vector<ExprId> guards(factors.size());
  for (const ExprId c : conditions) {
    const auto needed = axesIn(c);
    bool placed = false;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      const auto have = axesIn(factors[f]);
      if (!readsTensor(p, factors[f]) || !std::includes(have.begin(), have.end(), needed.begin(), needed.end())) continue;
      // Every factor that could be read out of range carries it.
      guards[f] = guards[f].valid() ? p.binary(ScalarOp::And, guards[f], c) : c;
      placed = true;
    }
    if (!placed) return;
  }
  // A read stays inside its tensor by what its factor carries, or the operator stays as it is.
  for (std::size_t f = 0; f < factors.size(); ++f) {
    const auto have = axesIn(factors[f]);
    std::vector<IndexCond> carried;
    for (const ExprId c : conditions) {
      const auto needed = axesIn(c);
      if (std::includes(have.begin(), have.end(), needed.begin(), needed.end())) carried.push_back(*asIndexCond(p, c));
    }
    if (carried.size() < conditions.size() && !staysInside(p, op, factors[f], carried)) return;
  }
  ExprId product;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    ExprId factor = factors[f];
    if (guards[f].valid()) factor = p.select(guards[f], factor, p.constant(0, p[factor].type));
    product = product.valid() ? p.binary(ScalarOp::Mul, product, factor) : factor;
  }
  op.body = product;
  skips.insert(conditions.begin(), conditions.end());
}

// How one side's loads move along each merged axis.
std::vector<double> stridesAlong(const GroupView& group, const NestView& nest, const std::vector<ExprId>& factors) {
  const Program& p = *group.program;
  std::vector<double> result(nest.axes.size(), 0);
  const RangeOf ranges = [&](IndexVar v) -> std::optional<Range> {
    if (v < nest.axes.size()) return Range{0, nest.axes[v].extent - 1};
    return std::nullopt;
  };
  for (const ExprId f : factors)
    for (const ExprId e : nodesOf(p, f)) {
      if (p[e].op != ScalarOp::Load) continue;
      const Access& access = p[p[e].access];
      const auto strides = stridesOf(p[access.tensor]);
      IndexExpr offset;
      for (std::size_t k = 0; k < access.indices.size(); ++k)
        if (!access.indices[k].isData()) offset = offset + strides[k] * replaced(access.indices[k].affine, nest.original, ranges);
      for (const IndexTerm& t : offset.terms())
        for (std::size_t a = 0; a < result.size(); ++a) {
          if (t.atom.isFloorDiv()) {
            if (t.atom.numerator->uses(static_cast<IndexVar>(a))) result[a] = -1;
          } else if (t.atom.variable == a && result[a] >= 0) {
            result[a] = std::max(result[a], std::fabs(static_cast<double>(t.coefficient)));
          }
        }
    }
  return result;
}

double elementsOf(const GroupView& group, const NestView& nest, const std::vector<ExprId>& factors) {
  std::set<std::size_t> used;
  for (const ExprId f : factors)
    for (const std::size_t v : axesOf(group, f))
      for (std::size_t a = 0; a < nest.members.size(); ++a)
        for (const std::size_t member : nest.members[a])
          if (member == v) used.insert(a);
  double elements = 1;
  for (const std::size_t a : used) elements *= static_cast<double>(nest.axes[a].extent);
  return elements;
}

}  // namespace

GuardedFactors withGuardsOnFactors(const Program& program) {
  GuardedFactors result{program, {}};
  Program& copy = result.program;
  for (std::size_t o = 0; o < copy.operators.size(); ++o) {
    Operator op = copy.operators[o];
    if (op.kind != OperatorKind::Gather || op.reducer != Reducer::Sum) continue;
    distributeGuards(copy, op, result.skips);
    copy.operators[o] = std::move(op);
  }
  return result;
}

namespace {

// Share of the points of the guard's axes where it holds; every so many of them where they are many.
double fractionOf(const Program& p, const Operator& op, const std::vector<ExprId>& conditions) {
  std::vector<IndexCond> conds;
  std::vector<IndexVar> used;
  for (const ExprId c : conditions) {
    conds.push_back(*asIndexCond(p, c));
    collectVariables(conds.back(), used);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  double points = 1;
  for (const IndexVar v : used) points *= v < op.axes.size() ? static_cast<double>(op.axes[v].extent) : 1;
  constexpr double kMost = 20000;
  const auto stride = static_cast<std::int64_t>(std::max(1.0, std::floor(points / kMost)));
  std::int64_t seen = 0, held = 0;
  for (std::int64_t at = 0; static_cast<double>(at) < points; at += stride) {
    const auto value = [&](IndexVar wanted) -> std::int64_t {
      std::int64_t rest = at;
      for (const IndexVar v : used) {
        if (v >= op.axes.size()) continue;
        if (v == wanted) return rest % op.axes[v].extent;
        rest /= op.axes[v].extent;
      }
      return 0;
    };
    ++seen;
    held += std::all_of(conds.begin(), conds.end(), [&](const IndexCond& c) { return evaluate(c, value); });
  }
  return seen == 0 ? 1 : static_cast<double>(held) / static_cast<double>(seen);
}

std::vector<ContractionGuard> guardsOf(const GroupView& group, const ContractionView& view, const std::set<ExprId>& skips) {
  const Program& p = *group.program;
  std::vector<ContractionGuard> guards;
  for (const bool left : {true, false})
    for (const ExprId f : left ? view.left : view.right)
      for (const ExprId c : peel(p, f).conditions) {
        const auto used = axesOf(group, c);
        std::vector<bool> axes(view.nest.axes.size(), false);
        for (std::size_t a = 0; a < axes.size(); ++a)
          for (const std::size_t member : view.nest.members[a])
            if (used.contains(member)) axes[a] = true;
        const bool skip = skips.contains(c);
        auto at = std::find_if(guards.begin(), guards.end(),
                               [&](const ContractionGuard& g) { return g.axes == axes && g.skips == skip; });
        if (at == guards.end()) {
          guards.push_back({{}, axes, 1, false, false, skip});
          at = guards.end() - 1;
        }
        (left ? at->left : at->right) = true;
        if (std::find(at->conditions.begin(), at->conditions.end(), c) == at->conditions.end()) at->conditions.push_back(c);
      }
  for (ContractionGuard& g : guards) g.fraction = fractionOf(p, p[view.op], g.conditions);
  return guards;
}

// The side's one read, and along which merged axes a copy of its tensor could have neighbours side by side: every member is a
// component of the read by itself.
ExprId readOf(const GroupView& group, const NestView& nest, const std::vector<ExprId>& factors, std::vector<bool>& movable) {
  const Program& p = *group.program;
  movable.assign(nest.axes.size(), false);
  if (factors.size() != 1) return {};
  const ExprId read = peel(p, factors[0]).value;
  if (p[read].op != ScalarOp::Load) return {};
  const Access& access = p[p[read].access];
  if (std::any_of(access.indices.begin(), access.indices.end(), [](const AccessIndex& i) { return i.isData(); })) return {};
  if (!isFloating(p[access.tensor].type)) return {};
  for (std::size_t a = 0; a < nest.axes.size(); ++a)
    movable[a] = std::all_of(nest.members[a].begin(), nest.members[a].end(), [&](std::size_t member) {
      std::size_t uses = 0, alone = 0;
      for (const AccessIndex& i : access.indices) {
        uses += i.affine.uses(static_cast<IndexVar>(member));
        alone += i.affine.asVariable() == std::optional<IndexVar>(static_cast<IndexVar>(member));
      }
      return uses == 1 && alone == 1;
    });
  return read;
}

// F16 or BF16 where every value of the product of the factors is one as it stands; else F32.
DType narrowType(const GroupView& group, const std::vector<ExprId>& factors) {
  const Program& p = *group.program;
  std::vector<ExprId> rest = factors;
  while (rest.size() == 1) {
    const ExprId value = peel(p, rest[0]).value;
    const ScalarNode& node = p[value];
    DType type = node.type;
    if (node.op == ScalarOp::Load) {
      const TensorId t = p[node.access].tensor;
      if (group.producers[t.value].valid() && !group.stored[t.value]) {  // computed here, and not rounded to its storage
        rest = {group.producerOf(t).body};
        continue;
      }
      type = p[t].type;
    } else if (node.op != ScalarOp::Cast) {
      return DType::F32;
    }
    return type == DType::F16 || type == DType::BF16 ? type : DType::F32;
  }
  return DType::F32;
}

}  // namespace

std::set<std::size_t> neighbours(const ContractionView& view) {
  std::set<std::size_t> joined;
  for (std::size_t a = 1; a < view.classes.size(); ++a)
    if (view.classes[a] == view.classes[a - 1] && (view.classes[a] == AxisClass::Left || view.classes[a] == AxisClass::Right))
      joined.insert(view.nest.members[a].front());
  return joined;
}

std::optional<ContractionView> viewContraction(const GroupView& group, const std::set<ExprId>& skips,
                                               const std::set<std::size_t>& joined) {
  const Program& p = *group.program;
  ContractionView view;
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    if (group.injective(OperatorId(o))) continue;
    const Operator& op = p.operators[o];
    if (op.kind != OperatorKind::Gather || op.reducer != Reducer::Sum || view.op.valid()) return std::nullopt;
    view.op = OperatorId(o);
  }
  if (!view.op.valid()) return std::nullopt;
  const Operator& op = p[view.op];
  const TensorId made = op.output;
  if (!isFloating(p[op.body].type) || p[op.body].type == DType::F64) return std::nullopt;

  // What needs the contraction, directly or not, may meet it at its own point alone.
  std::vector<bool> needs(p.operators.size(), false);
  needs[view.op.value] = true;
  for (std::size_t o = view.op.value + 1; o < p.operators.size(); ++o) {
    const OperatorId id(o);
    const Operator& other = p.operators[o];
    bool own = other.outputRank == op.outputRank;
    for (std::size_t k = 0; own && k < op.outputRank; ++k) own = other.axes[k].extent == op.axes[k].extent;
    for (const ExprId e : nodesOf(p, other.body)) {
      if (p[e].op != ScalarOp::Load) continue;
      const Access& access = p[p[e].access];
      const OperatorId from = group.producers[access.tensor.value];
      if (!from.valid() || !needs[from.value]) continue;
      needs[o] = true;
      own = own && readsOwnPoint(other, access);
    }
    if (needs[o] && !own) return std::nullopt;
  }
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    const OperatorId id(o);
    const TensorId out = p.operators[o].output;
    if (id == view.op || !group.stored[out.value]) continue;
    if (!needs[o]) view.before.push_back(id);
    else if (group.isOutput[out.value]) view.epilogue.push_back(id);
    else return std::nullopt;
  }

  std::vector<ExprId> factors;
  factorsOf(p, op.body, factors);
  std::vector<std::set<std::size_t>> uses;
  for (const ExprId f : factors) uses.push_back(axesOf(group, f));

  view.nest = viewNest(group, {view.op}, 0, joined);
  const std::size_t axes = view.nest.axes.size();
  if (factors.size() < 2 || factors.size() > 6) return std::nullopt;

  // Try each split of the factors in two; the one with the fewest batch points and both sides there.
  double best = -1;
  for (std::uint32_t split = 1; split + 1 < (1u << factors.size()); split += 2) {
    std::vector<bool> inLeft(axes, false), inRight(axes, false);
    bool leftReads = false, rightReads = false;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      const bool left = (split >> f & 1) != 0;
      (left ? leftReads : rightReads) = (left ? leftReads : rightReads) || readsTensor(p, factors[f]);
      for (std::size_t a = 0; a < axes; ++a)
        for (const std::size_t member : view.nest.members[a])
          if (uses[f].contains(member)) (left ? inLeft : inRight)[a] = true;
    }
    if (!leftReads || !rightReads) continue;
    std::vector<AxisClass> classes;
    double leftPoints = 1, rightPoints = 1;
    for (std::size_t a = 0; a < axes; ++a) {
      const auto extent = static_cast<double>(view.nest.axes[a].extent);
      if (view.nest.axes[a].reduced) {
        classes.push_back(AxisClass::Inner);
      } else if (inLeft[a] == inRight[a]) {
        classes.push_back(AxisClass::Batch);
      } else {
        classes.push_back(inLeft[a] ? AxisClass::Left : AxisClass::Right);
        (inLeft[a] ? leftPoints : rightPoints) *= extent;
      }
    }
    if (leftPoints < 2 || rightPoints < 2) continue;
    const double score = std::min(leftPoints, rightPoints) * 1e6 + leftPoints * rightPoints;
    if (score <= best) continue;
    best = score;
    view.classes = std::move(classes);
    view.left.clear();
    view.right.clear();
    for (std::size_t f = 0; f < factors.size(); ++f) (split >> f & 1 ? view.left : view.right).push_back(factors[f]);
  }
  if (best < 0) return std::nullopt;
  double inner = 1;
  for (std::size_t a = 0; a < axes; ++a)
    if (view.classes[a] == AxisClass::Inner) inner *= static_cast<double>(view.nest.axes[a].extent);
  if (inner < 2) return std::nullopt;
  view.flops = 2 * view.nest.points;
  view.guards = guardsOf(group, view, skips);
  view.leftRead = readOf(group, view.nest, view.left, view.leftMovable);
  view.rightRead = readOf(group, view.nest, view.right, view.rightMovable);
  const auto stored = [&](ExprId read) {
    if (!read.valid()) return false;
    const TensorId t = p[p[read].access].tensor;
    return !group.producers[t.value].valid() || group.stored[t.value];
  };
  view.leftStored = stored(view.leftRead);
  view.rightStored = stored(view.rightRead);
  view.leftPlain = view.leftStored && p[p[p[view.leftRead].access].tensor].type == DType::F32;
  view.rightPlain = view.rightStored && p[p[p[view.rightRead].access].tensor].type == DType::F32;
  view.leftType = narrowType(group, view.left);
  view.rightType = narrowType(group, view.right);
  const auto loads = [&](const std::vector<ExprId>& factors) {
    double count = 0;
    std::vector<ExprId> roots = factors;
    constexpr double kMost = 64;
    while (!roots.empty() && count < kMost) {
      const ExprId root = roots.back();
      roots.pop_back();
      for (const ExprId e : nodesOf(p, root)) {
        if (p[e].op != ScalarOp::Load) continue;
        const TensorId t = p[p[e].access].tensor;
        if (group.stored[t.value] || !group.producers[t.value].valid()) count += 1;
        else roots.push_back(group.producerOf(t).body);
      }
    }
    return std::max(count, 1.0);
  };
  view.leftLoads = loads(view.left);
  view.rightLoads = loads(view.right);
  const auto readElements = [&](ExprId read) {
    return read.valid() ? static_cast<double>(p[p[p[read].access].tensor].elements()) : 0.0;
  };
  view.leftReadElements = readElements(view.leftRead);
  view.rightReadElements = readElements(view.rightRead);
  view.leftStride = stridesAlong(group, view.nest, view.left);
  view.rightStride = stridesAlong(group, view.nest, view.right);
  view.leftElements = elementsOf(group, view.nest, view.left);
  view.rightElements = elementsOf(group, view.nest, view.right);
  const auto strides = stridesOf(p[made]);
  for (const auto& members : view.nest.members)
    view.outStride.push_back(members.back() < strides.size() ? static_cast<double>(strides[members.back()]) : 0);
  return view;
}

}  // namespace nf::loop
