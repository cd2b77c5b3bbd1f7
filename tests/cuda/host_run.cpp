// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/host_run.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/runtime/host_tensor.h"
#include "tests/cuda/host_tensor_map.h"

namespace nf::test {
namespace {

namespace fs = std::filesystem;

// What CUDA C takes for granted, and a block's threads as fibres.
const char* kHost = R"cpp(
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <functional>
#include <memory>
#define __device__ static
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(n)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define NF_SHARED_OF_LAUNCH
  extern "C" __align__(1024) char nf_shared[227 << 10];
  char nf_shared[227 << 10];
#define NF_INFINITY __builtin_inff()
#define NF_NAN __builtin_nanf("")
#define NF_INFINITY_D __builtin_inf()
#define NF_NAN_D __builtin_nan("")
  static unsigned __float_as_uint(float f) {
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
  }
  static float __uint_as_float(unsigned u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
  static int __double2int_rz(double x) {
    return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : (int)x;
  }
  static int __float2int_rz(float x) { return __double2int_rz(x); }
  static unsigned long long atomicCAS(unsigned long long* at, unsigned long long old, unsigned long long to) {
    const unsigned long long was = *at;
    if (was == old) *at = to;
    return was;
  }
  static float nf_from_half(unsigned short h) {
    const int e = h >> 10 & 31, f = h & 1023;
    const float v = e == 0 ? ldexpf((float)f, -24) : e == 31 ? (f ? NF_NAN : NF_INFINITY) : ldexpf((float)(1024 + f), e - 25);
    return h >> 15 ? -v : v;
  }
  static unsigned short nf_to_half(float x) {  // to nearest, ties to even
    const unsigned short sign = __float_as_uint(x) >> 31 << 15;
    x = fabsf(x);
    if (x != x) return sign | 0x7e00;
    if (x >= 65520.0f) return sign | 0x7c00;
    if (x < 0x1p-14f) return sign | (unsigned short)nearbyintf(ldexpf(x, 24));
    int e;
    const int m = (int)nearbyintf(ldexpf(frexpf(x, &e), 11));
    return sign | (unsigned short)(((e + 14) << 10) + m - 1024);
  }
  template <int Bytes>
  static void nf_async(void* to, const void* from) {
    if ((unsigned long)to % Bytes || (unsigned long)from % Bytes) __builtin_trap();
    memcpy(to, from, Bytes);
  }
  static void nf_async_commit() {}
  template <int Groups>
  static void nf_async_wait() {}

  // Fibres begin through ucontext; from then on they change places by longjmp, which asks nothing of the kernel.
  struct Number {
    unsigned x;
  };
  static Number blockIdx, threadIdx;
  static jmp_buf scheduler;
  static ucontext_t home;
  constexpr unsigned kStack = 65536, kMostThreads = 4096, kMostBlocks = 16;
  static std::unique_ptr<char[]> stacks;
  struct Fibre {
    jmp_buf at;
    bool begun, done;
  };
  static Fibre fibres[kMostThreads];  // they live through all kernels
  static double handed[kMostThreads];
  static const std::function<void()>* work;
  static unsigned current, threadsOfBlock;  // fibre
  static bool allBlocks;                    // they are there together
  static void enter(unsigned f) {
    current = f;
    threadIdx.x = f % threadsOfBlock;
    if (allBlocks) blockIdx.x = f / threadsOfBlock;
  }
  static void change() {
    const unsigned me = current;
    if (_setjmp(fibres[me].at) == 0) _longjmp(scheduler, 1);
    enter(me);
  }
  static void __syncthreads() { change(); }
  static void nf_grid_barrier(unsigned long long*) { change(); }
  template <class T>
  static T __shfl_xor_sync(unsigned, T value, int bits) {
    const unsigned me = current;
    handed[me] = (double)value;
    change();
    const T result = (T)handed[me ^ (unsigned)bits];
    change();
    return result;
  }
  // The matrices of a warp, as NVIDIA's PTX manual lays them out.
  static const char* rows[kMostThreads];
  static unsigned nf_tf32(float f) {
    if (f - f != 0.0f) return __float_as_uint(f);
    return (__float_as_uint(f) + 0x1000u) & ~0x1fffu;
  }
  static float nf_rounded_tf32(float f) { return __uint_as_float(nf_tf32(f)); }
  template <int Count, bool Turned>
  static void nf_matrix_load(unsigned* to, const void* row) {
    const unsigned me = threadIdx.x, lane = me % 32, warp = me - lane;
    if (lane < 8 * Count && (unsigned long)row % 16) __builtin_trap();
    rows[me] = (const char*)row;
    change();
    for (int j = 0; j < Count; ++j)
      for (unsigned e = 0; e < 2; ++e) {
        const unsigned along = 2 * (lane % 4) + e, across = lane / 4;
        memcpy((char*)&to[j] + 2 * e, rows[warp + 8 * j + (Turned ? along : across)] + 2 * (Turned ? across : along), 2);
      }
    change();
  }
  template <int Count>
  static void nf_matrix_load_tf32(unsigned* to, const void* row) {
    nf_matrix_load<Count, false>(to, row);
    for (int w = 0; w < Count; ++w) to[w] = nf_tf32(__uint_as_float(to[w]));
  }
  struct Operands {
    unsigned a[4], b[2];
  };
  static Operands offered[kMostThreads];
  // `pick` gives a number out of a register: a half of it, or all.
  template <int K, int Each, class Pick>
  static void multiplied(float* c, const unsigned* a, const unsigned* b, Pick pick) {
    const unsigned me = threadIdx.x, lane = me % 32, warp = me - lane;
    constexpr int kHalf = 4 * Each;
    memcpy(offered[me].a, a, 4 * 2 * (K / kHalf));
    memcpy(offered[me].b, b, 4 * (K / kHalf));
    change();
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned row = lane / 4 + 8 * (e / 2), column = 2 * (lane % 4) + e % 2;
      double sum = c[e];
      for (unsigned k = 0; k < K; ++k) {
        const unsigned at = k % kHalf, from = at / Each;
        sum += (double)pick(offered[warp + 4 * (row % 8) + from].a[row / 8 + 2 * (k / kHalf)], at % Each) *
               (double)pick(offered[warp + 4 * column + from].b[k / kHalf], at % Each);
      }
      c[e] = (float)sum;
    }
    change();
  }
  template <int K>
  static void nf_mma_f16(float* c, const unsigned* a, const unsigned* b) {
    multiplied<K, 2>(c, a, b, [](unsigned r, unsigned half) { return nf_from_half((unsigned short)(r >> 16 * half)); });
  }
  template <int K>
  static void nf_mma_bf16(float* c, const unsigned* a, const unsigned* b) {
    multiplied<K, 2>(c, a, b, [](unsigned r, unsigned half) { return __uint_as_float(r >> 16 * half << 16); });
  }
  template <int K>
  static void nf_mma_tf32(float* c, const unsigned* a, const unsigned* b) {
    multiplied<K, 1>(c, a, b, [](unsigned r, unsigned) { return __uint_as_float(r); });
  }
  // The matrices of four warps: an operand's element from where it begins, its 16-byte parts exchanged by the address.
  template <class T, bool Turned>
  static T element(const void* from, unsigned apart, unsigned own, unsigned step) {
    constexpr unsigned kBytes = sizeof(T), kColumns = 128 / kBytes;
    unsigned long at =
        (unsigned long)from + (Turned ? own / kColumns * apart + step * 128 + own % kColumns * kBytes : own * 128 + step * kBytes);
    at ^= (at >> 7 & 7) << 4;
    T value;
    memcpy(&value, (const void*)at, kBytes);
    return value;
  }
  template <class T, int N, bool TurnedA, bool TurnedB, class Pick>
  static void warpgroup(float* c, const void* a, unsigned apartA, const void* b, unsigned apartB, Pick pick) {
    const unsigned thread = threadIdx.x % 128, lane = thread % 32;
    for (unsigned e = 0; e < N / 2; ++e) {
      const unsigned row = 16 * (thread / 32) + lane / 4 + 8 * (e / 2 % 2), column = 8 * (e / 4) + 2 * (lane % 4) + e % 2;
      double sum = c[e];
      for (unsigned k = 0; k < 32 / sizeof(T); ++k)
        sum += (double)pick(element<T, TurnedA>(a, apartA, row, k)) * (double)pick(element<T, TurnedB>(b, apartB, column, k));
      c[e] = (float)sum;
    }
  }
  template <int N, bool TurnedA, bool TurnedB>
  static void nf_wgmma_f16(float* c, const void* a, unsigned apartA, const void* b, unsigned apartB) {
    warpgroup<unsigned short, N, TurnedA, TurnedB>(c, a, apartA, b, apartB, [](unsigned short h) { return nf_from_half(h); });
  }
  template <int N, bool TurnedA, bool TurnedB>
  static void nf_wgmma_bf16(float* c, const void* a, unsigned apartA, const void* b, unsigned apartB) {
    warpgroup<unsigned short, N, TurnedA, TurnedB>(c, a, apartA, b, apartB,
                                                   [](unsigned short h) { return __uint_as_float((unsigned)h << 16); });
  }
  template <int N>
  static void nf_wgmma_tf32(float* c, const void* a, const void* b) {
    warpgroup<float, N, false, false>(c, a, 0, b, 0, [](float f) {
      if (nf_rounded_tf32(f) != f) __builtin_trap();
      return f;
    });
  }
  static void nf_wgmma_fence() {}
  static void nf_wgmma_commit() {}
  template <int Groups>
  static void nf_wgmma_wait() {}
  template <int Count>
  static void nf_hold(float*) {}
  static void nf_proxy_fence() {}
  // An arrival: how many phases have ended, whether the one under way is expected, and how many bytes it lacks, in 31, 1 and 32 bits.
  static void nf_arrival_init(long long* arrival) { *arrival = 0; }
  static void nf_arrival_expect(long long* arrival, unsigned bytes) {
    if (*arrival & 0x1ffffffffll) __builtin_trap();
    *arrival += 0x100000000ll + bytes;
  }
  static void nf_arrival_wait(long long* arrival, unsigned parity) {
    for (int turns = 0; (*arrival >> 33 & 1) == parity; change())
      if (++turns > 1000000) __builtin_trap();
  }
  static void box(char* to, const NfTensorMap& map, long long* arrival, const int* first) {
    if ((unsigned long)to % 1024) __builtin_trap();
    unsigned count = 1;
    for (unsigned a = 0; a < map.axes; ++a) count *= map.box[a];
    for (unsigned n = 0; n < count; ++n) {
      const char* from = map.base;
      bool inside = true;
      unsigned rest = n;
      for (unsigned a = 0; a < map.axes; rest /= map.box[a++]) {
        const long c = (long)first[a] + rest % map.box[a];
        inside = inside && c >= 0 && c < (long)map.extents[a];
        from += c * (long)map.strides[a];
      }
      unsigned long at = (unsigned long)to + (unsigned long)n * map.bytes;
      at ^= (at >> 7 & 7) << 4;
      if (!inside) {
        memset((void*)at, 0, map.bytes);
      } else if (map.rounded) {
        float f;
        memcpy(&f, from, 4);
        f = nf_rounded_tf32(f);
        memcpy((void*)at, &f, 4);
      } else {
        memcpy((void*)at, from, map.bytes);
      }
    }
    *arrival -= (long long)count * map.bytes;
    if (!(*arrival & 0xffffffffll)) *arrival += 0x100000000ll;
  }
  template <class... At>
  static void nf_tensor_copy(void* to, const NfTensorMap& map, long long* arrival, At... at) {
    const int first[] = {at...};
    if (sizeof...(At) != map.axes || !(*arrival & 0x100000000ll)) __builtin_trap();
    box((char*)to, map, arrival, first);
  }
  static void fibre() {
    for (;;) {
      (*work)();
      fibres[current].done = true;
      change();
    }
  }
  static void resume(unsigned t) {
    enter(t);
    if (_setjmp(scheduler) != 0) return;
    if (fibres[t].begun) _longjmp(fibres[t].at, 1);
    fibres[t].begun = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = &stacks[(size_t)kStack * t];
    context.uc_stack.ss_size = kStack;
    context.uc_link = &home;
    makecontext(&context, fibre, 0);
    setcontext(&context);
  }
  static void runFibres(unsigned count) {
    if (count > kMostThreads) __builtin_trap();
    for (unsigned t = 0; t < count; ++t) fibres[t].done = false;
    for (bool some = true; some;) {
      some = false;
      for (unsigned t = 0; t < count; ++t) {
        if (fibres[t].done) continue;
        resume(t);
        some = some || !fibres[t].done;
      }
    }
  }
  static void grid(long blocks, unsigned threads, bool meet, bool together, const std::function<void()>& kernel) {
    work = &kernel;
    threadsOfBlock = threads;
    if (!stacks) stacks.reset(new char[(size_t)kStack * kMostThreads]);
    if (together) {
      if (blocks > kMostBlocks) __builtin_trap();
      allBlocks = true;
      runFibres((unsigned)blocks * threads);
      allBlocks = false;
      return;
    }
    for (long b = 0; b < blocks; ++b) {
      blockIdx.x = (unsigned)b;
      if (!meet) {
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel();
        continue;
      }
      runFibres(threads);
    }
  }
)cpp";

// What object files call.
const char* kForObjects = R"cpp(
  extern "C" {
  unsigned nf_host_thread() { return threadIdx.x; }
  unsigned nf_host_block() { return blockIdx.x; }
  void nf_host_barrier() { __syncthreads(); }
  unsigned nf_host_exchange(unsigned mask, unsigned value, unsigned bits, unsigned) {
    return __shfl_xor_sync(mask, value, (int)bits);
  }
  void nf_host_copy4(void* to, const void* from) { nf_async<4>(to, from); }
  void nf_host_copy8(void* to, const void* from) { nf_async<8>(to, from); }
  void nf_host_copy16(void* to, const void* from) { nf_async<16>(to, from); }
  }
)cpp";

