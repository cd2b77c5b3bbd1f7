// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/peers/peers.h"

#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>

#if defined(NF_ONEDNN)
#include <oneapi/dnnl/dnnl.hpp>
#endif
#if defined(NF_OPENBLAS)
#include <cblas.h>
#endif

namespace nf::peers {

struct Case {
  std::function<void()> run;
};

namespace {

#if defined(NF_ONEDNN)
using dnnl::memory;
using Tag = memory::format_tag;

struct Machine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

Machine& machine() {
  static Machine m;
  return m;
}

memory view(const memory::desc& d, const void* data) { return memory(d, machine().engine, const_cast<void*>(data)); }

Case* prepared(dnnl::primitive primitive, std::unordered_map<int, memory> arguments) {
  return new Case{[primitive = std::move(primitive), arguments = std::move(arguments)]() mutable {
    primitive.execute(machine().stream, arguments);
    machine().stream.wait();
  }};
}
#endif

}  // namespace
}  // namespace nf::peers

using namespace nf::peers;

#define NF_EXPORT extern "C" __attribute__((visibility("default")))

NF_EXPORT Case* nfPeerGemm(const char* library, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                           float* c) {
#if defined(NF_OPENBLAS)
  if (std::strcmp(library, "OpenBLAS") == 0)
    return new Case{[=] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1, a,
                  static_cast<int>(k), b, static_cast<int>(n), 0, c, static_cast<int>(n));
    }};
#endif
#if defined(NF_ONEDNN)
  if (std::strcmp(library, "oneDNN") == 0) try {
      const memory::desc ad({m, k}, memory::data_type::f32, Tag::ab), bd({k, n}, memory::data_type::f32, Tag::ab),
          cd({m, n}, memory::data_type::f32, Tag::ab);
      const dnnl::matmul::primitive_desc p({ad, bd, cd}, machine().engine);
      return prepared(dnnl::matmul(p), {{DNNL_ARG_SRC, view(ad, a)}, {DNNL_ARG_WEIGHTS, view(bd, b)}, {DNNL_ARG_DST, view(cd, c)}});
    } catch (const dnnl::error&) {}
#endif
  (void)library, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c;
  return nullptr;
}

NF_EXPORT Case* nfPeerConvolution(bool blocked, const Convolution& c, const float* x, const float* w, float* y) {
#if defined(NF_ONEDNN)
  try {
    const std::int64_t o = (c.height + 2 * c.pad - c.dilation * (c.window - 1) - 1) / c.stride + 1;
    const memory::dims wd = c.groups > 1
                                ? memory::dims{c.groups, c.outChannels / c.groups, c.channels / c.groups, c.window, c.window}
                                : memory::dims{c.outChannels, c.channels, c.window, c.window};
    const auto f32 = memory::data_type::f32;
    const memory::desc xd({c.batch, c.channels, c.height, c.height}, f32, blocked ? Tag::any : Tag::nchw);
    const memory::desc kd(wd, f32, blocked ? Tag::any : c.groups > 1 ? Tag::goihw : Tag::oihw);
    const memory::desc yd({c.batch, c.outChannels, o, o}, f32, blocked ? Tag::any : Tag::nchw);
    const memory::dims stride{c.stride, c.stride}, dilation{c.dilation - 1, c.dilation - 1}, pad{c.pad, c.pad};
    const dnnl::convolution_forward::primitive_desc p(
        {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, xd, kd, yd, stride, dilation, pad, pad},
        machine().engine);
    const auto operand = [&](const memory::desc& d, const float* data) {
      if (!blocked) return view(d, data);
      memory own(d, machine().engine);
      std::memset(own.get_data_handle(), 0, d.get_size());
      return own;
    };
    return prepared(dnnl::convolution_forward(p), {{DNNL_ARG_SRC, operand(p.src_desc(), x)},
                                                   {DNNL_ARG_WEIGHTS, operand(p.weights_desc(), w)},
                                                   {DNNL_ARG_DST, operand(p.dst_desc(), y)}});
  } catch (const dnnl::error&) {}
#endif
  (void)blocked, (void)c, (void)x, (void)w, (void)y;
  return nullptr;
}

NF_EXPORT Case* nfPeerSoftmax(std::int64_t rows, std::int64_t columns, const float* x, float* y) {
#if defined(NF_ONEDNN)
  try {
    const memory::desc d({rows, columns}, memory::data_type::f32, Tag::ab);
    const dnnl::softmax_forward::primitive_desc p({dnnl::prop_kind::forward_inference, d, 1}, machine().engine);
    return prepared(dnnl::softmax_forward(p), {{DNNL_ARG_SRC, view(d, x)}, {DNNL_ARG_DST, view(d, y)}});
  } catch (const dnnl::error&) {}
#endif
  (void)rows, (void)columns, (void)x, (void)y;
  return nullptr;
}

NF_EXPORT void nfPeerRun(Case* c) { c->run(); }
NF_EXPORT void nfPeerRelease(Case* c) { delete c; }
