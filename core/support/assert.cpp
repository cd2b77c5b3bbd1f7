// SPDX-License-Identifier: Apache-2.0
#include "core/support/assert.h"

#include <cstdio>
#include <cstdlib>

namespace nf {

void assertionFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "neoflow: internal error: %s, %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace nf
