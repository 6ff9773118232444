/* Convolution with stride 1: input [C][H][W], output [O][OH][OW] with OH = H + 2 P - K + 1, weights [O][C][K][K].
 *
 * Padding is never stored: where the kernel hangs over the edge, the loops over it are shorter.
 */

/* The sums of ROWS output channels at one place, all of them in registers. */
INLINE void convolution_tile(const int ROWS, const float *weight, const float *bias, const float *in, float *out, int C,
                             int H, int W, int OH, int OW, int K, int P, int i, int j, int from, int to, int has_relu) {
    vector sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < TILE_VECTORS; v++)
        sum[r][v] = (vector){0} + (bias ? bias[r] : 0.0f);
    const int top = at_least(0, P - i), bottom = at_most(K, H + P - i);
    for (int c = 0; c < C; c++) {
        for (int a = top; a < bottom; a++) {
            const float *row = in + ((c * H + i + a - P) * W + j - P) * BLOCK;
            UNROLL for (int b = 0; b < K; b++) {
                if (b < from || b >= to) continue;
                const vector *x = (const vector *)(row + b * BLOCK);
                UNROLL for (int r = 0; r < ROWS; r++) {
                    const float factor = weight[((r * C + c) * K + a) * K + b];
                    UNROLL for (int v = 0; v < TILE_VECTORS; v++) sum[r][v] += factor * x[v];
                }
            }
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < TILE_VECTORS; v++)
        ((vector *)(out + ((r * OH + i) * OW + j) * BLOCK))[v] = has_relu ? relu(sum[r][v]) : sum[r][v];
}

/* One row of the output: a place where the whole kernel fits has loops of constant length. */
INLINE void convolution_row(const int ROWS, const float *weight, const float *bias, const float *in, float *out, int C,
                            int H, int W, int OH, int OW, int K, int P, int i, int has_relu) {
    int j = 0;
    for (; j < at_most(P, OW); j++)
        convolution_tile(ROWS, weight, bias, in, out, C, H, W, OH, OW, K, P, i, j, P - j, at_most(K, W + P - j), has_relu);
    for (; j < OW - P; j++)
        convolution_tile(ROWS, weight, bias, in, out, C, H, W, OH, OW, K, P, i, j, 0, K, has_relu);
    for (; j < OW; j++)
        convolution_tile(ROWS, weight, bias, in, out, C, H, W, OH, OW, K, P, i, j, at_least(0, P - j), W + P - j, has_relu);
}

INLINE void convolution(const float *weight, const float *bias, const float *in, float *out, int C, int H, int W, int O,
                        int K, int P, int has_relu) {
    const int OH = H + 2 * P - K + 1, OW = W + 2 * P - K + 1;
    for (int lane = 0; lane < BLOCK; lane += LANES)
        for (int i = 0; i < OH; i++)
            FOR_TILES(o, O,
                      convolution_row(ROWS, weight + o * C * K * K, bias ? bias + o : 0, in + lane,
                                      out + o * OH * OW * BLOCK + lane, C, H, W, OH, OW, K, P, i, has_relu));
}

/* The gradient of ROWS input channels at one place: the sum over all outputs that saw it. It replaces the value,
 * which says where ReLU was at rest. */
INLINE void convolution_back_tile(const int ROWS, const float *weight, const float *grad, float *in, int C, int H, int W,
                                  int O, int OH, int OW, int K, int P, int i, int j, int from, int to, int has_relu) {
    vector sum[TILE_ROWS][TILE_VECTORS] = {{{0}}};
    const int top = at_least(0, i + P - OH + 1), bottom = at_most(K, i + P + 1);
    for (int o = 0; o < O; o++) {
        for (int a = top; a < bottom; a++) {
            const float *row = grad + ((o * OH + i + P - a) * OW + j + P) * BLOCK;
            UNROLL for (int b = 0; b < K; b++) {
                if (b < from || b >= to) continue;
                const vector *g = (const vector *)(row - b * BLOCK);
                UNROLL for (int r = 0; r < ROWS; r++) {
                    const float factor = weight[((o * C + r) * K + a) * K + b];
                    UNROLL for (int v = 0; v < TILE_VECTORS; v++) sum[r][v] += factor * g[v];
                }
            }
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        vector *x = (vector *)(in + ((r * H + i) * W + j) * BLOCK);
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) x[v] = has_relu ? keep(x[v] > 0, sum[r][v]) : sum[r][v];
    }
}

INLINE void convolution_back_row(const int ROWS, const float *weight, const float *grad, float *in, int C, int H, int W,
                                 int O, int OH, int OW, int K, int P, int i, int has_relu) {
    for (int j = 0; j < W; j++) {
        if (j + P >= K - 1 && j + P < OW)
            convolution_back_tile(ROWS, weight, grad, in, C, H, W, O, OH, OW, K, P, i, j, 0, K, has_relu);
        else
            convolution_back_tile(ROWS, weight, grad, in, C, H, W, O, OH, OW, K, P, i, j, at_least(0, j + P - OW + 1),
                                  at_most(K, j + P + 1), has_relu);
    }
}

