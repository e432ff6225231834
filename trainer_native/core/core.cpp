// The trainer for one instruction set. Compiled once per instruction set, each time with another name for the namespace
// `sweep` (-Dsweep=…), so that the linker never takes a function of one for that of another.
#include "core.h"

#include <cstdlib>
#include <initializer_list>

#include "run.h"
#include "vector.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

using namespace sweep;
using sweep_core::Check;
using sweep_core::Control;
using sweep_core::Game;
using sweep_core::Iterations;
using sweep_core::Result;
using sweep_core::Sizes;
using sweep_core::SolveRule;
using sweep_core::States;

const EnvironmentTable& table(const Game* game) { return *reinterpret_cast<const EnvironmentTable*>(game); }

// One denormal mode and rounding for every run, whatever another library left in this thread.
struct PlainFloats {
#if defined(__SSE2__)
    unsigned before = _mm_getcsr();
    PlainFloats() { _mm_setcsr(0x1F80); }
    ~PlainFloats() { _mm_setcsr(before); }
#elif defined(__aarch64__)
    unsigned long before;
    PlainFloats() {
        asm volatile("mrs %0, fpcr" : "=r"(before));
        asm volatile("msr fpcr, %0" : : "r"(0ul));
    }
    ~PlainFloats() { asm volatile("msr fpcr, %0" : : "r"(before)); }
#endif
};

// The memory of this thread's runs, kept from one to the next: pages are asked for once. What a huge run took goes back.
struct Memory {
    static constexpr size_t huge_page = size_t(1) << 21, most_kept = size_t(64) << 20;
    char* base = nullptr;
    size_t size = 0;
    ~Memory() { give_back(); }

    void give_back() {
        std::free(base);
        base = nullptr;
        size = 0;
    }
    char* of(size_t needed) {
        if (needed <= size) return base;
        give_back();
        needed = (needed + huge_page - 1) & ~(huge_page - 1);
        base = static_cast<char*>(std::aligned_alloc(huge_page, needed));
        if (!base) return nullptr;
        size = needed;
#if defined(__linux__)
        madvise(base, size, MADV_HUGEPAGE);   // a few page faults before the first env step instead of thousands
#endif
        return base;
    }
};
thread_local Memory memory;

// Stands in each function that uses `memory`.
struct KeepsLittle {
    ~KeepsLittle() {
        if (memory.size > Memory::most_kept) memory.give_back();
    }
};

// Lays out twice: once to count, once in memory.
template <class LayOut> bool in_memory(LayOut lay_out_in) {
    Arena counting;
    lay_out_in(counting);
    Arena arena = {memory.of(counting.used)};
    if (!arena.base) return false;
    open_field(arena.base, counting.used);
    lay_out_in(arena);
    return true;
}

// Between rows padded for the products and plain ones.
void unpad(const Shape& n, const float* weights, float* plain) {
    each_matrix(n, [&](const Matrix& m) {
        for (int i = 0; i < m.rows; i++)
            for (int j = 0; j < m.columns; j++) *plain++ = weights[m.at + long(i) * m.padded_columns + m.first_column + j];
    });
}
void pad(const Shape& n, const float* plain, float* weights) {
    for (long i = 0; i < n.weights(); i++) weights[i] = 0.0f;
    each_matrix(n, [&](const Matrix& m) {
        for (int i = 0; i < m.rows; i++)
            for (int j = 0; j < m.columns; j++) weights[m.at + long(i) * m.padded_columns + m.first_column + j] = *plain++;
    });
}

long parameters(const Game* game, const Options& o) { return parameters_of(shape_of(table(game), o)); }

Sizes sizes(const Game* game, const Options& o, int episodes) {
    Arena counting;
    const RunMemory m = lay_out(counting, table(game), nullptr, o, episodes);
    return {m.state_bytes, static_cast<long long>(counting.used), m.state_layout};
}