std::string storage(DType type) {
  switch (type) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::I32: return "int";
    case DType::F16:
    case DType::BF16: return "unsigned short";
    case DType::Bool: return "unsigned char";
    case DType::I64: return "long long";
  }
  return {};
}

std::string callOf(const HostCall& call, std::size_t number) {
  std::string pointers, passed, text;
  for (std::size_t t = 0; t < call.inputs.size() + call.outputs.size(); ++t) {
    pointers += "void*, ";
    passed += "tensors[" + std::to_string(t) + "], ";
  }
  for (const KernelStage& s : call.object.stages)
    text += "extern \"C\" void " + call.object.prefix + s.symbol + "(" + pointers +
            "char*, NfCounters, const nf_bits*, nf_bits*, unsigned);\n";
  text += "extern \"C\" void run" + std::to_string(number) +
          "(void** tensors, char* workspace, const nf_long* of, const nf_bits* random, nf_bits* status) {\n"
          "  NfCounters counters;\n  memcpy(counters.of, of, sizeof counters.of);\n";
  for (std::size_t s = 0; s < call.object.stages.size(); ++s) {
    const KernelStage& stage = call.object.stages[s];
    text += "  grid(" + std::to_string(stage.tasks) + ", " + std::to_string(stage.threads) + ", " +
            (call.object.meets[s] ? "true" : "false") + ", false, [&] { " + call.object.prefix + stage.symbol + "(" + passed +
            "workspace, counters, random, status, 1u); });\n";
  }
  return text + "}\n";
}

