/*
 * hashmap.c - a durable hash map from numbers to numbers.
 *
 *   cc -std=c11 hashmap.c -o hashmap $(pkg-config --cflags --libs lastword)
 *   ./hashmap PATH
 *
 * PATH is a pool. The first run creates it, and later runs continue on it.
 *
 *   root -> array of chain heads -> node -> node ...
 *
 * The functions of the map run in an open transaction and return a status, so that one transaction
 * can call several. Each function named *_body is a transaction with a single call.
 */
#include <lastword.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 10000, HEADS = 4096 };
/* The status of map_get and map_remove for a missing key. A body that returns it aborts, which
   loses nothing, because neither function wrote. */
enum { NO_KEY = 1 };

/* Offsets of words. */
enum { ROOT_HEADS = 0, ROOT_COUNT = 8, ROOT_BYTES = 16 };
enum { NODE_KEY = 0, NODE_VALUE = 8, NODE_NEXT = 16, NODE_BYTES = 24 };

static void must(int status, const char *call) {
    if (status != LW_OK) {
        fprintf(stderr, "hashmap: %s: %s\n", call,
                status == NO_KEY ? "no such key" : lw_strerror(status));
        exit(1);
    }
}

static void fail(const char *problem, uint64_t key) {
    fprintf(stderr, "hashmap: %s: key %llu\n", problem, (unsigned long long)key);
    exit(1);
}

/* The map of a pool. Both addresses are constant after its creation. */
struct map {
    uint64_t root;
    uint64_t heads;
};

/* The place of a word. */
struct place {
    uint64_t object;
    uint64_t offset;
};

static struct place head(const struct map *map, uint64_t key) {
    /* The upper bits of the product depend on all bits of the key. */
    uint64_t number = key * UINT64_C(0x9e3779b97f4a7c15) >> 52;
    return (struct place){lw_array_block(map->heads, number * 8), number * 8 % LW_BLOCK_BYTES};
}

/* Finds the node of a key and the word that points to it. Sets `node` to 0 for a missing key. */
static int find(lw_worker *worker, const struct map *map, uint64_t key, struct place *link,
                uint64_t *node) {
    uint64_t found;
    *link = head(map, key);
    for (;;) {
        int status = lw_read(worker, link->object, link->offset, node);
        if (status || *node == 0) return status;
        if ((status = lw_read(worker, *node, NODE_KEY, &found))) return status;
        if (found == key) return LW_OK;
        *link = (struct place){*node, NODE_NEXT};
    }
}

static int add_to_count(lw_worker *worker, const struct map *map, uint64_t difference) {
    uint64_t count;
    int status = lw_read(worker, map->root, ROOT_COUNT, &count);
    if (status) return status;
    return lw_write(worker, map->root, ROOT_COUNT, count + difference);
}

static int map_get(lw_worker *worker, const struct map *map, uint64_t key, uint64_t *value) {
    struct place link;
    uint64_t node;
    int status = find(worker, map, key, &link, &node);
    if (status) return status;
    if (node == 0) return NO_KEY;
    return lw_read(worker, node, NODE_VALUE, value);
}

static int map_put(lw_worker *worker, const struct map *map, uint64_t key, uint64_t value) {
    struct place link;
    uint64_t node;
    int status = find(worker, map, key, &link, &node);
    if (status) return status;
    if (node != 0) return lw_write(worker, node, NODE_VALUE, value);
    const uint64_t words[3] = {key, value, 0};
    if ((status = lw_alloc(worker, NODE_BYTES, words, &node))) return status;
    if ((status = lw_write(worker, link.object, link.offset, node))) return status;
    return add_to_count(worker, map, 1);
}

static int map_remove(lw_worker *worker, const struct map *map, uint64_t key) {
    struct place link;
    uint64_t node, next;
    int status = find(worker, map, key, &link, &node);
    if (status) return status;
    if (node == 0) return NO_KEY;
    if ((status = lw_read(worker, node, NODE_NEXT, &next))) return status;
    if ((status = lw_write(worker, link.object, link.offset, next))) return status;
    if ((status = lw_free(worker, node, NODE_BYTES))) return status;
    return add_to_count(worker, map, (uint64_t)-1);
}

/* Transactions with one call each. */

struct call {
    const struct map *map;
    uint64_t key;
    uint64_t value;
};

static int get_body(lw_worker *worker, void *argument) {
    struct call *call = argument;
    return map_get(worker, call->map, call->key, &call->value);
}

static int put_body(lw_worker *worker, void *argument) {
    struct call *call = argument;
    return map_put(worker, call->map, call->key, call->value);
}

static int remove_body(lw_worker *worker, void *argument) {
    struct call *call = argument;
    return map_remove(worker, call->map, call->key);
}

