// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <immintrin.h>

namespace nf::cpu {

// While it lives this thread takes denormal numbers for zero, of what it reads and of what it makes: an instruction that meets one takes
// up to a hundred times as long (docs/decisions/0006). Then all is as it was.
class FlushDenormals {
 public:
  FlushDenormals() : m_before(_mm_getcsr()) { _mm_setcsr(m_before | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(m_before); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  unsigned m_before;
};

}  // namespace nf::cpu
