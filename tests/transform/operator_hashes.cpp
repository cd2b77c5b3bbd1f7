// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/ir/structural_hash.h"
#include "tests/random_program.h"

namespace nf::test {
namespace {

TEST(StructuralHash, OfOneOperatorIsThatOfItsSubgraphInTheWholeProgram) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Program p = RandomProgram(seed).make().p;
    const SubgraphExtractor extractor(p);
    for (std::size_t i = 0; i < p.operators.size(); ++i)
      EXPECT_EQ(structuralHash(p, OperatorId(i)), extractor.extract({OperatorId(i)}).hash) << "seed " << seed << " operator " << i;
  }
}

TEST(StructuralHash, OfOneOperatorDoesNotHangOnItsReaders) {
  Build b;
  const TensorId a = b.tensor("A", {4});
  const TensorId x = b.op("X", {{"i", 4}}, 1, Reducer::None, b.p.unary(ScalarOp::Exp, b.load(a, {var(0)})));
  const Hash unread = structuralHash(b.p, OperatorId(0u));
  b.op("Y", {{"i", 4}}, 1, Reducer::None, b.p.unary(ScalarOp::Exp, b.load(x, {var(0)})));
  b.output(x);
  EXPECT_EQ(structuralHash(b.p, OperatorId(0u)), unread);
}

}  // namespace
}  // namespace nf::test
