// LSTM: (i, f, g, o) = W x + U h; c' = σ(f) c + σ(i) tanh(g); out = h' = σ(o) tanh(c').
//
// Hochreiter and Schmidhuber, "Long short-term memory" (1997), with the forget gate of Gers et al. (2000). W x is one
// product over all rows, U h one product per step over all sequences; the gradient of U is again one over all rows.
// |h| is below 1, where MinGRU's highway knows no bound: values of 50 take weights that take long to grow (reward_scale).
#pragma once

#include "layer.h"

namespace sweep {

// Rows are numbered t · sequences + s: step t of sequence s. A sequence's state is h, then c: [sequences, 2H].

// What a backward pass needs of each row beside the gates, [rows, H] each.
struct LstmKept {
    float* before;   // h before the row's step, 0 where an episode begins with it
    float* c;        // after it
    float* tanh_c;

    SWEEP_FN static LstmKept in(float* room, int rows, int hidden) {
        const long size = long(rows) * hidden;
        return {room, room + size, room + 2 * size};
    }
};

// The gates of step t, whose sums are complete: c, tanh(c) and h, and what the next step takes of h.
SWEEP_OWN void lstm_step(Block b, int t, int steps, int sequences, int hidden, float* __restrict gates,
                        const float* __restrict keep, const float* state, float* next, const LstmKept& kept, float* out) {
    if (hidden < 8) __builtin_unreachable();
    hidden &= ~7;
    const bool last = t + 1 == steps;
    for (int s = b.lane; s < sequences; s += b.lanes) {
        const long row = long(t) * sequences + s, at = row * hidden;
        float* __restrict i = gates + 4 * at;
        float* __restrict f = i + hidden;
        float* __restrict g = f + hidden;
        float* __restrict o = g + hidden;
        const float* previous = t == 0 ? state + (2L * s + 1) * hidden : kept.c + at - long(sequences) * hidden;
        float* c = kept.c + at;
        float* tanh_c = kept.tanh_c + at;
        float* h = out + at;
        const float kept_here = keep[row], kept_next = last ? 0.0f : keep[row + sequences];
#pragma GCC ivdep
        for (int j = 0; j < hidden; j++) {
            const float in = sigmoid(i[j]), forget = sigmoid(f[j]), candidate = tanh(g[j]), gate = sigmoid(o[j]);
            const float now = fma(forget, previous[j] * kept_here, in * candidate);
            const float bounded = tanh(now);
            i[j] = in;
            f[j] = forget;
            g[j] = candidate;
            o[j] = gate;
            c[j] = now;
            tanh_c[j] = bounded;
            h[j] = gate * bounded;
        }
        if (!last) {
            float* __restrict before = kept.before + at + long(sequences) * hidden;
            for (int j = 0; j < hidden; j++) before[j] = h[j] * kept_next;
        } else if (next) {
            float* __restrict to = next + 2L * s * hidden;
            for (int j = 0; j < hidden; j++) to[j] = h[j];
            for (int j = 0; j < hidden; j++) to[hidden + j] = c[j];
        }
    }
    b.sync();
}

// One layer over `steps` from x to out, [rows, H]. `state` is that before the first step; `next`, which may be `state`
// itself, that after the last, or null.
inline void lstm_forward(Block b, const LayerWeights& w, int steps, int sequences, int hidden, const float* x,
                         const float* keep, const float* state, float* next, float* gates, float* room, float* out) {
    const int rows = steps * sequences, width = 4 * hidden;
    const LstmKept kept = LstmKept::in(room, rows, hidden);
    for (int s = b.lane; s < sequences; s += b.lanes)
        for (int j = 0; j < hidden; j++) kept.before[long(s) * hidden + j] = state[2L * s * hidden + j] * keep[s];
    product(b, rows, width, hidden, x, hidden, w.matrix, w.biased, gates, width);
    for (int t = 0; t < steps; t++) {
        const long first = long(t) * sequences;
        matmul<Left::rows, Result::added>(b, sequences, width, hidden, kept.before + first * hidden, hidden, w.recurrent,
                                          width, gates + first * width, width);
        lstm_step(b, t, steps, sequences, hidden, gates, keep, state, next, kept, out);
    }
}

// Step t backwards: the gradients of its gates' sums take the place of the gates. carry: dh [sequences, H], as it came
// through U from the step after, and dc [sequences, H].
SWEEP_OWN void lstm_step_backward(Block b, int t, int steps, int sequences, int hidden, float* __restrict gates,
                                 const float* __restrict keep, const float* __restrict state, const LstmKept& kept,
                                 const float* __restrict gradient, float* __restrict carry) {
    if (hidden < 8) __builtin_unreachable();
    hidden &= ~7;
    const bool last = t + 1 == steps;
    for (int s = b.lane; s < sequences; s += b.lanes) {
        const long row = long(t) * sequences + s, at = row * hidden;
        float* __restrict i = gates + 4 * at;
        float* __restrict f = i + hidden;
        float* __restrict g = f + hidden;
        float* __restrict o = g + hidden;
        const float* __restrict previous = t == 0 ? state + (2L * s + 1) * hidden : kept.c + at - long(sequences) * hidden;
        const float* __restrict tanh_c = kept.tanh_c + at;
        const float* __restrict dy = gradient + at;
        const float* __restrict carried_h = carry + long(s) * hidden;
        float* __restrict carried_c = carry + long(sequences + s) * hidden;
        const float kept_here = keep[row], kept_next = last ? 0.0f : keep[row + sequences];
#pragma GCC ivdep
        for (int j = 0; j < hidden; j++) {
            const float in = i[j], forget = f[j], candidate = g[j], gate = o[j], bounded = tanh_c[j];
            const float dh = fma(carried_h[j], kept_next, dy[j]);
            const float dc = fma(dh * gate, fma(-bounded, bounded, 1.0f), carried_c[j]);
            i[j] = dc * candidate * (in * (1.0f - in));
            f[j] = dc * (previous[j] * kept_here) * (forget * (1.0f - forget));
            g[j] = dc * in * fma(-candidate, candidate, 1.0f);
            o[j] = dh * bounded * (gate * (1.0f - gate));
            carried_c[j] = dc * forget * kept_here;
        }
    }
    b.sync();
}

// Backwards through one layer. gradient [rows, H]: of `out` on entry, of x on return. Adds to the weights' gradients.
// carry [sequences, 2H]: scratch. The gradient ends at the state the sequence started from.
inline void lstm_backward(Block b, const LayerWeights& transposed, const LayerGradients& to, int steps, int sequences,
                          int hidden, const float* x, const float* keep, const float* state, float* gates, float* room,
                          float* gradient, float* carry) {
    const int rows = steps * sequences, width = 4 * hidden;
    const LstmKept kept = LstmKept::in(room, rows, hidden);
    for (long i = b.lane; i < 2L * sequences * hidden; i += b.lanes) carry[i] = 0.0f;
    b.sync();
    for (int t = steps - 1; t >= 0; t--) {
        lstm_step_backward(b, t, steps, sequences, hidden, gates, keep, state, kept, gradient, carry);
        if (t > 0)
            matmul(b, sequences, hidden, width, gates + long(t) * sequences * width, width, transposed.recurrent, hidden,
                   carry, hidden);
    }
    weight_gradient(b, hidden, width, rows, x, hidden, gates, width, to.matrix, to.bias);
    weight_gradient(b, hidden, width, rows, kept.before, hidden, gates, width, to.recurrent, nullptr);
    matmul(b, rows, hidden, width, gates, width, transposed.matrix, hidden, gradient, hidden);
}

}  // namespace sweep
