// SPDX-License-Identifier: Apache-2.0
// The code generator that rests on LLVM: its targets, libdevice, the knob that chooses it.
#include <gtest/gtest.h>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/schedule/generator.h"
#include "core/schedule/lower.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/emit.h"
#include "plugins/cuda/nvptx/emit.h"
#include "plugins/cuda/nvptx/generate.h"
#include "plugins/cuda/toolkit.h"
#include "tests/kernel_cases.h"

namespace nf::test {
namespace {

Target target() { return *cuda::nominalTarget("sm_80"); }

Program unary(ScalarOp op, DType type = DType::F32) {
  Builder b;
  const TensorId x = b.input("X", {64}, type);
  b.output(b.op(
      "Y", {64}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(op, b.at(x, v)); }, type));
  return b.p;
}

loop::Function loopsOf(const Program& p) { return *lower(p, (*scheduleSpace(p, target()))->first(), target()); }

std::string libdevice() {
  const auto found = cuda::findLibdevice(cuda::toolkitFolders("nvvm/libdevice"));
  EXPECT_TRUE(found.ok()) << found.error().message;
  return found ? *found : std::string();
}

std::string ptxOf(const Program& p, const std::string& architecture = "sm_80") {
  const auto output = cuda::generateNvptx(loopsOf(p), architecture, libdevice(), nullptr);
  EXPECT_TRUE(output.ok()) << output.error().message << output.error().detail;
  return output ? output->ptx : std::string();
}

TEST(Nvptx, KnowsItsTargetsByName) {
  for (const char* known : {"sm_75", "sm_80", "sm_89", "sm_90", "sm_90a"}) {
    EXPECT_EQ(*cuda::nvptxTarget(known), known);
    EXPECT_NE(ptxOf(unary(ScalarOp::Neg), known).find(std::string(".target ") + known), std::string::npos);
  }
  // Later than LLVM 19: the latest that it knows, whose PTX they run.
  EXPECT_EQ(*cuda::nvptxTarget("sm_100"), "sm_90");
  EXPECT_EQ(*cuda::nvptxTarget("sm_120a"), "sm_90");
  for (const char* none : {"sm_70", "sm_", "avx512", ""}) EXPECT_FALSE(cuda::nvptxTarget(none).ok()) << none;
}

TEST(Nvptx, LaterArchitecturesAreAssembledForThemselves) {
  ASSERT_FALSE(cuda::ptxasPath().empty());
  EXPECT_TRUE(cuda::assemble(cuda::ptxasPath(), ptxOf(unary(ScalarOp::Exp), "sm_100"), "sm_100").ok());
  const auto refused = cuda::assemble(cuda::ptxasPath(), "no PTX", "sm_80");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "ptxas refuses the kernel.");
  EXPECT_FALSE(refused.error().detail.empty());
}

TEST(Nvptx, TakesOfLibdeviceWhatItCalls) {
  for (const DType type : {DType::F32, DType::F64})
    for (const ScalarOp op :
         {ScalarOp::Exp, ScalarOp::Log, ScalarOp::Tanh, ScalarOp::Sigmoid, ScalarOp::Erf, ScalarOp::Sin, ScalarOp::Cos}) {
      const std::string ptx = ptxOf(unary(op, type));
      EXPECT_EQ(ptx.find(".extern"), std::string::npos) << ptx;
      EXPECT_EQ(ptx.find("__nv"), std::string::npos) << ptx;
      // Denormal numbers are numbers, as in CUDA C without fast math; the approximations inside say so themselves.
      EXPECT_EQ(ptx.find("fma.rn.ftz"), std::string::npos) << ptx;
      if (!cuda::ptxasPath().empty()) { EXPECT_TRUE(cuda::assemble(cuda::ptxasPath(), ptx, "sm_80").ok()) << ptx; }
    }
}

