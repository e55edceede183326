/*
 * lastword.h - durable memory transactions.
 *
 * Data lives in a pool: a file PATH, and on LW_FILE its log, PATH.log. Programs
 * read and write it in transactions, at the speed of memory; what is committed
 * and durable survives a crash, a kill or a power cut, whole.
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
 * Objects. Memory is cut into objects of 1 to 1024 bytes. An object's address
 * is a number that stays the same for as long as the object lives: store it in
 * other objects. It means nothing outside of its pool; 0 is no object. A place
 * is an object's address and an offset in bytes. What is larger is an array of
 * blocks: lw_array_reserve. An object takes 16 bytes besides its own, rounded up
 * to a class of sizes; a class takes memory by 64 KiB and keeps it: what is freed
 * is for objects of that class. A pool of less than 1 MiB holds little.
 *
 * Status. Functions return LW_OK (0) or one of the negative numbers below;
 * outputs come last, and are set only with LW_OK; an output pointer may be NULL
 * where the word "or NULL" stands. A closed handle (until 1024 others have been
 * closed), a wrong thread, a NULL and a write to a wild address are found and
 * answered; so is a read outside of the pool.
 *
 * Errors inside a transaction. What is refused before the transaction is asked
 * (LW_EINVAL, LW_ENESTED, LW_ETHREAD) leaves it as it was. After any other error
 * of one of its calls it has had no effect, and every later call in it answers
 * the same: call lw_abort. With LW_CONFLICT another transaction was in the way:
 * abort, and begin again. lw_run does both.
 *
 * Durability. When lw_commit or lw_run returns, the transaction is visible to
 * others. It is durable when its ID is: with LW_SYNC, and with the designs
 * LW_UNDO, LW_REDO and LW_SNAPSHOT, on return; else some milliseconds later, or
 * when lw_pool_wait or lw_pool_flush returns (without threads of the pool's own
 * only then). Transactions become durable in the order of their IDs. A
 * transaction that has only read has the ID of the last one that it may have
 * seen: wait for it before you tell the world.
 *
 * Isolation. Serializable; under LW_SNAPSHOT snapshot isolation (lw_protect);
 * under LW_PLAIN none, and what is aborted stays.
 *
 * Threads. A pool may be used by all threads at once. A worker is used and
 * closed by the thread that has opened it; a thread that ends closes its workers,
 * and aborts what is open in them. One thread has one transaction at a time.
 * Other threads wait for what an open transaction has read and written: end it
 * soon, and wait for nothing in it. A transaction that conflicts often runs
 * alone in the end; lw_run guarantees it. Nothing here may be called by a signal
 * handler. In a child after fork calls return LW_EFORKED; do not fork in a transaction:
 * on mapped media an access of the child to it is SIGSEGV.
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

/* Status. lw_strerror has them in words. */
#define LW_OK 0
#define LW_CONFLICT -1       /* another transaction was in the way: abort, begin again */
#define LW_EINVAL -2         /* NULL, or a number that no argument can have */
#define LW_ECLOSED -3        /* a handle that was closed */
#define LW_ETHREAD -4        /* the worker is another thread's */
#define LW_ENESTED -5        /* not inside a transaction: this thread has one */
#define LW_EIDLE -6          /* the worker has no transaction: lw_begin first */
#define LW_EADDRESS -7       /* no such word in a live object of this pool */
#define LW_EFULL -8          /* the heap has no room: free something, or take a larger pool */
#define LW_ETOOLARGE -9      /* larger than ring or log hold: split it, or see lw_options */
#define LW_EREADONLY -10     /* a write in a transaction that only reads */
#define LW_EBUSY -11         /* a transaction is open; or another process has the pool open */
#define LW_EWORKERS -12      /* no more workers: close one, or take a larger log (not LW_PLAIN) */
#define LW_EHELDUP -13       /* a transaction that does not end keeps what this one needs */
#define LW_EEXIST -14        /* there is a pool of that name, or its log */
#define LW_ENOENT -15        /* there is no such file */
#define LW_EIO -16           /* the system refused a call; or it failed before: close, reopen */
#define LW_EDAMAGED -17      /* no pool, or damaged: restore it from a copy */
#define LW_EMISMATCH -18     /* another layout, format, medium or root than was asked for */
#define LW_ENOTDURABLE -19   /* the design keeps nothing */
#define LW_EUNKNOWN -20      /* an ID that the pool has not given out */
#define LW_EPANIC -21        /* a bug in Lastword; the handle is of no use any more */
#define LW_EFORKED -23       /* a forked child: the pool is its parent's; nothing was done */
#define LW_ENAME -22         /* a file of the pool was removed or replaced while it was open */