void run_training(const Game* game, const void* params, const Options& o, unsigned long long seed, const SolveRule& rule,
                  long long max_env_steps, Control control, States states, float* weights, float* normaliser,
                  Result& result) {
    const double called = wall_seconds();
    [[maybe_unused]] const PlainFloats plain;
    const KeepsLittle after;
    RunMemory m;
    if (!in_memory([&](Arena& a) { m = lay_out(a, table(game), params, o, rule.episodes); })) {
        result.ending = Ending::no_memory;
        return;
    }
    on_lanes([&](Block b) {
        Result own;
        train(b, m, o, seed, rule, max_env_steps, control, called, states, b.lane == 0 ? result : own);
    });
    unpad(m.player.shape, m.weights, weights);
    const int size = table(game).observation_size;
    for (int i = 0; i < size; i++) {
        normaliser[i] = m.player.normaliser.scale[i];
        normaliser[size + i] = m.player.normaliser.shift[i];
    }
}

long long run_evaluation(const Game* game, const void* params, const Options& o, const float* weights,
                         const float* normaliser, unsigned long long seed, int episodes, int greedy, Control control,
                         double* returns, double* metrics) {
    [[maybe_unused]] const PlainFloats plain;
    const KeepsLittle after;
    Player p = {};
    p.game = &table(game);
    p.params = params;
    p.shape = shape_of(*p.game, o);
    EvaluationRoom room;
    float *padded_weights, *results, *result_metrics;
    if (!in_memory([&](Arena& a) {
            take_normaliser(a, p, o.normalise_inputs == 2);
            padded_weights = a.take<float>(p.shape.weights());
            results = a.take<float>(episodes);
            result_metrics = a.take<float>(p.game->metric ? episodes : 0);
            room = take_evaluation_room(a, p.shape, p.game->state_size, episodes);
        }))
        return -2;
    const int size = p.game->observation_size;
    set_normaliser_by_bounds(alone(), p, false);
    for (int i = 0; i < size; i++) {
        p.normaliser.scale[i] = normaliser[i];
        p.normaliser.shift[i] = normaliser[size + i];
    }
    find_normalised_span(p);
    pad(p.shape, weights, padded_weights);
    const double start = cpu_seconds();
    const auto stopped = [&] { return control[1] != 0.0 || cpu_seconds() - start > control[0]; };
    const long steps = evaluate(Block{}, p, padded_weights, seed, greedy != 0, room, results, result_metrics, stopped);
    for (int i = 0; i < episodes; i++) returns[i] = results[i];
    if (p.game->metric)
        for (int i = 0; i < episodes; i++) metrics[i] = result_metrics[i];
    return steps;
}

double peak_flops() {
    constexpr int sums = registers == 32 ? 24 : 12;
    constexpr long rounds = 4000000;
    wide sum[sums];
    for (wide& s : sum) s = broadcast<wide>(1.0f);
    const wide a = broadcast<wide>(0.999f), b = broadcast<wide>(0.001f);
    const double start = cpu_seconds();
    for (long i = 0; i < rounds; i++) {
#pragma GCC unroll 24
        for (int j = 0; j < sums; j++) sum[j] = fma(sum[j], a, b);
    }
    const double seconds = cpu_seconds() - start;
    volatile float kept = 0.0f;
    float parts[width<wide>];
    for (const wide& s : sum) {
        store(parts, s);
        kept = kept + parts[0];
    }
    return double(rounds) * sums * width<wide> * 2 / seconds;
}

