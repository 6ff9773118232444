/* The rows of a party, and what is kept of a block. */

struct data {
    const void *x; /* [rows][INPUT]; of sparse rows the numbers that are not zero, float, row after row */
    const int64_t *y;
    const float *shift, *scale; /* [INPUT], or null */
    int64_t kind; /* of the numbers in x: a place in KINDS of asked.py */
    const int64_t *starts; /* [rows + 1], of sparse rows: where each begins in x and in columns */
    const int32_t *columns;
};

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