// The maps of a stage on this machine, by name and as declarations; of operands by pointers in `tensors`.
std::string mapsOf(const KernelStage& stage, std::string& declared) {
  std::string passed;
  for (std::size_t m = 0; m < stage.maps.size(); ++m) {
    const KernelTensorMap& map = stage.maps[m];
    const std::string name = stage.symbol + "_map" + std::to_string(m);
    std::string strides = std::to_string(bytesOf(map.type)), extents, box;
    for (std::size_t a = 0; a < map.axes.size(); ++a) {
      if (a > 0) strides += ", " + std::to_string(map.axes[a].stride);
      extents += (a > 0 ? ", " : "") + std::to_string(map.axes[a].extent);
      box += (a > 0 ? ", " : "") + std::to_string(map.axes[a].box);
    }
    declared += "  const NfTensorMap " + name + "{(const char*)" +
                (map.operand < 0 ? "workspace" : "tensors[" + std::to_string(map.operand) + "]") + " + " +
                std::to_string(map.offset) + ", {" + strides + "}, {" + extents + "}, {" + box + "}, " +
                std::to_string(map.axes.size()) + ", " + std::to_string(bytesOf(map.type)) + ", " + (map.rounded ? "1" : "0") +
                "};\n";
    passed += ", " + name;
  }
  return passed;
}

