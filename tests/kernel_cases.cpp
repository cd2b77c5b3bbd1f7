// SPDX-License-Identifier: Apache-2.0
#include "tests/kernel_cases.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"

namespace nf::test {

TensorId Builder::input(const std::string& name, std::vector<std::int64_t> shape, DType type) {
  Tensor t;
  t.name = name;
  t.kind = TensorKind::Input;
  t.type = type;
  t.shape = std::move(shape);
  return p.addTensor(std::move(t));
}

TensorId Builder::op(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int64_t> reduced, Reducer reducer,
                     const std::function<ExprId(const std::vector<IndexExpr>&)>& body, DType type) {
  Operator op;
  op.name = name;
  op.reducer = reducer;
  op.outputRank = static_cast<std::uint32_t>(shape.size());
  std::vector<IndexExpr> variables;
  for (const std::int64_t extent : shape) op.axes.push_back({"i" + std::to_string(op.axes.size()), extent, {}});
  for (const std::int64_t extent : reduced) op.axes.push_back({"r" + std::to_string(op.axes.size()), extent, {}});
  for (std::size_t v = 0; v < op.axes.size(); ++v) variables.push_back(IndexExpr::variable(static_cast<IndexVar>(v)));
  op.body = body(variables);
  Tensor t;
  t.name = name;
  t.type = type;
  t.shape = std::move(shape);
  op.output = p.addTensor(std::move(t));
  p.addOperator(op);
  return op.output;
}

ExprId Builder::at(TensorId t, const std::vector<IndexExpr>& indices) {
  std::vector<AccessIndex> access;
  for (const IndexExpr& e : indices) access.push_back({e, {}});
  return p.load(t, std::move(access));
}

void Builder::output(TensorId t) { p.outputs.push_back({p[t].name, t, OutputRole::Named}); }

std::uint64_t freshSeed() {
  const char* given = std::getenv("NF_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("NF_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TensorValues randomInputs(const Program& p, std::mt19937_64& rng, int integerLimit) {
  TensorValues values;
  const auto made = producers(p);
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (made[t].valid()) continue;
    TensorData data{p.tensors[t].type, p.tensors[t].shape, {}};
    for (std::int64_t i = 0; i < p.tensors[t].elements(); ++i) {
      if (data.type == DType::I32) data.values.push_back(static_cast<double>(rng() % static_cast<unsigned>(integerLimit)));
      else data.values.push_back((static_cast<double>(rng() % 129) - 64) / 64);
    }
    values[TensorId(t)] = std::move(data);
  }
  return values;
}

std::string compareLoops(const Program& p, const Schedule& schedule, const Target& target, const TensorValues& inputs,
                         const Result<TensorValues>& want, std::span<const std::int64_t> counters) {
  const auto loops = lower(p, schedule, target);
  if (!loops) return loops.error().message;
  const auto problems = loop::verify(*loops);
  if (!problems.empty()) return "verifier: " + problems.front();
  std::vector<std::vector<double>> operands;
  for (const auto& [id, data] : inputs) operands.push_back(data.values);
  for (const Output& o : p.outputs) operands.emplace_back(static_cast<std::size_t>(p[o.tensor].elements()), 0.0);
  const auto ran = loop::interpret(*loops, {&operands, counters, 7, 3});
  if (ran.ok() != want.ok()) return ran.ok() ? "the loops ran, the reference did not" : ran.error().message;
  if (!ran.ok()) return {};
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    const auto& expected = want->at(p.outputs[o].tensor).values;
    const auto& got = operands[inputs.size() + o];
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!(std::fabs(got[i] - expected[i]) <= 1e-9 * (1 + std::fabs(expected[i]))) && !(got[i] == expected[i]))
        return "interpreted loops: " + p.outputs[o].name + "[" + std::to_string(i) + "] is " + std::to_string(got[i]) +
               ", expected " + std::to_string(expected[i]);
  }
  return {};
}

namespace {

IndexCond inside(const IndexExpr& e, std::int64_t extent) {
  return IndexCond::all({IndexCond::ge0(e), IndexCond::ge0(IndexExpr(extent - 1) - e)});
}

}  // namespace

