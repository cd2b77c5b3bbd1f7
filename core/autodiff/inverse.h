// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/index_expr.h"
#include "core/ir/integer_set.h"

// Inversion of quasi-affine accesses (design: autodiff, sections 1-3; the paper's section 4.2 made exact).
//
//   dA[z] += sum over { y in the domain : guards, f(y) = z } of W(y)      becomes
//   dA[z]  = select(Pz, sum over t of select(Pt, W(g(z, t)), 0), 0)
namespace nf {

// y in an integer box, f(y) = z in [0, shape), under the path guard.
struct AccessProblem {
  std::vector<Range> domain;        // of variables 0..n-1
  std::vector<IndexExpr> access;    // f, over those variables
  std::vector<std::int64_t> shape;  // Z, one an access component
  std::vector<IndexCond> guards;    // G, a conjunction
};

// z are variables 0..m-1 of the expressions below, t are variables m..m+axes-1.
struct Inverse {
  // Checking: solved, and the proof was put off (InverseCache). It may be shown as a gather where it has a `y`; it must not run as one.
  // Unneeded: solved, and not cheap(), so InverseCache asked for no proof.
  enum class State { Empty, Gather, Uncertified, Checking, Unneeded };
  State state = State::Uncertified;
  bool hasty = false;                 // of Unneeded: the solution took more than the time of a view; with all of it, it may pay
  std::string why;                    // of Uncertified, Checking and Unneeded: one clause for a person
  std::vector<IndexCond> excludedBy;  // of Empty, over y: conditions that no point fulfils together, none of them to spare
  std::vector<std::int64_t> axes;     // extents of t, each > 1
  std::vector<IndexExpr> y;           // g(z, t), one a domain variable
  std::vector<IndexExpr> tOfY;        // back from y in a fibre to its t, one an axis: a witness for the proof
  std::vector<IndexCond> zGuards;     // Pz: of z alone, hoisted around the reduction
  std::vector<IndexCond> tGuards;     // Pt: of z and t, a lazy select inside it
  std::vector<std::int64_t> phaseModulus;  // one a z dimension: splitting it by this folds the floors over it (phase.h)
  std::int64_t tripsPerZ = 1;              // product of axes
  double zShare = 1;                       // share of all z where Pz holds; counted, estimated for large tensors
  double certificateMilliseconds = 0;      // of processor time, whatever else the machine does
  // For people: the linear system, its solution, free axes, guards with the reason of each dropped one. Lines of text per step.
  struct Step {
    std::string title;
    std::vector<std::string> lines;
  };
  std::vector<Step> derivation;
};

class InverseCache;

struct InvertOptions {
  std::uint64_t certificateQuota = 1000000;  // isl operations
  std::uint64_t pruneQuota = 300000;         // isl operations a question
  double proofMilliseconds = 5000;         // InverseCache: of processor time, to solve and prove an access; then it is Uncertified
  bool existenceGuard = true;              // step 6b
  bool explain = false;                    // fill `derivation`
  std::vector<std::string> names;          // of the domain's variables, for `derivation`; missing ones are y0, y1, ..
  std::function<void(Inverse&)> sabotage;  // tests only: spoils the solution, to show that the certificate refuses it
  std::stop_token stop;                    // gives up what is under way; what comes back then holds nothing
  InverseCache* cache = nullptr;           // of differentiate(): where inverses are kept from one program to the next
  // While somebody types: a proof that does not end within `interactiveQuota` a question and `accessMilliseconds` for solution and proof,
  // or that comes when the proofs of this program have taken `interactiveMilliseconds`, is put off. InverseCache::settle() makes it.
  bool putOffProofs = false;
  std::uint64_t interactiveQuota = 100000;
  double accessMilliseconds = 100;
  double interactiveMilliseconds = 50;
};

// Steps 0-7. Never wrong: state Gather carries isl's proof against the original access; Uncertified means scatter, Empty that no y
// reaches the tensor, and isl says so too. Problems whose numbers do not fit 64 bits, or whose floors nest beyond reason, are Uncertified.
Inverse invert(const AccessProblem& problem, const InvertOptions& options = {});

// Step 7 alone: is `inverse` a bijection onto the fibres of `problem`? nullopt: limit reached.
std::optional<bool> certify(const AccessProblem& problem, const Inverse& inverse, const QuestionLimit& limit);

// Does no point fulfil the guards and read inside the tensor? nullopt: limit reached. Its numbers fit 64 bits.
std::optional<bool> certifyEmpty(const AccessProblem& problem, const QuestionLimit& limit);
// Of the guards and of the bounds of the tensor the least, as far as isl tells, that no point of the domain fulfils together. Of a problem
// that certifyEmpty() proved.
std::vector<IndexCond> excludingConditions(const AccessProblem& problem, const QuestionLimit& limit);

// Does the gather pay (section 4)? It visits zShare * |Z| * trips points, the scatter the domain; up to `patience` times that the
// gather wins: 16 where many threads run, as it needs no atomics and is deterministic, 4 for one.
constexpr double kPatience = 16;
bool cheap(const Inverse& inverse, const AccessProblem& problem, double patience = kPatience);
double visitsOf(const Inverse& inverse, const AccessProblem& problem);

Hash hashOf(const AccessProblem& problem);

// Inverses by problem; each is made once, and kept for as long as the cache lives (a hundred thousand at most, then it begins anew).
// Safe to use from several threads; two that ask for the same new problem may both solve it.
class InverseCache {
 public:
  explicit InverseCache(InvertOptions options = {});  // `explain`, `names`, `stop` and `cache` are not used
  // Quick: a proof that does not end within `interactiveQuota` and `accessMilliseconds` is put off, PutOff: every new one is. The state
  // is Checking then. None is asked for where the gather does not pay: the state is Unneeded. Where the time ended before the solution
  // did, that holds for the view only (`hasty`): settle() and Now solve anew. What `stop` ended is not kept.
  enum class Proof { Now, Quick, PutOff };
  std::shared_ptr<const Inverse> invert(const AccessProblem& problem, Proof proof = Proof::Now, std::stop_token stop = {});
  // The same with its derivation; the proof is the cached one's.
  Inverse explained(const AccessProblem& problem, std::vector<std::string> names, Proof proof = Proof::Now,
                    std::stop_token stop = {});

