// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace nf {

// Names that are each given once: where `W` is taken, the next ones are `W#2`, `W#3`, and so on. A thousand wishes for one name take a
// thousand steps.
class UniqueNames {
 public:
  bool contains(const std::string& name) const { return m_taken.contains(name); }
  // False: it was taken before.
  bool take(const std::string& name) { return m_taken.insert(name).second; }
  void release(const std::string& name) { m_taken.erase(name); }
  // The first of `wish`, `wish#2`, ... that is free; it stays so.
  std::string free(const std::string& wish, const std::string& joint = "#") {
    if (!m_taken.contains(wish)) return wish;
    const std::string stem = wish + joint;
    int& n = m_next.try_emplace(stem, 2).first->second;
    while (m_taken.contains(stem + std::to_string(n))) ++n;
    return stem + std::to_string(n);
  }
  std::string taken(const std::string& wish, const std::string& joint = "#") {
    std::string name = free(wish, joint);
    m_taken.insert(name);
    return name;
  }

 private:
  std::unordered_set<std::string> m_taken;
  std::unordered_map<std::string, int> m_next;  // by what stands before the number: all below it have been given
};

}  // namespace nf
