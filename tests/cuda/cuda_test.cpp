// SPDX-License-Identifier: Apache-2.0
// Code for NVIDIA's devices, as far as it goes without one: CUDA C, PTX and cubins of every kernel.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/lang/compile.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/pipeline.h"
#include "core/schedule/generator.h"
#include "core/schedule/lower.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/plugin.h"
#include "tests/cuda/host_calls.h"
#include "tests/cuda/module_run.h"
#include "tests/kernel_cases.h"
#include "tests/random_program.h"

namespace nf::test {
namespace {

namespace fs = std::filesystem;

Backend& backend() { return *neoflowCudaPlugin(kPluginVersion); }

std::unique_ptr<Compiler> compilerFor(const std::string& architecture) {
  auto compiler = backend().compiler(*cuda::nominalTarget(architecture));
  EXPECT_TRUE(compiler.ok()) << (compiler.ok() ? "" : compiler.error().message);
  return compiler.ok() ? std::move(*compiler) : nullptr;
}

// A cubin is an ELF file that holds a text section for each stage.
std::string cubinProblem(const KernelObject& object) {
  const std::string code(reinterpret_cast<const char*>(object.code.data()), object.code.size());
  if (!code.starts_with("\x7f"
                        "ELF"))
    return "it is no ELF file";
  for (const KernelStage& s : object.stages)
    if (code.find(".text." + s.symbol) == std::string::npos) return "it lacks " + s.symbol;
  return {};
}

// By the generator that the schedule has.
std::string compiled(Compiler& compiler, const Program& p, const Schedule& schedule) {
  const auto object = compiler.compile({p, schedule, {}});
  if (!object) return object.error().message + "\n" + object.error().detail + "\n" + schedule.text();
  if (object->generator != generatorOf(schedule)) return "generator " + object->generator + " made it";
  return cubinProblem(*object);
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The kernels of a notebook's training step, by hash.
void collect(const fs::path& file, const Target& target, std::map<Hash, PlannedSubgraph>& into) {
  CompiledNotebook notebook = compileNotebook({file.string(), file.parent_path().string(), read(file)});
  ASSERT_TRUE(notebook.ok()) << file << render(notebook.diagnostics, notebook.sources);
  StageOptions options;
  options.device = deviceConstants(target);
  const auto stages = runStages(std::make_shared<const Program>(std::move(notebook.program)), options);
  ASSERT_TRUE(stages.ok()) << file << stages.error().message;
  ASSERT_FALSE(hasErrors(stages->diagnostics)) << file;
  const auto plan = planExecution(*stages->fused);
  ASSERT_TRUE(plan.ok()) << file << plan.error().message;
  for (const PlannedSubgraph& s : (*plan)->subgraphs) into.emplace(s.hash, s);
}

class Architecture : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cuda, Architecture, ::testing::Values("sm_75", "sm_80", "sm_90"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Architecture, EveryKernelOfEveryExampleCompiles) {
  const Target target = *cuda::nominalTarget(GetParam());
  std::map<Hash, PlannedSubgraph> kernels;
  for (const auto& entry : fs::directory_iterator(fs::path(NF_SOURCE_DIR) / "examples"))
    if (entry.path().extension() == ".nf") collect(entry.path(), target, kernels);
  EXPECT_GT(kernels.size(), 20u);
  const auto compiler = compilerFor(GetParam());
  for (const auto& [hash, kernel] : kernels) {
    const auto space = scheduleSpace(*kernel.program, target);
    ASSERT_TRUE(space.ok()) << kernel.name << ": " << space.error().message;
    for (const char* generator : {"llvm", "nvrtc"}) {
      const Schedule schedule = withGenerator((*space)->first(), generator);
      if ((*space)->check(schedule)) {
        EXPECT_EQ(compiled(*compiler, *kernel.program, schedule), "") << kernel.name << " by " << generator;
      }
    }
  }
}

// ---------------------------------------------------------------- the text itself, run on this machine

std::string difference(const Tensor& tensor, const std::vector<double>& want, const std::vector<double>& got) {
  double square = 0;
  for (const double v : want)
    if (std::isfinite(v)) square += v * v;
  const bool narrow = tensor.type == DType::F16 || tensor.type == DType::BF16;
  const double relative = narrow ? 1e-2 : 1e-4;
  const double absolute = (narrow ? 1e-2 : 1e-5) * std::max(1.0, std::sqrt(square / static_cast<double>(want.size())));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool same = std::isnan(want[i])      ? std::isnan(got[i])
                      : std::isfinite(want[i]) ? std::fabs(got[i] - want[i]) <= absolute + relative * std::fabs(want[i])
                                               : got[i] == want[i];
    if (!same)
      return tensor.name + "[" + std::to_string(i) + "] is " + std::to_string(got[i]) + ", expected " + std::to_string(want[i]);
  }
  return {};
}

// NaNs are one value.
std::string bitsThatDiffer(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return "the sizes";
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i])))
      return "element " + std::to_string(i) + ": " + std::to_string(a[i]) + " in CUDA C, " + std::to_string(b[i]) + " by LLVM";
  return {};
}

