// SPDX-License-Identifier: Apache-2.0
#include "core/protocol/message.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace nf::protocol {
namespace {

using Json = nlohmann::json;

// ---------------------------------------------------------------- value -> JSON
template <class T>
Json toJson(const T& value);

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

template <class T>
void fieldsToJson(const T& value, Json& into) {
  value.fields([&](const char* name, const auto& field) {
    if constexpr (IsOptional<std::decay_t<decltype(field)>>::value) {
      into[name] = field ? toJson(*field) : Json(nullptr);
    } else {
      into[name] = toJson(field);
    }
  });
}

template <class T>
Json toJson(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    constexpr auto names = enumNames(T{});
    return names[static_cast<std::size_t>(value)];
  } else if constexpr (std::is_same_v<T, JsonText>) {
    Json parsed = Json::parse(value.text, nullptr, false);
    return parsed.is_discarded() ? Json(nullptr) : parsed;
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& element : value) array.push_back(toJson(element));
    return array;
  } else if constexpr (IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [key, element] : value) object[key] = toJson(element);
    return object;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    Json object = Json::object();
    fieldsToJson(value, object);
    return object;
  }
}

// ---------------------------------------------------------------- JSON -> value
// Reading stops at the first mistake and remembers its path, "nodes.3.shape.0".
struct Reader {
  std::string path;
  std::string mistake;

  bool fail(std::string what) {
    if (mistake.empty()) mistake = (path.empty() ? std::string("message") : path) + ": " + std::move(what);
    return false;
  }

  template <class T>
  bool below(const std::string& name, const Json& json, T& into) {
    const std::size_t length = path.size();
    if (!path.empty()) path += '.';
    path += name;
    const bool good = read(json, into);
    path.resize(length);
    return good;
  }

  bool read(const Json& json, bool& into) {
    if (!json.is_boolean()) return fail("expected true or false");
    into = json.get<bool>();
    return true;
  }
  bool read(const Json& json, std::string& into) {
    if (!json.is_string()) return fail("expected a string");
    into = json.get_ref<const std::string&>();
    return true;
  }
  bool read(const Json& json, double& into) {
    if (json.is_number()) {
      into = json.get<double>();
      return true;
    }
    if (json.is_string()) {
      const auto& text = json.get_ref<const std::string&>();
      if (text == "nan") return into = std::numeric_limits<double>::quiet_NaN(), true;
      if (text == "inf") return into = std::numeric_limits<double>::infinity(), true;
      if (text == "-inf") return into = -std::numeric_limits<double>::infinity(), true;
    }
    return fail("expected a number");
  }
  bool read(const Json& json, JsonText& into) {
    into.text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return true;
  }
  template <class T>
  bool read(const Json& json, T& into) {
    if constexpr (std::is_enum_v<T>) {
      if (!json.is_string()) return fail("expected a string");
      constexpr auto names = enumNames(T{});
      for (std::size_t i = 0; i < names.size(); ++i)
        if (json.get_ref<const std::string&>() == names[i]) return into = static_cast<T>(i), true;
      return fail("unknown value \"" + json.get<std::string>().substr(0, 40) + "\"");
    } else if constexpr (std::is_integral_v<T>) {
      if (json.is_number_unsigned()) {
        const auto value = json.get<std::uint64_t>();
        if (!std::in_range<T>(value)) return fail("number out of range");
        into = static_cast<T>(value);
        return true;
      }
      if (json.is_number_integer()) {
        const auto value = json.get<std::int64_t>();
        if (!std::in_range<T>(value)) return fail("number out of range");
        into = static_cast<T>(value);
        return true;
      }
      return fail("expected a whole number");
    } else if constexpr (IsVector<T>::value) {
      if (!json.is_array()) return fail("expected a list");
      into.clear();
      into.resize(json.size());
      for (std::size_t i = 0; i < json.size(); ++i)
        if (!below(std::to_string(i), json[i], into[i])) return false;
      return true;
    } else if constexpr (IsMap<T>::value) {
      if (!json.is_object()) return fail("expected an object");
      into.clear();
      for (const auto& [key, element] : json.items())
        if (!below(key, element, into[key])) return false;
      return true;
    } else {
      if (!json.is_object()) return fail("expected an object");
      if (!readFields(json, into)) return false;
      if constexpr (std::is_same_v<T, Formula>)
        if (!wellFormed(into)) return fail("the formula is no tree");
      return true;
    }
  }