// The text without the prelude's include, its functions with C++ names.
std::string kernelsOf(const cuda::EmittedSource& emitted) {
  std::string text = emitted.source.text;
  text.erase(0, text.find('\n') + 1);
  for (std::size_t at = text.find("extern \"C\" "); at != std::string::npos; at = text.find("extern \"C\" ")) text.erase(at, 11);
  return text;
}

// Whether threads of a block of this stage wait for each other.
bool meets(const std::string& text, const KernelStage& stage) {
  const std::size_t begin = text.find(stage.symbol + "("), end = text.find("\n}\n", begin);
  const std::string own = text.substr(begin, end - begin);
  return own.find("__syncthreads") != std::string::npos || own.find("__shfl") != std::string::npos ||
         own.find("nf_mma") != std::string::npos;
}

// Shared memory of blocks that are there together: of each its own.
void shareByBlock(std::string& text) {
  const std::string word = "__shared__ __align__(16) ";
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    const std::size_t bracket = text.find('[', at), end = text.find(';', at), space = text.rfind(' ', bracket);
    const std::string type = text.substr(at + word.size(), space - at - word.size());
    const std::string name = text.substr(space + 1, bracket - space - 1), extent = text.substr(bracket, end - bracket);
    const std::string own = "static __align__(16) " + type + " of_" + name + "[kMostBlocks]" + extent + "; auto& " + name +
                            " = of_" + name + "[blockIdx.x]";
    text.replace(at, end - at, own);
    at += own.size();
  }
  const std::string launched = "NF_SHARED_OF_LAUNCH\n";
  for (std::size_t at = text.find(launched); at != std::string::npos; at = text.find(launched, at)) {
    const std::string own =
        "static __align__(1024) char of_nf_shared[kMostBlocks][227 << 10]; auto& nf_shared = of_nf_shared[blockIdx.x];\n";
    text.replace(at, launched.size(), own);
    at += own.size();
  }
}

