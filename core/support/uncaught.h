// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace nf {

// What is thrown by the standard library in whatever thread, where the machine gives no thread or no memory, ends the process with one
// sentence on standard error, with `json` as an error event on standard output, and exit code 3; any other exception with exit code 4.
// Nothing is unwound: a destructor could wait for threads that never began. Call it before other threads are made.
void tellUncaughtExceptions(bool json);

}  // namespace nf
