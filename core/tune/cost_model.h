// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

namespace nf {

// Learns what the analytic model misses: the residual log(measured seconds / estimated seconds) over a schedule's features
// (design: codegen, "Search"). Samples of one search have feature vectors of one length.
struct CostSample {
  std::vector<double> features;
  double residual = 0;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual void fit(std::span<const CostSample> samples) = 0;
  // Residuals; zeros before the first fit.
  virtual std::vector<double> predict(std::span<const std::vector<double>> features) const = 0;
};

// Ridge regression on standardised features, shrunk towards the mean residual. For up to some hundred samples: 1 ms at 128 x 64.
class RidgeModel final : public CostModel {
 public:
  explicit RidgeModel(double penalty = 1.0) : m_penalty(penalty) {}
  void fit(std::span<const CostSample> samples) override;
  std::vector<double> predict(std::span<const std::vector<double>> features) const override;

 private:
  double m_penalty;
  double m_offset = 0;
  std::vector<double> m_mean, m_scale, m_weights;
};

}  // namespace nf
