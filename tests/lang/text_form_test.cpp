// SPDX-License-Identifier: Apache-2.0
// parse(toText(p)) gives p again: for random programs, the standard library and the examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "core/ir/structural_hash.h"
#include "core/ir/verify.h"
#include "core/lang/compile.h"

namespace nf {
namespace {

// A random Program over all that one can hold.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : m_random(seed) {}

  Program program() {
    Program p;
    const int given = pick(2, 5);
    for (int i = 0; i < given; ++i) p.addTensor(givenTensor(p, i));
    Tensor places = tensor(p, "idx", {pick(2, 4)}, DType::I32);
    places.kind = TensorKind::Input;
    p.addTensor(places);
    if (chance(30)) p.data.push_back({"D", {.kind = Initializer::Kind::Csv, .strings = {"a.csv"}}, {}, 12, {}});
    fill(p, pick(2, 7), {}, 0);
    if (chance(60)) derivative(p);
    std::vector<TensorId> all;
    for (std::size_t t = 0; t < p.tensors.size(); ++t) all.push_back(TensorId(t));
    for (const TensorId t : all) {
      if (p[t].kind == TensorKind::State || p[t].kind == TensorKind::Param)
        for (const TensorId v : all)
          if (v != t && p[v].shape == p[t].shape && p[v].type == p[t].type && chance(40)) {
            p.updates.push_back({t, v, {}});
            break;
          }
      if (chance(30))
        p.outputs.push_back(
            {chance(50) ? p[t].name : "label " + std::to_string(t.value), t, chance(50) ? OutputRole::Show : OutputRole::Named});
      if (p[t].shape.empty() && isFloating(p[t].type) && chance(50))
        p.outputs.push_back({p[t].name, t, chance(50) ? OutputRole::Loss : OutputRole::Eval});
    }
    std::vector<std::string> made;
    for (const Tensor& t : p.tensors)
      if (t.kind == TensorKind::Intermediate) made.push_back(t.name);
    if (made.size() > 1 && chance(30)) p.hints.push_back({Hint::Kind::Fuse, {made[0], made[1]}, {}, {}});
    if (chance(30))
      p.hints.push_back(
          {Hint::Kind::Schedule, {p.tensors.back().name}, R"({"kind":"fake","knobs":{"tile":[4,8]},"version":1})", {}});
    return p;
  }

