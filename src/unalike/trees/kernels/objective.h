// Derivatives on the grid: the bits of objective.py and arithmetic.py, operation by operation.

static inline double power_of_e(double x) {
    static const double terms[] = {EXP_TERMS};
    x = x > -700.0 ? x : -700.0;
    x = x < 700.0 ? x : 700.0;
    double power = __builtin_rint(x * LOG2_E), rest = (x - power * LN2_HIGH) - power * LN2_LOW, result = terms[0];
    _Pragma("GCC unroll 16") for (int i = 1; i < (int)(sizeof terms / sizeof *terms); i++) result =
        result * rest + terms[i];
    union {
        int64_t bits;
        double number;
    } scale = {.bits = ((int64_t)power + 1023) << 52};
    return result * scale.number;
}

// One row's derivatives on the grid; returns whether they are too great.
static inline int put(double first, double second, const double *weights, int64_t i, int32_t *g, int32_t *h) {
    if (weights) {
        first *= weights[i];
        second *= weights[i];
    }
    int fits = (fabs(first) < 1024.0) & (second < 1024.0);
    g[i] = (int32_t)__builtin_rint((fits ? first : 0.0) * 0x1p20);
    h[i] = (int32_t)__builtin_rint((fits ? second : 0.0) * 0x1p20);
    return !fits;
}

// Each returns the number of rows that pull too much. Margins are [rows][outputs], g and h [outputs][rows].
int64_t gradients_binary(const double *restrict margins, const int64_t *restrict y, const double *restrict weights,
                         int64_t rows, int32_t *restrict g, int32_t *restrict h) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        double p = 1.0 / (1.0 + power_of_e(-margins[i]));
        wrong += put(p - (double)y[i], p * (1.0 - p), weights, i, g, h);
    }
    return wrong;
}

int64_t gradients_softmax(const double *restrict margins, const int64_t *restrict y, const double *restrict weights,
                          int64_t rows, int64_t outputs, double *restrict raised, int32_t *restrict g,
                          int32_t *restrict h) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double *row = margins + i * outputs;
        double top = row[0], total = 0.0;
        for (int64_t k = 1; k < outputs; k++) top = row[k] > top ? row[k] : top;
        for (int64_t k = 0; k < outputs; k++) raised[k] = power_of_e(row[k] - top);
        for (int64_t k = 0; k < outputs; k++) total += raised[k];
        for (int64_t k = 0; k < outputs; k++) {
            double p = raised[k] / total;
            wrong += put(p - (double)(y[i] == k), 2.0 * p * (1.0 - p), weights, i, g + k * rows, h + k * rows);
        }
    }
    return wrong;
}

int64_t gradients_squares(const double *restrict margins, const double *restrict y, const double *restrict weights,
                          int64_t rows, double shift, double scale, int32_t *restrict g, int32_t *restrict h) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++) wrong += put(margins[i] - (y[i] - shift) / scale, 1.0, weights, i, g, h);
    return wrong;
}

int64_t gradients_poisson(const double *restrict margins, const double *restrict y, const double *restrict weights,
                          int64_t rows, int32_t *restrict g, int32_t *restrict h) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        wrong += !(y[i] >= 0.0);
        wrong += put(power_of_e(margins[i]) - y[i], power_of_e(margins[i] + 0.7), weights, i, g, h);
    }
    return wrong;
}

// The bin of each value of a column: how many cuts are not above it, or `cuts + 1` where it is missing.
void bin_column(const float *values, int64_t stride, int64_t rows, const float *cuts, int64_t count, int32_t *bins) {
    for (int64_t i = 0; i < rows; i++) {
        float x = values[i * stride];
        const float *at = cuts;
        int64_t left = count;
        while (left > 1) {
            int64_t half = left / 2;
            at = at[half - 1] <= x ? at + half : at;
            left -= half;
        }
        int64_t bin = (at - cuts) + (left && *at <= x);
        bins[i] = (int32_t)(x != x ? count + 1 : bin);
    }
}
