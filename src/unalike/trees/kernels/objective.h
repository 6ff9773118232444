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

// Margins are [rows][outputs], g and h [outputs][rows]; labels are classes or numbers.
typedef struct {
    const double *margins, *weights;
    const int64_t *classes;
    const double *numbers;
    int64_t rows, outputs, parts;
    double shift, scale, *raised;
    int32_t *g, *h;
    atomic_llong wrong;
} Derived;

// The blocks of a part; `wrong` counts the rows that pull too much.
#define BLOCKS                                                                                                     \
    Derived *d = what;                                                                                             \
    const int64_t rows = d->rows, end = part_from(rows, part + 1, d->parts);                                      \
    int64_t wrong = 0;                                                                                             \
    double first[BLOCK], second[BLOCK];                                                                            \
    for (int64_t from = part_from(rows, part, d->parts), n; \
         n = end - from < BLOCK ? end - from : BLOCK, from < end; from += BLOCK)

#define PUT(K)                                                                                                     \
    put(first, second, d->weights ? d->weights + from : NULL, n, d->g + (K) * rows + from, d->h + (K) * rows + from)

static int64_t derive(Derived *d, Work work, int64_t threads) {
    Share team = team_take(threads);
    d->parts = parts_of(d->rows, team.threads);
    team_do(team, work, d, d->parts);
    team_give(team);
    return d->wrong;
}

static void binary_task(void *what, int64_t part, int thread) {
    (void)thread;
    BLOCKS {
        const double *restrict margins = d->margins + from;
        const int64_t *restrict y = d->classes + from;
        for (int64_t i = 0; i < n; i++) {
            double p = 1.0 / (1.0 + power_of_e(-margins[i]));
            first[i] = p - (double)y[i];
            second[i] = p * (1.0 - p);
        }
        wrong += PUT(0);
    }
    d->wrong += wrong;
}

// `raised` has room for a block of each output, for each thread.
static void softmax_task(void *what, int64_t part, int thread) {
    double top[BLOCK], total[BLOCK];
    BLOCKS {
        const int64_t outputs = d->outputs, *restrict y = d->classes + from;
        const double *restrict at = d->margins + from * outputs;
        double *restrict raised = d->raised + thread * outputs * BLOCK;
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
                first[i] = p - (double)(y[i] == k);
                second[i] = 2.0 * p * (1.0 - p);
            }
            wrong += PUT(k);
        }
    }
    d->wrong += wrong;
}

static void squares_task(void *what, int64_t part, int thread) {
    (void)thread;
    BLOCKS {
        const double *restrict margins = d->margins + from, *restrict y = d->numbers + from;
        for (int64_t i = 0; i < n; i++) {
            first[i] = margins[i] - (y[i] - d->shift) / d->scale;
            second[i] = 1.0;
        }
        wrong += PUT(0);
    }
    d->wrong += wrong;
}

static void poisson_task(void *what, int64_t part, int thread) {
    (void)thread;
    BLOCKS {
        const double *restrict margins = d->margins + from, *restrict y = d->numbers + from;
        for (int64_t i = 0; i < n; i++) {
            wrong += !(y[i] >= 0.0);
            first[i] = power_of_e(margins[i]) - y[i];
            second[i] = power_of_e(margins[i] + 0.7);
        }
        wrong += PUT(0);
    }
    d->wrong += wrong;
}

// Each returns whether rows pull too much.
#define DERIVED .margins = margins, .weights = weights, .rows = rows, .g = g, .h = h
int64_t gradients_binary(const double *margins, const int64_t *y, const double *weights, int64_t rows, int32_t *g,
                         int32_t *h, int64_t threads) {
    return derive(&(Derived){DERIVED, .classes = y}, binary_task, threads);
}

int64_t gradients_softmax(const double *margins, const int64_t *y, const double *weights, int64_t rows,
                          int64_t outputs, double *raised, int32_t *g, int32_t *h, int64_t threads) {
    return derive(&(Derived){DERIVED, .classes = y, .outputs = outputs, .raised = raised}, softmax_task, threads);
}

int64_t gradients_squares(const double *margins, const double *y, const double *weights, int64_t rows, double shift,
                          double scale, int32_t *g, int32_t *h, int64_t threads) {
    return derive(&(Derived){DERIVED, .numbers = y, .shift = shift, .scale = scale}, squares_task, threads);
}

int64_t gradients_poisson(const double *margins, const double *y, const double *weights, int64_t rows, int32_t *g,
                          int32_t *h, int64_t threads) {
    return derive(&(Derived){DERIVED, .numbers = y}, poisson_task, threads);
}