 private:
  std::int64_t pick(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(m_random() % static_cast<std::uint64_t>(hi - lo + 1));
  }
  bool chance(int percent) { return pick(0, 99) < percent; }
  template <class T>
  const T& one(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(from.size()) - 1))];
  }

  Tensor tensor(const Program& p, const std::string& name, std::vector<std::int64_t> shape, DType type) {
    static const std::vector<std::string> kOdd{"block3.conv1.F",    "d(L)/d(W)", "d(L)/d(Y)#2", "two words", "max", "λ",
                                               "d(a)/d(d(b)/d(c))", "Y#2"};
    Tensor t;
    t.name = p.freshName(chance(30) ? one(kOdd) : name);
    t.shape = std::move(shape);
    t.type = type;
    if (t.shape.size() > 1 && chance(15)) {
      for (std::uint32_t i = 0; i < t.shape.size(); ++i) t.layout.order.push_back(i);
      std::reverse(t.layout.order.begin(), t.layout.order.end());
    }
    return t;
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> s;
    for (std::int64_t n = pick(0, 3); n > 0; --n) s.push_back(pick(1, 5));
    return s;
  }

  Tensor givenTensor(const Program& p, int i) {
    Tensor t = tensor(p, "A" + std::to_string(i), shape(),
                      one<DType>({DType::F32, DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32}));
    t.kind = one<TensorKind>({TensorKind::Input, TensorKind::Param, TensorKind::Const, TensorKind::State});
    t.init = one<Initializer>({{},
                               {.kind = Initializer::Kind::Zeros},
                               {.kind = Initializer::Kind::Constant, .numbers = {0.1}},
                               {.kind = Initializer::Kind::Normal, .numbers = {-1, 1e-9}},
                               {.kind = Initializer::Kind::Uniform, .numbers = {-1.0 / 3, 1.0 / 3}},
                               {.kind = Initializer::Kind::Kaiming, .numbers = {27, 64}},
                               {.kind = Initializer::Kind::Npz, .strings = {"a b.npz", "W"}}});
    if (t.type == DType::I32 && t.init.kind == Initializer::Kind::Constant) t.init.numbers = {-7};
    return t;
  }

  // What an operator under construction may use.
  struct At {
    Program& p;
    std::vector<std::int64_t> extents;
    std::vector<std::int64_t> trips;
  };

  std::pair<IndexVar, std::int64_t> variable(const At& at) {
    const std::int64_t i = pick(0, static_cast<std::int64_t>(at.extents.size() + at.trips.size()) - 1);
    const std::size_t k = static_cast<std::size_t>(i);
    if (k < at.extents.size()) return {static_cast<IndexVar>(k), at.extents[k]};
    return {kLoopVariable + static_cast<IndexVar>(k - at.extents.size()), at.trips[k - at.extents.size()]};
  }

  // An expression that stays in [0, size).
  IndexExpr index(const At& at, std::int64_t size) {
    if (at.extents.empty() && at.trips.empty()) return IndexExpr(pick(0, size - 1));
    for (int tries = 0; tries < 6; ++tries) {
      const auto [v, n] = variable(at);
      const IndexExpr x = IndexExpr::variable(v);
      switch (pick(0, 5)) {
        case 0:
        case 1:
          if (n <= size) return x;
          break;
        case 2:
          if (n <= size) return IndexExpr(size - 1) - x;
          break;
        case 3: {
          const std::int64_t d = pick(2, 4);
          if ((n - 1) / d < size) return floorDiv(x, d);
          break;
        }
        case 4: {
          const std::int64_t d = pick(2, 4);
          if (d <= size) return floorMod(x + IndexExpr(pick(0, 3)), d);
          break;
        }
        default:
          if (2 * (n - 1) + 1 < size) return 2 * x + IndexExpr(1);
          break;
      }
    }
    return IndexExpr(pick(0, size - 1));
  }

  IndexExpr anyIndex(const At& at) {
    if (at.extents.empty() && at.trips.empty()) return IndexExpr(pick(-3, 3));
    const auto [v, n] = variable(at);
    const auto [w, m] = variable(at);
    return pick(-2, 3) * IndexExpr::variable(v) + floorDiv(pick(1, 3) * IndexExpr::variable(w), pick(2, 3)) +
           IndexExpr(pick(-3, 3));
  }

  ExprId load(const At& at, bool integers) {
    std::vector<TensorId> fitting;
    for (std::size_t t = 0; t < at.p.tensors.size(); ++t)
      if ((at.p.tensors[t].type == DType::I32) == integers) fitting.push_back(TensorId(t));
    if (fitting.empty()) return {};
    const TensorId t = one(fitting);
    std::vector<AccessIndex> where;
    for (std::size_t k = 0; k < at.p[t].shape.size(); ++k) {
      AccessIndex i;
      if (!integers && chance(10)) i.data = dataIndex(at);
      if (!i.data.valid()) i.affine = index(at, at.p[t].shape[k]);
      where.push_back(std::move(i));
    }
    return at.p.load(t, std::move(where));
  }

  // Read data, alone, under arithmetic of its own 32 bits, and in the 64 bits of indices.
  ExprId dataIndex(const At& at) {
    const ExprId read = load(at, true);
    if (!read.valid() || chance(40)) return read;
    const auto narrow = [&] { return at.p.binary(ScalarOp::Mul, read, at.p.constant(3, DType::I32)); };
    if (chance(30)) return narrow();
    const ExprId second = chance(50) ? at.p.constant(static_cast<double>(pick(1, 100000)), DType::I64)
                                     : at.p.cast(DType::I64, chance(50) ? read : narrow());
    const ExprId wide = at.p.binary(one<ScalarOp>({ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::FloorDiv, ScalarOp::Mod,
                                                   ScalarOp::Max, ScalarOp::Min}),
                                    at.p.cast(DType::I64, read), second);
    if (chance(50) || at.extents.size() + at.trips.size() == 0) return wide;
    return at.p.binary(ScalarOp::Add, wide, at.p.indexValue(IndexExpr::variable(variable(at).first), DType::I64));
  }

  ExprId condition(const At& at, int depth) {
    if (const ExprId i = chance(10) ? dataIndex(at) : ExprId(); i.valid())
      return at.p.binary(ScalarOp::Lt, i, at.p.constant(5, at.p[i].type));
    switch (depth <= 0 ? pick(0, 2) : pick(0, 5)) {
      case 0:
      case 1: {
        const IndexExpr e = anyIndex(at);
        return chance(50) ? at.p.condGe0(e) : at.p.condEq0(e);
      }
      case 2: {
        const ExprId a = value(at, 0), b = value(at, 0);
        return at.p.binary(one<ScalarOp>({ScalarOp::Lt, ScalarOp::Le, ScalarOp::Eq, ScalarOp::Ne}), a, b);
      }
      case 3: return at.p.unary(ScalarOp::Not, condition(at, depth - 1));
      default: {
        const ExprId a = condition(at, depth - 1), b = condition(at, depth - 1);
        return at.p.binary(chance(50) ? ScalarOp::And : ScalarOp::Or, a, b);
      }
    }
  }

  ExprId value(const At& at, int depth) {
    if (depth <= 0) {
      switch (pick(0, 5)) {
        case 0: return at.p.constant(one<double>({0, 1, -2, 0.5, 1e-8, -0.125, 1e30, 3}), chance(80) ? DType::F32 : DType::F64);
        case 1: {
          const IndexExpr e = anyIndex(at);
          const DType type = chance(70) ? DType::F32 : DType::I32;
          return at.p.indexValue(e, type);
        }
        case 2: return at.p.random(pick(0, 9), anyIndex(at));
        default:
          if (const ExprId e = load(at, chance(15)); e.valid()) return e;
          return at.p.constant(1);
      }
    }
    switch (pick(0, 7)) {
      case 0: {
        ExprId a = value(at, depth - 1);
        if (at.p[a].type == DType::I32) a = at.p.cast(DType::F32, a);
        return at.p.unary(one<ScalarOp>({ScalarOp::Exp, ScalarOp::Tanh, ScalarOp::Sqrt, ScalarOp::Sigmoid, ScalarOp::StopGradient}),
                          a);
      }
      case 1: return at.p.unary(one<ScalarOp>({ScalarOp::Neg, ScalarOp::Relu, ScalarOp::Abs}), value(at, depth - 1));
      case 2: {
        const ExprId c = condition(at, 2);
        const ExprId a = value(at, depth - 1), b = value(at, depth - 1);
        return at.p.select(c, a, b);
      }
      case 3:
        return at.p.cast(one<DType>({DType::F32, DType::F64, DType::F16, DType::I32}),
                         at.p.unary(ScalarOp::Abs, value(at, depth - 1)));
      case 4: {
        const ExprId shared = value(at, depth - 1);
        return at.p.binary(ScalarOp::Mul, shared, at.p.unary(ScalarOp::Neg, shared));
      }
      default: {
        const ExprId a = value(at, depth - 1), b = value(at, depth - 1);
        return at.p.binary(one<ScalarOp>({ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Div, ScalarOp::Pow, ScalarOp::Max,
                                          ScalarOp::Min}),
                           a, b);
      }
    }
  }

  void gather(Program& p, const std::vector<std::int64_t>& trips) {
    Operator op;
    static const std::vector<std::string> kNames{"i", "j", "k", "A0", "b", "odd name"};
    const std::size_t outputs = static_cast<std::size_t>(pick(0, 3)),
                      reduced = chance(50) ? static_cast<std::size_t>(pick(1, 2)) : 0;
    std::vector<std::int64_t> out;
    At at{p, {}, trips};
    for (std::size_t a = 0; a < outputs + reduced; ++a) {
      op.axes.push_back({kNames[a], pick(1, 5), {}});
      at.extents.push_back(op.axes.back().extent);
      if (a < outputs) out.push_back(op.axes.back().extent);
    }
    op.outputRank = static_cast<std::uint32_t>(outputs);
    if (reduced > 0)
      op.reducer =
          one<Reducer>({Reducer::Sum, Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min, Reducer::ArgMax, Reducer::ArgMin});
    op.tiesEven = op.reducer == Reducer::Max && chance(30);
    op.phase = one<Phase>({Phase::Forward, Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Evaluation});
    op.body = value(at, static_cast<int>(pick(0, 4)));
    const bool arg = op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin;
    DType type = arg ? DType::I32 : arithmeticType(p[op.body].type);
    if (!arg && type == DType::F32 && chance(20)) type = DType::F16;
    if (!arg && type == DType::F64 && chance(30)) type = DType::F32;
    op.output = p.addTensor(tensor(p, "Y" + std::to_string(p.operators.size()), out, type));
    op.name = p[op.output].name;
    p.addOperator(std::move(op));
  }

  void scatter(Program& p, const std::vector<std::int64_t>& trips) {
    Operator op;
    op.kind = OperatorKind::Scatter;
    At at{p, {}, trips};
    for (std::int64_t a = pick(1, 2); a > 0; --a) {
      op.axes.push_back({std::string(1, static_cast<char>('m' + a)), pick(1, 4), {}});
      at.extents.push_back(op.axes.back().extent);
    }
    op.body = value(at, 2);
    if (p[op.body].type == DType::I32) op.body = p.cast(DType::F32, op.body);
    std::vector<std::int64_t> out;
    for (std::int64_t k = pick(1, 2); k > 0; --k) {
      out.push_back(pick(2, 6));
      AccessIndex i;
      if (chance(50)) i.data = dataIndex(at);
      if (!i.data.valid()) i.affine = index(at, out.back());
      op.scatter.push_back(std::move(i));
    }
    op.output = p.addTensor(tensor(p, "S" + std::to_string(p.operators.size()), out, arithmeticType(p[op.body].type)));
    op.name = p[op.output].name;
    p.addOperator(std::move(op));
  }

  void loop(Program& p, const std::vector<std::int64_t>& trips, int depth) {
    Loop l;
    l.trips = pick(1, 4);
    l.reversed = chance(30);
    l.depth = static_cast<std::uint32_t>(trips.size());
    l.counter = chance(50) ? "t" : "i";
    auto body = std::make_shared<Program>();
    std::vector<std::int64_t> inside = trips;
    inside.push_back(l.trips);
    const auto copyIn = [&](TensorId outer) {
      Tensor t;
      t.name = body->freshName(p[outer].name);
      t.type = p[outer].type;
      t.shape = p[outer].shape;
      t.kind = TensorKind::Input;
      return body->addTensor(t);
    };
    // A carried tensor that the body may leave alone, one it makes anew, invariants in any order.
    std::vector<TensorId> carried;
    for (std::int64_t n = pick(1, 2); n > 0; --n) {
      const TensorId initial(static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(p.tensors.size()) - 1)));
      const TensorId in = copyIn(initial);
      l.carried.push_back({initial, in, in, {}});
    }
    std::vector<TensorId> outer;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (chance(50)) outer.push_back(TensorId(t));
    std::shuffle(outer.begin(), outer.end(), m_random);
    for (const TensorId t : outer) {
      const TensorId inner = copyIn(t);
      body->tensors[inner.value].layout = p[t].layout;
      l.invariants.push_back({t, inner});
    }
    fill(*body, pick(1, 4), inside, depth + 1);
    for (auto& c : l.carried) {
      std::vector<TensorId> same;
      for (std::size_t t = 0; t < body->tensors.size(); ++t)
        if (body->tensors[t].shape == p[c.initial].shape && body->tensors[t].type == p[c.initial].type) same.push_back(TensorId(t));
      c.innerOut = one(same);
      if (depth == 0 && chance(70))
        c.last = p.addTensor([&] {
          Tensor t = tensor(p, "last", p[c.initial].shape, p[c.initial].type);
          t.layout = {};
          return t;
        }());
    }
    const std::size_t made = body->tensors.size();
    for (std::int64_t n = pick(0, 2); n > 0; --n) {
      const TensorId inner(static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(made) - 1)));
      std::vector<std::int64_t> s = (*body)[inner].shape;
      s.insert(s.begin(), l.trips);
      l.stacked.push_back({inner, p.addTensor(tensor(p, "stack", s, (*body)[inner].type))});
    }
    if (chance(40)) {
      const TensorId inner(made - 1);
      l.accumulated.push_back({inner, p.addTensor(tensor(p, "total", (*body)[inner].shape, (*body)[inner].type))});
    }
    l.body = body;
    p.loops.push_back(std::move(l));
    Operator op;
    op.kind = OperatorKind::Loop;
    op.name = "loop";
    op.loop = LoopId(p.loops.size() - 1);
    p.addOperator(std::move(op));
    // Every value after the loop is read: the text has none that nobody reads.
    for (const auto& c : p.loops.back().carried)
      if (c.last.valid()) p.outputs.push_back({p[c.last].name, c.last, OutputRole::Named});
  }

  void fill(Program& p, std::int64_t operators, const std::vector<std::int64_t>& trips, int depth) {
    for (; operators > 0; --operators) {
      const std::int64_t kind = pick(0, 9);
      if (kind == 0) scatter(p, trips);
      else if (kind == 1 && depth < 2) loop(p, trips, depth);
      else gather(p, trips);
    }
    if (depth > 0) p.outputs.clear();
  }

  void derivative(Program& p) {
    std::vector<TensorId> real;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (isFloating(p.tensors[t].type)) real.push_back(TensorId(t));
    for (std::int64_t n = pick(1, 3); n > 0 && !real.empty(); --n) {
      const TensorId of = one(real), wrt = one(real);
      // Asking twice for one derivative is asking once.
      if (std::any_of(p.derivatives.begin(), p.derivatives.end(), [&](const Derivative& d) { return d.of == of && d.wrt == wrt; }))
        continue;
      TensorId seed;
      if (!p[of].shape.empty()) {
        Tensor s;
        s.name = p.freshName("d" + p[of].name);
        s.shape = p[of].shape;
        s.kind = TensorKind::Input;
        seed = p.addTensor(s);
      }
      Tensor r;
      r.name = p.freshName(chance(60) ? "d(" + p[of].name + ")/d(" + p[wrt].name + ")" : "G");
      r.shape = p[wrt].shape;
      r.type = p[wrt].type;
      p.derivatives.push_back({of, wrt, p.addTensor(r), seed, {}});
    }
    if (chance(50)) gather(p, {});
  }

  std::mt19937_64 m_random;
};

