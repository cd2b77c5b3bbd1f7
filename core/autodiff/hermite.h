// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace nf {

struct Matrix {
  Matrix(std::size_t rows, std::size_t columns) : rows(rows), columns(columns), values(rows * columns, 0) {}
  static Matrix identity(std::size_t n);
  std::int64_t& at(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  std::int64_t at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }

  // column(j) -= factor * column(k). False where a value does not fit 64 bits.
  bool subtractColumn(std::size_t j, std::size_t k, std::int64_t factor);
  void swapColumns(std::size_t j, std::size_t k);
  bool negateColumn(std::size_t j);

  std::size_t rows, columns;
  std::vector<std::int64_t> values;
};

// A * u = h: h lower echelon with positive pivots, entries left of a pivot in [0, pivot), u unimodular.
// Hermite, not Smith, form: one transform, small coefficients (design: autodiff, section 3).
struct Hermite {
  Matrix h, u;
  std::vector<std::pair<std::size_t, std::size_t>> pivots;  // (row, column), rows ascending, columns 0, 1, ..
};

// nullopt: a coefficient does not fit 64 bits.
std::optional<Hermite> columnHermite(Matrix a);

// One step of it: makes the columns from `column` on zero in `row` but for a positive pivot at (row, column), and reduces the
// entries left of it; `follower` undergoes the same column operations. Gives the pivot, 0 where the row has none.
// nullopt: overflow.
std::optional<std::int64_t> eliminateRow(Matrix& a, Matrix& follower, std::size_t row, std::size_t column);

}  // namespace nf
