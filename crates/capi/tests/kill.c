/*
 * kill.c - counts until it is killed, and then checks the pool.
 *
 *   kill PATH             opens or creates a pool and counts until it is killed
 *   kill PATH check A B   opens the pool and checks it; exit status 0 or 1
 *
 * Two threads count, 0 and 1. Each has a pair of objects with its count, and both share a total.
 * Every transaction adds one to its thread's pair and to the total. Some transactions replace the
 * second object of the pair and free the old one, so that a crash also interrupts the allocator.
 * After each batch a thread waits until it is durable and prints "acknowledged <thread> <count>".
 *
 * The check prints "found <a> <b>". Both objects of a pair must be equal, and the total must be the
 * sum of both counts. No count may be less than A or B, the last acknowledged counts.
 */
#include <lastword.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, BATCH = 50, ANEW = 8 };

/* Words of the root are the addresses of both pairs and of the total, 0 before their creation. */
enum { ROOT_PAIRS = 0, ROOT_TOTAL = 32, ROOT_BYTES = 40 };
/* The second object of a pair is larger than a word, so that a torn write is visible. */
enum { SECOND_WORDS = 16, SECOND_BYTES = SECOND_WORDS * 8 };

static void must(int status, const char *call) {
    if (status != LW_OK) {
        fprintf(stderr, "kill: %s: %s\n", call, lw_strerror(status));
        exit(1);
    }
}

static lw_pool *open_pool(const char *path, int may_make) {
    lw_pool *pool;
    char message[512] = "";
    lw_options options;
    must(lw_options_default(&options, sizeof options), "options");
    options.layout = "test kill";
    options.bytes = 1 << 20;
    options.log_bytes = 1 << 20;
    options.message = message;
    options.message_bytes = sizeof message;
    int status = lw_pool_open(path, &options, &pool);
    if (status == LW_ENOENT && may_make) status = lw_pool_create(path, &options, &pool);
    if (status) {
        fprintf(stderr, "kill: %s: %s\n", path, message[0] ? message : lw_strerror(status));
        exit(1);
    }
    return pool;
}

static int make(lw_worker *worker, void *argument) {
    uint64_t root = *(uint64_t *)argument, object;
    int status = lw_read(worker, root, ROOT_TOTAL, &object);
    if (status || object) return status;
    if ((status = lw_alloc(worker, 8, NULL, &object))) return status;
    if ((status = lw_write(worker, root, ROOT_TOTAL, object))) return status;
    for (uint64_t i = 0; i < THREADS * 2; i++) {
        if ((status = lw_alloc(worker, i % 2 ? SECOND_BYTES : 8, NULL, &object))) return status;
        if ((status = lw_write(worker, root, ROOT_PAIRS + i * 8, object))) return status;
    }
    return LW_OK;
}

struct counting {
    pthread_t thread;
    lw_pool *pool;
    uint64_t root;
    unsigned number;
    uint64_t count; /* as of the last transaction */
};

static int count(lw_worker *worker, void *argument) {
    struct counting *counting = argument;
    const uint64_t pair = ROOT_PAIRS + (uint64_t)counting->number * 16;
    uint64_t first, second, total, in_first, in_total, words[SECOND_WORDS];
    int status;
    if ((status = lw_read(worker, counting->root, pair, &first))) return status;
    if ((status = lw_read(worker, counting->root, pair + 8, &second))) return status;
    if ((status = lw_read(worker, counting->root, ROOT_TOTAL, &total))) return status;
    if ((status = lw_read(worker, first, 0, &in_first))) return status;
    if ((status = lw_write(worker, first, 0, in_first + 1))) return status;
    for (int i = 0; i < SECOND_WORDS; i++) words[i] = in_first + 1;
    if (in_first % ANEW == 0) {
        if ((status = lw_free(worker, second, SECOND_BYTES))) return status;
        if ((status = lw_alloc(worker, SECOND_BYTES, words, &second))) return status;
        if ((status = lw_write(worker, counting->root, pair + 8, second))) return status;
    } else {
        status = lw_write_bytes(worker, second, 0, SECOND_BYTES, words);
        if (status) return status;
    }
    if ((status = lw_read(worker, total, 0, &in_total))) return status;
    counting->count = in_first + 1;
    return lw_write(worker, total, 0, in_total + 1);
}

