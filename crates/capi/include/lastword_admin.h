/*
 * lastword_admin.h - the care of pools: growth, scrubs, copies, exports, and reading beside others.
 *
 *   lw_scrub_result found = {sizeof found};
 *   int status = lw_pool_scrub(pool, &found);
 *   if (status == LW_EDAMAGED) restore(found.first_damaged);
 *
 * Functions with a pool work on an open one while transactions go on. Functions with a path work on
 * a closed pool, those to copy and export it also on a pool of LW_DECOUPLED that a process has
 * open. All of them may take long and wait for the disk, none inside a transaction (LW_ENESTED).
 * lw_message has the details of an error. Statuses not named here are those of lw_pool_open for the
 * pool that is read, and of lw_pool_create for the new pool.
 *
 * A function that makes a pool makes it whole or not at all, durable on return. It never writes to
 * the pool that it reads. Structs begin with their size, so that later versions can add fields:
 * initialize one as {sizeof it}. A result may be NULL.
 */
#ifndef LASTWORD_ADMIN_H
#define LASTWORD_ADMIN_H
#include "lastword.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Flag of lw_export and lw_pool_open_read_only: also read a damaged pool. */
#define LW_SALVAGE 1u

/* The new pool of lw_copy, lw_compact and lw_import. */
typedef struct lw_copy_options {
    uint64_t size;
    uint64_t bytes;       /* of the heap; 0: as the pool's, or a quarter more than its objects */
    uint64_t log_bytes;   /* 0: as the pool's */
    uint64_t medium;      /* LW_MEDIUM_DEFAULT: as the pool's; of lw_import the best */
    uint64_t without_log; /* 1: read a cleanly closed pool that lost its log */
} lw_copy_options;

typedef struct lw_scrub_result {
    uint64_t size;
    uint64_t pages, compared;        /* of 4 KiB: of the heap, and those that have a checksum */
    uint64_t lost_checksums;         /* pages whose damage would not be found */
    uint64_t damaged, first_damaged; /* pages, and the offset of the first one in the file */
} lw_scrub_result;

typedef struct lw_transfer_result {
    uint64_t size;
    uint64_t last;                /* ID of the last transaction */
    uint64_t objects, has_root;   /* objects, strings and arrays; whether a root leads to them */
    uint64_t left_out, findings;  /* damaged objects of a salvage; damage that the check found */
    uint64_t salvaged;            /* 1: of a damaged pool; it may not be as of one transaction */
    uint64_t heap_bytes;          /* of a new pool, as the following */
    uint64_t pointers, unmatched; /* words: translated; that look like pointers to no object */
} lw_transfer_result;

/* Opens a pool for reading, also while another process has it open (LW_DECOUPLED): it then shows
   the last durable transaction, and none after it. Creates and changes no file. A closed pool
   cannot be opened for writing meanwhile. All functions that read work as on any pool, and those
   that write are LW_EREADONLY. Transactions never conflict. LW_SALVAGE: damaged pages do not
   prevent opening, and a read of one is LW_EDAMAGED. lw_pool_root allocates nothing, and does not
   detect a smaller object. LW_EBUSY: the design of a pool in use cannot be read meanwhile. */
int lw_pool_open_read_only(const char *path, const lw_options *options, uint32_t flags,
                           lw_pool **pool);

/* Grow the heap to at least `bytes`, rounded up to 64 KiB, of an open pool up to its
   options.max_bytes (LW_EINVAL beyond). `heap_bytes` or NULL: the size. Durable on return. */
int lw_pool_grow(lw_pool *pool, uint64_t bytes, uint64_t *heap_bytes);
int lw_grow(const char *path, uint64_t bytes, uint64_t *heap_bytes);
/* Doubles the log of an open pool, once or several times, so that it has more than half of `bytes`.
   Only the log of LW_DECOUPLED on LW_FILE grows, and none on a full disk. `log_bytes` or
   NULL: the size, which may grow a moment later while other threads commit. */
int lw_pool_grow_log(lw_pool *pool, uint64_t bytes, uint64_t *log_bytes);

/* Verify every page of the heap image against its checksum. LW_EDAMAGED: pages are damaged, and the
   result is set. The open pool stays usable until a transaction changes such a page. */
int lw_pool_scrub(lw_pool *pool, lw_scrub_result *result);
int lw_scrub(const char *path, lw_scrub_result *result);

/* Copies a pool, for a larger heap or another medium; objects keep their addresses. `options` or
   NULL. `id` or NULL: the last transaction. Of an open pool lw_pool_backup takes less memory. */
int lw_copy(const char *from, const char *to, const lw_copy_options *options, uint64_t *id);
/* Copies the objects of a pool into a new pool without free memory between them. Objects get other
   addresses, and words of objects that are equal to an address are translated. The book's
   page on backups has the details. LW_EINVAL: the heap is too small. */
int lw_compact(const char *from, const char *to, const lw_copy_options *options,
               lw_transfer_result *result);

/* Write the objects to a descriptor, as a stream that later versions read, too, without a sync.
   The open pool needs disk space as large as its heap meanwhile. LW_SALVAGE: without the damaged
   objects. LW_EIO: the output is incomplete, discard it. */
int lw_pool_export(lw_pool *pool, int descriptor, lw_transfer_result *result);
int lw_export(const char *path, uint32_t flags, int descriptor, lw_transfer_result *result);
/* Makes a pool of an export that it reads from a descriptor, to its end. LW_EDAMAGED: the input is
   no whole export. Objects get other addresses, as by lw_compact. */
int lw_import(int descriptor, const char *to, const lw_copy_options *options,
              lw_transfer_result *result);

#ifdef __cplusplus
}
#endif
#endif
