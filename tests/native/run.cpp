// Short training runs without Python, for instruction sets, sanitizers and lanes that the module is not built for.
//
// Standard input: "name value" per line: every hyperparameter, and game, seed, mean_return, episodes, greedy,
// max_env_steps, lanes; an empty line starts the run. Standard output, per run: a hash of the final weights, the
// normaliser and what the policy then earns; the env steps, the last mean return, and how it ended.
#include "core.cpp"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

// SWEEP_GAMES: X(name) for each environment that is linked in.
#define X(name) extern "C" const sweep_core::Game* name##_environment();
SWEEP_GAMES
#undef X

namespace {

const Game* game_of(const std::string& name) {
#define X(known) \
    if (name == #known) return known##_environment();
    SWEEP_GAMES
#undef X
    std::fprintf(stderr, "no environment %s is linked in\n", name.c_str());
    std::exit(2);
}

struct Given {
    std::map<std::string, std::string> values;
    std::string word(const char* name) const {
        const auto found = values.find(name);
        if (found != values.end()) return found->second;
        std::fprintf(stderr, "%s is not given\n", name);
        std::exit(2);
    }
    double number(const char* name) const { return std::stod(word(name)); }
    long long integer(const char* name) const { return std::stoll(word(name)); }
    bool flag(const char* name) const { return word(name) == "True"; }
};

// FNV-1a over the bytes of floats.
unsigned long long hash_of(const std::vector<float>& floats, unsigned long long hash) {
    for (const float x : floats) {
        const uint32 bits = float_to_bits(x);
        for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ ((bits >> shift) & 255)) * 0x100000001B3ull;
    }
    return hash;
}

// As another library may leave a thread: denormal numbers count as zero, and rounding is upwards.
struct UnsettledFloats {
#if defined(__SSE2__)
    unsigned before = _mm_getcsr();
    UnsettledFloats() { _mm_setcsr(before | 0xC040); }
    ~UnsettledFloats() { _mm_setcsr(before); }
#elif defined(__aarch64__)
    UnsettledFloats() { asm volatile("msr fpcr, %0" : : "r"(0x1400000ul)); }
    ~UnsettledFloats() { asm volatile("msr fpcr, %0" : : "r"(0ul)); }
#endif
};

void run(const Given& given) {
    const Game* game = game_of(given.word("game"));
    const sweep_core::Core& core = *core_of_sweep();
    const Options o = sweep_core::options_from(given);
    const SolveRule rule = {float(given.number("mean_return")), table(game).metric != nullptr, int(given.integer("episodes")), given.flag("greedy")};
    const double control[2] = {1e30, 0.0};
    // Exactly as long as they have to be, so that a sanitizer sees one float too far.
    std::vector<float> weights(core.parameters(game, o)), normaliser(2 * table(game).observation_size);
    static Result r;
    r = {};
#ifdef SWEEP_LANES_AS_THREADS
    sweep::lanes_of_a_block = int(given.integer("lanes"));
#endif
    [[maybe_unused]] const UnsettledFloats unsettled;
    // In two parts, the second going on from the state of the first.
    std::vector<char> half(core.sizes(game, o, rule.episodes).state);
    const auto train = [&](long long max_env_steps, sweep_core::States states) {
        core.train(game, table(game).default_params, o, given.integer("seed"), rule, max_env_steps, control, states,
                   weights.data(), normaliser.data(), r);
    };
    const long long max_env_steps = given.integer("max_env_steps");
    train(max_env_steps / 2 + 1, {nullptr, half.data()});
    if (r.ending == sweep_core::Ending::step_limit) train(max_env_steps, {half.data(), nullptr});
    // What the final policy then earns, the likeliest action always taken.
    std::vector<double> returns(3), metrics(3);
    core.evaluate(game, table(game).default_params, o, weights.data(), normaliser.data(), 1, int(returns.size()), 1,
                  control, returns.data(), metrics.data());
    std::vector<float> earned(returns.begin(), returns.end());
    if (table(game).metric) earned.insert(earned.end(), metrics.begin(), metrics.end());
    const unsigned long long hash = hash_of(earned, hash_of(normaliser, hash_of(weights, 0xCBF29CE484222325ull)));
    std::printf("%016llx %lld %.9g %d\n", hash, r.env_steps, r.mean_return, int(r.ending));
    std::fflush(stdout);
}

}  // namespace

int main() {
    Given given;
    for (std::string line; std::getline(std::cin, line);) {
        const size_t space = line.find(' ');
        if (space != std::string::npos) given.values[line.substr(0, space)] = line.substr(space + 1);
        else if (!given.values.empty()) run(std::exchange(given, {}));
    }
}
