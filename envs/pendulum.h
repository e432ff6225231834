// Pendulum-v1, as gymnasium plays it: swing a pendulum up with a weak motor and hold it there.
//
// Rules: gymnasium's Pendulum-v1, its constants and its limit of 200 env steps; nothing ends an episode earlier. The action
// is the motor's torque in N m. Each env step costs the squares of angle, speed and torque, weighted, as they are before it.
#pragma once

#include "environment.h"
#include "math.h"

namespace pendulum {

constexpr int observation_size = 3;
constexpr sweep::Bounds actions[] = {{-2, 2}};  // torque, N m
constexpr int longest_episode = 200;

constexpr float pi = 3.14159265358979f;
constexpr float gravity = 10.0f;             // m/s^2
constexpr float mass = 1.0f, length = 1.0f;  // kg, m; a rod of even density
constexpr float frame = 0.05f;               // s
constexpr float fastest = 8.0f;              // rad/s

struct State {
    float theta;      // rad, 0 is upright, within -pi .. pi (gymnasium's counts the turns too)
    float theta_dot;  // rad/s, positive is counter-clockwise
    int steps;        // env steps of this episode
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int i) {
    return i < 2 ? sweep::quantity(-1.0f, 1.0f) : sweep::quantity(-fastest, fastest);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.theta = rng.uniform(-pi, pi);
    s.theta_dot = rng.uniform(-1.0f, 1.0f);
    s.steps = 0;
}

// The same angle within -pi .. pi.
SWEEP_FN float wrapped(float angle) {
    const float turns = sweep::fma(angle, 1.0f / (2 * pi), sweep::rounding_magic) - sweep::rounding_magic;
    return sweep::fma(turns, 1.7484556e-7f, sweep::fma(turns, -6.2831855f, angle));  // 2 pi in two parts
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, const float* action, sweep::Rng&) {
    const float torque = action[0], angle = wrapped(s.theta);
    const float cost = angle * angle + 0.1f * s.theta_dot * s.theta_dot + 0.001f * torque * torque;
    const float acceleration = 3 * gravity / (2 * length) * sweep::sin(angle) + 3 / (mass * length * length) * torque;
    s.theta_dot = sweep::clamp(s.theta_dot + acceleration * frame, -fastest, fastest);
    s.theta = wrapped(angle + s.theta_dot * frame);
    s.steps++;
    return {-cost, false, s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = sweep::cos(s.theta);
    observation[1] = sweep::sin(s.theta);
    observation[2] = s.theta_dot;
}

constexpr sweep::Picture picture = {2.4f, 2.4f};  // m, the fixed end in the middle

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    const float middle = picture.width / 2;
    c.line(middle, middle, middle - length * sweep::sin(s.theta), middle - length * sweep::cos(s.theta), 0.2f, 0xD9655B);
    c.disc(middle, middle, 0.06f, 0xF2F2F2);
}

}  // namespace pendulum
