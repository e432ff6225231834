// The weights a run starts from.
//
// Orthogonal: Saxe et al. (arXiv 1312.6120), the gains as PPO implementations use them (Andrychowicz et al., arXiv
// 2006.05990).
#pragma once

#include "math.h"
#include "rng.h"
#include "shape.h"

namespace sweep {

// Σ u v in double: 16 running sums by index modulo 16, then halves added to halves.
SWEEP_FN double product_of(const float* __restrict u, const float* __restrict v, int length, long stride) {
    constexpr int size = 16;
    double sum[size] = {};
    int k = 0;
    for (; k + size <= length; k += size)
        for (int j = 0; j < size; j++) sum[j] += double(u[(k + j) * stride]) * v[(k + j) * stride];
    for (int j = 0; k + j < length; j++) sum[j] += double(u[(k + j) * stride]) * v[(k + j) * stride];
    for (int half = size / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) sum[j] += sum[j + half];
    return sum[0];
}

// `count` vectors of `length` floats, orthonormal, uniform over all such (Gram–Schmidt on normal numbers; twice, for the
// sake of rounding): vector i's element k is w[i · step + k · stride]. count is at most length.
SWEEP_FN void fill_orthonormal(float* w, int count, int length, long step, long stride, Rng& rng) {
    for (int i = 0; i < count; i++) {
        float* __restrict v = w + i * step;
        for (int k = 0; k < length; k++) v[k * stride] = rng.normal();
        for (int round = 0; round < 2; round++) {
            for (int j = 0; j < i; j++) {
                const float* __restrict u = w + j * step;
                const double along = product_of(u, v, length, stride);
                for (int k = 0; k < length; k++) v[k * stride] = float(v[k * stride] - along * u[k * stride]);
            }
            const double size = square_root(product_of(v, v, length, stride));
            for (int k = 0; k < length; k++) v[k * stride] = float(v[k * stride] / size);
        }
    }
}

// Orthogonal columns, or rows where there are no more of them, of length `gain`.
inline void fill_orthogonal(float* w, int rows, int columns, int stride, float gain, Rng& rng) {
    if (columns < rows) fill_orthonormal(w, columns, rows, 1, stride, rng);
    else fill_orthonormal(w, rows, columns, stride, 1, rng);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) w[long(i) * stride + j] *= gain;
}

// Uniform in ± gain / √fan_in, or orthogonal times the gain, each gate and each head by itself. The gain is √2 in the
// encoder (orthogonal: in all layers of an MLP), `policy_gain` for the action logits or means and 1 elsewhere. Biases and
// padding are zero, and continuous actions start with the deviation e^log_std. One lane's work.
inline void initialise(const Shape& n, float* weights, Rng& rng, bool orthogonal, float policy_gain, float log_std) {
    constexpr float root = 1.41421356f;
    for (long i = 0; i < n.weights(); i++) weights[i] = 0.0f;
    each_matrix(n, [&](const Matrix& m) {
        float* w = weights + m.at;
        if (m.role == Role::log_std)
            for (int j = 0; j < m.columns; j++) w[j] = log_std;
        if (m.bias) return;
        const int stride = m.padded_columns, last = m.first_column + m.columns;
        const bool head = m.role == Role::decoder;
        if (!orthogonal) {
            const float side = square_root(float(m.rows)), bound = (m.role == Role::encoder || m.role == Role::filters ? root : 1.0f) / side;
            const int policy = head ? n.actions : 0;   // columns before it are action logits
            for (int i = 0; i < m.rows; i++)
                for (int j = m.first_column; j < last; j++) {
                    const float most = j < policy ? policy_gain / side : bound;
                    w[i * stride + j] = rng.uniform(-most, most);
                }
        } else if (head) {
            if (m.tower == 0) fill_orthogonal(w, m.rows, n.actions, stride, policy_gain, rng);
            if (last > n.actions) fill_orthogonal(w + n.actions, m.rows, 1, stride, 1.0f, rng);
        } else {
            const bool gated = n.cell != Cell::mlp && m.role != Role::encoder && m.role != Role::filters;
            const int width = gated ? n.hidden : m.columns;
            for (int j = 0; j < m.columns; j += width)
                fill_orthogonal(w + j, m.rows, width, stride, gated ? 1.0f : root, rng);
        }
    });
}

}  // namespace sweep