Program gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType left, DType right) {
  Builder b;
  const TensorId x = b.input("A", {m, k}, left), y = b.input("B", {k, n}, right);
  b.output(b.op("C", {m, n}, {k}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[2]}), b.at(y, {v[2], v[1]}));
  }));
  return b.p;
}

std::vector<Case> contractions() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Builder b) { cases.push_back({name, std::move(b.p)}); };
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{64, 64, 64}, {13, 37, 29}, {5, 100, 3}, {100, 3, 40}, {2, 8, 2}, {31, 64, 17}}) {
    const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    for (int form = 0; form < 3; ++form) {
      Builder b;
      const TensorId x = form == 2 ? b.input("A", {k, m}) : b.input("A", {m, k});
      const TensorId y = form == 1 ? b.input("B", {n, k}) : b.input("B", {k, n});
      b.output(b.op("C", {m, n}, {k}, Reducer::Sum, [&](const auto& v) {
        return b.p.binary(ScalarOp::Mul, form == 2 ? b.at(x, {v[2], v[0]}) : b.at(x, {v[0], v[2]}),
                          form == 1 ? b.at(y, {v[1], v[2]}) : b.at(y, {v[2], v[1]}));
      }));
      add("gemm " + shape + (form == 0 ? " NN" : form == 1 ? " NT" : " TN"), std::move(b));
    }
  }
  {
    Builder b;  // bias and tanh after, relu before, and the plain product is an output too
    const TensorId x = b.input("A", {20, 30}), y = b.input("B", {30, 40}), bias = b.input("bias", {40}),
                   more = b.input("more", {20, 40});
    const TensorId r = b.op("R", {20, 30}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Relu, b.at(x, v)); });
    const TensorId c = b.op("C", {20, 40}, {30}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(r, {v[0], v[2]}), b.at(y, {v[2], v[1]}));
    });
    const TensorId d = b.op("D", {20, 40}, {}, Reducer::None,
                            [&](const auto& v) { return b.p.binary(ScalarOp::Add, b.at(c, v), b.at(bias, {v[1]})); });
    const TensorId e = b.op("E", {20, 40}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Tanh, b.p.binary(ScalarOp::Mul, b.at(d, v), b.at(more, v)));
    });
    b.output(c);
    b.output(e);
    add("prologue and epilogue", std::move(b));
  }
  for (const auto& [stride, pad] : std::vector<std::array<std::int64_t, 2>>{{1, 0}, {1, 1}, {2, 0}, {2, 1}}) {
    const std::int64_t h = 10, o = (h + 2 * pad - 3) / stride + 1;
    Builder b;
    const TensorId x = b.input("X", {2, 5, h, h}), w = b.input("W", {18, 5, 3, 3});
    b.output(b.op("Y", {2, 18, o, o}, {5, 3, 3}, Reducer::Sum, [&](const auto& v) {
      const IndexExpr r = stride * v[2] + v[5] - IndexExpr(pad), c = stride * v[3] + v[6] - IndexExpr(pad);
      ExprId pixel = b.at(x, {v[0], v[4], r, c});
      if (pad > 0) pixel = b.p.select(b.p.cond(IndexCond::all({inside(r, h), inside(c, h)})), pixel, b.p.constant(0));
      return b.p.binary(ScalarOp::Mul, pixel, b.at(w, {v[1], v[4], v[5], v[6]}));
    }));
    add("conv stride " + std::to_string(stride) + " pad " + std::to_string(pad), std::move(b));
    Builder g;  // its weights' gradient
    const TensorId gx = g.input("X", {2, 5, h, h}), dy = g.input("dY", {2, 18, o, o});
    g.output(g.op("dW", {18, 5, 3, 3}, {2, o, o}, Reducer::Sum, [&](const auto& v) {
      const IndexExpr r = stride * v[5] + v[2] - IndexExpr(pad), c = stride * v[6] + v[3] - IndexExpr(pad);
      ExprId pixel = g.at(gx, {v[4], v[1], r, c});
      if (pad > 0) pixel = g.p.select(g.p.cond(IndexCond::all({inside(r, h), inside(c, h)})), pixel, g.p.constant(0));
      return g.p.binary(ScalarOp::Mul, g.at(dy, {v[4], v[0], v[5], v[6]}), pixel);
    }));
    add("dW stride " + std::to_string(stride) + " pad " + std::to_string(pad), std::move(g));
  }
  {
    Builder b;  // dX of a 3x3 stride 2: r = h%2 + 2t, p = h//2 - t, under a guard
    const TensorId dy = b.input("dY", {3, 18, 4, 4}), w = b.input("W", {18, 7, 3, 3});
    b.output(b.op("dX", {3, 7, 9, 9}, {18, 2, 2}, Reducer::Sum, [&](const auto& v) {
      const auto r = [&](const IndexExpr& z, const IndexExpr& t) { return floorMod(z, 2) + 2 * t; };
      const auto q = [&](const IndexExpr& z, const IndexExpr& t) { return floorDiv(z, 2) - t; };
      const ExprId guard =
          b.p.cond(IndexCond::all({IndexCond::ge0(IndexExpr(2) - r(v[2], v[5])), IndexCond::ge0(IndexExpr(2) - r(v[3], v[6])),
                                   inside(q(v[2], v[5]), 4), inside(q(v[3], v[6]), 4)}));
      return b.p.select(guard,
                        b.p.binary(ScalarOp::Mul, b.at(dy, {v[0], v[4], q(v[2], v[5]), q(v[3], v[6])}),
                                   b.at(w, {v[4], v[1], r(v[2], v[5]), r(v[3], v[6])})),
                        b.p.constant(0));
    }));
    add("dX stride 2", std::move(b));
  }
  // The same where the extents are whole numbers of residue classes; of one picture only the classes have rows.
  for (const auto& [batch, pad] : std::vector<std::array<std::int64_t, 2>>{{1, 0}, {1, 1}, {3, 1}}) {
    Builder b;
    const TensorId dy = b.input("dY", {batch, 18, 5, 5}), w = b.input("W", {18, 20, 3, 3}), scale = b.input("scale", {20});
    const TensorId dx = b.op("dX", {batch, 20, 10, 10}, {18, 2, 2}, Reducer::Sum, [&](const auto& v) {
      const auto r = [&](const IndexExpr& z, const IndexExpr& t) { return floorMod(z + IndexExpr(pad), 2) + 2 * t; };
      const auto q = [&](const IndexExpr& z, const IndexExpr& t) { return floorDiv(z + IndexExpr(pad), 2) - t; };
      const ExprId guard =
          b.p.cond(IndexCond::all({IndexCond::ge0(IndexExpr(2) - r(v[2], v[5])), IndexCond::ge0(IndexExpr(2) - r(v[3], v[6])),
                                   inside(q(v[2], v[5]), 5), inside(q(v[3], v[6]), 5)}));
      return b.p.select(guard,
                        b.p.binary(ScalarOp::Mul, b.at(dy, {v[0], v[4], q(v[2], v[5]), q(v[3], v[6])}),
                                   b.at(w, {v[4], v[1], r(v[2], v[5]), r(v[3], v[6])})),
                        b.p.constant(0));
    });
    b.output(dx);
    b.output(b.op("step", {batch, 20, 10, 10}, {}, Reducer::None,
                  [&](const auto& v) { return b.p.binary(ScalarOp::Mul, b.at(dx, v), b.at(scale, {v[1]})); }));
    add("dX stride 2 in classes, batch " + std::to_string(batch) + " pad " + std::to_string(pad), std::move(b));
  }
  {
    Builder b;  // votes: einsum bid, ined -> bine
    const TensorId u = b.input("U", {9, 6, 8}), w = b.input("W", {6, 10, 16, 8});
    b.output(b.op("V", {9, 6, 10, 16}, {8}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(u, {v[0], v[1], v[4]}), b.at(w, {v[1], v[2], v[3], v[4]}));
    }));
    add("votes", std::move(b));
  }
  {
    Builder b;  // capsule convolution
    const TensorId x = b.input("A", {1, 3, 9, 9, 4, 4}), w = b.input("W", {5, 3, 3, 3, 4, 4});
    b.output(b.op("Y", {1, 5, 4, 4, 4, 4}, {3, 3, 3, 4}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[6], 2 * v[2] + v[7], 2 * v[3] + v[8], v[4], v[9]}),
                        b.at(w, {v[1], v[6], v[7], v[8], v[9], v[5]}));
    }));
    add("capsule convolution", std::move(b));
  }
  {
    Builder b;  // dX of a 3x3 stride 2 over the output's places: tests on whole tiles, nested guards
    const TensorId dy = b.input("dY", {5, 24, 2, 2}), w = b.input("W", {24, 18, 3, 3});
    b.output(b.op("dX", {5, 18, 6, 6}, {24, 2, 2}, Reducer::Sum, [&](const auto& v) {
      const IndexExpr r = v[2] - 2 * v[5], s = v[3] - 2 * v[6];
      const ExprId product = b.p.binary(ScalarOp::Mul, b.at(dy, {v[0], v[4], v[5], v[6]}), b.at(w, {v[4], v[1], r, s}));
      const ExprId zero = b.p.constant(0);
      const ExprId inner = b.p.select(b.p.cond(IndexCond::all({inside(r, 3), inside(s, 3)})), product, zero);
      return b.p.select(b.p.cond(IndexCond::all({IndexCond::ge0(IndexExpr(4) - v[2]), IndexCond::ge0(IndexExpr(4) - v[3])})), inner,
                        zero);
    }));
    add("dX stride 2 by places", std::move(b));
  }
  {
    Builder b;  // Adam in the epilogue, its scalars beside the contraction
    const TensorId step = b.input("step", {}), x = b.input("A", {21, 20}), y = b.input("B", {21, 33}), w = b.input("W", {20, 33});
    const TensorId next = b.op("next", {}, {}, Reducer::None,
                               [&](const auto&) { return b.p.binary(ScalarOp::Add, b.at(step, {}), b.p.constant(2)); });
    const TensorId scale = b.op("scale", {}, {}, Reducer::None, [&](const auto&) {
      return b.p.binary(ScalarOp::Div, b.p.constant(1), b.p.binary(ScalarOp::Add, b.at(next, {}), b.p.constant(0.5)));
    });
    const TensorId g = b.op("G", {20, 33}, {21}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(x, {v[2], v[0]}), b.at(y, {v[2], v[1]}));
    });
    const TensorId m = b.op("M", {20, 33}, {}, Reducer::None,
                            [&](const auto& v) { return b.p.binary(ScalarOp::Mul, b.at(g, v), b.at(scale, {})); });
    b.output(next);
    b.output(m);
    b.output(b.op("W.next", {20, 33}, {}, Reducer::None,
                  [&](const auto& v) { return b.p.binary(ScalarOp::Sub, b.at(w, v), b.p.unary(ScalarOp::Tanh, b.at(m, v))); }));
    add("optimiser in the epilogue", std::move(b));
  }
  {
    Builder b;  // three factors, f16 operands, a scale of the rows
    const TensorId x = b.input("A", {12, 20}, DType::F16), y = b.input("B", {20, 33}, DType::BF16), s = b.input("s", {12});
    b.output(b.op("C", {12, 33}, {20}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[2]}), b.at(y, {v[2], v[1]})), b.at(s, {v[0]}));
    }));
    add("three factors", std::move(b));
  }
  return cases;
}

