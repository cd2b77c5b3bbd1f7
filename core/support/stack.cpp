// SPDX-License-Identifier: Apache-2.0
#include "core/support/stack.h"

#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <system_error>

namespace nf {
namespace {

void check(int code) {
  if (code != 0) throw std::system_error(code, std::generic_category());
}

class Attributes {
 public:
  Attributes() { check(pthread_getattr_default_np(&m_attributes)); }
  ~Attributes() { pthread_attr_destroy(&m_attributes); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  std::size_t stackBytes() const {
    std::size_t bytes = 0;
    check(pthread_attr_getstacksize(&m_attributes, &bytes));
    return bytes;
  }
  void setStackBytes(std::size_t bytes) { check(pthread_attr_setstacksize(&m_attributes, bytes)); }
  const pthread_attr_t* get() const { return &m_attributes; }

 private:
  pthread_attr_t m_attributes{};
};

struct Call {
  const std::function<int()>& work;
  sigset_t signals{};
  int result = 0;
};

}  // namespace

int withStack(const std::function<int()>& work) {
  // The C library takes a thread's stack from the limit as well, and 2 MiB where there is none.
  if (Attributes ofThreads; ofThreads.stackBytes() < kStackBytes) {
    ofThreads.setStackBytes(kStackBytes);
    check(pthread_setattr_default_np(ofThreads.get()));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kStackBytes) return work();

  Attributes attributes;
  attributes.setStackBytes(kStackBytes);
  Call call{work};
  sigset_t all;
  sigfillset(&all);
  // A signal that only the thread blocks would end the process in this one.
  check(pthread_sigmask(SIG_SETMASK, &all, &call.signals));
  pthread_t thread{};
  const int code = pthread_create(
      &thread, attributes.get(),
      [](void* given) -> void* {
        Call& c = *static_cast<Call*>(given);
        pthread_sigmask(SIG_SETMASK, &c.signals, nullptr);
        c.result = c.work();
        return nullptr;
      },
      &call);
  if (code == 0) pthread_join(thread, nullptr);
  pthread_sigmask(SIG_SETMASK, &call.signals, nullptr);
  check(code);
  return call.result;
}

}  // namespace nf