double environment_seconds(const Game* game, const void* params, int envs, int rounds, unsigned long long seed) {
    const EnvironmentTable& t = table(game);
    char* games;
    Rng* rngs;
    float* actions;   // or int32: as wide
    float* observations;
    Outcome* outcomes;
    if (!in_memory([&](Arena& a) {
            games = a.take<char>(long(envs) * t.state_size);
            rngs = a.take<Rng>(envs);
            actions = a.take<float>(long(envs) * t.action_count);
            observations = a.take<float>(long(envs) * t.observation_size);
            outcomes = a.take<Outcome>(envs);
        }))
        return -1.0;
    for (int i = 0; i < envs; i++) rngs[i] = stream(seed, i);
    t.reset(games, params, rngs, envs);
    Rng rng = stream(seed, envs);
    const double start = cpu_seconds();
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < envs * t.action_count; i++) {
            const int j = t.action_count == 1 ? 0 : i % t.action_count;
            if (t.choices) reinterpret_cast<int*>(actions)[i] = rng.below(t.choices[j]);
            else actions[i] = rng.uniform(float(t.action_bounds[j].low), float(t.action_bounds[j].high));
        }
        t.step(games, params, actions, rngs, outcomes, envs);
        for (int i = 0; i < envs; i++)
            if (outcomes[i].terminated || outcomes[i].truncated)
                t.reset(games + long(i) * t.state_size, params, rngs + i, 1);
        t.observe(games, params, observations, t.observation_size, envs);
    }
    return cpu_seconds() - start;
}

// Writes `count` values where `to` points, and moves it behind them.
template <class T> void write(T*& to, const auto* from, long count) {
    for (long i = 0; i < count; i++) *to++ = from[i];
}

// What tests see of a rollout, for Check and Iterations.
template <class Out> void write_rollout(const Shape& n, const Options& o, const Rollout& r, Out& out) {
    const long rows = long(o.envs) * o.horizon;
    for (long i = 0; i < rows; i++)
        for (int j = 0; j < n.inputs; j++) *out.observations++ = r.observations.get(i * n.stride() + j);
    if (n.continuous) write(out.drawn, r.actions.drawn, rows * n.action_count);
    else write(out.actions, r.actions.chosen, rows * n.action_count);
    write(out.log_probabilities, r.log_probabilities, rows);
    write(out.values, r.values, rows + o.envs);
    write(out.rewards, r.rewards, rows);
    write(out.ended, r.ended, rows);
    write(out.keep, r.keep, rows);
    write(out.first_states, r.first_states, n.states(o.envs));
}

void check(const Game* game, const void* params, const Options& o, unsigned long long seed, const float* acting,
           const float* weights, Check& out) {
    [[maybe_unused]] const PlainFloats plain;
    RunMemory m;
    Options whole = o;
    whole.minibatches = 1;
    whole.transitions = 0;
    whole.vtrace = 1;   // for the ratios
    if (!in_memory([&](Arena& a) { m = lay_out(a, table(game), params, whole, 1); })) return;
    const Block b = {};
    begin(b, m, whole, seed);
    const Shape& n = m.player.shape;
    const RecentEpisodes recent = {m.recent, m.recent_metrics, m.episodes, 1};
    pad(n, acting, m.weights);
    // Two rollouts, so that the second starts in the middle of episodes and from states that are not zero.
    play(b, m.player, m.weights, o.envs, o.horizon, m.rollout, m.acting, recent, [] { return false; });
    play(b, m.player, m.weights, o.envs, o.horizon, m.rollout, m.acting, recent, [] { return false; });
    const UpdateOptions u = options_at(whole, 0);
    advantages_of(b, o.horizon, o.envs, o.gamma, o.gae_lambda, m.rollout.rewards, m.rollout.ended,
                  m.rollout.values, nullptr, 1.0f, 1.0f, m.rollout.advantages);
    for (int i = 0; i < o.envs; i++) m.update.order[i] = i;
    gather_targets(b, m.rollout, n.action_count, u, m.update, m.update.order, o.envs, m.rollout.values);
    if (o.normalise_advantages) normalise_advantages(b, m.update.targets.advantages, long(o.envs) * o.horizon, m.update.optimizer.sums);
    pad(n, weights, m.weights);
    out.loss = minibatch_gradient(b, n, u, m.weights, m.rollout, m.update, m.update.order, o.envs, true);
    unpad(n, m.update.gradients, out.gradient);
    write_rollout(n, o, m.rollout, out);
    write(out.advantages, m.rollout.advantages, long(o.envs) * o.horizon);
    long row = 0;
    for (int start = 0; start < o.envs; start += m.update.sequences)
        for (int t = 0; t < o.horizon; t++)
            for (int s = start; s < start + m.update.sequences && s < o.envs; s++)
                out.ratios[long(t) * o.envs + s] = m.update.row_ratios[row++];
}

