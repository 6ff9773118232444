// The best split of a node from its short histogram: the bits of split.py, from the bins that occur alone.

#define GRID 0x1p-20
#define LEAST_GAIN 1e-6

typedef struct {
    double gain;
    int64_t left[MOST_CHANNELS];
    int32_t feature, bin;
    uint8_t missing_left;
} Found;

static double weight_of(const Settings *s, int64_t g, int64_t h, double lower, double upper) {
    double value = h >= s->least_sum ? -((double)g * GRID) / ((double)h * GRID + s->l2) : 0.0;
    value = value > lower ? value : lower;
    return (value < upper ? value : upper) + 0.0;  // never minus zero
}

static double score_of(const Settings *s, int64_t g, int64_t h, double lower, double upper) {
    if (h < s->least_sum) return 0.0;
    double G = (double)g * GRID, down = (double)h * GRID + s->l2;
    if (!s->bounded) return G * G / down;
    double w = weight_of(s, g, h, lower, upper);
    return -(2.0 * G * w + down * (w * w));
}

typedef struct {
    int64_t *g, *h, *n;  // sums up to and with each bin that occurs
    double *gain;
    int32_t *bin;
} Scan;

// The bytes that one thread needs to search.
static size_t scan_size(const Binned *b) {
    int64_t most = 0;
    for (int64_t j = 0; j < b->features; j++)
        if (b->used[j] > most) most = b->used[j];
    return (size_t)((most + 16) / 8 * 8 * 5 * 8);
}

static Scan scan_at(char *memory, size_t size) {
    size_t part = size / 5;
    return (Scan){(int64_t *)memory, (int64_t *)(memory + part), (int64_t *)(memory + 2 * part),
                  (double *)(memory + 3 * part), (int32_t *)(memory + 4 * part)};
}

typedef struct {
    const Settings *s;
    int64_t total[MOST_CHANNELS];
    double lower, upper, whole;
    int sign;
} Around;

static void gains(const Around *a, Scan scan, int64_t n, const int64_t *more) {
    const Settings *s = a->s;
    const int64_t G = a->total[0], H = a->total[1], least = s->least_sum;
    const double l2 = s->l2, whole = a->whole;
    if (s->bounded) {
        for (int64_t i = 0; i < n; i++) {
            int64_t g = scan.g[i] + more[0], h = scan.h[i] + more[1];
            double left = weight_of(s, g, h, a->lower, a->upper);
            double right = weight_of(s, G - g, H - h, a->lower, a->upper);
            int fits = h >= least && H - h >= least;
            fits &= a->sign > 0 ? left <= right : a->sign < 0 ? left >= right : 1;
            double both = score_of(s, g, h, a->lower, a->upper) + score_of(s, G - g, H - h, a->lower, a->upper);
            scan.gain[i] = fits ? both - whole : -INFINITY;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            int64_t g = scan.g[i] + more[0], h = scan.h[i] + more[1];
            double l = (double)g * GRID, r = (double)(G - g) * GRID;
            double gain = l * l / ((double)h * GRID + l2) + r * r / ((double)(H - h) * GRID + l2) - whole;
            scan.gain[i] = (h >= least) & (H - h >= least) ? gain : -INFINITY;
        }
    }
    if (s->channels == 3)
        for (int64_t i = 0; i < n; i++) {
            int64_t rows = scan.n[i] + more[2];
            if (rows < s->least_rows || a->total[2] - rows < s->least_rows) scan.gain[i] = -INFINITY;
        }
}

// Sums up to each bin that occurs in a column; `missing` gets the sums of missing values. Returns how many bins.
static int64_t run_up(const Binned *b, const int64_t *sums, int64_t slots, int64_t channels, int64_t feature,
                      const int64_t *total, Scan scan, int64_t *missing) {
    int64_t first = b->first[feature], used = b->used[feature], before = b->before[feature];
    int32_t last = missing_bin(b, feature), plain = b->plain[feature];
    int64_t *to[MOST_CHANNELS] = {scan.g, scan.h, scan.n}, count = 0;
    int has_missing = used && b->slot_bin[first + used - 1] == last;
    int64_t present = used - has_missing;
    for (int64_t c = 0; c < channels; c++) {
        const int64_t *at = sums + c * slots + first;
        int64_t others = 0, run = 0;
        for (int64_t i = 0; i < used; i++) others += at[i];
        int64_t rest = total[c] - others;
        missing[c] = has_missing ? at[used - 1] : plain == last ? rest : 0;
        count = 0;
        if (plain == last) {
            for (int64_t i = 0; i < present; i++) to[c][count++] = run += at[i];
        } else {
            for (int64_t i = 0; i < before; i++) to[c][count++] = run += at[i];
            to[c][count++] = run += rest;
            for (int64_t i = before; i < present; i++) to[c][count++] = run += at[i];
        }
    }
    return count;
}

