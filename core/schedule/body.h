// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ir/program.h"
#include "core/schedule/loop_ir.h"

namespace nf::loop {

// Elements between neighbours of each axis, as the tensor's layout orders them.
std::vector<std::int64_t> stridesOf(const Tensor& tensor);

// Turns scalar expressions of a subgraph into values of a loop function. Producers of tensors without a buffer are inlined at
// each use; equal uses share one value. A load under a select whose offset is not proved in range by intervals keeps the
// select's condition as its guard.
class BodyLowering {
 public:
  BodyLowering(const Program& program, Function& function);

  std::vector<BufferId> buffers;                          // by tensor; invalid: the producer is inlined
  std::vector<IndexExpr> begins;                          // by tensor: where it begins in its buffer; empty: each at 0
  std::optional<std::pair<IndexVar, IndexExpr>> counter;  // of a Loop around the operators: what it is here
  // A value that stands for tensor[indices]; nullopt: none.
  std::function<std::optional<ValueId>(TensorId, const std::vector<IndexExpr>&)> special;

  // The value of `root`, an expression of `op`, where axis v of `op` has the value axes[v].
  // guard: of the reads that are legal only where it holds.
  ValueId lower(OperatorId op, ExprId root, const std::vector<IndexExpr>& axes, ValueId guard = {});
  // The offset of an access' affine part and its data-dependent components. guard: as lower()'s, of the data.
  Place place(OperatorId op, TensorId tensor, BufferId buffer, const std::vector<AccessIndex>& indices,
              const std::vector<IndexExpr>& axes, ValueId guard = {});
  ValueId convert(ValueId value, DType type, OriginId origin = {});
  ValueId asStored(TensorId tensor, ValueId value, OriginId origin);
  ValueId readAs(const ScalarNode& load, ValueId value);
  IndexExpr at(const IndexExpr& e, const std::vector<IndexExpr>& axes) const;
  void forget();  // values made so far are not shared with what follows

 private:
  struct Context {
    OperatorId op;
    std::vector<IndexExpr> axes;
    ValueId guard;  // of everything read here
    friend auto operator<=>(const Context&, const Context&) = default;
  };
  using Key = std::tuple<std::uint32_t, ExprId, ValueId>;  // context, expression, guard

  std::uint32_t contextOf(Context context);
  bool proved(OperatorId op, ExprId load) const;
  bool readsGuarded(OperatorId op, ExprId id);
  ValueId run(Key root);
  std::optional<ValueId> build(const Key& key, std::vector<Key>& missing);
  std::optional<ValueId> buildLoad(const Key& key, std::vector<Key>& missing);
  ValueId indexTest(ScalarOp op, IndexExpr e, OriginId origin);
  ValueId both(ValueId a, ValueId b);

  const Program& m_program;
  Function& m_function;
  std::vector<OperatorId> m_producers;
  std::vector<Context> m_contexts;
  std::map<Context, std::uint32_t> m_contextIds;
  std::map<Key, ValueId> m_done;
  std::map<std::pair<OperatorId, ExprId>, bool> m_readsGuarded;
  std::map<std::pair<ValueId, ValueId>, ValueId> m_both;
};

}  // namespace nf::loop
