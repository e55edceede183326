/*
 * bank.c - transfers between accounts by several threads.
 *
 *   cc -std=c11 bank.c -o bank $(pkg-config --cflags --libs lastword) -pthread
 *   ./bank PATH
 *
 * PATH is a pool. The first run creates it, and later runs continue on it. The sum of all accounts
 * never changes, not even by a crash. Kill the program at any time and run it again.
 */
#include <lastword.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ACCOUNTS = 1000, CENTS = 10000, THREADS = 4, TRANSFERS = 20000 };
/* The status of a refused transfer. A body may return any positive number. */
enum { INSUFFICIENT_FUNDS = 1 };

/* Offsets of the words of the root. */
enum { ROOT_FIRST = 0, ROOT_FILLED = 8, ROOT_BYTES = 16 };

static void must(int status, const char *call) {
    if (status != LW_OK) {
        fprintf(stderr, "bank: %s: %s\n", call, lw_strerror(status));
        exit(1);
    }
}

/* Returns the block and the offset of an account, which is one word of an array. */
static uint64_t account(uint64_t first, uint64_t number, uint64_t *offset) {
    *offset = number * 8 % LW_BLOCK_BYTES;
    return lw_array_block(first, number * 8);
}

/* Bodies of transactions. They may run several times. They return results in their argument, where
   the last run overwrites those of earlier ones. */

struct books {
    uint64_t root;
    uint64_t first;
    uint64_t left;
};

static int reserve(lw_worker *worker, void *argument) {
    struct books *books = argument;
    int status = lw_read(worker, books->root, ROOT_FIRST, &books->first);
    if (status || books->first) return status;
    status = lw_array_reserve(worker, (ACCOUNTS * 8 + LW_BLOCK_BYTES - 1) / LW_BLOCK_BYTES,
                              &books->first);
    if (status) return status;
    return lw_write(worker, books->root, ROOT_FIRST, books->first);
}

static int prepare(lw_worker *worker, void *argument) {
    struct books *books = argument;
    return lw_array_prepare(worker, books->first, 1000, &books->left);
}

static int fill(lw_worker *worker, void *argument) {
    struct books *books = argument;
    uint64_t filled, offset;
    int status = lw_read(worker, books->root, ROOT_FILLED, &filled);
    if (status || filled) return status;
    for (uint64_t number = 0; number < ACCOUNTS; number++) {
        uint64_t block = account(books->first, number, &offset);
        if ((status = lw_write(worker, block, offset, CENTS))) return status;
    }
    return lw_write(worker, books->root, ROOT_FILLED, 1);
}

struct transfer {
    uint64_t first;
    uint64_t from, to, cents;
};

static int transfer(lw_worker *worker, void *argument) {
    const struct transfer *order = argument;
    uint64_t from_offset, to_offset, from_cents, to_cents;
    uint64_t from = account(order->first, order->from, &from_offset);
    uint64_t to = account(order->first, order->to, &to_offset);
    int status = lw_read(worker, from, from_offset, &from_cents);
    if (status) return status;
    if (from_cents < order->cents) return INSUFFICIENT_FUNDS;
    if ((status = lw_write(worker, from, from_offset, from_cents - order->cents))) return status;
    /* Read after the write, since both may be the same account. */
    if ((status = lw_read(worker, to, to_offset, &to_cents))) return status;
    return lw_write(worker, to, to_offset, to_cents + order->cents);
}

struct audit {
    uint64_t first;
    uint64_t sum;
};

static int audit(lw_worker *worker, void *argument) {
    struct audit *audit = argument;
    uint64_t cents, offset;
    audit->sum = 0;
    for (uint64_t number = 0; number < ACCOUNTS; number++) {
        uint64_t block = account(audit->first, number, &offset);
        int status = lw_read(worker, block, offset, &cents);
        if (status) return status;
        audit->sum += cents;
    }
    return LW_OK;
}

/* Opens or creates the pool, and creates the accounts. Each step may be repeated, so an earlier run
   may have crashed anywhere. */
