// What reads an observation: one linear layer, after a convolution where one is asked for; forwards and backwards.
//
// The convolution is that of MinAtar's own network (Young and Tian, arXiv 1903.03176): 3 × 3 filters at every place, a bias, ReLU.
// It and the linear layer under flags that come as bytes take only what is set: a handful of a board's 400 to 1,000 flags.
// What is 0 adds exactly nothing to a sum of finite numbers, so the results are those of the full products, bit for bit.
#pragma once

#include "layer.h"

namespace sweep {

// Observations, as floats or, where all are flags, as bytes.
struct Sight {
    float* floats;
    uint8* bytes;

    SWEEP_FN Sight from(long at) const { return {floats ? floats + at : nullptr, bytes ? bytes + at : nullptr}; }
    SWEEP_FN void set(long at, int value) const {
        if (bytes) bytes[at] = uint8(value);
        else floats[at] = float(value);
    }
    SWEEP_FN float get(long at) const { return bytes ? float(bytes[at]) : floats[at]; }
};

// Where the observations of a pass lie: that of step t of sequence s at first + order[s] · sequence + t · stride.
struct Seen {
    Sight first;
    long stride, sequence;
    const int* order;   // null: as they lie
};

// visit(from, stride, rows, first row, rows between): stretches that cover all rows, as few as the layout allows, sequence
// after sequence.
template <class Visit> SWEEP_FN void each_stretch(const Seen& seen, int steps, int sequences, Visit visit) {
    if (steps == 1 && !seen.order) return visit(seen.first, seen.sequence, sequences, 0, 1);
    for (int s = 0; s < sequences; s++)
        visit(seen.first.from((seen.order ? seen.order[s] : s) * seen.sequence), seen.stride, steps, s, sequences);
}

// visit(k, value) for each of the first `count` numbers that is not 0, in order. `count` is a multiple of 8.
template <class Visit> SWEEP_FN void each_set(const Sight& seen, int count, Visit visit) {
    if (!seen.bytes) {
        for (int k = 0; k < count; k++)
            if (seen.floats[k] != 0.0f) visit(k, seen.floats[k]);
        return;
    }
    for (int first = 0; first < count; first += 8) {
        uint64 word;
        copy_bytes(&word, seen.bytes + first, 8);
        if (word == 0) continue;
        for (int k = first; k < first + 8; k++)
            if (seen.bytes[k] != 0) visit(k, float(seen.bytes[k]));
    }
}

// to[0 .. count − 1] += value · from[…], a lane in its own columns. `count` is a multiple of 8.
SWEEP_FN void add_scaled(Block b, int count, float value, const float* __restrict from, float* __restrict to) {
    const narrow v = broadcast<narrow>(value);
    for (int j = b.lane * width<narrow>; j < count; j += b.lanes * width<narrow>)
        store(to + j, fma(v, load<narrow>(from + j), load<narrow>(to + j)));
}

// to[0 .. count − 1] plus the rows of `w` under the bytes that are set, each times its number, in order. The sums stay in registers while
// one row after another is added. `count` is a multiple of 8.
SWEEP_FN void add_set_rows(Block b, const Sight& seen, int numbers, int count, const float* __restrict w, float* __restrict to) {
    constexpr int most = 256, at_once = 4;
    int row[most];
    float value[most];
    int listed = 0;
    const auto add = [&] {
        const int step = b.lanes * width<narrow>;
        for (int j = b.lane * width<narrow>; j < count;) {
            const float* from = w + j;
            if (b.lanes == 1 && count - j >= at_once * width<narrow>) {
                narrow sum[at_once];
                for (int c = 0; c < at_once; c++) sum[c] = load<narrow>(to + j + c * width<narrow>);
                for (int i = 0; i < listed; i++) {
                    const narrow v = broadcast<narrow>(value[i]);
                    for (int c = 0; c < at_once; c++)
                        sum[c] = fma(v, load<narrow>(from + long(row[i]) * count + c * width<narrow>), sum[c]);
                }
                for (int c = 0; c < at_once; c++) store(to + j + c * width<narrow>, sum[c]);
                j += at_once * step;
            } else {
                narrow sum = load<narrow>(to + j);
                for (int i = 0; i < listed; i++) sum = fma(broadcast<narrow>(value[i]), load<narrow>(from + long(row[i]) * count), sum);
                store(to + j, sum);
                j += step;
            }
        }
        listed = 0;
    };
    for (int first = 0; first < numbers; first += 8) {
        uint64 word;
        copy_bytes(&word, seen.bytes + first, 8);
        if (word == 0) continue;
        for (int k = first; k < first + 8; k++) {   // listed without a branch: which flags are set is hard to foretell
            row[listed] = k;
            value[listed] = float(seen.bytes[k]);
            listed += seen.bytes[k] != 0 ? 1 : 0;
        }
        if (listed > most - 8) add();
    }
    add();
}

// visit(tap, place) for each filter tap under which number k of an image comes to lie, and the place that it adds to.
template <class Visit> SWEEP_FN void each_tap(const Shape& n, int k, Visit visit) {
    const int channels = n.image.channels, width = n.image.width - 2, height = n.image.height - 2;
    const int cell = k / channels, channel = k - cell * channels, y = cell / n.image.width, x = cell - y * n.image.width;
    for (int dy = 0; dy < 3; dy++) {
        if (y < dy || y - dy >= height) continue;
        for (int dx = 0; dx < 3; dx++)
            if (x >= dx && x - dx < width) visit((dy * 3 + dx) * channels + channel, (y - dy) * width + x - dx);
    }
}

// The features [rows, read_stride] of `rows` observations: the filters at each place, [place][filter], then the constant.
inline void convolve(Block b, const Shape& n, const float* tower, int rows, const Sight& seen, long stride, float* features) {
    const float* filters = tower + n.filters();
    const int count = n.filter_count, places = n.places(), size = n.image_size();
    for (int row = 0; row < rows; row++) {
        float* to = features + long(row) * n.read_stride();
        for (int place = 0; place < places; place++)
            for (int j = b.lane * width<narrow>; j < count; j += b.lanes * width<narrow>)
                store(to + place * count + j, load<narrow>(filters - count + j));
        each_set(seen.from(row * stride), padded(size), [&](int k, float value) {
            if (k < size)   // not the constant
                each_tap(n, k, [&](int tap, int place) { add_scaled(b, count, value, filters + tap * count, to + place * count); });
        });
        for (int place = 0; place < places; place++)
            for (int j = b.lane * width<narrow>; j < count; j += b.lanes * width<narrow>)
                for (int i = j; i < j + width<narrow>; i++) {
                    const float x = to[place * count + i];
                    to[place * count + i] = x < 0.0f ? 0.0f : x;   // in this order NaN stays NaN
                }
        for (int j = places * count + b.lane; j < n.read_stride(); j += b.lanes) to[j] = j < n.read() ? 1.0f : 0.0f;
    }
    b.sync();
}

// Adds the gradients of the filters and their bias. `features` as they were made, `gradient` that of their sums, which is used up.
inline void convolve_backward(Block b, const Shape& n, int rows, const Sight& seen, long stride, const float* features,
                              float* gradient, float* tower_gradients) {
    float* filters = tower_gradients + n.filters();
    const int count = n.filter_count, places = n.places(), size = n.image_size();
    for (int row = 0; row < rows; row++) {
        const float* made = features + long(row) * n.read_stride();
        float* from = gradient + long(row) * n.read_stride();
        for (int place = 0; place < places; place++)
            for (int j = b.lane * width<narrow>; j < count; j += b.lanes * width<narrow>)
                for (int i = j; i < j + width<narrow>; i++) {
                    const float g = made[place * count + i] > 0.0f ? from[place * count + i] : 0.0f;
                    from[place * count + i] = g;
                    filters[i - count] += g;
                }
        each_set(seen.from(row * stride), padded(size), [&](int k, float value) {
            if (k < size)
                each_tap(n, k, [&](int tap, int place) { add_scaled(b, count, value, from + place * count, filters + tap * count); });
        });
    }
    b.sync();
}

// visit(observations, rows, their x, floats between those) for tiles of a stretch whose features fit `tile` rows.
template <class Visit> SWEEP_FN void each_tile(const Shape& n, int steps, int sequences, const Seen& seen, Visit visit) {
    const int tile = n.feature_rows();
    each_stretch(seen, steps, sequences, [&](const Sight& from, long stride, int count, long first, long between) {
        for (int i = 0; i < count; i += tile)
            visit(from.from(i * stride), stride, count - i < tile ? count - i : tile, (first + i * between) * n.hidden,
                  between * n.hidden);
    });
}

// What enters the first layer, x [rows, H]. features: scratch of a convolution, [2 · feature_rows, read_stride].
inline void encoder_forward(Block b, const Shape& n, const float* tower, int steps, int sequences, const Seen& seen,
                            float* features, float* x) {
    const int hidden = n.hidden;
    const float* w = tower + n.encoder();
    if (n.filter_count > 0) {
        each_tile(n, steps, sequences, seen, [&](const Sight& from, long stride, int rows, long at, long between) {
            convolve(b, n, tower, rows, from, stride, features);
            product(b, rows, hidden, n.read(), features, n.read_stride(), w, n.biases, x + at, between);
        });
    } else if (seen.first.bytes) {
        each_stretch(seen, steps, sequences, [&](const Sight& from, long stride, int count, long first, long between) {
            for (int i = 0; i < count; i++) {
                float* to = x + (first + i * between) * hidden;
                for (int j = b.lane * width<narrow>; j < hidden; j += b.lanes * width<narrow>)
                    store(to + j, n.biases ? load<narrow>(w - hidden + j) : narrow{});
                add_set_rows(b, from.from(i * stride), n.stride(), hidden, w, to);
            }
        });
        b.sync();
    } else {
        each_stretch(seen, steps, sequences, [&](const Sight& from, long stride, int count, long first, long between) {
            product(b, count, hidden, n.inputs, from.floats, stride, w, n.biases, x + first * hidden, between * hidden);
        });
    }
}

// Adds the gradients of the encoder, from that of x. transposed: its matrix as [H, read_stride], for a convolution alone, whose
// features are made again: so many would not stay in the cache until here.
inline void encoder_backward(Block b, const Shape& n, const float* tower, const float* transposed, int steps, int sequences,
                             const Seen& seen, float* features, const float* gradient, float* tower_gradients) {
    const int hidden = n.hidden, rows = steps * sequences, wide_row = n.read_stride();
    float* w = tower_gradients + n.encoder();
    if (n.filter_count > 0) {
        float* below = features + long(n.feature_rows()) * wide_row;
        each_tile(n, steps, sequences, seen, [&](const Sight& from, long stride, int count, long at, long between) {
            convolve(b, n, tower, count, from, stride, features);
            matmul<Left::columns, Result::added>(b, wide_row, hidden, count, features, wide_row, gradient + at, between, w, hidden);
            matmul(b, count, wide_row, hidden, gradient + at, between, transposed, wide_row, below, wide_row);
            convolve_backward(b, n, count, from, stride, features, below, tower_gradients);
        });
    } else if (seen.first.bytes) {
        each_stretch(seen, steps, sequences, [&](const Sight& from, long stride, int count, long first, long between) {
            for (int i = 0; i < count; i++) {
                const float* g = gradient + (first + i * between) * hidden;
                each_set(from.from(i * stride), n.stride(),
                         [&](int k, float value) { add_scaled(b, hidden, value, g, w + long(k) * hidden); });
            }
        });
        b.sync();
    } else {
        each_stretch(seen, steps, sequences, [&](const Sight& from, long stride, int count, long row, long between) {
            matmul<Left::columns, Result::added>(b, n.stride(), hidden, count, from.floats, stride, gradient + row * hidden,
                                                 between * hidden, w, hidden);
        });
    }
    if (n.biases) add_column_sums(b, rows, hidden, gradient, hidden, w - hidden);
}

}  // namespace sweep
