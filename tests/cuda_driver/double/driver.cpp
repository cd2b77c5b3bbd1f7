// SPDX-License-Identifier: Apache-2.0
// Entry points of the CUDA driver, under the names that a driver exports.
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/cuda/host_tensor_map.h"
#include "tests/cuda_driver/double/state.h"

using namespace nf::driver_double;

namespace {

NF_HOST_TENSOR_MAP

using Lock = std::lock_guard<std::recursive_mutex>;

// What every call on a context begins with.
CUresult usable() {
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  return current()->lost;
}

CUresult queue(CUstream stream, Work work) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  stream->queue.push_back(std::move(work));
  return CUDA_SUCCESS;
}

constexpr int kMostShared = 227 << 10;  // of a block, for the asking

bool isLocked(const void* at, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const auto& locked = state().locked;
  auto after = locked.upper_bound(begin);
  if (after == locked.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return begin + bytes <= start + size;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// An image has no length beside it: an ELF file says in its headers how far it reaches.
std::size_t lengthOf(const void* image) {
  const auto* const bytes = static_cast<const unsigned char*>(image);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  std::size_t end = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + std::size_t{i} * header.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

CUresult addNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count, Work work) {
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraphNode_st>();
  made->graph = graph;
  made->work = std::move(work);
  if (count > 0) made->after.assign(after, after + count);
  *node = made.get();
  graph->nodes.push_back(std::move(made));
  return CUDA_SUCCESS;
}

CUresult changeNode(CUgraphExec executable, CUgraphNode node, Work work) {
  State& s = state();
  if (s.refusesChanges) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  const auto found = executable->work.find(node);
  if (found == executable->work.end() || found->second.kind != work.kind) return CUDA_ERROR_INVALID_VALUE;
  work.together = found->second.together;  // an attribute, which stays
  found->second = std::move(work);
  ++s.counts.changes;
  return CUDA_SUCCESS;
}

Work workOf(const CUDA_KERNEL_NODE_PARAMS& p) {
  return nf::driver_double::workOf(p.func, p.gridDimX, p.blockDimX, p.sharedMemBytes, false, p.kernelParams);
}

Work workOf(const CUDA_MEMCPY3D& p) {
  Work work;
  work.kind = Work::Kind::Copy;
  work.to = pointer(p.dstDevice);
  work.from = pointer(p.srcDevice);
  work.bytes = p.WidthInBytes * p.Height * p.Depth;
  return work;
}

Work workOf(const CUDA_MEMSET_NODE_PARAMS& p) {
  Work work;
  work.kind = Work::Kind::Fill;
  work.to = pointer(p.dst);
  work.value = static_cast<unsigned char>(p.value);
  work.bytes = p.width * p.height * p.elementSize;
  return work;
}

int attributeOf(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 8;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 4;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 4 << 20;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 256;
    default: return 0;
  }
}

}  // namespace

