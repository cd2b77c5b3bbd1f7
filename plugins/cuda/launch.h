// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

namespace nf::cuda {

// How one kernel is launched, on a stream and as a node of a graph alike.
struct LaunchShape {
  unsigned blocks = 1, threads = 1;  // of the grid, of a block
  unsigned sharedBytes = 0;          // dynamic shared memory of a block
  bool cooperative = false;          // all blocks are on the device at once, so that they may wait for each other
  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

// The parameters of one launch, in order. Values are borrowed until the launch is queued or recorded.
class LaunchParameters {
 public:
  void clear() {
    m_values.clear();
    m_bytes.clear();
  }
  template <class T>
  void add(const T& value) {
    m_values.push_back(const_cast<T*>(&value));
    m_bytes.push_back(sizeof(T));
  }
  void keep(std::size_t count) {
    m_values.resize(count);
    m_bytes.resize(count);
  }
  std::size_t size() const { return m_values.size(); }
  std::size_t bytes(std::size_t i) const { return m_bytes[i]; }
  const void* value(std::size_t i) const { return m_values[i]; }
  void** data() { return m_values.data(); }  // as cuLaunchKernel takes them

 private:
  std::vector<void*> m_values;
  std::vector<std::size_t> m_bytes;
};

}  // namespace nf::cuda