void expectRoundTrip(const Program& p, const std::string& what) {
  const std::string text = toText(p);
  const CompiledNotebook back = compileNotebook({"text form", {}, text});
  Diagnostics errors;
  for (const Diagnostic& d : back.diagnostics)
    if (d.severity == Severity::Error) errors.push_back(d);
  ASSERT_EQ(render(errors, back.sources), "") << what << "\n" << text;
  ASSERT_EQ(verify(back.program, Stage::Source), std::vector<std::string>{}) << what << "\n" << text;
  for (std::size_t i = 0; i < std::min(p.operators.size(), back.program.operators.size()); ++i)
    ASSERT_EQ(structuralHash(p, OperatorId(i)).hex(), structuralHash(back.program, OperatorId(i)).hex())
        << what << " operator " << i << "\n"
        << toText(p, OperatorId(i)) << "\n"
        << toText(back.program, OperatorId(i));
  ASSERT_EQ(structuralHash(p).hex(), structuralHash(back.program).hex()) << what << "\n"
                                                                         << text << "\nread back:\n"
                                                                         << toText(back.program);
  ASSERT_EQ(p.hints.size(), back.program.hints.size()) << what;
  for (std::size_t i = 0; i < p.hints.size(); ++i) EXPECT_EQ(p.hints[i].attributes, back.program.hints[i].attributes) << what;
  ASSERT_EQ(p.data.size(), back.program.data.size()) << what;
  ASSERT_EQ(p.operators.size(), back.program.operators.size()) << what;
  for (std::size_t i = 0; i < p.operators.size(); ++i)
    EXPECT_EQ(p.operators[i].phase, back.program.operators[i].phase) << what << "\n" << text;
  const auto given = [](const Program& program) {
    std::vector<TensorId> list;
    for (std::size_t i = 0; i < program.tensors.size(); ++i)
      if (program.tensors[i].kind != TensorKind::Intermediate) list.emplace_back(i);
    return list;
  };
  const std::vector<TensorId> ours = given(p), theirs = given(back.program);
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const Tensor &t = p[ours[i]], &twin = back.program[theirs[i]];
    // The name of a start is the loop's: what it was before has a number.
    const bool starts = std::ranges::any_of(p.loops, [&](const Loop& loop) {
      return std::ranges::any_of(loop.carried, [&](const Loop::Carried& c) { return c.initial == ours[i]; });
    });
    const auto stem = [&](const std::string& name) { return starts ? name.substr(0, name.find('#')) : name; };
    EXPECT_EQ(stem(twin.name), stem(t.name)) << what << "\n" << text;
    EXPECT_EQ(twin.kind, t.kind) << what << " " << t.name;
    EXPECT_TRUE(twin.init == t.init) << what << " " << t.name;
  }
}

