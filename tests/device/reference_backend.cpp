// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_backend.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/ir/structural_hash.h"
#include "tests/build_program.h"

namespace nf {
namespace {

using test::Build;
using test::var;

TEST(ReferenceBackend, CompilesLinksAndLaunchesOnTypedBuffers) {
  BackendRegistry registry;
  registry.add("reference", &referenceBackend);
  Backend* backend = registry.find("reference");
  ASSERT_TRUE(backend);
  auto device = backend->open("reference", 1);
  ASSERT_TRUE(device.ok());
  EXPECT_FALSE(backend->open("cuda:0", 1).ok());

  Build b;
  const auto A = b.tensor("A", {3}, TensorKind::Input, DType::F16), I = b.tensor("I", {3}, TensorKind::Input, DType::I32);
  const auto Y = b.op("Y", {{"i", 3}}, 1, Reducer::None, b.mul(b.number(2), b.p.load(A, {{{}, b.load(I, {var(0)})}})));
  const auto H = b.op("H", {{"i", 3}}, 1, Reducer::None, b.add(b.load(Y, {var(0)}), b.number(1.0 / 3)), DType::BF16);
  b.output(Y);
  b.output(H);
  const Subgraph s = extractSubgraph(b.p, {OperatorId(std::size_t{0}), OperatorId(std::size_t{1})});
  auto object = (*backend->compiler(*backend->target("reference", 1)))->compile({s.program, {}, {}});
  ASSERT_TRUE(object.ok());
  auto kernel = (*device)->link(*object);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;

  const std::uint16_t a[3] = {0x3c00, 0xc100, 0x0001};  // 1, -2.5, the least subnormal
  const std::int32_t i[3] = {2, 0, 1};
  float y[3];
  std::uint16_t h[3];
  std::vector<void*> tensors;
  for (const TensorId t : s.inputs)
    tensors.push_back(s.program[t].type == DType::F16 ? static_cast<void*>(const_cast<std::uint16_t*>(a))
                                                      : const_cast<std::int32_t*>(i));
  for (const TensorId t : s.outputs) tensors.push_back(s.program[t].type == DType::F32 ? static_cast<void*>(y) : h);
  LaunchArgs args;
  args.tensors = tensors;
  ASSERT_TRUE((*kernel)->launch(args).ok());
  EXPECT_EQ(y[0], 2 * 0x1p-24f);
  EXPECT_EQ(y[1], 2);
  EXPECT_EQ(y[2], -5);
  EXPECT_EQ(h[0], 0x3eab);  // 1/3, rounded to eight bits
  EXPECT_EQ(h[1], 0x4015);  // 7/3
  EXPECT_EQ(h[2], 0xc095);  // -14/3
  args.tensors = std::span(tensors).first(1);
  EXPECT_FALSE((*kernel)->launch(args).ok());
}

// The device that keeps doubles keeps in f16 and bf16 what those hold.
TEST(ReferenceBackend, DoublesAreRoundedToStorageTypes) {
  Backend* backend = referenceBackend(kPluginVersion);
  auto device = backend->open("reference:f64", 1);
  ASSERT_TRUE(device.ok());
  Build b;
  const auto A = b.tensor("A", {2});
  const auto H = b.op("H", {{"i", 2}}, 1, Reducer::None, b.load(A, {var(0)}), DType::F16);
  const auto Y = b.op("Y", {{"i", 2}}, 1, Reducer::None, b.add(b.load(H, {var(0)}), b.number(1.0 / 3)));
  b.output(H);
  b.output(Y);
  const Subgraph s = extractSubgraph(b.p, {OperatorId(std::size_t{0}), OperatorId(std::size_t{1})});
  auto object = (*backend->compiler(*backend->target("reference", 1)))->compile({s.program, {}, {}});
  ASSERT_TRUE(object.ok());
  auto kernel = (*device)->link(*object);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  double a[2] = {2049, 65520}, h[2], y[2];
  std::vector<void*> tensors{a};
  for (const TensorId t : s.outputs) tensors.push_back(s.program[t].type == DType::F16 ? h : y);
  LaunchArgs args;
  args.tensors = tensors;
  ASSERT_TRUE((*kernel)->launch(args).ok());
  EXPECT_EQ(h[0], 2048);
  EXPECT_EQ(h[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(y[0], 2048 + 1.0 / 3) << "f32 is not rounded there";
}

}  // namespace
}  // namespace nf
