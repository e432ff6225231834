// The trainer's Python face: numbers in, a dict out, the GIL released while it trains.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cores.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sweep_core;

namespace {

using Floats = nb::ndarray<nb::numpy, float>;
using ControlArray = nb::ndarray<double, nb::shape<2>, nb::c_contig, nb::device::cpu>;
template <int dimensions>
using ConstArray = nb::ndarray<const float, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using WeightArray = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

bool runs_here(const std::string& isa) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    // By feature: older Clangs do not know the levels by name.
    const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (isa == "x86-64-v2") return v2;
    if (isa == "x86-64-v3") return v3;
    if (isa == "x86-64-v4")
        return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return isa == "plain";
}

const Core& core_named(const std::string& isa) {
    for (const CoreOf& of : built)
        if (isa == of()->name) return *of();
    throw nb::value_error(("no trainer was built for " + isa).c_str());
}

// An array that owns its floats.
template <class T> nb::ndarray<nb::numpy, T> owned(std::vector<T>&& values, const std::vector<size_t>& shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner);
}

// Params as options_from asks for them.
struct Given {
    const nb::dict& params;
    template <class T> T get(const char* name) const { return nb::cast<T>(params[name]); }
    int integer(const char* name) const { return get<int>(name); }
    double number(const char* name) const { return get<double>(name); }
    bool flag(const char* name) const { return get<bool>(name); }
    std::string word(const char* name) const { return get<std::string>(name); }
};

const Game* game_at(size_t address) { return reinterpret_cast<const Game*>(address); }
const sweep::EnvironmentTable& table_of(const Game* game) { return *reinterpret_cast<const sweep::EnvironmentTable*>(game); }

nb::object maybe(double value) { return std::isnan(value) ? nb::object(nb::none()) : nb::object(nb::float_(value)); }

const char* name_of(Ending ending) {
    switch (ending) {
        case Ending::solved: return "solved";
        case Ending::cap: return "cap";
        case Ending::step_limit: return "step_limit";
        case Ending::cancelled: return "cancelled";
        case Ending::loss_not_finite: return "loss_not_finite";
        case Ending::gradient_not_finite: return "gradient_not_finite";
        case Ending::no_memory: break;
    }
    return "no_memory";
}

nb::dict train(const std::string& isa, size_t table, nb::bytes params, nb::dict options, unsigned long long seed,
               double target, bool on_metric, int episodes, bool greedy, long long max_env_steps, ControlArray control,
               std::optional<nb::bytes> state, bool keep_state) {
    const Core& core = core_named(isa);
    const Options o = options_from(Given{options});
    const Game* game = game_at(table);
    const SolveRule rule = {static_cast<float>(target), on_metric, episodes, greedy};
    const size_t size = table_of(game).observation_size;
    std::vector<float> weights(core.parameters(game, o)), normaliser(2 * size);
    const size_t state_size = core.sizes(game, o, episodes).state;
    if (state && state->size() != state_size) throw nb::value_error("a state of another size");
    const nb::object kept = keep_state ? nb::steal(PyBytes_FromStringAndSize(nullptr, state_size)) : nb::none();
    if (!kept.is_valid()) throw nb::python_error();
    const States states = {state ? state->c_str() : nullptr, keep_state ? PyBytes_AS_STRING(kept.ptr()) : nullptr};
    Result r = {};
    {
        nb::gil_scoped_release released;
        core.train(game, params.c_str(), o, seed, rule, max_env_steps, control.data(), states, weights.data(),
                   normaliser.data(), r);
    }
    std::vector<double> curve(&r.curve[0][0], &r.curve[0][0] + 4 * r.points);
    nb::dict d;
    d["ending"] = name_of(r.ending);
    d["seconds"] = r.seconds;
    d["cpu_seconds"] = r.cpu_seconds;
    d["setup_seconds"] = r.setup_seconds;
    d["rollout_seconds"] = r.rollout_seconds;
    d["update_seconds"] = r.update_seconds;
    d["evaluation_seconds"] = r.evaluation_seconds;
    nb::dict phases;
    for (int i = 0; i < sweep::phases; i++) phases[sweep::phase_names[i]] = r.phases[i];
    d["phases"] = phases;
    d["env_steps"] = r.env_steps;
    d["iterations"] = r.iterations;
    d["evaluations"] = r.evaluations;
    d["trigger_seconds"] = r.evaluations ? nb::object(nb::float_(r.trigger_seconds)) : nb::object(nb::none());
    d["trigger_env_steps"] = r.evaluations ? nb::object(nb::int_(r.trigger_env_steps)) : nb::object(nb::none());
    d["mean_return"] = maybe(r.mean_return);
    d["best_return"] = maybe(r.best_return);
    d["mean_metric"] = maybe(r.mean_metric);
    d["best_metric"] = maybe(r.best_metric);
    d["curve"] = owned(std::move(curve), {size_t(r.points), 4});
    const size_t parameters = weights.size();
    d["weights"] = owned(std::move(weights), {parameters});
    d["normaliser"] = owned(std::move(normaliser), {2, size});
    d["state"] = kept;
    return d;
}