static int32_t nth_bin(const Binned *b, int64_t feature, int64_t i) {
    const int32_t *bins = b->slot_bin + b->first[feature];
    if (b->plain[feature] == missing_bin(b, feature) || i < b->before[feature]) return bins[i];
    return i == b->before[feature] ? b->plain[feature] : bins[i - 1];
}

static void take(Found *best, double gain, int64_t feature, int32_t bin, int missing_left, const Scan *scan,
                 int64_t at, const int64_t *more) {
    best->gain = gain;
    best->feature = (int32_t)feature;
    best->bin = bin;
    best->missing_left = (uint8_t)missing_left;
    best->left[0] = (at < 0 ? 0 : scan->g[at]) + more[0];
    best->left[1] = (at < 0 ? 0 : scan->h[at]) + more[1];
    best->left[2] = (at < 0 ? 0 : scan->n[at]) + more[2];
}

static const int64_t NOTHING[MOST_CHANNELS] = {0, 0, 0};

static void search_column(const Binned *b, const int64_t *sums, int64_t slots, int64_t feature, const Around *a,
                          Scan scan, Found *best) {
    int64_t missing[MOST_CHANNELS] = {0, 0, 0};
    int64_t n = run_up(b, sums, slots, a->s->channels, feature, a->total, scan, missing);
    int seen = missing[0] || missing[1] || missing[2];
    if (!n || (n == 1 && !seen)) return;
    int64_t at = -1, count = seen ? n : n - 1;  // without missing values nothing is behind the last bin
    double top = best->gain;
    gains(a, scan, count, NOTHING);
    for (int64_t i = 0; i < count; i++)
        if (scan.gain[i] > top) {
            top = scan.gain[i];
            at = i;
        }
    if (at >= 0) {
        int to_left = !seen && scan.h[at] > a->total[1] - scan.h[at];
        take(best, top, feature, nth_bin(b, feature, at), to_left, &scan, at, NOTHING);
    }
    if (!seen) return;
    gains(a, scan, n - 1, missing);
    at = -2;
    for (int64_t i = n - 2; i >= 0; i--)
        if (scan.gain[i] > top) {
            top = scan.gain[i];
            at = i;
        }
    if (at >= 0) take(best, top, feature, nth_bin(b, feature, at + 1) - 1, 1, &scan, at, missing);
    if (nth_bin(b, feature, 0) == 0) return;
    Scan none = scan;  // missing values alone on the left, where the lowest bins are empty
    int64_t zero[3] = {0, 0, 0};
    double gain;
    none.g = none.h = none.n = zero;
    none.g = &zero[0];
    none.h = &zero[1];
    none.n = &zero[2];
    none.gain = &gain;
    gains(a, none, 1, missing);
    if (gain > top) take(best, gain, feature, nth_bin(b, feature, 0) - 1, 1, &scan, -1, missing);
}

static Found search(const Binned *b, const Settings *s, const int64_t *sums, int64_t slots, const int64_t *total,
                    double lower, double upper, const uint8_t *allowed, const int8_t *signs, Scan scan) {
    Around a = {s, {total[0], total[1], total[2]}, lower, upper, 0.0, 0};
    a.whole = score_of(s, total[0], total[1], lower, upper);
    Found best = {-INFINITY, {0, 0, 0}, -1, -1, 0};
    for (int64_t j = 0; j < b->features; j++) {
        if (!allowed[j]) continue;
        a.sign = signs[j];
        search_column(b, sums, slots, j, &a, scan, &best);
    }
    if (!(best.gain > LEAST_GAIN && best.gain >= s->gain)) best = (Found){0.0, {0, 0, 0}, -1, -1, 0};
    return best;
}
