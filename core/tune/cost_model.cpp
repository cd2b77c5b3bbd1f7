// SPDX-License-Identifier: Apache-2.0
#include "core/tune/cost_model.h"

#include <algorithm>
#include <cmath>

namespace nf {
namespace {

// Solves A x = b in place, A symmetric positive definite (Cholesky); b becomes x.
void solve(std::vector<double>& a, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j * n + j] -= a[j * n + k] * a[j * n + k];
    const double pivot = std::sqrt(std::max(a[j * n + j], 1e-12));
    a[j * n + j] = pivot;
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i * n + j] -= a[i * n + k] * a[j * n + k];
      a[i * n + j] /= pivot;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
}

}  // namespace

void RidgeModel::fit(std::span<const CostSample> samples) {
  m_weights.clear();
  m_offset = 0;
  if (samples.empty()) return;
  const std::size_t features = samples[0].features.size();
  const auto count = static_cast<double>(samples.size());
  m_mean.assign(features, 0);
  m_scale.assign(features, 0);
  for (const CostSample& s : samples) {
    m_offset += s.residual / count;
    for (std::size_t k = 0; k < features; ++k) m_mean[k] += s.features[k] / count;
  }
  for (const CostSample& s : samples)
    for (std::size_t k = 0; k < features; ++k) m_scale[k] += (s.features[k] - m_mean[k]) * (s.features[k] - m_mean[k]) / count;
  for (double& scale : m_scale) scale = scale > 1e-18 ? 1 / std::sqrt(scale) : 0;
  std::vector<double> normal(features * features, 0), right(features, 0), row(features);
  for (const CostSample& s : samples) {
    for (std::size_t k = 0; k < features; ++k) row[k] = (s.features[k] - m_mean[k]) * m_scale[k];
    for (std::size_t i = 0; i < features; ++i) {
      right[i] += row[i] * (s.residual - m_offset);
      for (std::size_t j = 0; j <= i; ++j) normal[i * features + j] += row[i] * row[j];
    }
  }
  for (std::size_t i = 0; i < features; ++i) normal[i * features + i] += m_penalty;
  solve(normal, right);
  m_weights = std::move(right);
}

std::vector<double> RidgeModel::predict(std::span<const std::vector<double>> features) const {
  std::vector<double> result(features.size(), m_offset);
  for (std::size_t s = 0; s < features.size(); ++s)
    for (std::size_t k = 0; k < std::min(m_weights.size(), features[s].size()); ++k)
      result[s] += m_weights[k] * (features[s][k] - m_mean[k]) * m_scale[k];
  return result;
}

}  // namespace nf
