/*
 * durable.c - waiting, polling and callbacks for durability, and transactions in parts.
 *
 *   cc -std=c11 durable.c -o durable $(pkg-config --cflags --libs lastword) -pthread
 *   ./durable PATH
 *
 * PATH is a pool. The first run creates it, and later runs continue on it. It holds one counter, in
 * the first word of the root.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, nanosleep */

#include <lastword.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { EACH = 1000, THREADS = 2 };

static void must(int status, const char *call) {
    if (status != LW_OK) {
        fprintf(stderr, "durable: %s: %s\n", call, lw_strerror(status));
        exit(1);
    }
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static lw_pool *open_pool(const char *path, uint32_t durability) {
    lw_pool *pool;
    char message[512] = "";
    lw_options options;
    must(lw_options_default(&options, sizeof options), "options");
    options.layout = "example durable";
    options.bytes = 1 << 20;
    options.log_bytes = 1 << 20;
    options.durability = durability;
    options.message = message;
    options.message_bytes = sizeof message;
    int status = lw_pool_open(path, &options, &pool);
    if (status == LW_ENOENT) status = lw_pool_create(path, &options, &pool);
    if (status) {
        fprintf(stderr, "durable: %s: %s\n", path, message[0] ? message : lw_strerror(status));
        exit(1);
    }
    return pool;
}

static int add_one(lw_worker *worker, void *argument) {
    uint64_t count;
    int status = lw_read(worker, *(uint64_t *)argument, 0, &count);
    if (status) return status;
    return lw_write(worker, *(uint64_t *)argument, 0, count + 1);
}

/* Does in parts the work of lw_run. A failed transaction stays open until lw_abort, whichever call
   failed. Only a conflict is worth a retry. */
static int add_in_parts(lw_worker *worker, uint64_t counter, uint64_t *id) {
    int status;
    do {
        uint64_t count;
        if ((status = lw_begin(worker, 0))) return status; /* no transaction is open then */
        status = lw_read(worker, counter, 0, &count);
        if (!status) status = lw_write(worker, counter, 0, count + 1);
        if (!status) status = lw_commit(worker, id);
        if (status) lw_abort(worker);
    } while (status == LW_CONFLICT);
    return status;
}

/* Aborts a transaction without an error. No other transaction ever sees it. */
static int abort_on_purpose(lw_worker *worker, uint64_t counter) {
    int status = lw_begin(worker, 0);
    if (status) return status;
    status = lw_write(worker, counter, 0, 0);
    int aborted = lw_abort(worker);
    /* A conflict with the other thread has aborted it already. */
    return status == LW_CONFLICT ? aborted : status ? status : aborted;
}

static int read_count(lw_worker *worker, uint64_t counter, uint64_t *count) {
    int status;
    do {
        if ((status = lw_begin(worker, LW_READ_ONLY))) return status;
        status = lw_read(worker, counter, 0, count);
        if (!status) status = lw_commit(worker, NULL);
        if (status) lw_abort(worker);
    } while (status == LW_CONFLICT);
    return status;
}

/* Passes the status from the callback to the waiting thread. */
struct notifier {
    pthread_mutex_t mutex;
    pthread_cond_t notified;
    int status; /* 1 before the callback */
};

/* May run in any thread. So it is short, and calls no function of the library. */
static void notify(void *argument, int status) {
    struct notifier *notifier = argument;
    pthread_mutex_lock(&notifier->mutex);
    notifier->status = status;
    pthread_cond_signal(&notifier->notified);
    pthread_mutex_unlock(&notifier->mutex);
}

struct counting {
    pthread_t thread;
    lw_pool *pool;
    uint64_t counter;
    uint64_t last;
};

static void *count_in_parts(void *argument) {
    struct counting *counting = argument;
    lw_worker *worker;
    must(lw_worker_open(counting->pool, &worker), "worker");
    for (int i = 0; i < EACH; i++) {
        must(add_in_parts(worker, counting->counter, &counting->last), "a transaction in parts");
        if (i % 100 == 0) must(abort_on_purpose(worker, counting->counter), "abort");
    }
    must(lw_worker_close(worker), "close the worker");
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: durable PATH\n");
        return 2;
    }
    lw_pool *pool = open_pool(argv[1], LW_ASYNC);
    lw_worker *worker;
    uint64_t counter, id, durable, before, count;
    must(lw_pool_root(pool, 8, &counter), "root");
    must(lw_worker_open(pool, &worker), "worker");
    must(read_count(worker, counter, &before), "read");

    /* Waiting. The thread helps to make the transaction durable meanwhile. */
    must(lw_run(worker, 0, add_one, &counter, &id), "run");
    double since = now_ms();
    must(lw_pool_wait(pool, id), "wait");
    printf("wait:     transaction %llu durable after %.3f ms\n", (unsigned long long)id,
           now_ms() - since);

    /* Polling. The thread can do other work, and each look costs a load. */
    must(lw_run(worker, 0, add_one, &counter, &id), "run");
    since = now_ms();
    int looks = 0;
    for (;;) {
        must(lw_pool_durable(pool, &durable), "durable");
        looks++;
        if (durable >= id) break;
        if (now_ms() - since > 60e3) {
            fprintf(stderr, "durable: transaction %llu is not durable after a minute\n",
                    (unsigned long long)id);
            return 1;
        }
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    printf("polling:  transaction %llu durable after %.3f ms and %d looks\n",
           (unsigned long long)id, now_ms() - since, looks);

    /* A callback. */
    struct notifier notifier = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1};
    must(lw_run(worker, 0, add_one, &counter, &id), "run");
    since = now_ms();
    must(lw_pool_on_durable(pool, id, notify, &notifier), "on_durable");
    pthread_mutex_lock(&notifier.mutex);
    while (notifier.status == 1) pthread_cond_wait(&notifier.notified, &notifier.mutex);
    pthread_mutex_unlock(&notifier.mutex);
    must(notifier.status, "the status of the callback");
    printf("callback: transaction %llu durable after %.3f ms\n", (unsigned long long)id,
           now_ms() - since);

    /* Conflicting transactions in parts by several threads, and one flush for all. */
    struct counting counting[THREADS];
    for (int i = 0; i < THREADS; i++) {
        counting[i] = (struct counting){.pool = pool, .counter = counter};
        if (pthread_create(&counting[i].thread, NULL, count_in_parts, &counting[i])) {
            fprintf(stderr, "durable: cannot start a thread\n");
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) pthread_join(counting[i].thread, NULL);
    must(lw_pool_flush(pool), "flush");
    must(lw_pool_durable(pool, &durable), "durable");
    for (int i = 0; i < THREADS; i++) {
        if (durable < counting[i].last) {
            fprintf(stderr, "durable: flush did not cover transaction %llu\n",
                    (unsigned long long)counting[i].last);
            return 1;
        }
    }
    printf("parts:    %d transactions by %d threads, durable after one flush\n", THREADS * EACH,
           THREADS);
    must(lw_worker_close(worker), "close the worker");
    must(lw_pool_close(pool), "close");

    /* With LW_SYNC a commit is durable on return. */
    pool = open_pool(argv[1], LW_SYNC);
    must(lw_pool_root(pool, 8, &counter), "root");
    must(lw_worker_open(pool, &worker), "worker");
    since = now_ms();
    must(lw_run(worker, 0, add_one, &counter, &id), "run");
    must(lw_pool_durable(pool, &durable), "durable");
    if (durable < id) {
        fprintf(stderr, "durable: with LW_SYNC transaction %llu is not durable on return\n",
                (unsigned long long)id);
        return 1;
    }
    printf("LW_SYNC:  transaction %llu durable on return, after %.3f ms\n", (unsigned long long)id,
           now_ms() - since);
    must(read_count(worker, counter, &count), "read");
    must(lw_worker_close(worker), "close the worker");
    must(lw_pool_close(pool), "close");

    uint64_t expected = before + 4 + THREADS * EACH;
    printf("the counter went from %llu to %llu\n", (unsigned long long)before,
           (unsigned long long)count);
    if (count != expected) {
        fprintf(stderr, "durable: the counter should be %llu\n", (unsigned long long)expected);
        return 1;
    }
    return 0;
}
