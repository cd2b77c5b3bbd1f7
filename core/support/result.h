// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/support/assert.h"

namespace nf {

// A failure of the world (a file, a device, a compiler), never a mistake in the source: that is a Diagnostic.
struct Error {
  std::string stage;    // "load data", "compile", "link", ...
  std::string message;  // one sentence for a person
  std::string device;   // "cpu", "cuda:0"; empty where none is concerned
  std::string detail;   // the tool's own words, possibly many lines
};

// How work ends that was asked to; isStopped() tells it from failures.
inline Error stopped() { return {"stop", "Stopped before the result was there.", {}, {}}; }
inline bool isStopped(const Error& error) { return error.stage == "stop"; }

struct Unit {};

template <class T = Unit>
class [[nodiscard]] Result {
 public:
  Result(T value) : m_state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : m_state(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return m_state.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    NF_ASSERT(ok());
    return *std::get_if<0>(&m_state);
  }
  const T& value() const& {
    NF_ASSERT(ok());
    return *std::get_if<0>(&m_state);
  }
  T&& value() && {
    NF_ASSERT(ok());
    return std::move(*std::get_if<0>(&m_state));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    NF_ASSERT(!ok());
    return *std::get_if<1>(&m_state);
  }

 private:
  std::variant<T, Error> m_state;
};

// NF_TRY(auto x, f()): binds the value of f(), or returns its error from this function.
#define NF_TRY_NAME2(a, b) a##b
#define NF_TRY_NAME(a, b) NF_TRY_NAME2(a, b)
#define NF_TRY(target, expression)                                                \
  auto NF_TRY_NAME(nfTry, __LINE__) = (expression);                               \
  if (!NF_TRY_NAME(nfTry, __LINE__)) return NF_TRY_NAME(nfTry, __LINE__).error(); \
  target = std::move(NF_TRY_NAME(nfTry, __LINE__)).value()

}  // namespace nf
