// SPDX-License-Identifier: Apache-2.0
// Accesses that are awkward to invert, as somebody writes them: each is a proved gather, and right against central differences.
#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"

namespace nf {
namespace {

struct OddAccess {
  const char *name, *tensor, *body;
};

constexpr OddAccess kOdd[] = {
    {"negative_stride", "A[20]", "Y[i: 10] = A[19 - 2*i]"},
    {"remainder_of_a_sum", "A[7]", "Y[i: 5, j: 6] = A[(i + 2*j) % 7]"},
    {"negative_remainder", "A[13]", "Y[i: 6, j: 5] = A[(3*i - 4*j) % 13]"},
    {"negative_floor", "A[7]", "Y[i: 13] = A[(-i)//2 + 6]"},
    {"nested_floor", "A[9]", "Y[i: 30] = A[((i + 1)//2 + 1)//2]"},
    {"floor_of_sums", "A[40]", "Y[i: 50, j: 3] = A[((i//2 + j)//2 + i)//3 + j]"},
    {"remainder_of_a_remainder", "A[6]", "Y[i: 40] = A[(i % 17) % 6]"},
    {"coupled", "A[9, 9]", "Y[i: 5, j: 5] = A[i + j, i - j + 4]"},
    {"coupled_with_gaps", "A[21, 21]", "Y[i: 5, j: 5] = A[2*i + 3*j, 3*i + 2*j]"},
    {"two_floors", "A[10, 7]", "Y[i: 20] = A[i//2, i//3]"},
    {"floors_of_sums", "A[7, 11]", "Y[i: 12, j: 15] = A[(i + j)//4, (i + 2*j)//4]"},
    {"diagonal", "A[6, 6]", "Y[i: 6] = A[i, i]"},
    {"three_diagonals", "A[6, 6, 11]", "Y[i: 6] = A[i, 5 - i, 2*i]"},
    {"two_strides", "A[34]", "Y[i: 7, j: 8] = A[2*i + 3*j]"},
    {"three_strides", "A[94]", "Y[i: 4, j: 4, k: 4] = A[6*i + 10*j + 15*k]"},
    {"extents_of_one", "A[1, 5, 1]", "Y[i: 1, j: 5, k: 1] = A[i, j, k]"},
    {"dilated_transposed_convolution", "A[2, 5]",
     "Y[c: 2, h: 17] = sum[r: 3] select((h - 2*r) % 3 == 0 and h - 2*r >= 0 and h - 2*r < 15, A[c, (h - 2*r)//3], 0)"},
    {"reshape_chain", "A[4, 6, 5]", "Y[i: 8, j: 15] = A[(15*i + j)//30, ((15*i + j)//5) % 6, (15*i + j) % 5]"},
    {"permuted_reshape", "A[120]", "Y[i: 7, j: 5] = A[((5*i + j)*3 + 1) % 120]"},
    {"swizzle", "A[8, 8]", "Y[i: 8, j: 8] = A[i, (i + j) % 8]"},
    {"block_layout", "A[3, 4, 4, 5]", "Y[i: 12, j: 20] = A[i//4, j//5, i % 4, j % 5]"},
    {"coprime_remainders", "A[4, 9]", "Y[i: 36] = A[i % 4, i % 9]"},
    {"remainders_with_a_common_factor", "A[6, 10]", "Y[i: 60] = A[i % 6, i % 10]"},
    {"triangle", "A[6, 6]", "Y[i: 6] = sum[j: 6] select(j <= i, A[i, j]*A[j, i], 0)"},
    {"trapezium", "A[10, 10]", "Y[i: 10] = sum[j: 10] select(j <= 2*i and 3*j >= i, A[i, j], 0)"},
    {"either_end", "A[12]", "Y[i: 12] = select(i < 3 or i > 8, A[i], 2*A[11 - i])"},
    {"all_but_one", "A[9]", "Y[i: 9] = sum[j: 9] select(i != j, A[j], 0)"},
    {"where_multiples_meet", "A[10]", "Y[i: 10] = sum[j: 10] select(2*i == 3*j, A[j], 0)"},
    {"interleaved", "A[10]", "Y[i: 10] = select(i % 2 == 0, A[i//2], A[5 + i//2])"},
    {"bit_reversal", "A[32]", "Y[i: 32] = A[16*(i % 2) + 8*((i//2) % 2) + 4*((i//4) % 2) + 2*((i//8) % 2) + i//16]"},
    {"mixed_digits_reversed", "A[360]", "Y[i: 360] = A[120*(i % 3) + 30*((i//3) % 4) + 6*((i//12) % 5) + i//60]"},
    {"morton_order", "A[8, 8]",
     "Y[i: 64] = A[i % 2 + 2*((i//4) % 2) + 4*((i//16) % 2), (i//2) % 2 + 2*((i//8) % 2) + 4*((i//32) % 2)]"},
    {"pixel_unshuffle", "A[2, 8, 8]", "Y[c: 8, h: 4, w: 4] = A[c//4, 2*h + (c//2) % 2, 2*w + c % 2]"},
    {"product_along_a_skew", "A[4, 4]", "Y[i: 4] = prod[k: 4] A[i, (i + k) % 4]"},
};

class OddAccesses : public testing::TestWithParam<OddAccess> {};

TEST_P(OddAccesses, AProvedGatherThatIsRight) {
  const std::string body = GetParam().body;
  std::string axes;  // of "Y[i: 5, j: 6]", without extents
  const std::size_t end = body.find(']');
  for (std::size_t at = 2; at < end; ++at) {
    if (at == 2 || (body[at - 1] == ' ' && body[at - 2] == ',')) axes += (axes.empty() ? "" : ", ") + std::string(1, body[at]);
  }
  const std::string text = std::string("input ") + GetParam().tensor + " = zeros()\n" + body + "\nloss L = sum[" + axes +
                           "] sin(Y[" + axes + "])*Y[" + axes + "]\nshow d(L)/d(A)\n";
  const CompiledNotebook notebook = compileNotebook({"odd.nf", {}, text});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  const auto result = differentiate(notebook.program);
  ASSERT_TRUE(result.ok());
  std::size_t gathers = 0;
  for (const GradientTerm& term : result->terms) {
    if (result->program[term.tensor].name != "A") continue;
    EXPECT_EQ(term.form, GradientTerm::Form::Gather) << term.why;
    EXPECT_EQ(term.inverse.state, Inverse::State::Gather);
    ++gathers;
  }
  EXPECT_GE(gathers, 1u);
  std::mt19937_64 rng(3);
  test::checkAgainstDifferences(notebook.program, test::inputsFor(notebook.program, rng), 1e-6, 32);
}

INSTANTIATE_TEST_SUITE_P(All, OddAccesses, testing::ValuesIn(kOdd), [](const auto& i) { return std::string(i.param.name); });

// A permutation of digits has no sum: one of them can be read off after the other.
TEST(OddAccess, DigitPermutationsHaveNoAxis) {
  const auto v = IndexExpr::variable(0);
  const auto digit = [&](std::int64_t below, std::int64_t radix) { return floorMod(floorDiv(v, below), radix); };
  AccessProblem bits, digits;
  bits.domain = {{0, 63}};
  bits.access = {32 * floorMod(v, 2)};
  for (std::int64_t k = 1; k < 6; ++k) bits.access[0] = bits.access[0] + (32 >> k) * digit(std::int64_t{1} << k, 2);
  bits.shape = {64};
  digits.domain = {{0, 359}};
  digits.access = {120 * floorMod(v, 3) + 30 * digit(3, 4) + 6 * digit(12, 5) + floorDiv(v, 60)};
  digits.shape = {360};
  for (const AccessProblem& problem : {bits, digits}) {
    const Inverse inverse = invert(problem);
    EXPECT_EQ(inverse.state, Inverse::State::Gather) << inverse.why;
    EXPECT_TRUE(inverse.axes.empty()) << toText(inverse);
    EXPECT_TRUE(inverse.zGuards.empty()) << toText(inverse);
  }
}

// Extents up to 2^40: nothing is enumerated, and no number overflows.
TEST(OddAccess, HugeExtents) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40, kHalf = std::int64_t{1} << 20;
  const auto v = [](std::size_t i) { return IndexExpr::variable(static_cast<IndexVar>(i)); };
  const auto problem = [](std::vector<std::int64_t> extents, std::vector<IndexExpr> access, std::vector<std::int64_t> shape,
                          std::vector<IndexCond> guards = {}) {
    AccessProblem p;
    for (const std::int64_t extent : extents) p.domain.push_back({0, extent - 1});
    p.access = std::move(access);
    p.shape = std::move(shape);
    p.guards = std::move(guards);
    return p;
  };
  const IndexExpr padded = 2 * v(0) + v(1) - IndexExpr(1);
  const AccessProblem problems[] = {
      problem({kHuge / 2, 3}, {padded}, {kHuge}, {IndexCond::ge0(padded), IndexCond::ge0(IndexExpr(kHuge - 1) - padded)}),
      problem({kHalf, kHalf}, {kHalf * v(0) + v(1)}, {kHuge}),
      problem({kHuge}, {floorDiv(v(0), kHalf), floorMod(v(0), kHalf)}, {kHalf, kHalf}),
      problem({kHuge}, {floorDiv(v(0), 3), floorMod(v(0), 3)}, {kHuge / 3 + 1, 3}),
      problem({kHuge}, {IndexExpr(kHuge - 1) - v(0)}, {kHuge}),
      problem({kHuge, 5}, {v(0) + v(1)}, {kHuge + 4}),
      problem({kHuge}, {floorMod(v(0) + IndexExpr(12345), kHuge)}, {kHuge}),
      problem({kHuge, kHuge}, {v(0), v(0)}, {kHuge, kHuge}),
  };
  for (const AccessProblem& p : problems) {
    const Inverse inverse = invert(p);
    ASSERT_EQ(inverse.state, Inverse::State::Gather) << inverse.why;
    // Forward at some points, and back: the fibre's formula has the point among its trips.
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, kHalf - 1, kHalf + 1}) {
      std::vector<std::int64_t> y;
      for (const Range& r : p.domain) y.push_back(std::min(at, r.hi));
      const auto ofY = [&](IndexVar i) { return y[i]; };
      const auto holds = [&](const IndexCond& g) { return evaluate(g, ofY); };
      if (!std::all_of(p.guards.begin(), p.guards.end(), holds)) continue;
      std::vector<std::int64_t> zt;
      for (const IndexExpr& f : p.access) zt.push_back(evaluate(f, ofY));
      for (const IndexExpr& t : inverse.tOfY) zt.push_back(evaluate(t, ofY));
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(evaluate(inverse.y[i], [&](IndexVar k) { return zt[k]; }), y[i]) << toText(inverse);
    }
  }
}

}  // namespace
}  // namespace nf
