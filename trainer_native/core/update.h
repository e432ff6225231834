// An update: gradient steps on one rollout, each on a minibatch of whole sequences of some environments, or of single
// transitions.
#pragma once

#include "rollout.h"

namespace sweep {

struct UpdateOptions {
    int envs, horizon;              // of the rollout
    int sequences, steps;           // what minibatches are drawn from: envs of `horizon` steps, or each transition as one
    int minibatches /* of one pass */, gradient_steps /* in all */;
    float gamma, lambda;
    bool vtrace;
    float rho_clip, trace_clip;
    bool normalise_advantages;
    float priority, priority_correction;
    LossOptions loss;
    OptimizerOptions optimizer;
};

struct UpdateRoom {
    int sequences;            // of one part of a minibatch: what fits the second-level cache
    Activations activations;  // of steps · sequences rows
    float* transposes;        // [towers, transposed_tower]
    float* gradients;         // [weights]
    float* carry;             // [sequences, state]
    float* states;            // [towers, layers, sequences, state]: the part's first states
    float* keep;              // [rows of a minibatch]
    Targets targets;          // [rows of a minibatch]
    float* row_ratios;        // [rows of a minibatch]
    float* row_values;
    Sight observations;       // [sequences, stride]: the part's transitions, side by side for the products; else null
    int* order;               // [sequences to draw from]: environments, or transitions (t · N + n)
    float* sequence_weights;  // [as order]: of each drawn sequence (by priority, as the next two)
    float *chances, *passed;  // [as order]; passed: the sums of the chances so far
    float* ratios;            // [T, N]: importance ratios so far (V-trace)
    float* values;            // [T + 1, N]: values so far (V-trace)
    OptimizerRoom optimizer;
};

// Sequences whose forward and backward pass stay within about 320 KB; of an LSTM at least what fills the products of each
// step, which pays more.
inline int sequences_per_part(const Shape& n, int steps, int per_minibatch) {
    const long floats_per_row = n.towers() * (n.x_floats() + n.gate_floats() + n.kept_floats()) + n.outputs();
    long sequences = 80000 / (floats_per_row * steps);
    const int least = n.cell == Cell::lstm ? 16 : 1;
    if (sequences < least) sequences = least;
    if (sequences >= per_minibatch) return per_minibatch;
    if (steps > 1) return int(sequences);
    // Single transitions come in order, however they are cut: parts of about one size leave no small one at the end.
    const int parts = int((per_minibatch + sequences - 1) / sequences);
    return padded((per_minibatch + parts - 1) / parts);
}

// visit(t, s, row) for each row of a minibatch of `count` sequences, in the order in which its parts take them.
template <class Visit> SWEEP_FN void each_row(Block b, int steps, int count, int part, Visit visit) {
    long row = 0;
    for (int start = 0; start < count; start += part) {
        const int sequences = count - start < part ? count - start : part;
        for (int t = 0; t < steps; t++, row += sequences)
            for (int s = b.lane; s < sequences; s += b.lanes) visit(t, start + s, row + s);
    }
}

// The rows of sequences order[0 .. count − 1], in the order in which the parts of a minibatch take them. Transitions are
// sequences of one step, and what numbers them is their place in a rollout's arrays.
inline void gather_targets(Block b, const Rollout& r, int k /* numbers of an action */, const UpdateOptions& o, const UpdateRoom& room, const int* order,
                           int count, const float* values) {
    const Targets& y = room.targets;
    const auto gather = [&](const auto& take_action) {
        each_row(b, o.steps, count, room.sequences, [&](int t, int s, long row) {
            const long i = long(t) * o.sequences + order[s];
            take_action(row, i);
            y.log_probabilities[row] = r.log_probabilities[i];
            y.values[row] = r.values[i];
            y.advantages[row] = r.advantages[i];
            y.returns[row] = r.advantages[i] + values[i];
            room.keep[row] = r.keep[i];
        });
        b.sync();
    };
    if (y.actions.drawn)
        gather([&](long row, long i) {
            for (int j = 0; j < k; j++) y.actions.drawn[row * k + j] = r.actions.drawn[i * k + j];
        });
    else if (k == 1)   // known at compile time
        gather([&](long row, long i) { y.actions.chosen[row] = r.actions.chosen[i]; });
    else
        gather([&](long row, long i) {
            for (int j = 0; j < k; j++) y.actions.chosen[row * k + j] = r.actions.chosen[i * k + j];
        });
}

inline void normalise_advantages(Block b, float* advantages, long rows, float* sums) {
    const float mean = sum_of(b, advantages, rows, sums) / float(rows);
    const float deviation = square_root(sum_of_squares(b, advantages, rows, sums, mean) / float(rows));
    const float scale = 1.0f / (deviation + 1e-8f);
    for (long i = b.lane; i < rows; i += b.lanes) advantages[i] = (advantages[i] - mean) * scale;
    b.sync();
}

// The observations of transitions order[0 .. count − 1], side by side.
inline Seen gather_observations(Block b, const Rollout& r, const UpdateOptions& o, const UpdateRoom& room, const int* order,
                                int count, long stride) {
    for (int s = b.lane; s < count; s += b.lanes) {
        const int t = order[s] / o.envs, n = order[s] % o.envs;
        const Sight from = r.observations.from((long(n) * o.horizon + t) * stride), to = room.observations.from(s * stride);
        if (from.bytes) copy_bytes(to.bytes, from.bytes, stride);
        else copy_bytes(to.floats, from.floats, stride * sizeof(float));
    }
    b.sync();
    return {room.observations, stride, stride, nullptr};
}

inline void clear(Block b, long count, float* x) {
    for (long i = b.lane; i < count; i += b.lanes) x[i] = 0.0f;
    b.sync();
}

// The gradient of the loss over sequences order[0 .. count − 1], whose targets are gathered. Gives the mean loss.
inline float minibatch_gradient(Block b, const Shape& n, const UpdateOptions& o, const float* weights, const Rollout& r,
                                const UpdateRoom& room, const int* order, int count, bool keep_ratios) {
    clear(b, n.weights(), room.gradients);
    if (n.continuous) clear(b, long(n.action_count) * Sum::size, room.targets.log_std_sums);
    make_transposes(b, n, weights, room.transposes);
    r.phases->mark(b, Phase::backward);
    const long stride = n.stride(), sequence = stride * o.steps;
    const float total = float(long(count) * o.steps);
    Sum loss;
    long row = 0;
    for (int start = 0; start < count; start += room.sequences) {
        const int sequences = count - start < room.sequences ? count - start : room.sequences;
        const int rows = sequences * o.steps;
        const Seen seen = room.observations.floats || room.observations.bytes ? gather_observations(b, r, o, room, order + start, sequences, stride)
                                            : Seen{r.observations, stride, sequence, order + start};
        Activations a = room.activations;
        a.rows = rows;
        float* states[most_states];
        layer_pointers(n, room.states, sequences, 0, states);
        const int layers = n.state_layers(), size = n.state();
        for (int l = 0; l < layers; l++)
            for (int s = 0; s < sequences; s++) {
                const float* __restrict from = r.first_states + (long(l) * o.envs + order[start + s]) * size;
                float* __restrict to = states[l] + long(s) * size;
                for (int j = b.lane; j < size; j += b.lanes) to[j] = from[j];
            }
        b.sync();
        network_forward(b, n, weights, o.steps, sequences, seen, room.keep + row, states, nullptr, a);
        r.phases->mark(b, Phase::forward);
        const Targets& y = room.targets;
        const Targets part = {y.actions.from(row * n.action_count), y.log_probabilities + row, y.values + row,
                              y.advantages + row, y.returns + row, keep_ratios ? room.row_ratios + row : nullptr,
                              room.row_values + row, y.log_std_sums};
        loss_gradient(b, n, o.loss, weights, rows, total, a.logits, part, loss);
        r.phases->mark(b, Phase::loss);
        network_backward(b, n, weights, room.transposes, o.steps, sequences, seen, room.keep + row, states, a, room.gradients,
                         room.carry);
        r.phases->mark(b, Phase::backward);
        row += rows;
    }
    clear_foreign_gradients(b, n, room.gradients);
    for (int j = 0; n.continuous && j < n.action_count; j++) {
        const float gradient = sum_of(b, room.targets.log_std_sums + j * Sum::size, Sum::size, room.optimizer.sums);
        if (b.lane == 0) room.gradients[n.log_stds() + j] = gradient;
        b.sync();
    }
    return loss.total(b, room.optimizer.sums) / total;
}

inline void shuffle(Block b, int* order, int count, Rng& rng) {
    if (b.lane == 0) {
        for (int i = 0; i < count; i++) order[i] = i;
        for (int i = count - 1; i > 0; i--) {
            const int j = rng.below(i + 1);
            const int swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
    }
    b.sync();
}

// Draws `count` sequences with replacement, with chance ∝ (Σ |A|)^priority, and the weights that correct for it,
// (N · chance)^−correction (Schaul et al., arXiv 1511.05952; whole sequences as in PufferLib).
inline void draw_by_priority(Block b, const Rollout& r, const UpdateOptions& o, const UpdateRoom& room, int count, Rng& rng) {
    for (int n = b.lane; n < o.sequences; n += b.lanes) room.chances[n] = 0.0f;
    for (int t = 0; t < o.steps; t++)
        for (int n = b.lane; n < o.sequences; n += b.lanes) {
            const float a = r.advantages[long(t) * o.sequences + n];
            room.chances[n] += a < 0.0f ? -a : a;
        }
    for (int n = b.lane; n < o.sequences; n += b.lanes) room.chances[n] = exp(o.priority * log(room.chances[n] + 1e-6f));
    b.sync();
    if (b.lane == 0) {
        float sum = 0.0f;
        for (int n = 0; n < o.sequences; n++) room.passed[n] = sum += room.chances[n];
        for (int i = 0; i < count; i++) {
            const float threshold = rng.uniform() * sum;
            int first = 0, last = o.sequences - 1;   // the first whose sum passes the threshold lies between them
            while (first < last) {
                const int middle = (first + last) / 2;
                if (threshold < room.passed[middle]) last = middle;
                else first = middle + 1;
            }
            room.order[i] = first;
        }
    }
    b.sync();
    const float sum = room.passed[o.sequences - 1];
    for (int i = b.lane; i < count; i += b.lanes)
        room.sequence_weights[i] = exp(-o.priority_correction * log(float(o.sequences) * (room.chances[room.order[i]] / sum)));
    b.sync();
}

enum class Learnt { yes, loss_not_finite, gradient_not_finite };

// All gradient steps of one rollout: passes over it, each in a new order, the last one perhaps in part. `rng`: the order of
// sequences.
template <class Stopped>
inline Learnt update(Block b, const Shape& n, const UpdateOptions& o, float* weights, const Rollout& r,
                     const UpdateRoom& room, Rng& rng, Stopped stopped) {
    const long all = long(o.horizon) * o.envs;
    const int per_minibatch = o.sequences / o.minibatches;
    const long rows = long(per_minibatch) * o.steps;
    const float* values = r.values;
    if (o.vtrace) {
        for (long i = b.lane; i < all; i += b.lanes) room.ratios[i] = 1.0f;
        for (long i = b.lane; i < all + o.envs; i += b.lanes) room.values[i] = r.values[i];
        b.sync();
        values = room.values;
    }
    r.phases->mark(b, Phase::copying);
    for (int step = 0; step < o.gradient_steps; step++) {
        const int m = step % o.minibatches;
        if (m == 0 && o.priority <= 0.0f) shuffle(b, room.order, o.sequences, rng);
        r.phases->mark(b, Phase::copying);
        if (o.vtrace || step == 0)
            advantages_of(b, o.horizon, o.envs, o.gamma, o.lambda, r.rewards, r.ended, values,
                          o.vtrace ? room.ratios : nullptr, o.rho_clip, o.trace_clip, r.advantages);
        const int* order = room.order + (o.priority > 0.0f ? 0 : m * per_minibatch);
        if (o.priority > 0.0f) draw_by_priority(b, r, o, room, per_minibatch, rng);
        r.phases->mark(b, Phase::advantages);
        gather_targets(b, r, n.action_count, o, room, order, per_minibatch, values);
        r.phases->mark(b, Phase::copying);
        if (o.normalise_advantages) normalise_advantages(b, room.targets.advantages, rows, room.optimizer.sums);
        if (o.priority > 0.0f) {
            each_row(b, o.steps, per_minibatch, room.sequences, [&](int, int s, long row) {
                room.targets.advantages[row] *= room.sequence_weights[s];
            });
            b.sync();
        }
        r.phases->mark(b, Phase::advantages);
        const float loss = minibatch_gradient(b, n, o, weights, r, room, order, per_minibatch, o.vtrace);
        if (!(loss > -3e38f && loss < 3e38f)) return Learnt::loss_not_finite;
        if (!optimizer_step(b, n, o.optimizer, weights, room.gradients, room.optimizer))
            return Learnt::gradient_not_finite;
        r.phases->mark(b, Phase::optimizer);
        if (o.vtrace) {
            // Lanes share out steps here, since a sequence may have been drawn twice.
            for (int start = 0; start < per_minibatch; start += room.sequences) {
                const int sequences = per_minibatch - start < room.sequences ? per_minibatch - start : room.sequences;
                for (int t = b.lane; t < o.steps; t += b.lanes)
                    for (int s = 0; s < sequences; s++) {
                        const long i = long(t) * o.sequences + order[start + s];
                        const long row = long(start) * o.steps + long(t) * sequences + s;
                        room.ratios[i] = room.row_ratios[row];
                        room.values[i] = room.row_values[row];
                    }
            }
            b.sync();
        }
        r.phases->mark(b, Phase::copying);
        if (stopped()) return Learnt::yes;
    }
    return Learnt::yes;
}

}  // namespace sweep
