// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/support/hash.h"
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

double measureFlops(const Target& t) {
  volatile float sink = 0;
  double best = 0;
  chains(t, 20000, &sink);  // the clock settles
  for (int r = 0; r < 7; ++r) {
    const auto start = Clock::now();
    const double done = chains(t, 100000, &sink);
    best = std::max(best, done / secondsSince(start));
  }
  return best;
}

constexpr std::int64_t kTriadBlock = 1 << 16;
constexpr int kRepeats = 16;

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

void emptyStage(const KernelCall*, std::int64_t, std::int64_t) {}

// By slices of a third of a millisecond, of which the fast ones count: a busy machine interrupts the slow ones, and what is
// measured here once decides fusions for a long time.
double measureBandwidth(ThreadPool& pool, const Target& t) {
  constexpr std::int64_t kBlocks = 128, kSlice = 8;  // 32 MiB an array: past any L2, and most of what an L3 gives one guest
  const std::size_t n = kBlocks * kTriadBlock;
  std::vector<float> a(n, 0.f), b(n, 1.f), c(n, 2.f);
  TriadOf triad = triadOf(t);
  std::vector<double> rates;
  for (int r = 0; r < 2; ++r)
    for (std::int64_t block = 0; block < kBlocks; block += kSlice) {
      const std::int64_t from = block * kTriadBlock;
      void* tensors[] = {a.data() + from, b.data() + from, c.data() + from, &triad};
      const KernelCall call{tensors, nullptr, nullptr, 0, 0, nullptr};
      const auto start = Clock::now();
      pool.run(triadStage, call, kSlice);
      rates.push_back(3.0 * 4.0 * static_cast<double>(kSlice * kTriadBlock) / secondsSince(start));
    }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() * 9 / 10];
}

// As above, of arrays that fill half of the second-level cache of each thread.
double measureL2(ThreadPool& pool, const Target& t) {
  constexpr std::int64_t kWhole = 32;  // two of the widest vectors
  Resident resident{triadOf(t), std::max<std::int64_t>(t.l2Bytes / 2 / 3 / 4, 4096) / kWhole * kWhole};
  const std::size_t all = static_cast<std::size_t>(resident.elements * t.threads);
  std::vector<float> a(all, 0.f), b(all, 1.f), c(all, 2.f);
  void* tensors[] = {a.data(), b.data(), c.data(), &resident};
  const KernelCall call{tensors, nullptr, nullptr, 0, 0, nullptr};
  std::vector<double> rates;
  for (int r = 0; r < 24; ++r) {
    const auto start = Clock::now();
    pool.run(residentStage, call, t.threads);
    rates.push_back(3.0 * 4.0 * static_cast<double>(all) * kRepeats / secondsSince(start));
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() * 9 / 10];
}

double measureLaunch(ThreadPool& pool) {
  KernelCall call{};
  double best = 1;
  for (int r = 0; r < 20; ++r) {
    const auto start = Clock::now();
    for (int k = 0; k < 20; ++k) pool.run(emptyStage, call, 64);
    best = std::min(best, secondsSince(start) / 20);
  }
  // Arguments and the walk of the step around it.
  return best + 0.2e-6;
}

std::filesystem::path cacheDirectory() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::filesystem::path(xdg) / "neoflow";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "neoflow";
  return {};
}

std::filesystem::path cacheFile(const std::filesystem::path& directory, const Target& t) {
  Hasher hasher;
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

double measuredAt(int threads) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(cacheFile(cacheDirectory(), describeHost(threads)), error);
  if (error) return 0;
  const auto time = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double measuredL2Bandwidth(int threads) {
  std::ifstream in(cacheFile(cacheDirectory(), describeHost(threads)));
  const auto json = in ? nlohmann::json::parse(in, nullptr, false) : nlohmann::json();
  return json.is_object() && json.contains("P_2") && json["P_2"].is_number() ? json["P_2"].get<double>() : 0;
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
  ThreadPool pool(threads);
  t.peakFlops = measureFlops(t);
  t.peakBandwidth = measureBandwidth(pool, t);
  const double l2 = measureL2(pool, t);
  t.launchSeconds = measureLaunch(pool);
  if (!directory.empty()) {
    auto fresh = file;
    fresh += "." + std::to_string(::getpid());
    std::ofstream out(fresh);
    out << nlohmann::json{{"machine", t.fingerprint},
                          {"P_c", t.peakFlops},
                          {"P_d", t.peakBandwidth},
                          {"P_2", l2},
                          {"L", t.launchSeconds}}
               .dump(1)
        << "\n";
    out.close();
    std::filesystem::rename(fresh, file, ignored);
  }
  return t;
}

}  // namespace nf::cpu