std::vector<Case> contractions(const std::vector<DType>& types) {
  std::vector<Case> cases = contractions();
  for (Case& c : cases) {
    std::size_t inputs = 0;
    for (Tensor& t : c.program.tensors) {
      if (t.kind != TensorKind::Input || t.type == DType::I32) continue;
      t.type = types[inputs++ % types.size()];
      c.name += " " + std::string(name(t.type));
    }
  }
  return cases;
}

std::vector<Case> nests() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Builder b) { cases.push_back({name, std::move(b.p)}); };
  const auto sub = [](Builder& b, ExprId l, ExprId r) { return b.p.binary(ScalarOp::Sub, l, r); };
  const auto mul = [](Builder& b, ExprId l, ExprId r) { return b.p.binary(ScalarOp::Mul, l, r); };
  const auto div = [](Builder& b, ExprId l, ExprId r) { return b.p.binary(ScalarOp::Div, l, r); };
  for (const Reducer reducer : {Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min, Reducer::ArgMax}) {
    Builder b;
    const TensorId x = b.input("X", {12, 5, 32, 10}), y = b.input("Y", {32, 10});
    const bool arg = reducer == Reducer::ArgMax;
    b.output(b.op(
        "R", {12, 32}, {5, 10}, reducer,
        [&](const auto& v) {
          return mul(b, b.at(x, {v[0], v[2], v[1], v[3]}), b.at(y, {v[1], v[3]}));
        },
        arg ? DType::I32 : DType::F32));
    add(std::string("reduction ") + std::string(name(reducer)), std::move(b));
  }
  {
    Builder b;  // several side by side
    const TensorId x = b.input("X", {24, 37});
    b.output(b.op("S", {24}, {37}, Reducer::Sum, [&](const auto& v) { return b.at(x, v); }));
    b.output(b.op("M", {24}, {37}, Reducer::Max, [&](const auto& v) { return b.p.unary(ScalarOp::Abs, b.at(x, v)); }));
    add("reductions side by side", std::move(b));
  }
  {
    Builder b;  // in 32 bits the index would be t % 2
    const TensorId x = b.input("X", {4, 21}), t = b.input("t", {37}, DType::I32);
    const auto whole = [&](double v) { return b.p.constant(v, DType::I64); };
    const auto large = [&](const auto& v) {
      const ExprId read = b.p.cast(DType::I64, b.at(t, {v[0]}));
      return b.p.binary(ScalarOp::Add, mul(b, read, whole(2147483649.0)), b.p.indexValue(0 * v[0], DType::I64));
    };
    b.output(b.op("N", {37, 21}, {}, Reducer::None, [&](const auto& v) {
      const ExprId i = large(v);
      const ExprId inside = b.p.binary(ScalarOp::And, b.p.binary(ScalarOp::Le, whole(0), i), b.p.binary(ScalarOp::Lt, i, whole(4)));
      return b.p.select(inside, b.p.load(x, {{{}, i}, {v[1], {}}}), b.p.constant(9));
    }));
    b.output(b.op("Q", {37, 21}, {}, Reducer::None, [&](const auto& v) {
      const ExprId q = b.p.binary(ScalarOp::FloorDiv, large(v), whole(2147483647.0));
      const ExprId r = b.p.binary(ScalarOp::Mod, b.p.unary(ScalarOp::Neg, large(v)), whole(4));
      const ExprId top = b.p.binary(ScalarOp::Max, b.p.binary(ScalarOp::Min, large(v), whole(3)), whole(1));
      return mul(b, mul(b, b.p.load(x, {{{}, q}, {v[1], {}}}), b.p.load(x, {{{}, r}, {v[1], {}}})),
                 b.p.load(x, {{{}, top}, {v[1], {}}}));
    }));
    add("index arithmetic beyond 32 bits", std::move(b));
  }
  for (const std::int64_t n : {10, 16, 33}) {
    Builder b;
    const TensorId x = b.input("X", {6, 8, n});
    const TensorId m = b.op("M", {6, 8}, {n}, Reducer::Max, [&](const auto& v) { return b.at(x, v); });
    const TensorId e = b.op("E", {6, 8, n}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Exp, sub(b, b.at(x, v), b.at(m, {v[0], v[1]})));
    });
    const TensorId s = b.op("S", {6, 8}, {n}, Reducer::Sum, [&](const auto& v) { return b.at(e, v); });
    const TensorId y = b.op("Y", {6, 8, n}, {}, Reducer::None, [&](const auto& v) {
      return div(b, b.at(e, v), b.at(s, {v[0], v[1]}));
    });
    b.output(s);
    b.output(y);
    add("softmax of " + std::to_string(n), std::move(b));
  }
  {
    Builder b;  // the only picture of a batch is read at 0 in place of the axis: its rows are shared all the same
    const TensorId x = b.input("X", {1, 48, 16});
    const IndexExpr zero(0);
    const TensorId m = b.op("M", {1, 48}, {16}, Reducer::Max, [&](const auto& v) { return b.at(x, v); });
    const TensorId e = b.op("E", {1, 48, 16}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Exp, sub(b, b.at(x, v), b.at(m, {zero, v[1]})));
    });
    const TensorId s = b.op("S", {1, 48}, {16}, Reducer::Sum, [&](const auto& v) { return b.at(e, {zero, v[1], v[2]}); });
    const TensorId y = b.op("Y", {1, 48, 16}, {}, Reducer::None, [&](const auto& v) {
      return div(b, b.at(e, {zero, v[1], v[2]}), b.at(s, {zero, v[1]}));
    });
    b.output(s);
    b.output(y);
    add("softmax of one picture", std::move(b));
  }
  {
    Builder b;  // votes that agree are routed together: all stages of one row share its votes
    const TensorId votes = b.input("Votes", {5, 32, 10, 16});
    const TensorId s = b.op("S", {5, 10, 16}, {32}, Reducer::Sum, [&](const auto& v) {
      return b.at(votes, {v[0], v[3], v[1], v[2]});
    });
    const TensorId q = b.op("Q", {5, 10}, {16}, Reducer::Sum, [&](const auto& v) {
      const ExprId e = b.at(s, v);
      return mul(b, e, e);
    });
    const TensorId u = b.op("U", {5, 10, 16}, {}, Reducer::None, [&](const auto& v) {
      // Squash: lengths below one, so that what follows keeps its digits.
      const ExprId length = b.at(q, {v[0], v[1]}), more = b.p.binary(ScalarOp::Add, length, b.p.constant(1));
      return div(b, mul(b, b.at(s, v), length), mul(b, more, b.p.unary(ScalarOp::Sqrt, more)));
    });
    const TensorId l = b.op("L", {5, 32, 10}, {16}, Reducer::Sum, [&](const auto& v) {
      return mul(b, b.at(votes, {v[0], v[1], v[2], v[3]}), b.at(u, {v[0], v[2], v[3]}));
    });
    const TensorId m = b.op("M", {5, 32}, {10}, Reducer::Max, [&](const auto& v) { return b.at(l, v); });
    const TensorId c = b.op("C", {5, 32, 10}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Tanh, sub(b, b.at(l, v), b.at(m, {v[0], v[1]})));
    });
    b.output(l);
    b.output(b.op("V", {5, 10, 16}, {32}, Reducer::Sum, [&](const auto& v) {
      return mul(b, b.at(c, {v[0], v[3], v[1]}), b.at(votes, {v[0], v[3], v[1], v[2]}));
    }));
    add("routing", std::move(b));
  }
  {
    Builder b;  // rows that shift inside: no rows can be shared
    const TensorId x = b.input("X", {9, 20});
    const TensorId s = b.op("S", {9}, {20}, Reducer::Sum, [&](const auto& v) { return b.at(x, v); });
    b.output(
        b.op("Y", {9, 20}, {}, Reducer::None, [&](const auto& v) { return sub(b, b.at(x, v), b.at(s, {IndexExpr(8) - v[0]})); }));
    add("reversed rows", std::move(b));
  }
  {
    Builder b;  // a costly value that many points read, under padding
    const TensorId x = b.input("X", {7}), z = b.input("Z", {11, 18});
    const TensorId e = b.op("E", {7}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Exp, b.at(x, v)); });
    b.output(b.op("Y", {11, 18}, {}, Reducer::None, [&](const auto& v) {
      const IndexExpr i = v[0] - IndexExpr(2);
      return b.p.binary(ScalarOp::Add, b.at(z, v), b.p.select(b.p.cond(inside(i, 7)), b.at(e, {i}), b.p.constant(0)));
    }));
    add("costly and padded", std::move(b));
  }
  for (const auto& [n, m] : std::vector<std::array<std::int64_t, 2>>{{16, 32}, {33, 20}, {5, 70}}) {
    Builder b;  // transposes, beside what is in order
    const TensorId x = b.input("X", {3, n, m}), y = b.input("Y", {3, m, n}, DType::F16), z = b.input("Z", {m});
    b.output(b.op("T", {3, m, n}, {}, Reducer::None, [&](const auto& v) {
      return b.p.binary(ScalarOp::Add, mul(b, b.at(x, {v[0], v[2], v[1]}), b.at(z, {v[1]})), b.at(y, v));
    }));
    b.output(b.op("D", {3, m, n}, {}, Reducer::None, [&](const auto& v) {
      return sub(b, b.at(x, {v[0], v[2], v[1]}), b.at(y, v));
    }));
    add("transpose " + std::to_string(n) + "x" + std::to_string(m), std::move(b));
  }
  // Gradients of a strided depthwise convolution and of its pooling, of whole numbers of residue classes and of others.
  for (const auto& [h, w] : std::vector<std::array<std::int64_t, 2>>{{8, 40}, {9, 39}, {7, 70}, {16, 5}})
    for (const bool pooling : {false, true}) {
      Builder b;
      const std::int64_t p = (h - 3) / 2 + 1, q = (w - 3) / 2 + 1;
      const TensorId dy = b.input("dY", {3, p, q}), k = b.input("W", {3, 3, 3}), z = b.input("Z", {3, h, w});
      const TensorId dx = b.op("dX", {3, h, w}, {2, 2}, Reducer::Sum, [&](const auto& v) {
        const IndexExpr y = floorDiv(v[1], 2) - v[3], x = floorDiv(v[2], 2) - v[4];
        const IndexExpr r = floorMod(v[1], 2) + 2 * v[3], s = floorMod(v[2], 2) + 2 * v[4];
        const ExprId factor = pooling ? b.p.constant(1.0 / 9) : b.at(k, {v[0], r, s});
        return b.p.select(b.p.cond(IndexCond::all({inside(y, p), inside(x, q), inside(r, 3), inside(s, 3)})),
                          mul(b, b.at(dy, {v[0], y, x}), factor), b.p.constant(0));
      });
      b.output(dx);
      b.output(b.op("U", {3, h, w}, {}, Reducer::None, [&](const auto& v) { return mul(b, b.at(dx, v), b.at(z, v)); }));
      add(std::string(pooling ? "pooling" : "depthwise") + " gradient " + std::to_string(h) + "x" + std::to_string(w),
          std::move(b));
    }
  for (const std::int64_t n : {12, 17, 100}) {
    Builder b;  // classes of 6
    const TensorId x = b.input("X", {5, 50}), y = b.input("Y", {40});
    b.output(b.op("Z", {5, n}, {}, Reducer::None, [&](const auto& v) {
      return mul(b, b.at(x, {v[0], floorDiv(v[1], 2)}), b.at(y, {floorDiv(v[1] + IndexExpr(1), 3)}));
    }));
    add("upsampling to " + std::to_string(n), std::move(b));
  }
  {
    Builder b;  // a scatter by data and its reader
    const TensorId d = b.input("D", {20, 6}), at = b.input("I", {20}, DType::I32);
    Tensor out;
    out.name = "G";
    out.shape = {4, 6};
    Operator op;
    op.name = "G";
    op.kind = OperatorKind::Scatter;
    op.axes = {{"i", 20, {}}, {"j", 6, {}}};
    op.body = b.at(d, {IndexExpr::variable(0), IndexExpr::variable(1)});
    op.scatter = {{{}, b.at(at, {IndexExpr::variable(0)})}, {IndexExpr::variable(1), {}}};
    op.output = b.p.addTensor(out);
    b.p.addOperator(op);
    b.output(b.op("Y", {4, 6}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Neg, b.at(op.output, v)); }));
    add("scatter", std::move(b));
  }
  return cases;
}

}  // namespace nf::test
