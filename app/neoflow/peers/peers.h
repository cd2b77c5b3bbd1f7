// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

// The boundary of the module neoflow-peers: C functions found by name. Operands are row-major f32 and belong to the caller.
namespace nf::peers {

struct Case;  // a prepared call

struct Convolution {
  std::int64_t batch, channels, height, outChannels, window, stride, pad, dilation, groups;
};

// Null: this library is not there, or refuses. blocked: operands in the library's own layouts, which are then its own copies.
using MakeGemm = Case* (*)(const char* library, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                           float* c);
using MakeConvolution = Case* (*)(bool blocked, const Convolution&, const float* x, const float* w, float* y);
using MakeSoftmax = Case* (*)(std::int64_t rows, std::int64_t columns, const float* x, float* y);
using Run = void (*)(Case*);
using Release = void (*)(Case*);

}  // namespace nf::peers
