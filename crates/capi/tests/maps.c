/*
 * maps.c - tests of lastword_maps.h.
 *
 *   maps PATH DESIGN     creates a pool at PATH
 *
 * The exit status is the line that failed, modulo 256.
 */
#include <lastword_admin.h>
#include <lastword_maps.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                               \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                   \
            exit(__LINE__ % 256);                                                     \
        }                                                                             \
    } while (0)

enum { KEYS = 600, EACH = 300 };

static lw_pool *pool;
static lw_map bytes_map, hash_map, numbers;
static const lw_type U64 = {"u64", 8}, STR = {"str", LW_ANY_LENGTH};

static void begin(lw_worker *worker) {
    MUST(lw_begin(worker, 0) == LW_OK);
}

static void commit(lw_worker *worker) {
    MUST(lw_commit(worker, NULL) == LW_OK);
}

static int is(const void *found, uint64_t bytes, const char *expected) {
    return found && bytes == strlen(expected) && memcmp(found, expected, bytes) == 0;
}

static void types(void) {
    lw_map map;
    const lw_type other = {"u32", 4}, wrong = {"u32", 8}, nameless = {NULL, 8};
    const lw_type longer = {"Page", 1025};
    MUST(lw_map_open(pool, "bytes", LW_ORDERED_MAP, NULL, NULL, &bytes_map) == LW_OK);
    MUST(lw_map_open(pool, "bytes", LW_ORDERED_MAP, NULL, NULL, &map) == LW_OK);
    MUST(memcmp(&map, &bytes_map, sizeof map) == 0);
    MUST(lw_map_open(pool, "hash", LW_HASH_MAP, &U64, NULL, &hash_map) == LW_OK);
    MUST(lw_map_open(pool, "numbers", LW_ORDERED_MAP, &STR, &U64, &numbers) == LW_OK);
    MUST(lw_map_open(pool, "numbers", LW_ORDERED_MAP, &STR, &other, &map) == LW_EMISMATCH);
    const char *text = lw_message(LW_EMISMATCH);
    MUST(strstr(text, "is BTreeMap<str, u64>") && strstr(text, "not BTreeMap<str, u32>"));
    MUST(lw_map_open(pool, "numbers", LW_HASH_MAP, &STR, &U64, &map) == LW_EMISMATCH);
    MUST(lw_map_open(pool, "numbers", 2, &STR, &U64, &map) == LW_EINVAL);
    MUST(strcmp(lw_message(LW_EINVAL), lw_strerror(LW_EINVAL)) == 0);
    MUST(lw_map_open(pool, "a", LW_HASH_MAP, &wrong, NULL, &map) == LW_EINVAL);
    MUST(strstr(lw_message(LW_EINVAL), "`u32` of 8 bytes"));
    MUST(lw_map_open(pool, "a", LW_HASH_MAP, &nameless, NULL, &map) == LW_EINVAL);
    MUST(lw_map_open(pool, "a", LW_HASH_MAP, NULL, &longer, &map) == LW_EINVAL);
    MUST(lw_map_open(pool, "a", LW_HASH_MAP, NULL, NULL, NULL) == LW_EINVAL);
    MUST(lw_map_open(pool, "\xff", LW_HASH_MAP, NULL, NULL, &map) == LW_EINVAL);
    MUST(lw_map_open(NULL, "a", LW_HASH_MAP, NULL, NULL, &map) == LW_EINVAL);
    uint64_t root;
    MUST(lw_pool_root(pool, 8, &root) == LW_EMISMATCH);
    MUST(strstr(lw_message(LW_EMISMATCH), "maps"));
}

