// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/support/hash.h"
#include "plugins/cpu/kernel.h"
#include "plugins/cpu/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nf::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string modelName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("model name")) {
      const std::size_t at = line.find(": ");
      if (at != std::string::npos) return line.substr(at + 2);
    }
  return std::string(llvm::sys::getHostCPUName());
}

bool has(const Target& t, const std::string& feature) {
  return std::find(t.features.begin(), t.features.end(), feature) != t.features.end();
}

// Twelve independent chains of fused multiply-adds of the widest vectors: more than latency times units. FLOPs done.
#if defined(__x86_64__)
#define NF_CHAINS(V, FMA, SET)                                    \
  V a[12];                                                        \
  for (int i = 0; i < 12; ++i) a[i] = SET(static_cast<float>(i)); \
  const V m = SET(0.999f), c = SET(0.001f);                       \
  for (long r = 0; r < rounds; ++r) {                             \
    a[0] = FMA(a[0], m, c);                                       \
    a[1] = FMA(a[1], m, c);                                       \
    a[2] = FMA(a[2], m, c);                                       \
    a[3] = FMA(a[3], m, c);                                       \
    a[4] = FMA(a[4], m, c);                                       \
    a[5] = FMA(a[5], m, c);                                       \
    a[6] = FMA(a[6], m, c);                                       \
    a[7] = FMA(a[7], m, c);                                       \
    a[8] = FMA(a[8], m, c);                                       \
    a[9] = FMA(a[9], m, c);                                       \
    a[10] = FMA(a[10], m, c);                                     \
    a[11] = FMA(a[11], m, c);                                     \
  }                                                               \
  V sum = a[0];                                                   \
  for (int i = 1; i < 12; ++i) sum = FMA(a[i], m, sum);           \
  *sink = reinterpret_cast<const float*>(&sum)[0];                \
  return 12.0 * 2.0 * static_cast<double>(sizeof(V) / 4) * static_cast<double>(rounds);

__attribute__((target("avx512f"))) double chains512(long rounds, volatile float* sink) {
  NF_CHAINS(__m512, _mm512_fmadd_ps, _mm512_set1_ps)
}
__attribute__((target("avx2,fma"))) double chains256(long rounds, volatile float* sink) {
  NF_CHAINS(__m256, _mm256_fmadd_ps, _mm256_set1_ps)
}
#undef NF_CHAINS
#endif

double chains128(long rounds, volatile float* sink) {
  float a[16];
  for (int i = 0; i < 16; ++i) a[i] = static_cast<float>(i);
  for (long r = 0; r < rounds; ++r)
    for (float& x : a) x = x * 0.999f + 0.001f;
  float sum = 0;
  for (const float x : a) sum += x;
  *sink = sum;
  return 32.0 * static_cast<double>(rounds);
}

double chains(const Target& t, long rounds, volatile float* sink) {
#if defined(__x86_64__)
  if (t.vectorBytes == 64) return chains512(rounds, sink);
  if (t.vectorBytes == 32) return chains256(rounds, sink);
#endif
  (void)t;
  return chains128(rounds, sink);
}

// A constant is what the fast tenth of the samples reaches: a busy machine interrupts the slow ones, and what is measured here once
// decides fusions for a long time. Two order statistics around it hold the true quantile with at least 95 %.
constexpr int kSamples = 64;
constexpr double kFast = 0.9, kConfidence = 0.95;

// Of times the fast tenth is the lowest, of rates the highest.
Backend::Estimate fastTenth(std::vector<double> samples, bool times) {
  std::sort(samples.begin(), samples.end());
  const auto [low, at, high] = quantileRanks(static_cast<int>(samples.size()), times ? 1 - kFast : kFast, kConfidence);
  const auto value = [&](int rank) { return samples[static_cast<std::size_t>(rank)]; };
  return {value(at), value(low), value(high), static_cast<std::int64_t>(samples.size())};
}

// Of one thread.
Backend::Estimate measureFlops(const Target& t) {
  volatile float sink = 0;
  chains(t, 100000, &sink);  // the clock settles
  std::vector<double> rates;
  for (int r = 0; r < kSamples; ++r) {
    const auto start = Clock::now();
    const double done = chains(t, 50000, &sink);
    rates.push_back(done / secondsSince(start));
  }
  return fastTenth(std::move(rates), false);
}

constexpr std::int64_t kTriadBlock = 1 << 16;
constexpr int kRepeats = 64;  // a task is long enough that every thread of the pool is awake for one

