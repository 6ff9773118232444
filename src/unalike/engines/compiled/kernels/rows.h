/* Rows of a data set into a block: numbers of one kind, all of them. */

#define LINE 64 /* bytes that memory sends at a time */
#define PREFETCHED 1024

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

static void read_row(const struct data *data, int64_t number, float *to) {
    if (data->kind == 0)
        READ_ROW(float);
    else if (data->kind == 1)
        READ_ROW(uint8_t);
    else
        READ_ROW(int16_t);
}

/* Asks memory for rows and labels that are needed soon: each is somewhere else. Of long rows the beginning will
 * do, as the processor sees by itself how it goes on. Inlined: GCC drops calls of a function that asks and no more. */
INLINE void prefetch_rows(const struct data *data, const int64_t *rows, int64_t count) {
    const int64_t row = INPUT * (data->kind == 0 ? sizeof(float) : data->kind == 1 ? 1 : sizeof(int16_t));
    for (int64_t n = 0; n < count; n++) {
        if (rows[n] < 0) continue; /* fills up a short batch */
        const char *at = (const char *)data->x + rows[n] * row;
        for (int64_t byte = 0; byte < row && byte < PREFETCHED; byte += LINE) PREFETCH(at + byte);
        PREFETCH(at + row - 1);
        PREFETCH(data->y + rows[n]);
    }
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

/* Rows `count` and up are zero; then the block has its batch innermost. */
static void settle(float *tape, int count) {
    const int lanes = lanes_for(count);
    memset(tape + AT_ROWS + count * ROW_STRIDE, 0, (size_t)(lanes - count) * ROW_STRIDE * sizeof(float));
    transpose(tape + AT_ROWS, ROW_STRIDE, tape + AT_INPUT, BLOCK, lanes, INPUT);
}

/* Rows `rows[0]` to `rows[count - 1]` as a block. */
static void take_block(const float *w, const struct data *data, const int64_t *rows, int count, float *tape) {
    (void)w;
    for (int n = 0; n < count; n++) read_row(data, rows[n], tape + AT_ROWS + n * ROW_STRIDE);
    settle(tape, count);
}

/* The same, each cropped and mirrored. */
static void take_cropped(const struct data *data, const int64_t *rows, const int64_t *top, const int64_t *left,
                         const uint8_t *flip, int count, float *tape) {
    float *plain = tape + AT_INPUT; /* free until the block is settled */
    for (int n = 0; n < count; n++) {
        read_row(data, rows[n], plain);
        crop_flip(plain, tape + AT_ROWS + n * ROW_STRIDE, (int)top[n], (int)left[n], flip[n]);
    }
    settle(tape, count);
}

/* What of a gradient `backward` leaves to those who know the rows: nothing. */
static void back_to_rows(const struct data *data, const int64_t *rows, int count, const float *tape, float *d_w,
                         int64_t first) {
    (void)data, (void)rows, (void)count, (void)tape, (void)d_w, (void)first;
}
