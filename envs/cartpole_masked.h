// CartPole with the speeds hidden: only where the cart is and how the pole leans is seen, so one look does not tell what to do.
//
// Rules: those of cartpole.h (gymnasium's CartPole-v1, 500 env steps); what is seen is that of POPGym's PositionOnlyCartPole
// (Morad et al., 2023). The actions push left and right.
#pragma once

#include "cartpole.h"

namespace cartpole_masked {

constexpr int observation_size = 2;
constexpr int actions = cartpole::actions;
constexpr int longest_episode = cartpole::longest_episode;
constexpr bool needs_memory = true;  // a speed is the difference of two observations
constexpr sweep::Picture picture = cartpole::picture;

using cartpole::State;
using cartpole::Params;
using cartpole::reset;
using cartpole::step;
using cartpole::draw;

SWEEP_FN constexpr sweep::Input input(int i) { return cartpole::input(2 * i); }

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.x;
    observation[1] = s.theta;
}

}  // namespace cartpole_masked
