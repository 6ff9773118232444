/* What Python calls. A tape holds what one block of rows leaves behind in the net: TAPE floats. */

int64_t unalike_tape(void) { return TAPE; }
int64_t unalike_block(void) { return BLOCK; }

/* Logits and features of `count` rows. With `keep` every block has a tape of its own, for unalike_backward. */
void unalike_forward(const float *w, const float *frozen, const float *x, int64_t count, float *tape,
                     int64_t keep_tapes, float *logits, float *features) {
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        for (int n = 0; n < here; n++)
            memcpy(tape + AT_ROWS + n * ROW_STRIDE, x + (first + n) * INPUT, INPUT * sizeof(float));
        settle(tape, here);
        forward(w, frozen, tape, lanes_for(here), 0, LAYERS);
        gather(tape + AT_LOGITS, logits + first * CLASSES, CLASSES, here);
        gather(tape + AT_FEATURES, features + first * FEATURES, FEATURES, here);
        if (keep_tapes) tape += TAPE;
    }
}

/* What `count` rows of the data are before layer number `end`: [count][SIZES[end]]. */
void unalike_values(const float *w, const float *frozen, const struct data *data, const int64_t *rows, int64_t count,
                    int64_t end, float *tape, float *values) {
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        for (int n = 0; n < here; n++) read_row(data, rows[first + n], tape + AT_ROWS + n * ROW_STRIDE);
        settle(tape, here);
        forward(w, frozen, tape, lanes_for(here), 0, (int)end);
        gather(tape + BEFORE[end], values + first * SIZES[end], SIZES[end], here);
    }
}

/* The gradient with respect to w, given that of the logits and of the features (either may be null). Tapes are
 * used up: values are replaced by their gradients. */
void unalike_backward(const float *w, const float *frozen, int64_t count, float *tape, const float *d_logits,
                      const float *d_features, float *d_w) {
    memset(d_w, 0, WEIGHTS * sizeof(float));
    for (int64_t first = 0; first < count; first += BLOCK, tape += TAPE) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        if (d_logits)
            spread(d_logits + first * CLASSES, tape + AT_LOGITS, CLASSES, here);
        else
            memset(tape + AT_LOGITS, 0, CLASSES * BLOCK * sizeof(float));
        if (d_features) spread(d_features + first * FEATURES, tape + AT_MORE, FEATURES, here);
        backward(w, frozen, tape, d_features ? tape + AT_MORE : 0, d_w, here, lanes_for(here), 0, WEIGHTS);
    }
}

/* Cross-entropy of `count` rows, whose logits may be scaled by class, and what they are taught, summed; logits are
 * replaced by its gradient times `share`. */
static double cross_entropy(float *logits, const int64_t *labels, int count, float share, const float *scales,
                            const struct kept *taught, int64_t place) {
    double loss = 0;
    float more[CLASSES];
    for (int n = 0; n < lanes_for(count); n++) {
        float *at = logits + n;
        if (n >= count) {
            for (int k = 0; k < CLASSES; k++) at[k * BLOCK] = 0;
            continue;
        }
        if (taught->first)
            loss += taught_row(taught, at, taught->first + taught->at[place + n] * CLASSES, share, more);
        for (int k = 0; scales && k < CLASSES; k++) at[k * BLOCK] *= scales[k];
        float most = at[0], sum = 0;
        for (int k = 1; k < CLASSES; k++) most = at[k * BLOCK] > most ? at[k * BLOCK] : most;
        const float mine = at[labels[n] * BLOCK];
        for (int k = 0; k < CLASSES; k++) sum += at[k * BLOCK] = expf(at[k * BLOCK] - most);
        loss += logf(sum) - (mine - most);
        for (int k = 0; k < CLASSES; k++) at[k * BLOCK] *= share / sum;
        at[labels[n] * BLOCK] -= share;
        for (int k = 0; scales && k < CLASSES; k++) at[k * BLOCK] *= scales[k];
        for (int k = 0; taught->first && k < CLASSES; k++) at[k * BLOCK] += more[k];
    }
    return loss;
}

