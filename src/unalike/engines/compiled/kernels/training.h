/* A party's local training: cross-entropy + strength / 2 sum of strengths[i] (w[i] - centre[i])^2, + what a row
 * is taught + its contrast + near ||mean feature of the step's rows - target||^2, by stochastic gradient descent
 * on the weights from `first` up to `last`, the vector `linear` added to every gradient, which is then multiplied
 * by `scale`. Beside it, where there is one, a second model: in each step `own` moves by `part` times the
 * gradient at mixed = part own + (1 - part) w. With `inner` steps of rate inner_lr, a step's gradient is not
 * taken at w but `ahead`, where they lead: see gradient_ahead. */
struct training {
    struct data data;
    const int64_t *index; /* [steps][width]: row numbers, negative ones fill up a short batch */
    const int64_t *top, *left;
    const uint8_t *flip; /* the same shape, or null: how each row is cropped and mirrored */
    int64_t steps, width;
    int64_t begin; /* the first layer to run: rows are what is before it, as unalike_values leaves them */
    float lr, momentum, weight_decay, strength, pace;
    const float *strengths, *centre, *linear; /* [WEIGHTS], or null; no strengths: all are one */
    int64_t first, last;
    const float *frozen; /* the weights of frozen layers, or null; they are not among WEIGHTS */
    float *w, *velocity, *d_w; /* [WEIGHTS], of gradients V more; velocity is null without momentum */
    float *own, *own_velocity, *d_own, *mixed; /* [WEIGHTS], or null; then all of w moves */
    float part;
    int64_t inner, apart;
    float inner_lr, inner_pull;
    float *ahead; /* [WEIGHTS], where `inner` is not 0; then all of w moves */
    struct kept taught, contrast; /* [][ROW_TOLD] and [][FEATURES] */
    float near;
    const float *target; /* [FEATURES], or null; then there is a tape for every block of a step */
    const float *scales; /* [CLASSES], or null: what logits are multiplied by before cross-entropy */
    float *tape;
};

/* The rows of a block, cropped and mirrored as the plan says. */
static void take_rows(const struct training *t, const float *w, float *tape, int64_t at, int here) {
    if (t->top)
        take_cropped(&t->data, t->index + at, t->top + at, t->left + at, t->flip + at, here, tape);
    else
        take_block(w, &t->data, t->index + at, here, tape);
    const int64_t next = at + here, left = t->steps * t->width - next;
    prefetch_rows(&t->data, t->index + next, left < BLOCK ? left : BLOCK);
}

/* The same where rows are values before layer number `begin`. */
static void take_values(const struct training *t, float *tape, int64_t at, int here) {
    const int size = SIZES[t->begin];
    const float *x = t->data.x;
    float *to = tape + BEFORE[t->begin];
    for (int n = 0; n < lanes_for(here); n++) {
        const float *from = n < here ? x + t->index[at + n] * size : 0;
        for (int i = 0; i < size; i++) to[i * BLOCK + n] = from ? from[i] : 0;
    }
}

/* One block of a step on a tape: its summed loss at w; the tape is left with the gradients of logits and
 * features. */
static double score_block(const struct training *t, const float *w, float *tape, int64_t at, int here,
                          float share) {
    int64_t labels[BLOCK];
    for (int n = 0; n < here; n++) labels[n] = t->data.y[t->index[at + n]];
    if (t->begin)
        take_values(t, tape, at, here);
    else
        take_rows(t, w, tape, at, here);
    forward(w, t->frozen, tape, lanes_for(here), (int)t->begin, LAYERS);
    double loss = cross_entropy(tape + AT_LOGITS, labels, here, share, t->scales, &t->taught, at,
                                tape + AT_TOLD);
    if (t->contrast.table) loss += contrast(&t->contrast, tape + AT_FEATURES, here, at, share, tape + AT_MORE);
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
        for (int i = 0; i < FEATURES; i++) {
            vector sum = {0};
            for (int n = 0; n < lanes_for(here); n += V)
                sum += keep(lanes_before(here - n), *(const vector *)(features + i * BLOCK + n));
            drawn[i] += sum_of(sum);
        }
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
            for (int n = 0; n < lanes_for(here); n += V) {
                vector *to = (vector *)(more + i * BLOCK + n);
                const vector same = (vector){0} + drawn[i];
                *to = (t->contrast.table ? *to : (vector){0}) + keep(lanes_before(here - n), same);
            }
    }
    return t->near * loss;
}

/* The gradient of a block that was scored, added to d_w. */
static void back_block(const struct training *t, const float *w, float *tape, float *d_w, int64_t at, int here) {
    const float *more = t->target || t->contrast.table ? tape + AT_MORE : 0;
    backward(w, t->frozen, tape, more, d_w, here, lanes_for(here), t->first, t->last);
    if (!t->begin) back_to_rows(&t->data, t->index + at, here, tape, d_w, t->first);
}

