// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <string>

#include "core/support/result.h"

namespace nf::cuda {

// The entry points of the CUDA driver that are used, with the versions that drivers from CUDA 12.0 on have.
#define NF_CUDA_DRIVER(X)                                                      \
  X(init, cuInit, "cuInit")                                                    \
  X(driverVersion, cuDriverGetVersion, "cuDriverGetVersion")                   \
  X(errorName, cuGetErrorName, "cuGetErrorName")                               \
  X(errorString, cuGetErrorString, "cuGetErrorString")                         \
  X(deviceCount, cuDeviceGetCount, "cuDeviceGetCount")                         \
  X(deviceGet, cuDeviceGet, "cuDeviceGet")                                     \
  X(deviceName, cuDeviceGetName, "cuDeviceGetName")                            \
  X(deviceAttribute, cuDeviceGetAttribute, "cuDeviceGetAttribute")             \
  X(deviceMemory, cuDeviceTotalMem, "cuDeviceTotalMem_v2")                     \
  X(contextRetain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")       \
  X(contextRelease, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2") \
  X(contextSet, cuCtxSetCurrent, "cuCtxSetCurrent")                            \
  X(streamCreate, cuStreamCreate, "cuStreamCreate")                            \
  X(streamDestroy, cuStreamDestroy, "cuStreamDestroy_v2")                      \
  X(streamSynchronize, cuStreamSynchronize, "cuStreamSynchronize")             \
  X(eventCreate, cuEventCreate, "cuEventCreate")                               \
  X(eventDestroy, cuEventDestroy, "cuEventDestroy_v2")                         \
  X(eventRecord, cuEventRecord, "cuEventRecord")                               \
  X(eventSynchronize, cuEventSynchronize, "cuEventSynchronize")                \
  X(allocate, cuMemAlloc, "cuMemAlloc_v2")                                     \
  X(release, cuMemFree, "cuMemFree_v2")                                        \
  X(allocateHost, cuMemAllocHost, "cuMemAllocHost_v2")                         \
  X(releaseHost, cuMemFreeHost, "cuMemFreeHost")                               \
  X(copyIn, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")                         \
  X(copyOut, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")                        \
  X(copy, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")                           \
  X(fill, cuMemsetD8Async, "cuMemsetD8Async")                                  \
  X(moduleLoad, cuModuleLoadData, "cuModuleLoadData")                          \
  X(moduleUnload, cuModuleUnload, "cuModuleUnload")                            \
  X(moduleFunction, cuModuleGetFunction, "cuModuleGetFunction")                \
  X(functionSet, cuFuncSetAttribute, "cuFuncSetAttribute")                     \
  X(tensorMap, cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled")               \
  X(launch, cuLaunchKernel, "cuLaunchKernel")

// Of graphs and of launches whose blocks wait for each other.
#define NF_CUDA_GRAPHS(X)                                                                 \
  X(launchTogether, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel")               \
  X(graphCreate, cuGraphCreate, "cuGraphCreate")                                          \
  X(graphDestroy, cuGraphDestroy, "cuGraphDestroy")                                       \
  X(graphAddKernel, cuGraphAddKernelNode, "cuGraphAddKernelNode_v2")                      \
  X(graphAddCopy, cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")                           \
  X(graphAddFill, cuGraphAddMemsetNode, "cuGraphAddMemsetNode")                           \
  X(graphKernelAttribute, cuGraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute") \
  X(graphInstantiate, cuGraphInstantiate, "cuGraphInstantiateWithFlags")                  \
  X(graphExecDestroy, cuGraphExecDestroy, "cuGraphExecDestroy")                           \
  X(graphSetKernel, cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2")  \
  X(graphSetCopy, cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams")       \
  X(graphSetFill, cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams")       \
  X(graphLaunch, cuGraphLaunch, "cuGraphLaunch")

struct Driver {
#define NF_SLOT(slot, function, name) decltype(&::function) slot = nullptr;
  NF_CUDA_DRIVER(NF_SLOT)
  NF_CUDA_GRAPHS(NF_SLOT)
#undef NF_SLOT
  int version = 0;  // 13000: CUDA 13.0
  int devices = 0;

  // libcuda.so.1, opened and initialised once. Fails in one sentence: no driver, one that is too old, no device.
  static Result<const Driver*> get();
  // The driver's own words.
  Error failure(const char* stage, const std::string& what, CUresult code, const std::string& device = "cuda") const;
};

std::string versionText(int version);  // 13000: "13.0"

// What the driver on this machine serves, 12040 for CUDA 12.4, without starting it; 0: there is none.
int servedByDriver();
// Machine code of a toolkit loads on drivers of its own major version and later; without a driver nothing is in the way.
bool driverLoads(int toolkitMajor);

}  // namespace nf::cuda
