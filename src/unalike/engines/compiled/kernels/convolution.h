/* Convolution with stride 1: input [C][H][W], output [O][OH][OW], weights [O][C][K][K], P rows and columns of
 * zeros around the input.
 *
 * Padding is never stored: where the kernel hangs over the edge, the loops over it are shorter.
 */
struct shape {
    int C, H, W, O, OH, OW, K, P;
};

/* Where a place of one image is in a block: channel c, row i, column j. */
#define PLACE(c, i, j, height, width) ((((c) * (height) + (i)) * (width) + (j)) * BLOCK)

/* The sums of ROWS output channels at row i and column j, all of them in registers. Of the kernel's columns, those
 * from `left` up to `right` are inside the image. */
INLINE void convolution_tile(const int ROWS, const int VECTORS, const float *weight, const float *bias,
                             const float *in, float *out, const struct shape s, int i, int j, int left, int right,
                             int has_relu) {
    vector sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] = (vector){0} + (bias ? bias[r] : 0.0f);
    const int top = at_least(0, s.P - i), bottom = at_most(s.K, s.H + s.P - i);
    for (int c = 0; c < s.C; c++) {
        for (int a = top; a < bottom; a++) {
            UNROLL for (int b = 0; b < s.K; b++) {
                if (b < left || b >= right) continue;
                const vector *x = (const vector *)(in + PLACE(c, i + a - s.P, j + b - s.P, s.H, s.W));
                UNROLL for (int r = 0; r < ROWS; r++) {
                    const float factor = weight[((r * s.C + c) * s.K + a) * s.K + b];
                    UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += factor * x[v];
                }
            }
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        vector *y = (vector *)(out + PLACE(r, i, j, s.OH, s.OW));
        UNROLL for (int v = 0; v < VECTORS; v++) y[v] = has_relu ? relu(sum[r][v]) : sum[r][v];
    }
}

/* One row of the output. Where the whole kernel fits, its loops have constant length. */
INLINE void convolution_row(const int ROWS, const int VECTORS, const float *weight, const float *bias,
                            const float *in, float *out, const struct shape s, int i, int has_relu) {
    for (int j = 0; j < s.OW; j++) {
        const int left = at_least(0, s.P - j), right = at_most(s.K, s.W + s.P - j);
        if (left == 0 && right == s.K)
            convolution_tile(ROWS, VECTORS, weight, bias, in, out, s, i, j, 0, s.K, has_relu);
        else
            convolution_tile(ROWS, VECTORS, weight, bias, in, out, s, i, j, left, right, has_relu);
    }
}

INLINE void convolution(const float *weight, const float *bias, const float *in, float *out, const struct shape s,
                        int has_relu, int lanes) {
    FOR_LANES(lane, lanes, for (int i = 0; i < s.OH; i++)
                               FOR_TILES(o, s.O,
                                         convolution_row(ROWS, VECTORS, weight + o * s.C * s.K * s.K,
                                                         bias ? bias + o : 0, in + lane,
                                                         out + PLACE(o, 0, 0, s.OH, s.OW) + lane, s, i, has_relu)));
}

/* The gradient of ROWS input channels at row i and column j: the sum over all outputs that saw it. It replaces the
 * value, which says where ReLU was at rest. */
