// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "plugins/cuda/driver.h"
#include "plugins/cuda/launch.h"

namespace nf::cuda {

// One piece of a stream's work, with its addresses: a launch, a copy within the device, or bytes that are set.
struct GraphNode {
  enum class Kind : std::uint8_t { Launch, Copy, Fill } kind = Kind::Launch;
  CUfunction function = nullptr;
  LaunchShape shape;
  std::vector<std::byte> parameters;   // one behind the other, each from a multiple of 8 bytes on
  std::vector<std::uint32_t> offsets;  // of the parameters
  CUdeviceptr to = 0, from = 0;
  std::size_t bytes = 0;
  std::uint8_t value = 0;  // of a fill
  friend bool operator==(const GraphNode&, const GraphNode&) = default;

  static GraphNode launch(CUfunction function, const LaunchShape& shape, const LaunchParameters& parameters);
  static GraphNode copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
  static GraphNode fill(CUdeviceptr to, std::uint8_t value, std::size_t bytes);
};

// A CUDA graph of nodes that run one after the other, as they would on a stream, made by explicit calls: a node's handle is known, so
// that a swapped kernel changes its node and nothing else (CUDA driver API, "Graph Management"). The context is current where a method
// is called, and no method is called while another thread is in one.
class Graph {
 public:
  Graph(const Driver& driver, CUcontext context, CUstream stream) : m_driver(driver), m_context(context), m_stream(stream) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Makes the graph run `nodes` from its next launch on: nodes that differ are changed where kinds and number agree and the driver takes
  // the change; else the graph is made anew. After an error it is empty.
  CUresult set(std::vector<GraphNode> nodes);
  CUresult launch() const { return m_driver.graphLaunch(m_executable, m_stream); }
  bool empty() const { return !m_executable; }
  std::size_t size() const { return m_nodes.size(); }

  // Since it was made.
  std::int64_t builds() const { return m_builds; }    // whole graphs
  std::int64_t updates() const { return m_updates; }  // single nodes

 private:
  CUresult build();
  CUresult add(const GraphNode& node, const CUgraphNode* before, CUgraphNode& handle);
  CUresult change(const GraphNode& node, CUgraphNode handle);
  void clear();

  const Driver& m_driver;
  CUcontext m_context;
  CUstream m_stream;
  CUgraph m_graph = nullptr;
  CUgraphExec m_executable = nullptr;
  std::vector<GraphNode> m_nodes;
  std::vector<CUgraphNode> m_handles;  // by node, of m_graph
  std::int64_t m_builds = 0, m_updates = 0;
};

}  // namespace nf::cuda
