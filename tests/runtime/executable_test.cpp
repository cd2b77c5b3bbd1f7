// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/device/reference.h"
#include "core/device/reference_backend.h"
#include "core/ir/verify.h"
#include "core/runtime/initialize.h"
#include "core/runtime/memory_plan.h"
#include "tests/runtime/count_allocations.h"
#include "tests/runtime/program_builder.h"

namespace nf {
namespace {

using namespace testing_programs;
using testing::HasSubstr;

struct Machine {
  Backend* backend = referenceBackend(kPluginVersion);
  std::unique_ptr<Device> device = std::move(*backend->open("reference:f64", 1));
  std::unique_ptr<Compiler> compiler = std::move(*backend->compiler(device->target()));
  std::shared_ptr<TensorStore> store = std::make_shared<TensorStore>(*device);

  std::unique_ptr<Executable> load(const Program& program, PlanOptions options = {}) {
    options.doubles = true;
    auto plan = planExecution(program, options);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    auto executable = Executable::create(*plan, *device, store);
    EXPECT_TRUE(executable.ok());
    EXPECT_TRUE(linkInProcess(**executable, *compiler).ok());
    for (std::size_t t = 0; t < program.tensors.size(); ++t)
      if (TensorStore::Entry* entry = (*executable)->entry(TensorId(t)); entry && !entry->written) {
        EXPECT_TRUE(store->write(*entry, *initialValue(program.tensors[t], 1, "")).ok());
      }
    return std::move(*executable);
  }
};

TensorValues initialValues(const Program& program) {
  TensorValues values;
  const auto made = producers(program);
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (made[t].valid()) continue;
    const HostTensor host = *initialValue(program.tensors[t], 1, "");
    TensorData data{host.type, host.shape, {}};
    for (std::int64_t i = 0; i < host.elements(); ++i) data.values.push_back(host.at(i));
    values[TensorId(t)] = std::move(data);
  }
  return values;
}

void expectEqualToInterpreter(const Program& program, PlanOptions options = {}) {
  ASSERT_THAT(verify(program, program.stage), testing::IsEmpty());
  Machine machine;
  auto executable = machine.load(program, options);
  ASSERT_TRUE(executable->run(1, 0).ok());
  const auto expected = interpret(program, initialValues(program));
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const Output& o : program.outputs) {
    const auto got = executable->read(o.tensor);
    ASSERT_TRUE(got.ok());
    for (std::int64_t i = 0; i < got->elements(); ++i)
      ASSERT_DOUBLE_EQ(got->at(i), expected->at(o.tensor).values[static_cast<std::size_t>(i)]) << o.name << " " << i;
  }
  // What can be read of the others is what was made of them, not what lies in their place since.
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const auto known = expected->find(TensorId(t));
    if (known == expected->end()) continue;
    const auto got = executable->read(TensorId(t));
    for (std::int64_t i = 0; got && i < got->elements(); ++i)
      ASSERT_DOUBLE_EQ(got->at(i), known->second.values[static_cast<std::size_t>(i)]) << program.tensors[t].name << " " << i;
  }
}

TEST(TensorStore, WhatIsWrittenIsRoundedToItsStorageTypeOnTheInterpreterToo) {
  Machine machine;
  Tensor t;
  t.name = "W", t.kind = TensorKind::Param, t.type = DType::F16, t.shape = {2};
  const auto entry = machine.store->entry(t);
  ASSERT_TRUE(entry.ok() && *entry);
  HostTensor value = HostTensor::make(DType::F64, {2});
  value.set(0, 2049), value.set(1, 0.1);
  ASSERT_TRUE(machine.store->write(**entry, value).ok());
  const auto got = machine.store->read(**entry);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->at(0), 2048);
  EXPECT_EQ(got->at(1), 0x1.998p-4);
}

TEST(MemoryPlan, LiveBlocksNeverOverlap) {
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<MemoryRequest> requests(rng() % 60 + (round % 50 == 0 ? 5000 : 0));
    std::int64_t all = 0;
    for (MemoryRequest& r : requests) {
      r.bytes = static_cast<std::int64_t>(rng() % 5000);
      r.first = rng() % 40;
      r.last = r.first + rng() % 10;
      all += aligned(r.bytes);
    }
    const MemoryPlan plan = planMemory(requests);
    EXPECT_LE(plan.bytes, all);
    std::vector<std::size_t> order(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0);
      EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.bytes);
    }
    const std::size_t checked = std::min<std::size_t>(requests.size(), 300);
    for (std::size_t i = 0; i < checked; ++i)
      for (std::size_t j = i + 1; j < requests.size(); ++j) {
        if (requests[i].last < requests[j].first || requests[j].last < requests[i].first || requests[i].bytes == 0 ||
            requests[j].bytes == 0)
          continue;
        ASSERT_TRUE(plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                    plan.offsets[j] + requests[j].bytes <= plan.offsets[i])
            << "round " << round << " blocks " << i << ", " << j;
      }
  }
}

