/* A fully connected layer: input [I], output [O], weights [O][I]. */

INLINE void linear_tile(const int ROWS, const int VECTORS, const float *weight, const float *bias, const float *in,
                        float *out, int I, int has_relu) {
    vector sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < VECTORS; v++)
        sum[r][v] = (vector){0} + (bias ? bias[r] : 0.0f);
    for (int i = 0; i < I; i++) {
        const vector *x = (const vector *)(in + i * BLOCK);
        UNROLL for (int r = 0; r < ROWS; r++) {
            const float factor = weight[r * I + i];
            UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += factor * x[v];
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < VECTORS; v++)
        ((vector *)(out + r * BLOCK))[v] = has_relu ? relu(sum[r][v]) : sum[r][v];
}

INLINE void linear(const float *weight, const float *bias, const float *in, float *out, int I, int O, int has_relu,
                   int lanes) {
    FOR_TILES(o, O,
              FOR_LANES(lane, lanes,
                        linear_tile(ROWS, VECTORS, weight + o * I, bias ? bias + o : 0, in + lane,
                                    out + o * BLOCK + lane, I, has_relu)));
}

INLINE void linear_back_tile(const int ROWS, const int VECTORS, const float *weight, const float *grad,
                             const float *more, float *in, int I, int O, int has_relu) {
    vector sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < VECTORS; v++)
        sum[r][v] = more ? ((const vector *)(more + r * BLOCK))[v] : (vector){0};
    for (int o = 0; o < O; o++) {
        const vector *g = (const vector *)(grad + o * BLOCK);
        UNROLL for (int r = 0; r < ROWS; r++) {
            const float factor = weight[o * I + r];
            UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += factor * g[v];
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        vector *x = (vector *)(in + r * BLOCK);
        UNROLL for (int v = 0; v < VECTORS; v++) x[v] = has_relu ? keep(x[v] > 0.0f, sum[r][v]) : sum[r][v];
    }
}

/* in: the values that went in, replaced by their gradient; more: what else that gradient has, or null. */
INLINE void linear_back(const float *weight, const float *grad, const float *more, float *in, int I, int O,
                        int has_relu, int lanes) {
    FOR_TILES(i, I,
              FOR_LANES(lane, lanes,
                        linear_back_tile(ROWS, VECTORS, weight + i, grad + lane,
                                         more ? more + i * BLOCK + lane : 0, in + i * BLOCK + lane, I, O,
                                         has_relu)));
}

/* Here the inputs are in the lanes, [BLOCK][padded I]: no sum runs across a vector. */
INLINE void linear_weight_tile(const int ROWS, const int VECTORS, const float *rows, const float *grad,
                               float *d_weight, int I, int stride, int columns, int count) {
    vector sum[TILE_ROWS][TILE_VECTORS] = {{{0}}};
    for (int n = 0; n < count; n++) {
        const vector *x = (const vector *)(rows + n * stride);
        UNROLL for (int r = 0; r < ROWS; r++) {
            const float factor = grad[r * BLOCK + n];
            UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += factor * x[v];
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        float *to = d_weight + r * I;
        UNROLL for (int v = 0; v < VECTORS; v++) {
            if (columns >= (v + 1) * V)
                ((loose *)to)[v] += sum[r][v];
            else if (columns > v * V) /* what is beyond the row stays as it is; there is room for a vector */
                ((loose *)to)[v] += keep(lanes_before(columns - v * V), sum[r][v]);
        }
    }
}

/* Adds the gradient of weights and bias (where they are not null); rows: the input, one row of the batch after
 * the other. */
INLINE void linear_weights(const float *rows, const float *grad, float *d_weight, float *d_bias, int I, int stride,
                           int O, int count, int lanes) {
    if (d_weight)
        FOR_TILES(o, O,
                  FOR_LANES(i, lanes_for(I),
                            linear_weight_tile(ROWS, VECTORS, rows + i, grad + o * BLOCK, d_weight + o * I + i, I,
                                               stride, I - i, count)));
    for (int o = 0; d_bias && o < O; o++) {
        vector sum = {0};
        for (int n = 0; n < lanes; n += V) sum += *(const vector *)(grad + o * BLOCK + n);
        d_bias[o] += sum_of(sum);
    }
}
