// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_options.h"

#include <charconv>
#include <string>
#include <string_view>

namespace nf::testing {
namespace {

template <typename Number>
bool read(std::string_view text, Number least, Number most, Number& into) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  // nan compares with nothing.
  if (code != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most)) return false;
  into = value;
  return true;
}

constexpr double kLeastSeconds = 1e-3, kMostSeconds = 1e9;

Error refused(std::string why) { return {"fuzz", std::move(why), {}, {}}; }

}  // namespace

Result<FuzzOptions> parseFuzzOptions(std::span<const char* const> arguments) {
  FuzzOptions options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string option = arguments[i];
    if (option == "--second-order") {
      options.secondOrder = true;
      continue;
    }
    if (option != "--seconds" && option != "--cases" && option != "--seed") return refused("There is no option " + option + ".");
    if (++i == arguments.size()) return refused(option + " needs a number.");
    const std::string value = arguments[i];
    if (option == "--seconds") {
      if (!read(value, kLeastSeconds, kMostSeconds, options.seconds))
        return refused("--seconds " + value + " is no number of seconds from 0.001 to 1e9.");
    } else if (option == "--cases") {
      if (!read<std::size_t>(value, 1, std::numeric_limits<std::size_t>::max(), options.cases))
        return refused("--cases " + value + " is no whole number from 1 on.");
    } else {
      std::uint64_t seed = 0;
      if (!read<std::uint64_t>(value, 0, std::numeric_limits<std::uint64_t>::max(), seed))
        return refused("--seed " + value + " is no whole number from 0 to 18446744073709551615.");
      options.seed = seed;
    }
  }
  return options;
}

}  // namespace nf::testing
