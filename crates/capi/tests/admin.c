/*
 * admin.c - tests of lastword_admin.h.
 *
 *   admin PATH     creates a pool at PATH, and further ones at PATH.copy and the like
 *
 * The exit status is the line that failed, modulo 256.
 */
#include <lastword_admin.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition)                                                               \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                   \
            exit(__LINE__ % 256);                                                     \
        }                                                                             \
    } while (0)

enum { MIB = 1 << 20, OBJECTS = 100 };

static const char *path;

/* Returns PATH with an ending. Each result is valid until the fourth call after it. */
static const char *with(const char *ending) {
    static char names[4][4096];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "%s.%s", path, ending);
    return name;
}

/* A chain of objects, each with its number and the address of the next. */
static int fill(lw_worker *worker, void *root) {
    uint64_t words[2] = {0, 0}, object = 0;
    int status = LW_OK;
    for (uint64_t i = OBJECTS; !status && i > 0; i--) {
        words[0] = i;
        words[1] = object;
        status = lw_alloc(worker, sizeof words, words, &object);
    }
    return status ? status : lw_write(worker, *(uint64_t *)root, 0, object);
}

static int sum(lw_worker *worker, void *root) {
    uint64_t object, number, expected = 1;
    int status = lw_read(worker, *(uint64_t *)root, 0, &object);
    while (!status && object) {
        status = lw_read(worker, object, 0, &number);
        if (!status) status = lw_read(worker, object, 8, &object);
        if (!status && number != expected++) return 1;
    }
    return status ? status : expected == OBJECTS + 1 ? LW_OK : 2;
}

static int write_one(lw_worker *worker, void *root) {
    return lw_write(worker, *(uint64_t *)root, 8, 1);
}

static void check(lw_pool *pool) {
    lw_worker *worker;
    uint64_t root, id;
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_pool_root(pool, 16, &root) == LW_OK);
    MUST(lw_run(worker, LW_READ_ONLY, sum, &root, &id) == LW_OK);
    MUST(lw_pool_wait(pool, id) == LW_OK && lw_pool_flush(pool) == LW_OK);
    MUST(lw_worker_close(worker) == LW_OK);
}

/* Opens a pool for writing and for reading, and checks its content. */
static void check_at(const char *name) {
    lw_pool *pool;
    MUST(lw_pool_open_read_only(name, NULL, 0, &pool) == LW_OK);
    check(pool);
    MUST(lw_pool_close(pool) == LW_OK);
    MUST(lw_pool_open(name, NULL, &pool) == LW_OK);
    check(pool);
    MUST(lw_pool_close(pool) == LW_OK);
}

static void called(void *argument, int status) {
    *(int *)argument = status;
}

static void only_reads(void) {
    lw_pool *pool;
    lw_worker *worker;
    lw_heap_usage usage = {.size = sizeof usage};
    lw_transfer_result moved = {.size = sizeof moved};
    uint64_t root, id, word;
    int status = 1;
    MUST(lw_pool_open_read_only(path, NULL, 2, &pool) == LW_EINVAL);
    MUST(lw_pool_open_read_only(with("none"), NULL, 0, &pool) == LW_ENOENT);
    MUST(strstr(lw_message(LW_ENOENT), ".none"));
    MUST(lw_pool_open_read_only(path, NULL, 0, &pool) == LW_OK);
    check(pool);
    MUST(lw_pool_durable(pool, &id) == LW_OK && id > 0);
    MUST(lw_pool_wait(pool, id + 1) == LW_EUNKNOWN);
    MUST(lw_pool_on_durable(pool, id, called, &status) == LW_OK && status == LW_OK);
    MUST(lw_pool_on_durable(pool, id + 1, called, &status) == LW_EUNKNOWN);
    MUST(lw_pool_heap_usage(pool, &usage) == LW_OK && usage.objects >= OBJECTS);
    MUST(lw_pool_root(pool, 16, &root) == LW_OK);
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_read(worker, root, 0, &word) == LW_EIDLE);
    MUST(lw_abort(worker) == LW_EIDLE && lw_commit(worker, NULL) == LW_EIDLE);
    MUST(lw_begin(worker, 0) == LW_OK && lw_begin(worker, 0) == LW_ENESTED);
    MUST(lw_pool_close(pool) == LW_EBUSY);
    MUST(lw_read(worker, root, 0, &word) == LW_OK && word > 0);
    MUST(lw_alloc(worker, 8, NULL, &word) == LW_EREADONLY);
    MUST(lw_read(worker, root, 0, &word) == LW_EREADONLY);
    MUST(lw_commit(worker, NULL) == LW_EREADONLY);
    MUST(lw_abort(worker) == LW_OK);
    MUST(lw_run(worker, 0, write_one, &root, NULL) == LW_EREADONLY);
    MUST(lw_begin(worker, 0) == LW_OK);
    MUST(lw_read(worker, 0, 0, &word) == LW_EADDRESS && lw_abort(worker) == LW_OK);
    MUST(lw_begin(worker, 0) == LW_OK && lw_commit(worker, &word) == LW_OK && word == id);
    MUST(lw_pool_backup(pool, with("never"), NULL) == LW_EREADONLY);
    MUST(lw_pool_grow(pool, 4 * MIB, NULL) == LW_EREADONLY);
    MUST(lw_pool_grow_log(pool, 4 * MIB, NULL) == LW_EREADONLY);
    MUST(lw_pool_scrub(pool, NULL) == LW_EREADONLY);
    MUST(lw_pool_export(pool, 1, &moved) == LW_EREADONLY);
    MUST(lw_pool_close(pool) == LW_OK);
}

