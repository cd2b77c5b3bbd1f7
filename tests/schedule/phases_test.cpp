// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "core/autodiff/differentiate.h"
#include "core/device/reference.h"
#include "core/ir/verify.h"
#include "core/lang/compile.h"
#include "core/schedule/knob_space.h"
#include "core/schedule/phases.h"
#include "tests/kernel_cases.h"

namespace nf::loop {
namespace {

// The operator that makes `name`, with the elementwise one behind it where there is one, as a program of its own.
Program gradientOf(const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  return differentiate(notebook.program)->program;
}

Program only(const Program& whole, const std::vector<std::string>& names) {
  Program p = whole;
  std::vector<Operator> kept;
  for (const Operator& op : p.operators)
    if (std::find(names.begin(), names.end(), op.name) != names.end()) kept.push_back(op);
  p.operators = std::move(kept);
  p.outputs = {{names.back(), p.tensorNamed(names.back()), OutputRole::Named}};
  for (Tensor& t : p.tensors)
    if (t.kind == TensorKind::Intermediate && std::find(names.begin(), names.end(), t.name) == names.end())
      t.kind = TensorKind::Input;
  return p;
}

TensorValues randomValues(const Program& p) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  TensorValues values;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].kind == TensorKind::Intermediate) continue;
    TensorData data{p.tensors[t].type, p.tensors[t].shape, std::vector<double>(static_cast<std::size_t>(p.tensors[t].elements()))};
    for (double& v : data.values) v = uniform(rng);
    values.emplace(TensorId(t), std::move(data));
  }
  return values;
}

std::vector<double> run(const Program& p, TensorId wanted, const TensorValues& values) {
  const auto prepared = ReferenceProgram::prepare(p, {wanted});
  EXPECT_TRUE(prepared.ok());
  const auto result = prepared->run(values);
  EXPECT_TRUE(result.ok());
  return result->at(wanted).values;
}

constexpr const char* kStrided =
    "input X[2, 3, 8, 9] = zeros()\ninput W[4, 3, 3, 3] = zeros()\n"
    "Y[b,k,p: 4,q: 5] = sum[c,r,s] (X[b,c,2*p+r-1,2*q+s-1] else 0) * W[k,c,r,s]\n"
    "loss L = sum[b,k,p,q] Y[b,k,p,q]^3\nshow d(L)/d(X)\n";

TEST(Phases, SplitAxesAreTheSameMemory) {
  const Program whole = only(gradientOf(kStrided), {"d(L)/d(X)"});
  const auto split = withPhases(whole);
  ASSERT_TRUE(split);
  const TensorId dX = whole.tensorNamed("d(L)/d(X)");
  EXPECT_EQ((*split)[dX].shape, (std::vector<std::int64_t>{2, 3, 4, 2, 9}));  // 9 is no whole number of classes
  const Operator& op = split->operators[0];
  EXPECT_EQ(op.axes[3].name, op.axes[2].name + "_phase");
  for (const std::string& problem : verify(*split, nf::Stage::Differentiated)) ADD_FAILURE() << problem;
  const TensorValues values = randomValues(whole);
  EXPECT_EQ(run(whole, dX, values), run(*split, dX, values));
}

// What is read at its own place has the classes too; what is read elsewhere, or by data, reads the split tensor by quotient and remainder.
TEST(Phases, ReadersFollow) {
  const std::string text =
      "input X[8] = zeros()\nU[i: 8] = X[i // 2] * X[(i + 1) % 4]\nV[i] = U[i] * 2\nZ[i: 7] = V[i + 1]\nS = sum[i] V[i]\n"
      "show Z, S\n";
  using Shape = std::vector<std::int64_t>;
  const Program program = gradientOf(text);
  const auto split = withPhases(program);
  ASSERT_TRUE(split);
  for (const char* name : {"U", "V"}) EXPECT_EQ((*split)[split->tensorNamed(name)].shape, (Shape{2, 4})) << name;
  const TensorValues values = randomValues(program);
  for (const char* name : {"Z", "S"}) {
    const TensorId t = program.tensorNamed(name);
    EXPECT_EQ((*split)[t].shape, program[t].shape);
    EXPECT_EQ(run(program, t, values), run(*split, t, values)) << name;
  }
  const Program byData = gradientOf("input I[5]: i32 = zeros()\n" + text + "G[n] = V[I[n]]\nshow G\n");
  const auto some = withPhases(byData);
  ASSERT_TRUE(some);
  EXPECT_EQ((*some)[some->tensorNamed("U")].shape, (Shape{2, 4}));
  EXPECT_EQ((*some)[some->tensorNamed("V")].shape, (Shape{8}));
  const TensorValues more = randomValues(byData);
  EXPECT_EQ(run(byData, byData.tensorNamed("V"), more), run(*some, byData.tensorNamed("V"), more));
}

