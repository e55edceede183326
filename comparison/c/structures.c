/* Making, reading out and checking the structures: plain code, outside of all that is timed. */
#define _GNU_SOURCE
#include "structures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE = 2 << 20 };

/* Zeros, aligned to 2 MiB and made of huge pages where the system has them: as Lastword's heap. */
static void *map(uint64_t bytes, uint64_t *mapped) {
    uint64_t size = (bytes + HUGE - 1) / HUGE * HUGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *raw = mmap(0, size + HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (raw == MAP_FAILED) return 0;
    char *start = (char *)(((uintptr_t)raw + HUGE - 1) / HUGE * HUGE);
    if (start > raw) munmap(raw, start - raw);
    munmap(start + size, raw + HUGE - start);
    madvise(start, size, MADV_HUGEPAGE);
    *mapped = size;
    return start;
}

static struct head fresh(uint64_t level) {
    uint8_t bytes[32] = {0, level};
    for (int slot = 0; slot < SLOTS; slot++) bytes[2 + slot] = slot;
    struct head head;
    memcpy(&head, bytes, 32);
    return head;
}

static int make_map(struct peer *peer, uint64_t buckets, int which) {
    peer->buckets = map(buckets * sizeof(struct bucket), &peer->bytes[which]);
    peer->mask = buckets - 1;
    if (peer->buckets) memset(peer->buckets, 0, buckets * sizeof(struct bucket));
    return peer->buckets != 0;
}

static int make_tatp(struct peer *peer) {
    uint64_t buckets = 16;
    while (buckets < 2 * peer->size) buckets *= 2;
    peer->rows = map(peer->size * sizeof(struct subscriber), &peer->bytes[1]);
    if (!peer->rows || !make_map(peer, buckets, 0)) return 0;
    for (uint64_t id = 1; id <= peer->size; id++) {
        peer->rows[id - 1] = (struct subscriber){.id = id, .number = NUMBER(id), .exchange = id};
        uint64_t at = HOME_BUCKET(NUMBER(id), peer->mask);
        while (peer->buckets[at].key) at = (at + 1) & peer->mask;
        peer->buckets[at] = (struct bucket){NUMBER(id), id};
    }
    return 1;
}

/* Room for each thread to make all nodes: none but the root is left with less than 9 entries, and
 * the pages are taken when they are first used. */
static int make_tree(struct peer *peer, uint64_t threads) {
    uint64_t each = peer->size / 6 + 1024;
    peer->nodes = map(threads * each * sizeof(struct node), &peer->bytes[0]);
    if (!peer->nodes) return 0;
    for (uint64_t i = 0; i < threads; i++)
        peer->arenas[i].next = peer->nodes + i * each;
    peer->root = peer->arenas[0].next++;
    peer->root->head = fresh(0);
    return 1;
}

static int make_words(struct peer *peer) {
    peer->words = map(8 * peer->size, &peer->bytes[0]);
    if (peer->words) memset(peer->words, 0, 8 * peer->size);
    return peer->words != 0;
}

struct peer *peer_new(uint64_t kind, uint64_t size, uint64_t threads) {
    if (threads > THREADS_MAX) return 0;
    struct peer *peer = aligned_alloc(64, (sizeof *peer + 63) / 64 * 64);
    if (!peer) return 0;
    memset(peer, 0, sizeof *peer);
    peer->kind = kind;
    peer->size = size;
    int made = kind == HASH   ? make_map(peer, size, 0)
               : kind == TATP ? make_tatp(peer)
               : kind == TREE ? make_tree(peer, threads)
                              : make_words(peer);
    if (made) return peer;
    peer_free(peer);
    return 0;
}

void peer_free(struct peer *peer) {
    if (peer->buckets) munmap(peer->buckets, peer->bytes[0]);
    if (peer->nodes) munmap(peer->nodes, peer->bytes[0]);
    if (peer->words) munmap(peer->words, peer->bytes[0]);
    if (peer->rows) munmap(peer->rows, peer->bytes[1]);
    free(peer);
}

static void add(uint64_t out[3], uint64_t key, uint64_t value) {
    out[0] += 1;
    out[1] += key;
    out[2] += (uint32_t)value;
}

/* Checks that every key can be found from its home bucket. */
static int hash_content(const struct peer *peer, uint64_t out[3]) {
    int sound = 1;
    for (uint64_t i = 0; i <= peer->mask; i++) {
        struct bucket bucket = peer->buckets[i];
        if (!bucket.key) continue;
        for (uint64_t at = HOME_BUCKET(bucket.key, peer->mask); at != i; at = (at + 1) & peer->mask)
            sound &= peer->buckets[at].key != 0 && peer->buckets[at].key != bucket.key;
        add(out, bucket.key, bucket.value);
    }
    return sound;
}

static int tatp_content(const struct peer *peer, uint64_t out[3]) {
    int sound = 1;
    for (uint64_t id = 1; id <= peer->size; id++) {
        const struct subscriber *row = &peer->rows[id - 1];
        sound &= row->id == id && row->number == NUMBER(id) && row->exchange == id;
        if (row->cell) add(out, id, row->cell);
    }
    return sound;
}

static unsigned byte(const struct node *node, unsigned at) {
    return ((const uint8_t *)&node->head)[at];
}

/* The leaves from left to right, keys ascending; the tree leads from the root to each of them. */
static int tree_content(const struct peer *peer, uint64_t out[3]) {
    const struct node *node = peer->root;
    while (byte(node, 1)) node = (const struct node *)node->link;
    uint64_t before = 0;
    for (; node; node = (const struct node *)node->link) {
        if (byte(node, 0) > SLOTS) return 0;
        for (unsigned i = 0; i < byte(node, 0); i++) {
            unsigned slot = byte(node, 2 + i);
            if (slot >= SLOTS || node->keys[slot] <= before) return 0;
            before = node->keys[slot];
            add(out, before, node->values[slot]);
            /* Found from the root as well. */
            const struct node *down = peer->root;
            for (int level = byte(down, 1); level > 0; level--) {
                uint64_t child = down->link;
                for (unsigned k = 0; k < byte(down, 0); k++) {
                    unsigned entry = byte(down, 2 + k);
                    if (down->keys[entry] > before) break;
                    child = down->values[entry];
                }
                down = (const struct node *)child;
                if (!down || byte(down, 1) != (unsigned)level - 1) return 0;
            }
            if (down != node) return 0;
        }
    }
    return 1;
}

static int words_content(const struct peer *peer, uint64_t out[3]) {
    for (uint64_t i = 0; i < peer->size; i++)
        if (peer->words[i]) add(out, i + 1, peer->words[i]);
    return 1;
}

int peer_content(const struct peer *peer, uint64_t out[3]) {
    out[0] = out[1] = out[2] = 0;
    return peer->kind == HASH   ? hash_content(peer, out)
           : peer->kind == TATP ? tatp_content(peer, out)
           : peer->kind == TREE ? tree_content(peer, out)
                                : words_content(peer, out);
}