// a = b + k c of the widest vectors, as kernels are made: with narrower ones a single thread waits for its instructions, not for memory.
#if defined(__x86_64__)
#define NF_TRIAD(V, LOAD, STORE, FMA, SET)                                  \
  const V m = SET(k);                                                       \
  constexpr std::int64_t lanes = sizeof(V) / 4;                             \
  for (std::int64_t i = 0; i < n; i += 2 * lanes) {                         \
    STORE(a + i, FMA(LOAD(c + i), m, LOAD(b + i)));                         \
    STORE(a + i + lanes, FMA(LOAD(c + i + lanes), m, LOAD(b + i + lanes))); \
  }

__attribute__((target("avx512f"))) void triad512(float* a, const float* b, const float* c, float k, std::int64_t n) {
  NF_TRIAD(__m512, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_set1_ps)
}
__attribute__((target("avx2,fma"))) void triad256(float* a, const float* b, const float* c, float k, std::int64_t n) {
  NF_TRIAD(__m256, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm256_set1_ps)
}
#undef NF_TRIAD
#endif

void triad128(float* a, const float* b, const float* c, float k, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] = b[i] + k * c[i];
}

using TriadOf = void (*)(float*, const float*, const float*, float, std::int64_t);

TriadOf triadOf(const Target& t) {
#if defined(__x86_64__)
  if (t.vectorBytes == 64) return triad512;
  if (t.vectorBytes == 32) return triad256;
#endif
  (void)t;
  return triad128;
}

void triadStage(const KernelCall* call, std::int64_t begin, std::int64_t end) {
  const auto triad = *static_cast<const TriadOf*>(call->tensors[3]);
  const std::int64_t from = begin * kTriadBlock;
  triad(static_cast<float*>(call->tensors[0]) + from, static_cast<const float*>(call->tensors[1]) + from,
        static_cast<const float*>(call->tensors[2]) + from, 3.0f, end * kTriadBlock - from);
}

struct Resident {
  TriadOf triad;
  std::int64_t elements;  // of an array
};

// Each task its own arrays, over and over: out of the cache of the thread that does it.
void residentStage(const KernelCall* call, std::int64_t begin, std::int64_t end) {
  const auto& [triad, n] = *static_cast<const Resident*>(call->tensors[3]);
  for (std::int64_t task = begin; task < end; ++task) {
    auto* a = static_cast<float*>(call->tensors[0]) + task * n;
    const auto* b = static_cast<const float*>(call->tensors[1]) + task * n;
    const auto* c = static_cast<const float*>(call->tensors[2]) + task * n;
    for (int r = 0; r < kRepeats; ++r) triad(a, b, c, 3.0f + static_cast<float>(r), n);
  }
}

// By slices of a third of a millisecond.
Backend::Estimate measureBandwidth(ThreadPool& pool, const Target& t) {
  constexpr std::int64_t kBlocks = 128, kSlice = 8;  // 32 MiB an array: past any L2, and most of what an L3 gives one guest
  const std::size_t n = kBlocks * kTriadBlock;
  std::vector<float> a(n, 0.f), b(n, 1.f), c(n, 2.f);
  TriadOf triad = triadOf(t);
  std::vector<double> rates;
  static_assert(kSamples % (kBlocks / kSlice) == 0);
  for (int r = 0; r < kSamples / (kBlocks / kSlice); ++r)
    for (std::int64_t block = 0; block < kBlocks; block += kSlice) {
      const std::int64_t from = block * kTriadBlock;
      void* tensors[] = {a.data() + from, b.data() + from, c.data() + from, &triad};
      const KernelCall call{tensors, nullptr, nullptr, 0, 0, nullptr};
      const auto start = Clock::now();
      pool.run(triadStage, call, kSlice);
      rates.push_back(3.0 * 4.0 * static_cast<double>(kSlice * kTriadBlock) / secondsSince(start));
    }
  return fastTenth(std::move(rates), false);
}

// As above, of arrays that fill half of the second-level cache of each thread.
Backend::Estimate measureL2(ThreadPool& pool, const Target& t) {
  constexpr std::int64_t kWhole = 32;  // two of the widest vectors
  Resident resident{triadOf(t), std::max<std::int64_t>(t.l2Bytes / 2 / 3 / 4, 4096) / kWhole * kWhole};
  const std::size_t all = static_cast<std::size_t>(resident.elements * t.threads);
  std::vector<float> a(all, 0.f), b(all, 1.f), c(all, 2.f);
  void* tensors[] = {a.data(), b.data(), c.data(), &resident};
  const KernelCall call{tensors, nullptr, nullptr, 0, 0, nullptr};
  std::vector<double> rates;
  for (int r = 0; r < kSamples; ++r) {
    const auto start = Clock::now();
    pool.run(residentStage, call, t.threads);
    rates.push_back(3.0 * 4.0 * static_cast<double>(all) * kRepeats / secondsSince(start));
  }
  return fastTenth(std::move(rates), false);
}

