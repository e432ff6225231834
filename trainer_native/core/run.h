// One training run: from initial weights, iteration after iteration, to the solve or a limit.
#pragma once

#include <cmath>
#include <ctime>

#include "initialise.h"
#include "solve.h"
#include "update.h"

namespace sweep {

using sweep_core::Ending;
using sweep_core::Options;

inline double seconds_of(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
inline double wall_seconds() { return seconds_of(CLOCK_MONOTONIC); }
inline double cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

// How far a run is: what it reports, and when it next does what it does not do in every iteration.
struct Progress {
    sweep_core::Result result;
    double next_try;        // env steps before which no solve is tried
    int64 every, seen;      // of the learning curve: it keeps every so-many-th point of those it has seen
};

// Everything a run owns, in one block of memory. What comes first is its state; the rest is room to work in.
struct RunMemory {
    char* state;            // [state_bytes]: all that is carried from one iteration to the next
    long state_bytes;
    uint64 state_layout;    // a fingerprint of what lies where in it
    Progress* progress;     // as of the last whole iteration, where states are kept
    float* next_keep;       // [N]: `keep` of the next rollout's first step, likewise
    float* weights;
    Rng* order_rng;
    float *recent, *recent_metrics;   // [episodes] each; no metrics where the game has none
    int64* episodes;    // [1]: ended so far
    Player player;
    Rollout rollout;
    UpdateRoom update;
    EvaluationRoom evaluation;
    Activations acting;
    float *evaluated, *evaluated_metrics;   // [episodes]
    int* stop;          // [1]: whether lane 0 wants the run to end, and why
};

inline Shape shape_of(const EnvironmentTable& game, const Options& o) {
    Shape n = {game.observation_size + (o.constant_input ? 1 : 0), o.hidden, o.layers, game.actions,
               static_cast<Cell>(o.cell), o.relu != 0, o.biases != 0, o.separate_value != 0,
               game.action_count, game.action_bounds != nullptr, o.squashed != 0, {}, false, o.filters, game.image};
    for (int j = 0; game.choices && j < game.action_count; j++) n.choices[j] = game.choices[j];
    n.bytes = game.observation_bytes != 0 && o.normalise_inputs != 2;
    for (int i = 0; n.bytes && i < game.observation_size; i++) n.bytes = game.inputs[i].is_flag;
    return n;
}

inline void take_normaliser(Arena& memory, Player& p, bool by_moments) {
    const int size = p.game->observation_size;
    p.normaliser = {};
    p.normaliser.scale = memory.take<float>(padded(size));
    p.normaliser.shift = memory.take<float>(padded(size));
    p.moments = {};
    if (!by_moments) return;
    p.normaliser.limit = 5.0f;
    p.moments.mean = memory.take<float>(size);
    p.moments.variance = memory.take<float>(size);
    p.moments.sum = memory.take<float>(size);
    p.moments.squares = memory.take<float>(size);
    p.moments.count = memory.take<double>(2);
}

// A run's state. What an iteration needs of those before it is taken here and nowhere else: a state that is saved and resumed is
// these bytes. What is added here is zero at the start of a run, unless begin_state() says otherwise.
inline void lay_out_state(Arena& memory, RunMemory& m, const Options& o, int episodes) {
    Player& p = m.player;
    const Shape& n = p.shape;
    m.progress = memory.take<Progress>(1);
    m.weights = memory.take<float>(n.weights());
    m.update.optimizer.first = memory.take<float>(n.weights());
    m.update.optimizer.second = memory.take<float>(o.muon ? 0 : n.weights());
    m.update.optimizer.powers = memory.take<double>(2);
    m.order_rng = memory.take<Rng>(1);
    m.recent = memory.take<float>(episodes);
    m.recent_metrics = p.game->metric ? memory.take<float>(episodes) : nullptr;
    m.episodes = memory.take<int64>(1);
    take_normaliser(memory, p, o.normalise_inputs == 2);
    Rollout& r = m.rollout;
    r.games = memory.take<char>(long(o.envs) * p.game->state_size);
    r.game_rngs = memory.take<Rng>(o.envs);
    r.action_rngs = memory.take<Rng>(o.envs);
    r.states = memory.take<float>(n.states(o.envs));
    r.episode_return = memory.take<float>(o.envs);
    m.next_keep = memory.take<float>(o.envs);
    if (o.normalise_rewards) {
        p.rewards.moments = memory.take<double>(3);
        p.rewards.discounted = memory.take<float>(o.envs);
    }
}

inline RunMemory lay_out(Arena& memory, const EnvironmentTable& game, const void* params, const Options& o,
                         int episodes) {
    RunMemory m = {};
    Player& p = m.player;
    p.game = &game;
    p.params = params;
    p.shape = shape_of(game, o);
    p.reward_scale = o.reward_scale;
    p.reward_clip = o.reward_clip;
    p.gamma = o.gamma;
    p.bootstrap_truncated = o.bootstrap_truncated != 0;
    p.greedy = false;
    lay_out_state(memory, m, o, episodes);
    m.state = memory.base;
    m.state_bytes = long(memory.used);
    m.state_layout = memory.layout;

    const Shape& n = p.shape;
    const long rows = long(o.horizon) * o.envs, states = n.states(o.envs);
    Rollout& r = m.rollout;
    r.first_states = memory.take<float>(states);
    r.observations = take_sight(memory, n, rows);
    r.following = take_sight(memory, n, o.envs);
    r.actions = take_actions(memory, n, rows);
    r.within = take_within(memory, n, o.envs);
    r.log_probabilities = memory.take<float>(rows);
    r.values = memory.take<float>(rows + o.envs);
    r.rewards = memory.take<float>(rows);
    r.ended = memory.take<float>(rows);
    r.keep = memory.take<float>(rows + o.envs);
    r.advantages = memory.take<float>(rows);
    r.outcomes = memory.take<Outcome>(o.envs);
    r.finished = memory.take<float>(o.envs);
    r.metrics = memory.take<float>(o.envs);
    r.phases = memory.take<Phases>(1);
    m.acting = take_activations(memory, n, o.envs);

    UpdateRoom& u = m.update;
    const int steps = o.transitions ? 1 : o.horizon;
    const long drawn_from = o.transitions ? rows : o.envs;
    const int per_minibatch = int(drawn_from / o.minibatches);
    const long minibatch_rows = long(per_minibatch) * steps;
    u.sequences = sequences_per_part(n, steps, per_minibatch);
    u.activations = take_activations(memory, n, u.sequences * steps);
    u.observations = o.transitions ? take_sight(memory, n, u.sequences) : Sight{};
    u.transposes = memory.take<float>(n.towers() * n.transposed_tower());
    u.gradients = memory.take<float>(n.weights());
    u.carry = memory.take<float>(long(u.sequences) * n.state());
    u.states = memory.take<float>(n.states(u.sequences));
    u.keep = memory.take<float>(minibatch_rows);
    Targets& y = u.targets;
    y.actions = take_actions(memory, n, minibatch_rows);
    y.log_std_sums = memory.take<float>(n.continuous ? long(n.action_count) * Sum::size : 0);
    for (float** at : {&y.log_probabilities, &y.values, &y.advantages, &y.returns, &u.row_ratios, &u.row_values})
        *at = memory.take<float>(minibatch_rows);
    u.order = memory.take<int>(drawn_from);
    for (float** at : {&u.sequence_weights, &u.chances, &u.passed})
        *at = memory.take<float>(o.priority > 0.0f ? drawn_from : 0);
    u.ratios = memory.take<float>(o.vtrace ? rows : 0);
    u.values = memory.take<float>(o.vtrace ? rows + o.envs : 0);
    u.optimizer.scratch = memory.take<float>(o.muon ? optimizer_scratch(n) : 0);
    u.optimizer.sums = memory.take<float>(Sum::size);
    m.evaluation = take_evaluation_room(memory, n, game.state_size, episodes);
    m.evaluated = memory.take<float>(episodes);
    m.evaluated_metrics = game.metric ? memory.take<float>(episodes) : nullptr;
    m.stop = memory.take<int>(1);
    p.rewards.sums = u.optimizer.sums;
    return m;
}

// What numbers its streams are drawn from, so that no two uses of a seed share one.
enum Streams : uint64 { weights_stream = 1, order_stream = 2, evaluation_stream = 1000, copies_stream = 1000000 };

// The state before the first env step.
inline void begin_state(Block b, RunMemory& m, const Options& o, uint64 seed) {
    Player& p = m.player;
    for (long i = b.lane; i < m.state_bytes; i += b.lanes)
        if (!is_fenced(m.state + i)) m.state[i] = 0;
    b.sync();
    if (b.lane == 0) {
        Rng rng = stream(seed, weights_stream);
        initialise(p.shape, m.weights, rng, o.orthogonal != 0, o.policy_gain, o.log_std);
        *m.order_rng = stream(seed, order_stream);
        m.update.optimizer.powers[0] = m.update.optimizer.powers[1] = 1.0;
        sweep_core::Result& result = m.progress->result;
        result.parameters = parameters_of(p.shape);
        result.trigger_seconds = -1.0;
        result.mean_return = result.best_return = result.mean_metric = result.best_metric = NAN;
        m.progress->every = 1;
        if (p.rewards.moments) {
            p.rewards.moments[0] = 1e-4;
            p.rewards.moments[2] = 1.0;
        }
    }
    set_normaliser_by_bounds(b, p, o.normalise_inputs == 1);
    const Rollout& r = m.rollout;
    for (int i = b.lane; i < o.envs; i += b.lanes) {
        r.game_rngs[i] = stream(seed, copies_stream + 2 * uint64(i));
        r.action_rngs[i] = stream(seed, copies_stream + 2 * uint64(i) + 1);
    }
    b.sync();
    reset(b, p, r.games, r.game_rngs, o.envs);
}

// What an iteration expects to find beside the state. Memory may hold anything.
inline void begin_room(Block b, RunMemory& m, const Options& o) {
    const Shape& n = m.player.shape;
    const Rollout& r = m.rollout;
    find_normalised_span(m.player);
    // The constant input and the padding of every row, which no observation writes.
    const auto fill = [&](const Sight& row) {
        for (int j = m.player.game->observation_size; j < n.stride(); j++) row.set(j, j < n.inputs ? 1 : 0);
    };
    for (long i = b.lane; i < long(o.envs) * o.horizon; i += b.lanes) fill(r.observations.from(i * n.stride()));
    for (int i = b.lane; i < o.envs; i += b.lanes) {
        fill(r.following.from(long(i) * n.stride()));
        r.keep[long(o.horizon) * o.envs + i] = m.next_keep[i];
    }
    b.sync();
    r.phases->begin(b);
}

inline void begin(Block b, RunMemory& m, const Options& o, uint64 seed) {
    begin_state(b, m, o, seed);
    begin_room(b, m, o);
}

// A whole state, from one place to another.
inline void copy_state(Block b, const RunMemory& m, const char* __restrict from, char* __restrict to) {
    for (long i = b.lane; i < m.state_bytes; i += b.lanes)
        if (!is_fenced(from + i) && !is_fenced(to + i)) to[i] = from[i];
    b.sync();
}

// The gradient steps of an iteration: whole passes, or a ratio of one (a hair above it, for ratios such as 0.29).
inline int gradient_steps(const Options& o) {
    return o.replay_ratio > 0.0 ? int(o.replay_ratio * o.minibatches + 1e-9) : o.epochs * o.minibatches;
}

// What is left of a number that falls from 1 to `end` while `done` goes from 0 to 1.
inline double falling(bool cosine, double end, double done) {
    if (done >= 1.0) return end;
    if (!cosine) return 1.0 - (1.0 - end) * done;
    return end + (1.0 - end) * 0.5 * (1.0 + double(cos(float(3.14159265358979324 * done))));
}

// What an iteration learns with whose rollout began after `env_steps`: schedules know of the env steps before it, as
// PureJaxRL's do; Stable-Baselines3's are one rollout ahead. Schedules run over anneal_steps, never over the budget: a
// run stopped early is the start of a longer one.
inline UpdateOptions options_at(const Options& o, long env_steps) {
    const double share = o.anneal_steps > 0.0 ? double(env_steps) / o.anneal_steps : 0.0, done = share < 1.0 ? share : 1.0;
    const auto annealed = [&](float first, double end) { return float(first * falling(o.cosine != 0, end, done)); };
    // β goes to 1 by as much as α lets the draws matter (PufferLib).
    const float correction = fma(1.0f - o.priority_correction, lowest(o.priority, 1.0f) * float(done), o.priority_correction);
    return {o.envs, o.horizon, o.transitions ? o.envs * o.horizon : o.envs, o.transitions ? 1 : o.horizon, o.minibatches,
            gradient_steps(o), o.gamma, o.gae_lambda, o.vtrace != 0, o.rho_clip,
            o.trace_clip, o.normalise_advantages != 0, o.priority, correction,
            {annealed(o.clip, o.clip_end), o.value_coefficient, o.value_clip, o.clipped_value_alone != 0,
             annealed(o.entropy_coefficient, o.entropy_end)},
            {o.muon != 0, annealed(o.learning_rate, o.learning_rate_end), o.head_rate, o.momentum, o.second_momentum,
             o.adam_epsilon, o.weight_decay, o.gradient_norm}};
}

// A learning curve that never outgrows its room: full, it drops every other point and keeps points half as often.
struct Curve {
    sweep_core::Result& result;
    bool of_metric;   // what is drawn is the mean metric
    int64 every, seen;

    void put() {
        const double point[4] = {result.cpu_seconds, result.seconds, double(result.env_steps),
                                 of_metric ? result.mean_metric : result.mean_return};
        for (int j = 0; j < 4; j++) result.curve[result.points][j] = point[j];
        result.points++;
    }
    void add() {
        if (seen++ % every) return;
        if (result.points == sweep_core::most_points - 1) {
            result.points /= 2;
            for (int i = 0; i < result.points; i++)
                for (int j = 0; j < 4; j++) result.curve[i][j] = result.curve[2 * i][j];
            every *= 2;
        }
        put();
    }
    // The last point is that of the end, for which there is always room.
    void finish() {
        if (result.points > 0 && result.curve[result.points - 1][2] == double(result.env_steps)) result.points--;
        put();
    }
};

// Every lane counts in a Result of its own; that of lane 0 is the run's. The run begins, or goes on from a state; where
// states are kept, the last is that of the last whole iteration, so that a limit may cut the next one anywhere.
inline void train(Block b, RunMemory m, const Options& o, uint64 seed, const sweep_core::SolveRule& rule, long max_env_steps,
                  sweep_core::Control control, double called, sweep_core::States states, sweep_core::Result& result) {
    if (states.from)
        copy_state(b, m, states.from, m.state);
    else
        begin_state(b, m, o, seed);
    begin_room(b, m, o);
    const RecentEpisodes recent = {m.recent, m.recent_metrics, m.episodes, rule.episodes};
    result = m.progress->result;
    double next_try = m.progress->next_try;
    Curve curve = {result, rule.on_metric != 0, m.progress->every, m.progress->seen};
    b.sync();
    const auto keep = [&] {
        if (!states.kept) return;
        if (b.lane == 0) *m.progress = {result, next_try, curve.every, curve.seen};
        for (int i = b.lane; i < o.envs; i += b.lanes) m.next_keep[i] = m.rollout.keep[long(o.horizon) * o.envs + i];
        b.sync();
        copy_state(b, m, m.state, states.kept);
    };
    keep();

    const double start = wall_seconds() - result.seconds, cpu_start = cpu_seconds() - result.cpu_seconds;
    result.setup_seconds += start + result.seconds - called;
    enum Stop { go_on, cap, cancelled };
    const auto ask = [&] {
        if (b.lane == 0) *m.stop = control[1] != 0.0 ? cancelled : cpu_seconds() - cpu_start > control[0] ? cap : go_on;
        b.sync();
        const int answer = *m.stop;
        b.sync();
        return answer;
    };
    int stop = go_on;   // once it is not, an iteration may have been cut short, and nothing goes on from it
    const auto late = [&] {
        if (stop == go_on) stop = ask();
        return stop != go_on;
    };
    bool ended = false;
    const auto end = [&](Ending ending) {
        if (!ended) result.ending = ending;
        ended = true;
    };
    const auto end_at_limits = [&] {
        if (!ended && late()) {
            end(stop == cancelled ? Ending::cancelled : Ending::cap);
            result.cpu_seconds = cpu_seconds() - cpu_start;   // not less than the cap that was passed just now
            result.seconds = wall_seconds() - start;
        }
        if (max_env_steps > 0 && result.env_steps >= max_env_steps) end(Ending::step_limit);
    };
    if (states.from) end_at_limits();
    while (!ended) {
        const double before = wall_seconds();
        const bool played = play(b, m.player, m.weights, o.envs, o.horizon, m.rollout, m.acting, recent, late);
        const UpdateOptions u = options_at(o, result.env_steps);
        if (played) {
            result.env_steps += long(o.envs) * o.horizon;
            result.iterations++;
        }
        const double between = wall_seconds();
        result.rollout_seconds += between - before;
        const Learnt learnt =
            played ? update(b, m.player.shape, u, m.weights, m.rollout, m.update, *m.order_rng, late) : Learnt::yes;
        if (m.player.moments.mean) merge_moments(b, m.player);
        m.rollout.phases->mark(b, Phase::environment);
        const double after = wall_seconds();
        result.update_seconds += after - between;

        const int few = rule.episodes < 10 ? rule.episodes : 10;
        const auto mean_of = [&](const float* values) { return values && *m.episodes >= few ? double(recent.mean(values)) : NAN; };
        const auto better = [](double best, double mean) { return !std::isnan(mean) && !(best >= mean) ? mean : best; };
        result.mean_return = mean_of(m.recent);
        result.mean_metric = mean_of(m.recent_metrics);
        result.best_return = better(result.best_return, result.mean_return);
        result.best_metric = better(result.best_metric, result.mean_metric);
        const double mean = rule.on_metric ? result.mean_metric : result.mean_return;
        if (learnt == Learnt::loss_not_finite) end(Ending::loss_not_finite);
        if (learnt == Learnt::gradient_not_finite) end(Ending::gradient_not_finite);
        if (!ended && recent.full() && mean >= o.try_from && result.env_steps >= next_try && !late()) {
            if (result.evaluations == 0) {
                result.trigger_seconds = wall_seconds() - start;
                result.trigger_env_steps = result.env_steps;
            }
            m.rollout.phases->mark(b, Phase::rest);
            const uint64 fresh = mix(seed) + evaluation_stream + uint64(result.evaluations++);
            const long evaluated =
                evaluate(b, m.player, m.weights, fresh, rule.greedy != 0, m.evaluation, m.evaluated, m.evaluated_metrics, late);
            const auto frozen_mean = [&](const float* values) {
                return values ? double(sum_of(b, values, rule.episodes, m.update.optimizer.sums)) / rule.episodes : NAN;
            };
            const double frozen = frozen_mean(m.evaluated), frozen_metric = frozen_mean(m.evaluated_metrics);
            if (evaluated >= 0 && (rule.on_metric ? frozen_metric : frozen) >= rule.target) {
                result.mean_return = frozen;
                result.mean_metric = frozen_metric;
                end(Ending::solved);
            }
            next_try = 1.05 * double(result.env_steps);
            result.evaluation_seconds += wall_seconds() - after;
            m.rollout.phases->mark(b, Phase::evaluation);
        }
        m.rollout.phases->mark(b, Phase::rest);
        const double cpu = cpu_seconds() - cpu_start;
        m.rollout.phases->share_out(b, cpu - result.cpu_seconds, result.phases);
        result.cpu_seconds = cpu;
        result.seconds = wall_seconds() - start;
        if (!ended && stop == go_on) {
            curve.add();
            keep();
        }
        end_at_limits();
    }
    curve.finish();
}

}  // namespace sweep
