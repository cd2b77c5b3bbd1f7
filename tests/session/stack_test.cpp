// SPDX-License-Identifier: Apache-2.0
// Deep expressions under a low `ulimit -s`: the command line, its engine and its workers have the stack that the limits on depth need.
#include "core/support/stack.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "tests/session/command_line.h"

namespace nf {
namespace {

std::size_t stackOfThisThread() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  EXPECT_EQ(pthread_attr_getstacksize(&attributes, &bytes), 0);
  pthread_attr_destroy(&attributes);
  return bytes;
}

// As a process that began under a limit of `bytes`.
class LowStack {
 public:
  explicit LowStack(std::size_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_STACK, &m_limit), 0);
    const rlimit low{bytes, m_limit.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_STACK, &low), 0);
    EXPECT_EQ(pthread_getattr_default_np(&m_attributes), 0);
    pthread_attr_t small;
    EXPECT_EQ(pthread_getattr_default_np(&small), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&small, bytes), 0);
    EXPECT_EQ(pthread_setattr_default_np(&small), 0);
    pthread_attr_destroy(&small);
  }
  ~LowStack() {
    pthread_setattr_default_np(&m_attributes);
    pthread_attr_destroy(&m_attributes);
    setrlimit(RLIMIT_STACK, &m_limit);
  }
  LowStack(const LowStack&) = delete;
  LowStack& operator=(const LowStack&) = delete;

 private:
  rlimit m_limit{};
  pthread_attr_t m_attributes{};
};

TEST(Stack, ALowLimitIsMadeUpFor) {
  const LowStack low(std::size_t{1} << 20);
  std::size_t work = 0, thread = 0;
  EXPECT_EQ(withStack([&] {
              work = stackOfThisThread();
              std::thread([&] { thread = stackOfThisThread(); }).join();
              return 7;
            }),
            7);
  EXPECT_GE(work, kStackBytes);
  EXPECT_GE(thread, kStackBytes);
}

TEST(Stack, SignalsReachTheWork) {
  const LowStack low(std::size_t{1} << 20);
  sigset_t one, before, after;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  // To the process, which SIGUSR1 would end wherever a thread leaves it open.
  EXPECT_EQ(withStack([&] {
              sigset_t mask;
              EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &one, &mask), 0);
              EXPECT_EQ(sigismember(&mask, SIGUSR1), sigismember(&before, SIGUSR1));
              EXPECT_EQ(::kill(::getpid(), SIGUSR1), 0);
              int got = 0;
              EXPECT_EQ(sigwait(&one, &got), 0);
              return got;
            }),
            SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (const int signal : {SIGUSR1, SIGINT, SIGTERM})
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
}

std::string deep(const std::string& rest) {
  constexpr int kTimes = 390;
  std::string y;
  for (int i = 0; i < kTimes; ++i) y += "sqrt(";
  y += "X[i] * W";
  for (int i = 0; i < kTimes; ++i) y += ")";
  return "input X[3] = 1\nparam W = 1\nY[i] = " + y + "\nloss L = sum[i] Y[i]\n" + rest;
}

TEST_F(CommandLine, DeepExpressionsNeedNoStackOfTheShells) {
  file("deep.nf", deep("show d(L)/d(X)\ntrain L { steps = 1 }\n"));
  for (const char* limit : {"ulimit -s 512 &&", "ulimit -s 1024 &&"}) {
    const Outcome checked = run("check deep.nf", {}, limit);
    EXPECT_EQ(checked.code, 0) << limit << checked.err;
    const Outcome ran = run("run deep.nf --device reference", {}, limit);
    EXPECT_EQ(ran.code, 0) << limit << ran.err;
  }
  // Code generation happens in workers, which have the limit of the shell as well.
  const Outcome trained = run("train deep.nf --device cpu --mode static -o out.d", {}, "ulimit -s 1024 &&");
  EXPECT_EQ(trained.code, 0) << trained.err;
}

}  // namespace
}  // namespace nf