std::string sourceOf(const std::vector<HostCall>& calls) {
  std::ostringstream out;
  out << NF_EXPANDED_TEXT_OF(NF_HOST_TENSOR_MAP) << "\n" << kHost << cuda::portablePrelude() << kForObjects;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const HostCall& call = calls[c];
    if (!call.object.code.empty()) {
      out << callOf(call, c);
      continue;
    }
    std::string text = kernelsOf(call.emitted);
    const auto& stages = call.emitted.stages;
    if (std::any_of(stages.begin(), stages.end(), [](const KernelStage& s) { return s.cooperative; })) shareByBlock(text);
    out << "namespace k" << c << " {\n"
        << text << "}\nextern \"C\" void run" << c
        << "(void** tensors, char* workspace, const nf_long* of, const nf_bits* random, nf_bits* status) {\n"
           "  NfCounters counters;\n  memcpy(counters.of, of, sizeof counters.of);\n";
    for (const KernelStage& s : stages) {
      std::string declared;
      const std::string maps = mapsOf(s, declared);
      out << declared << "  grid(" << s.tasks << ", " << s.threads << ", " << (meets(text, s) ? "true" : "false") << ", "
          << (s.cooperative ? "true" : "false") << ", [&] { k" << c << "::" << s.symbol << "(";
      std::size_t t = 0;
      for (const auto* list : {&call.inputs, &call.outputs})
        for (const TensorData& d : *list) out << "(" << storage(d.type) << "*)tensors[" << t++ << "], ";
      out << "workspace, counters, random, status, 1u" << maps << "); });\n";
    }
    out << "}\n";
  }
  return out.str();
}