  // Makes the proofs that were put off, and what was solved in haste, until there is none or stop is requested. True where one was made.
  bool settle(std::stop_token stop = {});
  // The program has changed: of the proofs that wait only those are made that are put off again. One under way goes on until another
  // one is put off in its place.
  void forgetWaiting();
  std::size_t putOff() const;           // how many proofs wait
  std::uint64_t settledProofs() const;  // how many settle() made: what was derived with fewer may be derived anew

  std::size_t size() const;
  std::size_t hits() const;

 private:
  InvertOptions m_options;
  mutable std::mutex m_mutex;
  std::unordered_map<Hash, std::shared_ptr<const Inverse>> m_inverses;
  std::unordered_map<Hash, AccessProblem> m_waiting;
  void putOff(const Hash& key, const AccessProblem& problem);  // with m_mutex held

  std::optional<Hash> m_settling;  // what settle() proves now
  std::stop_source m_settlingStop;
  std::size_t m_hits = 0;
  std::uint64_t m_settled = 0;
};

// What z and t are called in texts beside these names of y: "z" and "t" where no name is one of them with a number, as of an operator
// that is a gather itself.
struct InverseLetters {
  std::string z, t;
};
InverseLetters lettersBeside(const std::vector<std::string>& names);

// Language-like text of a gather, its axes named t0, t1, ..:
//   "if z0 % 2 == 0: sum t0:2 where z0 // 4 >= t0: p = z0 // 4 - t0, r = (z0 // 2) % 2 + 2*t0"
std::string toText(const Inverse& inverse, const std::vector<std::string>& names = {});

}  // namespace nf