static int reserve_body(lw_worker *worker, void *argument) {
    struct map *map = argument;
    int status = lw_read(worker, map->root, ROOT_HEADS, &map->heads);
    if (status || map->heads) return status;
    status = lw_array_reserve(worker, HEADS * 8 / LW_BLOCK_BYTES, &map->heads);
    if (status) return status;
    return lw_write(worker, map->root, ROOT_HEADS, map->heads);
}

struct preparing {
    uint64_t heads;
    uint64_t left;
};

static int prepare_body(lw_worker *worker, void *argument) {
    struct preparing *preparing = argument;
    return lw_array_prepare(worker, preparing->heads, 1000, &preparing->left);
}

/* Counts the nodes of all chains, and checks that each is in the chain of its key. */
struct walk {
    const struct map *map;
    uint64_t nodes, count, wrong;
};

static int walk_body(lw_worker *worker, void *argument) {
    struct walk *walk = argument;
    walk->nodes = walk->wrong = 0;
    for (uint64_t number = 0; number < HEADS; number++) {
        uint64_t block = lw_array_block(walk->map->heads, number * 8);
        uint64_t node, key;
        int status = lw_read(worker, block, number * 8 % LW_BLOCK_BYTES, &node);
        while (!status && node) {
            if ((status = lw_read(worker, node, NODE_KEY, &key))) return status;
            struct place at = head(walk->map, key);
            if (at.object != block || at.offset != number * 8 % LW_BLOCK_BYTES) walk->wrong++;
            walk->nodes++;
            status = lw_read(worker, node, NODE_NEXT, &node);
        }
        if (status) return status;
    }
    return lw_read(worker, walk->map->root, ROOT_COUNT, &walk->count);
}

/* Opens or creates the pool. Each step may be repeated after a crash. */
static lw_pool *open_map(const char *path, struct map *map, lw_worker **worker) {
    lw_pool *pool;
    char message[512] = "";
    lw_options options;
    must(lw_options_default(&options, sizeof options), "options");
    options.layout = "example hashmap";
    options.bytes = 4 << 20;
    options.log_bytes = 4 << 20;
    options.message = message;
    options.message_bytes = sizeof message;
    int status = lw_pool_open(path, &options, &pool);
    if (status == LW_ENOENT) status = lw_pool_create(path, &options, &pool);
    if (status) {
        fprintf(stderr, "hashmap: %s: %s\n", path, message[0] ? message : lw_strerror(status));
        exit(1);
    }
    must(lw_pool_root(pool, ROOT_BYTES, &map->root), "root");
    must(lw_worker_open(pool, worker), "worker");
    must(lw_run(*worker, 0, reserve_body, map, NULL), "reserve the heads");
    struct preparing preparing = {map->heads, 0};
    do {
        must(lw_run(*worker, 0, prepare_body, &preparing, NULL), "prepare the heads");
    } while (preparing.left);
    return pool;
}

static uint64_t value_of(uint64_t key) {
    return key * key + 1;
}

static void check(lw_worker *worker, const struct map *map, const char *when) {
    for (uint64_t key = 0; key < KEYS; key++) {
        struct call call = {map, key, 0};
        int status = lw_run(worker, LW_READ_ONLY, get_body, &call, NULL);
        if (key % 2 == 0) {
            if (status != NO_KEY) fail("a removed key is present", key);
        } else {
            must(status, "get");
            if (call.value != value_of(key)) fail("a key has a wrong value", key);
        }
    }
    struct walk walk = {map, 0, 0, 0};
    must(lw_run(worker, LW_READ_ONLY, walk_body, &walk, NULL), "walk");
    if (walk.wrong) fail("nodes in wrong chains", walk.wrong);
    if (walk.nodes != KEYS / 2) fail("nodes in all chains", walk.nodes);
    if (walk.count != walk.nodes) fail("the count differs from the chains", walk.count);
    printf("%s: %llu keys, all checked\n", when, (unsigned long long)walk.count);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: hashmap PATH\n");
        return 2;
    }
    struct map map;
    lw_worker *worker;
    lw_pool *pool = open_map(argv[1], &map, &worker);
    for (uint64_t key = 0; key < KEYS; key++) {
        struct call call = {&map, key, value_of(key)};
        must(lw_run(worker, 0, put_body, &call, NULL), "put");
    }
    printf("put %d keys\n", KEYS);
    for (uint64_t key = 0; key < KEYS; key += 2) {
        struct call call = {&map, key, 0};
        must(lw_run(worker, 0, remove_body, &call, NULL), "remove");
    }
    printf("removed %d keys\n", KEYS / 2);
    check(worker, &map, "before closing");
    must(lw_worker_close(worker), "close the worker");
    must(lw_pool_close(pool), "close"); /* makes all transactions durable */

    pool = open_map(argv[1], &map, &worker);
    check(worker, &map, "reopened");
    must(lw_worker_close(worker), "close the worker");
    must(lw_pool_close(pool), "close");
    return 0;
}
