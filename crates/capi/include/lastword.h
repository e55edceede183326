/*
 * lastword.h - durable memory transactions.
 *
 * A pool holds data in a file PATH and, on LW_FILE, in its log PATH.log. Programs read and
 * write the data in transactions, at the speed of memory. A durable transaction survives a
 * crash, a kill or a power failure as a whole.
 *
 *   lw_pool *pool;  lw_worker *worker;  uint64_t account, cents, id;  int status;
 *   lw_pool_create("bank.pool", NULL, &pool);
 *   lw_pool_root(pool, 16, &account);             16 bytes, zeros at first
 *   lw_worker_open(pool, &worker);                one for each thread
 *   do {
 *       status = lw_begin(worker, 0);
 *       if (!status) status = lw_read(worker, account, 0, &cents);
 *       if (!status) status = lw_write(worker, account, 0, cents + 100);
 *       if (!status) status = lw_commit(worker, &id);
 *       if (status) lw_abort(worker);
 *   } while (status == LW_CONFLICT);
 *   if (!status) status = lw_pool_wait(pool, id); durable
 *
 * Objects. Memory consists of objects of 1 to 1024 bytes. The address of an object is a number
 * that does not change while the object lives, so programs store it in other objects. It is
 * valid in its pool only, and 0 is no object. Functions take an address and an offset in bytes.
 * Larger data go into an array of blocks (lw_array_reserve). An object takes 16 bytes beside its
 * own, rounded up to a size class. Maps: lastword_maps.h. Care of pools: lastword_admin.h.
 *
 * Status. Functions return LW_OK (0) or one of the negative numbers below. Outputs come last
 * and are set only with LW_OK. An output pointer may be NULL where "or NULL" stands. The library
 * detects a closed handle (until 1024 others were closed), a wrong thread, a NULL, a write to
 * a wild address and a read outside the pool, and returns a status.
 *
 * Errors inside a transaction. LW_EINVAL, LW_ENESTED and LW_ETHREAD reject a call before it
 * reaches the transaction, which stays as it was. Any other error ends the transaction without
 * effect, and every later call in it returns the same error: call lw_abort. After LW_CONFLICT
 * abort and begin again. After LW_EFULL do so once, as lw_begin reclaims memory. lw_run does both.
 *
 * Durability. When lw_commit or lw_run returns, other threads see the transaction. It is
 * durable when its ID is. With LW_SYNC, and under LW_UNDO, LW_REDO and LW_SNAPSHOT, that is on
 * return. Otherwise it is some milliseconds later, or when lw_pool_wait or lw_pool_flush returns
 * (only then if options.threads is 0). Transactions become durable in the order of their IDs. A
 * read-only transaction has the ID of the last transaction that it may have seen: wait for it
 * before the program reports the data to others.
 *
 * Isolation. Transactions are serializable. LW_SNAPSHOT has snapshot isolation (lw_protect), with
 * groups parallel snapshot isolation. LW_PLAIN has none, and its aborts keep all writes.
 *
 * Threads. All threads may use a pool at once. Only the thread that opened a worker uses and
 * closes it. A thread that ends closes its workers and aborts their open transactions. A thread
 * has one transaction at a time. Other threads wait for the words that an open transaction has
 * read and written, so end it soon and wait for nothing inside it. A transaction that conflicts
 * often runs alone in the end. A call that waits for one transaction longer than patience_ms ends
 * with LW_EHELDUP and no effect. No function may be called in a signal handler. In a child after
 * fork calls return LW_EFORKED. Do not fork inside a transaction (SIGSEGV on mapped media).
 */
#ifndef LASTWORD_H
#define LASTWORD_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define LW_VERSION_MAJOR 0
#define LW_VERSION_MINOR 1
#define LW_VERSION_PATCH 0

