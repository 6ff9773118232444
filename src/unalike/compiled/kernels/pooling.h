/* Maximum over squares of 2 x 2: input [C][H][W], output [C][H / 2][W / 2]. An odd last row or column is not seen. */

INLINE void pooling(const float *in, float *out, int C, int H, int W, int has_relu) {
    for (int c = 0; c < C; c++)
        for (int i = 0; i < H / 2; i++)
            for (int j = 0; j < W / 2; j++)
                for (int n = 0; n < BLOCK; n += V) {
                    const float *from = in + ((c * H + 2 * i) * W + 2 * j) * BLOCK + n;
                    vector top = larger(*(const vector *)from, *(const vector *)(from + BLOCK));
                    from += W * BLOCK;
                    vector bottom = larger(*(const vector *)from, *(const vector *)(from + BLOCK));
                    vector most = larger(top, bottom);
                    *(vector *)(out + ((c * (H / 2) + i) * (W / 2) + j) * BLOCK + n) = has_relu ? relu(most) : most;
                }
}

/* in: the values that went in, replaced by their gradient, which is the first largest one's of each square. */
INLINE void pooling_back(const float *grad, float *in, int C, int H, int W, int has_relu) {
    for (int c = 0; c < C; c++) {
        for (int i = 0; i < H / 2; i++)
            for (int j = 0; j < W / 2; j++)
                for (int n = 0; n < BLOCK; n += V) {
                    vector *at[4];
                    for (int k = 0; k < 4; k++)
                        at[k] = (vector *)(in + ((c * H + 2 * i + k / 2) * W + 2 * j + k % 2) * BLOCK + n);
                    vector most = larger(larger(*at[0], *at[1]), larger(*at[2], *at[3]));
                    vector g = *(const vector *)(grad + ((c * (H / 2) + i) * (W / 2) + j) * BLOCK + n);
                    if (has_relu) g = keep(most > 0, g);
                    mask left = ~(mask){0};
                    UNROLL for (int k = 0; k < 4; k++) {
                        mask here = (*at[k] == most) & left;
                        left &= ~here;
                        *at[k] = keep(here, g);
                    }
                }
        if (H % 2) memset(in + (c * H + H - 1) * W * BLOCK, 0, W * BLOCK * sizeof(float));
        if (W % 2)
            for (int i = 0; i < H; i++) memset(in + ((c * H + i) * W + W - 1) * BLOCK, 0, BLOCK * sizeof(float));
    }
}