// Calls of generated kernels beside the reference's answers.
class HostRuns {
 public:
  explicit HostRuns(std::uint64_t seed) : m_rng(seed) {}
  std::mt19937_64& rng() { return m_rng; }

  // referenceHolds: whether the reference, which keeps doubles alone, has the same values.
  void add(const std::string& name, const Program& p, const Schedule& schedule, std::vector<std::int64_t> counters = {},
           int integerLimit = 4, bool referenceHolds = true) {
    m_referenceHolds.push_back(referenceHolds);
    const auto function = lower(p, schedule, *cuda::nominalTarget("sm_80"));
    ASSERT_TRUE(function.ok()) << name << ": " << function.error().message << "\n" << schedule.text();
    auto emitted = cuda::emit(*function);
    ASSERT_TRUE(emitted.ok()) << name << ": " << emitted.error().message << "\n" << schedule.text();
    const TensorValues inputs = randomInputs(p, m_rng, integerLimit);
    const auto reference = ReferenceProgram::prepare(p);
    ASSERT_TRUE(reference.ok()) << name;
    m_want.push_back(reference->run(inputs, 7, 3, counters));
    m_names.push_back(name + "\n" + schedule.text());
    m_programs.push_back(p);
    m_checks.push_back(function->checks);
    HostCall call = callOf(p, *function, inputs);
    call.emitted = std::move(*emitted);
    call.counters = std::move(counters);
    // The same through the other generator. It has no matrix units.
    auto object = moduleForHost(*function, "sm_80", "k" + std::to_string(m_calls.size()) + "_");
    HostCall twin = call;
    if (object) twin.object = std::move(*object);
    else
      ASSERT_NE(object.error().message.find("matrix tiles"), std::string::npos) << name << ": " << object.error().message << "\n"
                                                                                << object.error().detail << schedule.text();
    m_twins.push_back(std::move(twin));
    m_calls.push_back(std::move(call));
  }

  void compare() {
    const auto twins = runOnHost(m_twins);
    ASSERT_TRUE(twins.ok()) << twins.error().message << "\n" << twins.error().detail;
    const auto ran = runOnHost(m_calls);
    ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << ran.error().detail;
    for (std::size_t c = 0; c < m_calls.size(); ++c) {
      const HostCall& call = m_calls[c];
      ASSERT_EQ(call.status[0] == 0, m_want[c].ok()) << m_names[c];
      ASSERT_EQ(call.status[0], m_twins[c].status[0]) << m_names[c];
      ASSERT_EQ(call.status[1], m_twins[c].status[1]) << m_names[c];
      if (!m_want[c].ok()) {
        EXPECT_EQ(call.status[0] >> 32, 1u);
        EXPECT_LE(call.status[0] & 0xffffffffu, m_checks[c].size());
        continue;
      }
      for (std::size_t o = 0; o < call.outputs.size(); ++o) {
        const TensorId t = m_programs[c].outputs[o].tensor;
        EXPECT_EQ(bitsThatDiffer(call.outputs[o].values, m_twins[c].outputs[o].values), "")
            << m_programs[c][t].name << " of " << m_names[c] << "\n"
            << call.emitted.source.text;
        if (!m_referenceHolds[c]) continue;
        EXPECT_EQ(difference(m_programs[c][t], m_want[c]->at(t).values, call.outputs[o].values), "") << m_names[c] << "\n"
                                                                                                     << call.emitted.source.text;
      }
    }
  }