// The numbers in a text of PTX, signs apart: 0f3F800000, 0d3FF0000000000000.
std::set<std::string> numbersIn(const std::string& ptx) {
  static const std::regex pattern("0(f|d)([0-9A-Fa-f]{16}|[0-9A-Fa-f]{8})");
  std::set<std::string> numbers;
  for (auto it = std::sregex_iterator(ptx.begin(), ptx.end(), pattern); it != std::sregex_iterator(); ++it) {
    const std::uint64_t bits = std::stoull((*it)[2], nullptr, 16), sign = (*it)[1] == "f" ? 1ull << 31 : 1ull << 63;
    if ((bits & ~sign) != 0) numbers.insert((*it)[1].str() + std::to_string(bits & ~sign));
  }
  return numbers;
}

// Functions are equal where the coefficients are: neither compiler may change what is done with them.
TEST(Nvptx, HasTheFunctionsOfNvrtc) {
  const auto compiler = cuda::makeCompiler(target());
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  for (const DType type : {DType::F32, DType::F64})
    for (const ScalarOp op : {ScalarOp::Exp, ScalarOp::Log, ScalarOp::Tanh, ScalarOp::Sigmoid, ScalarOp::Erf, ScalarOp::Sin,
                              ScalarOp::Cos, ScalarOp::Sqrt, ScalarOp::Rsqrt}) {
      const Program p = unary(op, type);
      const Schedule first = (*scheduleSpace(p, target()))->first();
      const auto llvm = (*compiler)->compile({p, withGenerator(first, "llvm"), {"ptx"}});
      const auto nvrtc = (*compiler)->compile({p, withGenerator(first, "nvrtc"), {"ptx"}});
      ASSERT_TRUE(llvm.ok() && nvrtc.ok());
      EXPECT_EQ(numbersIn(llvm->texts.at("ptx").text), numbersIn(nvrtc->texts.at("ptx").text))
          << info(op).name << " of " << name(type) << "\n"
          << llvm->texts.at("ptx").text << nvrtc->texts.at("ptx").text;
    }
}

// Modules that are optimised one after the other lie where the ones before them were.
TEST(Nvptx, AModuleHasNothingOfTheOneBeforeIt) {
  Builder b;
  const TensorId x = b.input("X", {96, 40});
  b.output(b.op("Y", {96}, {40}, Reducer::Sum, [&](const auto& v) { return b.at(x, v); }));
  std::map<int, std::string> first;
  for (int n = 0; n < 200; ++n) {
    const int threads = n % 2 == 0 ? 64 : 256;
    const auto schedule = Schedule::parse(R"({"kind":"reduction","knobs":{"lanes":8,"order":"results","threads":)" +
                                          std::to_string(threads) + "},\"version\":1}");
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    const auto function = lower(b.p, *schedule, target());
    ASSERT_TRUE(function.ok()) << function.error().message;
    llvm::LLVMContext context;
    const auto emitted = cuda::emitModule(*function, context, 80, nullptr);
    ASSERT_TRUE(emitted.ok()) << emitted.error().message;
    ASSERT_TRUE(cuda::optimizeNvptx(*emitted->module, "sm_80").ok());
    std::string text;
    llvm::raw_string_ostream out(text);
    emitted->module->print(out, nullptr);
    EXPECT_NE(text.find("range(i32 0, " + std::to_string(threads) + ") i32 @llvm.nvvm.read.ptx.sreg.tid.x"), std::string::npos)
        << text;
    EXPECT_NE(text.find("!nvvm.annotations"), std::string::npos) << text;
    ASSERT_EQ(first.emplace(threads, text).first->second, text) << "module " << n;
  }
}

