// The solve rule: a frozen policy's mean return or metric over fresh episodes, all started together and each counted once.
#pragma once

#include "rollout.h"

namespace sweep {

// Room for one evaluation of up to `copies` episodes side by side.
struct EvaluationRoom {
    int copies;
    char* games;
    Rng *game_rngs, *action_rngs;
    float *states, *keep, *returns;                  // [towers, layers, copies, state], [copies], [copies]
    Sight observations;                              // [copies, stride]
    ActionRows actions;                              // [copies, k]
    float* within;                                   // [copies, k], or null
    int* episode;                                    // [copies]: which one a copy plays
    Outcome* outcomes;
    int* living;                                     // [1]: copies whose episode goes on
    Activations activations;
};

inline Activations take_activations(Arena& memory, const Shape& n, int rows) {
    Activations a;
    a.rows = rows;
    a.x = memory.take<float>(n.towers() * n.x_floats() * rows);
    a.gates = memory.take<float>(n.towers() * n.gate_floats() * rows);
    a.kept = memory.take<float>(n.towers() * n.kept_floats() * rows);
    const int feature_rows = rows > 2 * n.feature_rows() ? rows : 2 * n.feature_rows();
    a.features = memory.take<float>(n.filter_count > 0 ? long(feature_rows) * n.read_stride() : 0);
    a.logits = memory.take<float>(long(rows) * n.outputs());
    return a;
}

inline Sight take_sight(Arena& memory, const Shape& n, long rows) {
    if (n.bytes) return {nullptr, memory.take<uint8>(rows * n.stride())};
    return {memory.take<float>(rows * n.stride()), nullptr};
}

inline EvaluationRoom take_evaluation_room(Arena& memory, const Shape& n, int state_size, int copies) {
    EvaluationRoom e;
    e.copies = copies;
    e.games = memory.take<char>(long(copies) * state_size);
    e.game_rngs = memory.take<Rng>(copies);
    e.action_rngs = memory.take<Rng>(copies);
    e.states = memory.take<float>(n.states(copies));
    e.keep = memory.take<float>(copies);
    e.observations = take_sight(memory, n, copies);
    e.returns = memory.take<float>(copies);
    e.actions = take_actions(memory, n, copies);
    e.within = take_within(memory, n, copies);
    e.episode = memory.take<int>(copies);
    e.outcomes = memory.take<Outcome>(copies);
    e.living = memory.take<int>(1);
    e.activations = take_activations(memory, n, copies);
    return e;
}

// Copy `from` takes the place of copy `to`: what has ended makes room, so that only living copies are computed. One
// lane's work.
inline void move_copy(const Player& p, const EvaluationRoom& e, int from, int to) {
    if (from == to) return;
    const int size = p.game->state_size, state = p.shape.state();
    copy_bytes(e.games + long(to) * size, e.games + long(from) * size, size);
    e.game_rngs[to] = e.game_rngs[from];
    e.action_rngs[to] = e.action_rngs[from];
    e.keep[to] = e.keep[from];
    e.returns[to] = e.returns[from];
    e.episode[to] = e.episode[from];
    e.outcomes[to] = e.outcomes[from];
    for (int l = 0; l < p.shape.state_layers(); l++) {
        float* layer = e.states + long(l) * e.copies * state;
        copy_bytes(layer + long(to) * state, layer + long(from) * state, state * sizeof(float));
    }
}

// Plays one episode on each of e.copies copies; returns [copies] in order of the episodes, and metrics [copies] where the
// game has one. Gives the env steps played, or −1 where `stopped()` became true on the way. The policy acts with the
// normaliser as it is: nothing is learnt.
template <class Stopped>
inline long evaluate(Block b, Player p, const float* weights, uint64 seed, bool greedy, const EvaluationRoom& e, float* returns,
                     float* metrics, Stopped stopped) {
    const Shape& n = p.shape;
    p.moments.mean = nullptr;
    const int stride = n.stride();
    for (int i = b.lane; i < e.copies; i += b.lanes) {
        e.game_rngs[i] = stream(seed, 2 * uint64(i));
        e.action_rngs[i] = stream(seed, 2 * uint64(i) + 1);
        e.episode[i] = i;
        e.returns[i] = 0.0f;
        e.keep[i] = 0.0f;
        for (int j = p.game->observation_size; j < stride; j++)
            e.observations.set(long(i) * stride + j, j < n.inputs ? 1 : 0);
    }
    for (long i = b.lane; i < n.states(e.copies); i += b.lanes) e.states[i] = 0.0f;
    b.sync();
    reset(b, p, e.games, e.game_rngs, e.copies);
    float* states[most_states];
    layer_pointers(n, e.states, e.copies, 0, states);
    long env_steps = 0, round = 0;
    for (int living = e.copies; living > 0; round++) {
        if (round % 32 == 31 && stopped()) return -1;
        observe(b, p, e.games, e.observations, stride, living);
        look(b, n, weights, living, e.observations, stride, e.keep, states, states, e.activations);
        choose(b, n, weights, living, e.activations.logits, greedy, e.action_rngs, e.actions, nullptr, nullptr);
        step(b, p, e.games, e.actions, e.within, e.game_rngs, e.outcomes, living);
        env_steps += living;
        if (b.lane == 0) {
            int left = living;
            for (int i = living - 1; i >= 0; i--) {
                e.returns[i] += e.outcomes[i].reward;
                e.keep[i] = 1.0f;
                if (!e.outcomes[i].terminated && !e.outcomes[i].truncated) continue;
                returns[e.episode[i]] = e.returns[i];
                if (p.game->metric)
                    p.game->metric(e.games + long(i) * p.game->state_size, p.params, metrics + e.episode[i], 1);
                move_copy(p, e, --left, i);
            }
            *e.living = left;
        }
        b.sync();
        living = *e.living;
        b.sync();
    }
    return env_steps;
}

}  // namespace sweep
