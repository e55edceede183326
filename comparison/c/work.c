/* Transactions, compiled twice: with -fgnu-tm and TRANSACTIONAL for libitm, and without as
 * plain code. A transaction's arguments are read into locals before it begins. Inside it every
 * access to shared memory costs a call of libitm, and reads of arguments are not under test.
 * Everything else that a transaction reads or writes is shared and instrumented.
 *
 * Like Lastword's `will_write`, a prefetch names the words to be written, where they are known
 * beforehand. */
#include "structures.h"

#ifdef TRANSACTIONAL
#define ATOMIC __transaction_atomic
#define SAFE __attribute__((transaction_safe))
#define NAME(name) itm_##name
#else
#define ATOMIC
#define SAFE
#define NAME(name) plain_##name
#endif

#define INLINE SAFE static inline

/* Arithmetic stands in macros: with -fgnu-tm GCC 12 calls functions that it finds to be pure,
 * however small, and does not inline them. */

void NAME(hash)(struct peer *peer, uint64_t thread, const struct call *calls, uint64_t count) {
    struct bucket *buckets = peer->buckets;
    uint64_t mask = peer->mask;
    (void)thread;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = calls[i].key, value = calls[i].value;
        uint64_t first = HOME_BUCKET(key, mask);
        __builtin_prefetch(&buckets[first], 1);
        ATOMIC {
            uint64_t at = first, found = buckets[at].key;
            while (found != key && found != 0) {
                at = (at + 1) & mask;
                found = buckets[at].key;
            }
            buckets[at].key = key;
            buckets[at].value = value;
        }
    }
}

void NAME(tatp)(struct peer *peer, uint64_t thread, const struct call *calls, uint64_t count) {
    struct bucket *buckets = peer->buckets;
    struct subscriber *rows = peer->rows;
    uint64_t mask = peer->mask, size = peer->size;
    (void)thread;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t dialled = NUMBER(calls[i].key), value = calls[i].value;
        uint64_t first = HOME_BUCKET(dialled, mask);
        ATOMIC {
            uint64_t at = first, found = buckets[at].key;
            while (found != dialled && found != 0) {
                at = (at + 1) & mask;
                found = buckets[at].key;
            }
            uint64_t row = buckets[at].value - 1;
            if (found == dialled && row < size) rows[row].cell = value;
        }
    }
}

/* The words follow from the call by arithmetic: a list would be memory that is read inside. */
void NAME(writes)(struct peer *peer, uint64_t thread, const struct call *calls, uint64_t count) {
    uint64_t *words = peer->words, mask = peer->size - 1;
    (void)thread;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seed = calls[i].key, value = calls[i].value;
        ATOMIC {
            for (uint64_t k = 0; k < WRITES_EACH; k++) {
                uint64_t at = WORD(seed, k, mask);
                words[at] = value | (at + 1);
            }
        }
    }
}

void NAME(announced)(struct peer *peer, uint64_t thread, const struct call *calls, uint64_t count) {
    uint64_t *words = peer->words, mask = peer->size - 1;
    (void)thread;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seed = calls[i].key, value = calls[i].value;
        for (uint64_t k = 0; k < WRITES_EACH; k++)
            __builtin_prefetch(&words[WORD(seed, k, mask)], 1);
        ATOMIC {
            for (uint64_t k = 0; k < WRITES_EACH; k++) {
                uint64_t at = WORD(seed, k, mask);
                words[at] = value | (at + 1);
            }
        }
    }
}

/* A node's head in registers: an array would be a local in memory, which costs libitm a log entry
 * at every store. */
struct places {
    uint64_t a, b, c, d;
};

INLINE struct places load(struct node *node) {
    const struct head *head = &node->head;
    return (struct places){head->words[0], head->words[1], head->words[2], head->words[3]};
}

/* Writes the changed words. */
INLINE void store(struct node *node, struct places before, struct places after) {
    if (after.a != before.a) node->head.words[0] = after.a;
    if (after.b != before.b) node->head.words[1] = after.b;
    if (after.c != before.c) node->head.words[2] = after.c;
    if (after.d != before.d) node->head.words[3] = after.d;
}

#define COUNT(order) ((order).a & 255)
#define LEVEL(order) ((order).a >> 8 & 255)
#define WITH_COUNT(order, count) \
    ((struct places){((order).a & ~255ull) | (count), (order).b, (order).c, (order).d})
