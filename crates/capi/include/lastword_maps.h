/*
 * lastword_maps.h - maps by name, hashed or ordered, of any keys and values.
 *
 *   lw_map sessions;  char user[40];  uint64_t bytes;  int status;
 *   lw_map_open(pool, "sessions", LW_ORDERED_MAP, NULL, NULL, &sessions);   once, at the start
 *   status = lw_begin(worker, 0);                          as any transaction: see lastword.h
 *   if (!status) status = lw_map_put(worker, &sessions, "s1", 2, "ann", 3, NULL);
 *   if (!status) status = lw_map_get(worker, &sessions, "s1", 2, user, sizeof user, &bytes);
 *   if (!status) status = lw_commit(worker, NULL);         bytes is 3, or LW_NO_VALUE
 *   if (status) lw_abort(worker);
 *
 * A map grows and shrinks in small steps, and has exact lengths. The functions with a worker run
 * in its open transaction, and their changes are part of it. Transactions on different keys rarely
 * conflict, except in small maps.
 *
 * Names. The pool has the names in a catalog, to which its root leads. So a program uses either
 * maps or lw_pool_root: the other one is LW_EMISMATCH.
 *
 * Types. The catalog has the names of the types, too, as Rust writes them. A map belongs to all
 * languages: with the types "str" and "u64" it is a BTreeMap<str, u64> in Rust and an
 * lw::map<std::string, std::uint64_t> in C++ (lastword_maps.hpp). Other types are LW_EMISMATCH, and
 * lw_message names both. Keys and values are given as they are stored:
 *
 *   type                 bytes       as a key                         as a value
 *   [u8], str            any         themselves; str is UTF-8         themselves; str is UTF-8
 *   [u8; N]              N           themselves                       themselves
 *   u8 ... u128          1 ... 16    big-endian (lw_key_u64)          as in memory
 *   i8 ... i128          1 ... 16    big-endian, the sign flipped     as in memory
 *   bool                 1           0 or 1                           0 or 1
 *   (A, B) of these      any         one behind the other; of a       -
 *                                    string that is not the last, 0 is
 *                                    1 1, 1 is 1 2, and 0 is its end
 *   f32, f64, a struct   up to 1024  -                                as in memory
 *
 * Keys are ordered by their bytes, as by memcmp. Keys and values of another length than the type's,
 * or that are no "str" or "bool", are LW_EINVAL, and the transaction goes on.
 *
 * Errors. As for all accesses in lastword.h: LW_CONFLICT, LW_ETOOLARGE, LW_EREADONLY, LW_EFULL.
 * LW_EDAMAGED: the map is damaged. A missing key is none.
 *
 * Cursors. A cursor is before the first pair, at a key, or behind the last pair. It stays there
 * whatever changes in the map, and may be used in several transactions: position it inside the
 * body, since a body may run again. Its pair is as of its last move. A worker closes its cursors.
 */
#ifndef LASTWORD_MAPS_H
#define LASTWORD_MAPS_H
#include "lastword.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of maps. */
#define LW_HASH_MAP 0    /* HashMap: faster; pairs in no order */
#define LW_ORDERED_MAP 1 /* BTreeMap: pairs in the order of the keys; ranges */

#define LW_ANY_LENGTH UINT64_MAX /* lw_type.bytes of "str" and "[u8]" */
#define LW_NO_VALUE UINT64_MAX   /* the length of a value whose key is not there */

/* A map: a value to be copied, for all threads, valid until the pool is closed. */
typedef struct lw_map {
    uint64_t words[3];
} lw_map;

/* The type of keys or values: its name in Rust, and its bytes or LW_ANY_LENGTH. */
typedef struct lw_type {
    const char *name;
    uint64_t bytes;
} lw_type;

/* A named collection. `name` may contain zeros, `types` is its type as error messages print it. */
typedef struct lw_named {
    const char *name;
    uint64_t name_bytes;
    const char *types;
} lw_named;

typedef struct lw_cursor lw_cursor;

/* A pair at a cursor, valid until the cursor moves or is closed. `key` is NULL if there is none. */
typedef struct lw_pair {
    const void *key;
    uint64_t key_bytes;
    const void *value;
    uint64_t value_bytes;
} lw_pair;

/* Opens the map of this name, or creates it, durable on return. `key` and `value` or NULL: bytes of
   any length. Outside of transactions, in a worker of its own, as lw_pool_root. LW_EMISMATCH,
   LW_EREADONLY (no such map in a pool that is only read), LW_EINVAL. */
int lw_map_open(lw_pool *pool, const char *name, uint32_t kind, const lw_type *key,
                const lw_type *value, lw_map *map);