 private:
  std::mt19937_64 m_rng;
  std::vector<std::string> m_names;
  std::vector<Program> m_programs;
  std::vector<bool> m_referenceHolds;
  std::vector<std::vector<std::string>> m_checks;
  std::vector<Result<TensorValues>> m_want;
  std::vector<HostCall> m_calls, m_twins;  // CUDA C, and LLVM's module
};

TEST(CudaText, SchedulesEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  HostRuns runs(seed);
  const Target target = *cuda::nominalTarget("sm_80");
  for (const auto& cases : {nests(), contractions()})
    for (const Case& c : cases) {
      const auto space = scheduleSpace(c.program, target);
      runs.add(c.name + ", seed " + std::to_string(seed), c.program, (*space)->first());
      if (runs.rng()() % 2 == 0) runs.add(c.name + ", seed " + std::to_string(seed), c.program, (*space)->random(runs.rng()));
    }
  runs.compare();
}

// Every kernel of random programs, through the whole chain of passes.
TEST(CudaText, RandomProgramsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  HostRuns runs(seed);
  const Target target = *cuda::nominalTarget("sm_80");
  for (std::uint64_t n = 0; n < 6; ++n) {
    RandomProgram random(seed + n);
    const Build b = random.make();
    StageOptions options;
    options.device = deviceConstants(target);
    const auto stages = runStages(std::make_shared<const Program>(b.p), options);
    ASSERT_TRUE(stages.ok()) << stages.error().message;
    const auto plan = planExecution(*stages->fused);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const PlannedSubgraph& s : (*plan)->subgraphs) {
      const auto space = scheduleSpace(*s.program, target);
      ASSERT_TRUE(space.ok()) << space.error().message;
      runs.add(s.name + ", seed " + std::to_string(seed + n), *s.program, (*space)->random(runs.rng()), {1, 0}, 3);
    }
  }
  runs.compare();
}

