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

#define BLOCK 512

// Derivatives of a block of rows, weighted and on the grid; returns how many are too great.
static int64_t put(double *restrict first, double *restrict second, const double *restrict weights, int64_t n,
                   int32_t *restrict g, int32_t *restrict h) {
    int64_t wrong = 0;
    if (weights)
        for (int64_t i = 0; i < n; i++) {
            first[i] *= weights[i];
            second[i] *= weights[i];
        }
    for (int64_t i = 0; i < n; i++) wrong += !((fabs(first[i]) < 1024.0) & (second[i] < 1024.0));
    if (wrong) return wrong;
    for (int64_t i = 0; i < n; i++) g[i] = (int32_t)__builtin_rint(first[i] * 0x1p20);
    for (int64_t i = 0; i < n; i++) h[i] = (int32_t)__builtin_rint(second[i] * 0x1p20);
    return 0;
}

#define BLOCKS                                                                                                     \
    int64_t wrong = 0;                                                                                             \
    double first[BLOCK], second[BLOCK];                                                                            \
    for (int64_t from = 0, n; n = rows - from < BLOCK ? rows - from : BLOCK, from < rows; from += BLOCK)

#define PUT(K) put(first, second, weights ? weights + from : NULL, n, g + (K) * rows + from, h + (K) * rows + from)

// Each returns whether rows pull too much. Margins are [rows][outputs], g and h [outputs][rows].
int64_t gradients_binary(const double *restrict margins, const int64_t *restrict y, const double *restrict weights,
                         int64_t rows, int32_t *restrict g, int32_t *restrict h) {
    BLOCKS {
        for (int64_t i = 0; i < n; i++) {
            double p = 1.0 / (1.0 + power_of_e(-margins[from + i]));
            first[i] = p - (double)y[from + i];
            second[i] = p * (1.0 - p);
        }
        wrong += PUT(0);
    }
    return wrong;
}

int64_t gradients_softmax(const double *restrict margins, const int64_t *restrict y, const double *restrict weights,
                          int64_t rows, int64_t outputs, double *restrict raised, int32_t *restrict g,
                          int32_t *restrict h) {
    double top[BLOCK], total[BLOCK];
    BLOCKS {
        const double *at = margins + from * outputs;
        for (int64_t i = 0; i < n; i++) top[i] = at[i * outputs], total[i] = 0.0;
        for (int64_t k = 1; k < outputs; k++)
            for (int64_t i = 0; i < n; i++) top[i] = at[i * outputs + k] > top[i] ? at[i * outputs + k] : top[i];
        for (int64_t k = 0; k < outputs; k++)
            for (int64_t i = 0; i < n; i++) {
                raised[k * BLOCK + i] = power_of_e(at[i * outputs + k] - top[i]);
                total[i] += raised[k * BLOCK + i];
            }
        for (int64_t k = 0; k < outputs; k++) {
            for (int64_t i = 0; i < n; i++) {
                double p = raised[k * BLOCK + i] / total[i];
                first[i] = p - (double)(y[from + i] == k);
                second[i] = 2.0 * p * (1.0 - p);
            }
            wrong += PUT(k);
        }
    }
    return wrong;
}

int64_t gradients_squares(const double *restrict margins, const double *restrict y, const double *restrict weights,
                          int64_t rows, double shift, double scale, int32_t *restrict g, int32_t *restrict h) {
    BLOCKS {
        for (int64_t i = 0; i < n; i++) {
            first[i] = margins[from + i] - (y[from + i] - shift) / scale;
            second[i] = 1.0;
        }
        wrong += PUT(0);
    }
    return wrong;
}

int64_t gradients_poisson(const double *restrict margins, const double *restrict y, const double *restrict weights,
                          int64_t rows, int32_t *restrict g, int32_t *restrict h) {
    BLOCKS {
        for (int64_t i = 0; i < n; i++) {
            wrong += !(y[from + i] >= 0.0);
            first[i] = power_of_e(margins[from + i]) - y[from + i];
            second[i] = power_of_e(margins[from + i] + 0.7);
        }
        wrong += PUT(0);
    }
    return wrong;
}
