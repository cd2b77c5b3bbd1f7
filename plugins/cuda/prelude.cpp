// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/schedule/fragment.h"
#include "plugins/cuda/emit.h"

namespace nf::cuda {

const char* preludeName() { return "neoflow.h"; }

namespace {

// What generated kernels call. It includes nothing, so that NVRTC needs no folder of headers.
const char kPortable[] = R"cuda(
typedef long long nf_long;
typedef unsigned long long nf_bits;

struct NfCounters { nf_long of[8]; };

// ---------------------------------------------------------------- storage
__device__ __forceinline__ float nf_from_bf16(unsigned short b) { return __uint_as_float((unsigned)b << 16); }
__device__ __forceinline__ unsigned short nf_to_bf16(float f) {
  const unsigned bits = __float_as_uint(f);
  if (f != f) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <class T, int N>
struct __align__(sizeof(T) * N) NfVector {
  T at[N];
};
template <int N, class T>
__device__ __forceinline__ NfVector<T, N> nf_wide(const T* from) { return *reinterpret_cast<const NfVector<T, N>*>(from); }
template <class T, int N>
__device__ __forceinline__ void nf_put(T* to, const NfVector<T, N>& v) { *reinterpret_cast<NfVector<T, N>*>(to) = v; }

// ---------------------------------------------------------------- numbers
template <class T>
__device__ __forceinline__ T nf_floor_div(T a, T d) { const T q = a / d; return q - (a % d < 0 ? 1 : 0); }
__device__ __forceinline__ int nf_quotient(int a, int b) {
  if (b == 0) return 0;
  if (b == -1) return (int)(0u - (unsigned)a);
  const int q = a / b, r = a % b;
  return q - (r != 0 && (r ^ b) < 0 ? 1 : 0);
}
__device__ __forceinline__ nf_long nf_quotient(nf_long a, nf_long b) {
  if (b == 0) return 0;
  if (b == -1) return (nf_long)(0u - (nf_bits)a);
  const nf_long q = a / b, r = a % b;
  return q - (r != 0 && (r ^ b) < 0 ? 1 : 0);
}
__device__ __forceinline__ nf_long nf_remainder(nf_long a, nf_long b) {
  return (nf_long)((nf_bits)a - (nf_bits)nf_quotient(a, b) * (nf_bits)b);
}
__device__ __forceinline__ int nf_remainder(int a, int b) { return (int)((unsigned)a - (unsigned)nf_quotient(a, b) * (unsigned)b); }
// The hardware makes the smallest integer of a NaN where a type of 64 bits is concerned.
__device__ __forceinline__ int nf_to_int(float x) { return __float2int_rz(x); }
__device__ __forceinline__ int nf_to_int(double x) { return x != x ? 0 : __double2int_rz(x); }
template <class T>
__device__ __forceinline__ nf_long nf_to_long(T x) {
  if (x != x) return 0;
  if (x >= (T)0x1p63) return 0x7fffffffffffffffll;
  return x <= (T)-0x1p63 ? -0x7fffffffffffffffll - 1 : (nf_long)x;
}
template <class T>
__device__ __forceinline__ T nf_max(T a, T b) { return a > b || a != a ? a : b; }
template <class T>
__device__ __forceinline__ T nf_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T>
__device__ __forceinline__ T nf_relu(T x) { return x <= T(0) ? T(0) : x; }
__device__ __forceinline__ float nf_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ double nf_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ __forceinline__ float nf_rsqrt(float x) { return 1.0f / sqrtf(x); }
__device__ __forceinline__ double nf_rsqrt(double x) { return 1.0 / sqrt(x); }

__device__ __forceinline__ nf_bits nf_mix(nf_bits x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
__device__ __forceinline__ nf_bits nf_key(const nf_bits* random, nf_bits stream) {
  const nf_bits increment = 0x9e3779b97f4a7c15ull;
  return nf_mix(nf_mix(nf_mix(random[0] + increment) + random[1] * increment) + stream * increment);
}
__device__ __forceinline__ float nf_random(nf_bits key, nf_long point) {
  return (float)(int)(nf_mix(key + (nf_bits)point * 0x9e3779b97f4a7c15ull) >> 40) * 0x1p-24f;
}

// ---------------------------------------------------------------- data-dependent indices
// Reports the first index that is out of range.
__device__ __forceinline__ bool nf_inside(nf_long index, nf_long extent, bool asked, nf_bits* status, unsigned kernel, unsigned check) {
  if (index >= 0 && index < extent) return asked;
  if (asked && atomicCAS(status, 0ull, (nf_bits)kernel << 32 | (check + 1u)) == 0ull) status[1] = (nf_bits)index;
  return false;
}
)cuda";

const char kHardware[] = R"cuda(
#define NF_INFINITY __int_as_float(0x7f800000)
#define NF_NAN __int_as_float(0x7fc00000)
#define NF_INFINITY_D __longlong_as_double(0x7ff0000000000000ll)
#define NF_NAN_D __longlong_as_double(0x7ff8000000000000ll)
#define NF_SHARED_OF_LAUNCH extern __shared__ __align__(1024) char nf_shared[];
__device__ __forceinline__ float nf_from_half(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ __forceinline__ unsigned short nf_to_half(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// ---------------------------------------------------------------- blocks that meet
// All blocks of the grid, which are resident together. The shares of a meeting add up to the highest bit of the word, which turns when
// the last block comes: so the word needs no reset, between meetings or launches.
__device__ __forceinline__ void nf_grid_barrier(unsigned long long* status) {
  unsigned* const word = (unsigned*)status;
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned share = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1u) : 1u;
    unsigned before, now;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(share) : "memory");
    do {
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    } while (((before ^ now) & 0x80000000u) == 0u);
  }
  __syncthreads();
}

// ---------------------------------------------------------------- copies under way
template <int Bytes>
__device__ __forceinline__ void nf_async(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if (Bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(Bytes) : "memory");
#else
  if (Bytes == 16) *(int4*)to = *(const int4*)from;
  else if (Bytes == 8) *(int2*)to = *(const int2*)from;
  else *(int*)to = *(const int*)from;
#endif
}
__device__ __forceinline__ void nf_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int Groups>
__device__ __forceinline__ void nf_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
#endif
}

// ---------------------------------------------------------------- matrices of a warp
template <class T>
__device__ __forceinline__ unsigned nf_tf32(T f) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(f));
  return rounded;
}
__device__ __forceinline__ float nf_rounded_tf32(float f) { return __uint_as_float(nf_tf32(f)); }
// `Count` matrices of 8 rows of 16 bytes; thread 8*j + r has the address of row r of matrix j. Turned: each transposed, of 2-byte numbers.
template <int Count, bool Turned>
__device__ __forceinline__ void nf_matrix_load(unsigned* to, const void* row) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if constexpr (Count == 4 && Turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  else if constexpr (Count == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  else if constexpr (Count == 2 && Turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
  else if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
  else if constexpr (Turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(to[0]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(to[0]) : "r"(at) : "memory");
}
template <int Count>
__device__ __forceinline__ void nf_matrix_load_tf32(unsigned* to, const void* row) {
  nf_matrix_load<Count, false>(to, row);
#pragma unroll
  for (int w = 0; w < Count; ++w) to[w] = nf_tf32(__uint_as_float(to[w]));
}
// c += a * b of 16 x 8 x K.
template <int K>
__device__ __forceinline__ void nf_mma_f16(float* c, const unsigned* a, const unsigned* b) {
  if constexpr (K == 16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
template <int K>
__device__ __forceinline__ void nf_mma_bf16(float* c, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <int K>
__device__ __forceinline__ void nf_mma_tf32(float* c, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
)cuda";

const char kWarpgroups[] = R"cuda(
// ---------------------------------------------------------------- matrices of four warps
// Where an operand begins in shared memory, the bytes to the next 128 of a turned one's rows, 1024 to the next eight rows, swizzling by 128.
__device__ __forceinline__ nf_bits nf_operand(const void* at, unsigned apart) {
  const unsigned from = (unsigned)__cvta_generic_to_shared(at);
  return (nf_bits)((from & 0x3ffffu) >> 4) | (nf_bits)(apart >> 4) << 16 | (nf_bits)(1024 >> 4) << 32 | (nf_bits)1 << 62;
}
__device__ __forceinline__ void nf_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void nf_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups>
__device__ __forceinline__ void nf_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}
// Uses of accumulators stay on their side of it.
template <int Count>
__device__ __forceinline__ void nf_hold(float* c) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
__device__ __forceinline__ void nf_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---------------------------------------------------------------- the copy engine
struct __align__(64) NfTensorMap { nf_bits opaque[16]; };
// An arrival's phase ends when one thread has said how many bytes it brings and they are there.
__device__ __forceinline__ void nf_arrival_init(nf_long* arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"((unsigned)__cvta_generic_to_shared(arrival)) : "memory");
}
__device__ __forceinline__ void nf_arrival_expect(nf_long* arrival, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"((unsigned)__cvta_generic_to_shared(arrival)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void nf_arrival_wait(nf_long* arrival, unsigned parity) {
  unsigned ended;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(ended) : "r"((unsigned)__cvta_generic_to_shared(arrival)), "r"(parity) : "memory");
  } while (ended == 0u);
}
)cuda";

// A box of a map into shared memory, begun, by the coordinates of its first element.
std::string tensorCopies() {
  std::string text;
  for (std::size_t axes = 1; axes <= loop::kMostMapAxes; ++axes) {
    std::string taken, named, given;
    for (std::size_t a = 0; a < axes; ++a) {
      const std::string c = "c" + std::to_string(a);
      taken += ", int " + c;
      named += (a > 0 ? ", %" : "%") + std::to_string(3 + a);
      given += ", \"r\"(" + c + ")";
    }
    text += "__device__ __forceinline__ void nf_tensor_copy(void* to, const NfTensorMap& map, nf_long* arrival" + taken +
            ") {\n  asm volatile(\"cp.async.bulk.tensor." + std::to_string(axes) +
            "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" + named +
            "}], [%2];\"\n               ::\"r\"((unsigned)__cvta_generic_to_shared(to)), \"l\"(&map), "
            "\"r\"((unsigned)__cvta_generic_to_shared(arrival))" +
            given + " : \"memory\");\n}\n";
  }
  return text;
}

// c += a * b of 64 x N and 32 bytes along the reduced points, begun; `type` as PTX calls it. tf32 has no operands that are turned.
std::string warpgroupTiles(const std::string& type) {
  const bool turns = type != "tf32";
  std::string text = turns ? "template <int N, bool TurnedA, bool TurnedB>\n__device__ __forceinline__ void nf_wgmma_" + type +
                                 "(float* c, const void* a, unsigned apartA, const void* b, unsigned apartB) {\n" +
                                 "  const nf_bits left = nf_operand(a, apartA), right = nf_operand(b, apartB);\n"
                           : "template <int N>\n__device__ __forceinline__ void nf_wgmma_" + type +
                                 "(float* c, const void* a, const void* b) {\n" +
                                 "  const nf_bits left = nf_operand(a, 0), right = nf_operand(b, 0);\n";
  for (const std::int64_t columns : kWarpgroupColumns) {
    const std::int64_t registers = columns / 2;
    const auto operand = [&](std::int64_t n) { return "%" + std::to_string(registers + n); };
    std::string named, given;
    for (std::int64_t r = 0; r < registers; ++r) {
      named += (r > 0 ? ", %" : "%") + std::to_string(r);
      given += std::string(r > 0 ? ", " : "") + "\"+f\"(c[" + std::to_string(r) + "])";
    }
    text += "  if constexpr (N == " + std::to_string(columns) + ")\n    asm volatile(\"{.reg .pred p; setp.ne.b32 p, 1, 0;\\n\"\n" +
            "                 \"wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + (turns ? "k16" : "k8") + ".f32." +
            type + "." + type + " {" + named + "}, " + operand(0) + ", " + operand(1) + ", p, 1, 1" +
            (turns ? ", " + operand(2) + ", " + operand(3) : "") + ";}\"\n" + "                 : " + given +
            "\n                 : \"l\"(left), \"l\"(right)" + (turns ? ", \"n\"((int)TurnedA), \"n\"((int)TurnedB)" : "") + ");\n";
  }
  return text + "}\n";
}

// wgmma is in sm_90a and nowhere else.
std::string warpgroups() {
  return "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n" + std::string(kWarpgroups) + tensorCopies() + warpgroupTiles("f16") +
         warpgroupTiles("bf16") + warpgroupTiles("tf32") + "#endif\n";
}

}  // namespace

const char* preludeText() {
  static const std::string whole = std::string(kHardware) + kPortable + warpgroups();
  return whole.c_str();
}
const char* portablePrelude() { return kPortable; }

}  // namespace nf::cuda
