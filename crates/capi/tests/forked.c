/*
 * forked.c - forks while a pool is open.
 *
 *   forked PATH DESIGN MEDIUM
 *
 * The first child calls every function of a pool, and each call returns LW_EFORKED. The second
 * child is forked inside a transaction and writes in it. Where the design stores into a mapped
 * file, the child has none of that memory and dies by SIGSEGV; elsewhere its commit returns
 * LW_EFORKED. The parent goes on meanwhile, and closes the pool while a third child lives. The pool
 * opens again with the parent's commits and nothing else. The exit status is the line that failed,
 * modulo 256.
 */
#include <lastword.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition)                                              \
    do {                                                             \
        if (!(condition)) {                                          \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);  \
            _exit(__LINE__ % 256);                                   \
        }                                                            \
    } while (0)

enum { COMMITS = 50 };

static int add(lw_worker *worker, void *argument) {
    uint64_t root = *(uint64_t *)argument, value;
    int status = lw_read(worker, root, 0, &value);
    return status ? status : lw_write(worker, root, 0, value + 1);
}

static void notified(void *argument, int status) {
    (void)status;
    *(int *)argument = 1;
}

/* Calls each function that reads the heap, writes, waits or closes. Ends by `exit`, which runs destructors. */
static void child(lw_pool *pool, lw_worker *worker, uint64_t root, uint64_t id) {
    lw_worker *other;
    lw_heap_usage usage = {.size = sizeof usage};
    int calls = 0;
    for (int i = 0; i < 20; i++) {
        MUST(lw_run(worker, 0, add, &root, NULL) == LW_EFORKED);
    }
    MUST(lw_begin(worker, 0) == LW_EFORKED);
    MUST(lw_worker_open(pool, &other) == LW_EFORKED);
    MUST(lw_pool_wait(pool, id) == LW_EFORKED);
    MUST(lw_pool_flush(pool) == LW_EFORKED);
    MUST(lw_pool_heap_usage(pool, &usage) == LW_EFORKED);
    MUST(usage.heap_bytes == 0);
    MUST(lw_pool_on_durable(pool, id, notified, &calls) == LW_EFORKED);
    MUST(lw_worker_close(worker) == LW_OK);
    MUST(lw_pool_close(pool) == LW_EFORKED);
    MUST(calls == 0);
    exit(0);
}

/* Whether transactions access the mapped file, which no child inherits. LW_DECOUPLED runs them in a
 * private shadow, and LW_FILE in private memory. */
static int is_in_place(const lw_options *options) {
    return options->medium != LW_FILE && options->design != LW_DECOUPLED;
}

/* Continues the parent's transaction. */
static void child_inside(lw_worker *worker, uint64_t root) {
    uint64_t value;
    for (uint64_t i = 0; i < 100; i++) {
        (void)lw_read(worker, root, 0, &value);
        (void)lw_write(worker, root, 0, 1000000 + i);
    }
    _exit(lw_commit(worker, NULL) == LW_EFORKED ? 0 : 1);
}

/* Rolls the parent's transaction back, which continues there. */
static void child_aborts(lw_worker *worker) {
    _exit(lw_abort(worker) == LW_EFORKED ? 0 : 1);
}

int main(int count, char **words) {
    lw_options options;
    lw_pool *pool;
    lw_worker *worker;
    uint64_t root, id = 0, value = 0;
    int status;
    MUST(count == 4);
    MUST(lw_options_default(&options, sizeof options) == LW_OK);
    options.design = (uint32_t)atoi(words[2]);
    options.medium = (uint32_t)atoi(words[3]);
    options.bytes = options.log_bytes = 1 << 20;
    MUST(lw_pool_create(words[1], &options, &pool) == LW_OK);
    MUST(lw_pool_root(pool, 8, &root) == LW_OK);
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    for (int i = 0; i < COMMITS; i++) {
        MUST(lw_run(worker, 0, add, &root, &id) == LW_OK);
    }
    pid_t first = fork();
    MUST(first >= 0);
    if (first == 0) {
        child(pool, worker, root, id);
    }
    for (int i = 0; i < COMMITS; i++) {
        MUST(lw_run(worker, 0, add, &root, &id) == LW_OK);
    }
    MUST(waitpid(first, &status, 0) == first);
    MUST(status == 0);
    MUST(lw_begin(worker, 0) == LW_OK);
    MUST(lw_read(worker, root, 0, &value) == LW_OK);
    MUST(value == 2 * COMMITS);
    pid_t inside = fork();
    MUST(inside >= 0);
    if (inside == 0) {
        child_inside(worker, root);
    }
    MUST(waitpid(inside, &status, 0) == inside);
    if (is_in_place(&options)) {
        MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    } else {
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    pid_t aborts = fork();
    MUST(aborts >= 0);
    if (aborts == 0) {
        child_aborts(worker);
    }
    MUST(waitpid(aborts, &status, 0) == aborts);
    MUST(status == 0);
    MUST(lw_read(worker, root, 0, &value) == LW_OK);
    MUST(value == 2 * COMMITS);
    MUST(lw_abort(worker) == LW_OK);
    for (int i = 0; i < COMMITS; i++) {
        MUST(lw_run(worker, 0, add, &root, &id) == LW_OK);
    }
    int ends[2];
    char byte;
    MUST(pipe(ends) == 0);
    pid_t third = fork();
    MUST(third >= 0);
    if (third == 0) {
        /* Lives as long as the parent, even if that fails: else it holds the standard output. */
        MUST(close(ends[1]) == 0);
        MUST(read(ends[0], &byte, 1) == 0);
        _exit(0);
    }
    MUST(lw_worker_close(worker) == LW_OK);
    MUST(lw_pool_close(pool) == LW_OK);
    /* The third child still has copies of the descriptors. */
    MUST(lw_pool_open(words[1], &options, &pool) == LW_OK);
    MUST(lw_pool_root(pool, 8, &root) == LW_OK);
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_begin(worker, LW_READ_ONLY) == LW_OK);
    MUST(lw_read(worker, root, 0, &value) == LW_OK);
    MUST(lw_commit(worker, NULL) == LW_OK);
    MUST(value == 3 * COMMITS);
    MUST(lw_worker_close(worker) == LW_OK);
    MUST(lw_pool_close(pool) == LW_OK);
    MUST(kill(third, SIGKILL) == 0);
    MUST(waitpid(third, &status, 0) == third);
    return 0;
}
