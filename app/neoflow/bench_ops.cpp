// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/bench_ops.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "app/neoflow/commands.h"
#include "app/neoflow/peers/peers.h"
#include "core/autodiff/differentiate.h"
#include "core/device/backend.h"
#include "core/runtime/device_context.h"
#include "core/runtime/host_tensor.h"
#include "core/schedule/schedule.h"
#include "core/support/assert.h"
#include "core/support/scaled_text.h"
#include "core/transform/remove_dead_operators.h"
#include "core/tune/timed_runs.h"

namespace nf {
namespace {

using Indices = std::vector<IndexExpr>;

// A subgraph written by hand.
struct Graph {
  Program p;
  DType type = DType::F32;  // of every tensor

  TensorId input(const std::string& name, std::vector<std::int64_t> shape) {
    Tensor t;
    t.name = name;
    t.kind = TensorKind::Input;
    t.type = type;
    t.shape = std::move(shape);
    return p.addTensor(std::move(t));
  }
  TensorId op(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int64_t> reduced, Reducer reducer,
              const std::function<ExprId(const Indices&)>& body) {
    Operator o;
    o.name = name;
    o.reducer = reducer;
    o.outputRank = static_cast<std::uint32_t>(shape.size());
    Indices v;
    const auto axis = [&](std::int64_t extent) {
      v.push_back(IndexExpr::variable(static_cast<IndexVar>(o.axes.size())));
      o.axes.push_back({std::string(1, static_cast<char>('a' + o.axes.size())), extent, {}});
    };
    for (const std::int64_t e : shape) axis(e);
    for (const std::int64_t e : reduced) axis(e);
    o.body = body(v);
    Tensor t;
    t.name = name;
    t.type = type;
    t.shape = std::move(shape);
    o.output = p.addTensor(std::move(t));
    p.addOperator(o);
    return o.output;
  }
  ExprId at(TensorId t, const Indices& indices) {
    std::vector<AccessIndex> access;
    for (const IndexExpr& e : indices) access.push_back({e, {}});
    return p.load(t, std::move(access));
  }
  ExprId mul(ExprId a, ExprId b) { return p.binary(ScalarOp::Mul, a, b); }
  ExprId add(ExprId a, ExprId b) { return p.binary(ScalarOp::Add, a, b); }
  ExprId real(double v) { return p.constant(v); }
  void output(TensorId t) { p.outputs.push_back({p[t].name, t, OutputRole::Named}); }
};

struct BenchCase {
  std::string name;
  Program program;
  double flops = 0;
  double bytes = 0;      // of distinct tensors: memory-bound cases are held against the machine's bandwidth
  nlohmann::json shape;  // of a product or convolution: what another program needs to make the same call
  // Peers by name: makes the call on our operands, in binding order.
  std::vector<std::pair<std::string, std::function<peers::Case*(const std::vector<float*>&)>>> peers;
};

// The module beside the executable; every function null where it is not there.
struct Peers {
  peers::MakeGemm gemm = nullptr;
  peers::MakeConvolution convolution = nullptr;
  peers::MakeSoftmax softmax = nullptr;
  peers::Run run = nullptr;
  peers::Release release = nullptr;
};

Peers openPeers(int threads) {
  // Both libraries read these once, when they are loaded.
  const std::string count = std::to_string(threads);
  ::setenv("OMP_NUM_THREADS", count.c_str(), 1);
  ::setenv("OPENBLAS_NUM_THREADS", count.c_str(), 1);
  ::setenv("OMP_WAIT_POLICY", "PASSIVE", 0);
  Peers result;
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return result;
  std::string directory(path, static_cast<std::size_t>(length));
  directory.resize(directory.rfind('/') + 1);
  void* library = ::dlopen((directory + "neoflow-peers.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return result;
  result.gemm = reinterpret_cast<peers::MakeGemm>(::dlsym(library, "nfPeerGemm"));
  result.convolution = reinterpret_cast<peers::MakeConvolution>(::dlsym(library, "nfPeerConvolution"));
  result.softmax = reinterpret_cast<peers::MakeSoftmax>(::dlsym(library, "nfPeerSoftmax"));
  result.run = reinterpret_cast<peers::Run>(::dlsym(library, "nfPeerRun"));
  result.release = reinterpret_cast<peers::Release>(::dlsym(library, "nfPeerRelease"));
  return result;
}

BenchCase gemm(const Peers& peers, DType type, const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k) {
  Graph g;
  g.type = type;
  const TensorId a = g.input("A", {m, k}), b = g.input("B", {k, n});
  g.output(g.op("C", {m, n}, {k}, Reducer::Sum, [&](const Indices& v) {
    return g.mul(g.at(a, {v[0], v[2]}), g.at(b, {v[2], v[1]}));
  }));
  BenchCase c{"gemm:" + name, std::move(g.p), 2.0 * static_cast<double>(m * n * k), 0, {{"m", m}, {"n", n}, {"k", k}}, {}};
  for (const char* library : {"oneDNN", "OpenBLAS"})
    c.peers.emplace_back(library, [peers, library, m, n, k](const std::vector<float*>& t) {
      return peers.gemm(library, m, n, k, t[0], t[1], t[2]);
    });
  return c;
}

BenchCase convolution(const Peers& peers, DType type, const std::string& name, const peers::Convolution& s) {
  Graph g;
  g.type = type;
  const std::int64_t o = (s.height + 2 * s.pad - s.dilation * (s.window - 1) - 1) / s.stride + 1;
  const std::int64_t in = s.channels / s.groups, out = s.outChannels / s.groups;
  const TensorId x = g.input("X", {s.batch, s.channels, s.height, s.height}),
                 w = g.input("W", {s.outChannels, in, s.window, s.window});
  g.output(g.op("Y", {s.batch, s.outChannels, o, o}, {in, s.window, s.window}, Reducer::Sum, [&](const Indices& v) {
    const IndexExpr h = s.stride * v[2] + s.dilation * v[5] - IndexExpr(s.pad),
                    q = s.stride * v[3] + s.dilation * v[6] - IndexExpr(s.pad);
    const IndexExpr channel = s.groups == 1 ? v[4] : in * floorDiv(v[1], out) + v[4];
    ExprId pixel = g.at(x, {v[0], channel, h, q});
    if (s.pad > 0) {
      const auto inside = [&](const IndexExpr& e) {
        return IndexCond::all({IndexCond::ge0(e), IndexCond::ge0(IndexExpr(s.height - 1) - e)});
      };
      pixel = g.p.select(g.p.cond(IndexCond::all({inside(h), inside(q)})), pixel, g.real(0));
    }
    return g.mul(pixel, g.at(w, {v[1], v[4], v[5], v[6]}));
  }));
  BenchCase c{"conv:" + name,
              std::move(g.p),
              2.0 * static_cast<double>(s.batch * s.outChannels * o * o * in * s.window * s.window),
              0,
              {{"batch", s.batch},
               {"channels", s.channels},
               {"height", s.height},
               {"out_channels", s.outChannels},
               {"window", s.window},
               {"stride", s.stride},
               {"pad", s.pad},
               {"dilation", s.dilation},
               {"groups", s.groups}},
              {}};
  for (const bool blocked : {false, true})
    c.peers.emplace_back(blocked ? "oneDNN, own layouts" : "oneDNN", [peers, blocked, s](const std::vector<float*>& t) {
      return peers.convolution(blocked, s, t[0], t[1], t[2]);
    });
  return c;
}

// What the picture's gradient takes, given that of the result.
BenchCase dataGradient(DType type, const std::string& name, const peers::Convolution& s) {
  const BenchCase forward = convolution({}, type, name, s);
  const Program& p = forward.program;
  DerivativeProgram asked = onlyDerivative(p, p.outputs[0].tensor, p.tensorNamed("X"));
  asked.program.outputs = {{"dX", asked.result, OutputRole::Named}};
  const auto gradient = differentiate(asked.program);
  NF_ASSERT(gradient.ok());
  auto alone = removeDeadOperators(gradient->program);
  NF_ASSERT(alone.ok());
  return {"grad:" + name, std::move(*alone), forward.flops, 0, {}, {}};
}

double bytesOfAll(const Program& p) {
  double bytes = 0;
  const auto made = producers(p);
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const bool output = std::any_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.tensor == TensorId(t); });
    if (!made[t].valid() || output) bytes += static_cast<double>(p.tensors[t].bytes());
  }
  return bytes;
}

BenchCase softmax(const Peers& peers, const std::string& name, std::int64_t rows, std::int64_t n) {
  Graph g;
  const TensorId x = g.input("X", {rows, n});
  const TensorId m = g.op("M", {rows}, {n}, Reducer::Max, [&](const Indices& v) { return g.at(x, v); });
  const TensorId e = g.op("E", {rows, n}, {}, Reducer::None, [&](const Indices& v) {
    return g.p.unary(ScalarOp::Exp, g.p.binary(ScalarOp::Sub, g.at(x, v), g.at(m, {v[0]})));
  });
  const TensorId s = g.op("S", {rows}, {n}, Reducer::Sum, [&](const Indices& v) { return g.at(e, v); });
  g.output(g.op("Y", {rows, n}, {}, Reducer::None,
                [&](const Indices& v) { return g.p.binary(ScalarOp::Div, g.at(e, v), g.at(s, {v[0]})); }));
  BenchCase c{"memory:" + name, std::move(g.p), 0, 0, {}, {}};
  c.bytes = bytesOfAll(c.program);
  c.peers.emplace_back("oneDNN", [peers, rows, n](const std::vector<float*>& t) { return peers.softmax(rows, n, t[0], t[1]); });
  return c;
}

BenchCase layerNorm(const std::string& name, std::int64_t rows, std::int64_t n) {
  Graph g;
  const TensorId x = g.input("X", {rows, n}), scale = g.input("scale", {n}), shift = g.input("shift", {n});
  const double part = 1.0 / static_cast<double>(n);
  const TensorId mean = g.op("mean", {rows}, {n}, Reducer::Sum, [&](const Indices& v) { return g.mul(g.at(x, v), g.real(part)); });
  const TensorId var = g.op("var", {rows}, {n}, Reducer::Sum, [&](const Indices& v) {
    const ExprId d = g.p.binary(ScalarOp::Sub, g.at(x, v), g.at(mean, {v[0]}));
    return g.mul(g.mul(d, d), g.real(part));
  });
  g.output(g.op("Y", {rows, n}, {}, Reducer::None, [&](const Indices& v) {
    const ExprId d = g.p.binary(ScalarOp::Sub, g.at(x, v), g.at(mean, {v[0]}));
    const ExprId r = g.p.unary(ScalarOp::Rsqrt, g.add(g.at(var, {v[0]}), g.real(1e-5)));
    return g.add(g.mul(g.mul(d, r), g.at(scale, {v[1]})), g.at(shift, {v[1]}));
  }));
  BenchCase c{"memory:" + name, std::move(g.p), 0, 0, {}, {}};
  c.bytes = bytesOfAll(c.program);
  return c;
}

BenchCase elementwise(const std::string& name, std::vector<std::int64_t> shape, int inputs,
                      const std::function<void(Graph&, const std::vector<TensorId>&, const std::vector<std::int64_t>&)>& build) {
  Graph g;
  std::vector<TensorId> in;
  for (int i = 0; i < inputs; ++i) in.push_back(g.input("X" + std::to_string(i), shape));
  build(g, in, shape);
  BenchCase c{"memory:" + name, std::move(g.p), 0, 0, {}, {}};
  c.bytes = bytesOfAll(c.program);
  return c;
}

// Products and convolutions in `type`, what is bound by memory in single precision.
std::vector<BenchCase> allCases(const Peers& peers, DType type) {
  std::vector<BenchCase> cases;
  const auto g = [&](const char* name, std::int64_t m, std::int64_t n, std::int64_t k) {
    cases.push_back(gemm(peers, type, name, m, n, k));
  };
  g("sq512", 512, 512, 512);
  g("sq1024", 1024, 1024, 1024);
  g("sq2048", 2048, 2048, 2048);
  g("paper_1024x16x500", 1024, 16, 500);
  g("swap_16x1024x500", 16, 1024, 500);
  g("rnn_b1", 1, 2048, 512);
  g("rnn_b16", 16, 2048, 512);
  g("rnn_b64", 64, 2048, 512);
  g("rnn28_b64", 64, 512, 28);
  g("bert_proj", 128, 768, 768);
  g("bert_ff1", 128, 3072, 768);
  g("bert_ff2", 128, 768, 3072);
  g("bert_proj_b16", 2048, 768, 768);
  g("attn_128x128x64", 128, 128, 64);
  g("tall_4096x64x64", 4096, 64, 64);
  g("deep_64x64x4096", 64, 64, 4096);
  const auto c = [&](const char* name, peers::Convolution s) { cases.push_back(convolution(peers, type, name, s)); };
  c("digits_c1", {64, 1, 8, 64, 3, 1, 0, 1, 1});
  c("digits_c2", {64, 64, 6, 64, 3, 2, 0, 1, 1});
  c("pw_1024_14", {1, 1024, 14, 1024, 1, 1, 0, 1, 1});
  c("r_stem7x7", {1, 3, 224, 64, 7, 2, 3, 1, 1});
  c("r_64_56", {1, 64, 56, 64, 3, 1, 1, 1, 1});
  c("r_64_256_1x1_56", {1, 64, 56, 256, 1, 1, 0, 1, 1});
  c("r_256_64_1x1_56", {1, 256, 56, 64, 1, 1, 0, 1, 1});
  c("r_128_28", {1, 128, 28, 128, 3, 1, 1, 1, 1});
  c("r_256_14", {1, 256, 14, 256, 3, 1, 1, 1, 1});
  c("r_256_512_s2", {1, 256, 14, 512, 3, 2, 1, 1, 1});
  c("r_512_7", {1, 512, 7, 512, 3, 1, 1, 1, 1});
  c("r_512_1024_1x1_s2", {1, 512, 28, 1024, 1, 2, 0, 1, 1});
  c("dw_32_112", {1, 32, 112, 32, 3, 1, 1, 1, 32});
  c("dw_512_14", {1, 512, 14, 512, 3, 1, 1, 1, 512});
  c("dw_128_56_s2", {1, 128, 56, 128, 3, 2, 1, 1, 128});
  c("grp3_240_28", {1, 240, 28, 60, 1, 1, 0, 1, 3});
  c("dil_64_256_56", {1, 64, 56, 256, 3, 2, 2, 2, 1});
  c("cap_vec_conv1", {1, 64, 28, 2048, 3, 2, 1, 1, 1});
  c("cap_vec_1of8", {1, 64, 28, 256, 3, 2, 1, 1, 1});
  const auto d = [&](const char* name, peers::Convolution s) { cases.push_back(dataGradient(type, name, s)); };
  d("digits_c2", {64, 64, 6, 64, 3, 2, 0, 1, 1});
  d("r_256_512_s2", {1, 256, 14, 512, 3, 2, 1, 1, 1});
  d("dw_128_56_s2", {1, 128, 56, 128, 3, 2, 1, 1, 128});
  d("dw_32_112_s2", {1, 32, 112, 32, 3, 2, 1, 1, 32});
  d("dw_64_57_s2", {4, 64, 57, 64, 3, 2, 0, 1, 64});
  d("dw_32_50_s3", {8, 32, 50, 32, 5, 3, 0, 1, 32});
  cases.push_back(softmax(peers, "softmax_4096x1024", 4096, 1024));
  cases.push_back(softmax(peers, "softmax_1536x128", 1536, 128));
  cases.push_back(layerNorm("layernorm_2048x768", 2048, 768));
  cases.push_back(layerNorm("layernorm_128x768", 128, 768));
  cases.push_back(elementwise("ew_relu_add_mul_1M", {1024, 1024}, 3, [](Graph& e, const auto& in, const auto& shape) {
    e.output(e.op("Y", shape, {}, Reducer::None, [&](const Indices& v) {
      return e.mul(e.p.unary(ScalarOp::Relu, e.add(e.at(in[0], v), e.at(in[1], v))), e.at(in[2], v));
    }));
  }));
  for (const std::int64_t rows : {64, 1024})
    cases.push_back(
        elementwise("ew_lstm_" + std::to_string(rows) + "x512", {rows, 512}, 5, [](Graph& e, const auto& in, const auto& shape) {
          const auto gate = [&](int k, ScalarOp f, const Indices& v) {
            return e.p.unary(f, e.at(in[static_cast<std::size_t>(k)], v));
          };
          const TensorId cell = e.op("C", shape, {}, Reducer::None, [&](const Indices& v) {
            return e.add(e.mul(gate(1, ScalarOp::Sigmoid, v), e.at(in[4], v)),
                         e.mul(gate(0, ScalarOp::Sigmoid, v), gate(2, ScalarOp::Tanh, v)));
          });
          e.output(cell);
          e.output(e.op("H", shape, {}, Reducer::None, [&](const Indices& v) {
            return e.mul(gate(3, ScalarOp::Sigmoid, v), e.p.unary(ScalarOp::Tanh, e.at(cell, v)));
          }));
        }));
  cases.push_back(elementwise("ew_gelu_tanhform_1M", {1024, 1024}, 1, [](Graph& e, const auto& in, const auto& shape) {
    e.output(e.op("Y", shape, {}, Reducer::None, [&](const Indices& v) {
      const ExprId x = e.at(in[0], v);
      const ExprId inner = e.mul(e.real(0.7978845608), e.add(x, e.mul(e.real(0.044715), e.mul(x, e.mul(x, x)))));
      return e.mul(e.mul(e.real(0.5), x), e.add(e.real(1), e.p.unary(ScalarOp::Tanh, inner)));
    }));
  }));
  cases.push_back(elementwise("shuffle_relu_64x240x28x28", {64, 240, 28, 28}, 1, [](Graph& e, const auto& in, const auto& shape) {
    e.output(e.op("Y", shape, {}, Reducer::None, [&](const Indices& v) {
      return e.p.unary(ScalarOp::Relu, e.at(in[0], {v[0], 80 * floorMod(v[1], 3) + floorDiv(v[1], 3), v[2], v[3]}));
    }));
  }));
  return cases;
}

// ------------------------------------------------------------ measuring
double now(bool alone) {
  timespec t;
  ::clock_gettime(alone ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double wall() { return now(false); }

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double spread(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[v.size() * 3 / 4] - v[v.size() / 4]) / v[v.size() / 2];
}

// Operands of one kernel, released with it.
class Operands {
 public:
  static Result<std::unique_ptr<Operands>> make(Device& device, const Program& p) {
    auto self = std::unique_ptr<Operands>(new Operands(device));
    const auto made = producers(p);
    std::mt19937 rng(7);
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (!made[t].valid()) { NF_TRY([[maybe_unused]] const Unit added, self->add(p.tensors[t], rng)); }
    for (const Output& o : p.outputs) { NF_TRY([[maybe_unused]] const Unit added, self->add(p[o.tensor], rng)); }
    return self;
  }
  ~Operands() {
    for (void* t : m_pointers) m_device.release(t);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  std::span<void* const> pointers() const { return m_pointers; }
  std::vector<float*> floats() const {
    std::vector<float*> f;
    for (void* t : m_pointers) f.push_back(static_cast<float*>(t));
    return f;
  }

 private:
  explicit Operands(Device& device) : m_device(device) {}
  Result<Unit> add(const Tensor& tensor, std::mt19937& rng) {
    NF_TRY(void* const memory, m_device.allocate(tensor.bytes()));
    m_pointers.push_back(memory);
    HostTensor values = HostTensor::make(tensor.type, tensor.shape);
    for (std::int64_t i = 0; i < values.elements(); ++i) values.set(i, static_cast<double>(rng() % 200) / 100 - 1);
    return m_device.copyIn(memory, values.bytes.data(), tensor.bytes());
  }
  Device& m_device;
  std::vector<void*> m_pointers;
};

// One compiled candidate with its workspace.
class Candidate {
 public:
  static Result<std::unique_ptr<Candidate>> make(Device& device, Compiler& compiler, const Program& p, const Schedule& schedule,
                                                 std::span<void* const> tensors) {
    auto c = std::unique_ptr<Candidate>(new Candidate(device));
    const double start = now(true);
    NF_TRY(const KernelObject object, compiler.compile({p, schedule, {}}));
    c->m_compileSeconds = now(true) - start;
    NF_TRY(c->m_kernel, device.link(object));
    c->m_codeBytes = object.code.size();
    NF_TRY(c->m_workspace, device.allocate(object.workspaceBytes));
    c->m_args.tensors = tensors;
    c->m_args.workspace = c->m_workspace;
    return c;
  }
  ~Candidate() {
    if (m_workspace) m_device.release(m_workspace);
  }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;
  // The first failure stays.
  void run() {
    auto ran = m_kernel->launch(m_args);
    if (!ran && !m_failure) m_failure = ran.error();
  }
  const std::optional<Error>& failure() const { return m_failure; }
  double compileSeconds() const { return m_compileSeconds; }
  std::size_t codeBytes() const { return m_codeBytes; }

 private:
  explicit Candidate(Device& device) : m_device(device) {}
  Device& m_device;
  std::unique_ptr<Kernel> m_kernel;
  void* m_workspace = nullptr;
  LaunchArgs m_args;
  std::optional<Error> m_failure;
  double m_compileSeconds = 0;
  std::size_t m_codeBytes = 0;
};

// How calls on a device are timed: on one CPU thread by processor time, which other jobs do not move, else by wall time. `sample`: seconds
// that one sample takes at least, of short calls many; the device is waited for at its end.
struct Stopwatch {
  Device& device;
  bool alone = false;
  double sample = 50e-6;
};

// The same on a device with a queue, where a sample is one graph: kernels are compared with kernels.
std::vector<std::vector<double>> queued(const Stopwatch& watch, const std::vector<std::function<void()>>& calls, double seconds) {
  std::vector<TimedRuns> runs;
  for (const auto& call : calls)
    runs.emplace_back(
        watch.device,
        [&call] {
          call();
          return Result<Unit>(Unit{});
        },
        [] { return static_cast<std::int64_t>(wall() * 1e9); }, [] {});
  const auto timed = [&](std::size_t c) {
    const auto us = runs[c]();
    if (us) return *us * 1e-6;
    calls[c]();  // the device is lost: this launch says so
    return 0.0;
  };
  for (std::size_t c = 0; c < calls.size(); ++c) timed(c);
  std::vector<std::vector<double>> times(calls.size());
  const double start = wall();
  while (times[0].size() < 7 || (wall() - start < seconds && times[0].size() < 5000))
    for (std::size_t c = 0; c < calls.size(); ++c) times[c].push_back(timed(c));
  return times;
}

// Times several calls in turn until the seconds are over.
std::vector<std::vector<double>> interleaved(const Stopwatch& watch, const std::vector<std::function<void()>>& calls,
                                             double seconds) {
  if (watch.device.recorder()) return queued(watch, calls, seconds);
  const auto timed = [&](const std::function<void()>& call, int repeats) {
    const double start = now(watch.alone);
    for (int r = 0; r < repeats; ++r) call();
    if (!watch.device.synchronize()) return 0.0;  // the device is lost: the candidate's next launch says so
    return (now(watch.alone) - start) / repeats;
  };
  std::vector<int> repeats;
  for (const auto& call : calls) {
    timed(call, 1);
    const double once = std::max(timed(call, 1), 1e-7);
    repeats.push_back(static_cast<int>(std::clamp(watch.sample / once, 1.0, 500.0)));
  }
  std::vector<std::vector<double>> times(calls.size());
  const double start = wall();
  while (times[0].size() < 7 || (wall() - start < seconds && times[0].size() < 5000))
    for (std::size_t c = 0; c < calls.size(); ++c) times[c].push_back(timed(calls[c], repeats[c]));
  return times;
}

// One case on a device, ready to be timed.
class ReadyCase {
 public:
  static Result<std::unique_ptr<ReadyCase>> make(const Stopwatch& watch, Compiler& compiler, BenchCase c, int trials,
                                                 std::mt19937_64& rng) {
    auto self = std::unique_ptr<ReadyCase>(new ReadyCase(watch, std::move(c)));
    Device& device = watch.device;
    NF_TRY(const auto space, scheduleSpace(self->m_case.program, device.target()));
    NF_TRY(self->m_operands, Operands::make(device, self->m_case.program));
    self->m_schedule = space->first();
    const auto candidate = [&](const Schedule& s) {
      return Candidate::make(device, compiler, self->m_case.program, s, self->m_operands->pointers());
    };
    NF_TRY(self->m_ours, candidate(self->m_schedule));
    for (int t = 0; t < trials; ++t) {
      const Schedule s = t % 4 == 0 ? space->random(rng) : space->mutate(self->m_schedule, rng);
      if (space->estimateSeconds(s) > 4 * space->estimateSeconds(space->first())) continue;
      auto other = candidate(s);
      if (!other) continue;
      const auto times = interleaved(watch, {[&] { self->m_ours->run(); }, [&] { (*other)->run(); }}, 0.02);
      if (!(*other)->failure() && median(times[1]) < 0.98 * median(times[0])) {
        self->m_ours = std::move(*other);
        self->m_schedule = s;
      }
    }
    return self;
  }
  const BenchCase& benchCase() const { return m_case; }
  const Schedule& schedule() const { return m_schedule; }
  const Operands& operands() const { return *m_operands; }
  const Candidate& ours() const { return *m_ours; }

  // Ours, then the others', in turn.
  Result<std::vector<std::vector<double>>> time(std::vector<std::function<void()>> others, double seconds) {
    others.insert(others.begin(), [this] { m_ours->run(); });
    auto times = interleaved(m_watch, others, seconds);
    if (m_ours->failure()) return *m_ours->failure();
    return times;
  }

 private:
  ReadyCase(const Stopwatch& watch, BenchCase c) : m_watch(watch), m_case(std::move(c)) {}
  Stopwatch m_watch;
  BenchCase m_case;
  std::unique_ptr<Operands> m_operands;
  std::unique_ptr<Candidate> m_ours;  // after what it runs on
  Schedule m_schedule;
};

// Answers lines {"case": .., "type": "f16", "seconds": 0.2} with one line each, until there are no more: somebody else times another
// program's calls between them. The last case stays prepared. {"list": true}: what cases there are.
int serveTurns(const Stopwatch& watch, Compiler& compiler, const BenchOpsOptions& options) {
  using Json = nlohmann::json;
  std::unique_ptr<ReadyCase> prepared;
  std::string held;
  for (std::string line; std::getline(std::cin, line);) {
    const Json asked = Json::parse(line, nullptr, false);
    const auto text = [&](const char* key, const char* otherwise) {
      return asked.is_object() && asked.contains(key) && asked[key].is_string() ? asked[key].get<std::string>() : otherwise;
    };
    const std::string name = text("case", ""), type = text("type", "f32");
    const double seconds = asked.is_object() && asked.contains("seconds") && asked["seconds"].is_number()
                               ? asked["seconds"].get<double>()
                               : options.seconds;
    if (asked.is_object() && asked.contains("list")) {
      Json names = Json::array();
      for (const BenchCase& c : allCases({}, DType::F32)) names.push_back(c.name);
      std::cout << Json{{"cases", names}, {"device", watch.device.name()}, {"description", watch.device.description()}}.dump()
                << std::endl;
      continue;
    }
    Json answer{{"case", name}, {"type", type}};
    const auto measure = [&]() -> Result<Unit> {
      const std::string key = type + " " + name;
      if (held != key) {
        prepared.reset();
        held.clear();
        const auto dtype = dtypeNamed(type);
        if (!dtype || !isFloating(*dtype)) return Error{"bench", "There is no type " + type + " to compute in.", {}, {}};
        std::vector<BenchCase> cases = allCases({}, *dtype);
        const auto found = std::find_if(cases.begin(), cases.end(), [&](const BenchCase& c) { return c.name == name; });
        if (found == cases.end()) return Error{"bench", "There is no case " + name + ".", {}, {}};
        std::mt19937_64 rng(options.seed);
        NF_TRY(prepared, ReadyCase::make(watch, compiler, std::move(*found), options.trials, rng));
        held = key;
      }
      NF_TRY(const auto times, prepared->time({}, seconds));
      const double mine = median(times[0]);
      answer["ms"] = mine * 1e3;
      answer["spread"] = spread(times[0]);
      answer["shape"] = prepared->benchCase().shape;
      answer["flops"] = prepared->benchCase().flops;
      answer["bytes"] = prepared->benchCase().bytes;
      answer["compile_ms"] = prepared->ours().compileSeconds() * 1e3;
      answer["schedule"] = Json::parse(prepared->schedule().text());
      return Unit{};
    };
    if (const auto measured = measure(); !measured)
      answer["error"] = measured.error().message + (measured.error().detail.empty() ? "" : " " + measured.error().detail);
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return kExitFine;
}

}  // namespace

int runBenchOps(BackendRegistry& registry, const BenchOpsOptions& options) {
  DeviceContextOptions chosen;
  chosen.device = options.device;
  chosen.threads = options.threads;
  chosen.compileWorkers = 0;
  chosen.measures = false;
  chosen.records = "none";
  auto context = DeviceContext::open(registry, chosen);
  if (!context) return report(context.error(), options.json, exitCodeOf(context.error()));
  Device& device = (*context)->device();
  const Target& target = device.target();
  Backend* backend = registry.find(target.backend);
  if (!backend)
    return report({"bench", "The interpreter is not timed: operators are measured on cpu or cuda.", {}, {}}, options.json,
                  kExitUsage);
  auto compiler = backend->compiler(target);
  if (!compiler) return report(compiler.error(), options.json);
  const bool host = target.backend == "cpu";
  const Stopwatch watch{device, host && options.threads == 1, host ? 50e-6 : 200e-6};
  if (options.turns) return serveTurns(watch, **compiler, options);
  const auto dtype = dtypeNamed(options.type);
  if (!dtype || !isFloating(*dtype))
    return report({"bench", "There is no type " + options.type + " to compute in.", {}, {}}, options.json, kExitUsage);
  // They compute in host memory and single precision.
  const Peers peers = host && *dtype == DType::F32 ? openPeers(options.threads) : Peers{};
  const std::vector<BenchCase> cases = allCases(peers, *dtype);
  if (std::none_of(cases.begin(), cases.end(),
                   [&](const BenchCase& c) { return c.name.find(options.filter) != std::string::npos; })) {
    std::string names;
    for (const BenchCase& c : cases) names += (names.empty() ? "" : ", ") + c.name;
    return report({"bench", "No case has \"" + options.filter + "\" in its name.", {}, "There are " + names + "."}, options.json,
                  kExitUsage);
  }
  nlohmann::json rows = nlohmann::json::array();
  if (!options.json) {
    std::printf("%s; %.0f GFLOP/s a thread, %.1f GB/s, launch %s; %s\n", device.description().c_str(), target.peakFlops / 1e9,
                target.peakBandwidth / 1e9, siText(target.launchSeconds, "s").c_str(),
                peers.gemm                     ? "ratios are speeds, the peer's = 1"
                : host && *dtype != DType::F32 ? "peers are measured in f32 alone"
                                               : "no peer is installed");
    std::printf("%-34s %10s %9s %8s %8s   %s\n", "case", "ours ms", "GFLOP/s", "compile", "code", "peers: ms, ratio");
  }
  std::mt19937_64 rng(options.seed);
  for (const BenchCase& c : cases) {
    if (c.name.find(options.filter) == std::string::npos) continue;
    auto ready = ReadyCase::make(watch, **compiler, c, options.trials, rng);
    if (!ready) return report(ready.error(), options.json, kExitInternal, c.name);
    std::vector<std::function<void()>> calls;
    std::vector<std::pair<std::string, peers::Case*>> prepared;
    for (const auto& [name, make] : c.peers) {
      peers::Case* peer = peers.gemm ? make((*ready)->operands().floats()) : nullptr;
      if (!peer) continue;
      prepared.emplace_back(name, peer);
      calls.emplace_back([&peers, peer] { peers.run(peer); });
    }
    const auto measured = (*ready)->time(std::move(calls), options.seconds);
    if (!measured) return report(measured.error(), options.json, kExitInternal, c.name);
    const std::vector<std::vector<double>>& times = *measured;
    const double mine = median(times[0]);
    if (!options.json) {
      std::printf("%-34s %10.4f %9.1f %6.1fms %6.1fKB  ", c.name.c_str(), mine * 1e3,
                  (c.flops > 0 ? c.flops : c.bytes) / mine / 1e9, (*ready)->ours().compileSeconds() * 1e3,
                  static_cast<double>((*ready)->ours().codeBytes()) / 1024);
    }
    const auto row = [&](const std::string& peer, double seconds, double peerSpread) {
      if (options.json)
        rows.push_back({{"case", c.name},
                        {"ours_ms", mine * 1e3},
                        {"gflops", c.flops / mine / 1e9},
                        {"peer", peer},
                        {"peer_ms", seconds * 1e3},
                        {"ratio", seconds / mine},
                        {"spread", std::max(spread(times[0]), peerSpread)},
                        {"schedule", nlohmann::json::parse((*ready)->schedule().text())}});
      else std::printf(" %s %.4f, %.2f;", peer.c_str(), seconds * 1e3, seconds / mine);
    };
    for (std::size_t k = 0; k < prepared.size(); ++k) row(prepared[k].first, median(times[k + 1]), spread(times[k + 1]));
    if (c.bytes > 0) row("bandwidth", c.bytes / target.peakBandwidth, 0);
    if (!options.json) std::printf("\n");
    if (options.texts) std::printf("    %s\n", (*ready)->schedule().text().c_str());
    std::fflush(stdout);
    for (const auto& [name, peer] : prepared) peers.release(peer);
  }
  if (options.json) {
    const nlohmann::json result{{"machine",
                                 {{"description", device.description()},
                                  {"P_c", target.peakFlops},
                                  {"P_d", target.peakBandwidth},
                                  {"L", target.launchSeconds},
                                  {"threads", options.threads}}},
                                {"rows", rows}};
    std::printf("%s\n", result.dump(2).c_str());
  }
  return 0;
}

}  // namespace nf