/* Designs: how atomic durability is reached (docs/designs). */
#define LW_DECOUPLED 0 /* Run in memory, persist in the background, reproduce later */
#define LW_SNAPSHOT 1  /* Run on copies of objects; snapshot isolation; readers never wait */
#define LW_UNDO 2      /* Run in place; old values are durable before words are overwritten */
#define LW_REDO 3      /* Run in a buffer; new values are durable before words are overwritten */
#define LW_VOLATILE 4  /* Transactional memory without durability */
#define LW_PLAIN 5     /* Bare memory, no isolation, one worker */

/* Media: what makes bytes durable. */
#define LW_MEDIUM_DEFAULT 0   /* a file; of a pool that is there, its own */
#define LW_FILE 1             /* any disk */
#define LW_DAX 2              /* persistent memory */
#define LW_PERSISTENT_CACHE 3 /* memory that is kept with its caches */
#define LW_EMULATED 4         /* memory with the delays of a device, to measure */

/* When a commit returns. */
#define LW_ASYNC 0 /* when it is visible */
#define LW_SYNC 1  /* when it is durable */

/* Flags of lw_begin and lw_run. */
#define LW_READ_ONLY 1u /* it sees one moment, and a write is LW_EREADONLY */

/* Blocks of an array: so many bytes each, and so far from each other. */
#define LW_BLOCK_BYTES 256u
#define LW_BLOCK_STRIDE 272u
/* Bytes of an object at most. */
#define LW_OBJECT_BYTES_MAX 1024u

typedef struct lw_pool lw_pool;
typedef struct lw_worker lw_worker;

/* Always filled by lw_options_default first, so that fields may be added. */
typedef struct lw_options {
    uint64_t size;           /* of this struct, as the program knows it */
    uint32_t design;         /* LW_DECOUPLED */
    uint32_t medium;         /* LW_MEDIUM_DEFAULT */
    uint32_t durability;     /* LW_ASYNC */
    uint32_t threads;        /* that bring words home; 1. 0: none, who waits does their work */
    uint64_t bytes;          /* of a new pool's heap; 64 MiB. All disk space is taken at once */
    uint64_t log_bytes;      /* of a new pool's log; 64 MiB. A quarter bounds one transaction */
    const char *layout;      /* of the program's data, at most 32 bytes; "". It and */
    uint64_t layout_version; /* 0; are equal whenever a pool is opened */
    char *message;           /* NULL, or where create and open put what went wrong, or "" */
    uint64_t message_bytes;  /* room there, with the 0 at the end */
    uint64_t ring_entries;   /* of 16 bytes, a worker; 2^20. 8 bytes each bound one transaction */
    uint64_t patience_ms;    /* before LW_EHELDUP; 10000 */
    uint64_t without_log;    /* 1: a pool closed cleanly gets a new log for one that is lost; 0 */
    uint64_t ownership_records; /* locks of the transactional memory; 0: by heap and cores */
} lw_options;

/* (major << 16 | minor << 8 | patch) of the library. */
uint32_t lw_version(void);
/* What a status means and what to do. Never NULL; valid for ever. */
const char *lw_strerror(int status);
/* Fills in the defaults. `size` is sizeof(lw_options). LW_EINVAL. */
int lw_options_default(lw_options *options, uint64_t size);

/* Makes a pool at `path` and opens it. Durable on return; after a crash before that
   there is none. `options` or NULL. LW_EEXIST, LW_ENOENT: no such directory, LW_EIO (no room on
   the disk, too), LW_EINVAL. */
int lw_pool_create(const char *path, const lw_options *options, lw_pool **pool);
/* Opens a pool, and recovers what a crash has left. Sizes are the pool's own. `options`
   or NULL. LW_ENOENT, LW_EBUSY, LW_EDAMAGED, LW_EMISMATCH, LW_ENOTDURABLE, LW_EIO, LW_EINVAL:
   nothing is changed then. */
int lw_pool_open(const char *path, const lw_options *options, lw_pool **pool);
/* Looks at a pool and writes nothing. `opens` or NULL: the status of lw_pool_open with these
   options, which may be NULL; their `message` says why. LW_EDAMAGED: there is damage, whether it
   opens or not. Else as lw_pool_open. Takes as much memory as the heap. */
int lw_pool_check(const char *path, const lw_options *options, int *opens);
/* Makes all durable, closes the workers that are left, and the pool; it is closed whatever the
   answer, but with LW_EBUSY: a transaction is open. No other call may be under way, nor a
   transaction of this thread. LW_EIO: as after a crash. LW_ENAME: closed cleanly; descriptors
   of its files stay open until the process ends, so that their content can be copied. */
int lw_pool_close(lw_pool *pool);
/* The pool's first object, from which all others are reached: at the first call it is made,
   of `bytes` zeros, 1 to 1024. LW_EMISMATCH: it has fewer. A transaction of its own, in a worker of
   its own: as lw_worker_open and lw_run. */
