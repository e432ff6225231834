// CartPole that flickers: in each env step all that is seen is zero with some probability, so what was seen must be kept.
//
// Rules: those of cartpole.h (gymnasium's CartPole-v1, 500 env steps); the flicker is that of Hausknecht and Stone (2015),
// who blank the screen of Atari games half of the time; the first observation of an episode may be blank too. The actions
// push left and right.
#pragma once

#include "cartpole.h"

namespace cartpole_flicker {

constexpr int observation_size = cartpole::observation_size;
constexpr int actions = cartpole::actions;
constexpr int longest_episode = cartpole::longest_episode;
constexpr bool needs_memory = true;  // a blank observation says nothing

struct State {
    float x;          // m
    float x_dot;      // m/s
    float theta;      // rad, 0 is upright
    float theta_dot;  // rad/s
    int steps;        // env steps of this episode
    int blank;        // 1 where nothing of this is seen
};

struct Params {
    float blank_probability = 0.5f;  // chance that all of an observation is zero
};
constexpr sweep::Bounds bounds[] = {{0, 1}};

SWEEP_FN constexpr sweep::Input input(int i) { return cartpole::input(i); }

// The cart as it is now, and whether it is seen.
SWEEP_FN void show(State& s, const cartpole::State& cart, const Params& params, sweep::Rng& rng) {
    s = {cart.x, cart.x_dot, cart.theta, cart.theta_dot, cart.steps, rng.chance(params.blank_probability)};
}

SWEEP_FN void reset(State& s, const Params& params, sweep::Rng& rng) {
    cartpole::State cart;
    cartpole::reset(cart, {}, rng);
    show(s, cart, params, rng);
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, int action, sweep::Rng& rng) {
    cartpole::State cart = {s.x, s.x_dot, s.theta, s.theta_dot, s.steps};
    const sweep::Outcome outcome = cartpole::step(cart, {}, action, rng);
    show(s, cart, params, rng);
    return outcome;
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    const float seen = s.blank != 0 ? 0.0f : 1.0f;
    observation[0] = seen * s.x;
    observation[1] = seen * s.x_dot;
    observation[2] = seen * s.theta;
    observation[3] = seen * s.theta_dot;
}

constexpr sweep::Picture picture = cartpole::picture;

// As it is, seen or not; a lamp tells which.
SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    cartpole::draw({s.x, s.x_dot, s.theta, s.theta_dot, s.steps}, {}, c);
    c.disc(0.2f, 0.2f, 0.1f, s.blank != 0 ? 0x3A2A2A : 0x6FD08C);
}

}  // namespace cartpole_flicker