TEST(MemoryPlan, AChainNeedsTwoBlocks) {
  std::vector<MemoryRequest> requests;
  for (std::uint32_t i = 0; i < 100; ++i) requests.push_back({1000, i, i + 1});
  EXPECT_EQ(planMemory(requests).bytes, 2 * 1024);
}

// y = 2x + 1, z = y * y, loss = mean z
Program chain() {
  Program p;
  const TensorId x = tensor(p, "x", TensorKind::Input, {3, 5}, Initializer::Kind::Normal, {0, 1});
  const TensorId y =
      elementwise(p, "y", x, p.binary(ScalarOp::Add, p.binary(ScalarOp::Mul, read(p, x), p.constant(2)), p.constant(1)));
  const TensorId z = elementwise(p, "z", y, p.binary(ScalarOp::Mul, read(p, y), read(p, y)));
  const TensorId loss = meanOf(p, "loss", z, read(p, z));
  p.outputs.push_back({"loss", loss, OutputRole::Loss});
  return p;
}

TEST(Executable, RunsAChain) { expectEqualToInterpreter(chain()); }

TEST(Executable, WhatWasWrittenOverIsNotRead) {
  const Program program = chain();
  Machine machine;
  auto executable = machine.load(program);
  ASSERT_TRUE(executable->run(1, 0).ok());
  std::size_t gone = 0;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const auto got = executable->read(TensorId(t));
    if (got) continue;
    ++gone;
    EXPECT_TRUE(executable->plan().overwrites(TensorId(t)));
    EXPECT_THAT(got.error().message, HasSubstr("its place is used again in the same step"));
  }
  EXPECT_GT(gone, 0u);
  for (const Output& o : program.outputs) EXPECT_FALSE(executable->plan().overwrites(o.tensor));
}

TEST(Executable, GroupsRunInTheOrderOfTheirEdges) {
  Program p = chain();
  p.groups = {{{OperatorId(2u), OperatorId(3u)}, 0, "tail"}, {{OperatorId(0u), OperatorId(1u)}, 1, "head"}};
  p.stage = Stage::Partitioned;
  expectEqualToInterpreter(p);
}

TEST(Executable, DeadOperatorsAreNotLaunched) {
  Program p = chain();
  elementwise(p, "unused", TensorId(0u), read(p, TensorId(0u)));
  EXPECT_EQ((*planExecution(p))->main.launches.size(), 4u);
}

TEST(Executable, EqualSubgraphsShareAKernel) {
  Program p;
  const TensorId x = tensor(p, "x", TensorKind::Input, {4}, Initializer::Kind::Normal, {0, 1});
  const TensorId a = elementwise(p, "a", x, p.unary(ScalarOp::Tanh, read(p, x)));
  const TensorId b = elementwise(p, "b", a, p.unary(ScalarOp::Tanh, read(p, a)));
  p.outputs.push_back({"b", b, OutputRole::Show});
  const auto plan = planExecution(p);
  EXPECT_EQ((*plan)->subgraphs.size(), 1u);
  EXPECT_EQ((*plan)->subgraphs[0].callsPerStep, 2);
  expectEqualToInterpreter(p);
}