/* Statuses. lw_strerror returns their texts, with the remedies. */
#define LW_OK 0
#define LW_CONFLICT -1       /* conflict with another transaction: abort, begin again */
#define LW_EINVAL -2         /* an argument is NULL or out of range */
#define LW_ECLOSED -3        /* the handle is closed */
#define LW_ETHREAD -4        /* the worker belongs to another thread */
#define LW_ENESTED -5        /* this thread has an open transaction */
#define LW_EIDLE -6          /* the worker has no open transaction: lw_begin first */
#define LW_EADDRESS -7       /* no such word in a live object of this pool */
#define LW_EFULL -8          /* the heap is full: free objects, or set options.max_bytes */
#define LW_ETOOLARGE -9      /* exceeds the ring or the log: split it, or see lw_options */
#define LW_EREADONLY -10     /* a write in a read-only transaction */
#define LW_EBUSY -11         /* a transaction is open, or another process has the pool open */
#define LW_EWORKERS -12      /* no free worker: close one, or create a larger log */
#define LW_EHELDUP -13       /* a transaction that does not end blocks this one */
#define LW_EEXIST -14        /* the pool or its log exists */
#define LW_ENOENT -15        /* the file or its directory does not exist */
#define LW_EIO -16           /* the system refused a call, now or earlier: close, reopen */
#define LW_EDAMAGED -17      /* not a pool, or damaged: data may be lost; restore a backup */
#define LW_EMISMATCH -18     /* another layout, format, medium, root or type than requested */
#define LW_ENOTDURABLE -19   /* the design is not durable */
#define LW_EUNKNOWN -20      /* an ID that the pool has not assigned */
#define LW_EPANIC -21        /* a bug in Lastword; the handle is unusable */
#define LW_EFORKED -23       /* a forked child: the pool is its parent's; no effect */
#define LW_ENAME -22         /* a file of the open pool was removed or replaced: no writes */
#define LW_ENOMEM -24        /* no memory for the pool; no committed transaction is lost */
#define LW_EPLACE -25        /* the path cannot hold a pool: options.message has the reason */

/* Designs: how atomic durability is reached (docs/designs). */
#define LW_DECOUPLED 0 /* Run in memory, persist in the background, reproduce later */
#define LW_SNAPSHOT 1  /* Run on copies of objects; snapshot isolation; readers never wait */
#define LW_UNDO 2      /* Run in place; old values are durable before words are overwritten */
#define LW_REDO 3      /* Run in a buffer; new values are durable before words are overwritten */
#define LW_VOLATILE 4  /* Transactional memory without durability */
#define LW_PLAIN 5     /* Bare memory, no isolation, one worker */

/* Media: how bytes become durable. */
#define LW_MEDIUM_DEFAULT 0   /* of a new pool LW_FILE (LW_DAX if there), else the pool's own */
#define LW_FILE 1             /* any disk */
#define LW_DAX 2              /* persistent memory */
#define LW_PERSISTENT_CACHE 3 /* persistent memory with persistent caches */
#define LW_EMULATED 4         /* memory with the delays of a device, for measurements */

#define LW_ASYNC 0 /* a commit returns when it is visible */
#define LW_SYNC 1  /* a commit returns when it is durable */

#define LW_READ_ONLY 1u /* flag of lw_begin and lw_run: one snapshot; a write is LW_EREADONLY */

/* Bytes of a block of an array, distance between blocks, and most bytes of an object. */
#define LW_BLOCK_BYTES 256u
#define LW_BLOCK_STRIDE 272u
#define LW_OBJECT_BYTES_MAX 1024u

typedef struct lw_pool lw_pool;
typedef struct lw_worker lw_worker;

/* Set by lw_options_default, as later versions add fields. The comments name the defaults. */
typedef struct lw_options {
    uint64_t size;           /* of this struct, as compiled into the program */
    uint32_t design;         /* LW_DECOUPLED */
    uint32_t medium;         /* LW_MEDIUM_DEFAULT */
    uint32_t durability;     /* LW_ASYNC */
    uint32_t threads;        /* reproduce threads; 1. 0: none, and threads that wait do the work */
    uint64_t bytes;          /* of a new pool's heap; 8 MiB. All disk space is allocated at once */
    uint64_t log_bytes;      /* of a new log; 0: bytes/4, 4 MiB to 1 GiB. Bounds transactions */
    const char *layout;      /* name of the data's layout, at most 32 bytes; "". Name and */
    uint64_t layout_version; /* version (0) must be equal at every opening */
    char *message;           /* NULL, or buffer for the error of create, open and check, or "" */
    uint64_t message_bytes;  /* its size, with the final 0 */
    uint64_t ring_entries;   /* 16 bytes each, per worker; 2^20. 8 bytes each bound a transaction */
    uint64_t patience_ms;    /* before LW_EHELDUP; 10000 */
    uint64_t without_log;    /* 1: make a new log for a cleanly closed pool that lost its own; 0 */
    uint64_t ownership_records; /* locks of the transactional memory; 0: by heap and cores */
    uint64_t max_bytes;      /* a full heap grows to this while the pool is open; 0: never */
    uint64_t grow_step;      /* by so much at a time; 0: an eighth of the heap, at least 1 MiB */
    uint64_t max_log_bytes;  /* the log grows up to this; 0: 1 GiB, or not at all with log_bytes */
} lw_options;

