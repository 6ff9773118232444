/* Sparse rows, and the first layer that is made of them without ever filling them up. Its weights lie the other
 * way round than torch has them, [INPUT][FIRST_MADE], for as long as a call from Python takes: what a column asks
 * for is in one place. After all weights there is room for a vector. */

/* Inlined: GCC drops calls of a function that asks memory for something and does no more. */
INLINE void prefetch_rows(const struct data *data, const int64_t *rows, int64_t count) {
    for (int64_t n = 0; n < count; n++) {
        if (rows[n] < 0) continue; /* fills up a short batch */
        PREFETCH(data->y + rows[n]);
        PREFETCH(data->columns + data->starts[rows[n]]);
        PREFETCH((const float *)data->x + data->starts[rows[n]]);
    }
}

/* Rows `rows[0]` to `rows[count - 1]` as a block of what the first layer makes of them. */
static void take_block(const float *w, const struct data *data, const int64_t *rows, int count, float *tape) {
    float *made = tape + AT_MADE;
    const float *values = data->x;
    for (int n = 0; n < lanes_for(count); n++) {
        vector sum[FIRST_VECTORS] = {{0}};
        const int64_t *range = data->starts + (n < count ? rows[n] : 0);
        for (int64_t at = range[0]; n < count && at < range[1]; at++) {
            const float *weight = w + FIRST_WEIGHT + (int64_t)data->columns[at] * FIRST_MADE;
            UNROLL for (int v = 0; v < FIRST_VECTORS; v++) sum[v] += values[at] * *(const loose *)(weight + v * V);
        }
        for (int o = 0; o < FIRST_MADE; o++) {
            const float value = sum[o / V][o % V] + (FIRST_BIAS < 0 ? 0 : w[at_least(0, FIRST_BIAS) + o]);
            made[o * BLOCK + n] = n >= count || (FIRST_RELU && value < 0) ? 0 : value;
        }
    }
}

/* Images are never sparse. */
static void take_cropped(const struct data *data, const int64_t *rows, const int64_t *top, const int64_t *left,
                         const uint8_t *flip, int count, float *tape) {
    (void)data, (void)rows, (void)top, (void)left, (void)flip, (void)count, (void)tape;
}

/* What of a gradient `backward` leaves to those who know the rows: that of the first layer's weights. */
static void back_to_rows(const struct data *data, const int64_t *rows, int count, const float *tape, float *d_w,
                         int64_t first) {
    const float *grad = tape + AT_MADE, *values = data->x;
    if (first >= FIRST_END) return;
    for (int n = 0; n < count; n++) {
        vector g[FIRST_VECTORS] = {{0}};
        for (int o = 0; o < FIRST_MADE; o++) g[o / V][o % V] = grad[o * BLOCK + n];
        for (int64_t at = data->starts[rows[n]]; at < data->starts[rows[n] + 1]; at++) {
            float *to = d_w + FIRST_WEIGHT + (int64_t)data->columns[at] * FIRST_MADE;
            UNROLL for (int v = 0; v < FIRST_VECTORS; v++) *(loose *)(to + v * V) += values[at] * g[v];
        }
        for (int o = 0; FIRST_BIAS >= 0 && o < FIRST_MADE; o++)
            d_w[at_least(0, FIRST_BIAS) + o] += grad[o * BLOCK + n];
    }
}
