/* What a row may be asked beside its label. The tables are made before training, by models that stay as they are. */

#define SHORTEST 1e-8f /* features that are shorter count as this long, as in torch */

/* A term and its tables: `first` is null where there is no such term. */
struct kept {
    float strength, heat;
    const int64_t *at; /* [steps][width]: which row of the tables is that of a row of a step */
    const float *first, *second;
};

/* strength heat^2 KL(taught || softmax(z / heat)) of one row's logits z; `to` gets its gradient times `share`. */
static double taught_row(const struct kept *t, const float *z, const float *taught, float share, float *to) {
    float most = z[0], sum = 0;
    double loss = 0;
    for (int k = 1; k < CLASSES; k++) most = z[k * BLOCK] > most ? z[k * BLOCK] : most;
    for (int k = 0; k < CLASSES; k++) sum += to[k] = expf((z[k * BLOCK] - most) / t->heat);
    for (int k = 0; k < CLASSES; k++) {
        if (taught[k] > 0) loss += taught[k] * (logf(taught[k]) - ((z[k * BLOCK] - most) / t->heat - logf(sum)));
        to[k] = (to[k] / sum - taught[k]) * t->strength * t->heat * share;
    }
    return t->strength * t->heat * t->heat * loss;
}

/* Of `count` rows' features z: strength log(1 + exp((cos(z, second) - cos(z, first)) / heat)), summed; `to` gets its
 * gradient times `share`. The rows of the tables have length 1. */
static double contrast(const struct kept *t, const float *features, int count, int64_t place, float share, float *to) {
    double loss = 0;
    for (int n = 0; n < lanes_for(count); n++) {
        if (n >= count) {
            for (int i = 0; i < FEATURES; i++) to[i * BLOCK + n] = 0;
            continue;
        }
        const float *near = t->first + t->at[place + n] * FEATURES, *far = t->second + t->at[place + n] * FEATURES;
        const float *z = features + n;
        float square = 0, to_near = 0, to_far = 0;
        for (int i = 0; i < FEATURES; i++) {
            square += z[i * BLOCK] * z[i * BLOCK];
            to_near += z[i * BLOCK] * near[i];
            to_far += z[i * BLOCK] * far[i];
        }
        const float length = sqrtf(square) > SHORTEST ? sqrtf(square) : SHORTEST;
        const float gap = (to_far - to_near) / (length * t->heat);
        const float pushed = 1 / (1 + expf(-gap)) * t->strength * share / (t->heat * length);
        const float along = sqrtf(square) > SHORTEST ? (to_far - to_near) / square : 0;
        loss += t->strength * (gap > 0 ? gap + log1pf(expf(-gap)) : log1pf(expf(gap)));
        for (int i = 0; i < FEATURES; i++)
            to[i * BLOCK + n] = pushed * (far[i] - near[i] - along * z[i * BLOCK]);
    }
    return loss;
}