  template <class T>
  bool readFields(const Json& json, T& into) {
    bool good = true;
    into.fields([&](const char* name, auto& field) {
      if (!good) return;
      const auto found = json.find(name);
      if (found == json.end()) return;
      if constexpr (IsOptional<std::decay_t<decltype(field)>>::value) {
        if (found->is_null()) {
          field.reset();
        } else {
          field.emplace();
          good = below(name, *found, *field);
        }
      } else {
        good = below(name, *found, field);
      }
    });
    return good;
  }
};

template <class T>
concept IsEvent = requires {
  T::kEvent;
};

template <class T>
constexpr const char* keyOf() {
  if constexpr (IsEvent<T>) return "event";
  else return "type";
}
template <class T>
constexpr const char* nameOf() {
  if constexpr (IsEvent<T>) return T::kEvent;
  else return T::kType;
}

// The message that `name` under `key` stands for; false: there is none.
template <std::size_t I = 0>
bool emplaceNamed(std::string_view key, std::string_view name, Message& into) {
  if constexpr (I < std::variant_size_v<Message>) {
    using T = std::variant_alternative_t<I, Message>;
    if (key == keyOf<T>() && name == nameOf<T>()) {
      into.emplace<I>();
      return true;
    }
    return emplaceNamed<I + 1>(key, name, into);
  } else {
    return false;
  }
}

Json messageToJson(const Message& message, RequestId id) {
  return std::visit(
      [&](const auto& body) {
        using T = std::decay_t<decltype(body)>;
        Json json = Json::object();
        fieldsToJson(body, json);
        json[keyOf<T>()] = nameOf<T>();
        if (id != 0) json["id"] = id;
        return json;
      },
      message);
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Error protocolError(std::string message, std::string_view line = {}) {
  return Error{"protocol", std::move(message), {}, std::string(line.substr(0, 200))};
}

struct Decoded {
  Envelope envelope;
  std::uint64_t binary = 0;
};

Result<Decoded> decodeLine(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return protocolError("a line is no JSON object", line);
  Decoded out;
  const char* key = json.contains("event") ? "event" : "type";
  const auto name = json.find(key);
  if (name == json.end() || !name->is_string()) return protocolError("a message has no type", line);
  if (!emplaceNamed(key, name->get_ref<const std::string&>(), out.envelope.message))
    return protocolError("unknown message \"" + name->get<std::string>().substr(0, 40) + "\"", line);
  Reader reader;
  for (const auto& [field, into] : {std::pair{"id", &out.envelope.id}, std::pair{"binary", &out.binary}})
    if (const auto found = json.find(field); found != json.end() && !reader.below(field, *found, *into))
      return protocolError(reader.mistake, line);
  if (!std::visit([&](auto& body) { return reader.readFields(json, body); }, out.envelope.message))
    return protocolError(name->get<std::string>() + ", " + reader.mistake, line);
  return out;
}

}  // namespace