TEST(CudaText, EveryOperationEqualsTheReference) {
  HostRuns runs(3);
  const Target target = *cuda::nominalTarget("sm_80");
  const auto add = [&](const std::string& name, Builder& b, std::vector<std::int64_t> counters = {}, int limit = 40) {
    runs.add(name, b.p, (*scheduleSpace(b.p, target))->first(), std::move(counters), limit);
  };
  for (const DType type : {DType::F32, DType::F64, DType::I32}) {
    Builder b;  // one kernel of all unary operations
    const TensorId x = b.input("X", {37}, type);
    for (const ScalarOp op :
         {ScalarOp::Neg, ScalarOp::Exp, ScalarOp::Log, ScalarOp::Sqrt, ScalarOp::Rsqrt, ScalarOp::Tanh, ScalarOp::Sigmoid,
          ScalarOp::Erf, ScalarOp::Sin, ScalarOp::Cos, ScalarOp::Abs, ScalarOp::Floor, ScalarOp::Relu, ScalarOp::StopGradient}) {
      const bool positive = op == ScalarOp::Log || op == ScalarOp::Sqrt || op == ScalarOp::Rsqrt;
      const bool integral = op == ScalarOp::Neg || op == ScalarOp::Abs || op == ScalarOp::Floor || op == ScalarOp::Relu;
      if (type == DType::I32 && !integral) continue;
      b.output(b.op(
          std::string("Y_") + std::string(info(op).name), {37}, {}, Reducer::None,
          [&](const auto& v) {
            ExprId e = b.at(x, v);
            if (positive)
              e = b.p.binary(ScalarOp::Add, b.p.binary(ScalarOp::Mul, e, e), b.p.constant(type == DType::I32 ? 1 : 0.25, type));
            return b.p.unary(op, e);
          },
          type));
    }
    add("unary of " + std::string(name(type)), b, {}, 8);
  }
  for (const DType type : {DType::F32, DType::F64, DType::I32}) {
    Builder b;
    const TensorId x = b.input("X", {5, 7}, type), y = b.input("Y", {5, 7}, type);
    for (const ScalarOp op : {ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Div, ScalarOp::Max, ScalarOp::Min,
                              ScalarOp::FloorDiv, ScalarOp::Mod}) {
      const bool integral = op == ScalarOp::FloorDiv || op == ScalarOp::Mod;
      if (integral != (type == DType::I32) && (integral || op == ScalarOp::Div)) continue;
      b.output(b.op(
          std::string("Z_") + std::string(info(op).name), {5, 7}, {}, Reducer::None,
          [&](const auto& v) {
            ExprId l = b.at(x, v), r = b.at(y, v);
            if (op == ScalarOp::Div) r = b.p.binary(ScalarOp::Add, b.p.binary(ScalarOp::Mul, r, r), b.p.constant(1, type));
            if (integral) {
              l = b.p.binary(ScalarOp::Sub, l, b.p.constant(20, type));
              r = b.p.binary(ScalarOp::Sub, r, b.p.constant(41, type));
            }
            return b.p.binary(op, l, r);
          },
          type));
    }
    add("binary of " + std::string(name(type)), b);
  }
  for (const DType from : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32}) {
    Builder b;
    const TensorId x = b.input("X", {44}, from);
    for (const DType to : {DType::F32, DType::F64, DType::F16, DType::BF16})
      b.output(b.op(
          "to_" + std::string(name(to)), {44}, {}, Reducer::None, [&](const auto& v) { return b.p.cast(to, b.at(x, v)); }, to));
    add("conversions of " + std::string(name(from)), b);
  }
  for (const DType from : {DType::F32, DType::F64}) {
    Builder b;  // to integers, beyond their range and of what is no number, too
    const TensorId x = b.input("X", {44}, from), y = b.input("Y", {44}, from);
    const auto quotient = [&](const auto& v) {
      const ExprId whole = b.p.unary(ScalarOp::Floor, b.p.binary(ScalarOp::Mul, b.at(y, v), b.p.constant(3, from)));
      return b.p.binary(ScalarOp::Div, b.p.unary(ScalarOp::Floor, b.p.binary(ScalarOp::Mul, b.at(x, v), b.p.constant(1e10, from))),
                        whole);
    };
    const auto noNumber = [&](const auto& v) {
      const ExprId zero = b.p.binary(ScalarOp::Sub, b.at(y, v), b.at(y, v));
      return b.p.binary(ScalarOp::Div, zero, zero);
    };
    b.output(b.op(
        "to_i32", {44}, {}, Reducer::None, [&](const auto& v) { return b.p.cast(DType::I32, quotient(v)); }, DType::I32));
    b.output(b.op(
        "nan_to_i32", {44}, {}, Reducer::None, [&](const auto& v) { return b.p.cast(DType::I32, noNumber(v)); }, DType::I32));
    runs.add("to integers of " + std::string(name(from)), b.p, (*scheduleSpace(b.p, target))->first(), {}, 40, false);
  }
  {
    Builder b;  // names that CUDA C means something by, random numbers, counters, powers, padding, conditions
    const TensorId x = b.input("float", {4, 12, 32}), y = b.input("threadIdx", {32});
    const IndexExpr t = IndexExpr::variable(kLoopVariable);
    b.output(b.op("exp'", {4, 32}, {}, Reducer::None, [&](const auto& v) {
      const IndexExpr i = v[1] - IndexExpr(3);
      const ExprId inside = b.p.cond(IndexCond::all({IndexCond::ge0(i), IndexCond::ge0(IndexExpr(20) - i)}));
      const ExprId noise = b.p.binary(ScalarOp::Mul, b.p.random(5, 32 * v[0] + v[1]), b.p.indexValue(t, DType::F32));
      const ExprId padded = b.p.select(inside, b.at(y, {i}), b.p.constant(-3));
      const ExprId power = b.p.binary(ScalarOp::Pow, b.p.constant(1.5), b.at(x, {v[0], IndexExpr(11) - t, v[1]}));
      return b.p.binary(ScalarOp::Add, b.p.binary(ScalarOp::Add, noise, padded), power);
    }));
    add("names", b, {7});
  }
  {
    Builder b;  // rows by data, all inside
    const TensorId e = b.input("E", {6, 20}), idx = b.input("idx", {11}, DType::I32);
    b.output(b.op("Y", {11, 20}, {}, Reducer::None, [&](const auto& v) {
      return b.p.load(e, {{{}, b.at(idx, {v[0]})}, {v[1], {}}});
    }));
    add("rows by data", b, {}, 6);
    add("rows by data, some outside", b, {}, 40);
  }
  runs.compare();
}