void state_shape(const Game* game, const Options& o, int* layers, int* floats) {
    const Shape n = shape_of(table(game), o);
    *layers = n.state_layers();
    *floats = n.state();
}

bool forward(const Game* game, const Options& o, int steps, int sequences, const float* weights, const float* observations,
             const float* keep, float* states, float* logits) {
    [[maybe_unused]] const PlainFloats plain;
    const Shape n = shape_of(table(game), o);
    const long rows = long(steps) * sequences;
    float* padded_weights;
    Sight seen;
    int* order;
    Activations a;
    if (!in_memory([&](Arena& memory) {
            padded_weights = memory.take<float>(n.weights());
            seen = take_sight(memory, n, rows);
            order = memory.take<int>(sequences);
            a = take_activations(memory, n, int(rows));
        }))
        return false;
    pad(n, weights, padded_weights);
    for (long i = 0; i < rows; i++)
        for (int j = 0; j < n.stride(); j++) {
            const float x = j < n.inputs ? observations[i * n.inputs + j] : 0.0f;
            if (seen.bytes) seen.bytes[i * n.stride() + j] = uint8(x);
            else seen.floats[i * n.stride() + j] = x;
        }
    for (int i = 0; i < sequences; i++) order[i] = i;
    float* pointers[most_states];
    layer_pointers(n, states, sequences, 0, pointers);
    if (steps == 1)
        look(Block{}, n, padded_weights, sequences, seen, n.stride(), keep, pointers, pointers, a);
    else
        network_forward(Block{}, n, padded_weights, steps, sequences, {seen, n.stride(), long(n.stride()) * steps, order},
                        keep, pointers, pointers, a);
    for (long i = 0; i < rows; i++)
        for (int j = 0; j <= n.actions; j++) *logits++ = a.logits[i * n.outputs() + j];
    return true;
}

void iterate(const Game* game, const void* params, const Options& o, unsigned long long seed, const float* weights,
             int iterations, Iterations& out) {
    [[maybe_unused]] const PlainFloats plain;
    RunMemory m;
    if (!in_memory([&](Arena& a) { m = lay_out(a, table(game), params, o, 1); })) return;
    const Block b = {};
    begin(b, m, o, seed);
    const Shape& n = m.player.shape;
    const Rollout& r = m.rollout;
    const RecentEpisodes recent = {m.recent, m.recent_metrics, m.episodes, 1};
    pad(n, weights, m.weights);
    const long rows = long(o.envs) * o.horizon;
    const int count = options_at(o, 0).sequences / o.minibatches;
    for (int iteration = 0; iteration < iterations; iteration++) {
        play(b, m.player, m.weights, o.envs, o.horizon, r, m.acting, recent, [] { return false; });
        write_rollout(n, o, r, out);
        if (m.player.rewards.moments) write(out.rewards_moments, m.player.rewards.moments, 3);
        int step = 0;
        const auto after_step = [&] {   // asked after each gradient step
            const int at = o.priority > 0.0f ? 0 : step % o.minibatches * count;
            write(out.order, m.update.order + at, count);
            if (o.priority > 0.0f) write(out.order_weights, m.update.sequence_weights, count);
            unpad(n, m.weights, out.weights);
            out.weights += parameters_of(n);
            step++;
            return false;
        };
        update(b, n, options_at(o, iteration * rows), m.weights, r, m.update, *m.order_rng, after_step);
        if (m.player.moments.mean) merge_moments(b, m.player);
    }
}

}  // namespace

#define SWEEP_JOIN_(a, b) a##b
#define SWEEP_JOIN(a, b) SWEEP_JOIN_(a, b)

extern "C" const sweep_core::Core* SWEEP_JOIN(core_of_, sweep)() {
    static const sweep_core::Core core = {SWEEP_ISA, sweep::has_fma, parameters, sizes, run_training, run_evaluation,
                                         state_shape, peak_flops, environment_seconds, check, forward, gradient_steps, iterate};
    return &core;
}
