/* The hash table and TATP's tables of `structures.h` in a pool of libpmemobj, and the transactions
 * on them. Old values are added to the undo log before a write, as libpmemobj requires. It has no
 * isolation: one thread. */
#include "structures.h"

#include <libpmemobj.h>
#include <stdlib.h>
#include <string.h>

struct pmem {
    PMEMobjpool *pool;
    enum kind kind;
    uint64_t size, mask;
    struct bucket *buckets;
    struct subscriber *rows;
};

struct root {
    PMEMoid buckets, rows;
};

static void *object(struct pmem *pmem, PMEMoid *at, uint64_t bytes) {
    if (pmemobj_zalloc(pmem->pool, at, bytes, 0)) return 0;
    return pmemobj_direct(*at);
}

static int make(struct pmem *pmem) {
    PMEMoid oid = pmemobj_root(pmem->pool, sizeof(struct root));
    struct root *root = pmemobj_direct(oid);
    if (!root) return 0;
    uint64_t buckets = pmem->size;
    if (pmem->kind == TATP)
        for (buckets = 16; buckets < 2 * pmem->size;) buckets *= 2;
    pmem->mask = buckets - 1;
    pmem->buckets = object(pmem, &root->buckets, buckets * sizeof(struct bucket));
    if (!pmem->buckets || pmem->kind == HASH) return pmem->buckets != 0;
    pmem->rows = object(pmem, &root->rows, pmem->size * sizeof(struct subscriber));
    if (!pmem->rows) return 0;
    for (uint64_t id = 1; id <= pmem->size; id++) {
        pmem->rows[id - 1] = (struct subscriber){.id = id, .number = NUMBER(id), .exchange = id};
        uint64_t at = HOME_BUCKET(NUMBER(id), pmem->mask);
        while (pmem->buckets[at].key) at = (at + 1) & pmem->mask;
        pmem->buckets[at] = (struct bucket){NUMBER(id), id};
    }
    pmemobj_persist(pmem->pool, pmem->rows, pmem->size * sizeof(struct subscriber));
    pmemobj_persist(pmem->pool, pmem->buckets, buckets * sizeof(struct bucket));
    return 1;
}

void pmem_free(struct pmem *pmem) {
    if (pmem->pool) pmemobj_close(pmem->pool);
    free(pmem);
}

struct pmem *pmem_new(const char *path, uint64_t kind, uint64_t size) {
    struct pmem *pmem = calloc(1, sizeof *pmem);
    if (!pmem) return 0;
    pmem->kind = kind;
    pmem->size = size;
    pmem->pool = pmemobj_create(path, "comparison", 256 << 20, 0600);
    if (pmem->pool && make(pmem)) return pmem;
    pmem_free(pmem);
    return 0;
}

const char *pmem_error(void) { return pmemobj_errormsg(); }

/* Both return 0 when a transaction was aborted, which does not happen here. */

int pmem_hash(struct pmem *pmem, const struct call *calls, uint64_t count) {
    struct bucket *buckets = pmem->buckets;
    uint64_t mask = pmem->mask;
    volatile int done = 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = calls[i].key, value = calls[i].value, first = HOME_BUCKET(key, mask);
        __builtin_prefetch(&buckets[first], 1);
        TX_BEGIN(pmem->pool) {
            uint64_t at = first;
            while (buckets[at].key != key && buckets[at].key) at = (at + 1) & mask;
            pmemobj_tx_add_range_direct(&buckets[at], sizeof(struct bucket));
            buckets[at].key = key;
            buckets[at].value = value;
        } TX_ONABORT {
            done = 0;
        } TX_END
    }
    return done;
}

int pmem_tatp(struct pmem *pmem, const struct call *calls, uint64_t count) {
    struct bucket *buckets = pmem->buckets;
    struct subscriber *rows = pmem->rows;
    uint64_t mask = pmem->mask, size = pmem->size;
    volatile int done = 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t dialled = NUMBER(calls[i].key), value = calls[i].value;
        uint64_t first = HOME_BUCKET(dialled, mask);
        TX_BEGIN(pmem->pool) {
            uint64_t at = first;
            while (buckets[at].key != dialled && buckets[at].key) at = (at + 1) & mask;
            uint64_t row = buckets[at].value - 1;
            if (buckets[at].key == dialled && row < size) {
                pmemobj_tx_add_range_direct(&rows[row].cell, sizeof rows[row].cell);
                rows[row].cell = value;
            }
        } TX_ONABORT {
            done = 0;
        } TX_END
    }
    return done;
}

int pmem_content(const struct pmem *pmem, uint64_t out[3]) {
    struct peer peer = {.kind = pmem->kind, .size = pmem->size, .mask = pmem->mask};
    peer.buckets = pmem->buckets;
    peer.rows = pmem->rows;
    return peer_content(&peer, out);
}