/* Copies the value of a key, up to `room` bytes of it. `value_bytes`: its length, which may exceed
   `room`, or LW_NO_VALUE. `value` may be NULL if `room` is 0. */
int lw_map_get(lw_worker *worker, const lw_map *map, const void *key, uint64_t key_bytes,
               void *value, uint64_t room, uint64_t *value_bytes);
/* Returns a value of any length in place: valid until the next lw_map_view of this worker. `value`:
   NULL if the key is not there. */
int lw_map_view(lw_worker *worker, const lw_map *map, const void *key, uint64_t key_bytes,
                const void **value, uint64_t *value_bytes);
/* Inserts a key or replaces its value. `is_new` or NULL: whether the key was not there. */
int lw_map_put(lw_worker *worker, const lw_map *map, const void *key, uint64_t key_bytes,
               const void *value, uint64_t value_bytes, int *is_new);
/* Inserts a key unless it is there. `is_new` or NULL: whether it did. The key stays there until the
   commit, also under LW_SNAPSHOT, where lw_map_get and lw_map_contains do not protect a key. */
int lw_map_insert(lw_worker *worker, const lw_map *map, const void *key, uint64_t key_bytes,
                  const void *value, uint64_t value_bytes, int *is_new);
/* Removes a key. `was_there` or NULL. In a full pool this may be LW_EFULL, which is rare. */
int lw_map_delete(lw_worker *worker, const lw_map *map, const void *key, uint64_t key_bytes,
                  int *was_there);
int lw_map_contains(lw_worker *worker, const lw_map *map, const void *key, uint64_t key_bytes,
                    int *is_there);
/* Returns the number of pairs. Reads up to 65 words, which insertions and removals write. */
int lw_map_length(lw_worker *worker, const lw_map *map, uint64_t *length);
/* Frees up to about `most` pairs. The first call makes the map empty for all transactions after it,
   the further ones free its memory, also after a crash. `is_done`: the map is empty, and all is
   freed. Give each call a transaction of its own. */
int lw_map_clear(lw_worker *worker, const lw_map *map, uint64_t most, int *is_done);
/* As lw_map_clear. The last call also frees the map and its name, which is free for another map
   then. Once the transaction in which `is_done` is 1 has committed, no thread may use a copy of
   `map`, or a cursor of it. LW_EINVAL: the name is not that of `map`, or belongs to a map of
   another kind or of other lengths; the transaction goes on. A name with a zero before its end,
   which only Rust can give, cannot be dropped from C. */
int lw_map_drop(lw_worker *worker, const char *name, const lw_map *map, uint64_t most,
                int *is_done);
/* Lists all named collections, also those that C cannot open, sorted by name. `names`: valid until
   the worker is closed or lists again. */
int lw_map_list(lw_worker *worker, const lw_named **names, uint64_t *count);

/* Opens a cursor before the first pair, with or without a transaction. */
int lw_cursor_open(lw_worker *worker, const lw_map *map, lw_cursor **cursor);
/* Opens a cursor at the place of another one. */
int lw_cursor_copy(lw_cursor *cursor, lw_cursor **copy);
int lw_cursor_close(lw_cursor *cursor);
/* Move to a pair and return it. A move beyond the last pair stays behind it, a move before the
   first one stays before it, and `key` is NULL. Of a hash map there is neither last nor prev:
   LW_EINVAL. Moves to neighbors read pairs ahead, up to 64 at a time. */
int lw_cursor_first(lw_cursor *cursor, lw_pair *pair);
int lw_cursor_last(lw_cursor *cursor, lw_pair *pair);
int lw_cursor_next(lw_cursor *cursor, lw_pair *pair);
int lw_cursor_prev(lw_cursor *cursor, lw_pair *pair);
/* Moves to the first pair whose key is not less, in a hash map to the pair with this key. */
int lw_cursor_seek(lw_cursor *cursor, const void *key, uint64_t key_bytes, lw_pair *pair);

/* Encode and decode numbers as keys of the types "u64" and "i64", so that they keep their order. */
static inline void lw_key_u64(uint64_t number, unsigned char key[8]) {
    for (int i = 7; i >= 0; i--, number >>= 8) key[i] = (unsigned char)number;
}
static inline uint64_t lw_u64_of(const unsigned char key[8]) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) number = number << 8 | key[i];
    return number;
}
static inline void lw_key_i64(int64_t number, unsigned char key[8]) {
    lw_key_u64((uint64_t)number ^ (uint64_t)1 << 63, key);
}
static inline int64_t lw_i64_of(const unsigned char key[8]) {
    return (int64_t)(lw_u64_of(key) ^ (uint64_t)1 << 63);
}

#ifdef __cplusplus
}
#endif
#endif