static void single_keys(lw_worker *worker) {
    char room[4];
    const void *view;
    uint64_t bytes;
    int outcome;
    MUST(lw_map_put(worker, &bytes_map, "a", 1, "1", 1, NULL) == LW_EIDLE);
    begin(worker);
    MUST(lw_map_put(worker, &bytes_map, "key", 3, "value", 5, &outcome) == LW_OK && outcome == 1);
    MUST(lw_map_put(worker, &bytes_map, NULL, 0, NULL, 0, &outcome) == LW_OK && outcome == 1);
    MUST(lw_map_get(worker, &bytes_map, "key", 3, room, sizeof room, &bytes) == LW_OK);
    MUST(bytes == 5 && memcmp(room, "valu", 4) == 0);
    MUST(lw_map_get(worker, &bytes_map, "", 0, NULL, 0, &bytes) == LW_OK && bytes == 0);
    MUST(lw_map_get(worker, &bytes_map, "ke", 2, room, 4, &bytes) == LW_OK);
    MUST(bytes == LW_NO_VALUE);
    MUST(lw_map_view(worker, &bytes_map, "ke", 2, &view, &bytes) == LW_OK);
    MUST(!view && bytes == LW_NO_VALUE);
    MUST(lw_map_put(worker, &bytes_map, "value", 5, "key", 3, &outcome) == LW_OK && outcome == 1);
    /* The last view is the key of the next one. */
    MUST(lw_map_view(worker, &bytes_map, "key", 3, &view, &bytes) == LW_OK);
    MUST(is(view, bytes, "value"));
    MUST(lw_map_view(worker, &bytes_map, view, bytes, &view, &bytes) == LW_OK);
    MUST(is(view, bytes, "key"));
    MUST(lw_map_put(worker, &bytes_map, "key", 3, view, bytes, &outcome) == LW_OK && outcome == 0);
    MUST(lw_map_insert(worker, &bytes_map, "key", 3, "other", 5, &outcome) == LW_OK);
    MUST(outcome == 0);
    MUST(lw_map_view(worker, &bytes_map, "key", 3, &view, &bytes) == LW_OK);
    MUST(is(view, bytes, "key"));
    MUST(lw_map_insert(worker, &bytes_map, "new", 3, "", 0, &outcome) == LW_OK && outcome == 1);
    MUST(lw_map_delete(worker, &bytes_map, "new", 3, NULL) == LW_OK);
    MUST(lw_map_insert(worker, &hash_map, "12345678", 8, "", 0, NULL) == LW_OK);
    MUST(lw_map_insert(worker, &hash_map, "12345678", 8, "a", 1, &outcome) == LW_OK);
    MUST(outcome == 0 && lw_map_delete(worker, &hash_map, "12345678", 8, NULL) == LW_OK);
    MUST(lw_map_contains(worker, &bytes_map, "key", 3, &outcome) == LW_OK && outcome == 1);
    MUST(lw_map_delete(worker, &bytes_map, "key", 3, &outcome) == LW_OK && outcome == 1);
    MUST(lw_map_delete(worker, &bytes_map, "key", 3, &outcome) == LW_OK && outcome == 0);
    MUST(lw_map_contains(worker, &bytes_map, "key", 3, &outcome) == LW_OK && outcome == 0);
    MUST(lw_map_length(worker, &bytes_map, &bytes) == LW_OK && bytes == 2);
    /* These are refused before the transaction, which goes on. */
    const lw_map none = {{1, ~UINT64_C(0), 0}};
    MUST(lw_map_put(worker, &hash_map, "key", 3, "v", 1, NULL) == LW_EINVAL);
    MUST(lw_map_put(worker, &numbers, "\xff", 1, "12345678", 8, NULL) == LW_EINVAL);
    MUST(lw_map_put(worker, &numbers, "a", 1, "1234567", 7, NULL) == LW_EINVAL);
    MUST(lw_map_contains(worker, &hash_map, "1234567", 7, &outcome) == LW_EINVAL);
    MUST(lw_map_get(worker, &bytes_map, NULL, 1, room, 4, &bytes) == LW_EINVAL);
    MUST(lw_map_get(worker, &bytes_map, "a", 1, NULL, 1, &bytes) == LW_EINVAL);
    MUST(lw_map_get(worker, &none, "a", 1, room, 4, &bytes) == LW_EINVAL);
    MUST(lw_map_length(worker, NULL, &bytes) == LW_EINVAL);
    MUST(lw_map_open(pool, "hash", LW_HASH_MAP, &U64, NULL, &hash_map) == LW_ENESTED);
    commit(worker);
    /* No map is at this address. */
    const lw_map wild = {{12345 * 8, 0, 0}};
    begin(worker);
    MUST(lw_map_contains(worker, &wild, "a", 1, &outcome) != LW_OK);
    MUST(lw_abort(worker) == LW_OK);
    begin(worker);
    MUST(lw_map_put(worker, &bytes_map, "gone", 4, "", 0, NULL) == LW_OK);
    MUST(lw_abort(worker) == LW_OK);
    MUST(lw_begin(worker, LW_READ_ONLY) == LW_OK);
    MUST(lw_map_contains(worker, &bytes_map, "gone", 4, &outcome) == LW_OK && outcome == 0);
    MUST(lw_map_put(worker, &bytes_map, "gone", 4, "", 0, NULL) == LW_EREADONLY);
    MUST(lw_abort(worker) == LW_OK);
}