/* Exports to a file, and makes a pool of it. */
static void transfer(const char *to, int exported, int fd, const lw_transfer_result *found) {
    lw_transfer_result moved = {.size = sizeof moved};
    lw_copy_options small = {.size = sizeof small, .bytes = 4096}, form = small;
    form.bytes = 2 * MIB;
    form.log_bytes = MIB;
    MUST(exported == LW_OK && found->objects >= OBJECTS && found->has_root == 1);
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    MUST(lw_import(fd, to, &form, &moved) == LW_OK);
    MUST(moved.objects == found->objects && moved.heap_bytes == 2 * MIB && moved.has_root == 1);
    MUST(moved.last == found->last && moved.pointers >= OBJECTS && moved.left_out == 0);
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    MUST(lw_import(fd, to, &form, NULL) == LW_EEXIST);
    MUST(lseek(fd, 8, SEEK_SET) == 8);
    MUST(lw_import(fd, with("never"), NULL, NULL) == LW_EDAMAGED);
    form.medium = 9;
    MUST(lw_import(fd, with("never"), &form, NULL) == LW_EINVAL);
    close(fd);
    MUST(lw_import(fd, with("never"), NULL, NULL) == LW_EINVAL);
}

static int temporary(void) {
    FILE *file = tmpfile();
    MUST(file);
    const int fd = dup(fileno(file));
    fclose(file);
    return fd;
}

static void open_pool(lw_pool *pool) {
    lw_scrub_result found = {.size = sizeof found};
    lw_transfer_result moved = {.size = sizeof moved}, unset = {.size = 0};
    uint64_t bytes, id;
    MUST(lw_pool_grow(pool, 2 * MIB - 1, &bytes) == LW_OK && bytes == 2 * MIB);
    MUST(lw_pool_grow(pool, 5 * MIB, NULL) == LW_EINVAL);
    MUST(lw_pool_grow_log(pool, 2 * MIB, &bytes) == LW_OK && bytes == 2 * MIB);
    MUST(lw_pool_grow_log(pool, MIB, &bytes) == LW_OK && bytes == 2 * MIB);
    MUST(strstr(lw_message(LW_EINVAL), "max_bytes") && lw_message(LW_EIO) == lw_strerror(LW_EIO));
    MUST(lw_pool_scrub(pool, &found) == LW_OK && found.pages == 512 && found.damaged == 0);
    MUST(lw_pool_scrub(pool, NULL) == LW_OK);
    const int fd = temporary();
    MUST(lw_pool_export(pool, fd, &unset) == LW_EINVAL);
    MUST(lw_pool_export(pool, -1, &moved) == LW_EINVAL);
    transfer(with("open"), lw_pool_export(pool, fd, &moved), fd, &moved);
    check_at(with("open"));
    MUST(lw_pool_backup(pool, with("backup"), &id) == LW_OK && id == moved.last);
    /* Others read it meanwhile, and none may change it. */
    only_reads();
    MUST(lw_copy(path, with("beside"), NULL, &id) == LW_OK && id == moved.last);
    check_at(with("beside"));
    MUST(lw_grow(path, 4 * MIB, NULL) == LW_EBUSY && lw_scrub(path, NULL) == LW_EBUSY);
}