TEST(Phases, NothingToSplit) {
  EXPECT_FALSE(withPhases(gradientOf("input X[6] = zeros()\nY[i] = X[5 - i]\nshow Y\n")));
  EXPECT_FALSE(withPhases(gradientOf("input X[4] = zeros()\nY[i: 7] = X[i // 2]\nshow Y\n")));
}

// ---------------------------------------------------------------- nests in classes

Target wideTarget() {
  Target t;
  t.vectorBytes = 64;
  t.vectorRegisters = 32;
  return t;
}

// The nest template's schedule that walks point by point, with these knobs besides.
Schedule plain(const KnobSpace& space, const std::map<std::string, std::string>& with) {
  nlohmann::json knobs = nlohmann::json::object();
  for (const KnobInfo& k : space.knobs()) {
    if (k.name.ends_with("vector")) knobs[k.name] = "";
    if (k.name.ends_with("lanes")) knobs[k.name] = 1;
    if (with.contains(k.name)) knobs[k.name] = with.at(k.name);
  }
  return {space.kind(), std::make_shared<const nlohmann::json>(std::move(knobs))};
}

bool hasKnob(const KnobSpace& space, const std::string& name) {
  const auto knobs = space.knobs();
  return std::any_of(knobs.begin(), knobs.end(), [&](const KnobInfo& k) { return k.name == name; });
}

// Of each element of the output (by its offset) how many terms its loops come to, and how many of them are added up.
struct Trips {
  std::int64_t visited = 0, added = 0;
};

class Walker {
 public:
  explicit Walker(const Function& f) : m_f(f), m_values(f.vars.size(), 0) {}
  std::map<std::int64_t, Trips> run() {
    for (const Stage& stage : m_f.stages) body(stage.body);
    return std::move(m_trips);
  }

 private:
  std::int64_t at(const IndexExpr& e) const {
    return evaluate(e, [&](IndexVar v) { return m_values[v]; });
  }
  bool holds(ValueId id) const {
    const Value& v = m_f[id];
    switch (v.kind) {
      case Value::Kind::Constant: return v.constant != 0;
      case Value::Kind::IndexGe0: return at(v.index) >= 0;
      case Value::Kind::IndexEq0: return at(v.index) == 0;
      default: break;
    }
    EXPECT_EQ(v.kind, Value::Kind::Apply);
    if (v.op == ScalarOp::Not) return !holds(v.operands[0]);
    if (v.op == ScalarOp::And) return holds(v.operands[0]) && holds(v.operands[1]);
    EXPECT_EQ(v.op, ScalarOp::Or);
    return holds(v.operands[0]) || holds(v.operands[1]);
  }
  // A step of a sum reads what it writes.
  bool adds(const Statement& s) const {
    for (const ValueId v : valuesOf(m_f, s))
      if (m_f[v].kind == Value::Kind::Load && m_f[v].place.buffer == s.target.buffer)
        return m_f[s.target.buffer].scope == Scope::Local;
    return false;
  }
  bool isStep(const std::vector<StmtId>& statements) const {
    return statements.size() == 1 && m_f[statements[0]].kind == Statement::Kind::Store && adds(m_f[statements[0]]);
  }
  void body(const std::vector<StmtId>& statements) {
    for (const StmtId id : statements) {
      const Statement& s = m_f[id];
      switch (s.kind) {
        case Statement::Kind::For:
          for (std::int64_t i = 0; i < m_f[s.var].extent; ++i) {
            m_values[s.var.value] = i;
            body(s.body);
          }
          break;
        case Statement::Kind::If: {
          const bool is = holds(s.value);
          if (isStep(s.body)) ++m_now.visited;
          if (isStep(s.body) && is) ++m_now.added;
          else body(is ? s.body : s.otherwise);
          break;
        }
        case Statement::Kind::Store:
          if (adds(s)) {
            ++m_now.visited;
            ++m_now.added;
          } else if (m_f[s.target.buffer].scope == Scope::Global) {
            m_trips[at(s.target.offset)] = std::exchange(m_now, {});
          }
          break;
        default: ADD_FAILURE() << "a statement of another kind"; break;
      }
    }
  }

  const Function& m_f;
  std::vector<std::int64_t> m_values;
  Trips m_now;
  std::map<std::int64_t, Trips> m_trips;
};