static void *count_for_ever(void *argument) {
    struct counting *counting = argument;
    lw_worker *worker;
    must(lw_worker_open(counting->pool, &worker), "worker");
    for (;;) {
        uint64_t id = 0;
        for (int i = 0; i < BATCH; i++) must(lw_run(worker, 0, count, counting, &id), "run");
        must(lw_pool_wait(counting->pool, id), "wait");
        /* One call for a line keeps the lines of both threads apart. */
        if (printf("acknowledged %u %llu\n", counting->number,
                   (unsigned long long)counting->count) < 0 || fflush(stdout)) {
            exit(1); /* the reader closed the pipe */
        }
    }
    return NULL;
}

static int run(const char *path) {
    lw_pool *pool = open_pool(path, 1);
    lw_worker *worker;
    uint64_t root;
    must(lw_pool_root(pool, ROOT_BYTES, &root), "root");
    must(lw_worker_open(pool, &worker), "worker");
    must(lw_run(worker, 0, make, &root, NULL), "make the objects");
    must(lw_worker_close(worker), "close the worker");
    struct counting counting[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        counting[i] = (struct counting){.pool = pool, .root = root, .number = i};
        if (pthread_create(&counting[i].thread, NULL, count_for_ever, &counting[i])) {
            fprintf(stderr, "kill: cannot start a thread\n");
            return 1;
        }
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(counting[i].thread, NULL);
    return 1;
}

struct found {
    uint64_t root;
    uint64_t first[THREADS];
    uint64_t second[THREADS][SECOND_WORDS];
    uint64_t total;
};

static int find(lw_worker *worker, void *argument) {
    struct found *found = argument;
    const uint64_t root = found->root;
    uint64_t object;
    int status;
    memset(found, 0, sizeof *found);
    found->root = root;
    if ((status = lw_read(worker, root, ROOT_TOTAL, &object))) return status;
    if (object == 0) return LW_OK; /* killed before their creation, so all are zero */
    if ((status = lw_read(worker, object, 0, &found->total))) return status;
    for (uint64_t i = 0; i < THREADS; i++) {
        if ((status = lw_read(worker, root, ROOT_PAIRS + i * 16, &object))) return status;
        if ((status = lw_read(worker, object, 0, &found->first[i]))) return status;
        if ((status = lw_read(worker, root, ROOT_PAIRS + i * 16 + 8, &object))) return status;
        status = lw_read_bytes(worker, object, 0, SECOND_BYTES, found->second[i]);
        if (status) return status;
    }
    return LW_OK;
}

static int check(const char *path, const uint64_t least[THREADS]) {
    lw_pool *pool = open_pool(path, 0);
    lw_worker *worker;
    struct found found;
    int wrong = 0;
    must(lw_pool_root(pool, ROOT_BYTES, &found.root), "root");
    must(lw_worker_open(pool, &worker), "worker");
    must(lw_run(worker, LW_READ_ONLY, find, &found, NULL), "read");
    must(lw_worker_close(worker), "close the worker");
    must(lw_pool_close(pool), "close");
    printf("found %llu %llu\n", (unsigned long long)found.first[0],
           (unsigned long long)found.first[1]);
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        sum += found.first[i];
        for (int word = 0; word < SECOND_WORDS; word++) {
            if (found.second[i][word] != found.first[i]) {
                fprintf(stderr, "kill: thread %d: the first of the pair has %llu, word %d of the "
                        "second %llu\n", i, (unsigned long long)found.first[i], word,
                        (unsigned long long)found.second[i][word]);
                wrong = 1;
                break;
            }
        }
        if (found.first[i] < least[i]) {
            fprintf(stderr, "kill: thread %d: %llu acknowledged, %llu found\n", i,
                    (unsigned long long)least[i], (unsigned long long)found.first[i]);
            wrong = 1;
        }
    }
    if (found.total != sum) {
        fprintf(stderr, "kill: the total is %llu, the sum %llu\n", (unsigned long long)found.total,
                (unsigned long long)sum);
        wrong = 1;
    }
    return wrong;
}

int main(int argc, char **argv) {
    if (argc == 2) return run(argv[1]);
    if (argc == 5 && strcmp(argv[2], "check") == 0) {
        const uint64_t least[THREADS] = {strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10)};
        return check(argv[1], least);
    }
    fprintf(stderr, "usage: kill PATH | kill PATH check A B\n");
    return 2;
}