TEST(Nvptx, SaysThatLibdeviceIsMissing) {
  const auto none = cuda::findLibdevice({"/nowhere/"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message,
            "libdevice.10.bc, the CUDA toolkit's functions for LLVM, is not in /nowhere/: kernels with functions such as exp are "
            "generated by NVRTC.");
  EXPECT_FALSE(cuda::generateNvptx(loopsOf(unary(ScalarOp::Tanh)), "sm_80", "", nullptr).ok());
  EXPECT_TRUE(cuda::generateNvptx(loopsOf(unary(ScalarOp::Sqrt)), "sm_80", "", nullptr).ok());
}

TEST(Nvptx, RoundsEveryOperation) {
  Builder b;
  const TensorId x = b.input("X", {64}), y = b.input("Y", {64});
  b.output(b.op("Z", {64}, {}, Reducer::None, [&](const auto& v) {
    const ExprId product = b.p.binary(ScalarOp::Mul, b.at(x, v), b.at(y, v));
    const ExprId sum = b.p.binary(ScalarOp::Add, product, b.at(x, v));
    return b.p.binary(ScalarOp::Div, b.p.unary(ScalarOp::Sqrt, sum), b.at(y, v));
  }));
  const std::string ptx = ptxOf(b.p);
  for (const char* rounded : {"mul.rn.f32", "add.rn.f32", "sqrt.rn.f32", "div.rn.f32"})
    EXPECT_NE(ptx.find(rounded), std::string::npos) << rounded << "\n" << ptx;
  EXPECT_EQ(ptx.find("fma."), std::string::npos) << ptx;
}

TEST(Nvptx, TheKnobChoosesTheGenerator) {
  const auto compiler = cuda::makeCompiler(target());
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  const auto madeBy = [&](const Program& p, const Schedule& schedule, CompileEffort effort = CompileEffort::Full) {
    const auto object = (*compiler)->compile({p, schedule, {}, effort});
    EXPECT_TRUE(object.ok()) << object.error().message;
    return object ? object->generator : std::string();
  };
  const Program wide = gemm(64, 64, 64), plain = unary(ScalarOp::Relu);
  const auto wideSpace = scheduleSpace(wide, target()), plainSpace = scheduleSpace(plain, target());
  const Schedule contraction = (*wideSpace)->first(), elementwise = (*plainSpace)->first();
  ASSERT_EQ(contraction.kind, "contraction");
  EXPECT_EQ(madeBy(wide, contraction), "nvrtc");
  EXPECT_EQ(madeBy(wide, contraction, CompileEffort::Quick), "llvm");
  EXPECT_EQ(madeBy(wide, withGenerator(contraction, "llvm")), "llvm");
  EXPECT_EQ(madeBy(plain, elementwise), "llvm");
  EXPECT_EQ(madeBy(plain, withGenerator(elementwise, "nvrtc")), "nvrtc");
  EXPECT_EQ(withGenerator(withGenerator(elementwise, "nvrtc"), "llvm"), elementwise);
  EXPECT_EQ(
      (*plainSpace)->check(*Schedule::parse(R"({"kind":"elementwise","knobs":{"threads":64,"generator":"gcc"}})")).error().message,
      R"(knob generator cannot be "gcc" here)");
  EXPECT_EQ((*plainSpace)->knobs().back().values, (std::vector<std::string>{"\"llvm\"", "\"nvrtc\""}));
}

TEST(Nvptx, MatrixUnitsAreNvrtcs) {
  const Program p = gemm(256, 512, 128, DType::F16, DType::F16);
  const auto space = scheduleSpace(p, target());
  std::mt19937_64 rng(1);
  Schedule s = (*space)->first();
  for (int i = 0; i < 500 && s.knobs->value("matrix", "fma") == "fma"; ++i) s = (*space)->random(rng);
  ASSERT_EQ(s.knobs->value("matrix", "fma"), "mma16816") << s.text();
  EXPECT_EQ((*space)->check(withGenerator(s, "llvm")).error().message, "knob generator cannot be llvm where matrix units multiply");
  const auto refused = cuda::generateNvptx(*lower(p, s, target()), "sm_80", libdevice(), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("it has matrix tiles, which LLVM does not generate"), std::string::npos);
  const auto compiler = cuda::makeCompiler(target());
  for (const Schedule& asked : {s, withGenerator(s, "llvm")})
    for (const CompileEffort effort : {CompileEffort::Quick, CompileEffort::Full}) {
      const auto object = (*compiler)->compile({p, asked, {}, effort});
      ASSERT_TRUE(object.ok()) << object.error().message << object.error().detail;
      EXPECT_EQ(object->generator, "nvrtc");
    }
  // Descendants keep to what is legal.
  const Schedule plain = withGenerator((*space)->first(), "llvm");
  for (int i = 0; i < 300; ++i) {
    for (const Schedule& child : {(*space)->mutate(s, rng), (*space)->cross(s, plain, rng), (*space)->random(rng)})
      ASSERT_TRUE((*space)->check(child).ok()) << child.text();
  }
}

TEST(Nvptx, TheKnobIsSearchedAndChangesNoLoop) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Program p = unary(ScalarOp::Exp);
  const auto space = scheduleSpace(p, target());
  Schedule last = (*space)->first();
  int other = 0;
  for (int i = 0; i < 200; ++i) {
    const Schedule s = i % 3 == 0   ? (*space)->random(rng)
                       : i % 3 == 1 ? (*space)->mutate(last, rng)
                                    : (*space)->cross(last, (*space)->random(rng), rng);
    ASSERT_TRUE((*space)->check(s).ok()) << s.text() << ", seed " << seed;
    EXPECT_EQ(loop::toText(*lower(p, s, target())).text, loop::toText(*lower(p, withGenerator(s, "llvm"), target())).text);
    other += generatorOf(s) == "nvrtc";
    last = s;
  }
  EXPECT_GE(other, 20) << "seed " << seed;
  EXPECT_LE(other, 180) << "seed " << seed;
}

