// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/hermite.h"

#include <algorithm>
#include <limits>

#include "core/support/checked.h"

namespace nf {
namespace {

std::uint64_t magnitude(std::int64_t v) { return v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v); }

// floor(a / b) for any b != 0 that does not overflow; |b| never is the least integer here (negateColumn refuses it).
std::int64_t floorQuotient(std::int64_t a, std::int64_t b) { return b > 0 ? floorDiv(a, b) : floorDiv(-a, -b); }

bool reduce(Matrix& a, Matrix& follower, std::size_t j, std::size_t k, std::int64_t factor) {
  return factor == 0 || (a.subtractColumn(j, k, factor) && follower.subtractColumn(j, k, factor));
}

}  // namespace

Matrix Matrix::identity(std::size_t n) {
  Matrix m(n, n);
  for (std::size_t i = 0; i < n; ++i) m.at(i, i) = 1;
  return m;
}

bool Matrix::subtractColumn(std::size_t j, std::size_t k, std::int64_t factor) {
  for (std::size_t i = 0; i < rows; ++i) {
    const auto product = checkedMul(factor, at(i, k));
    const auto difference = product ? checkedSub(at(i, j), *product) : std::nullopt;
    if (!difference || *difference == std::numeric_limits<std::int64_t>::min()) return false;
    at(i, j) = *difference;
  }
  return true;
}

void Matrix::swapColumns(std::size_t j, std::size_t k) {
  for (std::size_t i = 0; i < rows && j != k; ++i) std::swap(at(i, j), at(i, k));
}

bool Matrix::negateColumn(std::size_t j) {
  for (std::size_t i = 0; i < rows; ++i) {
    if (at(i, j) == std::numeric_limits<std::int64_t>::min()) return false;
    at(i, j) = -at(i, j);
  }
  return true;
}

std::optional<std::int64_t> eliminateRow(Matrix& a, Matrix& follower, std::size_t row, std::size_t column) {
  for (;;) {
    std::size_t least = a.columns, nonzero = 0;
    for (std::size_t j = column; j < a.columns; ++j) {
      if (a.at(row, j) == 0) continue;
      ++nonzero;
      if (least == a.columns || magnitude(a.at(row, j)) < magnitude(a.at(row, least))) least = j;
    }
    if (nonzero == 0) return 0;
    if (nonzero == 1) {
      a.swapColumns(column, least);
      follower.swapColumns(column, least);
      break;
    }
    for (std::size_t j = column; j < a.columns; ++j)
      if (j != least && !reduce(a, follower, j, least, floorQuotient(a.at(row, j), a.at(row, least)))) return std::nullopt;
  }
  if (a.at(row, column) < 0 && !(a.negateColumn(column) && follower.negateColumn(column))) return std::nullopt;
  for (std::size_t j = 0; j < column; ++j)
    if (!reduce(a, follower, j, column, floorDiv(a.at(row, j), a.at(row, column)))) return std::nullopt;
  return a.at(row, column);
}

std::optional<Hermite> columnHermite(Matrix a) {
  for (const std::int64_t v : a.values)
    if (v == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  Hermite result{std::move(a), Matrix(0, 0), {}};
  result.u = Matrix::identity(result.h.columns);
  std::size_t column = 0;
  for (std::size_t row = 0; row < result.h.rows && column < result.h.columns; ++row) {
    const auto pivot = eliminateRow(result.h, result.u, row, column);
    if (!pivot) return std::nullopt;
    if (*pivot != 0) result.pivots.emplace_back(row, column++);
  }
  return result;
}

}  // namespace nf
