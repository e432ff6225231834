// From a gradient to new weights: clipping by the global norm, then Muon or Adam.
//
// Muon: K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024): Nesterov momentum, made
// orthogonal by five Newton–Schulz iterations, times √max(1, rows / columns) of the matrix as [out, in].
// With Muon the log-deviations of continuous actions take plain steps with that momentum: their Fisher information is 2
// whatever they are, so that these are natural gradient steps but for a constant.
// Adam: Kingma and Ba (arXiv 1412.6980). Weight decay, for both: w ← w − rate · decay · w before the step, apart from the
// gradient (Loshchilov and Hutter, arXiv 1711.05101); the log-deviations of continuous actions do not decay.
#pragma once

#include "net.h"

namespace sweep {

// A sum whose order is fixed: 64 running sums by index modulo 64, then halves added to halves. Each running sum belongs
// to one lane; `shared` [64] is where lanes exchange them.
struct Sum {
    static constexpr int size = 64;
    float part[size] = {};

    SWEEP_FN float total(Block b, float* shared) const {
        for (int i = b.lane; i < size; i += b.lanes) shared[i] = part[i];
        b.sync();
        float sum[size];
        for (int i = 0; i < size; i++) sum[i] = shared[i];
        b.sync();
        for (int half = size / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++) sum[i] += sum[i + half];
        return sum[0];
    }
};

// Σ (x − shift)², the same in every lane. A NaN or an infinity anywhere shows in the result.
inline float sum_of_squares(Block b, const float* x, long count, float* shared, float shift = 0.0f) {
    Sum sum;
    long i = 0;
    for (; i + Sum::size <= count; i += Sum::size)
        for (int j = b.lane; j < Sum::size; j += b.lanes)
            sum.part[j] = fma(x[i + j] - shift, x[i + j] - shift, sum.part[j]);
    for (int j = b.lane; i + j < count; j += b.lanes)
        sum.part[j] = fma(x[i + j] - shift, x[i + j] - shift, sum.part[j]);
    return sum.total(b, shared);
}

inline float sum_of(Block b, const float* x, long count, float* shared) {
    Sum sum;
    long i = 0;
    for (; i + Sum::size <= count; i += Sum::size)
        for (int j = b.lane; j < Sum::size; j += b.lanes) sum.part[j] += x[i + j];
    for (int j = b.lane; i + j < count; j += b.lanes) sum.part[j] += x[i + j];
    return sum.total(b, shared);
}

// The range of the log-deviations of continuous actions.
constexpr float lowest_log_std = -5.0f, highest_log_std = 2.0f;

struct OptimizerOptions {
    bool muon;
    float learning_rate, head_rate /* the decoder's rate, as a factor */, momentum, second_momentum, epsilon, weight_decay,
        gradient_norm;
};

struct OptimizerRoom {
    float* first;     // [weights]: momentum
    float* second;    // [weights]: Adam's second moment; no room for it with Muon
    double* powers;   // [2]: Adam's momenta to the power of the steps taken; 1 before the first
    float* scratch;   // Muon: [3, weights of the largest matrix] and [2, squares of its smaller side]
    float* sums;      // [64]: where lanes exchange parts of a sum
};

// The floats that `scratch` needs.
inline long optimizer_scratch(const Shape& n) {
    long most = 0;
    each_matrix(n, [&](const Matrix& m) {
        const long rows = m.padded_rows, columns = m.padded_columns, side = rows < columns ? rows : columns;
        const long need = 3 * rows * columns + 2 * side * side;
        if (need > most) most = need;
    });
    return most;
}

// A product that is symmetric, C[side, side] = A · B: blocks of rows from the diagonal on, then the mirror of what is above
// it. The two halves have the same bits, for each pair of elements sums the same terms in the same order.
template <Left left>
inline void symmetric_product(Block b, int side, int terms, const float* a, const float* right, float* c) {
    const int rows = side > 64 ? 64 : side > 32 ? 32 : side;
    for (int i = 0; i < side; i += rows) {
        const int count = side - i < rows ? side - i : rows;
        matmul<left>(b, count, side - i, terms, a + (left == Left::rows ? long(i) * side : i), side, right + i, side,
                     c + long(i) * side + i, side);
    }
    for (int i = b.lane; i < side; i += b.lanes)
        for (int j = 0; j < i / rows * rows; j++) c[long(i) * side + j] = c[long(j) * side + i];
    b.sync();
}

// The nearest matrix with orthonormal columns (or rows), about: five Newton–Schulz iterations with Jordan's coefficients.
// x [rows, columns] on entry and on return; both are multiples of 8. A bias is one row: the nearest is that of length 1.
inline void orthogonalise(Block b, int rows, int columns, float* x, float* scratch, float* sums) {
    if (rows == 1) {
        const float length = square_root(sum_of_squares(b, x, columns, sums)) + 1e-7f;
        for (int i = b.lane; i < columns; i += b.lanes) x[i] /= length;
        return b.sync();
    }
    const bool wide_matrix = columns > rows;
    const int tall = wide_matrix ? columns : rows, side = wide_matrix ? rows : columns;
    const long count = long(rows) * columns;
    float* y = scratch;
    float* z = y + count;
    float* gram = z + count;
    float* polynomial = gram + long(side) * side;
    if (wide_matrix)
        transpose(b, rows, columns, x, columns, y, rows);
    else
        for (long i = b.lane; i < count; i += b.lanes) y[i] = x[i];
    b.sync();
    const float norm = square_root(sum_of_squares(b, y, count, sums)) + 1e-7f;
    for (long i = b.lane; i < count; i += b.lanes) y[i] /= norm;
    b.sync();
    for (int iteration = 0; iteration < 5; iteration++) {
        symmetric_product<Left::columns>(b, side, tall, y, y, gram);
        symmetric_product<Left::rows>(b, side, side, gram, gram, polynomial);
        for (long i = b.lane; i < long(side) * side; i += b.lanes)
            polynomial[i] = fma(2.0315f, polynomial[i], -4.7750f * gram[i]);
        b.sync();
        for (int i = b.lane; i < side; i += b.lanes) polynomial[long(i) * side + i] += 3.4445f;
        b.sync();
        matmul(b, tall, side, side, y, side, polynomial, side, z, side);
        float* swap = y;
        y = z;
        z = swap;
    }
    if (wide_matrix)
        transpose(b, columns, rows, y, rows, x, columns);
    else
        for (long i = b.lane; i < count; i += b.lanes) x[i] = y[i];
    b.sync();
}

// One matrix [rows, columns] as [in, out]; in and out are its sizes without padding.
inline void muon_step(Block b, const OptimizerOptions& o, int rows, int columns, int in, int out, float rate,
                      float clip, float* weights, const float* gradients, float* momentum, float* scratch, float* sums) {
    const long count = long(rows) * columns;
    float* update = scratch;
    for (long i = b.lane; i < count; i += b.lanes) {
        const float g = gradients[i] * clip;
        momentum[i] = fma(o.momentum, momentum[i], g);
        update[i] = fma(o.momentum, momentum[i], g);
    }
    b.sync();
    orthogonalise(b, rows, columns, update, scratch + count, sums);
    const float scale = -rate * square_root(highest(1.0f, float(out) / float(in)));
    for (long i = b.lane; i < count; i += b.lanes) weights[i] = fma(scale, update[i], weights[i]);
    b.sync();
}

// Nesterov momentum alone.
inline void momentum_step(Block b, const OptimizerOptions& o, long count, float rate, float clip, float* weights,
                          const float* gradients, float* momentum) {
    for (long i = b.lane; i < count; i += b.lanes) {
        const float g = gradients[i] * clip;
        momentum[i] = fma(o.momentum, momentum[i], g);
        weights[i] = fma(-rate, fma(o.momentum, momentum[i], g), weights[i]);
    }
    b.sync();
}

// `powers`: Adam's momenta to the power of the steps taken, this one included.
inline void adam_step(Block b, const OptimizerOptions& o, long count, float rate, float clip, float* __restrict weights,
                      const float* __restrict gradients, float* __restrict first, float* __restrict second,
                      const double* powers) {
    const float first_scale = float(1.0 / (1.0 - powers[0])), second_scale = float(1.0 / (1.0 - powers[1]));
    for (long i = b.lane; i < count; i += b.lanes) {
        const float g = gradients[i] * clip;
        first[i] = fma(o.momentum, first[i], (1.0f - o.momentum) * g);
        second[i] = fma(o.second_momentum, second[i], (1.0f - o.second_momentum) * g * g);
        weights[i] -= rate * (first[i] * first_scale) / (square_root(second[i] * second_scale) + o.epsilon);
    }
    b.sync();
}

// One step along `gradients` (left as they are). False, and nothing done, where they are not finite.
inline bool optimizer_step(Block b, const Shape& n, const OptimizerOptions& o, float* weights, const float* gradients,
                           const OptimizerRoom& room) {
    const float norm = square_root(sum_of_squares(b, gradients, n.weights(), room.sums));
    if (!(norm < 3e38f)) return false;
    const float clip = o.gradient_norm > 0.0f && norm > o.gradient_norm ? o.gradient_norm / norm : 1.0f;
    const float rate = o.learning_rate, head = o.learning_rate * o.head_rate;
    // visit(first, end, rate): weights that learn at one rate.
    const auto each_part = [&](auto visit) {
        for (long tower = 0; tower < n.log_stds(); tower += n.tower()) {
            visit(tower, tower + n.head(), rate);
            visit(tower + n.head(), tower + n.tower(), head);
        }
    };
    if (o.weight_decay > 0.0f) {
        each_part([&](long at, long end, float rate) {
            for (long i = at + b.lane; i < end; i += b.lanes) weights[i] = fma(-rate * o.weight_decay, weights[i], weights[i]);
        });
        b.sync();
    }
    // A deviation stays within its range, so that a step back from the range's end is never far.
    const auto keep_deviations = [&] {
        for (long i = n.log_stds() + b.lane; i < n.weights(); i += b.lanes)
            weights[i] = clamp(weights[i], lowest_log_std, highest_log_std);
        b.sync();
    };
    if (!o.muon) {
        if (b.lane == 0) {
            room.powers[0] *= o.momentum;
            room.powers[1] *= o.second_momentum;
        }
        b.sync();
        each_part([&](long at, long end, float rate) {
            adam_step(b, o, end - at, rate, clip, weights + at, gradients + at, room.first + at, room.second + at, room.powers);
        });
        if (n.continuous) {
            const long at = n.log_stds();
            adam_step(b, o, n.weights() - at, rate, clip, weights + at, gradients + at, room.first + at, room.second + at,
                      room.powers);
            keep_deviations();
        }
        return true;
    }
    each_matrix(n, [&](const Matrix& m) {
        if (m.role == Role::log_std) return;
        muon_step(b, o, m.padded_rows, m.padded_columns, m.rows, m.columns,
                  m.role == Role::decoder ? head : rate, clip, weights + m.at, gradients + m.at,
                  room.first + m.at, room.scratch, room.sums);
    });
    if (n.continuous) {
        momentum_step(b, o, n.weights() - n.log_stds(), rate, clip, weights + n.log_stds(), gradients + n.log_stds(),
                      room.first + n.log_stds());
        keep_deviations();
    }
    return true;
}

}  // namespace sweep
