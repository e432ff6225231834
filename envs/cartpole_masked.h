// CartPole with the speeds hidden: only where the cart is and how the pole leans is seen, so one look does not tell what to do.
//
// Rules: those of cartpole.h (gymnasium's CartPole-v1, 500 env steps); what is seen is that of POPGym's StatelessCartPole
// (Morad et al., 2023). The actions push left and right.
#pragma once

#include "cartpole.h"

namespace cartpole_masked {

constexpr int observation_size = 2;
constexpr int actions = cartpole::actions;
constexpr int longest_episode = cartpole::longest_episode;
constexpr bool needs_memory = true;  // a speed is the difference of two observations

struct State {
    float x;          // m
    float x_dot;      // m/s, not seen
    float theta;      // rad, 0 is upright
    float theta_dot;  // rad/s, not seen
    int steps;        // env steps of this episode
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int i) { return cartpole::input(2 * i); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    cartpole::State seen;
    cartpole::reset(seen, {}, rng);
    s = {seen.x, seen.x_dot, seen.theta, seen.theta_dot, seen.steps};
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    cartpole::State seen = {s.x, s.x_dot, s.theta, s.theta_dot, s.steps};
    const sweep::Outcome outcome = cartpole::step(seen, {}, action, rng);
    s = {seen.x, seen.x_dot, seen.theta, seen.theta_dot, seen.steps};
    return outcome;
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.x;
    observation[1] = s.theta;
}

}  // namespace cartpole_masked