/* in: the values that went in, replaced by their gradient. */
INLINE void convolution_back(const float *weight, const float *grad, float *in, int C, int H, int W, int O, int K, int P,
                             int has_relu) {
    const int OH = H + 2 * P - K + 1, OW = W + 2 * P - K + 1;
    for (int lane = 0; lane < BLOCK; lane += LANES)
        for (int i = 0; i < H; i++)
            FOR_TILES(c, C,
                      convolution_back_row(ROWS, weight + c * K * K, grad + lane, in + c * H * W * BLOCK + lane, C, H,
                                           W, O, OH, OW, K, P, i, has_relu));
}

/* The gradient of a row of the kernel for several output channels: ROWS x K sums in registers. */
#define KERNEL_SUMS 12

/* Adds what one column of an output row gives; the kernel hangs over the left or right edge there, or not. */
INLINE void convolution_weight_column(const int ROWS, vector *sum, const float *row, const float *grad, int W, int OH,
                                      int OW, int K, int P, int j) {
    UNROLL for (int n = 0; n < BLOCK; n += V) {
        vector there[TILE_ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) there[r] = *(const vector *)(grad + (r * OH * OW + j) * BLOCK + n);
        UNROLL for (int b = 0; b < K; b++) {
            if (j + b < P || j + b >= W + P) continue;
            const vector x = *(const vector *)(row + (j + b - P) * BLOCK + n);
            UNROLL for (int r = 0; r < ROWS; r++) sum[r * K + b] += there[r] * x;
        }
    }
}

/* a: which row of the kernel; begin, end: which rows of the output. */
INLINE void convolution_weight_tile(const int ROWS, const float *in, const float *grad, float *d_weight, int C, int H,
                                    int W, int OH, int OW, int K, int P, int a, int begin, int end) {
    vector sum[KERNEL_SUMS] = {{0}};
    for (int i = at_least(begin, P - a); i < at_most(end, H + P - a); i++) {
        const float *row = in + (i + a - P) * W * BLOCK, *g = grad + i * OW * BLOCK;
        int j = 0;
        for (; j < at_most(P, OW); j++) convolution_weight_column(ROWS, sum, row, g, W, OH, OW, K, P, j);
        /* In the middle columns and batch are one: all of the kernel fits. */
        for (int at = j * BLOCK; at < (OW - P) * BLOCK; at += V) {
            vector there[TILE_ROWS];
            UNROLL for (int r = 0; r < ROWS; r++) there[r] = *(const vector *)(g + r * OH * OW * BLOCK + at);
            UNROLL for (int b = 0; b < K; b++) {
                const vector x = *(const vector *)(row + (b - P) * BLOCK + at);
                UNROLL for (int r = 0; r < ROWS; r++) sum[r * K + b] += there[r] * x;
            }
        }
        for (j = at_least(j, OW - P); j < OW; j++) convolution_weight_column(ROWS, sum, row, g, W, OH, OW, K, P, j);
    }
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int b = 0; b < K; b++)
        d_weight[r * C * K * K + b] += sum_of(sum[r * K + b]);
}

/* Adds the gradient of weights and bias. Strips of output rows keep what is used K times in the first cache. */
INLINE void convolution_weights(const float *in, const float *grad, float *d_weight, float *d_bias, int C, int H, int W,
                                int O, int K, int P, int strip) {
    const int OH = H + 2 * P - K + 1, OW = W + 2 * P - K + 1;
    const int many = KERNEL_SUMS / K < 1 ? 1 : KERNEL_SUMS / K < TILE_ROWS ? KERNEL_SUMS / K : TILE_ROWS;
    for (int begin = 0; begin < OH; begin += strip) {
        const int end = at_most(begin + strip, OH);
        for (int c = 0; c < C; c++) {
            int o = 0;
            for (; o + many <= O; o += many)
                for (int a = 0; a < K; a++)
                    convolution_weight_tile(many, in + c * H * W * BLOCK, grad + o * OH * OW * BLOCK,
                                            d_weight + ((o * C + c) * K + a) * K, C, H, W, OH, OW, K, P, a, begin, end);
            for (; o < O; o++)
                for (int a = 0; a < K; a++)
                    convolution_weight_tile(1, in + c * H * W * BLOCK, grad + o * OH * OW * BLOCK,
                                            d_weight + ((o * C + c) * K + a) * K, C, H, W, OH, OW, K, P, a, begin, end);
        }
    }
    for (int o = 0; d_bias && o < O; o++) {
        vector sum[TILE_VECTORS] = {{0}};
        for (int at = o * OH * OW * BLOCK; at < (o + 1) * OH * OW * BLOCK; at += LANES)
            UNROLL for (int v = 0; v < TILE_VECTORS; v++) sum[v] += *(const vector *)(grad + at + v * V);
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) d_bias[o] += sum_of(sum[v]);
    }
}
