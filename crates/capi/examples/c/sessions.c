/*
 * sessions.c - a session store: a hash map of sessions, and an ordered map of their ends.
 *
 *   cc -std=c11 sessions.c -o sessions $(pkg-config --cflags --libs lastword)
 *   ./sessions PATH
 *
 * PATH is a pool. Each run removes the sessions that have ended, starts three and lists all. One
 * transaction changes both maps, so they agree after a crash at any time.
 */
#include <lastword_maps.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIFE = 6, ID = 16, KEY = 8 + ID };

static lw_map users, ends; /* session -> user, and (end, session) -> nothing */
static uint64_t now;       /* ID of the last transaction, which stands in for the time */

static void must(int status, const char *call) {
    if (status == LW_OK) return;
    fprintf(stderr, "sessions: %s: %s\n", call, lw_message(status));
    exit(1);
}

static int start(lw_worker *worker, void *user) {
    unsigned char key[KEY] = {0};
    lw_key_u64(now + LIFE, key); /* big-endian, so that the map is in the order of the ends */
    snprintf((char *)key + 8, ID, "%s-%llu", (char *)user, (unsigned long long)now);
    int status = lw_map_put(worker, &users, key + 8, ID, user, strlen(user), NULL);
    return status ? status : lw_map_put(worker, &ends, key, KEY, NULL, 0, NULL);
}

static int expire(lw_worker *worker, void *cursor) {
    lw_pair end;
    int status = lw_cursor_first(cursor, &end); /* a body that runs again starts again */
    while (!status && end.key && lw_u64_of(end.key) <= now) {
        status = lw_map_delete(worker, &users, (const char *)end.key + 8, ID, NULL);
        if (!status) status = lw_map_delete(worker, &ends, end.key, KEY, NULL);
        if (!status) status = lw_cursor_next(cursor, &end);
    }
    return status;
}

static int list(lw_worker *worker, void *cursor) {
    lw_pair end;
    const void *user;
    uint64_t bytes;
    int status = lw_cursor_first(cursor, &end);
    for (; !status && end.key; status = lw_cursor_next(cursor, &end)) {
        const char *session = (const char *)end.key + 8;
        status = lw_map_view(worker, &users, session, ID, &user, &bytes);
        if (status) break;
        printf("%s of %.*s\n", session, (int)bytes, (const char *)user);
    }
    return status;
}

int main(int count, char **words) {
    lw_pool *pool;
    lw_worker *worker;
    lw_cursor *cursor;
    char *names[] = {"ann", "bob", "eve"};
    if (count != 2) return fprintf(stderr, "usage: sessions PATH\n"), 2;
    int status = lw_pool_open(words[1], NULL, &pool);
    must(status == LW_ENOENT ? lw_pool_create(words[1], NULL, &pool) : status, "opening");
    must(lw_map_open(pool, "users", LW_HASH_MAP, NULL, NULL, &users), "the map of users");
    must(lw_map_open(pool, "ends", LW_ORDERED_MAP, NULL, NULL, &ends), "the map of ends");
    must(lw_worker_open(pool, &worker), "opening a worker");
    must(lw_cursor_open(worker, &ends, &cursor), "opening a cursor");
    must(lw_pool_durable(pool, &now), "the clock");
    must(lw_run(worker, 0, expire, cursor, NULL), "removing sessions");
    for (int i = 0; i < 3; i++) must(lw_run(worker, 0, start, names[i], NULL), "starting one");
    must(lw_run(worker, LW_READ_ONLY, list, cursor, NULL), "listing");
    must(lw_pool_close(pool), "closing"); /* durable; closes the worker and the cursor, too */
}