nb::tuple sizes(const std::string& isa, size_t table, nb::dict options, int episodes) {
    const Sizes s = core_named(isa).sizes(game_at(table), options_from(Given{options}), episodes);
    return nb::make_tuple(s.state, s.all, s.layout);
}

nb::tuple evaluate(const std::string& isa, size_t table, nb::bytes params, nb::dict options, WeightArray weights,
                   WeightArray normaliser, unsigned long long seed, int episodes, bool greedy, ControlArray control) {
    const Core& core = core_named(isa);
    const Options o = options_from(Given{options});
    const bool has_metric = table_of(game_at(table)).metric;
    std::vector<double> returns(episodes), metrics(has_metric ? episodes : 0);
    long long env_steps;
    {
        nb::gil_scoped_release released;
        env_steps = core.evaluate(game_at(table), params.c_str(), o, weights.data(), normaliser.data(), seed, episodes,
                                  greedy, control.data(), returns.data(), metrics.data());
    }
    const size_t count = metrics.size();
    return nb::make_tuple(env_steps, owned(std::move(returns), {size_t(episodes)}),
                          has_metric ? nb::cast(owned(std::move(metrics), {count})) : nb::none());
}

// Actions of a rollout as tests get them: discrete ones as int32, continuous ones, before they are clipped or squashed, as
// float32.
struct ActionArrays {
    size_t numbers;   // of an action
    bool continuous;
    std::vector<int> chosen;
    std::vector<float> drawn;

    ActionArrays(const sweep::EnvironmentTable& game, size_t rows)
        : numbers(game.action_count), continuous(game.action_bounds != nullptr), chosen(continuous ? 0 : rows * numbers),
          drawn(continuous ? rows * numbers : 0) {}
    nb::object array(std::vector<size_t> shape) {
        if (continuous || numbers > 1) shape.push_back(numbers);
        return continuous ? nb::cast(owned(std::move(drawn), shape)) : nb::cast(owned(std::move(chosen), shape));
    }
};

// What the functions that tests call are asked about.
struct Asked {
    const Core& core;
    const Options o;
    const Game* game;
    size_t inputs;
    int state_layers, state_floats;   // a sequence's state: [state_layers, state_floats]

    Asked(const std::string& isa, size_t table, const nb::dict& options)
        : core(core_named(isa)), o(options_from(Given{options})), game(game_at(table)),
          inputs(table_of(game).observation_size + (o.constant_input ? 1 : 0)) {
        core.state_shape(game, o, &state_layers, &state_floats);
    }
};

nb::dict check(const std::string& isa, size_t table, nb::bytes params, nb::dict options, unsigned long long seed,
               WeightArray acting, WeightArray weights) {
    const auto [core, o, game, inputs, layers, floats] = Asked(isa, table, options);
    const size_t n = o.envs, t = o.horizon, h = floats, l = layers;
    std::vector<float> observations(n * t * inputs), log_p(n * t), values((t + 1) * n), rewards(n * t), ended(n * t),
        keep(n * t), advantages(n * t), ratios(n * t), states(l * n * h), gradient(core.parameters(game, o));
    ActionArrays actions(table_of(game), n * t);
    Check out = {observations.data(), actions.chosen.data(), actions.drawn.data(), log_p.data(), values.data(), rewards.data(), ended.data(),
                 keep.data(), advantages.data(), ratios.data(), states.data(), gradient.data(), 0.0};
    core.check(game, params.c_str(), o, seed, acting.data(), weights.data(), out);
    nb::dict d;
    d["observations"] = owned(std::move(observations), {n, t, inputs});
    d["actions"] = actions.array({t, n});
    d["log_probabilities"] = owned(std::move(log_p), {t, n});
    d["values"] = owned(std::move(values), {t + 1, n});
    d["rewards"] = owned(std::move(rewards), {t, n});
    d["ended"] = owned(std::move(ended), {t, n});
    d["keep"] = owned(std::move(keep), {t, n});
    d["advantages"] = owned(std::move(advantages), {t, n});
    d["ratios"] = owned(std::move(ratios), {t, n});
    d["first_states"] = owned(std::move(states), {l, n, h});
    const size_t parameters = gradient.size();
    d["gradient"] = owned(std::move(gradient), {parameters});
    d["loss"] = out.loss;
    return d;
}

nb::tuple state_shape(const std::string& isa, size_t table, nb::dict options) {
    const Asked asked(isa, table, options);
    return nb::make_tuple(asked.state_layers, asked.state_floats);
}

