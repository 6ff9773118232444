// What trained trees say of rows: the walk of ensemble.py, some rows at a time.

#define TOGETHER 16  // rows that are walked side by side, as each step waits for memory
#define KEPT 64      // rows that stay in the cache while all trees are walked

typedef struct {
    float threshold;
    int32_t column;
    int32_t missing_left;
    int32_t child[2];  // on the right, on the left; a leaf's lead to itself
    double value;
} __attribute__((packed)) Step;

INLINE void walk_some(const float *x, const int64_t rows, int64_t features, const Step *tree, int64_t depth, double *to,
                      int64_t outputs) {
    int32_t node[TOGETHER] = {0};
    for (int64_t step = 0; step < depth; step++)
        _Pragma("GCC unroll 16") for (int64_t i = 0; i < rows; i++) {
            const Step *at = tree + node[i];
            float number = x[i * features + at->column];
            node[i] = at->child[(number < at->threshold) | ((number != number) & at->missing_left)];
        }
    for (int64_t i = 0; i < rows; i++) to[i * outputs] += tree[node[i]].value;
}

// Add the leaf's value of every tree in turn to `found`, which has `outputs` numbers a row; tree t is for one of them.
void walk_rows(const float *x, int64_t rows, int64_t features, const Step *steps, int64_t trees, int64_t nodes,
               const int64_t *depth, int64_t first, int64_t outputs, double *found) {
    for (int64_t from = 0; from < rows; from += KEPT) {
        int64_t to = from + KEPT < rows ? from + KEPT : rows;
        for (int64_t t = 0; t < trees; t++) {
            const Step *tree = steps + t * nodes;
            double *sums = found + (first + t) % outputs;
            int64_t i = from;
            for (; i + TOGETHER <= to; i += TOGETHER)
                walk_some(x + i * features, TOGETHER, features, tree, depth[t], sums + i * outputs, outputs);
            for (; i < to; i++) walk_some(x + i * features, 1, features, tree, depth[t], sums + i * outputs, outputs);
        }
    }
}