TEST(CudaText, OriginsReachTheLinesOfCudaAndPtx) {
  Builder b;
  const OriginId origin = b.p.sourceOrigin({SourceId(std::size_t{0}), 10, 20});
  const TensorId x = b.input("X", {64});
  b.output(b.op("Y", {64}, {}, Reducer::None, [&](const auto& v) {
    return b.p.unary(ScalarOp::Tanh, b.p.load(x, {{v[0], {}}}, origin), origin);
  }));
  const auto compiler = compilerFor("sm_80");
  const Schedule first = (*scheduleSpace(b.p, *cuda::nominalTarget("sm_80")))->first();
  for (const std::string generator : {"nvrtc", "llvm"}) {
    const auto object = compiler->compile({b.p, withGenerator(first, generator), {"loops", "cuda", "llvm", "ptx"}});
    ASSERT_TRUE(object.ok()) << object.error().detail;
    EXPECT_EQ(object->generator, generator);
    for (const std::string kind : {"loops", "cuda", "llvm", "ptx"}) {
      ASSERT_TRUE(object->texts.contains(kind)) << generator << ", " << kind;
      const KernelText& text = object->texts.at(kind);
      EXPECT_EQ(static_cast<std::size_t>(std::count(text.text.begin(), text.text.end(), '\n')), text.lineOrigins.size()) << kind;
      const auto known =
          std::count_if(text.lineOrigins.begin(), text.lineOrigins.end(), [&](const auto& o) { return o == std::vector{origin}; });
      EXPECT_GE(known, kind == "ptx" || kind == "llvm" ? 8 : 1) << generator << ", " << kind << "\n" << text.text;
    }
  }
}

TEST(CudaText, OriginsOutliveCodeMotion) {
  Builder b;
  const auto from = [&](std::uint32_t begin) { return b.p.sourceOrigin({SourceId(std::size_t{0}), begin, begin + 5}); };
  const OriginId ofX = from(10), ofW = from(20), ofProduct = from(30);
  const TensorId x = b.input("X", {4, 6}), w = b.input("W", {6, 6});
  b.output(b.op("Y", {4, 6}, {6}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.p.load(x, {{v[0], {}}, {v[2], {}}}, ofX), b.p.load(w, {{v[2], {}}, {v[1], {}}}, ofW),
                      ofProduct);
  }));
  const Schedule first = (*scheduleSpace(b.p, *cuda::nominalTarget("sm_80")))->first();
  const auto object = compilerFor("sm_80")->compile({b.p, withGenerator(first, "llvm"), {"loops", "llvm", "ptx"}});
  ASSERT_TRUE(object.ok()) << object.error().detail;
  for (const std::string kind : {"loops", "llvm", "ptx"}) {
    const KernelText& text = object->texts.at(kind);
    for (const OriginId origin : {ofX, ofW, ofProduct})
      EXPECT_TRUE(std::any_of(text.lineOrigins.begin(), text.lineOrigins.end(),
                              [&](const auto& o) { return std::find(o.begin(), o.end(), origin) != o.end(); }))
          << kind << ", " << origin.value << "\n"
          << text.text;
  }
}

TEST(CudaText, NeighboursMoveAtOnce) {
  Builder b;
  const TensorId x = b.input("X", {256, 256}), y = b.input("Y", {256, 256});
  b.output(
      b.op("Z", {256, 256}, {}, Reducer::None, [&](const auto& v) { return b.p.binary(ScalarOp::Add, b.at(x, v), b.at(y, v)); }));
  const auto schedule = Schedule::parse(R"({"kind":"elementwise","knobs":{"threads":256,"vector":4}})");
  for (const char* generator : {"llvm", "nvrtc"}) {
    const auto object = compilerFor("sm_80")->compile({b.p, withGenerator(*schedule, generator), {"ptx"}});
    ASSERT_TRUE(object.ok()) << object.error().message << object.error().detail;
    const std::string& ptx = object->texts.at("ptx").text;
    EXPECT_NE(ptx.find("ld.global.nc.v4"), std::string::npos) << ptx;
    EXPECT_NE(ptx.find("st.global.v4"), std::string::npos) << ptx;
  }
}

