// PPO: advantages of a rollout, and the loss of a minibatch with its gradient.
//
// Schulman et al., "Proximal policy optimization" (arXiv 1707.06347); GAE: Schulman et al. (arXiv 1506.02438);
// V-trace: Espeholt et al. (arXiv 1802.01561). A rollout's scalars are [T, N]: step t of environment n at t · N + n.
#pragma once

#include "policy.h"
#include "optimizer.h"

namespace sweep {

struct LossOptions {
    float clip, value_coefficient, value_clip;
    bool clipped_value_alone;   // the loss of the clipped value (Stable-Baselines3), not the larger of both (PPO2)
    float entropy_coefficient;
};

// Generalised advantages, backwards in time. values has a further row: V after the last step. ended: 1 where the episode
// ended with that step (what a truncated one would still have earned is in its reward). ratios (V-trace) may be null.
SWEEP_FN void advantages_of(Block b, int steps, int envs, float gamma, float lambda, const float* __restrict rewards,
                            const float* __restrict ended, const float* __restrict values, const float* ratios,
                            float rho_clip, float trace_clip, float* __restrict advantages) {
    for (int t = steps - 1; t >= 0; t--) {
        const long row = long(t) * envs;
        for (int n = b.lane; n < envs; n += b.lanes) {
            const long i = row + n;
            const float goes_on = 1.0f - ended[i];
            const float later = t + 1 < steps ? advantages[i + envs] : 0.0f;
            float rho = 1.0f, trace = 1.0f;
            if (ratios) {
                rho = lowest(ratios[i], rho_clip);
                trace = lowest(ratios[i], trace_clip);
            }
            const float delta = rho * (fma(gamma * goes_on, values[i + envs], rewards[i]) - values[i]);
            advantages[i] = fma(gamma * lambda * goes_on * trace, later, delta);
        }
    }
    b.sync();
}

// What the loss needs of each row of a minibatch, in the order of its rows.
struct Targets {
    ActionRows actions;
    float* log_probabilities;   // when acted
    float* values;              // when acted
    float* advantages;          // as used by the policy loss: normalised, weighted
    float* returns;
    float* ratios;              // out: importance ratios, or null
    float* new_values;          // out, or null
    float* log_std_sums;        // [k, 64]: the gradient of each continuous action's log-deviation piles up here
};

// Of `count` rows: the log-probability of each discrete action's choice, the entropy [k] of each, in c.logit the
// log-probabilities of all choices, in c.weight their probabilities, and the column of what was chosen.
SWEEP_FN void weigh_choices(Block b, const Shape& n, int count, Columns& c, const int* actions, int (*column)[chunk_rows],
                            float* chosen, float (*entropy)[chunk_rows]) {
    const int k = n.action_count, columns = padded(count) & ~7;
    for (int i = b.lane; i < chunk_rows; i += b.lanes) chosen[i] = 0.0f;
    for (int j = 0, first = 0; j < k; first += n.choices[j++]) {
        const int last = first + n.choices[j];
        softmax(b, columns, first, last, c);
        for (int i = b.lane; i < chunk_rows; i += b.lanes) {
            column[j][i] = first;
            entropy[j][i] = 0.0f;
        }
        if (k == 1)   // known at compile time
            for (int i = b.lane; i < count; i += b.lanes) column[j][i] = actions[i];
        else
            for (int i = b.lane; i < count; i += b.lanes) column[j][i] += actions[i * k + j];
        for (int a = first; a < last; a++)
            for (int i = b.lane; i < chunk_rows; i += b.lanes) {
                const float log_p = c.log_probability(a, i);
                const float p = c.weight[a][i] / c.sum[i];
                c.logit[a][i] = log_p;
                c.weight[a][i] = p;
                chosen[i] += column[j][i] == a ? log_p : 0.0f;
                entropy[j][i] = fma(-p, log_p, entropy[j][i]);
            }
    }
}

// Of `count` rows: the log-density of what was drawn of all continuous actions, and in c.weight how many deviations each
// number was from its mean.
SWEEP_FN void weigh_numbers(Block b, const Shape& n, const float* log_stds, int count, Columns& c, const float* actions,
                            float* chosen) {
    const int k = n.action_count;
    for (int i = b.lane; i < chunk_rows; i += b.lanes) chosen[i] = 0.0f;
    for (int j = 0; j < k; j++) {
        const Normal normal(log_stds[j]);
        float drawn[chunk_rows] = {};
        for (int i = b.lane; i < count; i += b.lanes) drawn[i] = actions[i * k + j];
        for (int i = b.lane; i < chunk_rows; i += b.lanes) {
            c.weight[j][i] = normal.standardised(drawn[i], c.logit[j][i]);
            chosen[i] += normal.log_density(c.weight[j][i]);
        }
    }
}

// The loss summed over `rows` rows, and in place of the logits its gradient, divided by `total` rows. Losses pile up in
// `sum`, each in its lane's part: one NaN shows.
inline void loss_gradient(Block b, const Shape& n, const LossOptions& o, const float* weights, int rows, float total,
                          float* logits, const Targets& y, Sum& sum) {
    static_assert(Sum::size == chunk_rows);
    Columns c;
    const int k = n.action_count;
    const float* log_stds = weights + n.log_stds();
    const float share = 1.0f / total;
    for (int start = 0; start < rows; start += chunk_rows) {
        const int count = rows - start < chunk_rows ? rows - start : chunk_rows;
        float* block = logits + long(start) * n.outputs();
        read_columns(b, count, n.actions, block, n.outputs(), c);
        float old[chunk_rows] = {}, advantage[chunk_rows] = {}, old_value[chunk_rows] = {}, target[chunk_rows] = {};
        for (int i = b.lane; i < count; i += b.lanes) {
            old[i] = y.log_probabilities[start + i];
            advantage[i] = y.advantages[start + i];
            old_value[i] = y.values[start + i];
            target[i] = y.returns[start + i];
        }
        int column[most_action_count][chunk_rows];
        float chosen[chunk_rows], entropy[chunk_rows], entropy_of[most_action_count][chunk_rows];
        float ratio[chunk_rows], slope[chunk_rows], value_slope[chunk_rows];
        const ActionRows acted = y.actions.from(long(start) * k);
        if (n.continuous) {
            weigh_numbers(b, n, log_stds, count, c, acted.drawn, chosen);
            float all = 0.0f;
            for (int j = 0; j < k; j++) all += Normal(log_stds[j]).entropy();
            for (int i = b.lane; i < chunk_rows; i += b.lanes) entropy[i] = all;
        } else {
            weigh_choices(b, n, count, c, acted.chosen, column, chosen, entropy_of);
            for (int i = b.lane; i < chunk_rows; i += b.lanes) entropy[i] = entropy_of[0][i];
            for (int j = 1; j < k; j++)
                for (int i = b.lane; i < chunk_rows; i += b.lanes) entropy[i] += entropy_of[j][i];
        }
        const float* value = c.logit[n.actions];
        for (int i = b.lane; i < chunk_rows; i += b.lanes) {
            ratio[i] = exp(chosen[i] - old[i]);
            const float free = advantage[i] * ratio[i];
            const float clipped = advantage[i] * clamp(ratio[i], 1.0f - o.clip, 1.0f + o.clip);
            slope[i] = free <= clipped ? -free * share : 0.0f;
            const float error = value[i] - target[i];
            const float move = value[i] - old_value[i];
            const float bounded = old_value[i] + clamp(move, -o.value_clip, o.value_clip) - target[i];
            const bool outside = move > o.value_clip || move < -o.value_clip;
            const bool use_bound = o.value_clip > 0.0f && outside &&
                                   (o.clipped_value_alone || bounded * bounded > error * error);
            value_slope[i] = use_bound ? 0.0f : error * o.value_coefficient * share;
            const float value_loss = 0.5f * (use_bound ? bounded * bounded : error * error);
            const float loss = fma(o.value_coefficient, value_loss, -lowest(free, clipped)) - o.entropy_coefficient * entropy[i];
            sum.part[i] += i < count ? loss : 0.0f;
        }
        const float entropy_share = o.entropy_coefficient * share;
        if (n.continuous)
            for (int j = 0; j < k; j++) {
                const float inverse = Normal(log_stds[j]).inverse;
                float* sums = y.log_std_sums + j * chunk_rows;
                for (int i = b.lane; i < chunk_rows; i += b.lanes) {
                    const float z = c.weight[j][i];
                    c.weight[j][i] = slope[i] * z * inverse;
                    sums[i] += i < count ? fma(slope[i], fma(z, z, -1.0f), -entropy_share) : 0.0f;
                }
            }
        else
            for (int j = 0, first = 0; j < k; first += n.choices[j++])
                for (int a = first; a < first + n.choices[j]; a++)
                    for (int i = b.lane; i < chunk_rows; i += b.lanes) {
                        const float p = c.weight[a][i];
                        const float chosen_here = column[j][i] == a ? 1.0f : 0.0f;
                        c.weight[a][i] = fma(slope[i], chosen_here - p, entropy_share * p * (c.logit[a][i] + entropy_of[j][i]));
                    }
        const auto write = [&](long stride) {
            for (int a = 0; a < n.actions; a++)
                for (int i = b.lane; i < count; i += b.lanes) block[i * stride + a] = c.weight[a][i];
            for (int i = b.lane; i < count; i += b.lanes) block[i * stride + n.actions] = value_slope[i];
        };
        if (n.outputs() == 8)   // known at compile time
            write(8);
        else
            write(n.outputs());
        if (y.ratios)
            for (int i = b.lane; i < count; i += b.lanes) {
                y.ratios[start + i] = ratio[i];
                y.new_values[start + i] = value[i];
            }
    }
    b.sync();
}

}  // namespace sweep