#define WITH_LEVEL(order, level) \
    ((struct places){((order).a & ~0xff00ull) | (level) << 8, (order).b, (order).c, (order).d})

/* Entries that stay on the left when a full node is split: more when the new key is the last. */
#define LEFT(rank) ((rank) == SLOTS ? SLOTS - 9 : SLOTS / 2)

/* The slot at a place of the order. */
#define SLOT(order, place)  \
    ({  \
        uint64_t at_ = (place) + 2;  \
        uint64_t low_ = at_ & 8 ? (order).b : (order).a, high_ = at_ & 8 ? (order).d : (order).c;  \
        (at_ & 16 ? high_ : low_) >> 8 * (at_ & 7) & 255;  \
    })

/* Bytes of word `w` whose place in the head is `from` or higher. */
#define BYTES_FROM(w, from) \
    ((from) <= 8 * (w) ? ~0ull : (from) >= 8 * (w) + 8 ? 0 : ~0ull << 8 * ((from) - 8 * (w)))

/* Word `w` after a byte was put at `from` and those from there up to `to` moved up by one. */
#define MOVED(w, word, below, from, to, byte)  \
    ({  \
        uint64_t here_ = BYTES_FROM(w, from) & ~BYTES_FROM(w, from + 1);  \
        uint64_t up_ = BYTES_FROM(w, from + 1) & ~BYTES_FROM(w, to + 1);  \
        ((word) & ~here_ & ~up_) | (((word) << 8 | (below) >> 56) & up_) |  \
            ((byte) * 0x0101010101010101u & here_);  \
    })

/* The order after its first free slot came to `place`. */
#define OPENED(order, place, slot)  \
    ({  \
        uint64_t from_ = (place) + 2, to_ = COUNT(order) + 2;  \
        uint64_t a_ = MOVED(0, (order).a, 0ull, from_, to_, slot);  \
        (struct places){  \
            a_ + 1,  \
            MOVED(1, (order).b, (order).a, from_, to_, slot),  \
            MOVED(2, (order).c, (order).b, from_, to_, slot),  \
            MOVED(3, (order).d, (order).c, from_, to_, slot),  \
        };  \
    })

struct found {
    uint64_t rank, slot, exact;
};

/* By halves, without a branch on the key. */
INLINE struct found search(struct node *node, struct places order, uint64_t key) {
    struct found found = {0, 0, 0};
    uint64_t left = COUNT(order);
    while (left > 0) {
        uint64_t half = left / 2, here = SLOT(order, found.rank + half);
        uint64_t other = node->keys[here];
        int not_above = other <= key;
        found.rank = not_above ? found.rank + half + 1 : found.rank;
        left = not_above ? left - half - 1 : half;
        found.slot = not_above ? here : found.slot;
        found.exact |= other == key;
    }
    return found;
}

INLINE struct node *child(struct node *node, struct found found) {
    return (struct node *)(found.rank == 0 ? node->link : node->values[found.slot]);
}

/* Puts an entry into a node that is not full. */
INLINE void put(struct node *node, struct places before, struct places order, uint64_t place,
                uint64_t key, uint64_t value) {
    uint64_t slot = SLOT(order, COUNT(order));
    node->keys[slot] = key;
    node->values[slot] = value;
    store(node, before, OPENED(order, place, slot));
}

/* One is always left: `make_tree` has room for more nodes than the keys can fill, for each
 * thread. */
INLINE struct node *allocate(struct arena *arena) {
    struct node *node = arena->next;
    arena->next = node + 1;
    return node;
}

INLINE void write_head(struct node *node, uint64_t count, uint64_t level, uint64_t link) {
    node->head.words[0] = 0x0504030201000000u | level << 8 | count;
    node->head.words[1] = 0x0d0c0b0a09080706u;
    node->head.words[2] = 0x1514131211100f0eu;
    node->head.words[3] = 0x00001b1a19181716u;
    node->link = link;
    node->empty = 0;
}

/* Entries `from` and up to `to` of a full node with (key, value) put in at `rank`, as a node. */
INLINE void copy(struct node *out, struct node *node, struct places order, uint64_t rank,
                 uint64_t key, uint64_t value, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
        uint64_t slot = SLOT(order, i < rank ? i : i - (i > rank));
        out->keys[i - from] = i == rank ? key : node->keys[slot];
        out->values[i - from] = i == rank ? value : node->values[slot];
    }
}

