// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/graph.h"

#include <cstring>

namespace nf::cuda {
namespace {

constexpr std::size_t kAlignment = 8;

// The driver copies what the pointers of a node's parameters point at while the call lasts.
class KernelNode {
 public:
  explicit KernelNode(const GraphNode& node) {
    for (const std::uint32_t offset : node.offsets) m_pointers.push_back(const_cast<std::byte*>(node.parameters.data()) + offset);
    m_node.func = node.function;
    m_node.gridDimX = node.shape.blocks;
    m_node.gridDimY = m_node.gridDimZ = 1;
    m_node.blockDimX = node.shape.threads;
    m_node.blockDimY = m_node.blockDimZ = 1;
    m_node.sharedMemBytes = node.shape.sharedBytes;
    m_node.kernelParams = m_pointers.data();
  }
  const CUDA_KERNEL_NODE_PARAMS* get() const { return &m_node; }

 private:
  std::vector<void*> m_pointers;
  CUDA_KERNEL_NODE_PARAMS m_node{};
};

CUDA_MEMCPY3D copyOf(const GraphNode& node) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = node.from;
  copy.dstDevice = node.to;
  copy.WidthInBytes = node.bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS fillOf(const GraphNode& node) {
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = node.to;
  fill.value = node.value;
  fill.elementSize = 1;
  fill.width = node.bytes;
  fill.height = 1;
  return fill;
}

// Whether the driver can make the one of the other in an executable graph: whether a kernel is cooperative is an attribute of its node,
// which only the graph that is instantiated has.
bool changeable(const GraphNode& a, const GraphNode& b) { return a.kind == b.kind && a.shape.cooperative == b.shape.cooperative; }

}  // namespace

GraphNode GraphNode::launch(CUfunction function, const LaunchShape& shape, const LaunchParameters& parameters) {
  GraphNode node;
  node.function = function;
  node.shape = shape;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    node.offsets.push_back(static_cast<std::uint32_t>(node.parameters.size()));
    node.parameters.resize(node.parameters.size() + (parameters.bytes(i) + kAlignment - 1) / kAlignment * kAlignment);
    std::memcpy(node.parameters.data() + node.offsets.back(), parameters.value(i), parameters.bytes(i));
  }
  return node;
}

GraphNode GraphNode::copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  GraphNode node;
  node.kind = Kind::Copy;
  node.to = to;
  node.from = from;
  node.bytes = bytes;
  return node;
}

GraphNode GraphNode::fill(CUdeviceptr to, std::uint8_t value, std::size_t bytes) {
  GraphNode node;
  node.kind = Kind::Fill;
  node.to = to;
  node.value = value;
  node.bytes = bytes;
  return node;
}

Graph::~Graph() { clear(); }

void Graph::clear() {
  if (m_executable) {
    m_driver.streamSynchronize(m_stream);  // its last launch may still run
    m_driver.graphExecDestroy(m_executable);
  }
  if (m_graph) m_driver.graphDestroy(m_graph);
  m_executable = nullptr;
  m_graph = nullptr;
  m_handles.clear();
  m_nodes.clear();
}

CUresult Graph::set(std::vector<GraphNode> nodes) {
  bool keeps = m_executable && nodes.size() == m_nodes.size();
  for (std::size_t i = 0; keeps && i < nodes.size(); ++i) keeps = changeable(m_nodes[i], nodes[i]);
  for (std::size_t i = 0; keeps && i < nodes.size(); ++i) {
    if (nodes[i] == m_nodes[i]) continue;
    keeps = change(nodes[i], m_handles[i]) == CUDA_SUCCESS;
    if (!keeps) break;
    m_nodes[i] = nodes[i];
    ++m_updates;
  }
  if (keeps) return CUDA_SUCCESS;
  clear();
  m_nodes = std::move(nodes);
  const CUresult built = build();
  if (built != CUDA_SUCCESS) clear();
  return built;
}

CUresult Graph::build() {
  ++m_builds;
  if (const CUresult made = m_driver.graphCreate(&m_graph, 0); made != CUDA_SUCCESS) return made;
  for (const GraphNode& node : m_nodes) {
    CUgraphNode handle = nullptr;
    if (const CUresult added = add(node, m_handles.empty() ? nullptr : &m_handles.back(), handle); added != CUDA_SUCCESS)
      return added;
    m_handles.push_back(handle);
  }
  return m_driver.graphInstantiate(&m_executable, m_graph, 0);
}

CUresult Graph::add(const GraphNode& node, const CUgraphNode* before, CUgraphNode& handle) {
  const std::size_t count = before ? 1 : 0;
  switch (node.kind) {
    case GraphNode::Kind::Launch: {
      const KernelNode kernel(node);
      const CUresult added = m_driver.graphAddKernel(&handle, m_graph, before, count, kernel.get());
      if (added != CUDA_SUCCESS || !node.shape.cooperative) return added;
      CUkernelNodeAttrValue cooperative{};
      cooperative.cooperative = 1;
      return m_driver.graphKernelAttribute(handle, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
    }
    case GraphNode::Kind::Copy: {
      const CUDA_MEMCPY3D copy = copyOf(node);
      return m_driver.graphAddCopy(&handle, m_graph, before, count, &copy, m_context);
    }
    case GraphNode::Kind::Fill: {
      const CUDA_MEMSET_NODE_PARAMS fill = fillOf(node);
      return m_driver.graphAddFill(&handle, m_graph, before, count, &fill, m_context);
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult Graph::change(const GraphNode& node, CUgraphNode handle) {
  switch (node.kind) {
    case GraphNode::Kind::Launch: return m_driver.graphSetKernel(m_executable, handle, KernelNode(node).get());
    case GraphNode::Kind::Copy: {
      const CUDA_MEMCPY3D copy = copyOf(node);
      return m_driver.graphSetCopy(m_executable, handle, &copy, m_context);
    }
    case GraphNode::Kind::Fill: {
      const CUDA_MEMSET_NODE_PARAMS fill = fillOf(node);
      return m_driver.graphSetFill(m_executable, handle, &fill, m_context);
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace nf::cuda
