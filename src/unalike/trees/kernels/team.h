// The threads of this process, which share the tasks of one tree at a time. Sums are of integers, so who does which
// task changes nothing. Whoever waits for others waits for tasks that they have begun: a thread that the machine does
// not run holds nobody up.
typedef void (*Work)(void *what, int64_t task, int thread);

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int started, allowed;  // threads that are there beside the caller, and those that may take part now
    pid_t process;
    Work work;
    void *what;
    atomic_llong next, tasks, done;
} Team;

static Team TEAM = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
static pthread_mutex_t TEAM_TAKEN = PTHREAD_MUTEX_INITIALIZER;

// The team is taken by one tree at a time; another one that is grown meanwhile is grown by its own thread alone.
typedef struct {
    int threads;
} Share;

static int claim(int thread, Work *work, void **what, int64_t *task) {
    pthread_mutex_lock(&TEAM.lock);
    int there = thread <= TEAM.allowed && TEAM.next < TEAM.tasks;
    if (there) {
        *task = TEAM.next++;
        *work = TEAM.work;
        *what = TEAM.what;
    }
    pthread_mutex_unlock(&TEAM.lock);
    return there;
}

static void work_off(int thread) {
    Work work;
    void *what;
    int64_t task;
    while (claim(thread, &work, &what, &task)) {
        work(what, task, thread);
        atomic_fetch_add(&TEAM.done, 1);
    }
}

static void *member(void *given) {
    int thread = (int)(intptr_t)given;
    for (;;) {
        work_off(thread);
        for (int spin = 0; spin < 200 && TEAM.next >= TEAM.tasks; spin++) sched_yield();
        pthread_mutex_lock(&TEAM.lock);
        while (thread > TEAM.allowed || TEAM.next >= TEAM.tasks) pthread_cond_wait(&TEAM.wake, &TEAM.lock);
        pthread_mutex_unlock(&TEAM.lock);
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
        TEAM.next = TEAM.tasks = 0;
    }
    while (TEAM.started < threads - 1) {
        pthread_t id;
        if (pthread_create(&id, NULL, member, (void *)(intptr_t)(TEAM.started + 1))) break;
        pthread_detach(id);
        TEAM.started++;
    }
    pthread_mutex_lock(&TEAM.lock);
    TEAM.allowed = TEAM.started < threads - 1 ? TEAM.started : (int)threads - 1;
    pthread_mutex_unlock(&TEAM.lock);
    return (Share){TEAM.allowed + 1};
}

// Do all tasks; returns when they are done.
static void team_do(Share share, Work work, void *what, int64_t tasks) {
    if (share.threads == 1 || tasks < 2) {
        for (int64_t task = 0; task < tasks; task++) work(what, task, 0);
        return;
    }
    pthread_mutex_lock(&TEAM.lock);
    TEAM.work = work;
    TEAM.what = what;
    TEAM.done = 0;
    TEAM.next = 0;
    TEAM.tasks = tasks;
    pthread_cond_broadcast(&TEAM.wake);
    pthread_mutex_unlock(&TEAM.lock);
    work_off(0);
    while (TEAM.done < tasks) sched_yield();
}

static void team_give(Share share) {
    if (share.threads > 1) pthread_mutex_unlock(&TEAM_TAKEN);
}
