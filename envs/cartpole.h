// CartPole-v1, as gymnasium plays it: push a cart left or right so that the pole on it stays up.
//
// Rules: Barto, Sutton, Anderson (1983); constants, Euler's method and the limit of 500 env steps from gymnasium. Each
// env step pays 1, the last one too. Positive is right, and clockwise.
#pragma once

#include "environment.h"
#include "math.h"

namespace cartpole {

constexpr int observation_size = 4;
constexpr int actions = 2;  // push left, push right
constexpr int longest_episode = 500;

constexpr float gravity = 9.8f;        // m/s^2
constexpr float cart_mass = 1.0f, pole_mass = 0.1f, total_mass = cart_mass + pole_mass;  // kg
constexpr float half_length = 0.5f;    // m
constexpr float push = 10.0f;          // N
constexpr float frame = 0.02f;         // s
constexpr float widest_x = 2.4f;       // m
constexpr float widest_angle = 0.20943951023931953f;  // rad, 12 degrees

struct State {
    float x;          // m
    float x_dot;      // m/s
    float theta;      // rad, 0 is upright
    float theta_dot;  // rad/s
    int steps;        // env steps of this episode
};

struct Params {};

// Positions are seen up to the env step that leaves their range; speeds know no limit, but in play nearly all stay within 3.
SWEEP_FN constexpr sweep::Input input(int i) {
    return i == 0 ? sweep::typical(-widest_x, widest_x)
         : i == 2 ? sweep::typical(-widest_angle, widest_angle)
                  : sweep::typical(-3.0f, 3.0f);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.x = rng.uniform(-0.05f, 0.05f);
    s.x_dot = rng.uniform(-0.05f, 0.05f);
    s.theta = rng.uniform(-0.05f, 0.05f);
    s.theta_dot = rng.uniform(-0.05f, 0.05f);
    s.steps = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng&) {
    const float force = action == 1 ? push : -push;
    const float sine = sweep::sin(s.theta), cosine = sweep::cos(s.theta);
    const float pole = pole_mass * half_length;
    const float common = (force + pole * s.theta_dot * s.theta_dot * sine) / total_mass;
    const float theta_acceleration = (gravity * sine - cosine * common) /
                                     (half_length * (4.0f / 3.0f - pole_mass * cosine * cosine / total_mass));
    const float x_acceleration = common - pole * theta_acceleration * cosine / total_mass;
    s.x += frame * s.x_dot;
    s.x_dot += frame * x_acceleration;
    s.theta += frame * s.theta_dot;
    s.theta_dot += frame * theta_acceleration;
    s.steps++;
    const bool fallen = s.x < -widest_x || s.x > widest_x || s.theta < -widest_angle || s.theta > widest_angle;
    return {1.0f, fallen, !fallen && s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.x;
    observation[1] = s.x_dot;
    observation[2] = s.theta;
    observation[3] = s.theta_dot;
}

// The track from -2.8 to 2.8 m.
constexpr sweep::Picture picture = {5.6f, 2.4f};

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    const float middle = picture.width / 2, top = 1.6f, x = middle + s.x;
    c.line(middle - widest_x, top + 0.2f, middle + widest_x, top + 0.2f, 0.02f, 0x5A6472);
    c.rectangle(x - 0.25f, top, 0.5f, 0.2f, 0x4C9BE8);
    c.line(x, top, x + 2 * half_length * sweep::sin(s.theta), top - 2 * half_length * sweep::cos(s.theta), 0.08f, 0xE0B070);
    c.disc(x, top, 0.05f, 0xF2F2F2);
}

}  // namespace cartpole