struct Memory {
  explicit Memory(std::size_t bytes, int fill) : data(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {
    std::memset(data, fill, (bytes + 127) / 64 * 64);
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  void* data;
};

// A folder of this process for one compilation, gone with this object.
struct Workshop {
  Workshop() : folder(fs::temp_directory_path() / ("neoflow-kernels-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
  }
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  Workshop(const Workshop&) = delete;

  // Makes kernels.so of the text and the object files; false: log() says why not.
  bool make(const std::string& text, const std::string& objects = {}) const {
    std::ofstream(folder / "kernels.cpp") << text;
    const std::string command = std::string(NF_CXX) +
                                " -std=c++17 -O1 -w -fPIC -shared -ffp-contract=off -fno-strict-aliasing -o " + made().string() +
                                " " + (folder / "kernels.cpp").string() + objects + " 2> " + (folder / "log").string();
    return std::system(command.c_str()) == 0;
  }
  fs::path made() const { return folder / "kernels.so"; }
  std::string log() const {
    std::ifstream in(folder / "log");
    return std::string{std::istreambuf_iterator<char>(in), {}}.substr(0, 3000);
  }
  fs::path folder;
};

}  // namespace

Result<std::vector<std::byte>> hostModuleOf(const std::string& source) {
  const Workshop workshop;
  if (!workshop.make(source)) return Error{"run on host", "the kernels' text does not compile", {}, workshop.log()};
  std::ifstream in(workshop.made(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return std::vector<std::byte>(begin, begin + bytes.size());
}

Result<std::vector<std::byte>> hostModule(const cuda::EmittedSource& emitted, const std::vector<DType>& operands) {
  std::string text = kernelsOf(emitted);
  if (std::any_of(emitted.stages.begin(), emitted.stages.end(), [](const KernelStage& s) { return s.cooperative; }))
    shareByBlock(text);
  std::ostringstream out;
  out << NF_EXPANDED_TEXT_OF(NF_HOST_TENSOR_MAP) << "\n" << kHost << cuda::portablePrelude() << "namespace k {\n" << text << "}\n";
  for (const KernelStage& s : emitted.stages) {
    out << "extern \"C\" {\nextern const unsigned long " << s.symbol << "_bytes[];\nconst unsigned long " << s.symbol
        << "_bytes[] = {";
    for (std::size_t t = 0; t < operands.size(); ++t) out << "8, ";
    out << "8, sizeof(NfCounters), 8, 8, 4, ";
    for (std::size_t m = 0; m < s.maps.size(); ++m) out << "sizeof(NfTensorMap), ";
    out << "0};\nint " << s.symbol << "(void** p, unsigned blocks, unsigned threads) {\n  grid(blocks, threads, "
        << (meets(text, s) ? "true" : "false") << ", " << (s.cooperative ? "true" : "false") << ", [&] { k::" << s.symbol << "(";
    std::size_t p = 0;
    for (const DType type : operands) out << "*(" << storage(type) << "**)p[" << p++ << "], ";
    out << "*(char**)p[" << p << "], *(NfCounters*)p[" << p + 1 << "], *(const nf_bits**)p[" << p + 2 << "], *(nf_bits**)p["
        << p + 3 << "], *(unsigned*)p[" << p + 4 << "]";
    for (std::size_t m = 0; m < s.maps.size(); ++m) out << ", *(const NfTensorMap*)p[" << p + 5 + m << "]";
    out << "); });\n  return 0;\n}\n}\n";
  }
  return hostModuleOf(out.str());
}

Result<Unit> runOnHost(std::vector<HostCall>& calls) {
  const Workshop workshop;
  std::string objects;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    if (calls[c].object.code.empty()) continue;
    const fs::path file = workshop.folder / ("kernel" + std::to_string(c) + ".o");
    std::ofstream(file, std::ios::binary) << calls[c].object.code;
    objects += " " + file.string();
  }
  const bool made = workshop.make(sourceOf(calls), objects);
  void* library = made ? dlopen(workshop.made().c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) return Error{"run on host", "the kernels' text does not compile", {}, workshop.log()};
  for (std::size_t c = 0; c < calls.size(); ++c) {
    HostCall& call = calls[c];
    std::vector<std::unique_ptr<Memory>> memory;
    std::vector<void*> tensors;
    for (const auto* list : {&call.inputs, &call.outputs})
      for (const TensorData& d : *list) {
        HostTensor host = HostTensor::make(d.type, d.shape);
        memory.push_back(std::make_unique<Memory>(host.bytes.size(), 0xff));
        for (std::size_t i = 0; i < d.values.size(); ++i) host.set(static_cast<std::int64_t>(i), d.values[i]);
        if (list == &call.inputs) std::memcpy(memory.back()->data, host.bytes.data(), host.bytes.size());
        tensors.push_back(memory.back()->data);
      }
    Memory workspace(static_cast<std::size_t>(call.workspaceBytes), 0xff);
    std::int64_t counters[8] = {};
    std::copy(call.counters.begin(), call.counters.end(), counters);
    const std::uint64_t random[2] = {call.seed, call.step};
    using Run = void (*)(void**, void*, const std::int64_t*, const std::uint64_t*, std::uint64_t*);
    const auto run = reinterpret_cast<Run>(dlsym(library, ("run" + std::to_string(c)).c_str()));
    run(tensors.data(), workspace.data, counters, random, call.status);
    for (std::size_t o = 0; o < call.outputs.size(); ++o) {
      TensorData& d = call.outputs[o];
      HostTensor host = HostTensor::make(d.type, d.shape);
      std::memcpy(host.bytes.data(), tensors[call.inputs.size() + o], host.bytes.size());
      d.values.clear();
      for (std::int64_t i = 0; i < host.elements(); ++i) d.values.push_back(host.at(i));
    }
  }
  dlclose(library);
  return Unit{};
}

}  // namespace nf::test
