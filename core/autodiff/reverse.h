// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "core/autodiff/differentiate.h"
#include "core/ir/rewrite.h"

// Reverse accumulation over one program's operators; differentiate() runs it, and it runs itself on the bodies of Loops.
namespace nf {

// The gradient of one tensor: another tensor read at prefix ++ (index without its first `drop` components), or 1.
struct Adjoint {
  TensorId tensor;
  bool unit = false;
  std::vector<IndexExpr> prefix;
  std::size_t drop = 0;
  bool valid() const { return unit || tensor.valid(); }
  bool isWhole() const { return !unit && prefix.empty() && drop == 0; }
};

// What every run of one differentiate() shares.
struct ReverseContext {
  const InvertOptions& options;
  std::vector<GradientTerm>& terms;
  InverseCache& inverses;
  double proofMilliseconds = 0;      // that proofs have taken so far
  bool differentiatedAgain = false;  // a pending derivative depends on what is made now
};

// The loops around a program, outermost first.
struct LoopsAround {
  std::vector<std::int64_t> trips;
  std::vector<std::string> counters;
  LoopsAround with(const Loop& inner) const {
    LoopsAround all = *this;
    all.trips.push_back(inner.trips);
    all.counters.push_back(inner.counter);
    return all;
  }
};

struct FlatLoad;

class Reverse {
 public:
  // of: the name behind "d(".
  Reverse(Program& program, ReverseContext& context, std::string of, LoopsAround around);

  void seed(TensorId of, Adjoint adjoint);
  void want(TensorId wrt, TensorId result);  // result: a tensor of wrt's shape without a producer
  // Loop bodies: an invariant's gradient is taken outside, from operators with the time axis; see lift().
  void defer(TensorId invariant);
  void run();

  // Wanted tensors whose gradient is 0 whatever the values are, why, and the place to look at (invalid where that is inside a Loop).
  struct ZeroByRule {
    TensorId wrt;
    std::string why;
    OriginId place;
    const char* note;  // what is to be seen there
  };
  const std::vector<ZeroByRule>& zeroByRule() const { return m_zeroByRule; }

  struct DeferredUse {
    OperatorId op;
    Adjoint adjoint;  // of its output
  };
  const std::vector<DeferredUse>& deferredUses() const { return m_deferredUses; }
  // After run(): what nested loops left for a deferred invariant, as one tensor; invalid where nothing.
  TensorId deferredSum(TensorId invariant) const;

 private:
  // One contribution: an expression over the tensor's axes and further, summed ones; a scatter; or a tensor that is there.
  struct GatherPartial {
    std::vector<std::string> zNames, tNames;
    std::vector<std::int64_t> trips;
    ExprId body;
    OriginId origin;
    OperatorId forward;
    bool elementwise = false;  // the forward operator reduces nothing: sums over the same axes may share an operator
    std::size_t record = kNone;
  };
  struct ScatterPartial {
    Operator op;  // without its output
    std::size_t record = kNone;
  };
  using Partial = std::variant<GatherPartial, ScatterPartial, Adjoint>;
  static constexpr std::size_t kNone = ~std::size_t{0};

  using Wanted = std::function<bool(TensorId)>;

  std::string fresh(const std::string& wish);
  std::string gradientName(TensorId t) const { return "d(" + m_of + ")/d(" + m_program[t].name + ")"; }
  TensorId newTensor(std::string name, DType type, std::vector<std::int64_t> shape, OriginId origin);
  OperatorId emit(Operator op, TensorId output);
  void recordBackward(std::size_t record, OperatorId op);

  bool hasPartials(TensorId t) const { return m_partials.contains(t.value); }
  Adjoint finalize(TensorId t);
  Adjoint whole(TensorId t);  // the same as a tensor of its own
  void combine(TensorId t, std::vector<Partial> partials, TensorId target);
  OperatorId emitSum(TensorId t, TensorId target, const std::vector<const GatherPartial*>& terms, const std::vector<Adjoint>& more);
  TensorId zeros(const std::string& name, TensorId like, std::string why);
  OperatorId emitZero(TensorId t, TensorId target);
  void makeZero(TensorId t, TensorId target);
  void settleSilent(TensorId t);
  ZeroByRule whyZero(TensorId t, OperatorId zero);

  // ---- one operator (reverse_operator.cpp)
  void reverseOperator(const Operator& op, OperatorId forward, const Adjoint& adjoint, const Wanted& wanted);
  ExprId loadAt(const Adjoint& adjoint, std::vector<AccessIndex> at, DType type, OriginId origin);
  std::vector<AccessIndex> outputPoint(const Operator& op) const;
  ExprId outputLoad(const Operator& op);
  ExprId otherFactors(const Operator& op);
  TensorId auxiliary(const Operator& op, const char* suffix, Reducer reducer, ExprId body, DType type);
  void addTerm(const Operator& op, OperatorId forward, ExprId load, const std::vector<IndexCond>& guards, ExprId weight);
  void addGather(const Operator& op, OperatorId forward, const AccessProblem& problem, const Inverse& inverse,
                 const std::vector<std::uint32_t>& counters, TensorId tensor, ExprId load, ExprId weight);
  void addScatter(const Operator& op, OperatorId forward, AccessProblem problem, TensorId tensor, ExprId load,
                  const std::vector<IndexCond>& guards, ExprId weight, const Inverse& inverse, std::string why);
  void addFlat(const Operator& op, OperatorId forward, const FlatLoad& flat);
  void addEmpty(const Operator& op, OperatorId forward, AccessProblem problem, const std::vector<std::string>& names,
                TensorId tensor, ExprId load, const Inverse& inverse);
  std::shared_ptr<const Inverse> inverseOf(const AccessProblem& problem, const std::vector<std::string>& names);
  RangeOf rangesWithCounters(std::vector<std::int64_t> extents) const;

  // ---- loops (reverse_loop.cpp)
  struct LoopGradient;
  void reverseLoop(OperatorId id);
  TensorId stackOf(LoopId loop, const Program& body, TensorId inner);
  void settleStacks();

  Program& m_program;
  ReverseContext& m_context;
  std::string m_of;
  LoopsAround m_around;
  std::unordered_set<std::string> m_names;
  std::unordered_map<std::string, int> m_nextNumber;
  std::vector<bool> m_relevant;
  std::size_t m_forwardOperators = 0;  // those behind are this run's
  std::set<std::uint32_t> m_deferred;
  std::unordered_map<std::uint32_t, TensorId> m_results;
  std::vector<TensorId> m_wants, m_seeded;
  std::vector<ZeroByRule> m_zeroByRule;
  std::unordered_map<std::uint32_t, std::vector<Partial>> m_partials;
  std::unordered_map<std::uint32_t, Adjoint> m_done;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> m_silent;  // records of loads that add nothing, by tensor
  std::vector<DeferredUse> m_deferredUses;
  struct Stack {
    LoopId loop;
    TensorId inner, outer;
  };
  std::vector<Stack> m_stacks;
};

// A tensor's name without the number that sets it apart from others of that name: `h#2` is written `h`.
std::string writtenName(const std::string& name);

// Which tensors depend on the marked ones through operators; marks them. Floating: through floating values alone, as gradients go.
enum class Through { Floating, Any };
void markDependents(const Program& program, std::vector<bool>& marked, Through through = Through::Floating);
std::vector<bool> dependentsInLoop(const Loop& loop, const std::vector<bool>& outer, Through through = Through::Floating);
// Which tensors the marked ones depend on, through values of any type; marks them.
void markSources(const Program& program, std::vector<bool>& marked);

}  // namespace nf