/* Use of a heap. Runs serve any request that is not longer, free slots their size class only. */
typedef struct lw_heap_usage {
    uint64_t size, heap_bytes, live_bytes, objects; /* size: of this struct, set by the program */
    uint64_t free_bytes, largest_free_bytes, free_slot_bytes; /* runs, longest run, slots */
} lw_heap_usage;

uint32_t lw_version(void); /* of the library: major << 16 | minor << 8 | patch */
/* Returns the meaning of a status and the remedy. Never NULL, always valid. */
const char *lw_strerror(int status);
/* Returns the text of this thread's last failed call, with paths and numbers, if it returned
   `status`; else lw_strerror(status). Valid until the thread's next failed call. */
const char *lw_message(int status);
/* Sets the defaults. `size` is sizeof(lw_options). LW_EINVAL. */
int lw_options_default(lw_options *options, uint64_t size);

/* Creates a pool at `path` and opens it. Durable on return; a crash before that leaves none.
   `options` or NULL. LW_EEXIST, LW_ENOENT (no such directory), LW_EPLACE, LW_ENOMEM, LW_EIO (also
   a full disk), LW_EINVAL. */
int lw_pool_create(const char *path, const lw_options *options, lw_pool **pool);
/* Opens a pool, and recovers it after a crash. Sizes are the pool's own. `options` or NULL.
   LW_ENOENT, LW_EBUSY, LW_EDAMAGED, LW_EMISMATCH, LW_ENOTDURABLE, LW_EPLACE, LW_ENOMEM, LW_EIO,
   LW_EINVAL: no committed transaction is lost then. */
int lw_pool_open(const char *path, const lw_options *options, lw_pool **pool);
/* Checks a pool and writes nothing. `options` or NULL: their `message` has the reason. `opens` or
   NULL: the status that lw_pool_open would return with these options. LW_EDAMAGED: the pool has
   damage, whether it opens or not. Otherwise as lw_pool_open. Takes as much memory as the heap. */
int lw_pool_check(const char *path, const lw_options *options, int *opens);
/* Makes all transactions durable and closes workers and pool, with every status but LW_EBUSY (a
   transaction is open). No other call may be in flight, nor a transaction of this thread. LW_EIO:
   as after a crash. LW_ENAME: closed cleanly; descriptors of its files stay open, for a copy. */
int lw_pool_close(lw_pool *pool);
/* Copies the pool to a new, durable pool at `path` while transactions go on. `id` or NULL: its last
   transaction. LW_ENOTDURABLE: LW_VOLATILE. Else as lw_pool_create and lw_pool_flush. */
int lw_pool_backup(lw_pool *pool, const char *path, uint64_t *id);
/* Returns the pool's first object, from which the program reaches all others. The first call
   allocates it, with `bytes` zeros, 1 to 1024. LW_EMISMATCH: it is smaller. Runs a transaction in a
   worker of its own, with the statuses of lw_worker_open and lw_run. */
int lw_pool_root(lw_pool *pool, uint64_t bytes, uint64_t *object);
/* Returns the use of the heap, an estimate while transactions run. Stops none. LW_EFORKED. */
int lw_pool_heap_usage(lw_pool *pool, lw_heap_usage *usage);
/* Returns the durable watermark: this transaction and all before it are durable. Costs a load. */
int lw_pool_durable(lw_pool *pool, uint64_t *id);
/* Waits until `id` is durable, and helps meanwhile. LW_ENESTED, LW_EUNKNOWN, LW_ENOTDURABLE,
   LW_EIO, LW_EDAMAGED, LW_ENAME (durable in a file that is freed when closed; checked at times). */