bool wellFormed(const Formula& formula) {
  const auto& nodes = formula.nodes;
  std::vector<bool> used(nodes.size(), false);
  std::vector<std::uint32_t> depth(nodes.size(), 1);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::uint32_t child : nodes[i].children) {
      if (child >= i || used[child]) return false;
      used[child] = true;
      depth[i] = std::max(depth[i], depth[child] + 1);
      if (depth[i] > kFormulaDepth) return false;
    }
  for (std::size_t i = 0; i + 1 < nodes.size(); ++i)
    if (!used[i]) return false;
  for (const FormulaNode& node : nodes) {
    const std::size_t n = node.children.size();
    switch (node.kind) {
      case FormulaKind::Number:
      case FormulaKind::Name:
        if (n != 0) return false;
        break;
      case FormulaKind::Subscript:
        if (n < 1) return false;
        break;
      case FormulaKind::Reduce:
      case FormulaKind::Prefix:
        if (n != 1) return false;
        break;
      case FormulaKind::Infix:
      case FormulaKind::Fraction:
      case FormulaKind::Power:
      case FormulaKind::Partial:
      case FormulaKind::Equation:
        if (n != 2) return false;
        break;
      case FormulaKind::Cases:
        if (n != 3) return false;
        break;
      case FormulaKind::Call: break;
    }
  }
  return true;
}

std::string encode(const Message& message, RequestId id) { return dump(messageToJson(message, id)); }

std::string encodeFrame(const Envelope& envelope) {
  Json json = messageToJson(envelope.message, envelope.id);
  if (!envelope.binary.empty()) json["binary"] = envelope.binary.size();
  std::string out = dump(json);
  out += '\n';
  out += envelope.binary;
  return out;
}

Result<Message> decode(std::string_view line) {
  NF_TRY(Decoded decoded, decodeLine(line));
  return std::move(decoded.envelope.message);
}

std::string packValues(const std::vector<double>& values) {
  std::string out;
  out.reserve(values.size() * 8);
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int byte = 0; byte < 8; ++byte) out.push_back(static_cast<char>(bits >> (8 * byte)));
  }
  return out;
}

std::vector<double> unpackValues(std::string_view binary) {
  std::vector<double> values(binary.size() / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t bits = 0;
    for (int byte = 0; byte < 8; ++byte)
      bits |= std::uint64_t(static_cast<unsigned char>(binary[i * 8 + static_cast<std::size_t>(byte)])) << (8 * byte);
    values[i] = std::bit_cast<double>(bits);
  }
  return values;
}

std::vector<Envelope> FrameReader::feed(std::string_view bytes, std::vector<Error>& errors) {
  std::vector<Envelope> out;
  if (m_broken) return out;
  m_buffer.append(bytes);
  const auto breakOff = [&](std::string message) {
    errors.push_back(protocolError(std::move(message)));
    m_broken = true;
    m_buffer.clear();
    m_at = m_searched = 0;
  };
  while (!m_broken) {
    if (m_waiting) {
      if (pending() < m_waitingBytes) break;
      m_waiting->binary = m_buffer.substr(m_at, m_waitingBytes);
      m_at = m_searched = m_at + m_waitingBytes;
      out.push_back(std::move(*m_waiting));
      m_waiting.reset();
      continue;
    }
    const std::size_t newline = m_buffer.find('\n', m_searched);
    if (newline == std::string::npos) {
      m_searched = m_buffer.size();
      if (pending() > kLongestLine) breakOff("a line is longer than 64 MiB");
      break;
    }
    std::string_view line(m_buffer.data() + m_at, newline - m_at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      auto decoded = decodeLine(line);
      if (!decoded) {
        errors.push_back(decoded.error());
      } else if (decoded->binary > kLongestBinary) {
        breakOff("a binary frame is longer than 256 MiB");
        break;
      } else if (decoded->binary > 0) {
        m_waiting = std::move(decoded->envelope);
        m_waitingBytes = static_cast<std::size_t>(decoded->binary);
      } else {
        out.push_back(std::move(decoded->envelope));
      }
    }
    m_at = m_searched = newline + 1;
  }
  if (m_at == m_buffer.size()) {
    m_buffer.clear();
    m_at = m_searched = 0;
  } else if (m_at > (1u << 20)) {
    m_buffer.erase(0, m_at);
    m_searched -= m_at;
    m_at = 0;
  }
  return out;
}

}  // namespace nf::protocol
