// Whether an episode is a function of its seed: played again, in another order, at once, over other memory.
#pragma once

#include "fuzz_seen.h"

namespace {

// What a copy was and gave at one env step; fields only, since padding is nobody's.
struct Moment {
    std::vector<double> outcome;            // reward, terminated, truncated
    std::vector<unsigned char> observation;
    std::vector<unsigned char> state;
};

Moment moment(const Copy& c, const Outcome& o) {
    Moment m;
    m.outcome = {o.reward, double(o.terminated), double(o.truncated)};
    m.observation.assign(c.seen.data(), c.seen.data() + c.seen.size);
    for (int i = 0; i < game->state_fields; i++) {
        const Field& f = game->state_field[i];
        const unsigned char* at = c.state.data() + f.offset;
        m.state.insert(m.state.end(), at, at + f.count * bytes_of(f.type));
    }
    return m;
}

using Trace = std::vector<std::vector<Moment>>;   // [copy][env step], the first after the reset

struct Player {
    std::vector<Copy*> copies;
    Params params = default_params();
    Trace trace;

    Player(int n, uint64 seed, unsigned char fill) : trace(n) {
        for (int i = 0; i < n; i++) {
            copies.push_back(new Copy(seed, i));
            memset(copies[i]->state.data(), fill, copies[i]->state.size);
        }
    }
    ~Player() {
        for (Copy* c : copies) delete c;
    }
    void one(int i) {
        Copy& c = *copies[i];
        Outcome outcome = {};
        if (c.ended) {
            call_reset(c, params);
        } else {
            c.draw_action();
            outcome = call_step(c, params);
        }
        call_observe(c, params);
        trace[i].push_back(moment(c, outcome));
        if (c.steps >= game->longest_episode) c.ended = true;
    }
};

// As Player::one on all copies at once, by one call of each function: copies lie side by side, as in training.
void together(Player& player, int n) {
    const int size = game->state_size, row = game->observation_size * observation_bytes_each;
    Guarded states(size_t(size) * n), seen(size_t(row) * n);
    static std::vector<Outcome> outcomes;
    static std::vector<unsigned char> actions;
    const int action_bytes = 4 * game->action_count;
    static std::vector<Rng> rngs;
    std::vector<bool> fresh(n);
    outcomes.assign(n, Outcome{});
    actions.assign(size_t(n) * action_bytes, 0);
    rngs.clear();
    for (int i = 0; i < n; i++) {
        Copy& c = *player.copies[i];
        fresh[i] = c.ended;
        if (c.ended) call_reset(c, player.params);
        else c.draw_action();
        memcpy(states.data() + size_t(i) * size, c.state.data(), size);
        memcpy(actions.data() + size_t(i) * action_bytes, c.action.data(), action_bytes);
        rngs.push_back(c.rng);
    }
    std::vector<unsigned char> begun(states.data(), states.data() + states.size);
    const std::vector<Rng> rngs_begun = rngs;
    enter("step");
    game->step(states.data(), player.params.bytes.data(), actions.data(), rngs.data(), outcomes.data(), n);
    for (int i = 0; i < n; i++) {
        if (!fresh[i]) continue;   // one that has just begun takes no step: as in Player::one
        memcpy(states.data() + size_t(i) * size, begun.data() + size_t(i) * size, size);
        rngs[i] = rngs_begun[i];
        outcomes[i] = {};
    }
    enter("observe");
    game->observe(states.data(), player.params.bytes.data(), seen.data(), game->observation_size, n);
    for (int i = 0; i < n; i++) {
        Copy& c = *player.copies[i];
        memcpy(c.state.data(), states.data() + size_t(i) * size, size);
        memcpy(c.seen.data(), seen.data() + size_t(i) * row, row);
        c.rng = rngs[i];
        if (!fresh[i]) {
            c.steps++;
            c.ended = outcomes[i].terminated || outcomes[i].truncated || c.steps >= game->longest_episode;
        }
        player.trace[i].push_back(moment(c, outcomes[i]));
    }
}

// The first thing in which two traces part, told as `fault`. What was seen counts before what only the State holds.
bool parts(const Trace& a, const Trace& b, const char* fault) {
    for (const bool of_state : {false, true}) {
        for (size_t i = 0; i < a.size(); i++) {
            for (size_t k = 0; k < std::min(a[i].size(), b[i].size()); k++) {
                const Moment &x = a[i][k], &y = b[i][k];
                std::string what;
                if (!of_state) {
                    const char* names[] = {"the reward", "terminated", "truncated"};
                    for (int j = 0; j < 3; j++)
                        if (memcmp(&x.outcome[j], &y.outcome[j], sizeof(double)) != 0 && what.empty()) what = names[j];
                    const int each = observation_bytes_each;
                    for (int j = 0; j < game->observation_size && what.empty(); j++)
                        if (memcmp(x.observation.data() + j * each, y.observation.data() + j * each, each) != 0)
                            what = "observation[" + std::to_string(j) + "]";
                } else {
                    size_t at = 0;
                    for (int j = 0; j < game->state_fields && what.empty(); j++) {
                        const Field& f = game->state_field[j];
                        const size_t bytes = size_t(f.count) * bytes_of(f.type);
                        if (memcmp(x.state.data() + at, y.state.data() + at, bytes) != 0) what = std::string("State.") + f.name;
                        at += bytes;
                    }
                }
                if (what.empty()) continue;
                say("{\"fault\": \"%s\", \"what\": \"%s\", \"seen\": %s, \"copy\": %zu, \"step\": %zu}", fault, what.c_str(),
                    of_state ? "false" : "true", i, k);
                return true;
            }
        }
    }
    return false;
}

uint64 hash(const Trace& trace) {
    uint64 h = 0;
    auto bytes = [&](const void* from, size_t n) {
        for (size_t i = 0; i < n; i++) h = mix(h + 0x9E3779B97F4A7C15ull + static_cast<const unsigned char*>(from)[i]);
    };
    for (const auto& copy : trace)
        for (const Moment& m : copy) {
            bytes(m.outcome.data(), m.outcome.size() * sizeof(double));
            bytes(m.observation.data(), m.observation.size());
            bytes(m.state.data(), m.state.size());
        }
    return h;
}

// The same seed again; the copies one after another, last first; and all in one call.
void repeat(long env_steps, int copies, uint64 seed) {
    const long each = env_steps / copies;
    auto in_turn = [&](Player& player) {
        for (long k = 0; k < each; k++)
            for (int i = 0; i < copies; i++) player.one(i);
    };
    Player first(copies, seed, 0);
    in_turn(first);
    say("{\"trace\": \"%016llx\"}", hash(first.trace));
    Player again(copies, seed, 0);
    in_turn(again);
    if (parts(first.trace, again.trace, "again")) return;
    Player alone(copies, seed, 0);
    for (int i = copies - 1; i >= 0; i--)
        for (long k = 0; k < each; k++) alone.one(i);
    if (parts(first.trace, alone.trace, "order")) return;
    Player all(copies, seed, 0);
    for (long k = 0; k < each; k++) together(all, copies);
    parts(first.trace, all.trace, "order");
}

// The same seed over memory that was 0 and memory that held `fill`. True where they part in what is seen.
bool filled(long each, int copies, uint64 seed, int fill, std::set<std::string>& unset) {
    Player zeros(copies, seed, 0), others(copies, seed, fill);
    for (int i = 0; i < copies; i++) {
        zeros.one(i);
        others.one(i);
    }
    for (int i = 0, at = 0; i < game->state_fields; i++) {
        const Field& f = game->state_field[i];
        const int bytes = f.count * bytes_of(f.type);
        if (memcmp(zeros.trace[0][0].state.data() + at, others.trace[0][0].state.data() + at, bytes) != 0 &&
            unset.insert(f.name).second)
            say("{\"unset\": \"%s\"}", f.name);
        at += bytes;
    }
    for (long k = 1; k < each; k++)
        for (int i = 0; i < copies; i++) {
            zeros.one(i);
            others.one(i);
        }
    // What State holds may differ, and is told above; what is seen may not.
    size_t size = zeros.trace[0][0].state.size();
    for (auto* trace : {&zeros.trace, &others.trace})
        for (auto& copy : *trace)
            for (Moment& m : copy) m.state.assign(size, 0);
    return parts(zeros.trace, others.trace, "fill");
}

// What `reset` leaves unset is seen: each bit is another in one of the two fills, the first of which is odd and no multiple of 3,
// 5 or 7.
void fills(long env_steps, int copies, uint64 seed) {
    std::set<std::string> unset;
    const long each = env_steps / copies;
    if (!filled(each, copies, seed, 0x53, unset)) filled(each, copies, seed, 0xAC, unset);
}

}  // namespace
