/* What Python calls. A tape holds what one block of rows leaves behind in the net: TAPE floats. */

int64_t unalike_tape(void) { return TAPE; }
int64_t unalike_block(void) { return BLOCK; }

/* What `count` rows of the data are before layer number `end`: [count][SIZES[end]]. */
void unalike_values(const float *w, const float *frozen, const struct data *data, const int64_t *rows,
                    int64_t count, int64_t end, float *tape, float *values) {
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        take_block(w, data, rows + first, here, tape);
        forward(w, frozen, tape, lanes_for(here), 0, (int)end);
        gather(tape + BEFORE[end], values + first * SIZES[end], SIZES[end], here);
    }
}

/* How well models do, each on rows of its own: row numbers up to `ends[m]` are those of model m, from where those
 * of the model before end. For each row its cross-entropy, and 1 for a right answer or 0. */
void unalike_evaluate(const float *const *models, const int64_t *ends, int64_t count, const float *frozen,
                      const struct data *data, const int64_t *rows, float *tape, float *scores) {
    int64_t labels[BLOCK], first = 0;
    for (int64_t m = 0; m < count; m++)
        while (first < ends[m]) {
            const int here = (int)(ends[m] - first < BLOCK ? ends[m] - first : BLOCK);
            const int64_t next = first + here, left = ends[count - 1] - next;
            for (int n = 0; n < here; n++) labels[n] = data->y[rows[first + n]];
            take_block(models[m], data, rows + first, here, tape);
            prefetch_rows(data, rows + next, left < BLOCK ? left : BLOCK);
            forward(models[m], frozen, tape, lanes_for(here), 0, LAYERS);
            judge(tape + AT_LOGITS, labels, here, scores + 2 * first);
            first = next;
        }
}

/* The mean loss over all steps. */
double unalike_train(const struct training *t) {
    const double still = pulled(t, 0, t->first, 0) + pulled(t, t->last, WEIGHTS, 0);
    double total = 0;
    memset(t->d_w, 0, WEIGHTS * sizeof(float)); /* from here on whoever uses a gradient clears it */
    if (t->own) memset(t->d_own, 0, WEIGHTS * sizeof(float));
    for (int64_t step = 0; step < t->steps; step++) {
        const int64_t at = step * t->width, count = rows_of(t, step);
        const double loss = t->inner ? gradient_ahead(t, at, count) : gradient(t, t->w, t->d_w, at, count);
        if (t->own) descend_beside(t, at, count);
        total += loss + descend(t);
    }
    return total / (double)t->steps + still;
}

/* The mean loss of the first step's rows at w; d_w gets its gradient. */
double unalike_gradient(const struct training *t) {
    memset(t->d_w, 0, WEIGHTS * sizeof(float));
    return gradient(t, t->w, t->d_w, 0, rows_of(t, 0));
}
