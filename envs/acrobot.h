// Acrobot-v1, as gymnasium plays it: swing two links up to a height by a motor between them.
//
// Rules: Sutton (1996) with the equations of Sutton and Barto's book; constants, the Runge-Kutta step and the limit of 500
// env steps from gymnasium. Each action is a torque at the joint: -1, 0 or 1 N m. Each env step pays -1, but the one that
// reaches the height 0. Angles are 0 where a link hangs straight on; positive is counter-clockwise.
#pragma once

#include "environment.h"
#include "math.h"

namespace acrobot {

constexpr int observation_size = 6;
constexpr int actions = 3;  // torque -1, 0, 1
constexpr int longest_episode = 500;

constexpr float pi = 3.14159265358979f;
constexpr float gravity = 9.8f;                       // m/s^2
constexpr float mass = 1.0f, inertia = 1.0f;          // kg, kg m^2; of each link
constexpr float length = 1.0f, centre = 0.5f;         // m; of each link, and to its centre of mass
constexpr float frame = 0.2f;                         // s
constexpr float fastest_1 = 4 * pi, fastest_2 = 9 * pi;  // rad/s
constexpr float height = 1.0f;                        // m above the fixed end: the goal

struct State {
    float theta_1;      // rad, of the upper link, 0 is down
    float theta_2;      // rad, of the lower link, against the upper one
    float theta_1_dot;  // rad/s
    float theta_2_dot;  // rad/s
    int steps;          // env steps of this episode
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int i) {
    return i < 4 ? sweep::quantity(-1.0f, 1.0f)
         : i == 4 ? sweep::quantity(-fastest_1, fastest_1)
                  : sweep::quantity(-fastest_2, fastest_2);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.theta_1 = rng.uniform(-0.1f, 0.1f);
    s.theta_2 = rng.uniform(-0.1f, 0.1f);
    s.theta_1_dot = rng.uniform(-0.1f, 0.1f);
    s.theta_2_dot = rng.uniform(-0.1f, 0.1f);
    s.steps = 0;
}

// Angles and speeds, or how fast each of them changes.
struct Motion {
    float angle_1, angle_2, speed_1, speed_2;
};

// The equations of motion: a symmetric system of two, (m11 m12; m12 m22) * accelerations = forces.
SWEEP_FN Motion change_of(const Motion& at, float torque) {
    constexpr float m22 = mass * centre * centre + inertia, coupling = mass * length * centre;
    const float sine_1 = sweep::sin(at.angle_1), cosine_1 = sweep::cos(at.angle_1);
    const float sine_2 = sweep::sin(at.angle_2), cosine_2 = sweep::cos(at.angle_2);
    const float m11 = (2 * m22 + mass * length * length) + 2 * coupling * cosine_2;
    const float m12 = m22 + coupling * cosine_2;
    const float weight_2 = mass * centre * gravity * (sine_1 * cosine_2 + cosine_1 * sine_2);
    const float weight_1 = (mass * centre + mass * length) * gravity * sine_1 + weight_2;
    const float turning = coupling * sine_2;
    const float force_1 = turning * at.speed_2 * (at.speed_2 + 2 * at.speed_1) - weight_1;
    const float force_2 = torque - turning * at.speed_1 * at.speed_1 - weight_2;
    const float share = 1.0f / (m11 * m22 - m12 * m12);
    return {at.speed_1, at.speed_2, (m22 * force_1 - m12 * force_2) * share, (m11 * force_2 - m12 * force_1) * share};
}

SWEEP_FN Motion moved(const Motion& from, const Motion& change, float time) {
    return {from.angle_1 + time * change.angle_1, from.angle_2 + time * change.angle_2,
            from.speed_1 + time * change.speed_1, from.speed_2 + time * change.speed_2};
}

// The same angle within -pi .. pi.
SWEEP_FN float wrapped(float angle) {
    const float turns = sweep::fma(angle, 1.0f / (2 * pi), sweep::rounding_magic) - sweep::rounding_magic;
    return sweep::fma(turns, 1.7484556e-7f, sweep::fma(turns, -6.2831855f, angle));  // 2 pi in two parts
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng&) {
    const float torque = static_cast<float>(action - 1);
    const Motion start = {s.theta_1, s.theta_2, s.theta_1_dot, s.theta_2_dot};
    const Motion a = change_of(start, torque);
    const Motion b = change_of(moved(start, a, frame / 2), torque);
    const Motion c = change_of(moved(start, b, frame / 2), torque);
    const Motion d = change_of(moved(start, c, frame), torque);
    const Motion sum = moved(moved(moved(a, b, 2.0f), c, 2.0f), d, 1.0f);
    const Motion end = moved(start, sum, frame / 6);
    s.theta_1 = wrapped(end.angle_1);
    s.theta_2 = wrapped(end.angle_2);
    s.theta_1_dot = sweep::clamp(end.speed_1, -fastest_1, fastest_1);
    s.theta_2_dot = sweep::clamp(end.speed_2, -fastest_2, fastest_2);
    s.steps++;
    const bool there = -sweep::cos(s.theta_1) - sweep::cos(s.theta_1 + s.theta_2) > height;
    return {there ? 0.0f : -1.0f, there, !there && s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = sweep::cos(s.theta_1);
    observation[1] = sweep::sin(s.theta_1);
    observation[2] = sweep::cos(s.theta_2);
    observation[3] = sweep::sin(s.theta_2);
    observation[4] = s.theta_1_dot;
    observation[5] = s.theta_2_dot;
}

constexpr sweep::Picture picture = {4.4f, 4.4f};  // m, the fixed end in the middle

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    const float middle = picture.width / 2, angle = s.theta_1 + s.theta_2;
    const float x = middle + length * sweep::sin(s.theta_1), y = middle + length * sweep::cos(s.theta_1);
    c.line(0.0f, middle - height, picture.width, middle - height, 0.02f, 0x5A6472);
    c.line(middle, middle, x, y, 0.2f, 0x4C9BE8);
    c.line(x, y, x + length * sweep::sin(angle), y + length * sweep::cos(angle), 0.2f, 0x6FD08C);
    c.disc(middle, middle, 0.1f, 0xF2F2F2);
    c.disc(x, y, 0.1f, 0xF2F2F2);
}

}  // namespace acrobot