// dX of Y[b,k,p,q] = sum[c,r,s] X[b,c,stride*p+r-pad,stride*q+s-pad]*W: the terms of dX[b,c,h,w] are the (k,p,q) whose window has (h,w).
// Each is added once, none is a zero, and away from the border the loops come to no other.
TEST(Phases, TripsOfAStridedGradientAreItsTerms) {
  struct Shape {
    std::int64_t height, width, window, stride, pad;
  };
  for (const Shape& c : {Shape{12, 13, 3, 2, 0}, Shape{12, 13, 3, 2, 1}, Shape{14, 17, 5, 3, 0}, Shape{11, 11, 2, 3, 0}}) {
    const std::int64_t p = (c.height + 2 * c.pad - c.window) / c.stride + 1, q = (c.width + 2 * c.pad - c.window) / c.stride + 1;
    const auto n = [](std::int64_t x) { return std::to_string(x); };
    const std::string text = "input X[2, 3, " + n(c.height) + ", " + n(c.width) + "] = zeros()\ninput W[4, 3, " + n(c.window) +
                             ", " + n(c.window) + "] = zeros()\nY[b,k,p: " + n(p) + ",q: " + n(q) + "] = sum[c,r,s] (X[b,c," +
                             n(c.stride) + "*p+r-" + n(c.pad) + "," + n(c.stride) + "*q+s-" + n(c.pad) +
                             "] else 0) * W[k,c,r,s]\nloss L = sum[b,k,p,q] Y[b,k,p,q]^3\nshow d(L)/d(X)\n";
    const Program dX = only(gradientOf(text), {"d(L)/d(X)"});
    const auto group = viewGroup(dX);
    ASSERT_TRUE(group.ok());
    const auto space = nestSpace(dX, *group, wideTarget());
    ASSERT_TRUE(hasKnob(*space, "axes")) << text;
    const auto windows = [&](std::int64_t z, std::int64_t most) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < most; ++i) {
        const std::int64_t r = z + c.pad - c.stride * i;
        count += r >= 0 && r < c.window ? 1 : 0;
      }
      return count;
    };
    for (const char* guards : {"tested", "peeled"}) {
      if (guards == std::string("peeled") && !hasKnob(*space, "guards")) continue;
      const auto f = space->lower(plain(*space, {{"axes", "phases"}, {"guards", guards}}));
      ASSERT_TRUE(f.ok()) << f.error().message;
      EXPECT_TRUE(verify(*f).empty());
      const auto trips = Walker(*f).run();
      ASSERT_EQ(trips.size(), static_cast<std::size_t>(2 * 3 * c.height * c.width));
      std::size_t inside = 0;
      for (const auto& [offset, of] : trips) {
        const std::int64_t h = offset / c.width % c.height, w = offset % c.width;
        const std::int64_t terms = 4 * windows(h, p) * windows(w, q);
        ASSERT_EQ(of.added, terms) << guards << " at " << h << ", " << w << "\n" << toText(*f).text;
        const bool border = h < c.window || w < c.window || h >= c.height - c.window || w >= c.width - c.window;
        if (!border) { ASSERT_EQ(of.visited, terms) << guards << " at " << h << ", " << w << "\n" << toText(*f).text; }
        inside += border ? 0 : 1;
      }
      EXPECT_GT(inside, 0u);
    }
  }
}

// A random operator: reads at affine places, quotients and remainders of its axes, under bounds of the tensors, congruences and
// alternatives; sums, maxima and plain ones.
Program randomOperator(std::mt19937_64& rng) {
  const auto between = [&](std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(hi - lo + 1));
  };
  test::Builder b;
  std::vector<std::int64_t> shape, reduced, extents;
  for (std::int64_t k = between(1, 3); k > 0; --k) shape.push_back(between(1, 9));
  const int kind = static_cast<int>(between(0, 9));
  const Reducer reducer = kind < 7 ? Reducer::Sum : kind < 8 ? Reducer::Max : kind < 9 ? Reducer::ArgMax : Reducer::None;
  if (reducer != Reducer::None)
    for (std::int64_t k = between(1, 2); k > 0; --k) reduced.push_back(between(1, 5));
  extents = shape;
  extents.insert(extents.end(), reduced.begin(), reduced.end());
  const RangeOf ranges = rangesOf(std::span<const std::int64_t>(extents));
  const auto linear = [&](const std::vector<IndexExpr>& v) {
    IndexExpr e = between(-2, 3);
    for (std::size_t k = between(1, 2); k > 0; --k)
      e = e + between(-2, 3) * v[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(v.size()) - 1))];
    return e;
  };
  const auto quasiAffine = [&](const std::vector<IndexExpr>& v) {
    switch (between(0, 3)) {
      case 0: return linear(v);
      case 1: return floorDiv(linear(v), between(2, 4)) - between(0, 1) * linear(v);
      case 2: return floorMod(linear(v), between(2, 4)) + between(0, 2) * linear(v);
      default: return floorDiv(linear(v), between(2, 3)) + between(-1, 1) * floorMod(linear(v), between(2, 4));
    }
  };
  std::vector<IndexCond> guards;
  b.output(b.op(
      "Y", shape, reduced, reducer,
      [&](const std::vector<IndexExpr>& v) {
        const auto read = [&](const char* name) {
          std::vector<std::int64_t> of;
          std::vector<IndexExpr> at;
          for (std::int64_t k = between(1, 2); k > 0; --k) {
            const IndexExpr e = simplify(quasiAffine(v), ranges);
            const Range range = *bounds(e, ranges);
            // Whole, or cut off at either end.
            const std::int64_t lo = range.lo + (range.extent() > 2 ? between(0, 1) * between(0, range.extent() / 2 - 1) : 0);
            const std::int64_t hi = std::max(lo, range.hi - between(0, 1) * between(0, range.extent() / 3));
            if (lo > range.lo) guards.push_back(IndexCond::ge0(e - IndexExpr(lo)));
            if (hi < range.hi) guards.push_back(IndexCond::ge0(IndexExpr(hi) - e));
            of.push_back(hi - lo + 1);
            at.push_back(e - IndexExpr(lo));
          }
          return b.at(b.input(name, of), at);
        };
        ExprId body = b.p.binary(ScalarOp::Mul, read("A"), read("B"));
        if (between(0, 3) == 0) guards.push_back(IndexCond::eq0(floorMod(linear(v), between(2, 3))));
        if (between(0, 4) == 0)
          guards.push_back(IndexCond::any({IndexCond::ge0(linear(v)), IndexCond::eq0(floorMod(linear(v), 2))}));
        if (!guards.empty()) body = b.p.select(b.p.cond(IndexCond::all(guards)), body, b.p.constant(0));
        return body;
      },
      reducer == Reducer::ArgMax ? DType::I32 : DType::F32));
  return std::move(b.p);
}