template <int>
void emptyStage(const KernelCall* call, std::int64_t, std::int64_t) {
  call->status[0] = 0;
}

// What a launch costs: kernels of no work, each with code and a place of its own as those of a step have, called one after the other as
// Executable::launch does it, the arguments gathered from the tensors' addresses. They are too small to be shared among threads: waking
// one is a price of sharing, which a kernel pays where its work is worth it.
template <int... k>
Backend::Estimate measureLaunch(const std::shared_ptr<ThreadPool>& pool, std::integer_sequence<int, k...>) {
  KernelObject object;
  object.stages = {{"empty", 1}};
  const std::vector<StageEntry> entries{emptyStage<k>...};
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const StageEntry entry : entries)
    kernels.push_back(std::make_unique<CpuKernel>(object, Linker::Linked{nullptr, {entry}}, pool));
  constexpr int kSteps = 128;
  std::array<void*, 4> addresses{}, arguments{};
  std::vector<double> times;
  for (int r = 0; r < kSamples; ++r) {
    const auto start = Clock::now();
    for (int step = 0; step < kSteps; ++step)
      for (std::size_t at = 0; at < kernels.size(); ++at) {
        for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = addresses[(at + i) % addresses.size()];
        LaunchArgs args;
        args.tensors = arguments;
        if (!kernels[at]->launch(args)) return {};
      }
    times.push_back(secondsSince(start) / static_cast<double>(kSteps * kernels.size()));
  }
  return fastTenth(std::move(times), true);
}

std::filesystem::path cacheDirectory() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::filesystem::path(xdg) / "neoflow";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "neoflow";
  return {};
}

// Counts when a constant is measured in another way: what the cache holds of the way before is not read.
constexpr int kMeasurementVersion = 3;

std::filesystem::path cacheFile(const std::filesystem::path& directory, const Target& t) {
  Hasher hasher;
  hasher.add(kMeasurementVersion);
  return directory / ("machine-" + hasher.add(t.fingerprint).finish().hex().substr(0, 16) + ".json");
}

// Held as long as this object lives; where it can't be had nobody waits.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : m_file(path.empty() ? -1 : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (m_file >= 0 && ::flock(m_file, LOCK_EX) != 0 && errno == EINTR) {}
  }
  ~FileLock() {
    if (m_file >= 0) ::close(m_file);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int m_file;
};

std::int64_t cacheBytes(int name, std::int64_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

}  // namespace

Target describeHost(int threads) {
  Target t;
  t.backend = "cpu";
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (feature.second) t.features.push_back("+" + feature.first().str());
  std::sort(t.features.begin(), t.features.end());
  const bool wide = has(t, "+avx512f") && has(t, "+avx512vl") && has(t, "+avx512dq") && has(t, "+avx512bw");
  const bool middle = has(t, "+avx2") && has(t, "+fma");
  t.vectorBytes = wide ? 64 : middle ? 32 : 16;
  t.vectorRegisters = wide ? 32 : 16;
  t.l1Bytes = cacheBytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  t.l2Bytes = cacheBytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
  t.l3Bytes = cacheBytes(_SC_LEVEL3_CACHE_SIZE, 0);
  t.threads = threads;
  Hasher hasher;
  for (const std::string& f : t.features) hasher.add(f);
  t.fingerprint = "cpu " + modelName() + ", " + std::to_string(threads) + " threads, features " +
                  hasher.finish().hex().substr(0, 12) + ", LLVM " LLVM_VERSION_STRING ", codegen " +
                  std::to_string(kCodeGeneratorVersion);
  return t;
}

std::string hostDescription(int threads) {
  const Target t = describeHost(threads);
  return modelName() + ", " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
         (t.vectorBytes == 64   ? "AVX-512"
          : t.vectorBytes == 32 ? "AVX2"
                                : "128-bit vectors");
}