/* A party's local training: cross-entropy (of scaled logits) + strength / 2 sum of strengths[i] (w[i] - centre[i])^2, + what a row is
 * taught + its contrast + near ||mean feature of the step's rows - target||^2, by stochastic gradient
 * descent on the weights from `first` up to `last`, the vector `linear` added to every gradient. Beside it,
 * where there is one, a second model: in each step `own` moves by `part` times the gradient at
 * mixed = part own + (1 - part) w. */
struct training {
    struct data data;
    const int64_t *index; /* [steps][width]: row numbers, negative ones fill up a short batch */
    const int64_t *top, *left;
    const uint8_t *flip; /* the same shape, or null: how each row is cropped and mirrored */
    int64_t steps, width;
    int64_t begin; /* the first layer to run: rows are what is before it, as unalike_values leaves them */
    float lr, momentum, weight_decay, strength;
    const float *strengths, *centre, *linear; /* [WEIGHTS], or null; no strengths: all are one */
    int64_t first, last;
    const float *frozen; /* the weights of frozen layers, or null; they are not among WEIGHTS */
    float *w, *velocity, *d_w; /* [WEIGHTS]; velocity is null without momentum; of d_w only what moves is read */
    float *own, *own_velocity, *d_own, *mixed; /* [WEIGHTS], or null; then all of w moves */
    float part;
    struct kept taught, contrast; /* logits as probabilities [][CLASSES]; features of length 1 [][FEATURES], twice */
    float near;
    const float *target; /* [FEATURES], or null; then there is a tape for every block of a step */
    const float *scales; /* [CLASSES], or null */
    float *tape;
};

/* The rows of a block, cropped and mirrored as the plan says. */
static void take_rows(const struct training *t, float *tape, int64_t at, int here) {
    float *plain = tape + AT_INPUT; /* free until the block is settled */
    for (int n = 0; n < here; n++) {
        float *to = tape + AT_ROWS + n * ROW_STRIDE;
        read_row(&t->data, t->index[at + n], t->top ? plain : to);
        if (t->top) crop_flip(plain, to, (int)t->top[at + n], (int)t->left[at + n], t->flip[at + n]);
    }
    settle(tape, here);
}

/* The same where rows are values before layer number `begin`. */
static void take_values(const struct training *t, float *tape, int64_t at, int here) {
    const int size = SIZES[t->begin];
    float *to = tape + BEFORE[t->begin];
    for (int n = 0; n < lanes_for(here); n++) {
        const float *from = n < here ? (const float *)t->data.x + t->index[at + n] * size : 0;
        for (int i = 0; i < size; i++) to[i * BLOCK + n] = from ? from[i] : 0;
    }
}

/* One block of a step on a tape: its summed loss at w; the tape is left with the gradients of logits and features. */
static double score_block(const struct training *t, const float *w, float *tape, int64_t at, int here, float share) {
    int64_t labels[BLOCK];
    for (int n = 0; n < here; n++) labels[n] = t->data.y[t->index[at + n]];
    if (t->begin)
        take_values(t, tape, at, here);
    else
        take_rows(t, tape, at, here);
    forward(w, t->frozen, tape, lanes_for(here), (int)t->begin, LAYERS);
    double loss = cross_entropy(tape + AT_LOGITS, labels, here, share, t->scales, &t->taught, at);
    if (t->contrast.first) loss += contrast(&t->contrast, tape + AT_FEATURES, here, at, share, tape + AT_MORE);
    return loss;
}

/* What a step's rows have to do with each other: near ||their mean feature - target||^2. */
static double draw_near(const struct training *t, float *tape, int64_t count) {
    float drawn[FEATURES];
    double loss = 0;
    memset(drawn, 0, sizeof drawn);
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        const float *features = tape + first / BLOCK * TAPE + AT_FEATURES;
        for (int i = 0; i < FEATURES; i++)
            for (int n = 0; n < here; n++) drawn[i] += features[i * BLOCK + n];
    }
    for (int i = 0; i < FEATURES; i++) {
        const float gap = drawn[i] / (float)count - t->target[i];
        loss += (double)gap * gap;
        drawn[i] = 2 * t->near * gap / (float)count;
    }
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        float *more = tape + first / BLOCK * TAPE + AT_MORE;
        for (int i = 0; i < FEATURES; i++)
            for (int n = 0; n < lanes_for(here); n++)
                more[i * BLOCK + n] = (t->contrast.first ? more[i * BLOCK + n] : 0) + (n < here ? drawn[i] : 0);
    }
    return t->near * loss;
}