INLINE void convolution_back_tile(const int ROWS, const int VECTORS, const float *weight, const float *grad,
                                  float *in, const struct shape s, int i, int j, int left, int right,
                                  int has_relu) {
    vector sum[TILE_ROWS][TILE_VECTORS] = {{{0}}};
    const int top = at_least(0, i + s.P - s.OH + 1), bottom = at_most(s.K, i + s.P + 1);
    for (int o = 0; o < s.O; o++) {
        for (int a = top; a < bottom; a++) {
            UNROLL for (int b = 0; b < s.K; b++) {
                if (b < left || b >= right) continue;
                const vector *g = (const vector *)(grad + PLACE(o, i + s.P - a, j + s.P - b, s.OH, s.OW));
                UNROLL for (int r = 0; r < ROWS; r++) {
                    const float factor = weight[((o * s.C + r) * s.K + a) * s.K + b];
                    UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += factor * g[v];
                }
            }
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        vector *x = (vector *)(in + PLACE(r, i, j, s.H, s.W));
        UNROLL for (int v = 0; v < VECTORS; v++) x[v] = has_relu ? keep(x[v] > 0.0f, sum[r][v]) : sum[r][v];
    }
}

INLINE void convolution_back_row(const int ROWS, const int VECTORS, const float *weight, const float *grad,
                                 float *in, const struct shape s, int i, int has_relu) {
    for (int j = 0; j < s.W; j++) {
        const int left = at_least(0, j + s.P - s.OW + 1), right = at_most(s.K, j + s.P + 1);
        if (left == 0 && right == s.K)
            convolution_back_tile(ROWS, VECTORS, weight, grad, in, s, i, j, 0, s.K, has_relu);
        else
            convolution_back_tile(ROWS, VECTORS, weight, grad, in, s, i, j, left, right, has_relu);
    }
}

/* in: the values that went in, replaced by their gradient. */
INLINE void convolution_back(const float *weight, const float *grad, float *in, const struct shape s,
                             int has_relu, int lanes) {
    FOR_LANES(lane, lanes, for (int i = 0; i < s.H; i++)
                               FOR_TILES(c, s.C,
                                         convolution_back_row(ROWS, VECTORS, weight + c * s.K * s.K, grad + lane,
                                                              in + PLACE(c, 0, 0, s.H, s.W) + lane, s, i,
                                                              has_relu)));
}

/* The gradient of a row of the kernel for several output channels: ROWS x K sums in registers. */
#define KERNEL_SUMS 12

/* Adds what one column of an output row gives, where the kernel may hang over the left or right edge. */
INLINE void convolution_weight_column(const int ROWS, vector *sum, const float *row, const float *grad,
                                      const struct shape s, int j, int lanes) {
    for (int n = 0; n < lanes; n += V) {
        UNROLL for (int b = 0; b < s.K; b++) {
            if (j + b < s.P || j + b >= s.W + s.P) continue;
            const vector x = *(const vector *)(row + (j + b - s.P) * BLOCK + n);
            UNROLL for (int r = 0; r < ROWS; r++)
                sum[r * s.K + b] += *(const vector *)(grad + PLACE(r, 0, j, s.OH, s.OW) + n) * x;
        }
    }
}

/* a: which row of the kernel; begin, end: which rows of the output. */
INLINE void convolution_weight_tile(const int ROWS, const float *in, const float *grad, float *d_weight,
                                    const struct shape s, int a, int begin, int end, int lanes) {
    vector sum[KERNEL_SUMS] = {{0}};
    const int first = at_most(s.P, s.OW), last = at_least(first, s.OW - s.P);
    for (int i = at_least(begin, s.P - a); i < at_most(end, s.H + s.P - a); i++) {
        const float *row = in + PLACE(0, i + a - s.P, 0, s.H, s.W), *g = grad + PLACE(0, i, 0, s.OH, s.OW);
        for (int j = 0; j < first; j++) convolution_weight_column(ROWS, sum, row, g, s, j, lanes);
        /* In the middle all of the kernel fits: columns and a full batch are one. */
        for (int at = first * BLOCK; at < (s.OW - s.P) * BLOCK; at += lanes < BLOCK ? BLOCK : V) {
            vector there[TILE_ROWS];
            UNROLL for (int r = 0; r < ROWS; r++)
                there[r] = *(const vector *)(g + PLACE(r, 0, 0, s.OH, s.OW) + at);
            UNROLL for (int b = 0; b < s.K; b++) {
                const vector x = *(const vector *)(row + (b - s.P) * BLOCK + at);
                UNROLL for (int r = 0; r < ROWS; r++) sum[r * s.K + b] += there[r] * x;
            }
        }
        for (int j = last; j < s.OW; j++) convolution_weight_column(ROWS, sum, row, g, s, j, lanes);
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int b = 0; b < s.K; b++) d_weight[r * s.C * s.K * s.K + b] += sum_of(sum[r * s.K + b]);
}

/* All rows of the kernel, for ROWS output channels from o on and input channel c. */
INLINE void convolution_weight_rows(const int ROWS, const float *in, const float *grad, float *d_weight,
                                    const struct shape s, int o, int c, int begin, int end, int lanes) {
    for (int a = 0; a < s.K; a++)
        convolution_weight_tile(ROWS, in + PLACE(c, 0, 0, s.H, s.W), grad + PLACE(o, 0, 0, s.OH, s.OW),
                                d_weight + ((o * s.C + c) * s.K + a) * s.K, s, a, begin, end, lanes);
}

/* Adds the gradient of weights and bias, where they are not null. Strips of output rows keep what is used K times
 * in the first cache. */
INLINE void convolution_weights(const float *in, const float *grad, float *d_weight, float *d_bias,
                                const struct shape s, int strip, int lanes) {
    const int many = at_least(1, at_most(TILE_ROWS, KERNEL_SUMS / s.K));
    for (int begin = 0; d_weight && begin < s.OH; begin += strip) {
        const int end = at_most(begin + strip, s.OH);
        for (int c = 0; c < s.C; c++) {
            int o = 0;
            for (; o + many <= s.O; o += many)
                convolution_weight_rows(many, in, grad, d_weight, s, o, c, begin, end, lanes);
            for (; o < s.O; o++) convolution_weight_rows(1, in, grad, d_weight, s, o, c, begin, end, lanes);
        }
    }
    for (int o = 0; d_bias && o < s.O; o++) {
        vector sum[TILE_VECTORS] = {{0}};
        for (int at = PLACE(o, 0, 0, s.OH, s.OW); at < PLACE(o + 1, 0, 0, s.OH, s.OW); at += BLOCK)
            FOR_LANES(lane, lanes, UNROLL for (int v = 0; v < VECTORS; v++) sum[v] +=
                                   *(const vector *)(grad + at + lane + v * V));
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) d_bias[o] += sum_of(sum[v]);
    }
}
