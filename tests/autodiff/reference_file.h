// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace nf::test {

struct Reference {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

// tests/data/*.ref, see make_references.py there.
inline std::map<std::string, Reference> readReferences(const std::string& file) {
  static_assert(std::endian::native == std::endian::little);
  std::map<std::string, Reference> result;
  std::ifstream in(std::string(NF_SOURCE_DIR) + "/tests/data/" + file, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    std::istringstream header(line);
    std::string name, type;
    std::size_t rank = 0, count = 1;
    header >> name >> type >> rank;
    Reference r;
    for (std::size_t k = 0; k < rank; ++k) {
      std::int64_t extent = 0;
      header >> extent;
      r.shape.push_back(extent);
      count *= static_cast<std::size_t>(extent);
    }
    r.values.resize(count);
    if (type == "f4") {
      std::vector<float> single(count);
      in.read(reinterpret_cast<char*>(single.data()), static_cast<std::streamsize>(count * sizeof(float)));
      r.values.assign(single.begin(), single.end());
    } else {
      in.read(reinterpret_cast<char*>(r.values.data()), static_cast<std::streamsize>(count * sizeof(double)));
    }
    result.emplace(name, std::move(r));
  }
  return result;
}

inline std::string readText(const std::string& file) {
  std::ifstream in(std::string(NF_SOURCE_DIR) + "/tests/data/" + file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Names, sorted and without extension, of the files of a folder of tests/data.
inline std::vector<std::string> filesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(NF_SOURCE_DIR) + "/tests/data/" + folder))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nf::test
