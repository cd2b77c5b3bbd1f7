// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

namespace nf {

// What the walks over expressions and programs may count on: the limits on their depth are tested against it.
inline constexpr std::size_t kStackBytes = std::size_t{8} << 20;

// Runs `work` with at least kStackBytes of stack, however low `ulimit -s` is, and returns what it returned: in this thread where the
// limit gives that much, else in one made for it, which takes the signals of the process meanwhile. Threads that are made later have as
// much. Throws std::system_error where no such thread can be had.
int withStack(const std::function<int()>& work);

}  // namespace nf
