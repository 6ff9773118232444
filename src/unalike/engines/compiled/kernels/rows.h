/* Rows of a data set into a block, and out of it. */

/* Where the pixel at `place` of a padded image is in the image itself: mirrored at its first and last one. */
INLINE int reflect(int place, int size) {
    place = place < 0 ? -place : place;
    return place < size ? place : 2 * (size - 1) - place;
}

/* One row as floating point, (x - shift) / scale where there is a shift. */
#define READ_ROW(type)                                                                                          \
    do {                                                                                                        \
        const type *x = (const type *)data->x + number * INPUT;                                                 \
        if (data->shift)                                                                                        \
            for (int i = 0; i < INPUT; i++) to[i] = ((float)x[i] - data->shift[i]) / data->scale[i];            \
        else                                                                                                    \
            for (int i = 0; i < INPUT; i++) to[i] = (float)x[i];                                                \
    } while (0)

struct data {
    const void *x; /* [rows][INPUT] */
    const int64_t *y;
    const float *shift, *scale; /* [INPUT], or null */
    int64_t kind; /* of the numbers in x: a place in KINDS of library.py */
};

static void read_row(const struct data *data, int64_t number, float *to) {
    if (data->kind == 0)
        READ_ROW(float);
    else if (data->kind == 1)
        READ_ROW(uint8_t);
    else
        READ_ROW(int16_t);
}

/* The row cropped and mirrored as unalike.data.augment does it; from: the row as it is. */
static void crop_flip(const float *from, float *to, int top, int left, int flip) {
    for (int c = 0; c < CHANNELS; c++)
        for (int i = 0; i < HEIGHT; i++) {
            const float *row = from + (c * HEIGHT + reflect(i + top - CROP, HEIGHT)) * WIDTH;
            for (int j = 0; j < WIDTH; j++)
                *to++ = row[reflect((flip ? WIDTH - 1 - j : j) + left - CROP, WIDTH)];
        }
}

/* The lanes that `count` rows need. */
INLINE int lanes_for(int count) { return (count + LANES - 1) / LANES * LANES; }

/* Rows `count` and up are zero; then the block has its batch innermost. */
static void settle(float *tape, int count) {
    const int lanes = lanes_for(count);
    memset(tape + AT_ROWS + count * ROW_STRIDE, 0, (size_t)(lanes - count) * ROW_STRIDE * sizeof(float));
    transpose(tape + AT_ROWS, ROW_STRIDE, tape + AT_INPUT, BLOCK, lanes, INPUT);
}

/* [count][width] into [width][BLOCK] and back. */
static void spread(const float *from, float *to, int width, int count) {
    const int lanes = lanes_for(count);
    for (int i = 0; i < width; i++)
        for (int n = 0; n < lanes; n++) to[i * BLOCK + n] = n < count ? from[n * width + i] : 0;
}

static void gather(const float *from, float *to, int width, int count) {
    for (int n = 0; n < count; n++)
        for (int i = 0; i < width; i++) to[n * width + i] = from[i * BLOCK + n];
}
