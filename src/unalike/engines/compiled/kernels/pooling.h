/* Maximum over squares of 2 x 2: input [C][H][W], output [C][H / 2][W / 2]. Nobody sees an odd last row. */

INLINE void pooling(const float *in, float *out, int C, int H, int W, int has_relu, int lanes) {
    for (int c = 0; c < C; c++)
        for (int i = 0; i < H / 2; i++)
            for (int j = 0; j < W / 2; j++)
                for (int n = 0; n < lanes; n += V) {
                    const float *from = in + PLACE(c, 2 * i, 2 * j, H, W) + n;
                    vector top = larger(*(const vector *)from, *(const vector *)(from + BLOCK));
                    from += W * BLOCK;
                    vector bottom = larger(*(const vector *)from, *(const vector *)(from + BLOCK));
                    vector most = larger(top, bottom);
                    *(vector *)(out + PLACE(c, i, j, H / 2, W / 2) + n) = has_relu ? relu(most) : most;
                }
}

/* in: the values that went in, replaced by their gradient, which is the first largest one's of each square. */
INLINE void pooling_back(const float *grad, float *in, int C, int H, int W, int has_relu, int lanes) {
    for (int c = 0; c < C; c++) {
        for (int i = 0; i < H / 2; i++)
            for (int j = 0; j < W / 2; j++)
                for (int n = 0; n < lanes; n += V) {
                    vector *at[4];
                    for (int k = 0; k < 4; k++)
                        at[k] = (vector *)(in + PLACE(c, 2 * i + k / 2, 2 * j + k % 2, H, W) + n);
                    vector most = larger(larger(*at[0], *at[1]), larger(*at[2], *at[3]));
                    vector g = *(const vector *)(grad + PLACE(c, i, j, H / 2, W / 2) + n);
                    if (has_relu) g = keep(most > 0.0f, g);
                    mask left = ~(mask){0};
                    UNROLL for (int k = 0; k < 4; k++) {
                        mask here = (*at[k] == most) & left;
                        left &= ~here;
                        *at[k] = keep(here, g);
                    }
                }
        if (H % 2) memset(in + PLACE(c, H - 1, 0, H, W), 0, W * BLOCK * sizeof(float));
        if (W % 2)
            for (int i = 0; i < H; i++) memset(in + PLACE(c, i, W - 1, H, W), 0, BLOCK * sizeof(float));
    }
}
