/*
 * closed.c - uses a pool in a process that starts with descriptors 0 to 2 closed.
 *
 *   closed PATH DESIGN MEDIUM
 *
 * Creates or opens the pool three times. Each time it writes to descriptors 0 to 2, reads the
 * commits of the last round, commits and closes. It fails if one of these descriptors is open at
 * any time. It cannot print, so the exit status is the line that failed, modulo 256.
 */
#include <lastword.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST(condition)                \
    do {                               \
        if (!(condition)) {            \
            _exit(__LINE__ % 256);     \
        }                              \
    } while (0)

enum { ROUNDS = 3, COMMITS = 100 };

static const char LINE[] = "a message of the program, as long as a line of a log usually is\n";

static void print(void) {
    for (int fd = 0; fd < 3; fd++) {
        MUST(fcntl(fd, F_GETFD) == -1);
        MUST(write(fd, LINE, sizeof LINE - 1) == -1);
    }
}

static int add(lw_worker *worker, void *argument) {
    uint64_t root = *(uint64_t *)argument, value;
    int status = lw_read(worker, root, 0, &value);
    return status ? status : lw_write(worker, root, 0, value + 1);
}

static uint64_t value_of(lw_worker *worker, uint64_t root) {
    uint64_t value = 0;
    MUST(lw_begin(worker, LW_READ_ONLY) == LW_OK);
    MUST(lw_read(worker, root, 0, &value) == LW_OK);
    MUST(lw_commit(worker, NULL) == LW_OK);
    return value;
}

int main(int count, char **words) {
    lw_options options;
    MUST(count == 4);
    MUST(lw_options_default(&options, sizeof options) == LW_OK);
    options.design = (uint32_t)atoi(words[2]);
    options.medium = (uint32_t)atoi(words[3]);
    options.bytes = options.log_bytes = 1 << 20;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        lw_pool *pool;
        lw_worker *worker;
        uint64_t root, id = 0;
        int status = round ? lw_pool_open(words[1], &options, &pool)
                           : lw_pool_create(words[1], &options, &pool);
        MUST(status == LW_OK);
        print();
        MUST(lw_pool_root(pool, 8, &root) == LW_OK);
        MUST(lw_worker_open(pool, &worker) == LW_OK);
        MUST(value_of(worker, root) == round * COMMITS);
        for (int i = 0; i < COMMITS; i++) {
            MUST(lw_run(worker, 0, add, &root, &id) == LW_OK);
        }
        MUST(lw_pool_wait(pool, id) == LW_OK);
        print();
        MUST(lw_worker_close(worker) == LW_OK);
        MUST(lw_pool_close(pool) == LW_OK);
        print();
    }
    return 0;
}