static lw_pool *open_bank(const char *path, uint64_t *first) {
    lw_pool *pool;
    lw_worker *worker;
    char message[512] = "";
    lw_options options;
    must(lw_options_default(&options, sizeof options), "options");
    options.layout = "example bank";
    options.bytes = 4 << 20;
    options.log_bytes = 4 << 20;
    options.message = message;
    options.message_bytes = sizeof message;
    int status = lw_pool_open(path, &options, &pool);
    if (status == LW_ENOENT) status = lw_pool_create(path, &options, &pool);
    if (status) {
        fprintf(stderr, "bank: %s: %s\n", path, message[0] ? message : lw_strerror(status));
        exit(1);
    }
    struct books books = {0, 0, 0};
    must(lw_pool_root(pool, ROOT_BYTES, &books.root), "root");
    must(lw_worker_open(pool, &worker), "worker");
    must(lw_run(worker, 0, reserve, &books, NULL), "reserve the accounts");
    do {
        must(lw_run(worker, 0, prepare, &books, NULL), "prepare the accounts");
    } while (books.left);
    must(lw_run(worker, 0, fill, &books, NULL), "fill the accounts");
    must(lw_worker_close(worker), "close the worker");
    *first = books.first;
    return pool;
}

static void check(lw_pool *pool, uint64_t first, const char *when) {
    lw_worker *worker;
    struct audit all = {first, 0};
    must(lw_worker_open(pool, &worker), "worker");
    must(lw_run(worker, LW_READ_ONLY, audit, &all, NULL), "audit");
    must(lw_worker_close(worker), "close the worker");
    printf("%s: %d accounts have %llu cents\n", when, ACCOUNTS, (unsigned long long)all.sum);
    if (all.sum != (uint64_t)ACCOUNTS * CENTS) {
        fprintf(stderr, "bank: %s: the sum should be %llu\n", when,
                (unsigned long long)ACCOUNTS * CENTS);
        exit(1);
    }
}

/* The work of a thread. */
struct clerk {
    pthread_t thread;
    lw_pool *pool;
    uint64_t first;
    uint64_t seed;
    uint64_t made, refused;
    uint64_t last; /* ID of its last transfer */
};

static uint64_t random_below(uint64_t *state, uint64_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

static void *work(void *argument) {
    struct clerk *clerk = argument;
    lw_worker *worker;
    must(lw_worker_open(clerk->pool, &worker), "worker");
    for (int i = 0; i < TRANSFERS; i++) {
        struct transfer order;
        order.first = clerk->first;
        order.from = random_below(&clerk->seed, ACCOUNTS);
        order.to = random_below(&clerk->seed, ACCOUNTS);
        order.cents = random_below(&clerk->seed, CENTS);
        int status = lw_run(worker, 0, transfer, &order, &clerk->last);
        if (status == INSUFFICIENT_FUNDS) {
            clerk->refused++;
        } else {
            must(status, "transfer");
            clerk->made++;
        }
    }
    must(lw_worker_close(worker), "close the worker");
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: bank PATH\n");
        return 2;
    }
    uint64_t first;
    lw_pool *pool = open_bank(argv[1], &first);
    check(pool, first, "opened");

    struct clerk clerks[THREADS];
    uint64_t made = 0, refused = 0, last = 0;
    for (int i = 0; i < THREADS; i++) {
        clerks[i] = (struct clerk){
            .pool = pool, .first = first, .seed = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1)};
        if (pthread_create(&clerks[i].thread, NULL, work, &clerks[i])) {
            fprintf(stderr, "bank: cannot start a thread\n");
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(clerks[i].thread, NULL);
        made += clerks[i].made;
        refused += clerks[i].refused;
        if (clerks[i].last > last) last = clerks[i].last;
    }
    /* Transactions become durable in the order of their IDs, so wait for the last one alone. */
    must(lw_pool_wait(pool, last), "wait");
    printf("%d threads: %llu transfers, %llu refused, durable up to %llu\n", THREADS,
           (unsigned long long)made, (unsigned long long)refused, (unsigned long long)last);
    check(pool, first, "at the end");
    must(lw_pool_close(pool), "close");

    pool = open_bank(argv[1], &first);
    check(pool, first, "reopened");
    must(lw_pool_close(pool), "close");
    return 0;
}