nb::tuple forward(const std::string& isa, size_t table, nb::dict options, WeightArray weights, ConstArray<3> observations,
                  ConstArray<2> keep, ConstArray<3> states) {
    const auto [core, o, game, inputs, layers, floats] = Asked(isa, table, options);
    const size_t steps = keep.shape(0), sequences = keep.shape(1), outputs = table_of(game).actions + 1;
    if (observations.shape(0) != sequences || observations.shape(1) != steps || observations.shape(2) != inputs ||
        states.shape(0) != size_t(layers) || states.shape(1) != sequences || states.shape(2) != size_t(floats) ||
        weights.size() != size_t(core.parameters(game, o)))
        throw nb::value_error("observations [N, T, inputs], keep [T, N], states [layers, N, state] and weights do not fit");
    std::vector<float> after(states.data(), states.data() + states.size()), logits(steps * sequences * outputs);
    if (!core.forward(game, o, int(steps), int(sequences), weights.data(), observations.data(), keep.data(), after.data(),
                      logits.data()))
        throw std::bad_alloc();
    return nb::make_tuple(owned(std::move(logits), {steps, sequences, outputs}),
                          owned(std::move(after), {size_t(layers), sequences, size_t(floats)}));
}

nb::dict iterate(const std::string& isa, size_t table, nb::bytes params, nb::dict options, unsigned long long seed,
                 WeightArray weights, size_t iterations) {
    const auto [core, o, game, inputs, layers, floats] = Asked(isa, table, options);
    const size_t n = o.envs, t = o.horizon, h = floats, l = layers, i = iterations, count = (o.transitions ? n * t : n) / o.minibatches;
    const size_t steps = core.gradient_steps(o), parameters = core.parameters(game, o);
    std::vector<float> observations(i * n * t * inputs), log_p(i * n * t), values(i * (t + 1) * n), rewards(i * n * t),
        ended(i * n * t), keep(i * n * t), states(i * l * n * h), order_weights(i * steps * count),
        after(i * steps * parameters);
    ActionArrays actions(table_of(game), i * n * t);
    std::vector<int> order(i * steps * count);
    std::vector<double> moments(i * 3);
    Iterations out = {observations.data(), actions.chosen.data(), actions.drawn.data(), log_p.data(), values.data(), rewards.data(), ended.data(),
                      keep.data(), states.data(), order.data(), order_weights.data(), after.data(), moments.data()};
    core.iterate(game, params.c_str(), o, seed, weights.data(), int(iterations), out);
    nb::dict d;
    d["observations"] = owned(std::move(observations), {i, n, t, inputs});
    d["actions"] = actions.array({i, t, n});
    d["log_probabilities"] = owned(std::move(log_p), {i, t, n});
    d["values"] = owned(std::move(values), {i, t + 1, n});
    d["rewards"] = owned(std::move(rewards), {i, t, n});
    d["ended"] = owned(std::move(ended), {i, t, n});
    d["keep"] = owned(std::move(keep), {i, t, n});
    d["first_states"] = owned(std::move(states), {i, l, n, h});
    d["order"] = owned(std::move(order), {i, steps, count});
    d["order_weights"] = owned(std::move(order_weights), {i, steps, count});
    d["weights"] = owned(std::move(after), {i, steps, parameters});
    d["rewards_moments"] = owned(std::move(moments), {i, 3});
    return d;
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The native trainer, once per instruction set; see trainer.py";
    m.attr("compiler") = compiler;
    m.def("instruction_sets", [] {
        std::vector<std::string> names;
        for (const CoreOf& of : built) names.push_back(of()->name);
        return names;
    }, "Names of the instruction sets that were built, the plainest first.");
    m.def("runs_here", &runs_here, "isa"_a, "Whether this processor has the instruction set.");
    m.def("has_fma", [](const std::string& isa) { return core_named(isa).has_fma != 0; }, "isa"_a);
    m.def("train", &train, "isa"_a, "table"_a, "params"_a, "options"_a, "seed"_a, "target"_a, "on_metric"_a, "episodes"_a,
          "greedy"_a, "max_env_steps"_a, "control"_a, "state"_a = nb::none(), "keep_state"_a = false);
    m.def("sizes", &sizes, "Bytes of a run's state and of all its memory, and a fingerprint of what lies where in the state.");
    m.def("evaluate", &evaluate);
    m.def("peak_flops", [](const std::string& isa) { return core_named(isa).peak_flops(); }, "isa"_a,
          "Multiply-adds of this core, counted as two FLOP each, per second.");
    m.def("environment_seconds",
          [](const std::string& isa, size_t table, nb::bytes params, int envs, int rounds, unsigned long long seed) {
              return core_named(isa).environment_seconds(game_at(table), params.c_str(), envs, rounds, seed);
          },
          "CPU seconds of rounds env steps of envs copies with random actions, observations included.");
    m.def("check", &check);
    m.def("state_shape", &state_shape, "Layers that have a state, of all towers, and the floats of it.");
    m.def("forward", &forward, "Logits and values [T, N, actions + 1], and the states after: T steps of N sequences.");
    m.def("iterate", &iterate);
}