// w <- w - 0.5 w;  n <- n + 1;  swap: a <- b, b <- a
TEST(Executable, UpdatesTakeEffectTogetherAtTheEndOfAStep) {
  Program p;
  const TensorId w = tensor(p, "w", TensorKind::Param, {2}, Initializer::Kind::Constant, {8});
  const TensorId a = tensor(p, "a", TensorKind::State, {}, Initializer::Kind::Constant, {1});
  const TensorId b = tensor(p, "b", TensorKind::State, {}, Initializer::Kind::Constant, {2});
  const TensorId next = elementwise(p, "w.next", w, p.binary(ScalarOp::Mul, read(p, w), p.constant(0.5)));
  const TensorId seen = elementwise(p, "seen", next, p.binary(ScalarOp::Add, read(p, w), read(p, next)));
  p.updates = {{w, next, {}}, {a, b, {}}, {b, a, {}}};
  p.outputs.push_back({"seen", seen, OutputRole::Show});
  Machine machine;
  auto e = machine.load(p);
  double expected = 8;
  for (int step = 0; step < 5; ++step) {
    ASSERT_TRUE(e->run(1, static_cast<std::uint64_t>(step)).ok());
    EXPECT_EQ(e->read(seen)->at(1), expected * 1.5);
    EXPECT_EQ(e->read(w)->at(0), expected) << "before the step ends reads see the old value";
    ASSERT_TRUE(e->applyUpdates().ok());
    expected *= 0.5;
    EXPECT_EQ(e->read(w)->at(0), expected);
    EXPECT_EQ(e->read(next)->at(0), expected);
    EXPECT_EQ(e->read(a)->at(0), step % 2 == 0 ? 2 : 1);
    EXPECT_EQ(e->read(b)->at(0), step % 2 == 0 ? 1 : 2);
  }
}

TEST(Executable, AnEvaluationProgramSharesTheWeights) {
  Program p;
  const TensorId w = tensor(p, "w", TensorKind::Param, {1}, Initializer::Kind::Constant, {8});
  const TensorId next = elementwise(p, "w.next", w, p.binary(ScalarOp::Mul, read(p, w), p.constant(0.5)));
  p.updates = {{w, next, {}}};
  Program q;
  tensor(q, "x", TensorKind::Input, {1}, Initializer::Kind::Constant, {1});
  const TensorId v = tensor(q, "w", TensorKind::Param, {1}, Initializer::Kind::Constant, {0});
  const TensorId y = elementwise(q, "y", v, read(q, v));
  q.outputs.push_back({"y", y, OutputRole::Eval});
  Machine machine;
  auto train = machine.load(p), evaluate = machine.load(q);
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(train->run(1, 0).ok());
    ASSERT_TRUE(train->applyUpdates().ok());
    evaluate->bind();
    ASSERT_TRUE(evaluate->run(1, 0).ok());
    EXPECT_EQ(evaluate->read(y)->at(0), 8 * std::pow(0.5, step));
  }
}

struct LoopCase {
  std::int64_t trips = 4, width = 8;
  bool reversed = false;
};

// h' = tanh(h + t * u); g' = h (a permuted carry); stacked h'; accumulated u * h'; k never changes.
Program recurrence(const LoopCase& c) {
  auto body = std::make_shared<Program>();
  Program& b = *body;
  const TensorId hin = tensor(b, "h", TensorKind::Input, {c.width}), gin = tensor(b, "g", TensorKind::Input, {c.width}),
                 kin = tensor(b, "k", TensorKind::Input, {c.width}), u = tensor(b, "u", TensorKind::Input, {c.trips, c.width});
  const ExprId slice = b.load(u, {at(IndexExpr::variable(kLoopVariable)), at(var(0))});
  const TensorId z =
      elementwise(b, "z", hin,
                  b.binary(ScalarOp::Add, read(b, hin),
                           b.binary(ScalarOp::Mul, slice, b.indexValue(IndexExpr::variable(kLoopVariable), DType::F32))));
  const TensorId hout = elementwise(b, "h.next", hin, b.unary(ScalarOp::Tanh, b.binary(ScalarOp::Add, read(b, z), read(b, kin))));
  const TensorId term =
      elementwise(b, "term", hin, b.binary(ScalarOp::Mul, b.binary(ScalarOp::Add, read(b, hout), read(b, gin)), slice));
  for (const TensorId t : {hout, hin, kin, term}) b.outputs.push_back({b[t].name, t, OutputRole::Named});

  Program p;
  const TensorId h0 = tensor(p, "h0", TensorKind::Input, {c.width}, Initializer::Kind::Normal, {0, 1});
  const TensorId g0 = tensor(p, "g0", TensorKind::Input, {c.width}, Initializer::Kind::Normal, {0, 1});
  const TensorId k0 = tensor(p, "k0", TensorKind::Input, {c.width}, Initializer::Kind::Normal, {0, 1});
  const TensorId us = tensor(p, "us", TensorKind::Input, {c.trips, c.width}, Initializer::Kind::Normal, {0, 1});
  const auto out = [&](const char* name, std::vector<std::int64_t> shape) {
    return tensor(p, name, TensorKind::Intermediate, std::move(shape));
  };
  const TensorId hl = out("h.last", {c.width}), gl = out("g.last", {c.width}), kl = out("k.last", {c.width}),
                 hs = out("hs", {c.trips, c.width}), gs = out("gs", {c.trips, c.width}), sum = out("sum", {c.width});
  Loop loop;
  loop.trips = c.trips;
  loop.reversed = c.reversed;
  loop.carried = {{h0, hin, hout, hl}, {g0, gin, hin, gl}, {k0, kin, kin, kl}};
  loop.invariants = {{us, u}};
  loop.stacked = {{hout, hs}, {hin, gs}};
  loop.accumulated = {{term, sum}};
  loop.body = body;
  p.loops.push_back(loop);
  Operator o;
  o.kind = OperatorKind::Loop;
  o.name = "loop";
  o.loop = LoopId(0u);
  p.addOperator(o);
  for (const TensorId t : {hl, gl, kl, hs, gs, sum}) p.outputs.push_back({p[t].name, t, OutputRole::Show});
  return p;
}

