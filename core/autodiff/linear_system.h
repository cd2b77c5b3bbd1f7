// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/autodiff/explanation.h"
#include "core/autodiff/inverse.h"

// Steps 0 to 2 of the inversion (design: autodiff, section 3): what the access says about y as a linear system over integers.
namespace nf {

// S = { y in the domain, under the guards, f(y) in the tensor }: all fibres together. Small domains are enumerated, of larger ones
// isl is asked where intervals and sampled points leave a doubt.
class FiberSet {
 public:
  FiberSet(const AccessProblem& problem, const QuestionLimit& limit);
  ~FiberSet();

  // nullopt: not known within the limit.
  std::optional<bool> isEmpty();
  // A range that holds e(y) for all of S; the least one unless isl's limit ran out. `interval`: one that is known already.
  std::vector<Range> hulls(const std::vector<IndexExpr>& expressions, const std::vector<Range>& intervals);

 private:
  void build();
  const AccessProblem& m_problem;
  QuestionLimit m_limit;
  bool m_exhaustive = false;
  std::vector<std::int64_t> m_points;  // of S, domain.size() numbers each
  std::unique_ptr<IntegerContext> m_context;
  std::optional<IntegerSet> m_set;
};

// One unknown of the system: a variable of the access, the remainder or quotient of a floor division, or an inequality's slack.
struct Unknown {
  enum class Kind : std::uint8_t { Variable, Remainder, Quotient, Slack };
  Kind kind = Kind::Variable;
  IndexExpr definition;                   // over y
  Range hull;                             // its values over S
  std::optional<std::int64_t> low, high;  // what a guard must enforce where no axis runs over it; a quotient's are implied
  std::string name;                       // for people
};

// sum of coefficient * unknown = rhs(z)
struct Equation {
  std::vector<std::pair<std::size_t, std::int64_t>> terms;  // sorted by unknown
  IndexExpr rhs;
};

struct LinearSystem {
  std::vector<Unknown> unknowns;  // y first, one a domain variable
  std::vector<Equation> equations;
  std::vector<IndexCond> residual;  // guards that stay as they are, over y
  // Connected components, each solved alone (step 2): indices of unknowns and equations, both ascending.
  struct Component {
    std::vector<std::size_t> unknowns, equations;
  };
  std::vector<Component> components;
  std::vector<std::size_t> constantEquations;  // without unknowns: 0 = rhs(z)
};

enum class SystemState : std::uint8_t { Ready, Empty, Overflow };

// u <-> y is one-to-one on S: every integer solution within the unknowns' ranges and residual guards is a y of the fibre of z.
SystemState makeLinearSystem(const AccessProblem& problem, const QuestionLimit& limit, const PartNames& names,
                             LinearSystem& system);

}  // namespace nf
