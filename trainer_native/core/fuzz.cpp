// Plays a compiled environment with random actions; writes what it does wrong and what a policy would see.
//
// A program of its own, best linked with the sanitizers that the environment's library is built with:
//   fuzz LIBRARY PART env_steps copies seed hang_seconds
// It is compiled without them: the environment is watched, not this program.
// Each copy's State and each observation lies between guards of its own, so that a write beyond either is seen here and,
// under an address sanitizer, with the line that does it. One JSON object per line goes to stdout as soon as it is known,
// since the environment may end the process. trainer_native/fuzz.py builds this, runs its parts and reads the lines.
#include "fuzz_seed.h"

namespace {

// -- how fast it is --------------------------------------------------------------------------------------------------

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Env steps per CPU second as in training: copies side by side, each step observed, ended ones reset.
void speed(double seconds, int n, uint64 seed) {
    const Params p = default_params();
    const int size = game->state_size;
    std::vector<unsigned char> states(size_t(size) * n), seen(size_t(game->observation_size) * observation_bytes_each * n);
    std::vector<Outcome> outcomes(n);
    std::vector<Rng> rngs;
    for (int i = 0; i < n; i++) rngs.push_back(stream(seed, i));
    constexpr int rows = 64;
    const size_t action_bytes = 4 * size_t(game->action_count);
    std::vector<unsigned char> actions(rows * n * action_bytes);
    Rng choice = stream(seed, 1ull << 41);
    for (int i = 0; i < rows * n; i++) some_action(actions.data() + i * action_bytes, choice);
    game->reset(states.data(), p.bytes.data(), rngs.data(), n);
    long env_steps = 0;
    const double start = cpu_seconds();
    double used = 0.0;
    while (used < seconds) {
        for (int row = 0; row < rows; row++, env_steps += n) {
            enter("step");
            game->step(states.data(), p.bytes.data(), actions.data() + row * n * action_bytes, rngs.data(), outcomes.data(), n);
            for (int i = 0; i < n; i++)
                if (outcomes[i].terminated || outcomes[i].truncated)
                    game->reset(states.data() + size_t(i) * size, p.bytes.data(), &rngs[i], 1);
            game->observe(states.data(), p.bytes.data(), seen.data(), game->observation_size, n);
        }
        used = cpu_seconds() - start;
    }
    say("{\"env_steps_per_second\": %s, \"copies\": %d}", number(env_steps / used).c_str(), n);
}

void describe() {
    say("{\"abi\": %d, \"observation_size\": %d, \"bytes\": %s, \"image\": [%d, %d, %d], \"actions\": %d, \"action_count\": %d, "
        "\"continuous\": %s, \"longest_episode\": %d, \"state_bytes\": %d, \"params\": %d}",
        game->abi, game->observation_size, game->observation_bytes ? "true" : "false", game->image.height, game->image.width,
        game->image.channels, game->actions, game->action_count, game->choices ? "false" : "true", game->longest_episode,
        game->state_size, game->params_fields);
}

}  // namespace

int main(int count, char** words) {
    if (count != 7) return 5;
    const std::string part = words[2];
    const long env_steps = atol(words[3]);
    const int copies = atoi(words[4]);
    const uint64 seed = strtoull(words[5], nullptr, 10);
    hang_limit = atoi(words[6]);

    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    report = dup(1);   // what the header prints goes nowhere
    dup2(open("/dev/null", O_WRONLY), 1);
    void* library = dlopen(words[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 6;
    }
    game = reinterpret_cast<const EnvironmentTable* (*)()>(dlsym(library, "sweep_environment"))();
    observation_bytes_each = game->observation_bytes ? 1 : 4;
    watch();
    const char* trap = getenv("SWEEP_TRAP");
    trapped = !trap ? 0 : strcmp(trap, "nan") == 0 ? FE_INVALID : strcmp(trap, "infinite") == 0 ? FE_DIVBYZERO | FE_OVERFLOW : 0;
    if (part == "describe") describe();
    else if (part == "play") play(env_steps, copies, seed);
    else if (part == "params") play_params(env_steps, copies, seed);
    else if (part == "after") play_on(env_steps, copies, seed);
    else if (part == "repeat") repeat(env_steps, copies, seed);
    else if (part == "fills") fills(env_steps, copies, seed);
    else if (part == "speed") speed(1e-3 * env_steps, copies, seed);
    else return 5;
    say("{\"ended\": \"%s\"}", part.c_str());
    _exit(0);   // at once: no code of the header runs any more
}
