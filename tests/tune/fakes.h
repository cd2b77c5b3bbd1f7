// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "core/ir/structural_hash.h"
#include "core/schedule/schedule.h"

namespace nf::fakes {

inline Schedule schedule(nlohmann::json knobs) { return {"fake", std::make_shared<const nlohmann::json>(std::move(knobs))}; }

// Z[i, j] = sum over k of A[i, k] * B[k, j], then relu where asked for, as one subgraph.
Program matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool relu = false, DType type = DType::F32);
// Y[i] = exp(X[i]) * 2 + X[i] / (1 + X[i] * X[i])
Program elementwise(std::int64_t n);

// A folder that is removed with this object.
class Folder {
 public:
  Folder();
  ~Folder() { std::filesystem::remove_all(m_path); }
  Folder(const Folder&) = delete;
  std::string path(const std::string& file) const { return m_path + "/" + file; }

 private:
  std::string m_path;
};

// 4096 schedules of knobs a, b, c in 0..15 with a known best; the estimate knows half of the truth.
class Space final : public ScheduleSpace {
 public:
  static constexpr int kValues = 16;
  static double seconds(int a, int b, int c);
  static double seconds(const Schedule& s);
  static double bestSeconds();

  double size() const override { return kValues * kValues * kValues; }
  Schedule first() const override { return make(2, 12, 4); }
  Schedule random(std::mt19937_64& rng) const override;
  Schedule mutate(const Schedule& s, std::mt19937_64& rng) const override;
  Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const override;
  Result<Unit> check(const Schedule& s) const override;
  double estimateSeconds(const Schedule& s) const override;
  std::vector<double> features(const Schedule& s) const override;
  std::vector<KnobInfo> knobs() const override { return {}; }

  static Schedule make(int a, int b, int c) { return schedule({{"a", a}, {"b", b}, {"c", c}}); }
};

}  // namespace nf::fakes
