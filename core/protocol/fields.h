// SPDX-License-Identifier: Apache-2.0
#pragma once

// NF_FIELDS(Type, a, b, c) lists the fields of a value struct once: JSON, equality and the tests' generators are made from it.
// It defines  value.fields(visit), which calls visit("a", value.a), visit("b", value.b), ...
#define NF_PARENS ()
#define NF_EXPAND(...) NF_EXPAND3(NF_EXPAND3(NF_EXPAND3(__VA_ARGS__)))
#define NF_EXPAND3(...) NF_EXPAND2(NF_EXPAND2(NF_EXPAND2(__VA_ARGS__)))
#define NF_EXPAND2(...) NF_EXPAND1(NF_EXPAND1(NF_EXPAND1(__VA_ARGS__)))
#define NF_EXPAND1(...) __VA_ARGS__
#define NF_VISIT_EACH(...) __VA_OPT__(NF_EXPAND(NF_VISIT_ONE(__VA_ARGS__)))
#define NF_VISIT_ONE(field, ...) \
  visit(#field, field);          \
  __VA_OPT__(NF_VISIT_AGAIN NF_PARENS(__VA_ARGS__))
#define NF_VISIT_AGAIN() NF_VISIT_ONE

#define NF_FIELDS(Type, ...)                            \
  template <class Visitor>                              \
  void fields([[maybe_unused]] Visitor&& visit) {       \
    NF_VISIT_EACH(__VA_ARGS__)                          \
  }                                                     \
  template <class Visitor>                              \
  void fields([[maybe_unused]] Visitor&& visit) const { \
    NF_VISIT_EACH(__VA_ARGS__)                          \
  }                                                     \
  friend bool operator==(const Type&, const Type&) = default