static void closed_pool(void) {
    lw_scrub_result found = {.size = sizeof found};
    lw_transfer_result moved = {.size = sizeof moved};
    lw_copy_options large = {.size = sizeof large, .bytes = 4 * MIB};
    struct {
        lw_copy_options known;
        uint64_t later;
    } newer = {{.size = sizeof newer}, 1};
    uint64_t bytes;
    MUST(lw_scrub(path, &found) == LW_OK && found.compared == found.pages);
    MUST(lw_grow(path, 3 * MIB, &bytes) == LW_OK && bytes == 3 * MIB);
    const int fd = temporary();
    transfer(with("closed"), lw_export(path, 0, fd, &moved), fd, &moved);
    check_at(with("closed"));
    MUST(lw_copy(path, with("copy"), &large, NULL) == LW_OK);
    check_at(with("copy"));
    MUST(lw_compact(path, with("compact"), NULL, &moved) == LW_OK);
    MUST(moved.heap_bytes < MIB && moved.salvaged == 0 && moved.objects >= OBJECTS);
    check_at(with("compact"));
    MUST(lw_copy(path, with("never"), &newer.known, NULL) == LW_EINVAL);
    newer.later = 0;
    MUST(lw_copy(path, with("newer"), &newer.known, NULL) == LW_OK);
    MUST(lw_copy(NULL, with("never"), NULL, NULL) == LW_EINVAL);
    MUST(access(with("never"), F_OK) == -1);
    only_reads();
}

/* Overwrites a page of the heap image that has no object. */
static void damaged_pool(void) {
    lw_pool *pool;
    lw_scrub_result found = {.size = sizeof found};
    lw_transfer_result moved = {.size = sizeof moved};
    const off_t at = (2 << 20) + 2 * MIB + 4096;
    int fd = open(path, O_WRONLY);
    MUST(fd >= 0 && pwrite(fd, "oops", 4, at + 1000) == 4 && close(fd) == 0);
    MUST(lw_scrub(path, &found) == LW_EDAMAGED);
    MUST(found.damaged == 1 && found.first_damaged == (uint64_t)at);
    MUST(strstr(lw_message(LW_EDAMAGED), "1 damaged pages"));
    MUST(lw_pool_open_read_only(path, NULL, 0, &pool) == LW_EDAMAGED);
    MUST(lw_pool_open_read_only(path, NULL, LW_SALVAGE, &pool) == LW_OK);
    check(pool);
    MUST(lw_pool_close(pool) == LW_OK);
    fd = temporary();
    MUST(lw_export(path, 0, fd, NULL) == LW_EDAMAGED);
    MUST(lw_export(path, 2, fd, NULL) == LW_EINVAL);
    const int exported = lw_export(path, LW_SALVAGE, fd, &moved);
    MUST(moved.salvaged == 1 && moved.findings > 0 && moved.left_out == 0);
    transfer(with("salvaged"), exported, fd, &moved);
    check_at(with("salvaged"));
}

int main(int count, char **words) {
    lw_options options;
    lw_pool *pool;
    lw_worker *worker;
    uint64_t root;
    MUST(count == 2);
    path = words[1];
    MUST(lw_options_default(&options, sizeof options) == LW_OK);
    options.bytes = options.log_bytes = MIB;
    options.max_bytes = 4 * MIB;
    options.grow_step = MIB;
    MUST(lw_pool_create(path, &options, &pool) == LW_OK);
    MUST(lw_pool_root(pool, 16, &root) == LW_OK);
    MUST(lw_worker_open(pool, &worker) == LW_OK);
    MUST(lw_run(worker, 0, fill, &root, NULL) == LW_OK && lw_pool_flush(pool) == LW_OK);
    open_pool(pool);
    check(pool);
    MUST(lw_pool_close(pool) == LW_OK);
    check_at(with("backup"));
    closed_pool();
    damaged_pool();
    printf("admin: all tests passed\n");
    return 0;
}
