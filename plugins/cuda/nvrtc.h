// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/support/result.h"

namespace nf::cuda {

// NVIDIA's run time compiler, a library that is opened when it is first asked for. It may end the process on an input it does not
// like, and compiles one program at a time: workers call it.
class Nvrtc {
 public:
  // Fails where no libnvrtc of version 12 or later can be opened: one sentence that says where it was looked for. Of several the first
  // whose code the driver loads; where there is none, one whose code it does not load.
  static Result<const Nvrtc*> get();
  // The one that makes code for this machine's driver; fails with what is needed where it would not load it.
  static Result<const Nvrtc*> forDriver();

  struct Output {
    std::vector<std::byte> cubin;
    std::string ptx;  // where it was asked for
  };
  // architecture: "sm_80". The log is the error's detail.
  Result<Output> compile(const std::string& source, const std::string& architecture, bool ptx) const;
  const std::string& version() const { return m_version; }  // "13.0"
  int major() const { return m_major; }
  const std::vector<std::string>& architectures() const { return m_architectures; }  // that it generates code for: "sm_75", ..

 private:
  struct Table;
  Nvrtc() = default;
  static Result<Unit> open(Nvrtc& into);
  const Table* m_table = nullptr;
  std::string m_version;
  int m_major = 0;
  std::vector<std::string> m_architectures;
};

}  // namespace nf::cuda
