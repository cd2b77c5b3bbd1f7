// SPDX-License-Identifier: Apache-2.0
#include "core/support/uncaught.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

namespace nf {
namespace {

std::atomic<bool> asJson{false};

constexpr int kMachineLacks = 3, kInternal = 4;

// Without the heap: there may be none left.
struct Sentence {
  std::array<char, 600> text{};
  int exitCode = kInternal;
};

Sentence sentenceOf(const std::exception_ptr& thrown) {
  Sentence s;
  const auto say = [&](int exitCode, const char* words, const char* what) {
    s.exitCode = exitCode;
    std::snprintf(s.text.data(), s.text.size(), "%s%.400s%s", words, what, *what ? "." : "");
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    say(kMachineLacks, "There is not enough memory: a limit (`ulimit -v`) or the machine's own is reached.", "");
  } catch (const std::filesystem::filesystem_error& e) {
    say(kMachineLacks, "The file system refused something: ", e.what());
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::resource_unavailable_try_again)
      say(kMachineLacks,
          "No further thread can be had: a limit on memory (`ulimit -v`, `ulimit -s`) or processes (`ulimit -u`) is reached.", "");
    else say(kMachineLacks, "The system refused something: ", e.what());
  } catch (const std::exception& e) { say(kInternal, "Internal error: ", e.what()); } catch (...) {
    say(kInternal, "Internal error: an exception of an unknown kind", "");
  }
  return s;
}

void writeAll(int descriptor, const char* text, std::size_t length) {
  while (length > 0) {
    const ssize_t n = ::write(descriptor, text, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text += n;
    length -= static_cast<std::size_t>(n);
  }
}

[[noreturn]] void tell() {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown) std::abort();
  // The first thread has the word; others that fail beside it wait for the end.
  static thread_local bool mine = false;
  if (mine) ::_exit(kMachineLacks);
  if (told.test_and_set())
    for (;;) ::pause();
  mine = true;
  const Sentence s = sentenceOf(thrown);
  std::array<char, 1400> line{};
  if (asJson) {
    std::array<char, 1300> quoted{};
    std::size_t at = 0;
    for (const char* c = s.text.data(); *c; ++c) {
      if (*c == '"' || *c == '\\') quoted[at++] = '\\';
      quoted[at++] = static_cast<unsigned char>(*c) < ' ' ? ' ' : *c;
    }
    std::snprintf(
        line.data(), line.size(),
        "{\"event\":\"error\",\"stage\":\"system\",\"message\":\"%s\",\"detail\":\"\",\"file\":\"\",\"line\":0,\"column\":0}\n",
        quoted.data());
  } else {
    std::snprintf(line.data(), line.size(), "neoflow: %s\n", s.text.data());
  }
  writeAll(asJson ? STDOUT_FILENO : STDERR_FILENO, line.data(), std::strlen(line.data()));
  ::_exit(s.exitCode);
}

}  // namespace

void tellUncaughtExceptions(bool json) {
  asJson = json;
  std::set_terminate(tell);
}

}  // namespace nf