/* The right half of a full node with one more entry; its `up` is the key that leads to it. */
SAFE static struct node *right_half(struct arena *arena, struct node *node, struct places order,
                                    uint64_t rank, uint64_t key, uint64_t value) {
    struct node *right = allocate(arena);
    uint64_t left = LEFT(rank), level = LEVEL(order);
    uint64_t slot = SLOT(order, left < rank ? left : left - (left > rank));
    right->up = left == rank ? key : node->keys[slot];
    if (level == 0) {
        write_head(right, SLOTS + 1 - left, 0, node->link);
        copy(right, node, order, rank, key, value, left, SLOTS + 1);
    } else {
        write_head(right, SLOTS - left, level, left == rank ? value : node->values[slot]);
        copy(right, node, order, rank, key, value, left + 1, SLOTS + 1);
    }
    return right;
}

/* Splits a full node and puts the entry into one half; returns the right half. */
SAFE static struct node *split(struct arena *arena, struct node *node, struct places order,
                               uint64_t rank, uint64_t key, uint64_t value) {
    struct node *right = right_half(arena, node, order, rank, key, value);
    uint64_t left = LEFT(rank);
    if (LEVEL(order) == 0) node->link = (uint64_t)right;
    if (rank < left) {
        put(node, order, WITH_COUNT(order, left - 1), rank, key, value);
    } else {
        store(node, order, WITH_COUNT(order, left));
    }
    return right;
}

/* Splits the full root: both halves become new nodes, the root stays where it is. */
SAFE static void grow(struct arena *arena, struct node *root, struct places order, uint64_t rank,
                      uint64_t key, uint64_t value) {
    uint64_t level = LEVEL(order) + 1, left = LEFT(rank);
    struct node *right = right_half(arena, root, order, rank, key, value);
    struct node *first = allocate(arena);
    write_head(first, left, level - 1, level == 1 ? (uint64_t)right : root->link);
    copy(first, root, order, rank, key, value, 0, left);
    put(root, order, WITH_LEVEL(WITH_COUNT(order, 0), level), 0, right->up, (uint64_t)right);
    root->link = (uint64_t)first;
}

/* Inserts below a node; returns the node that was split off it, or null. */
SAFE static struct node *insert_below(struct arena *arena, struct node *node, uint64_t key,
                                      uint64_t value) {
    struct places order = load(node);
    struct found found = search(node, order, key);
    if (LEVEL(order) > 0) {
        struct node *right = insert_below(arena, child(node, found), key, value);
        if (!right) return 0;
        key = right->up;
        value = (uint64_t)right;
    }
    if (COUNT(order) == SLOTS) return split(arena, node, order, found.rank, key, value);
    put(node, order, order, found.rank, key, value);
    return 0;
}

/* The leaf where the key belongs is full. */
SAFE static __attribute__((noinline)) void insert_and_split(struct arena *arena, struct node *root,
                                                            uint64_t key, uint64_t value) {
    struct places order = load(root);
    struct found found = search(root, order, key);
    if (LEVEL(order) > 0) {
        struct node *right = insert_below(arena, child(root, found), key, value);
        if (!right) return;
        key = right->up;
        value = (uint64_t)right;
    }
    if (COUNT(order) == SLOTS) {
        grow(arena, root, order, found.rank, key, value);
    } else {
        put(root, order, order, found.rank, key, value);
    }
}

void NAME(tree)(struct peer *peer, uint64_t thread, const struct call *calls, uint64_t count) {
    struct node *root = peer->root;
    struct arena *arena = &peer->arenas[thread];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = calls[i].key, value = calls[i].value;
        ATOMIC {
            struct node *node = root;
            struct places order = load(node);
            struct found found = search(node, order, key);
            while (LEVEL(order) > 0) {
                node = child(node, found);
                order = load(node);
                found = search(node, order, key);
            }
            if (found.exact) {
                node->values[found.slot] = value;
            } else if (COUNT(order) < SLOTS) {
                put(node, order, order, found.rank, key, value);
            } else {
                insert_and_split(arena, root, key, value);
            }
        }
    }
}