QuantileRanks quantileRanks(int samples, double quantile, double confidence) {
  // The number of samples below the true quantile is binomial: P(it is k) goes with the ranks around.
  std::vector<double> below(static_cast<std::size_t>(samples) + 1);
  for (int k = 0; k <= samples; ++k)
    below[static_cast<std::size_t>(k)] =
        std::exp(std::lgamma(samples + 1.0) - std::lgamma(k + 1.0) - std::lgamma(samples - k + 1.0) + k * std::log(quantile) +
                 (samples - k) * std::log1p(-quantile));
  QuantileRanks r;
  r.at = std::min(samples - 1, static_cast<int>(samples * quantile));
  // The sample of rank k, from 0, lies above the quantile when at most k samples are below it: [low, high] covers counts low+1..high.
  r.low = r.high = r.at;
  double covered = 0;
  const auto chance = [&](int count) { return count < 0 || count > samples ? -1.0 : below[static_cast<std::size_t>(count)]; };
  while (covered < confidence && (r.low > 0 || r.high + 1 < samples)) {
    const double down = r.low > 0 ? chance(r.low) : -1, up = r.high + 1 < samples ? chance(r.high + 1) : -1;
    if (down >= up) covered += down, --r.low;
    else covered += up, ++r.high;
  }
  return r;
}

namespace {

nlohmann::json estimateToJson(const Backend::Estimate& e) { return {e.low, e.high, e.samples}; }

// `value` is what the cache holds; an older one has no interval.
Backend::Estimate estimateFrom(const nlohmann::json& json, const char* key) {
  Backend::Estimate e;
  if (!json.is_object() || !json.contains(key) || !json[key].is_number()) return e;
  e.value = json[key];
  const auto intervals = json.find("intervals");
  if (intervals == json.end() || !intervals->is_object() || !intervals->contains(key)) return e;
  const auto& i = (*intervals)[key];
  if (!i.is_array() || i.size() != 3 || !i[0].is_number() || !i[1].is_number() || !i[2].is_number_integer()) return e;
  e.low = i[0], e.high = i[1], e.samples = i[2];
  return e;
}

}  // namespace

Measurements measurements(int threads) {
  Measurements m;
  const auto file = cacheFile(cacheDirectory(), describeHost(threads));
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  if (error) return m;
  m.at = std::chrono::duration<double>(std::chrono::file_clock::to_sys(written).time_since_epoch()).count();
  std::ifstream in(file);
  const auto json = in ? nlohmann::json::parse(in, nullptr, false) : nlohmann::json();
  m.bandwidth = estimateFrom(json, "P_d");
  m.flopRate = estimateFrom(json, "P_c");  // of one thread
  for (double* x : {&m.flopRate.value, &m.flopRate.low, &m.flopRate.high}) *x *= threads;
  m.launchSeconds = estimateFrom(json, "L");
  m.l2Bandwidth = estimateFrom(json, "P_2");
  return m;
}

Target measuredHost(int threads, bool again) {
  Target t = describeHost(threads);
  const auto directory = cacheDirectory();
  const auto file = cacheFile(directory, t);
  const auto fill = [&](const nlohmann::json& json) {
    if (!json.is_object()) return false;
    for (const char* key : {"P_c", "P_d", "P_2", "L"})
      if (!json.contains(key) || !json[key].is_number() || !(json[key].get<double>() > 0)) return false;
    t.peakFlops = json["P_c"];
    t.peakBandwidth = json["P_d"];
    t.launchSeconds = json["L"];
    return true;
  };
  const auto known = [&] {
    std::ifstream in(file);
    return in && fill(nlohmann::json::parse(in, nullptr, false));
  };
  if (!directory.empty() && !again && known()) return t;
  // One at a time: an engine and its measuring worker start together, and each would spoil the other's figures.
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const FileLock lock(directory.empty() ? std::string() : file.string() + ".lock");
  if (!directory.empty() && !again && known()) return t;
  const auto pool = std::make_shared<ThreadPool>(threads);
  const Backend::Estimate flops = measureFlops(t), bandwidth = measureBandwidth(*pool, t), l2 = measureL2(*pool, t),
                          launch = measureLaunch(pool, std::make_integer_sequence<int, 64>{});
  const nlohmann::json measured{{"machine", t.fingerprint},
                                {"P_c", flops.value},
                                {"P_d", bandwidth.value},
                                {"P_2", l2.value},
                                {"L", launch.value},
                                {"intervals",
                                 {{"P_c", estimateToJson(flops)},
                                  {"P_d", estimateToJson(bandwidth)},
                                  {"P_2", estimateToJson(l2)},
                                  {"L", estimateToJson(launch)}}}};
  fill(measured);
  if (!directory.empty()) {
    auto fresh = file;
    fresh += "." + std::to_string(::getpid());
    std::ofstream out(fresh);
    out << measured.dump(1) << "\n";
    out.close();
    std::filesystem::rename(fresh, file, ignored);
  }
  return t;
}

}  // namespace nf::cpu