extern "C" {

// ---------------------------------------------------------------- the driver, devices, contexts
CUresult cuInit(unsigned) {
  reset();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  const char* served = std::getenv("NF_DOUBLE_SERVES");
  *version = served ? std::atoi(served) : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  *name = code == CUDA_ERROR_ILLEGAL_ADDRESS     ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == CUDA_ERROR_ECC_UNCORRECTABLE ? "CUDA_ERROR_ECC_UNCORRECTABLE"
                                                 : "CUDA_ERROR_OF_THE_DOUBLE";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char** words) {
  *words = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "an error of the test double";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
  if (number < 0 || number >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  *device = number;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, kModel, static_cast<std::size_t>(size) - 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  *value = attributeOf(which);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{2} << 30;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Lock lock(state().mutex);
  *context = &state().contexts[static_cast<std::size_t>(device)];
  ++(*context)->retained;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const Lock lock(state().mutex);
  --state().contexts[static_cast<std::size_t>(device)].retained;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  current() = context;
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- streams, events
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  *stream = new CUstream_st{current(), {}};
  ++state().alive.streams;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  const Lock lock(state().mutex);
  const CUresult code = drain(*stream);
  delete stream;
  --state().alive.streams;
  return code;
}

CUresult cuStreamSynchronize(CUstream stream) {
  const Lock lock(state().mutex);
  return drain(*stream);
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  *event = new CUevent_st;
  ++state().alive.events;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  const Lock lock(state().mutex);
  if (event->stream) drain(*event->stream);
  delete event;
  --state().alive.events;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  Work work;
  work.kind = Work::Kind::Event;
  work.event = event;
  const CUresult queued = queue(stream, std::move(work));
  if (queued == CUDA_SUCCESS) event->stream = stream;
  return queued;
}

CUresult cuEventSynchronize(CUevent event) {
  const Lock lock(state().mutex);
  return event->stream ? drain(*event->stream) : usable();
}

// ---------------------------------------------------------------- memory
CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  void* const made = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(made, 0xff, bytes);  // not a number in every floating type
  *memory = reinterpret_cast<CUdeviceptr>(made);
  current()->allocations[reinterpret_cast<std::uintptr_t>(made)] = bytes;
  ++state().alive.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory) {
  const Lock lock(state().mutex);
  if (!current() || current()->allocations.erase(memory) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(pointer(memory));
  --state().alive.allocations;
  return current()->lost;
}

CUresult cuMemAllocHost(void** memory, std::size_t bytes) {
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const Lock lock(state().mutex);
  state().locked[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  const Lock lock(state().mutex);
  state().locked.erase(reinterpret_cast<std::uintptr_t>(memory));
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  Work work;
  work.kind = Work::Kind::CopyIn;
  work.to = pointer(to);
  work.from = from;
  work.bytes = bytes;
  return queue(stream, std::move(work));
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  Work work;
  work.kind = Work::Kind::CopyOut;
  work.to = to;
  work.from = pointer(from);
  work.bytes = bytes;
  const CUresult queued = queue(stream, std::move(work));
  const Lock lock(state().mutex);
  if (queued != CUDA_SUCCESS || isLocked(to, bytes)) return queued;
  // The call returns when the copy has been made ("API synchronization behavior" of the driver's manual).
  ++state().counts.unlocked;
  return drain(*stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  Work work;
  work.kind = Work::Kind::Copy;
  work.to = pointer(to);
  work.from = pointer(from);
  work.bytes = bytes;
  return queue(stream, std::move(work));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  Work work;
  work.kind = Work::Kind::Fill;
  work.to = pointer(to);
  work.value = value;
  work.bytes = bytes;
  return queue(stream, std::move(work));
}

// ---------------------------------------------------------------- modules and launches
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  const std::size_t length = lengthOf(image);
  if (length == 0) return CUDA_ERROR_INVALID_IMAGE;
  // The loader takes two files of one name for the same.
  static std::int64_t number = 0;
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("neoflow-module-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".so");
  std::ofstream(file, std::ios::binary).write(static_cast<const char*>(image), static_cast<std::streamsize>(length));
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  if (!library) return CUDA_ERROR_INVALID_IMAGE;
  state().modules.push_back(std::make_unique<CUmod_st>(CUmod_st{current(), library, true}));
  *module = state().modules.back().get();
  ++state().alive.modules;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  const Lock lock(state().mutex);
  module->loaded = false;
  dlclose(module->library);
  --state().alive.modules;
  return module->context->lost;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  auto made = std::make_unique<CUfunc_st>();
  made->module = module;
  made->name = name;
  made->bytes = static_cast<const unsigned long*>(dlsym(module->library, (std::string(name) + "_bytes").c_str()));
  made->run = reinterpret_cast<int (*)(void**, unsigned, unsigned)>(dlsym(module->library, name));
  if (!made->bytes || !made->run) return CUDA_ERROR_NOT_FOUND;
  *function = made.get();
  state().functions.push_back(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_NOT_SUPPORTED;
  if (value < 0 || value > kMostShared) return CUDA_ERROR_INVALID_VALUE;
  function->mostShared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

// As the documentation has it: what it refuses is refused here.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* memory,
                                const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* each,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill fill) {
  const bool half = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (!half && type != CU_TENSOR_MAP_DATA_TYPE_FLOAT32 && type != CU_TENSOR_MAP_DATA_TYPE_TFLOAT32) return CUDA_ERROR_INVALID_VALUE;
  const unsigned bytes = half ? 2 : 4;
  if (rank < 1 || rank > 5 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || swizzle != CU_TENSOR_MAP_SWIZZLE_128B ||
      fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0 || reinterpret_cast<std::uintptr_t>(memory) % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (box[0] * bytes % 16 != 0 || box[0] * bytes > 128) return CUDA_ERROR_INVALID_VALUE;
  NfTensorMap made{};
  made.base = static_cast<const char*>(memory);
  made.axes = static_cast<unsigned char>(rank);
  made.bytes = static_cast<unsigned char>(bytes);
  made.rounded = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  for (cuuint32_t a = 0; a < rank; ++a) {
    if (extents[a] == 0 || extents[a] > (1ull << 32) || box[a] == 0 || box[a] > 256 || each[a] != 1)
      return CUDA_ERROR_INVALID_VALUE;
    if (a > 0 && (strides[a - 1] % 16 != 0 || strides[a - 1] >= (1ull << 40))) return CUDA_ERROR_INVALID_VALUE;
    made.extents[a] = extents[a];
    made.strides[a] = a > 0 ? strides[a - 1] : bytes;
    made.box[a] = box[a];
  }
  static_assert(sizeof made == sizeof *map);
  std::memcpy(map, &made, sizeof made);
  ++state().counts.maps;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                        unsigned shared, CUstream stream, void** parameters, void**) {
  if (shared > function->mostShared) return CUDA_ERROR_INVALID_VALUE;
  const CUresult queued = queue(stream, nf::driver_double::workOf(function, blocks, threads, shared, false, parameters));
  state().counts.streamLaunches += queued == CUDA_SUCCESS;
  return queued;
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                                   unsigned shared, CUstream stream, void** parameters) {
  if (shared > function->mostShared) return CUDA_ERROR_INVALID_VALUE;
  const CUresult queued = queue(stream, nf::driver_double::workOf(function, blocks, threads, shared, true, parameters));
  state().counts.streamLaunches += queued == CUDA_SUCCESS;
  return queued;
}

// ---------------------------------------------------------------- graphs
CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  const Lock lock(state().mutex);
  *graph = new CUgraph_st;
  ++state().alive.graphs;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  const Lock lock(state().mutex);
  delete graph;
  --state().alive.graphs;
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* kernel) {
  if (kernel->sharedMemBytes > kernel->func->mostShared) return CUDA_ERROR_INVALID_VALUE;
  return addNode(node, graph, after, count, workOf(*kernel));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                              const CUDA_MEMCPY3D* copy, CUcontext) {
  return addNode(node, graph, after, count, workOf(*copy));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext) {
  return addNode(node, graph, after, count, workOf(*fill));
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID which, const CUkernelNodeAttrValue* value) {
  if (which != CU_LAUNCH_ATTRIBUTE_COOPERATIVE) return CUDA_ERROR_NOT_SUPPORTED;
  node->work.together = value->cooperative != 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  if (state().refusesGraphs) return CUDA_ERROR_OUT_OF_MEMORY;
  auto made = std::make_unique<CUgraphExec_st>();
  made->context = current();
  // What no edge holds back runs first: an order that nobody asked for is not to be relied on.
  while (made->order.size() < graph->nodes.size()) {
    CUgraphNode next = nullptr;
    for (const auto& node : graph->nodes) {
      const bool ready = !made->work.contains(node.get()) &&
                         std::all_of(node->after.begin(), node->after.end(), [&](CUgraphNode n) { return made->work.contains(n); });
      if (ready) next = node.get();
    }
    if (!next) return CUDA_ERROR_INVALID_VALUE;
    made->order.push_back(next);
    made->work.emplace(next, next->work);
  }
  *executable = made.release();
  ++state().counts.graphs;
  ++state().alive.executables;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const Lock lock(state().mutex);
  delete executable;
  --state().alive.executables;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* kernel) {
  const Lock lock(state().mutex);
  if (kernel->sharedMemBytes > kernel->func->mostShared) return CUDA_ERROR_INVALID_VALUE;
  return changeNode(executable, node, workOf(*kernel));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* copy, CUcontext) {
  const Lock lock(state().mutex);
  return changeNode(executable, node, workOf(*copy));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext) {
  const Lock lock(state().mutex);
  return changeNode(executable, node, workOf(*fill));
}

// As the nodes are now: later changes are for later launches.
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  const Lock lock(state().mutex);
  if (const CUresult ok = usable(); ok != CUDA_SUCCESS) return ok;
  for (const CUgraphNode node : executable->order) stream->queue.push_back(executable->work.at(node));
  ++state().counts.graphLaunches;
  return CUDA_SUCCESS;
}

}  // extern "C"
