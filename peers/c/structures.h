/* The structures that libitm's transactions and plain code work on: word for word those of
 * Lastword's collections, so that both sides read and write the same.
 *
 *   hash    open addressing, linear probing, a bucket is key and value   (collections/hash_map.rs)
 *   tatp    a hash table from number to id, and rows of 64 bytes         (workloads/tatp.rs)
 *   tree    B+-tree, 28 slots to a node of 512 bytes, an order over them (collections/btree)
 *   writes  an array of words
 *
 * A pointer to `struct peer` is all that the Rust side knows. Keys are 1 and up: 0 is an empty
 * bucket. */
#ifndef PEERS_STRUCTURES_H
#define PEERS_STRUCTURES_H

#include <stdint.h>

enum kind { HASH, TATP, TREE, WRITES };

/* What a transaction is to do, drawn by the Rust side: the same for every system. For `writes` the
 * key is a seed, and the value's low half is zero. */
struct call {
    uint64_t key, value;
};

struct bucket {
    uint64_t key, value;
};

struct subscriber {
    uint64_t id, number;
    uint8_t flags[24];
    uint64_t exchange, cell, reserved;
};

enum { SLOTS = 28, LEVELS = 16, WRITES_EACH = 200, THREADS_MAX = 64 };

/* The first bytes of `head` are count and level, then the slots in the order of their keys, the
 * free ones last. `link` is the next leaf or the leftmost child. `up` stands where Lastword has an
 * object's header: the key that leads to a node which has just been split off. */
struct head {
    uint64_t words[4];
};

struct node {
    uint64_t up, unused;
    struct head head;
    uint64_t link, empty;
    uint64_t keys[SLOTS];
    uint64_t values[SLOTS];
};

/* Where a thread takes new nodes from: inside a transaction, so that one which is taken back has
 * taken none. On a cache line of its own. */
struct arena {
    struct node *next;
    uint64_t apart[7];
};

struct peer {
    struct arena arenas[THREADS_MAX];
    enum kind kind;
    uint64_t size;             /* buckets, subscribers, keys or words */
    struct bucket *buckets;    /* hash, tatp */
    uint64_t mask;
    struct subscriber *rows;   /* tatp */
    struct node *root, *nodes; /* tree */
    uint64_t *words;           /* writes */
    uint64_t bytes[2];         /* of the mappings */
};

_Static_assert(sizeof(struct subscriber) == 64, "a row is a cache line");
_Static_assert(sizeof(struct node) == 512, "a node with its header");
_Static_assert(sizeof(struct arena) == 64, "a cache line");

/* The bucket where the search for a key begins, as in Lastword's hash map: the upper half of the
 * product is folded in. */
#define HOME(key, mask)                                                       \
    ({                                                                        \
        unsigned __int128 product_ = (unsigned __int128)(key) * GOLDEN;       \
        (((uint64_t)product_ ^ (uint64_t)(product_ >> 64)) >> 20) & (mask);   \
    })

/* The phone number of a subscriber. */
#define NUMBER(id) (((id) * 0x123456789abcdull) & ((1ull << 49) - 1))

/* The k-th word of a transaction of `writes`. */
#define WORD(seed, k, mask)                           \
    ({                                                \
        uint64_t at_ = (seed) + (k) * GOLDEN;         \
        ((at_ ^ at_ >> 32) * GOLDEN >> 32) & (mask);  \
    })

#define GOLDEN 0x9e3779b97f4a7c15ull

struct peer *peer_new(uint64_t kind, uint64_t size, uint64_t threads);
void peer_free(struct peer *peer);

/* Count, sum of keys, sum of the low halves of values of what is there; answers 0 when the
 * structure itself is damaged. */
int peer_content(const struct peer *peer, uint64_t out[3]);

#endif