static int fill(lw_worker *worker, void *first) {
    int status = LW_OK;
    for (uint64_t i = *(uint64_t *)first; !status && i < *(uint64_t *)first + 50; i++) {
        unsigned char key[8];
        char name[20];
        lw_key_u64(i * 7 % KEYS, key);
        int bytes = snprintf(name, sizeof name, "%06d", (int)(i * 7 % KEYS));
        status = lw_map_put(worker, &hash_map, key, 8, name, (uint64_t)bytes, NULL);
        if (!status) status = lw_map_put(worker, &numbers, name, (uint64_t)bytes, key, 8, NULL);
    }
    return status;
}

static void ordered_cursor(lw_worker *worker) {
    lw_cursor *cursor, *copy;
    lw_pair pair, other;
    char name[20];
    int number = 0;
    MUST(lw_cursor_open(worker, &numbers, &cursor) == LW_OK);
    MUST(lw_cursor_next(cursor, &pair) == LW_EIDLE);
    begin(worker);
    MUST(lw_cursor_first(cursor, &pair) == LW_OK);
    for (; pair.key; number++) {
        snprintf(name, sizeof name, "%06d", number);
        MUST(is(pair.key, pair.key_bytes, name) && pair.value_bytes == 8);
        MUST(lw_u64_of(pair.value) == (uint64_t)number);
        /* Every fifth pair is removed below the cursor, whose place and pair stay. */
        if (number % 5 == 0) {
            MUST(lw_map_delete(worker, &numbers, pair.key, pair.key_bytes, NULL) == LW_OK);
            MUST(is(pair.key, pair.key_bytes, name));
        }
        MUST(lw_cursor_next(cursor, &pair) == LW_OK);
    }
    MUST(number == KEYS);
    MUST(lw_cursor_next(cursor, &pair) == LW_OK && !pair.key);
    MUST(lw_cursor_prev(cursor, &pair) == LW_OK && is(pair.key, pair.key_bytes, "000599"));
    MUST(lw_cursor_seek(cursor, "0003", 4, &pair) == LW_OK);
    MUST(is(pair.key, pair.key_bytes, "000301"));
    MUST(lw_cursor_prev(cursor, &pair) == LW_OK && is(pair.key, pair.key_bytes, "000299"));
    MUST(lw_cursor_seek(cursor, pair.key, pair.key_bytes, &pair) == LW_OK);
    MUST(is(pair.key, pair.key_bytes, "000299"));
    MUST(lw_cursor_copy(cursor, NULL) == LW_EINVAL && lw_cursor_copy(cursor, &copy) == LW_OK);
    MUST(lw_cursor_next(copy, &other) == LW_OK && is(other.key, other.key_bytes, "000301"));
    MUST(is(pair.key, pair.key_bytes, "000299") && lw_cursor_close(copy) == LW_OK);
    MUST(lw_map_put(worker, &numbers, "000299a", 7, "12345678", 8, NULL) == LW_OK);
    commit(worker);
    begin(worker); /* the place outlasts the transaction */
    MUST(lw_cursor_next(cursor, &pair) == LW_OK && is(pair.key, pair.key_bytes, "000299a"));
    MUST(lw_cursor_last(cursor, &pair) == LW_OK && is(pair.key, pair.key_bytes, "000599"));
    MUST(lw_cursor_seek(cursor, "1", 1, &pair) == LW_OK && !pair.key && !pair.value);
    MUST(lw_cursor_seek(cursor, "\xff", 1, &pair) == LW_EINVAL);
    MUST(lw_cursor_first(cursor, NULL) == LW_EINVAL);
    commit(worker);
    MUST(lw_cursor_close(cursor) == LW_OK);
    MUST(lw_cursor_close(cursor) == LW_ECLOSED);
    MUST(lw_cursor_next(cursor, &pair) == LW_ECLOSED);
}

static void *elsewhere(void *cursor) {
    lw_pair pair;
    MUST(lw_cursor_next(cursor, &pair) == LW_ETHREAD);
    MUST(lw_cursor_close(cursor) == LW_ETHREAD);
    return NULL;
}

