// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/schedule/body.h"
#include "core/schedule/nest.h"

namespace nf::loop {

// Builds the loops of one stage. nest.cpp: the loops around and the lanes; nest_classes.cpp: residue classes in loops of their own, and
// the guards of their terms; nest_elementwise.cpp, nest_reduction.cpp, nest_scatter.cpp: what stands inside.
class NestBuilder {
 public:
  // rows: variables of the leading axes, bound outside; the loops are then returned, not made a stage.
  NestBuilder(const GroupView& group, const StagePlan& plan, const NestKnobs& knobs, Function& function, BodyLowering& body,
              std::vector<VarId> rows = {})
      : m_group(group), m_p(*group.program), m_plan(plan), m_knobs(knobs), m_f(function), m_body(body), m_rows(std::move(rows)),
        m_view(viewNest(group, plan, m_rows.size(), {}, knobs.phases)) {}

  std::vector<StmtId> run();

 private:
  using Body = std::vector<StmtId>;

  // ------------------------------------------------------------ loops
  void gather(const Operator& first);
  void openLoops(OriginId);
  void openReduced();
  IndexExpr reducedCounter(const std::string& name, std::int64_t extent);
  void setAxes();
  void close(Body inner, const Operator& op);
  Body overLanes(Body body, OriginId origin);
  ValueId inside();
  bool tail() const { return m_lane.valid() && (m_laneExtent % m_knobs.lanes != 0 || m_whole != m_laneExtent); }

  const NestAxis& axis(std::size_t a) const { return m_view.axes[a]; }
  bool isVector(std::size_t a) const { return m_knobs.vectorAxis == static_cast<int>(a); }
  bool isTiled(std::size_t a) const { return m_knobs.tileAxis == static_cast<int>(a) && m_knobs.tile > 1; }
  std::vector<IndexExpr> originals(const std::vector<IndexExpr>& merged) const {
    return originalAxes(m_view, merged, m_f.ranges());
  }
  Place outputPlace(const Operator& op) { return outputPlace(op, m_axes); }
  Place outputPlace(const Operator& op, const std::vector<IndexExpr>& axes);
  ValueId stored(ValueId value, BufferId buffer) { return m_body.convert(value, arithmeticType(m_f[buffer].type)); }
  static Place local(BufferId buffer, const IndexExpr& offset) { return {buffer, offset, {}}; }
  static void append(Body& all, Body more) { all.insert(all.end(), more.begin(), more.end()); }

  // ------------------------------------------------------------ classes
  bool byClasses() const;
  void openClass(const StageClass& one);
  Body peeled(const std::function<Body()>& inner, OriginId origin);
  ValueId test(const IndexCond& c);
  ValueId testsOf(bool uniform);
  ValueId termOf(OperatorId id);
  Body whereTermsAre(Body step, OriginId origin);

  // ------------------------------------------------------------ elementwise operators
  Body elementwise();
  Body transposed(Body body, OriginId origin);
  BufferId transposeBlock(BufferId from, Body& all, OriginId origin);

  // ------------------------------------------------------------ reductions
  struct Accumulator {
    BufferId value, index;
    DType type;
  };
  // Long sums are sums of parts: of n numbers in a row the rounding error grows with n, of the sums of parts with the lengths of both.
  static constexpr std::int64_t kLongSum = 64;
  static constexpr std::int64_t kLongRows = 512;  // of vectors, of which each lane adds up its own
  std::int64_t partOf(std::int64_t extent) const;
  std::vector<VarId> reducedSequence(bool rows) const;
  std::size_t loopsOutsideParts(const std::vector<VarId>& loops) const;
  Body reduction();
  Body lanes(Body body, bool masked, OriginId origin);
  Body reducedLoops(Body inner, const std::vector<VarId>& loops, OriginId origin);
  IndexExpr linearReduced(const Operator& op);
  Body foldRows(std::vector<Accumulator>& accumulators, OriginId origin);
  Body tree(const std::vector<Accumulator>& accumulators, OriginId origin);

  // ------------------------------------------------------------ scatters
  void scatter(const Operator& op);
  void sortedScatter(const Operator& op);
  void sumSegments(const Operator& op, BufferId target, const std::set<std::size_t>& byData, BufferId starts, BufferId values,
                   std::int64_t points, std::int64_t others);
  void zero(const Operator& op, BufferId target);

  const GroupView& m_group;
  const Program& m_p;
  const StagePlan& m_plan;
  NestKnobs m_knobs;
  Function& m_f;
  BodyLowering& m_body;
  std::vector<VarId> m_rows;
  NestView m_view;
  std::vector<StmtId> m_made;  // of a row
  std::vector<BufferId> m_targets;
  std::vector<VarId> m_open, m_reduced;
  const StageClass* m_class = nullptr;  // the class whose loops are made; null: all points alike
  std::vector<IndexCond> m_guards;      // of its terms, over the loops' variables
  std::vector<IndexExpr> m_axes, m_merged;
  std::size_t m_partLoops = 0;                 // reduced loops outside a part of the sums; 0: no parts
  std::vector<StmtId> m_partStart, m_partEnd;  // around one
  VarId m_lane, m_block, m_blockPart, m_tile;
  IndexExpr m_blockAt;  // number of the vector
  IndexExpr m_tileBase;
  IndexExpr m_laneIndex;
  std::vector<IndexExpr> m_ragged;  // at least 0 where the point exists
  std::int64_t m_laneExtent = 1, m_whole = 1, m_full = 0;
};

}  // namespace nf::loop