TEST(CudaPlugin, SaysInOneSentenceWhatIsMissing) {
  BackendRegistry registry;
  registry.add("cuda", &neoflowCudaPlugin);
  ASSERT_EQ(registry.entries().size(), 1u);
  const std::string& reason = registry.entries().front().reason;
  if (reason.empty()) {
    EXPECT_FALSE(backend().deviceNames().empty());
    return;
  }
  EXPECT_EQ(reason.back(), '.');
  EXPECT_EQ(reason.find('\n'), std::string::npos);
  EXPECT_EQ(registry.find("cuda"), nullptr);
  EXPECT_FALSE(backend().open("cuda:0", 1).ok());
  EXPECT_FALSE(backend().target("cuda", 1).ok());
  EXPECT_FALSE(backend().open("cuda:x", 1).ok());
}

// Through the program, its worker processes and the shared object beside it.
TEST(CudaPlugin, ExportsKernelsWithoutADevice) {
  const fs::path folder = fs::temp_directory_path() / ("neoflow-export-" + std::to_string(::getpid()));
  const auto run = [&](const std::string& device) {
    const std::string command = std::string(NF_NEOFLOW) + " export " + (fs::path(NF_SOURCE_DIR) / "examples/figure4.nf").string() +
                                " --to cuda " + folder.string() + " --device " + device + " > " + folder.string() + ".log 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  ASSERT_EQ(run("cuda:sm_90"), 0) << read(folder.string() + ".log");
  std::map<std::string, int> kinds;
  for (const auto& entry : fs::directory_iterator(folder)) ++kinds[entry.path().extension().string()];
  EXPECT_GE(kinds[".cu"], 1);
  EXPECT_EQ(kinds[".cu"], kinds[".ll"]);
  EXPECT_EQ(kinds[".ptx"], 2 * kinds[".cu"]);  // of both generators
  EXPECT_EQ(kinds[".cu"], kinds[".loops"]);
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".ptx") {
      EXPECT_NE(read(entry.path()).find(".target sm_90"), std::string::npos) << entry.path();
    }
  EXPECT_EQ(run("cuda:sm_70"), 3);
  EXPECT_NE(read(folder.string() + ".log").find("sm_75 and later"), std::string::npos);
  fs::remove_all(folder);
  fs::remove(folder.string() + ".log");
}

// What `hint schedule` says is what is exported, as it is what runs.
TEST(CudaPlugin, ExportsTheScheduleOfAHint) {
  const fs::path folder = fs::temp_directory_path() / ("neoflow-hinted-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto run = [&](const std::string& copies, const std::string& device) {
    std::ofstream(folder / "hinted.nf")
        << "input A[256, 128] : f16\ninput B[128, 256] : f16\nC[i, j] = sum[k] A[i, k] * B[k, j]\nshow C\n"
        << "hint schedule C { kind = contraction; block_m = 128; block_n = 128; block_k = 64; "
           "thread_m = 2; thread_n = 32; stages = 2; matrix = wgmma; copies = "
        << copies << " }\n";
    const std::string command = std::string(NF_NEOFLOW) + " export " + (folder / "hinted.nf").string() + " --to cuda " +
                                (folder / "out").string() + " --device " + device + " > " + (folder / "log").string() + " 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const auto exported = [&] {
    std::string text;
    for (const auto& entry : fs::directory_iterator(folder / "out"))
      if (entry.path().extension() == ".cu") text += read(entry.path());
    return text;
  };
  ASSERT_EQ(run("tma", "cuda:sm_90"), 0) << read(folder / "log");
  EXPECT_NE(exported().find("nf_tensor_copy"), std::string::npos) << exported();
  fs::remove_all(folder / "out");
  ASSERT_EQ(run("async", "cuda:sm_90"), 0) << read(folder / "log");
  EXPECT_EQ(exported().find("nf_tensor_copy"), std::string::npos);
  EXPECT_NE(exported().find("nf_wgmma_f16<128"), std::string::npos) << exported();
  EXPECT_NE(run("tma", "cuda:sm_80"), 0);
  EXPECT_NE(read(folder / "log").find("this kernel has no such schedule"), std::string::npos) << read(folder / "log");
  fs::remove_all(folder);
}

TEST(CudaPlugin, RefusesWhatNvrtcCannotServe) {
  EXPECT_FALSE(cuda::nominalTarget("sm_70").ok());
  EXPECT_FALSE(cuda::nominalTarget("avx512").ok());
  Target target = *cuda::nominalTarget("sm_80");
  target.features = {"sm_74"};
  EXPECT_FALSE(backend().compiler(target).ok());
}

}  // namespace
}  // namespace nf::test