int lw_pool_wait(lw_pool *pool, uint64_t id);
/* Waits until all commits are durable. As lw_pool_wait, but always checks for LW_ENAME. */
int lw_pool_flush(lw_pool *pool);
/* Calls `notify` once, when `id` is durable (LW_OK) or failed to become so. The call comes at once,
   or later in the thread that made it durable, which may be this one. It comes after the end of a
   transaction that is open in that thread. `notify` must be short and call no function of this
   library. It is not called if this returns an error. LW_EUNKNOWN, LW_ENOTDURABLE. */
int lw_pool_on_durable(lw_pool *pool, uint64_t id, void (*notify)(void *argument, int status),
                       void *argument);

/* Opens a worker for the calling thread. LW_EWORKERS. */
int lw_worker_open(lw_pool *pool, lw_worker **worker);
/* Closes a worker and aborts its open transaction. Its commits stay. LW_ENESTED: a body runs.
   LW_EIO: it is closed, and the data that it read cannot become durable (LW_SYNC). */
int lw_worker_close(lw_worker *worker);

/* Runs `body` as one transaction. Commits when it returns 0, and runs it again on LW_CONFLICT. Any
   other value aborts and is returned. The data that it rests on are durable after lw_pool_flush.
   The body may run several times, so it should change nothing outside the pool. It must not leave
   by longjmp or an exception. `id` or NULL. LW_ENESTED, LW_EHELDUP, LW_EIO: it may be committed. */
int lw_run(lw_worker *worker, uint32_t flags, int (*body)(lw_worker *worker, void *argument),
           void *argument, uint64_t *id);

/* Begins a transaction, until lw_commit is LW_OK, or lw_abort. LW_ENESTED, LW_EHELDUP, LW_EIO. */
int lw_begin(lw_worker *worker, uint32_t flags);
/* Commits. `id` or NULL. A status but LW_OK needs an lw_abort. LW_EIO: it may be committed. */
int lw_commit(lw_worker *worker, uint64_t *id);
/* Rolls the transaction back. LW_EIDLE: no transaction is open. LW_EIO: it is rolled back, and the
   data that it read cannot become durable (LW_SYNC). */
int lw_abort(lw_worker *worker);

/* Read and write a word; `offset` is a multiple of 8. Outside live objects a read returns any value
   or LW_EADDRESS, a write LW_EADDRESS. LW_CONFLICT, LW_ETOOLARGE, LW_EREADONLY. */
int lw_read(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t *value);
int lw_write(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t value);
/* Read and write any bytes of one object or block. */
int lw_read_bytes(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t bytes, void *out);
int lw_write_bytes(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t bytes,
                   const void *from);

/* Allocates an object of `bytes` with this content, or zeros for NULL. LW_EFULL, LW_EINVAL. */
int lw_alloc(lw_worker *worker, uint64_t bytes, const void *content, uint64_t *object);
/* Frees an object other than the root, or an array of `bytes` / LW_BLOCK_BYTES. LW_EADDRESS. */
int lw_free(lw_worker *worker, uint64_t object, uint64_t bytes);
/* Under LW_SNAPSHOT, keeps other transactions from writing the object until this one ends. Protect
   objects that a writing transaction only reads for its decision. No effect under other designs. */
int lw_protect(lw_worker *worker, uint64_t object);

/* Reserves an array of `blocks`. Store `first` in the same transaction, or it leaks. LW_EFULL. */
int lw_array_reserve(lw_worker *worker, uint64_t blocks, uint64_t *first);
/* Prepares up to `most` further blocks with zeros, about 1000 in one transaction. `left`: blocks
   not yet prepared. May be repeated after a crash. LW_ETOOLARGE, LW_EADDRESS. */
int lw_array_prepare(lw_worker *worker, uint64_t first, uint64_t most, uint64_t *left);
/* Returns the block of byte `at` of an array, which has it at offset `at` % LW_BLOCK_BYTES. */
static inline uint64_t lw_array_block(uint64_t first, uint64_t at) {
    return first + at / LW_BLOCK_BYTES * LW_BLOCK_STRIDE;
}

#ifdef __cplusplus
}
#endif
#endif
