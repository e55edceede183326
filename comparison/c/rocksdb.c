/* A database of RocksDB with default options, behind the few functions that `heap/rocksdb.rs`
 * calls. An error is a string of RocksDB's, which the caller frees with `rocks_free`. */
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

struct rocks {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
};

/* Closes the database. Commits that only the log holds stay there. */
void rocks_close(struct rocks *rocks) {
    if (rocks->db) rocksdb_close(rocks->db);
    rocksdb_options_destroy(rocks->options);
    rocksdb_readoptions_destroy(rocks->read);
    rocksdb_writeoptions_destroy(rocks->write);
    free(rocks);
}

/* Opens the database in a directory, or makes one there; 0 with an error. */
struct rocks *rocks_open(const char *path, char **error) {
    struct rocks *rocks = calloc(1, sizeof *rocks);
    if (!rocks) return 0;
    rocks->options = rocksdb_options_create();
    rocks->read = rocksdb_readoptions_create();
    rocks->write = rocksdb_writeoptions_create();
    rocksdb_options_set_create_if_missing(rocks->options, 1);
    rocks->db = rocksdb_open(rocks->options, path, error);
    if (rocks->db) return rocks;
    rocks_close(rocks);
    return 0;
}

/* Writes what only memory holds to tables, and waits for it. */
void rocks_flush(struct rocks *rocks, char **error) {
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(options, 1);
    rocksdb_flush(rocks->db, options, error);
    rocksdb_flushoptions_destroy(options);
}

/* Syncs the write-ahead log. */
void rocks_sync_log(struct rocks *rocks, char **error) { rocksdb_flush_wal(rocks->db, 1, error); }

/* Whether a compaction is running or due. */
int rocks_is_compacting(struct rocks *rocks) {
    uint64_t running = 0, due = 0;
    rocksdb_property_int(rocks->db, "rocksdb.num-running-compactions", &running);
    rocksdb_property_int(rocks->db, "rocksdb.compaction-pending", &due);
    return running || due;
}

rocksdb_writebatch_t *rocks_batch(void) { return rocksdb_writebatch_create(); }

void rocks_batch_free(rocksdb_writebatch_t *batch) { rocksdb_writebatch_destroy(batch); }

void rocks_batch_put(rocksdb_writebatch_t *batch, const char key[8], const char *value,
                     size_t bytes) {
    rocksdb_writebatch_put(batch, key, 8, value, bytes);
}

/* Commits a batch and empties it. */
void rocks_commit(struct rocks *rocks, rocksdb_writebatch_t *batch, char **error) {
    rocksdb_write(rocks->db, rocks->write, batch, error);
    rocksdb_writebatch_clear(batch);
}

/* Copies a value of this length, and returns whether there is one. */
int rocks_get(struct rocks *rocks, const char key[8], char *value, size_t bytes, char **error) {
    size_t found = 0;
    char *read = rocksdb_get(rocks->db, rocks->read, key, 8, &found, error);
    int is_whole = read && found == bytes;
    if (is_whole) memcpy(value, read, bytes);
    if (read) rocksdb_free(read);
    return is_whole;
}

void rocks_free(char *error) { rocksdb_free(error); }