// Y[t] = X[t], a barrier of the block, Z[t] = Y[31 - t].
loop::Function handedOn() {
  loop::Function f;
  f.name = "handed on";
  f.buffers = {{"X", DType::F32, 32, loop::Scope::Global, loop::Direction::In, 0},
               {"Y", DType::F32, 32, loop::Scope::Global, loop::Direction::Out, 0},
               {"Z", DType::F32, 32, loop::Scope::Global, loop::Direction::Out, 0}};
  f.operands = 3;
  const loop::BufferId x(std::size_t{0}), y(std::size_t{1}), z(std::size_t{2});
  const auto block = f.addVar("b", 1, loop::LoopKind::Block);
  const auto first = f.addVar("t", 32, loop::LoopKind::Thread), second = f.addVar("u", 32, loop::LoopKind::Thread);
  const auto write = f.store({y, loop::at(first), {}}, f.load({x, loop::at(first), {}}));
  const auto read = f.store({z, loop::at(second), {}}, f.load({y, IndexExpr(31) - loop::at(second), {}}));
  f.stages.push_back({"Z", {f.forEach(block, {f.forEach(first, {write}), f.forEach(second, {read})})}});
  return f;
}

// A compiler that takes Y for its own thread's alone may read it before the barrier.
TEST(Nvptx, WhatThreadsHandOnIsNoThreadsOwn) {
  const loop::Function f = handedOn();
  const auto text = cuda::emit(f);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const std::string& c = text->source.text;
  EXPECT_NE(c.find("const float* __restrict__ X, float* Y, float* __restrict__ Z,"), std::string::npos) << c;
  const loop::LoopText loops = loop::toText(f);
  const auto made = cuda::generateNvptx(f, "sm_80", "", &loops);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::string& llvm = made->texts.at("llvm").text;
  for (const auto& [name, own] : {std::pair("X", true), std::pair("Y", false), std::pair("Z", true)})
    EXPECT_EQ(std::regex_search(llvm, std::regex(std::string("noalias[^,]*%") + name + ",")), own) << name << "\n" << llvm;
}

}  // namespace
}  // namespace nf::test