TEST(Phases, SplitNestsOfRandomOperatorsAreTheWholeOnes) {
  const std::uint64_t seed = test::freshSeed();
  std::mt19937_64 rng(seed);
  std::map<std::string, std::size_t> seen;
  for (int i = 0; i < 200; ++i) {
    const Program p = randomOperator(rng);
    const TensorValues inputs = test::randomInputs(p, rng);
    const auto prepared = ReferenceProgram::prepare(p, {p.outputs[0].tensor});
    ASSERT_TRUE(prepared.ok());
    const auto want = prepared->run(inputs);
    ASSERT_TRUE(want.ok()) << want.error().message << ", seed " << seed << ", operator " << i;
    const auto group = viewGroup(p);
    ASSERT_TRUE(group.ok());
    const auto space = nestSpace(p, *group, wideTarget());
    const auto check = [&](const Schedule& s) {
      const std::string wrong = test::compareLoops(p, s, wideTarget(), inputs, want, {});
      const auto f = space->lower(s);
      ASSERT_EQ(wrong, "") << "seed " << seed << ", operator " << i << ", " << s.text() << "\n" << (f ? toText(*f).text : "");
    };
    for (const char* axes : {"own", "phases"})
      for (const char* guards : {"tested", "peeled"}) {
        const Schedule s = plain(*space, {{"axes", axes}, {"guards", guards}});
        if (!space->check(s).ok()) continue;  // nothing to split, or to peel off, with these axes
        if (hasKnob(*space, "axes")) ++seen[axes];
        if (hasKnob(*space, "guards")) ++seen[guards];
        check(s);
      }
    for (int k = 0; k < 4; ++k) check(space->random(rng));
  }
  for (const char* what : {"own", "phases", "tested", "peeled"}) EXPECT_GT(seen[what], 5u) << what << ", seed " << seed;
}

// An operator that is no gradient: its guard is a congruence, so one class adds everything and the others nothing.
TEST(Phases, ClassesWithoutTermsHaveNoLoops) {
  test::Builder b;
  const TensorId x = b.input("X", {10}), y = b.input("Y", {10});
  b.output(b.op("Z", {10}, {10}, Reducer::Sum, [&](const auto& v) {
    const IndexCond same = IndexCond::all({IndexCond::eq0(floorMod(v[0] + v[1], 2)), IndexCond::eq0(floorMod(v[0], 2))});
    return b.p.select(b.p.cond(same), b.p.binary(ScalarOp::Mul, b.at(x, {v[0]}), b.at(y, {v[1]})), b.p.constant(0));
  }));
  const auto group = viewGroup(b.p);
  const auto space = nestSpace(b.p, *group, wideTarget());
  const auto f = space->lower(plain(*space, {{"axes", "phases"}}));
  ASSERT_TRUE(f.ok()) << f.error().message;
  for (const auto& [offset, of] : Walker(*f).run()) {
    EXPECT_EQ(of.added, offset % 2 == 0 ? 5 : 0) << toText(*f).text;
    if (offset % 2 != 0) { EXPECT_EQ(of.visited, 0) << toText(*f).text; }
  }
}

}  // namespace
}  // namespace nf::loop