// NF_SEED=n replays one program; NF_PROGRAMS=n asks for more.
TEST(TextForm, RandomProgramsRoundTrip) {
  std::uint64_t first = 1, count = 600;
  if (const char* n = std::getenv("NF_PROGRAMS")) count = std::strtoull(n, nullptr, 10);
  if (const char* s = std::getenv("NF_SEED")) {
    first = std::strtoull(s, nullptr, 10);
    count = 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Generator generator(seed);
    const Program p = generator.program();
    ASSERT_EQ(verify(p, Stage::Source), std::vector<std::string>{}) << "NF_SEED=" << seed;
    expectRoundTrip(p, "NF_SEED=" + std::to_string(seed));
    if (testing::Test::HasFatalFailure()) return;
  }
}

std::string fileText(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(TextForm, ExamplesRoundTripAndHaveNoMistakes) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NF_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".nf") continue;
    ++found;
    for (const bool training : {true, false}) {
      CompileOptions options;
      options.training = training;
      const CompiledNotebook c = compileNotebook({entry.path().filename().string(), {}, fileText(entry.path())}, options);
      EXPECT_EQ(render(c.diagnostics, c.sources), "");
      EXPECT_EQ(verify(c.program, Stage::Source), std::vector<std::string>{});
      expectRoundTrip(c.program, entry.path().string());
    }
  }
  EXPECT_GE(found, 4);
}

// A pass removes what nobody needs, and with it the hints that name it.
TEST(TextForm, HintsOfWhatIsGoneAreNotWritten) {
  Program p = compileNotebook({"test.nf", {}, "input X[3]\nY[i] = X[i] * 2\nZ[i] = Y[i] + 1\nshow Z\nhint fuse Y, Z\n"}).program;
  EXPECT_NE(toText(p).find("hint fuse Y, Z"), std::string::npos);
  p.hints[0].tensors[0] = "gone";
  EXPECT_EQ(toText(p).find("hint"), std::string::npos);
  expectRoundTrip(compileNotebook({"test.nf", {}, toText(p)}).program, "without hints");
}

TEST(TextForm, StandardLibraryRoundTrips) {
  for (const bool training : {true, false}) {
    CompileOptions options;
    options.training = training;
    const CompiledNotebook c =
        compileNotebook({"standard_library.nf", {}, fileText(NF_SOURCE_DIR "/tests/lang/standard_library.nf")}, options);
    EXPECT_EQ(render(c.diagnostics, c.sources), "");
    EXPECT_EQ(verify(c.program, Stage::Source), std::vector<std::string>{});
    expectRoundTrip(c.program, "standard library");
  }
}

}  // namespace
}  // namespace nf