/* The mean loss of `count` rows at w; its gradient is added to d_w. */
static double gradient(const struct training *t, const float *w, float *d_w, int64_t at, int64_t count) {
    double loss = 0;
    float *tape = t->tape;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        loss += score_block(t, w, tape, at + first, here, 1.0f / (float)count);
        if (t->target)
            tape += TAPE; /* the mean feature is known when all blocks have gone forward */
        else if (d_w)
            back_block(t, w, tape, d_w, at + first, here);
    }
    loss /= (double)count;
    if (!t->target) return loss;
    loss += draw_near(t, t->tape, count);
    tape = t->tape;
    for (int64_t first = 0; first < count; first += BLOCK, tape += TAPE)
        back_block(t, w, tape, d_w, at + first, (int)(count - first < BLOCK ? count - first : BLOCK));
    return loss;
}

/* How many rows a step has. */
static int64_t rows_of(const struct training *t, int64_t step) {
    int64_t count = t->width;
    while (t->index[step * t->width + count - 1] < 0) count--;
    return count;
}

/* The gradient where `inner` steps lead from w that descend on the loss + inner_pull / 2 ||ahead - w||^2: with a
 * pull it is inner_pull (w - ahead), else that of the loss there. With `apart` the first half of the rows is for
 * the steps and the rest for the gradient. */
static double gradient_ahead(const struct training *t, int64_t at, int64_t count) {
    const int64_t half = t->apart && count > 1 ? (count + 1) / 2 : 0;
    const float *restrict w = t->w;
    float *restrict ahead = t->ahead, *restrict d_w = t->d_w;
    const float lr = t->inner_lr, strength = t->inner_pull;
    memcpy(ahead, w, WEIGHTS * sizeof(float));
    for (int64_t k = 0; k < t->inner; k++) {
        gradient(t, ahead, d_w, at, half ? half : count);
        for (int64_t i = 0; i < WEIGHTS; i++) {
            ahead[i] -= lr * (d_w[i] + strength * (ahead[i] - w[i]));
            d_w[i] = 0;
        }
    }
    if (!strength) return gradient(t, ahead, d_w, at + half, count - half);
    for (int64_t i = 0; i < WEIGHTS; i++) d_w[i] = strength * (w[i] - ahead[i]);
    return gradient(t, ahead, 0, at + half, count - half);
}

#define TOGETHER 64 /* numbers that are added up in floating point before they are in double precision */

/* What the proximal term of the weights from `first` up to `last` adds to the loss; its gradient is added to d_w,
 * if there is one. */
static double pulled(const struct training *t, int64_t first, int64_t last, float *restrict d_w) {
    const float *restrict w = t->w, *restrict centre = t->centre, *restrict strengths = t->strengths;
    const float strength = t->strength;
    double drift = 0;
    for (int64_t begin = first; centre && begin < last; begin += TOGETHER) {
        const int64_t end = begin + TOGETHER < last ? begin + TOGETHER : last;
        float part[TOGETHER] = {0};
        for (int64_t i = begin; i < end; i++) {
            const float away = w[i] - centre[i], pull = strengths ? strengths[i] * away : away;
            part[i - begin] = pull * away;
            if (d_w) d_w[i] += strength * pull;
        }
        for (int span = TOGETHER / 2; span; span /= 2)
            for (int i = 0; i < span; i++) part[i] += part[i + span];
        drift += part[0];
    }
    return strength / 2 * drift;
}

/* The step itself, after which the gradient is zero again; what the proximal term of the weights that move adds
 * to the loss. */
static double descend(const struct training *t) {
    const int64_t first = t->first, last = t->last;
    float *restrict w = t->w, *restrict d_w = t->d_w, *restrict velocity = t->velocity;
    const float *restrict linear = t->linear;
    const float lr = t->lr, momentum = t->momentum, decay = t->weight_decay, pace = t->pace;
    const double drift = pulled(t, first, last, d_w);
    if (linear)
        for (int64_t i = first; i < last; i++) d_w[i] += linear[i];
    if (velocity)
        for (int64_t i = first; i < last; i++) {
            velocity[i] = momentum * velocity[i] + pace * (d_w[i] + decay * w[i]);
            d_w[i] = 0;
            w[i] -= lr * velocity[i];
        }
    else
        for (int64_t i = first; i < last; i++) {
            w[i] -= lr * pace * (d_w[i] + decay * w[i]);
            d_w[i] = 0;
        }
    return drift;
}

/* The step of the second model, at its mixture with w as it is. */
static void descend_beside(const struct training *t, int64_t at, int64_t count) {
    const float *restrict w = t->w;
    float *restrict own = t->own, *restrict d_own = t->d_own, *restrict mixed = t->mixed;
    float *restrict velocity = t->own_velocity;
    const float lr = t->lr, momentum = t->momentum, decay = t->weight_decay, part = t->part;
    for (int64_t i = 0; i < WEIGHTS; i++) mixed[i] = part * own[i] + (1 - part) * w[i];
    gradient(t, mixed, d_own, at, count);
    for (int64_t i = 0; i < WEIGHTS; i++) {
        float g = part * d_own[i] + decay * own[i];
        d_own[i] = 0;
        if (velocity) g = velocity[i] = momentum * velocity[i] + g;
        own[i] -= lr * g;
    }
}