/* The gradient of a block that was scored, added to d_w. */
static void back_block(const struct training *t, const float *w, float *tape, float *d_w, int here) {
    const float *more = t->target || t->contrast.first ? tape + AT_MORE : 0;
    backward(w, t->frozen, tape, more, d_w, here, lanes_for(here), t->first, t->last);
}

/* How strongly weight i is pulled to the centre, but for `strength`. */
INLINE float pull(const struct training *t, int64_t i, float away) {
    return t->strengths ? t->strengths[i] * away : away;
}

/* What the proximal term of the weights from `first` up to `last` adds to the loss. */
static double distance(const struct training *t, int64_t first, int64_t last) {
    double drift = 0;
    for (int64_t i = first; t->centre && i < last; i++) {
        const float away = t->w[i] - t->centre[i];
        drift += (double)pull(t, i, away) * away;
    }
    return t->strength / 2 * drift;
}

/* The step itself; what the proximal term of the weights that move adds to the loss. */
static double descend(const struct training *t) {
    double drift = 0;
    for (int64_t i = t->first; i < t->last; i++) {
        float g = t->d_w[i];
        if (t->centre) {
            const float away = t->w[i] - t->centre[i];
            const float pulled = pull(t, i, away);
            drift += (double)pulled * away;
            g += t->strength * pulled;
        }
        g += t->weight_decay * t->w[i];
        if (t->linear) g += t->linear[i];
        if (t->velocity) g = t->velocity[i] = t->momentum * t->velocity[i] + g;
        t->w[i] -= t->lr * g;
    }
    return t->strength / 2 * drift;
}

/* The mean loss of a step's rows at w, and its gradient. */
static double gradient(const struct training *t, const float *w, float *d_w, int64_t step) {
    const int64_t *index = t->index + step * t->width;
    int64_t count = t->width;
    while (index[count - 1] < 0) count--;
    double loss = 0;
    float *tape = t->tape;
    memset(d_w + t->first, 0, (size_t)(t->last - t->first) * sizeof(float));
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        loss += score_block(t, w, tape, step * t->width + first, here, 1.0f / (float)count);
        if (t->target)
            tape += TAPE; /* the mean feature is known when all blocks have gone forward */
        else
            back_block(t, w, tape, d_w, here);
    }
    loss /= (double)count;
    if (!t->target) return loss;
    loss += draw_near(t, t->tape, count);
    tape = t->tape;
    for (int64_t first = 0; first < count; first += BLOCK, tape += TAPE)
        back_block(t, w, tape, d_w, (int)(count - first < BLOCK ? count - first : BLOCK));
    return loss;
}

/* The step of the second model, at its mixture with w as it is. */
static void descend_beside(const struct training *t, int64_t step) {
    for (int64_t i = 0; i < WEIGHTS; i++) t->mixed[i] = t->part * t->own[i] + (1 - t->part) * t->w[i];
    gradient(t, t->mixed, t->d_own, step);
    for (int64_t i = 0; i < WEIGHTS; i++) {
        float g = t->part * t->d_own[i] + t->weight_decay * t->own[i];
        if (t->own_velocity) g = t->own_velocity[i] = t->momentum * t->own_velocity[i] + g;
        t->own[i] -= t->lr * g;
    }
}

/* The mean loss over all steps. */
double unalike_train(const struct training *t) {
    const double still = distance(t, 0, t->first) + distance(t, t->last, WEIGHTS);
    double total = 0;
    for (int64_t step = 0; step < t->steps; step++) {
        const double loss = gradient(t, t->w, t->d_w, step);
        if (t->own) descend_beside(t, step);
        total += loss + descend(t);
    }
    return total / (double)t->steps + still;
}
