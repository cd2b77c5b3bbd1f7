// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/runtime/data_feed.h"
#include "core/runtime/data_file.h"
#include "core/runtime/initialize.h"

namespace nf {
namespace {

using testing::HasSubstr;

Tensor tensorOf(std::string name, Initializer::Kind kind, std::vector<double> numbers, std::vector<std::int64_t> shape) {
  Tensor t;
  t.name = std::move(name);
  t.kind = TensorKind::Param;
  t.shape = std::move(shape);
  t.init.kind = kind;
  t.init.numbers = std::move(numbers);
  return t;
}

Program digits(std::int64_t batch) {
  Program p;
  DataSet d;
  d.name = "D";
  d.source.kind = Initializer::Kind::Csv;
  d.source.strings = {"digits"};
  d.heldOutLast = 360;
  p.data.push_back(d);
  Tensor x = tensorOf("X", Initializer::Kind::Batch, {}, {batch, 8, 8});
  x.kind = TensorKind::Input;
  x.init.data = "D";
  x.init.columnEnd = 64;
  x.init.scale = 1.0 / 16;
  p.addTensor(x);
  Tensor y = tensorOf("y", Initializer::Kind::Batch, {}, {batch});
  y.kind = TensorKind::Input;
  y.type = DType::I32;
  y.init.data = "D";
  y.init.columnBegin = 64;
  y.init.columnEnd = 65;
  p.addTensor(y);
  return p;
}

TEST(Initialize, RandomValuesFollowFromSeedAndNameAlone) {
  const Tensor w = tensorOf("W", Initializer::Kind::Normal, {1, 0.5}, {100, 100});
  const auto a = initialValue(w, 1, ""), b = initialValue(w, 1, ""), c = initialValue(w, 2, "");
  Tensor other = w;
  other.name = "V";
  const auto d = initialValue(other, 1, "");
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *c);
  EXPECT_NE(*a, *d);
  double sum = 0, squares = 0;
  for (int i = 0; i < 10000; ++i) {
    sum += a->at(i);
    squares += (a->at(i) - 1) * (a->at(i) - 1);
  }
  EXPECT_NEAR(sum / 10000, 1, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.5, 0.02);
}

TEST(Initialize, UniformIntegersEndBelowTheUpperBoundAndAreEquallyFrequent) {
  Tensor t = tensorOf("T", Initializer::Kind::Uniform, {-1, 3}, {40000});
  t.type = DType::I32;
  const auto values = initialValue(t, 1, "");
  std::map<double, int> counts;
  for (int i = 0; i < 40000; ++i) ++counts[values->at(i)];
  ASSERT_EQ(counts.size(), 4u);
  for (const double v : {-1, 0, 1, 2}) EXPECT_NEAR(counts[v], 10000, 500) << v;
}

TEST(Initialize, KaimingAndXavierTakeTheirFans) {
  const auto k = initialValue(tensorOf("K", Initializer::Kind::Kaiming, {50, 10}, {10000}), 3, "");
  double squares = 0;
  for (int i = 0; i < 10000; ++i) squares += k->at(i) * k->at(i);
  EXPECT_NEAR(squares / 10000, 2.0 / 50, 0.002);
  const auto x = initialValue(tensorOf("X", Initializer::Kind::Xavier, {20, 4}, {10000}), 3, "");
  double highest = 0;
  for (int i = 0; i < 10000; ++i) highest = std::max(highest, std::fabs(x->at(i)));
  EXPECT_NEAR(highest, 0.5, 0.01);
  EXPECT_LE(highest, 0.5);
}

TEST(Initialize, PartsAreTheWholeAndAStopEndsThem) {
  for (const auto kind :
       {Initializer::Kind::Zeros, Initializer::Kind::Constant, Initializer::Kind::Normal, Initializer::Kind::Xavier}) {
    const Tensor t = tensorOf("W", kind, {3, 4}, {1100, 1000});  // more than one part
    const auto whole = initialValue(t, 5, "");
    std::vector<std::byte> bytes;
    std::size_t parts = 0;
    const auto taken = initialParts(t, 5, {}, [&](std::int64_t first, const HostTensor& part) -> Result<Unit> {
      EXPECT_EQ(static_cast<std::size_t>(first) * 4, bytes.size());
      bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
      ++parts;
      return Unit{};
    });
    ASSERT_TRUE(taken.ok());
    EXPECT_GT(parts, 1u);
    EXPECT_EQ(bytes, whole->bytes);
    // As one thread fills it.
    const auto little = initialValue(tensorOf("W", kind, {3, 4}, {1000}), 5, "");
    EXPECT_TRUE(std::equal(little->bytes.begin(), little->bytes.end(), whole->bytes.begin()));
    std::stop_source stop;
    parts = 0;
    const auto stoppedThen = initialParts(t, 5, stop.get_token(), [&](std::int64_t, const HostTensor&) -> Result<Unit> {
      ++parts;
      stop.request_stop();
      return Unit{};
    });
    ASSERT_FALSE(stoppedThen.ok());
    EXPECT_TRUE(isStopped(stoppedThen.error()));
    EXPECT_EQ(parts, 1u);
    const auto wholeThen = initialValue(t, 5, "", stop.get_token());
    ASSERT_FALSE(wholeThen.ok());
    EXPECT_TRUE(isStopped(wholeThen.error()));
  }
}

TEST(Initialize, AStopEndsTheReadingOfFiles) {
  std::stop_source stop;
  stop.request_stop();
  const auto ended = [](const auto& result) { return !result.ok() && isStopped(result.error()); };
  EXPECT_TRUE(ended(parseCsv("1,2\n3,4\n", "x.csv", stop.get_token())));
  EXPECT_TRUE(parseCsv("1,2\n3,4\n", "x.csv").ok());
  const std::string npy = npyBytes(HostTensor::make(DType::F32, {4, 4}));
  EXPECT_TRUE(ended(parseNpy(npy, "x.npy", stop.get_token())));
  EXPECT_TRUE(parseNpy(npy, "x.npy").ok());
  EXPECT_TRUE(
      ended(parseSafetensors(safetensorsBytes({{"A", HostTensor::make(DType::F32, {4})}}), "x", nullptr, stop.get_token())));
}

TEST(Initialize, AnInputWithoutValuesIsNamed) {
  Tensor t = tensorOf("A", Initializer::Kind::None, {}, {2});
  t.kind = TensorKind::Input;
  EXPECT_THAT(initialValue(t, 1, "").error().message, HasSubstr("Tensor A has no values"));
}

TEST(Initialize, IndexValuesAreCheckedAgainstTheAxisTheyIndex) {
  Program p;
  Tensor table = tensorOf("E", Initializer::Kind::Zeros, {}, {10, 4});
  const TensorId e = p.addTensor(table);
  Tensor tokens = tensorOf("tok", Initializer::Kind::Zeros, {}, {3});
  tokens.type = DType::I32;
  const TensorId tok = p.addTensor(tokens);
  const ExprId index = p.load(tok, {{IndexExpr::variable(0), {}}});
  p.load(e, {{IndexExpr(), index}, {IndexExpr::variable(1), {}}});
  HostTensor values = HostTensor::make(DType::I32, {3});
  EXPECT_TRUE(checkIndexValues(p, tok, values).ok());
  values.set(1, 10);
  EXPECT_THAT(checkIndexValues(p, tok, values).error().message,
              HasSubstr("Element 1 of tok is 10, but it indexes axis 0 of E, which has the extent 10"));
  values.set(1, -1);
  EXPECT_FALSE(checkIndexValues(p, tok, values).ok());
}

TEST(DataFeed, EachEpochShowsEveryRowOnceUpToThePartialBatch) {
  const Program p = digits(64);
  auto feed = DataFeed::open(p, "", 1);
  ASSERT_TRUE(feed.ok()) << feed.error().message;
  EXPECT_EQ(feed->trainingRows(), 1437);
  EXPECT_EQ(feed->heldOutRows(), 360);
  EXPECT_EQ(feed->stepsPerEpoch(), 22);
  std::vector<float> x(64 * 64), first(64 * 64);
  std::multiset<std::vector<float>> epochs[2];
  for (int step = 0; step < 44; ++step) {
    feed->training(step, 0, reinterpret_cast<std::byte*>(x.data()));
    if (step == 0) first = x;
    for (int r = 0; r < 64; ++r) epochs[step / 22].insert({x.begin() + 64 * r, x.begin() + 64 * (r + 1)});
  }
  EXPECT_EQ(epochs[0].size(), 1408u);
  EXPECT_GT(std::set<std::vector<float>>(epochs[0].begin(), epochs[0].end()).size(), 1400u);
  feed->training(22, 0, reinterpret_cast<std::byte*>(x.data()));
  EXPECT_NE(x, first);
  feed->training(0, 0, reinterpret_cast<std::byte*>(x.data()));
  EXPECT_EQ(x, first) << "a batch follows from its step alone";
}

TEST(DataFeed, WhatCellsShowAreTheFirstRowsOfTheFile) {
  const Program p = digits(64);
  auto feed = DataFeed::open(p, "", 7);
  ASSERT_TRUE(feed.ok());
  Program all = p;
  all.data[0].heldOutLast = 1797;
  const auto whole = DataFeed::open(all, "", 1);
  ASSERT_TRUE(whole.ok());
  std::vector<float> shown(64 * 64), file(64 * 64), step(64 * 64);
  feed->first(0, reinterpret_cast<std::byte*>(shown.data()));
  whole->heldOut(0, 64, 0, reinterpret_cast<std::byte*>(file.data()));
  EXPECT_EQ(shown, file);
  feed->training(0, 0, reinterpret_cast<std::byte*>(step.data()));
  EXPECT_NE(shown, step);
}

TEST(DataFeed, ASetThatIsHeldOutWholeShowsItsRowsAndTrainsNothing) {
  Program p = digits(64);
  EXPECT_TRUE(DataFeed::open(p, "", 1)->trains(p).ok());
  p.data[0].heldOutLast = 1797;
  auto feed = DataFeed::open(p, "", 1);
  ASSERT_TRUE(feed.ok()) << feed.error().message;
  EXPECT_THAT(feed->trains(p).error().message, HasSubstr("leaves 0 of 1797 rows for training, fewer than the batch of 64"));
  std::vector<float> shown(64 * 64), held(64 * 64);
  feed->training(0, 0, reinterpret_cast<std::byte*>(shown.data()));
  feed->heldOut(0, 64, 0, reinterpret_cast<std::byte*>(held.data()));
  EXPECT_EQ(shown, held);
}

TEST(DataFeed, ColumnsAreScaledAndHeldOutRowsKeepTheirOrder) {
  const Program p = digits(64);
  auto feed = DataFeed::open(p, "", 1);
  ASSERT_TRUE(feed.ok());
  std::vector<float> x(360 * 64);
  std::vector<std::int32_t> y(360);
  feed->heldOut(0, 360, 0, reinterpret_cast<std::byte*>(x.data()));
  feed->heldOut(0, 360, 1, reinterpret_cast<std::byte*>(y.data()));
  EXPECT_LE(*std::max_element(x.begin(), x.end()), 1.0f);
  EXPECT_EQ(*std::max_element(y.begin(), y.end()), 9);
  std::vector<float> last(64);
  feed->heldOut(359, 1, 0, reinterpret_cast<std::byte*>(last.data()));
  EXPECT_TRUE(std::equal(last.begin(), last.end(), x.end() - 64));
}

TEST(DataFeed, MistakesAreNamed) {
  Program p = digits(64);
  p.tensors[0].init.columnEnd = 70;
  EXPECT_THAT(DataFeed::open(p, "", 1).error().message, HasSubstr("Input X takes columns 0..70 of D, which has 65 columns"));
  p = digits(5000);
  EXPECT_THAT(DataFeed::open(p, "", 1).error().message, HasSubstr("fewer than the batch of 5000"));
  p = digits(64);
  p.tensors[1].init.scale = 0.5;
  EXPECT_THAT(DataFeed::open(p, "", 1).error().message, HasSubstr("input y takes integers"));
}

}  // namespace
}  // namespace nf
