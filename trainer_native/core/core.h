// What the bindings ask of a trainer built for one instruction set: plain structs and a table of functions.
//
// The bindings are compiled for every processor, the trainer once per instruction set; nothing but this crosses.
#pragma once

#include "environment.h"
#include "phases.h"

namespace sweep_core {

struct Options {
    int hidden, layers, cell, relu, biases, separate_value;   // cell: 0 mingru, 1 lstm, 2 mlp
    int constant_input, normalise_inputs;                     // normalise_inputs: 0 none, 1 bounds, 2 moments
    int filters;   // of a convolution under the encoder; 0: none
    int orthogonal;
    float policy_gain;
    int squashed;   // continuous actions: through a tanh; else clipped
    float log_std;
    int envs, horizon, epochs, minibatches;
    int transitions;   // minibatches of single transitions, not of whole sequences
    double replay_ratio;
    int normalise_rewards;
    float reward_clip, reward_scale;
    int bootstrap_truncated;
    float gamma, gae_lambda;
    int vtrace;
    float rho_clip, trace_clip;
    int normalise_advantages;
    float priority, priority_correction;
    float clip, value_coefficient, value_clip;
    int clipped_value_alone;
    float entropy_coefficient;
    int muon;
    float learning_rate, head_rate, momentum, second_momentum, adam_epsilon, weight_decay, gradient_norm;
    double anneal_steps;
    int cosine;
    double learning_rate_end, clip_end, entropy_end;   // shares of the first value
    float try_from;
};

struct SolveRule {
    float target;
    int on_metric;   // the target is of the mean metric, not of the mean return
    int episodes;
    int greedy;
};

// [0]: CPU seconds after which the run is stopped; [1]: not 0: stop now. Read once per iteration, so others may write.
using Control = const volatile double*;

enum class Ending { solved, cap, step_limit, cancelled, loss_not_finite, gradient_not_finite, no_memory };

constexpr int most_points = 128;

struct Result {
    Ending ending;
    double seconds, cpu_seconds, setup_seconds, rollout_seconds, update_seconds, evaluation_seconds;
    double phases[sweep::phases];  // CPU seconds; in sum cpu_seconds, where there is a clock for them
    long long env_steps, iterations, parameters;
    int evaluations;
    double trigger_seconds;        // negative: never tried
    long long trigger_env_steps;
    double mean_return, best_return;   // NaN: no episode ended yet, or too few
    double mean_metric, best_metric;   // NaN also where the game has none
    int points;
    double curve[most_points][4];  // cpu seconds, seconds, env steps, mean return (mean metric where that is solved on)
};

// A run's state, bytes that mean something to a core of the same layout: where a run goes on from (null: it begins), and
// where the state after each whole iteration goes (null: nowhere).
struct States {
    const char* from;
    char* kept;
};

// Bytes of a run's state and of all its memory, and a fingerprint of what lies where in the state.
struct Sizes {
    long long state, all;
    unsigned long long layout;
};

// Where `check` writes, [T, N] unless said otherwise.
struct Check {
    float* observations;   // [N, T, inputs]: as the network reads them
    int* actions;          // [T, N, k]: discrete ones
    float* drawn;          // [T, N, k]: continuous ones, before they are clipped or squashed
    float *log_probabilities, *values /* [T + 1, N] */, *rewards, *ended, *keep, *advantages, *ratios;
    float* first_states;   // [towers, layers, N, state]
    float* gradient;       // [parameters]
    double loss;           // mean over the rollout
};

// Where `iterate` writes, after each iteration, one beside the other: [iterations, ...]. Rollouts' arrays as in Check.
struct Iterations {
    float* observations;
    int* actions;
    float* drawn;
    float *log_probabilities, *values, *rewards, *ended, *keep, *first_states;
    int* order;             // [iterations, steps, sequences of a minibatch]: environments, or rows of a rollout (t · N + n)
    float* order_weights;   // as order: the weights that correct a prioritised draw; else left as it is
    float* weights;         // [iterations, steps, parameters]: after each gradient step
    double* rewards_moments;   // [iterations, 3]: count, mean and variance of the discounted return, where normalised
};

struct Game;      // an environment's table, which the trainer reads as sweep::EnvironmentTable

struct Core {
    const char* name;   // "x86-64-v3", "generic", ...
    int has_fma;
    // Floats of a network's weights as the functions below take them: each matrix [in, out] without padding, in order.
    long (*parameters)(const Game* game, const Options& options);
    Sizes (*sizes)(const Game* game, const Options& options, int episodes);
    // Trains until solved or stopped. weights [parameters] and normaliser [2, observation] (scale and shift of each
    // input) receive the final ones.
    void (*train)(const Game* game, const void* params, const Options& options, unsigned long long seed,
                  const SolveRule& rule, long long max_env_steps, Control control, States states, float* weights,
                  float* normaliser, Result& result);
    // `episodes` fresh episodes, each counted once: their returns, and their metrics where the game has one. Gives the env
    // steps; −1 where it was stopped, −2 where memory was short.
    long long (*evaluate)(const Game* game, const void* params, const Options& options, const float* weights,
                          const float* normaliser, unsigned long long seed, int episodes, int greedy, Control control,
                          double* returns, double* metrics);
    // How many layers of the network have a state, of all towers, and the floats of it.
    void (*state_shape)(const Game* game, const Options& options, int* layers, int* floats);
    // What the bounds of a benchmark are made of: FLOP per second of this core's multiply-adds, and CPU seconds of
    // `rounds` env steps of `envs` copies with random actions, observations included.
    double (*peak_flops)();
    double (*environment_seconds)(const Game* game, const void* params, int envs, int rounds, unsigned long long seed);
    // One rollout by `acting` weights, and the gradient of the loss over all of it at `weights`: what tests compare with
    // a reference. Arrays as described in rollout.h; gradient and weights as [in, out] without padding.
    void (*check)(const Game* game, const void* params, const Options& options, unsigned long long seed,
                  const float* acting, const float* weights, Check& out);
    // `steps` steps of the network: observations [sequences, steps, inputs] as the network reads them, keep [steps,
    // sequences], states [state layers, sequences, state floats] before and, on return, after; logits and values
    // [steps, sequences, actions + 1]. False where memory is short. One step is what acts, several what trains.
    bool (*forward)(const Game* game, const Options& options, int steps, int sequences, const float* weights,
                    const float* observations, const float* keep, float* states, float* logits);
    // Gradient steps of one iteration.
    int (*gradient_steps)(const Options& options);
    // Whole iterations, rollout and update, from `weights`: what a reference of the update is compared with.
    void (*iterate)(const Game* game, const void* params, const Options& options, unsigned long long seed,
                    const float* weights, int iterations, Iterations& out);
};

}  // namespace sweep_core
