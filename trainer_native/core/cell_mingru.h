// MinGRU with a highway: (u, f, p) = W x, one product of width 3H; h' = u σ(f) + h (1 − σ(f));
// out = x (1 − σ(p)) + h' σ(p).
//
// MinGRU: Feng et al., "Were RNNs all we needed?" (arXiv 2410.01201); highway: Srivastava et al. (arXiv 1505.00387).
#pragma once

#include "layer.h"

namespace sweep {

// Rows are numbered t · sequences + s: step t of sequence s.

// One layer's recurrence over `steps`. gates [rows, 3H]: W x on entry; u, σ(f), σ(p) on return. keep [rows]: 0 where an
// episode begins, else 1. state [sequences, H]: h before the first step. h [rows, H]: h after each step; may be `state`
// itself where steps is 1. out [rows, H].
SWEEP_OWN void mingru_recurrence(Block b, int steps, int sequences, int hidden, float* __restrict gates,
                                const float* __restrict x, const float* __restrict keep, const float* state, float* h,
                                float* __restrict out) {
    if (hidden < 8) __builtin_unreachable();
    hidden &= ~7;
    for (int t = 0; t < steps; t++) {
        const float* before = t == 0 ? state : h + long(t - 1) * sequences * hidden;
        for (int s = b.lane; s < sequences; s += b.lanes) {
            const long row = long(t) * sequences + s;
            float* __restrict u = gates + row * 3 * hidden;
            float* __restrict f = u + hidden;
            float* __restrict p = f + hidden;
            const float* __restrict in = x + row * hidden;
            const float* previous = before + long(s) * hidden;
            float* next = h + row * hidden;
            float* __restrict y = out + row * hidden;
            const float kept = keep[row];
#pragma GCC ivdep
            for (int j = 0; j < hidden; j++) {
                const float forget = sigmoid(f[j]), highway = sigmoid(p[j]);
                const float old = previous[j] * kept;
                const float now = fma(forget, u[j] - old, old);
                f[j] = forget;
                p[j] = highway;
                next[j] = now;
                y[j] = fma(highway, now - in[j], in[j]);
            }
        }
        b.sync();
    }
}

// Backwards through one layer's recurrence. gates: u, σ(f), σ(p) on entry; the gradients of W x on return.
// gradient [rows, H]: that of `out` on entry; on return that part of the gradient of x which does not pass through W.
// carry [sequences, H]: scratch. The gradient ends at the state the sequence started from.
SWEEP_OWN void mingru_recurrence_backward(Block b, int steps, int sequences, int hidden, float* __restrict gates,
                                         const float* __restrict x, const float* __restrict keep,
                                         const float* __restrict state, const float* __restrict h,
                                         float* __restrict gradient, float* __restrict carry) {
    if (hidden < 8) __builtin_unreachable();
    hidden &= ~7;
    for (int i = b.lane; i < sequences * hidden; i += b.lanes) carry[i] = 0.0f;
    b.sync();
    for (int t = steps - 1; t >= 0; t--) {
        const float* before = t == 0 ? state : h + long(t - 1) * sequences * hidden;
        for (int s = b.lane; s < sequences; s += b.lanes) {
            const long row = long(t) * sequences + s;
            float* __restrict u = gates + row * 3 * hidden;
            float* __restrict f = u + hidden;
            float* __restrict p = f + hidden;
            const float* __restrict in = x + row * hidden;
            const float* __restrict previous = before + long(s) * hidden;
            const float* __restrict now = h + row * hidden;
            float* __restrict g = gradient + row * hidden;
            float* __restrict c = carry + long(s) * hidden;
            const float kept = keep[row];
            for (int j = 0; j < hidden; j += width<narrow>) {
                const narrow forget = load<narrow>(f + j), highway = load<narrow>(p + j), dy = load<narrow>(g + j);
                const narrow old = load<narrow>(previous + j) * kept;
                const narrow dh = fma(dy, highway, load<narrow>(c + j));
                const narrow du = dh * forget;
                store(p + j, dy * (load<narrow>(now + j) - load<narrow>(in + j)) * (highway * (1.0f - highway)));
                store(f + j, dh * (load<narrow>(u + j) - old) * (forget * (1.0f - forget)));
                store(u + j, du);
                store(c + j, (dh - du) * kept);
                store(g + j, dy * (1.0f - highway));
            }
        }
        b.sync();
    }
}

// One layer over `steps` from x to out, [rows, H]. `state` [sequences, H] is h before the first step; `next`, which may
// be `state` itself, is h after the last, or null.
inline void mingru_forward(Block b, const LayerWeights& w, int steps, int sequences, int hidden, const float* x,
                           const float* keep, const float* state, float* next, float* gates, float* h, float* out) {
    product(b, steps * sequences, 3 * hidden, hidden, x, hidden, w.matrix, w.biased, gates, 3 * hidden);
    mingru_recurrence(b, steps, sequences, hidden, gates, x, keep, state, next && steps == 1 ? next : h, out);
    if (!next || steps == 1) return;
    const float* last = h + long(steps - 1) * sequences * hidden;
    for (int i = b.lane; i < sequences * hidden; i += b.lanes) next[i] = last[i];
    b.sync();
}

// Backwards through one layer. gradient [rows, H]: of `out` on entry, of x on return. Adds to the weights' gradients.
// carry [sequences, H]: scratch.
inline void mingru_backward(Block b, const LayerWeights& transposed, const LayerGradients& to, int steps, int sequences,
                            int hidden, const float* x, const float* keep, const float* state, float* gates,
                            const float* h, float* gradient, float* carry) {
    const int rows = steps * sequences;
    mingru_recurrence_backward(b, steps, sequences, hidden, gates, x, keep, state, h, gradient, carry);
    weight_gradient(b, hidden, 3 * hidden, rows, x, hidden, gates, 3 * hidden, to.matrix, to.bias);
    matmul<Left::rows, Result::added>(b, rows, hidden, 3 * hidden, gates, 3 * hidden, transposed.matrix, hidden, gradient,
                                      hidden);
}

}  // namespace sweep
