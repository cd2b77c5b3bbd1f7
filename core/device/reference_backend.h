// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/device/backend.h"

namespace nf {

// The interpreter as a back end, always there, in double precision. Device "reference": between typed buffers in host memory; device
// "reference:f64": every element of every tensor is an f64, nothing is rounded. A kernel object holds its subgraph as JSON; the
// schedule is kept and not looked at. For BackendRegistry::add("reference", ..).
Backend* referenceBackend(std::uint32_t version);

}  // namespace nf
