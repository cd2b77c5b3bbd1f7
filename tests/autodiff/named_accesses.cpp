// SPDX-License-Identifier: Apache-2.0
#include "tests/autodiff/named_accesses.h"

namespace nf::testing {
namespace {

// The variables of an access in the order they are declared by var(), so that an access reads like the operator it is from.
class Builder {
 public:
  explicit Builder(std::string name) { m_access.name = std::move(name); }

  IndexExpr var(const char* name, std::int64_t extent) {
    m_access.variables.emplace_back(name);
    m_access.problem.domain.push_back({0, extent - 1});
    return IndexExpr::variable(static_cast<IndexVar>(m_access.variables.size() - 1));
  }
  NamedAccess reads(std::vector<IndexExpr> access, std::vector<std::int64_t> shape, std::vector<IndexCond> guards = {}) {
    m_access.problem.access = std::move(access);
    m_access.problem.shape = std::move(shape);
    m_access.problem.guards = std::move(guards);
    return std::move(m_access);
  }

 private:
  NamedAccess m_access;
};

IndexCond ge0(IndexExpr e) { return IndexCond::ge0(std::move(e)); }
IndexCond eq0(IndexExpr e) { return IndexCond::eq0(std::move(e)); }
IndexCond any(std::vector<IndexCond> c) { return IndexCond::any(std::move(c)); }

}  // namespace

std::vector<NamedAccess> namedAccesses() {
  std::vector<NamedAccess> all;
  {
    Builder b("matmul dA A[i,k]");
    const IndexExpr i = b.var("i", 4);
    b.var("j", 5);
    const IndexExpr k = b.var("k", 6);
    all.push_back(b.reads({i, k}, {4, 6}));
  }
  {
    Builder b("matmul dW W[k,j]");
    b.var("i", 4);
    const IndexExpr j = b.var("j", 5);
    const IndexExpr k = b.var("k", 6);
    all.push_back(b.reads({k, j}, {6, 5}));
  }
  {
    Builder b("conv s1 dA");
    const IndexExpr n = b.var("n", 2);
    b.var("k", 2);
    const IndexExpr p = b.var("p", 4);
    const IndexExpr q = b.var("q", 4);
    const IndexExpr c = b.var("c", 2);
    const IndexExpr r = b.var("r", 3);
    const IndexExpr s = b.var("s", 3);
    all.push_back(b.reads({n, c, p + r, q + s}, {2, 2, 6, 6}));
  }
  {
    Builder b("conv s2 R3 dA");
    const IndexExpr n = b.var("n", 2);
    b.var("k", 2);
    const IndexExpr p = b.var("p", 4);
    const IndexExpr q = b.var("q", 4);
    const IndexExpr c = b.var("c", 2);
    const IndexExpr r = b.var("r", 3);
    const IndexExpr s = b.var("s", 3);
    all.push_back(b.reads({n, c, 2 * p + r, 2 * q + s}, {2, 2, 9, 9}));
  }
  {
    Builder b("conv s2 dW");
    b.var("n", 2);
    const IndexExpr k = b.var("k", 2);
    b.var("p", 4);
    b.var("q", 4);
    const IndexExpr c = b.var("c", 2);
    const IndexExpr r = b.var("r", 3);
    const IndexExpr s = b.var("s", 3);
    all.push_back(b.reads({k, c, r, s}, {2, 2, 3, 3}));
  }
  {
    Builder b("conv1d s2 R3 H=10");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({2 * p + r}, {10}));
  }
  {
    Builder b("conv1d s2 d3 R3");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({2 * p + 3 * r}, {13}));
  }
  {
    Builder b("conv1d s4 d2 R3 (gcd2)");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({4 * p + 2 * r}, {17}));
  }
  {
    Builder b("conv1d s3 R2 (holes)");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 2);
    all.push_back(b.reads({3 * p + r}, {11}));
  }
  {
    Builder b("conv1d s2 pad1 guard");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({2 * p + r - 1}, {8}, {ge0(2 * p + r - 1), ge0(8 - (2 * p + r))}));
  }
  {
    Builder b("conv1d s2 d2 R3 pad2");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({2 * p + 2 * r - 2}, {7}, {ge0(2 * p + 2 * r - 2), ge0(8 - (2 * p + 2 * r))}));
  }
  {
    Builder b("group conv dA 4ch/2g");
    const IndexExpr n = b.var("n", 2);
    const IndexExpr k = b.var("k", 4);
    const IndexExpr p = b.var("p", 4);
    const IndexExpr c = b.var("c", 2);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({n, 2 * floorDiv(k, 2) + c, p + r}, {2, 4, 6}));
  }
  {
    Builder b("depthwise (mult 2) dA");
    const IndexExpr n = b.var("n", 2);
    const IndexExpr k = b.var("k", 6);
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({n, floorDiv(k, 2), p + r}, {2, 3, 6}));
  }
  {
    Builder b("transposed conv gather fwd dA (h=2p+r)");
    const IndexExpr h = b.var("h", 9);
    const IndexExpr p = b.var("p", 4);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({p}, {4}, {eq0(h - 2 * p - r)}));
  }
  {
    Builder b("capsule dA");
    const IndexExpr b_ = b.var("b", 2);
    b.var("k", 2);
    const IndexExpr p = b.var("p", 3);
    const IndexExpr q = b.var("q", 3);
    const IndexExpr i = b.var("i", 2);
    b.var("j", 2);
    const IndexExpr c = b.var("c", 2);
    const IndexExpr r = b.var("r", 3);
    const IndexExpr s = b.var("s", 3);
    const IndexExpr l = b.var("l", 2);
    all.push_back(b.reads({b_, c, 2 * p + r, 2 * q + s, i, l}, {2, 2, 7, 7, 2, 2}));
  }
  {
    Builder b("capsule dW");
    b.var("b", 2);
    const IndexExpr k = b.var("k", 2);
    b.var("p", 3);
    b.var("q", 3);
    b.var("i", 2);
    const IndexExpr j = b.var("j", 2);
    const IndexExpr c = b.var("c", 2);
    const IndexExpr r = b.var("r", 3);
    const IndexExpr s = b.var("s", 3);
    const IndexExpr l = b.var("l", 2);
    all.push_back(b.reads({k, c, r, s, l, j}, {2, 2, 3, 3, 2, 2}));
  }
  {
    Builder b("depth2space");
    const IndexExpr n = b.var("n", 2);
    const IndexExpr c = b.var("c", 3);
    const IndexExpr h = b.var("h", 6);
    const IndexExpr w = b.var("w", 8);
    all.push_back(b.reads({n, 4 * c + 2 * floorMod(h, 2) + floorMod(w, 2), floorDiv(h, 2), floorDiv(w, 2)}, {2, 12, 3, 4}));
  }
  {
    Builder b("space2depth");
    const IndexExpr n = b.var("n", 2);
    const IndexExpr c = b.var("c", 12);
    const IndexExpr h = b.var("h", 3);
    const IndexExpr w = b.var("w", 4);
    all.push_back(b.reads({n, floorDiv(c, 4), 2 * h + floorMod(floorDiv(c, 2), 2), 2 * w + floorMod(c, 2)}, {2, 3, 6, 8}));
  }
  {
    Builder b("pixelshuffle CRD r=3");
    const IndexExpr c = b.var("c", 2);
    const IndexExpr h = b.var("h", 6);
    const IndexExpr w = b.var("w", 6);
    all.push_back(b.reads({9 * c + 3 * floorMod(h, 3) + floorMod(w, 3), floorDiv(h, 3), floorDiv(w, 3)}, {18, 2, 2}));
  }
  {
    Builder b("channel shuffle g=3 C=12");
    const IndexExpr c = b.var("c", 12);
    all.push_back(b.reads({4 * floorMod(c, 3) + floorDiv(c, 3)}, {12}));
  }
  {
    Builder b("concat part0");
    const IndexExpr x = b.var("x", 10);
    all.push_back(b.reads({x}, {4}, {ge0(3 - x)}));
  }
  {
    Builder b("concat part1");
    const IndexExpr x = b.var("x", 10);
    all.push_back(b.reads({x - 4}, {6}, {ge0(x - 4)}));
  }
  {
    Builder b("slice step3");
    const IndexExpr x = b.var("x", 5);
    all.push_back(b.reads({3 * x + 2}, {16}));
  }
  {
    Builder b("broadcast");
    b.var("i", 4);
    const IndexExpr j = b.var("j", 5);
    all.push_back(b.reads({j}, {5}));
  }
  {
    Builder b("diag");
    const IndexExpr i = b.var("i", 5);
    all.push_back(b.reads({i, i}, {5, 5}));
  }
  {
    Builder b("A[i+j]");
    const IndexExpr i = b.var("i", 5);
    const IndexExpr j = b.var("j", 3);
    all.push_back(b.reads({i + j}, {7}));
  }
  {
    Builder b("A[i+j,i-j+2]");
    const IndexExpr i = b.var("i", 4);
    const IndexExpr j = b.var("j", 3);
    all.push_back(b.reads({i + j, i - j + 2}, {6, 6}));
  }
  {
    Builder b("toeplitz A[i-j+4] 2-free");
    const IndexExpr i = b.var("i", 4);
    const IndexExpr j = b.var("j", 5);
    b.var("k", 2);
    all.push_back(b.reads({i - j + 4}, {8}));
  }
  {
    Builder b("maxpool overlap k3 s2");
    const IndexExpr p = b.var("p", 4);
    const IndexExpr q = b.var("q", 4);
    const IndexExpr r = b.var("r", 3);
    const IndexExpr s = b.var("s", 3);
    all.push_back(b.reads({2 * p + r, 2 * q + s}, {9, 9}));
  }
  {
    Builder b("upsample nearest x//2");
    const IndexExpr x = b.var("x", 12);
    all.push_back(b.reads({floorDiv(x, 2)}, {6}));
  }
  {
    Builder b("upsample x//2 odd extent");
    const IndexExpr x = b.var("x", 11);
    all.push_back(b.reads({floorDiv(x, 2)}, {6}));
  }
  {
    Builder b("x%4");
    const IndexExpr x = b.var("x", 14);
    all.push_back(b.reads({floorMod(x, 4)}, {4}));
  }
  {
    Builder b("circular pad (x-1)%6");
    const IndexExpr x = b.var("x", 8);
    all.push_back(b.reads({floorMod(x - 1, 6)}, {6}));
  }
  {
    Builder b("circular conv (x+r)%6");
    const IndexExpr x = b.var("x", 6);
    const IndexExpr r = b.var("r", 3);
    all.push_back(b.reads({floorMod(x + r, 6)}, {6}));
  }
  {
    Builder b("cumsum");
    const IndexExpr i = b.var("i", 6);
    const IndexExpr j = b.var("j", 6);
    all.push_back(b.reads({j}, {6}, {ge0(i - j)}));
  }
  {
    Builder b("banded attn |i-j|<=1");
    const IndexExpr i = b.var("i", 6);
    const IndexExpr j = b.var("j", 6);
    all.push_back(b.reads({j}, {6}, {ge0(i - j + 1), ge0(j - i + 1)}));
  }
  {
    Builder b("reshape (7,5)->(5,7)");
    const IndexExpr i = b.var("i", 7);
    const IndexExpr j = b.var("j", 5);
    all.push_back(b.reads({floorDiv(5 * i + j, 7), floorMod(5 * i + j, 7)}, {5, 7}));
  }
  {
    Builder b("fold (i*4+j)//6");
    const IndexExpr i = b.var("i", 6);
    const IndexExpr j = b.var("j", 4);
    all.push_back(b.reads({floorDiv(4 * i + j, 6)}, {4}));
  }
  {
    Builder b("bilinear-ish (3x+1)//4");
    const IndexExpr x = b.var("x", 10);
    all.push_back(b.reads({floorDiv(3 * x + 1, 4)}, {8}));
  }
  {
    Builder b("nested ((x//2)+1)%3");
    const IndexExpr x = b.var("x", 14);
    all.push_back(b.reads({floorMod(floorDiv(x, 2) + 1, 3)}, {3}));
  }
  {
    Builder b("flip");
    const IndexExpr x = b.var("x", 7);
    all.push_back(b.reads({6 - x}, {7}));
  }
  {
    Builder b("x//2 and x//3");
    const IndexExpr x = b.var("x", 12);
    all.push_back(b.reads({floorDiv(x, 2), floorDiv(x, 3)}, {6, 4}));
  }
  {
    Builder b("x%2 and x%3 (CRT)");
    const IndexExpr x = b.var("x", 12);
    all.push_back(b.reads({floorMod(x, 2), floorMod(x, 3)}, {2, 3}));
  }
  {
    Builder b("deform 6i+10j+15k");
    const IndexExpr i = b.var("i", 5);
    const IndexExpr j = b.var("j", 3);
    const IndexExpr k = b.var("k", 2);
    all.push_back(b.reads({6 * i + 10 * j + 15 * k}, {60}));
  }
  {
    Builder b("im2col dA");
    const IndexExpr i = b.var("i", 12);
    const IndexExpr j = b.var("j", 9);
    all.push_back(b.reads({floorDiv(i, 4) + floorDiv(j, 3), floorMod(i, 4) + floorMod(j, 3)}, {5, 6}));
  }
  {
    Builder b("reflect pad (or-guard)");
    const IndexExpr x = b.var("x", 8);
    all.push_back(b.reads({x - 2}, {5}, {any({ge0(IndexExpr(3) - x), ge0(x - 5)})}));
  }
  return all;
}

}  // namespace nf::testing
