// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/site.h"

#include <algorithm>
#include <set>

#include "core/ir/structural_hash.h"
#include "core/support/unique_names.h"

namespace nf {

std::string originalName(const std::string& name) { return std::string(withoutNumber(name)); }

namespace {

struct Kernel {
  const Program* program = nullptr;
  const Group* group = nullptr;
  std::set<std::string> operators;  // what it computes, by the names of its tensors; copies under their original's
};

// A program or a Loop's body in it.
struct Body {
  const Program* program = nullptr;
  std::string loop;
};

void bodiesOf(const Program& program, const std::string& loop, std::vector<Body>& into) {
  into.push_back({&program, loop});
  for (const Operator& op : program.operators)
    if (op.kind == OperatorKind::Loop && !program[op.loop].persistent)
      bodiesOf(*program[op.loop].body, loop.empty() ? op.name : loop + "/" + op.name, into);
}

// Both fusions keep a Loop's name, not its place.
template <class Visit>
void eachBody(const Program& first, const Program& second, const Visit& visit) {
  std::vector<Body> a, b;
  bodiesOf(first, {}, a);
  bodiesOf(second, {}, b);
  for (const Body& one : a)
    for (const Body& other : b)
      if (one.loop == other.loop) visit(*one.program, *other.program, one.loop);
}

std::vector<Kernel> kernelsOf(const Program& program) {
  std::vector<Kernel> kernels;
  for (const Group& group : program.groups) {
    if (group.operators.empty() || program[group.operators.front()].kind == OperatorKind::Loop) continue;
    Kernel k{&program, &group, {}};
    for (const OperatorId op : group.operators)
      for (const TensorId t : writesOf(program, op)) k.operators.insert(originalName(program[t].name));
    kernels.push_back(std::move(k));
  }
  return kernels;
}

bool meets(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& name) { return b.contains(name); });
}

SiteKernel siteKernel(const SubgraphExtractor& extractor, const Kernel& kernel) {
  Subgraph subgraph = extractor.extract(kernel.group->operators, false);
  SiteKernel made;
  made.hash = subgraph.hash;
  made.signature = kernelSignature(*kernel.program, kernel.group->operators);
  made.name = kernel.group->name;
  for (const auto* tensors : {&subgraph.outerInputs, &subgraph.outerOutputs})
    for (const TensorId t : *tensors) made.tensors.push_back((*kernel.program)[t].name);
  for (const OperatorId op : kernel.group->operators)
    for (const TensorId t : writesOf(*kernel.program, op)) made.made.push_back((*kernel.program)[t].name);
  made.subgraph = std::make_shared<const Program>(std::move(subgraph.program));
  return made;
}

// The two kernel lists of one body, and which operators they group differently.
class Difference {
 public:
  Difference(const Program& first, const Program& second)
      : m_programs{&first, &second}, m_kernels{kernelsOf(first), kernelsOf(second)} {
    std::set<std::set<std::string>> sets[2];
    for (int side = 0; side < 2; ++side)
      for (const Kernel& k : m_kernels[side]) sets[side].insert(k.operators);
    for (int side = 0; side < 2; ++side)
      for (const Kernel& k : m_kernels[side])
        if (!sets[1 - side].contains(k.operators)) m_differing.push_back(k.operators);
  }

  bool none() const { return m_differing.empty(); }
  bool makes(const std::string& tensor) const {
    return std::any_of(m_kernels[0].begin(), m_kernels[0].end(), [&](const Kernel& k) { return k.operators.contains(tensor); });
  }

  // With the operators of all kernels of both sides that share some of them, directly or through others.
  std::set<std::string> closed(std::set<std::string> operators) const {
    for (std::size_t before = 0; before != operators.size();) {
      before = operators.size();
      for (const auto& side : m_kernels)
        for (const Kernel& k : side)
          if (meets(k.operators, operators)) operators.insert(k.operators.begin(), k.operators.end());
    }
    return operators;
  }

  FusionSite siteOf(const std::set<std::string>& operators, const std::string& loop) const {
    FusionSite site;
    site.loop = loop;
    for (int side = 0; side < 2; ++side) {
      const SubgraphExtractor extractor(*m_programs[side]);
      for (const Kernel& k : m_kernels[side])
        if (meets(k.operators, operators)) (side == 0 ? site.first : site.second).push_back(siteKernel(extractor, k));
    }
    return site;
  }

  std::vector<FusionSite> sites(const std::string& loop) const {
    std::vector<FusionSite> found;
    std::set<std::string> done;
    for (const auto& operators : m_differing) {
      if (meets(operators, done)) continue;
      const std::set<std::string> all = closed(operators);
      done.insert(all.begin(), all.end());
      found.push_back(siteOf(all, loop));
    }
    return found;
  }

  std::set<std::string> allDiffering() const {
    std::set<std::string> all;
    for (const auto& operators : m_differing) all.insert(operators.begin(), operators.end());
    return all;
  }

 private:
  const Program* m_programs[2];
  std::vector<Kernel> m_kernels[2];
  std::vector<std::set<std::string>> m_differing;
};

}  // namespace

std::vector<FusionSite> differingSites(const Program& first, const Program& second) {
  std::vector<FusionSite> found;
  eachBody(first, second, [&](const Program& a, const Program& b, const std::string& loop) {
    if (const Difference difference(a, b); !difference.none())
      for (FusionSite& site : difference.sites(loop)) found.push_back(std::move(site));
  });
  return found;
}

const BarredKernel* barredAt(const std::vector<BarredKernel>& barred, const FusionSite& site, const SiteKernel& kernel) {
  std::set<std::string> made;
  for (const std::string& name : kernel.made) made.insert(originalName(name));
  const auto found = std::ranges::find_if(barred, [&](const BarredKernel& b) {
    return b.judged.kernel == kernel.signature && b.loop == site.loop && std::set(b.made.begin(), b.made.end()) == made;
  });
  return found == barred.end() ? nullptr : &*found;
}

FusionSite siteAround(const Program& first, const Program& second, const std::string& tensor) {
  FusionSite site;
  eachBody(first, second, [&](const Program& a, const Program& b, const std::string& loop) {
    if (const Difference difference(a, b); site.first.empty() && difference.makes(tensor) && !difference.none())
      site = difference.siteOf(difference.closed(difference.allDiffering()), loop);
  });
  return site;
}

std::vector<FusedKernel> fusedKernels(const Program& fused) {
  std::vector<Body> bodies;
  bodiesOf(fused, {}, bodies);
  std::vector<FusedKernel> found;
  std::set<Hash> known;
  for (const Body& body : bodies) {
    const Program& program = *body.program;
    const SubgraphExtractor extractor(program);
    for (const Group& group : program.groups) {
      if (group.operators.size() < 2) continue;
      const Hash signature = kernelSignature(program, group.operators);
      if (!known.insert(signature).second) continue;
      FusedKernel kernel{signature, extractor.extract(group.operators, false).hash, group.name, {}, {}};
      for (const OperatorId reader : group.operators)
        for (const TensorId read : readsOf(program, reader))
          for (const OperatorId writer : group.operators)
            if (kernel.producer.empty() && program[writer].output == read) {
              kernel.producer = program[read].name;
              kernel.consumer = program[program[reader].output].name;
            }
      found.push_back(std::move(kernel));
    }
  }
  return found;
}

}  // namespace nf
