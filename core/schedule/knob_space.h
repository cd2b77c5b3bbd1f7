// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/schedule/group.h"
#include "core/schedule/loop_ir.h"
#include "core/schedule/schedule.h"

namespace nf::loop {

// A space that is a product of finite knobs with some combinations ruled out. A point is the position of each knob's value.
class KnobSpace : public ScheduleSpace {
 public:
  struct Knob {
    std::string name, help;
    std::vector<nlohmann::json> values;
    bool optional = false;           // a schedule that does not name it has the first value, and is written without it
    std::size_t asked = 0;           // of its last values: legal, and taken where a person asks for them, never by a search
    std::vector<std::string> words;  // by value: what the notebook calls it, which a person may write instead; empty: nothing
    std::size_t searched() const { return values.size() - asked; }
  };
  using Point = std::vector<std::size_t>;

  double size() const override;
  Schedule first() const override { return scheduleOf(firstPoint()); }
  Schedule random(std::mt19937_64& rng) const override;
  Schedule mutate(const Schedule& s, std::mt19937_64& rng) const override;
  Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const override;
  Result<Unit> check(const Schedule& s) const override;
  double estimateSeconds(const Schedule& s) const override;
  std::vector<double> features(const Schedule& s) const override;
  std::vector<KnobInfo> knobs() const override;

  const std::string& kind() const { return m_kind; }
  // The loops of a legal schedule.
  Result<Function> lower(const Schedule& s) const;

 protected:
  KnobSpace(std::string kind) : m_kind(std::move(kind)) {}
  virtual Point firstPoint() const = 0;
  virtual std::string illegal(const Point&) const { return {}; }  // why a combination is ruled out
  // Gives knobs that mean nothing beside the others their first value, where a search draws a point.
  virtual void settle(Point&) const {}
  virtual double estimate(const Point&) const = 0;
  virtual std::vector<double> featuresOf(const Point&) const = 0;
  virtual Function lowerPoint(const Point&) const = 0;

  Schedule scheduleOf(const Point& point) const;
  Result<Point> pointOf(const Schedule& s) const;
  std::size_t positionOf(std::size_t knob, const nlohmann::json& value) const;  // the first where absent
  const nlohmann::json& value(const Point& point, std::size_t knob) const { return m_knobs[knob].values[point[knob]]; }

  // A schedule is of a structural hash, which no names are part of: an axis is called by its place.
  static std::string axisValue(std::size_t axis) { return "axis" + std::to_string(axis); }
  // " (axis0: i, axis1: j)", for the help.
  static std::string axesText(const std::vector<std::string>& names);

  std::string m_kind;
  std::vector<Knob> m_knobs;
};

// Templates: the space of one kind, null where it does not fit the group.
std::unique_ptr<KnobSpace> contractionSpace(const Program& program, const GroupView& group, const Target& target);
std::unique_ptr<KnobSpace> nestSpace(const Program& program, const GroupView& group, const Target& target);

}  // namespace nf::loop