static void hash_cursor(void) {
    lw_worker *worker;
    lw_cursor *cursor;
    lw_pair pair;
    pthread_t thread;
    unsigned char key[8], seen[KEYS] = {0};
    char name[20];
    int count = 0;
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_cursor_open(worker, &hash_map, &cursor) == LW_OK);
    MUST(pthread_create(&thread, NULL, elsewhere, cursor) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    begin(worker);
    MUST(lw_cursor_first(cursor, &pair) == LW_OK);
    for (; pair.key; count++) {
        MUST(pair.key_bytes == 8 && !seen[lw_u64_of(pair.key)]++);
        snprintf(name, sizeof name, "%06d", (int)lw_u64_of(pair.key));
        MUST(is(pair.value, pair.value_bytes, name));
        MUST(lw_cursor_next(cursor, &pair) == LW_OK);
    }
    MUST(count == KEYS);
    lw_key_u64(7, key);
    MUST(lw_cursor_seek(cursor, key, 8, &pair) == LW_OK);
    MUST(is(pair.value, pair.value_bytes, "000007"));
    lw_key_u64(KEYS, key);
    MUST(lw_cursor_seek(cursor, key, 8, &pair) == LW_OK && !pair.key);
    MUST(lw_cursor_last(cursor, &pair) == LW_EINVAL && lw_cursor_prev(cursor, &pair) == LW_EINVAL);
    commit(worker);
    MUST(lw_worker_close(worker) == LW_OK); /* which closes the cursor */
    MUST(lw_cursor_next(cursor, &pair) == LW_ECLOSED);
}

static void clear(lw_worker *worker) {
    int is_done = 0, steps = 0;
    uint64_t length;
    for (; !is_done; steps++) {
        begin(worker);
        MUST(lw_map_clear(worker, &hash_map, 100, &is_done) == LW_OK);
        MUST(lw_map_length(worker, &hash_map, &length) == LW_OK && length == 0);
        commit(worker);
    }
    MUST(steps >= KEYS / 100);
}

static int is_named(const lw_named *named, const char *name, const char *types) {
    return is(named->name, named->name_bytes, name) && strcmp(named->types, types) == 0;
}

static void names(lw_worker *worker) {
    const lw_named *list;
    uint64_t count, length;
    lw_map map;
    int is_done = 1, steps = 0;
    MUST(lw_map_list(worker, &list, &count) == LW_EIDLE);
    begin(worker);
    MUST(lw_map_list(worker, NULL, &count) == LW_EINVAL);
    MUST(lw_map_list(worker, &list, &count) == LW_OK && count == 3);
    MUST(is_named(&list[0], "bytes", "BTreeMap<[u8], [u8]>"));
    MUST(is_named(&list[1], "hash", "HashMap<u64, [u8]> (keys of 8 bytes)"));
    MUST(is_named(&list[2], "numbers", "BTreeMap<str, u64> (values of 8 bytes)"));
    commit(worker);
    for (int kind = LW_HASH_MAP; kind <= LW_ORDERED_MAP; kind++) {
        MUST(lw_map_open(pool, "old", (uint32_t)kind, &U64, NULL, &map) == LW_OK);
        begin(worker);
        for (uint64_t i = 0; i < 200; i++) {
            unsigned char key[8];
            lw_key_u64(i, key);
            MUST(lw_map_put(worker, &map, key, 8, "value", 5, NULL) == LW_OK);
        }
        /* A name of another map, and of none. */
        MUST(lw_map_drop(worker, "bytes", &map, 10, &is_done) == LW_EINVAL && is_done == 0);
        MUST(lw_map_drop(worker, "none", &map, 10, &is_done) == LW_EINVAL);
        /* A map of another kind, or of other lengths, at the same address. */
        lw_map other = map;
        other.words[1] ^= 1;
        MUST(lw_map_drop(worker, "old", &other, 10, &is_done) == LW_EINVAL && is_done == 0);
        other = map;
        other.words[2] = other.words[1];
        MUST(lw_map_drop(worker, "old", &other, 10, &is_done) == LW_EINVAL && is_done == 0);
        MUST(lw_map_drop(worker, "old", &map, 10, NULL) == LW_EINVAL);
        MUST(lw_map_length(worker, &map, &length) == LW_OK && length == 200);
        commit(worker);
        begin(worker);
        MUST(lw_map_drop(worker, "old", &map, 1000, &is_done) == LW_OK && is_done == 1);
        MUST(lw_map_list(worker, &list, &count) == LW_OK && count == 3);
        MUST(lw_abort(worker) == LW_OK);
        for (is_done = 0, steps = 0; !is_done; steps++) {
            begin(worker);
            MUST(lw_map_length(worker, &map, &length) == LW_OK && length == (steps ? 0 : 200));
            MUST(lw_map_list(worker, &list, &count) == LW_OK && count == 4);
            MUST(lw_map_drop(worker, "old", &map, 20, &is_done) == LW_OK);
            commit(worker);
        }
        MUST(steps > 4);
    }
    /* The name is free for a map of other types. */
    MUST(lw_map_open(pool, "old", LW_ORDERED_MAP, &STR, &U64, &map) == LW_OK);
    for (is_done = 0; !is_done;) {
        begin(worker);
        MUST(lw_map_drop(worker, "old", &map, 20, &is_done) == LW_OK);
        commit(worker);
    }
}

