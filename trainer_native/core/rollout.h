// A rollout: N copies of an environment act for T steps, and everything an update needs is kept.
#pragma once

#include "core.h"
#include "ppo.h"

namespace sweep {

// Hands out parts of one block of memory, each aligned to a cache line. With no base it only counts.
struct Arena {
    char* base = nullptr;
    size_t used = 0;
    uint64 layout = 0;   // a fingerprint of the sizes and counts that were taken, in order

    template <class T> T* take(long count) {
        layout = mix(layout + (uint64(sizeof(T)) << 40) + uint64(count) + 1);
        T* at = base ? reinterpret_cast<T*>(base + used) : nullptr;
        const size_t bytes = size_t(count) * sizeof(T);
        const size_t room = ((bytes + 63) & ~size_t(63)) + fence_bytes;
        if (base) fence(base + used + bytes, room - bytes);
        used += room;
        return at;
    }
};

// Returns of the episodes that ended last, and their metrics where the game has one.
struct RecentEpisodes {
    float *returns, *metrics;   // [size], rings
    int64* ended;               // episodes so far
    int size;

    SWEEP_FN void add(float earned, float metric) const {
        const int64 at = (*ended)++ % size;
        returns[at] = earned;
        if (metrics) metrics[at] = metric;
    }
    SWEEP_FN bool full() const { return *ended >= size; }
    SWEEP_FN float mean(const float* values) const {
        const long count = full() ? size : long(*ended);
        float sums[Sum::size];
        return sum_of(alone(), values, count, sums) / float(count);
    }
};

struct Rollout {
    // Carried from one rollout to the next: part of a run's state (lay_out_state in run.h), as is the last row of `keep`.
    char* games;          // [N] environment states
    Rng* game_rngs;       // [N]
    Rng* action_rngs;     // [N]
    float* states;        // [towers, layers, N, state]
    float* episode_return;   // [N], so far
    // One rollout.
    float* first_states;  // [towers, layers, N, state]: where it started
    Sight observations;   // [N, T, stride]: whole sequences lie together
    Sight following;      // [N, stride]: what is seen after the last step; before it, at the end of a truncated episode
    ActionRows actions;   // [T, N, k]
    float* log_probabilities;   // [T, N], as all below
    float* values;        // [T + 1, N]
    float* rewards;       // scaled, clipped, with the bootstrap of truncated episodes
    float* ended;         // 1: an episode ended with this step
    float* keep;          // [T + 1, N]: 0: an episode begins with this step
    float* advantages;
    Outcome* outcomes;    // [N]
    float* within;        // [N, k]: continuous actions as the game takes them; else null
    float* finished;      // [N]: the return of an episode that ended with this step
    float* metrics;       // [N]: its metric, where the game has one
    Phases* phases;
};

// Running moments of quantities whose bounds nobody knows: frozen within a rollout, then merged (Chan et al. 1979).
struct Moments {
    double* count;      // [2]: rows behind the moments, and rows of this rollout
    float* mean;        // [observation]
    float* variance;    // [observation]
    float* sum;         // [observation]: Σ (x − mean) of this rollout
    float* squares;     // [observation]: Σ (x − mean)²
};

// Running moments of the discounted return g ← γ g + r, which starts anew with each episode: after every env step those of
// all copies are merged into them, and rewards are divided by √(variance + 1e-8). They start as the moments of 1e-4 returns
// with mean 0 and variance 1 (as Stable-Baselines3's VecNormalize and gymnasium's NormalizeReward have it).
struct RewardMoments {
    double* moments;    // [3]: count, mean, variance; null where rewards are not normalised
    float* discounted;  // [N]: g of each copy
    float* sums;        // [64]: scratch
};

struct Player {
    const EnvironmentTable* game;
    const void* params;
    Shape shape;
    Normaliser normaliser;
    Moments moments;      // mean is null where they are not used
    RewardMoments rewards;
    float reward_scale, reward_clip, gamma;
    bool bootstrap_truncated, greedy;
};

inline void set_normaliser_by_bounds(Block b, const Player& p, bool by_bounds) {
    const int size = p.game->observation_size;
    for (int i = b.lane; i < padded(size); i += b.lanes) {
        const Input in = i < size ? p.game->inputs[i] : flag();
        const float half = 0.5f * (in.high - in.low), middle = 0.5f * (in.high + in.low);
        const bool bounded = by_bounds && !in.is_flag && half < 1e30f;
        // A quantity that cannot vary is 0; one without bounds passes.
        p.normaliser.scale[i] = !bounded ? 1.0f : half > 0.0f ? 1.73205081f / half : 0.0f;
        p.normaliser.shift[i] = !bounded ? 0.0f : -middle * p.normaliser.scale[i];
    }
    b.sync();
}

inline void find_normalised_span(Player& p) {
    p.normaliser.first = p.normaliser.last = 0;
    for (int i = p.game->observation_size - 1; i >= 0; i--)
        if (p.normaliser.scale[i] != 1.0f || p.normaliser.shift[i] != 0.0f) {
            p.normaliser.first = i & ~7;
            if (p.normaliser.last == 0) p.normaliser.last = padded(i + 1);
        }
}

inline void gather_moments(Block b, const Player& p, const float* observations, long stride, int rows) {
    const int size = p.game->observation_size;
    if (b.lane == 0) p.moments.count[1] += rows;
    for (int r = 0; r < rows; r++)
        for (int i = b.lane; i < size; i += b.lanes) {
            const float d = observations[r * stride + i] - p.moments.mean[i];
            p.moments.sum[i] += d;
            p.moments.squares[i] = fma(d, d, p.moments.squares[i]);
        }
    b.sync();
}

// Takes what a rollout gathered into the moments, and the moments into the normaliser. Flags pass as they are.
inline void merge_moments(Block b, Player& p) {
    const double before = p.moments.count[0], rows = p.moments.count[1], after = before + rows;
    for (int i = b.lane; i < p.game->observation_size; i += b.lanes) {
        const double shift = p.moments.sum[i] / rows;
        const double spread = p.moments.squares[i] / rows - shift * shift;
        const double variance = (p.moments.variance[i] * before + spread * rows) / after +
                                shift * shift * before * rows / (after * after);
        p.moments.mean[i] = float(p.moments.mean[i] + shift * rows / after);
        p.moments.variance[i] = float(variance);
        p.moments.sum[i] = p.moments.squares[i] = 0.0f;
        if (p.game->inputs[i].is_flag) continue;
        const float deviation = highest(square_root(highest(p.moments.variance[i], 0.0f)), 1e-3f);
        p.normaliser.scale[i] = 1.0f / deviation;
        p.normaliser.shift[i] = -p.moments.mean[i] / deviation;
    }
    b.sync();
    if (b.lane == 0) {
        p.moments.count[0] = after;
        p.moments.count[1] = 0.0;
    }
    b.sync();
    find_normalised_span(p);
}

// Takes the rewards of one env step into the moments. Gives what rewards are to be multiplied by.
inline float merge_rewards(Block b, const Player& p, const Outcome* outcomes, int envs) {
    const RewardMoments& m = p.rewards;
    for (int i = b.lane; i < envs; i += b.lanes) m.discounted[i] = fma(p.gamma, m.discounted[i], outcomes[i].reward);
    b.sync();
    const double rows = envs;
    const double mean = sum_of(b, m.discounted, envs, m.sums) / rows;
    const float centre = float(mean);
    const double squares = sum_of_squares(b, m.discounted, envs, m.sums, centre);
    const double before = m.moments[0], after = before + rows, shift = mean - m.moments[1];
    const double variance = (m.moments[2] * before + squares) / after + shift * shift * before * rows / (after * after);
    const double new_mean = m.moments[1] + shift * rows / after;
    b.sync();
    if (b.lane == 0) {
        m.moments[0] = after;
        m.moments[1] = new_mean;
        m.moments[2] = variance;
    }
    for (int i = b.lane; i < envs; i += b.lanes)
        if (outcomes[i].terminated || outcomes[i].truncated) m.discounted[i] = 0.0f;
    b.sync();
    return float(1.0 / square_root(variance + 1e-8));
}

// What `count` games show, as bytes or as floats [count, stride]. Bytes that are to be floats are written behind where those
// will lie, so that they may take their place in order.
inline void observe_raw(const Player& p, const char* games, const Sight& to, long stride, int count) {
    if (to.bytes) return p.game->observe(games, p.params, to.bytes, int(stride), count);
    float* observations = to.floats;
    if (!p.game->observation_bytes) return p.game->observe(games, p.params, observations, int(stride), count);
    const int size = p.game->observation_size;
    p.game->observe(games, p.params, reinterpret_cast<uint8*>(observations) + 3 * size, int(stride) * 4, count);
    for (int r = 0; r < count; r++) {
        const uint8* bytes = reinterpret_cast<uint8*>(observations + r * stride) + 3 * size;
        for (int i = 0; i < size; i++) observations[r * stride + i] = float(bytes[i]);
    }
}

inline void observe(Block b, const Player& p, const char* games, const Sight& observations, long stride, int rows) {
    const Range mine = share_of(b, rows);
    observe_raw(p, games + long(mine.first) * p.game->state_size, observations.from(mine.first * stride), stride,
                mine.last - mine.first);
    b.sync();
    if (observations.bytes) return;   // flags
    if (p.moments.mean) gather_moments(b, p, observations.floats, stride, rows);
    normalise(b, p.normaliser, observations.floats, stride, rows);
}

inline ActionRows take_actions(Arena& memory, const Shape& n, long rows) {
    const long count = rows * n.action_count;
    return n.continuous ? ActionRows{nullptr, memory.take<float>(count)} : ActionRows{memory.take<int>(count), nullptr};
}
inline float* take_within(Arena& memory, const Shape& n, long rows) {
    return n.continuous ? memory.take<float>(rows * n.action_count) : nullptr;
}

// What continuous actions are to the game: clipped or squashed to ±1, then between their bounds, whatever was drawn.
inline void put_within_bounds(Block b, const Player& p, const float* drawn, int rows, float* within) {
    const int k = p.shape.action_count;
    for (int j = 0; j < k; j++) {
        const Bounds bounds = p.game->action_bounds[j];
        const float low = float(bounds.low), high = float(bounds.high);
        const float middle = float(0.5 * (bounds.low + bounds.high)), half = float(0.5 * (bounds.high - bounds.low));
        for (int i = b.lane; i < rows; i += b.lanes) {
            const float x = drawn[long(i) * k + j], unit = p.shape.squashed ? tanh(x) : clamp(x, -1.0f, 1.0f);
            within[long(i) * k + j] = unit == unit ? clamp(fma(half, unit, middle), low, high) : middle;
        }
    }
    b.sync();
}

// `within`: room for continuous actions as the game takes them.
inline void step(Block b, const Player& p, char* games, const ActionRows& actions, float* within, Rng* rngs, Outcome* outcomes,
                 int rows) {
    if (p.shape.continuous) put_within_bounds(b, p, actions.drawn, rows, within);
    const Range mine = share_of(b, rows);
    const long first = long(mine.first) * p.shape.action_count;
    const void* given;
    if (p.shape.continuous) given = within + first;
    else given = actions.chosen + first;
    p.game->step(games + long(mine.first) * p.game->state_size, p.params, given, rngs + mine.first, outcomes + mine.first,
                 mine.last - mine.first);
    b.sync();
}

inline void reset(Block b, const Player& p, char* games, Rng* rngs, int rows) {
    const Range mine = share_of(b, rows);
    p.game->reset(games + long(mine.first) * p.game->state_size, p.params, rngs + mine.first, mine.last - mine.first);
    b.sync();
}

// The value of copy n's observation before its episode is reset: what a truncated episode would still have earned. One
// lane's work, in the copy's part of `room`. Seen once per truncated episode, it is no part of the running moments.
inline float value_at_truncation(const Player& p, const float* weights, const Rollout& r, int envs, int n,
                                 const Activations& room) {
    const long stride = p.shape.stride();
    float* states[most_states];
    layer_pointers(p.shape, r.states, envs, n, states);
    const Sight seen = r.following.from(n * stride);
    observe_raw(p, r.games + long(n) * p.game->state_size, seen, stride, 1);
    if (!seen.bytes) normalise(alone(), p.normaliser, seen.floats, stride, 1);
    const float keep = 1.0f;
    const Activations own = room.part(p.shape, n);
    look(alone(), p.shape, weights, 1, seen, stride, &keep, states, nullptr, own);
    return own.logits[p.shape.actions];
}

// T steps of N copies. `room` holds N rows of one forward pass. Asks every 32,768 env steps whether it is `stopped()`:
// then it gives false, and the rollout is not to be used. `stopped` gives every lane the same.
template <class Stopped>
inline bool play(Block b, const Player& p, const float* weights, int envs, int steps, const Rollout& r,
                 const Activations& room, const RecentEpisodes& recent, Stopped stopped) {
    const Shape& n = p.shape;
    const long stride = n.stride(), sequence = stride * steps;
    float* states[most_states];
    layer_pointers(n, r.states, envs, 0, states);
    const long state_floats = n.states(envs);
    for (long i = b.lane; i < state_floats; i += b.lanes) r.first_states[i] = r.states[i];
    for (int i = b.lane; i < envs; i += b.lanes) r.keep[i] = r.keep[long(steps) * envs + i];
    b.sync();
    r.phases->mark(b, Phase::copying);
    const int timed = envs < 128 ? 128 / envs : 1;   // one step in so many
    long unasked = 0;
    for (int t = 0; t < steps; t++) {
        r.phases->count(b, t % timed == 0 ? timed : 0);
        unasked += envs;
        if (unasked > 32768) {
            if (stopped()) return false;
            unasked = 0;
        }
        const long row = long(t) * envs;
        const Sight seen = r.observations.from(t * stride);
        observe(b, p, r.games, seen, sequence, envs);
        r.phases->mark(b, Phase::environment);
        look(b, n, weights, envs, seen, sequence, r.keep + row, states, states, room);
        r.phases->mark(b, Phase::forward);
        const ActionRows actions = r.actions.from(row * n.action_count);
        choose(b, n, weights, envs, room.logits, p.greedy, r.action_rngs, actions, r.log_probabilities + row, r.values + row);
        r.phases->mark(b, Phase::sampling);
        step(b, p, r.games, actions, r.within, r.game_rngs, r.outcomes, envs);
        r.phases->mark(b, Phase::environment);
        const float scale = p.rewards.moments ? p.reward_scale * merge_rewards(b, p, r.outcomes, envs) : p.reward_scale;
        for (int i = b.lane; i < envs; i += b.lanes) {
            const Outcome o = r.outcomes[i];
            r.episode_return[i] += o.reward;
            float reward = o.reward * scale;
            if (p.reward_clip > 0.0f) reward = clamp(reward, -p.reward_clip, p.reward_clip);
            const bool ended = o.terminated || o.truncated;
            r.ended[row + i] = ended ? 1.0f : 0.0f;
            r.keep[row + envs + i] = ended ? 0.0f : 1.0f;
            if (ended) {
                if (!o.terminated && p.bootstrap_truncated)
                    reward = fma(p.gamma, value_at_truncation(p, weights, r, envs, i, room), reward);
                r.finished[i] = r.episode_return[i];
                r.episode_return[i] = 0.0f;
                if (p.game->metric) p.game->metric(r.games + long(i) * p.game->state_size, p.params, r.metrics + i, 1);
                p.game->reset(r.games + long(i) * p.game->state_size, p.params, r.game_rngs + i, 1);
            }
            r.rewards[row + i] = reward;
        }
        b.sync();
        if (b.lane == 0)
            for (int i = 0; i < envs; i++)
                if (r.ended[row + i] != 0.0f) recent.add(r.finished[i], r.metrics[i]);
        r.phases->mark(b, Phase::copying);
    }
    r.phases->count(b, 1);
    const long last = long(steps) * envs;
    observe(b, p, r.games, r.following, stride, envs);
    r.phases->mark(b, Phase::environment);
    look(b, n, weights, envs, r.following, stride, r.keep + last, states, nullptr, room);
    for (int i = b.lane; i < envs; i += b.lanes) r.values[last + i] = room.logits[long(i) * n.outputs() + n.actions];
    b.sync();
    r.phases->mark(b, Phase::forward);
    return true;
}

}  // namespace sweep