TEST(Executable, LoopsCarryStackAndAccumulate) {
  for (const std::int64_t trips : {1, 2, 3, 6})
    for (const std::int64_t width : {8, 5})  // slices aligned to 64 bytes, and not
      for (const bool reversed : {false, true}) {
        SCOPED_TRACE(std::to_string(trips) + " trips, width " + std::to_string(width));
        expectEqualToInterpreter(recurrence({trips, width, reversed}));
      }
}

TEST(Executable, ALoopInALoop) {
  auto inner = std::make_shared<Program>();
  const TensorId x = tensor(*inner, "x", TensorKind::Input, {3});
  const ExprId sum = inner->binary(
      ScalarOp::Add, read(*inner, x),
      inner->indexValue(IndexExpr::variable(kLoopVariable) + 10 * IndexExpr::variable(kLoopVariable + 1), DType::F32));
  const TensorId y = elementwise(*inner, "y", x, sum);
  inner->outputs.push_back({"y", y, OutputRole::Named});
  auto middle = std::make_shared<Program>();
  const TensorId m = tensor(*middle, "m", TensorKind::Input, {3}), ml = tensor(*middle, "m.next", TensorKind::Intermediate, {3});
  Loop l;
  l.trips = 3;
  l.depth = 1;
  l.counter = "s";
  l.carried = {{m, x, y, ml}};
  l.body = inner;
  middle->loops.push_back(l);
  Operator o;
  o.kind = OperatorKind::Loop;
  o.name = "inner";
  o.loop = LoopId(0u);
  middle->addOperator(o);
  middle->outputs.push_back({"m.next", ml, OutputRole::Named});
  Program p;
  const TensorId a = tensor(p, "a", TensorKind::Input, {3}, Initializer::Kind::Normal, {0, 1}),
                 al = tensor(p, "a.last", TensorKind::Intermediate, {3});
  Loop outer;
  outer.trips = 2;
  outer.carried = {{a, m, ml, al}};
  outer.body = middle;
  p.loops.push_back(outer);
  o.name = "outer";
  p.addOperator(o);
  p.outputs.push_back({"a.last", al, OutputRole::Show});
  expectEqualToInterpreter(p);
}

TEST(Executable, RandomGraphsEqualTheInterpreterInOneArena) {
  const unsigned seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int round = 0; round < 40; ++round) {
    Program p;
    std::vector<TensorId> pool;
    for (int i = 0; i < 3; ++i)
      pool.push_back(tensor(p, "in" + std::to_string(i), TensorKind::Input, {4, 6}, Initializer::Kind::Normal, {0, 1}));
    for (int i = 0; i < 25; ++i) {
      const TensorId a = pool[rng() % pool.size()], b = pool[rng() % pool.size()];
      pool.push_back(
          elementwise(p, "t" + std::to_string(i), a, p.binary(rng() % 2 ? ScalarOp::Sub : ScalarOp::Max, read(p, a), read(p, b))));
    }
    for (int i = 0; i < 3; ++i) {
      const TensorId t = pool[3 + rng() % 25];
      if (std::none_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.tensor == t; }))
        p.outputs.push_back({p[t].name, t, OutputRole::Show});
    }
    expectEqualToInterpreter(p);
    const auto plan = planExecution(p, {.doubles = true});
    for (const auto& a : (*plan)->blocks)
      for (const auto& b : (*plan)->blocks)
        if (&a != &b && a.first <= b.last && b.first <= a.last) {
          ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << a.name << " " << b.name;
        }
  }
}