static int count_one(lw_worker *worker, void *thread) {
    uint64_t count, bytes;
    int status = lw_map_get(worker, &numbers, thread, 1, &count, 8, &bytes);
    if (status) return status;
    count = bytes == 8 ? count + 1 : 1;
    return lw_map_put(worker, &numbers, thread, 1, &count, 8, NULL);
}

static void *counts(void *thread) {
    lw_worker *worker;
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    for (int i = 0; i < EACH; i++) MUST(lw_run(worker, 0, count_one, thread, NULL) == LW_OK);
    return NULL;
}

static void threads(lw_worker *worker) {
    pthread_t running[2];
    uint64_t count, bytes;
    MUST(pthread_create(&running[0], NULL, counts, "x") == 0);
    MUST(pthread_create(&running[1], NULL, counts, "x") == 0);
    MUST(pthread_join(running[0], NULL) == 0 && pthread_join(running[1], NULL) == 0);
    begin(worker);
    MUST(lw_map_get(worker, &numbers, "x", 1, &count, 8, &bytes) == LW_OK);
    MUST(bytes == 8 && count == 2 * EACH);
    commit(worker);
}

static void keys_keep_order(void) {
    const int64_t all[] = {INT64_MIN, -1000, -1, 0, 1, 255, 256, INT64_MAX};
    for (int i = 0; i < 8; i++) {
        unsigned char key[8], next[8];
        lw_key_i64(all[i], key);
        MUST(lw_i64_of(key) == all[i]);
        lw_key_i64(all[(i + 1) % 8], next);
        MUST((memcmp(key, next, 8) < 0) == (i < 7));
    }
}

static void only_reads(const char *path) {
    lw_worker *worker;
    lw_cursor *cursor;
    lw_pair pair;
    lw_map map;
    uint64_t count, bytes;
    MUST(lw_pool_open_read_only(path, NULL, 0, &pool) == LW_OK);
    MUST(lw_map_open(pool, "other", LW_HASH_MAP, NULL, NULL, &map) == LW_EREADONLY);
    MUST(strstr(lw_message(LW_EREADONLY), "`other`"));
    MUST(lw_map_open(pool, "numbers", LW_ORDERED_MAP, &STR, NULL, &map) == LW_EMISMATCH);
    MUST(lw_map_open(pool, "numbers", LW_ORDERED_MAP, &STR, &U64, &map) == LW_OK);
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_cursor_open(worker, &map, &cursor) == LW_OK);
    begin(worker);
    MUST(lw_map_get(worker, &map, "x", 1, &count, 8, &bytes) == LW_OK && count == 2 * EACH);
    MUST(lw_cursor_last(cursor, &pair) == LW_OK && is(pair.key, pair.key_bytes, "x"));
    const lw_named *list;
    MUST(lw_map_list(worker, &list, &count) == LW_OK && count == 3);
    MUST(is_named(&list[2], "numbers", "BTreeMap<str, u64> (values of 8 bytes)"));
    MUST(lw_map_delete(worker, &map, "x", 1, NULL) == LW_EREADONLY);
    MUST(lw_cursor_prev(cursor, &pair) == LW_EREADONLY); /* as every call until the abort */
    MUST(lw_abort(worker) == LW_OK);
    MUST(lw_pool_close(pool) == LW_OK);
}

int main(int count, char **words) {
    lw_options options;
    lw_worker *worker;
    MUST(count == 3);
    MUST(lw_options_default(&options, sizeof options) == LW_OK);
    options.design = (uint32_t)atoi(words[2]);
    options.medium = LW_EMULATED;
    options.bytes = options.log_bytes = 2 << 20;
    if (options.design == LW_SNAPSHOT || options.design == LW_UNDO || options.design == LW_REDO) {
        options.log_bytes = 8 << 20; /* of which a worker has a part */
    }
    MUST(lw_pool_create(words[1], &options, &pool) == LW_OK);
    types();
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    single_keys(worker);
    for (uint64_t i = 0; i < KEYS; i += 50) MUST(lw_run(worker, 0, fill, &i, NULL) == LW_OK);
    ordered_cursor(worker);
    hash_cursor();
    clear(worker);
    names(worker);
    threads(worker);
    keys_keep_order();
    MUST(lw_pool_close(pool) == LW_OK);
    only_reads(words[1]);
    printf("maps: all tests passed\n");
    return 0;
}