int lw_pool_root(lw_pool *pool, uint64_t bytes, uint64_t *object);
/* The largest ID that is durable with all before it. Costs a load. */
int lw_pool_durable(lw_pool *pool, uint64_t *id);
/* Waits until `id` is durable; the waiter helps. LW_ENESTED, LW_EUNKNOWN, LW_ENOTDURABLE, LW_EIO,
   LW_ENAME: durable in a file that is freed when it is closed; looked for now and then. */
int lw_pool_wait(lw_pool *pool, uint64_t id);
/* Waits until all that is committed is durable. As lw_pool_wait; LW_ENAME is always looked for. */
int lw_pool_flush(lw_pool *pool);
/* Calls `told` once, when `id` is durable (LW_OK) or can never be known to be: at once, or later in
   the thread that made it so, which may be this one; while a transaction of that thread is open,
   when it has ended. It must be short and call nothing of this library. It is not called where this
   answers an error. LW_EUNKNOWN, LW_ENOTDURABLE. */
int lw_pool_on_durable(lw_pool *pool, uint64_t id, void (*told)(void *argument, int status),
                       void *argument);

/* A thread's handle. LW_EWORKERS. */
int lw_worker_open(lw_pool *pool, lw_worker **worker);
/* Aborts what is open in it. What it has committed stays. LW_ENESTED: a body runs. LW_EIO: it is
   closed, and what was read cannot be made durable (LW_SYNC). */
int lw_worker_close(lw_worker *worker);

/* Runs `body` as one transaction: commits when it returns 0, and runs it again on
   LW_CONFLICT. Whatever else it returns aborts, and is returned; what that rests on is durable when
   lw_pool_flush returns. It may run several times, so it should change nothing but the pool, and
   leave neither by longjmp nor by an exception. `id` or NULL. LW_ENESTED, LW_EHELDUP, LW_EIO (with
   LW_SYNC it may be committed all the same). */
int lw_run(lw_worker *worker, uint32_t flags, int (*body)(lw_worker *worker, void *argument),
           void *argument, uint64_t *id);

/* The same in parts. Every begin that answers LW_OK needs its lw_commit with LW_OK, or lw_abort.
   LW_ENESTED, LW_EHELDUP, LW_EIO. */
int lw_begin(lw_worker *worker, uint32_t flags);
/* `id` or NULL. With anything but LW_OK lw_abort is still due. LW_EIO: it may be committed, and
   could not be made durable. */
int lw_commit(lw_worker *worker, uint64_t *id);
/* Takes the transaction back. LW_EIDLE when there is none. LW_EIO: it is taken back, and what was
   read cannot be made durable (LW_SYNC). */
int lw_abort(lw_worker *worker);

/* A word: `offset` is a multiple of 8. A read of what is no live object answers anything or
   LW_EADDRESS, and a write LW_EADDRESS. LW_CONFLICT, LW_ETOOLARGE, LW_EREADONLY. */
int lw_read(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t *value);
int lw_write(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t value);
/* Any bytes of one object or block. */
int lw_read_bytes(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t bytes, void *out);
int lw_write_bytes(lw_worker *worker, uint64_t object, uint64_t offset, uint64_t bytes,
                   const void *from);

/* A new object of `bytes` with this content, or zeros for NULL. LW_EFULL, LW_EINVAL. */
int lw_alloc(lw_worker *worker, uint64_t bytes, const void *content, uint64_t *object);
/* Frees an object of so many `bytes`, but not the root; or an array: all its blocks,
   LW_BLOCK_BYTES each. LW_EADDRESS: it is none. */
int lw_free(lw_worker *worker, uint64_t object, uint64_t bytes);
/* Under LW_SNAPSHOT: nobody else writes the object until this transaction ends. For what a
   decision rests on and is not written, in transactions that write. Other designs do nothing. */
int lw_protect(lw_worker *worker, uint64_t object);

/* An array: room for `blocks` of LW_BLOCK_BYTES, at fixed distances. Store `first` in
   the same transaction. LW_EFULL. */
int lw_array_reserve(lw_worker *worker, uint64_t blocks, uint64_t *first);
/* Makes up to `most` further blocks of it ready, zeros at first: 1000 or so in one transaction.
   `left`: blocks that are not ready. May be repeated after a crash. LW_ETOOLARGE, LW_EADDRESS. */
int lw_array_prepare(lw_worker *worker, uint64_t first, uint64_t most, uint64_t *left);
/* The block in which byte `at` of an array is; there it is at offset `at` % LW_BLOCK_BYTES. */
static inline uint64_t lw_array_block(uint64_t first, uint64_t at) {
    return first + at / LW_BLOCK_BYTES * LW_BLOCK_STRIDE;
}

#ifdef __cplusplus
}
#endif

#endif
