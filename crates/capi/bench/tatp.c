/*
 * TATP's Update Location through the C ABI, on a pool that the Rust workload `tatp-hash` loaded. It
 * does the work of crates/workloads/src/tatp.rs on the same table.
 *
 *   tatp POOL run|parts TRANSACTIONS SEED    prints the nanoseconds of a transaction
 *   tatp POOL access    ACCESSES             ... of an lw_read and an lw_write, in one transaction
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lastword.h"

/* The hash map of crates/collections, whose buckets are a key and a value. */
#define BUCKET_BYTES 16
#define ROW_BYTES 64
#define CELL 48

struct map {
    uint64_t first, buckets, seed;
};

/* The tables that the workload's root points to. */
struct tables {
    struct map by_number;
    uint64_t first, subscribers;
};

struct client {
    struct tables tables;
    uint64_t random[4], key, stamp;
};

static void fail(const char *call, int status) {
    fprintf(stderr, "%s: %s\n", call, lw_strerror(status));
    exit(1);
}

static void must(const char *call, int status) {
    if (status != LW_OK)
        fail(call, status);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t rotate(uint64_t word, int by) {
    return word << by | word >> (64 - by);
}

/* xoshiro256++, as in the Rust client. */
static uint64_t draw(uint64_t s[4]) {
    uint64_t result = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static uint64_t hash(uint64_t key) {
    unsigned __int128 product = (unsigned __int128)key * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns the value that identifies its writer and its key. */
static uint64_t stamped(uint64_t stamp, uint64_t key) {
    uint64_t check = ((stamp ^ rotate(key, 32)) + 1) * 0x9e3779b97f4a7c15u >> 58;
    return stamp | check << 58;
}

/* Reads the value of a key; 0 for a missing key. */
static int lookup(lw_worker *worker, const struct map *map, uint64_t key, uint64_t *value) {
    uint64_t mask = map->buckets - 2, bucket = hash(key ^ map->seed) >> 20 & mask;
    for (;;) {
        uint64_t at = bucket * BUCKET_BYTES, block = lw_array_block(map->first, at), found;
        int status = lw_read(worker, block, at % LW_BLOCK_BYTES, &found);
        if (status != LW_OK)
            return status;
        if (found == key)
            return lw_read(worker, block, at % LW_BLOCK_BYTES + 8, value);
        if (found == 0) {
            *value = 0;
            return LW_OK;
        }
        bucket = (bucket + 1) & mask;
    }
}

static int update_location(lw_worker *worker, void *argument) {
    const struct client *client = argument;
    uint64_t number = (client->key + 1) * 0x123456789abcdu & ((1ull << 49) - 1), id;
    int status = lookup(worker, &client->tables.by_number, number, &id);
    if (status != LW_OK)
        return status;
    uint64_t at = (id - 1) * ROW_BYTES;
    return lw_write(worker, lw_array_block(client->tables.first, at), at % LW_BLOCK_BYTES + CELL,
                    stamped(client->stamp, client->key));
}

/* Runs the transaction in parts, until it commits. */
static int in_parts(lw_worker *worker, struct client *client) {
    for (;;) {
        int status = lw_begin(worker, 0);
        if (status != LW_OK)
            return status;
        status = update_location(worker, client);
        if (status == LW_OK)
            status = lw_commit(worker, NULL);
        if (status == LW_OK)
            return LW_OK;
        lw_abort(worker);
        if (status != LW_CONFLICT)
            return status;
    }
}

static void next(struct client *client) {
    uint64_t random = draw(client->random);
    client->key = (uint64_t)((unsigned __int128)random * client->tables.subscribers >> 64);
    client->stamp++;
}

/* Reads the addresses of the tables. */
static int find(lw_worker *worker, void *argument) {
    struct client *client = argument;
    uint64_t root = client->key, parts;
    int status = lw_read(worker, root, 56, &parts);
    if (status != LW_OK)
        return status;
    return lw_read_bytes(worker, parts, 0, sizeof client->tables, &client->tables);
}

struct accesses {
    uint64_t object, count, read, written;
};

static int access_words(lw_worker *worker, void *argument) {
    struct accesses *it = argument;
    uint64_t sum = 0, word, began = now();
    for (uint64_t i = 0; i < it->count; i++) {
        int status = lw_read(worker, it->object, i % 8 * 8, &word);
        if (status != LW_OK)
            return status;
        sum += word;
    }
    uint64_t middle = now();
    for (uint64_t i = 0; i < it->count; i++) {
        int status = lw_write(worker, it->object, i % 8 * 8, sum + i);
        if (status != LW_OK)
            return status;
    }
    it->read = middle - began;
    it->written = now() - middle;
    return 1; /* abort, since the values are of no use */
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: tatp POOL run|parts|access COUNT [SEED]\n");
        return 2;
    }
    lw_options options;
    must("options", lw_options_default(&options, sizeof options));
    lw_pool *pool;
    lw_worker *worker;
    char message[500] = "";
    options.message = message;
    options.message_bytes = sizeof message;
    int status = lw_pool_open(arguments[1], &options, &pool);
    if (status != LW_OK)
        fail(message, status);
    struct client client = {.random = {1, 2, 3, 4}};
    must("root", lw_pool_root(pool, 64, &client.key));
    must("worker", lw_worker_open(pool, &worker));
    must("tables", lw_run(worker, LW_READ_ONLY, find, &client, NULL));

    uint64_t transactions = strtoull(arguments[3], NULL, 10);
    if (strcmp(arguments[2], "access") == 0) {
        struct accesses it = {client.tables.first, transactions, 0, 0};
        status = lw_run(worker, 0, access_words, &it, NULL);
        if (status != 1)
            fail("access", status);
        printf("%.2f %.2f\n", (double)it.read / (double)it.count,
               (double)it.written / (double)it.count);
    } else {
        uint64_t seed = count > 4 ? strtoull(arguments[4], NULL, 10) : 1;
        client.random[0] += seed;
        client.stamp = (1 + seed % 16383) << 44;
        int parts = strcmp(arguments[2], "parts") == 0;
        uint64_t began = now();
        for (uint64_t i = 0; i < transactions; i++) {
            next(&client);
            status = parts ? in_parts(worker, &client)
                           : lw_run(worker, 0, update_location, &client, NULL);
            if (status != LW_OK)
                fail("transaction", status);
        }
        printf("%.2f\n", (double)(now() - began) / (double)transactions);
    }
    must("close", lw_worker_close(worker));
    must("close", lw_pool_close(pool));
    return 0;
}
