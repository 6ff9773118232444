// The threads of this process, which share the tasks of one tree at a time. Sums are of integers, so who does which
// task changes nothing. A thread begins with tasks of its own, the same part of them every time: what it wrote is still
// in its cache. Then it takes those that others have not begun, so one that the machine does not run holds nobody up.
typedef void (*Work)(void *what, int64_t task, int thread);

// The tasks of a thread that nobody has begun, in one word that is changed at once: 24 bits of the job's number, 20 of
// the first of them, 20 of the end.
typedef struct {
    _Alignas(64) atomic_ullong left;
} Heap;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int started;  // threads that are there beside the caller
    pid_t process;
    Work work;
    void *what;
    atomic_int allowed, asleep;  // those that may take part now; those that must be woken
    Heap heap[MOST_THREADS];
    _Alignas(64) atomic_ullong job;
    _Alignas(64) atomic_llong undone;
} Team;

static Team TEAM = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
static pthread_mutex_t TEAM_TAKEN = PTHREAD_MUTEX_INITIALIZER;

// The team is taken by one tree at a time; another one that is grown meanwhile is grown by its own thread alone.
typedef struct {
    int threads;
} Share;

#define MOST_TASKS ((1 << 20) - 1)
#define SPINS 500  // some microseconds, within which the next tasks often come; then others may have the core
#define YIELDS 200
static void wait_a_little(int spin) {
    if (spin >= SPINS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Take a task from a heap: its owner from the front, others from the back. What it is about is read afterwards: until
// this task is done there is no other job.
static int take_task(int whose, int thread, int64_t *task) {
    unsigned long long now = atomic_load(&TEAM.heap[whose].left);
    for (;;) {
        unsigned long long next = now >> 20 & MOST_TASKS, end = now & MOST_TASKS;
        if (next >= end || thread > TEAM.allowed) return 0;
        *task = (int64_t)(whose == thread ? next : end - 1);
        if (atomic_compare_exchange_weak(&TEAM.heap[whose].left, &now, whose == thread ? now + (1 << 20) : now - 1))
            return 1;
    }
}

static void work_off(int thread) {
    for (int step = 0; step <= TEAM.allowed; step++) {
        int whose = (thread + step) % (TEAM.allowed + 1);
        int64_t task;
        while (take_task(whose, thread, &task)) {
            TEAM.work(TEAM.what, task, thread);
            atomic_fetch_sub(&TEAM.undone, 1);
        }
    }
}

static void *member(void *given) {
    int thread = (int)(intptr_t)given;
    unsigned long long seen = 0;
    for (;;) {
        for (int spin = 0; spin < SPINS + YIELDS && TEAM.job == seen; spin++) wait_a_little(spin);
        if (TEAM.job == seen) {
            pthread_mutex_lock(&TEAM.lock);
            TEAM.asleep++;
            while (TEAM.job == seen) pthread_cond_wait(&TEAM.wake, &TEAM.lock);
            TEAM.asleep--;
            pthread_mutex_unlock(&TEAM.lock);
        }
        seen = TEAM.job;
        if (thread <= TEAM.allowed) work_off(thread);
    }
    return NULL;
}

static Share team_take(int64_t threads) {
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads < 2 || pthread_mutex_trylock(&TEAM_TAKEN)) return (Share){1};
    if (TEAM.process != getpid()) {  // in a process that was forked nobody else is there
        pthread_mutex_init(&TEAM.lock, NULL);
        pthread_cond_init(&TEAM.wake, NULL);
        TEAM.started = 0;
        TEAM.process = getpid();
        TEAM.undone = TEAM.asleep = 0;
    }
    while (TEAM.started < threads - 1) {
        pthread_t id;
        if (pthread_create(&id, NULL, member, (void *)(intptr_t)(TEAM.started + 1))) break;
        pthread_detach(id);
        TEAM.started++;
    }
    return (Share){TEAM.started < threads - 1 ? TEAM.started + 1 : (int)threads};
}

// Do all tasks; returns when they are done.
static void team_do(Share share, Work work, void *what, int64_t tasks) {
    if (share.threads == 1 || tasks < 2 || tasks > MOST_TASKS) {
        for (int64_t task = 0; task < tasks; task++) work(what, task, 0);
        return;
    }
    unsigned long long job = TEAM.job + 1;
    TEAM.work = work;
    TEAM.what = what;
    TEAM.allowed = share.threads - 1;
    TEAM.undone = tasks;
    for (int t = 0; t < share.threads; t++) {
        unsigned long long next = (unsigned long long)(tasks * t / share.threads);
        unsigned long long end = (unsigned long long)(tasks * (t + 1) / share.threads);
        atomic_store(&TEAM.heap[t].left, job << 40 | next << 20 | end);
    }
    TEAM.job = job;
    if (TEAM.asleep) {
        pthread_mutex_lock(&TEAM.lock);
        pthread_cond_broadcast(&TEAM.wake);
        pthread_mutex_unlock(&TEAM.lock);
    }
    work_off(0);
    for (int spin = 0; TEAM.undone > 0; spin += spin < SPINS) wait_a_little(spin);
}

static void team_give(Share share) {
    if (share.threads > 1) pthread_mutex_unlock(&TEAM_TAKEN);
}

// Rows are cut into parts, as many for each thread; the same rows are always the same parts.
#define PARTS_EACH 4
#define LEAST_PART 32768
static int64_t parts_of(int64_t rows, int64_t threads) {
    int64_t each = rows / (LEAST_PART * threads);
    if (threads < 2) return 1;
    return threads * (each < 1 ? 1 : each < PARTS_EACH ? each : PARTS_EACH);
}

// Where a part begins: at a multiple of 64 rows, so that no two threads write to the same line of a cache.
static int64_t part_from(int64_t rows, int64_t part, int64_t parts) {
    return part == parts ? rows : rows * part / parts / 64 * 64;
}
