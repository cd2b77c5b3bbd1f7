// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace nf {

// "Y" of "Y#2"; a name that ends in no number is its own: "d(L)/d(h#1)".
inline std::string_view withoutNumber(std::string_view name) {
  const std::size_t mark = name.rfind('#');
  const bool numbered = mark != std::string_view::npos && mark > 0 && mark + 1 < name.size() &&
                        name.find_first_not_of("0123456789", mark + 1) == std::string_view::npos;
  return numbered ? name.substr(0, mark) : name;
}

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
  // Of what bore the name `wish` before: the first of `wish#1`, `wish#2`, ... that is free; it stays so.
  std::string earlier(const std::string& wish) {
    int& n = m_earlier.try_emplace(wish, 1).first->second;
    std::string name;
    do name = wish + "#" + std::to_string(n++);
    while (!m_taken.insert(name).second);
    return name;
  }

 private:
  std::unordered_set<std::string> m_taken;
  std::unordered_map<std::string, int> m_next;  // by what stands before the number: all below it have been given
  std::unordered_map<std::string, int> m_earlier;
};

}  // namespace nf