// One call that the machine interrupted does not make a kernel slow.
TEST(Executable, AWatchGivesTheMedianOfTheNewestCalls) {
  Executable::Watch watch;
  EXPECT_EQ(watch.median(), 0);
  for (const double seconds : {4.0, 100.0, 2.0}) watch.add(seconds);
  EXPECT_EQ(watch.median(), 4);
  for (int i = 0; i < 100; ++i) watch.add(i % 10 == 0 ? 50 : 1);
  EXPECT_EQ(watch.median(), 1);
  EXPECT_EQ(watch.calls, 103);
}

TEST(Executable, AFailedLaunchNamesItsOperator) {
  Program p;
  const TensorId x = tensor(p, "x", TensorKind::Input, {4}, Initializer::Kind::Constant, {9});
  const TensorId i = tensor(p, "i", TensorKind::Intermediate, {4}, Initializer::Kind::None, {}, DType::I32);
  op(p, i, {4}, p.cast(DType::I32, read(p, x)));
  const TensorId y = tensor(p, "y", TensorKind::Intermediate, {4});
  const ExprId index = p.load(i, {at(var(0))});
  op(p, y, {4}, p.load(x, {{IndexExpr(), index}}));
  p.outputs.push_back({"y", y, OutputRole::Show});
  Machine machine;
  auto e = machine.load(p);
  const auto ran = e->run(1, 0);
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(ran.error().message, HasSubstr("Operator y:"));
}

TEST(Executable, TheFirstNaNIsNamed) {
  Program p;
  const TensorId x = tensor(p, "x", TensorKind::Input, {4}, Initializer::Kind::Constant, {-1});
  const TensorId a = elementwise(p, "a", x, p.binary(ScalarOp::Mul, read(p, x), p.constant(2)));
  const TensorId b = elementwise(p, "b", a, p.unary(ScalarOp::Sqrt, read(p, a)));
  const TensorId c = elementwise(p, "c", b, p.binary(ScalarOp::Add, read(p, b), p.constant(1)));
  const TensorId loss = meanOf(p, "loss", c, read(p, c));
  p.outputs.push_back({"loss", loss, OutputRole::Loss});
  for (const bool fused : {false, true}) {
    if (fused) {
      p.groups = {
          {{OperatorId(0u), OperatorId(1u), OperatorId(2u)}, 0, "abc"}, {{OperatorId(3u)}, 1, ""}, {{OperatorId(4u)}, 2, ""}};
      p.stage = Stage::Partitioned;
    }
    Machine machine;
    auto e = machine.load(p);
    ASSERT_TRUE(e->run(1, 0).ok());
    EXPECT_TRUE(std::isnan(*e->scalar(loss)));
    EXPECT_EQ(*e->firstNaN(1, 0), "b");
  }
}

// A kernel that does nothing: what is left is the executor.
class NoKernel final : public Kernel {
 public:
  Result<Unit> launch(const LaunchArgs&) override { return Unit{}; }
};

TEST(Executable, AStepAllocatesNothing) {
  Program p = recurrence({6, 8, false});
  Machine machine;
  auto e = machine.load(p);
  for (std::uint32_t i = 0; i < e->plan().subgraphs.size(); ++i) {
    auto kernel = std::make_shared<LinkedKernel>();
    kernel->kernel = std::make_unique<NoKernel>();
    ASSERT_TRUE(e->setKernel(i, kernel).ok());
    e->watches()[i].on = i % 2 == 0;
  }
  ASSERT_TRUE(e->run(1, 0).ok());
  const std::int64_t before = allocationCount();
  for (std::uint64_t step = 1; step < 10; ++step) {
    ASSERT_TRUE(e->run(1, step).ok());
    ASSERT_TRUE(e->applyUpdates().ok());
  }
  EXPECT_EQ(allocationCount(), before);
}

TEST(Executable, APendingDerivativeIsRefused) {
  Program p = chain();
  const TensorId g = tensor(p, "d(loss)/d(x)", TensorKind::Intermediate, {3, 5});
  p.derivatives.push_back({p.outputs[0].tensor, TensorId(0u), g, {}, {}});
  EXPECT_THAT(planExecution(p).error().message, HasSubstr("d(loss)/d(x)"));
}

}  // namespace
}  // namespace nf
