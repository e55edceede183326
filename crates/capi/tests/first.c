/*
 * first.c - the first thread ends by `pthread_exit` inside a transaction, and another one goes on.
 *
 *   first PATH DESIGN
 *
 * The end closes the first thread's worker and aborts its transaction, so the second thread can
 * write the same word. The exit status is the line that failed, modulo 256.
 */
#include <lastword.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition)                                              \
    do {                                                             \
        if (!(condition)) {                                          \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);  \
            _exit(__LINE__ % 256);                                   \
        }                                                            \
    } while (0)

enum {
    /* Far more conflicts than a transaction meets after its rival ended. */
    ATTEMPTS = 64,
    /* A thread that hangs in a destructor makes the test fail here. It ends in fewer than 100. */
    YIELDS_MAX = 1000000
};

static lw_pool *pool;
static uint64_t root;

/* Waits until the first thread ended: it is then a zombie with the number of the process. */
static void wait_for_first(void) {
    char name[64], line[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)getpid());
    for (int i = 0; i < YIELDS_MAX; i++) {
        FILE *file = fopen(name, "r");
        MUST(file && fgets(line, sizeof line, file));
        fclose(file);
        if (strstr(line, ") Z ")) {
            return;
        }
        sched_yield();
    }
    MUST(!"the first thread does not end");
}

static void *second(void *argument) {
    lw_worker *worker;
    uint64_t value = 0;
    int status = LW_CONFLICT;
    (void)argument;
    wait_for_first();
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    for (int i = 0; i < ATTEMPTS && status == LW_CONFLICT; i++) {
        MUST(lw_begin(worker, 0) == LW_OK);
        status = lw_read(worker, root, 0, &value);
        if (!status) {
            status = lw_write(worker, root, 0, value + 1);
        }
        if (status) {
            lw_abort(worker);
        } else {
            status = lw_commit(worker, NULL);
        }
    }
    MUST(status == LW_OK);
    MUST(value == 0);
    MUST(lw_worker_close(worker) == LW_OK);
    MUST(lw_pool_close(pool) == LW_OK);
    exit(0);
}

int main(int count, char **words) {
    lw_options options;
    lw_worker *worker;
    pthread_t thread;
    MUST(count == 3);
    MUST(lw_options_default(&options, sizeof options) == LW_OK);
    options.design = (uint32_t)atoi(words[2]);
    options.bytes = options.log_bytes = 1 << 20;
    MUST(lw_pool_create(words[1], &options, &pool) == LW_OK);
    MUST(lw_pool_root(pool, 8, &root) == LW_OK);
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_begin(worker, 0) == LW_OK);
    MUST(lw_write(worker, root, 0, 999) == LW_OK);
    MUST(pthread_create(&thread, NULL, second, NULL) == 0);
    pthread_exit(NULL);
}
