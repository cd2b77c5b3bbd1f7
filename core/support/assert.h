// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace nf {
[[noreturn]] void assertionFailed(const char* expression, const char* file, int line);
}

// A statement about our own code, checked in every build: no input may reach a false one.
#define NF_ASSERT(expression) \
  (static_cast<bool>(expression) ? static_cast<void>(0) : ::nf::assertionFailed(#expression, __FILE__, __LINE__))
