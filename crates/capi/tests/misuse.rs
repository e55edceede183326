//! Tests that misuse of the C functions returns the right status and loses no data.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;

use lastword::DesignInfo;
use lastword_c::objects::*;
use lastword_c::options::{lw_options, lw_options_default};
use lastword_c::pool::*;
use lastword_c::status;
use lastword_c::worker::*;
use lastword_c::{lw_strerror, lw_version};

struct Setup {
    dir: tempfile::TempDir,
    pool: *mut lw_pool,
    worker: *mut lw_worker,
    object: u64,
}

// SAFETY: all threads may use the handles, and calls check the owner.
unsafe impl Sync for Setup {}

fn options(design: u32) -> lw_options {
    // SAFETY: any bytes are values of its fields.
    let mut options: lw_options = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { lw_options_default(&mut options, size_of::<lw_options>() as u64) }, 0);
    (options.design, options.bytes, options.log_bytes) = (design, 1 << 20, 1 << 20);
    options
}

fn path(dir: &tempfile::TempDir, name: &str) -> CString {
    CString::new(dir.path().join(name).to_str().unwrap()).unwrap()
}

impl Setup {
    fn new(design: u32) -> Setup {
        let dir = tempfile::tempdir().unwrap();
        let (mut pool, mut worker, mut object) = (ptr::null_mut(), ptr::null_mut(), 0);
        // SAFETY: all pointers and handles are valid.
        unsafe {
            let path = path(&dir, "pool");
            assert_eq!(lw_pool_create(path.as_ptr(), &options(design), &mut pool), 0);
            assert_eq!(lw_pool_root(pool, 64, &mut object), 0);
            assert_eq!(lw_worker_open(pool, &mut worker), 0);
        }
        Setup { dir, pool, worker, object }
    }

    /// Runs a call in another thread.
    fn elsewhere(&self, call: impl FnOnce(&Setup) -> c_int + Send) -> c_int {
        std::thread::scope(|scope| scope.spawn(|| call(self)).join().unwrap())
    }

    fn word(&self, offset: u64) -> u64 {
        let mut word = 0;
        // SAFETY: all pointers and handles are valid.
        unsafe {
            assert_eq!(lw_begin(self.worker, READ_ONLY), 0);
            assert_eq!(lw_read(self.worker, self.object, offset, &mut word), 0);
            assert_eq!(lw_commit(self.worker, ptr::null_mut()), 0);
        }
        word
    }

    fn close(self) {
        // SAFETY: both handles are valid.
        unsafe {
            assert_eq!(lw_worker_close(self.worker), 0);
            assert_eq!(lw_pool_close(self.pool), 0);
        }
    }
}

/// The numbers of all designs, and whether each is durable.
fn designs() -> impl Iterator<Item = (u32, bool)> {
    DesignInfo::ALL.iter().filter_map(|design| Some((design.number?, design.is_durable)))
}

#[test]
fn written_words_and_bytes_are_read() {
    for (design, is_durable) in designs() {
        let setup = Setup::new(design);
        let Setup { worker, object, pool, .. } = setup;
        let (mut id, mut durable, mut out) = (0, 0, [0_u8; 21]);
        let text = b"abcdefghijklmnopqrstu";
        // SAFETY: all pointers and handles are valid.
        unsafe {
            assert_eq!(lw_begin(worker, 0), 0);
            assert_eq!(lw_write(worker, object, 0, 7), 0);
            assert_eq!(lw_write_bytes(worker, object, 13, 21, text.as_ptr().cast()), 0);
            assert_eq!(lw_write_bytes(worker, object, 50, 3, text.as_ptr().cast()), 0);
            assert_eq!(lw_commit(worker, &mut id), 0);
            assert_eq!(lw_begin(worker, READ_ONLY), 0);
            assert_eq!(lw_read_bytes(worker, object, 13, 21, out.as_mut_ptr().cast()), 0);
            assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
            assert_eq!(&out, text);
            assert_eq!(setup.word(0), 7);
            // The bytes beside the written ones are unchanged.
            assert_eq!(setup.word(8), u64::from_ne_bytes(*b"\0\0\0\0\0abc"));
            assert_eq!(setup.word(32), u64::from_ne_bytes(*b"tu\0\0\0\0\0\0"));
            assert_eq!(setup.word(48), u64::from_ne_bytes(*b"\0\0abc\0\0\0"));
            let waited = lw_pool_wait(pool, id);
            assert_eq!(waited, if is_durable { 0 } else { status::NOT_DURABLE }, "design {design}");
            assert_eq!(lw_pool_durable(pool, &mut durable), 0);
            assert_eq!(durable >= id, is_durable, "design {design}: {durable} of {id}");
        }
        setup.close();
    }
}

#[test]
fn backup_is_pool_with_last_commit() {
    for (design, durable) in designs() {
        let setup = Setup::new(design);
        let Setup { pool, worker, object, .. } = setup;
        let (copy, mut opened) = (path(&setup.dir, "copy"), ptr::null_mut());
        let (mut committed, mut copied) = (0, 0);
        // SAFETY: all pointers and handles are valid.
        unsafe {
            assert_eq!(lw_begin(worker, 0), 0);
            assert_eq!(lw_write(worker, object, 8, 77), 0);
            assert_eq!(lw_commit(worker, &mut committed), 0);
            assert_eq!(lw_pool_backup(pool, ptr::null(), &mut copied), status::INVALID);
            let status = lw_pool_backup(pool, copy.as_ptr(), &mut copied);
            if !durable {
                assert_eq!(status, status::NOT_DURABLE, "design {design}");
            } else {
                assert_eq!(status, 0, "design {design}");
                assert!(copied >= committed);
                let again = lw_pool_backup(pool, copy.as_ptr(), ptr::null_mut());
                assert_eq!(again, status::EXISTS);
                assert_eq!(lw_pool_open(copy.as_ptr(), &options(design), &mut opened), 0);
                let (mut worker, mut value) = (ptr::null_mut(), 0);
                assert_eq!(lw_worker_open(opened, &mut worker), 0);
                // Addresses of objects are the same in the copy.
                assert_eq!(lw_begin(worker, READ_ONLY), 0);
                assert_eq!(lw_read(worker, object, 8, &mut value), 0);
                assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
                assert_eq!(value, 77);
                assert_eq!(lw_worker_close(worker), 0);
                assert_eq!(lw_pool_close(opened), 0);
            }
        }
        setup.close();
    }
}

#[test]
fn closed_handles_return_closed() {
    let setup = Setup::new(0);
    let Setup { pool, worker, object, .. } = setup;
    let (mut word, mut handle) = (0, ptr::null_mut());
    // SAFETY: the handles come from the library, and all pointers are valid.
    unsafe {
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(lw_pool_close(pool), status::BUSY);
        assert_eq!(lw_abort(worker), 0);
        assert_eq!(lw_worker_open(pool, &mut handle), 0);
        assert_eq!(lw_worker_close(worker), 0);
        for found in [
            lw_worker_close(worker),
            lw_begin(worker, 0),
            lw_read(worker, object, 0, &mut word),
            lw_write(worker, object, 0, 1),
            lw_commit(worker, &mut word),
            lw_abort(worker),
            lw_run(worker, 0, Some(adds), ptr::null_mut(), ptr::null_mut()),
        ] {
            assert_eq!(found, status::CLOSED);
        }
        assert_eq!(lw_pool_close(pool), 0);
        assert_eq!(lw_begin(handle, 0), status::CLOSED, "closing the pool closes its workers");
        for found in [
            lw_pool_close(pool),
            lw_pool_flush(pool),
            lw_pool_wait(pool, 1),
            lw_pool_durable(pool, &mut word),
            lw_pool_root(pool, 8, &mut word),
            lw_worker_open(pool, &mut handle),
        ] {
            assert_eq!(found, status::CLOSED);
        }
    }
}

#[test]
fn transaction_belongs_to_one_thread() {
    let setup = Setup::new(0);
    let Setup { pool, worker, object, .. } = setup;
    let mut other = ptr::null_mut();
    // SAFETY: all pointers and handles are valid.
    unsafe {
        assert_eq!(lw_worker_open(pool, &mut other), 0);
        assert_eq!(lw_write(worker, object, 0, 1), status::IDLE);
        assert_eq!(lw_commit(worker, ptr::null_mut()), status::IDLE);
        assert_eq!(lw_abort(worker), status::IDLE);
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(lw_begin(worker, 0), status::NESTED);
        assert_eq!(lw_begin(other, 0), status::NESTED);
        assert_eq!(lw_pool_wait(pool, 0), status::NESTED);
        assert_eq!(lw_pool_flush(pool), status::NESTED);
        assert_eq!(lw_pool_root(pool, 8, &mut 0), status::NESTED);
        let wrong = [
            setup.elsewhere(|it| lw_write(it.worker, it.object, 0, 9)),
            setup.elsewhere(|it| lw_begin(it.worker, 0)),
            setup.elsewhere(|it| lw_commit(it.worker, ptr::null_mut())),
            setup.elsewhere(|it| lw_abort(it.worker)),
            setup.elsewhere(|it| lw_worker_close(it.worker)),
        ];
        assert_eq!(wrong, [status::OTHER_THREAD; 5]);
        assert_eq!(lw_write(worker, object, 0, 1), 0);
        assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
        assert_eq!(setup.elsewhere(|it| lw_begin(it.worker, 0)), status::OTHER_THREAD);
        assert_eq!(setup.word(0), 1);
        // Closing a worker rolls its open transaction back.
        assert_eq!(lw_begin(other, 0), 0);
        assert_eq!(lw_write(other, object, 0, 2), 0);
        assert_eq!(lw_worker_close(other), 0);
        assert_eq!(setup.word(0), 1);
    }
    setup.close();
}

#[test]
fn thread_that_ends_aborts_and_closes_its_workers() {
    for (design, _) in designs() {
        let setup = Setup::new(design);
        let Setup { pool, worker, object, .. } = setup;
        // Numbers become free again, since no design has as many workers as these threads.
        // SAFETY: the handle is valid.
        assert_eq!(unsafe { lw_worker_close(worker) }, 0);
        let mut last = 0;
        for _ in 0..70 {
            let left = setup.elsewhere(|it| {
                let mut theirs = ptr::null_mut();
                // SAFETY: all pointers and handles are valid.
                unsafe {
                    assert_eq!(lw_worker_open(it.pool, &mut theirs), 0, "design {design}");
                    assert_eq!(lw_begin(theirs, 0), 0);
                    assert_eq!(lw_write(theirs, it.object, 0, 999), 0);
                }
                last = theirs as usize;
                0
            });
            assert_eq!(left, 0);
        }
        let (left, mut own, mut word) = (last as *mut lw_worker, ptr::null_mut(), 0);
        // SAFETY: the handles come from the library, and all pointers are valid.
        unsafe {
            assert_eq!(lw_worker_close(left), status::CLOSED);
            assert_eq!(lw_worker_open(pool, &mut own), 0);
            assert_eq!(lw_begin(own, 0), 0);
            assert_eq!(lw_read(own, object, 0, &mut word), 0);
            // `plain` rolls nothing back.
            assert_eq!(word, if design == 5 { 999 } else { 0 }, "design {design}");
            assert_eq!(lw_write(own, object, 0, word + 1), 0);
            assert_eq!(lw_commit(own, ptr::null_mut()), 0);
            assert_eq!(lw_pool_close(pool), 0, "no transaction is open");
        }
    }
}

#[test]
fn wild_address_fails_the_transaction() {
    let setup = Setup::new(0);
    let Setup { worker, object, .. } = setup;
    let mut word = 0;
    for (object, offset) in
        [(0, 0), (object + 4, 0), (object, 4), (object, 1 << 30), (object ^ 1 << 60, 0), (!0, !7)]
    {
        // SAFETY: all pointers and handles are valid.
        unsafe {
            assert_eq!(lw_begin(worker, 0), 0);
            assert_eq!(lw_write(worker, setup.object, 8, 5), 0);
            assert_eq!(lw_write(worker, object, offset, 5), status::ADDRESS);
            // Every later call in it returns the same status.
            assert_eq!(lw_read(worker, setup.object, 8, &mut word), status::ADDRESS);
            assert_eq!(lw_alloc(worker, 8, ptr::null(), &mut word), status::ADDRESS);
            assert_eq!(lw_commit(worker, ptr::null_mut()), status::ADDRESS);
            assert_eq!(lw_write(worker, setup.object, 8, 5), status::ADDRESS);
            assert_eq!(lw_begin(worker, 0), status::NESTED, "lw_abort is due first");
            assert_eq!(lw_abort(worker), 0);
            assert_eq!(lw_abort(worker), status::IDLE);
        }
        assert_eq!(setup.word(8), 0);
    }
    // SAFETY: all pointers and handles are valid.
    unsafe {
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(lw_alloc(worker, 24, ptr::null(), &mut word), 0);
        assert_eq!(lw_free(worker, word, 24), 0);
        assert_eq!(lw_free(worker, word, 24), status::ADDRESS, "freed twice");
        assert_eq!(lw_abort(worker), 0);
        assert_eq!(lw_begin(worker, READ_ONLY), 0);
        assert_eq!(lw_write(worker, object, 0, 5), status::READ_ONLY);
        assert_eq!(lw_abort(worker), 0);
    }
    setup.close();
}

#[test]
fn invalid_arguments_are_rejected() {
    let setup = Setup::new(0);
    let Setup { pool, worker, object, .. } = setup;
    let path = path(&setup.dir, "another");
    let (mut word, mut made) = (0, ptr::null_mut());
    let bad = |change: fn(&mut lw_options)| {
        let mut options = options(0);
        change(&mut options);
        options
    };
    // SAFETY: all pointers that are not NULL are valid.
    unsafe {
        for options in [
            bad(|it| it.size = 4),
            bad(|it| it.size = 1 << 20),
            bad(|it| it.design = 6),
            bad(|it| it.medium = 5),
            bad(|it| it.durability = 2),
            bad(|it| it.bytes = 1 << 60),
            bad(|it| it.size = 60),
        ] {
            assert_eq!(lw_pool_create(path.as_ptr(), &options, &mut made), status::INVALID);
        }
        assert_eq!(lw_pool_create(ptr::null(), ptr::null(), &mut made), status::INVALID);
        assert_eq!(lw_pool_open(path.as_ptr(), ptr::null(), ptr::null_mut()), status::INVALID);
        assert_eq!(lw_pool_open(path.as_ptr(), ptr::null(), &mut made), status::MISSING);
        assert_eq!(lw_options_default(ptr::null_mut(), 80), status::INVALID);
        assert_eq!(lw_worker_open(pool, ptr::null_mut()), status::INVALID);
        assert_eq!(lw_worker_open(ptr::null_mut(), ptr::null_mut()), status::INVALID);
        assert_eq!(lw_begin(ptr::null_mut(), 0), status::INVALID);
        assert_eq!(lw_begin(worker, 2), status::INVALID);
        assert_eq!(lw_run(worker, 0, None, ptr::null_mut(), &mut word), status::INVALID);
        assert_eq!(lw_pool_root(pool, 0, &mut word), status::INVALID);
        assert_eq!(lw_pool_root(pool, 1025, &mut word), status::INVALID);
        assert_eq!(lw_pool_root(pool, 1000, &mut word), status::MISMATCH, "the root has 64 bytes");
        assert_eq!(lw_pool_root(pool, 64, &mut word), 0);
        assert_eq!(word, object);
        assert_eq!(lw_pool_wait(pool, 1 << 40), status::UNKNOWN);
        assert_eq!(
            lw_pool_on_durable(pool, 1 << 40, Some(ignores), ptr::null_mut()),
            status::UNKNOWN
        );
        assert_eq!(lw_pool_on_durable(pool, 1, None, ptr::null_mut()), status::INVALID);
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(lw_read(worker, object, 0, ptr::null_mut()), status::INVALID);
        assert_eq!(lw_alloc(worker, 0, ptr::null(), &mut word), status::INVALID);
        assert_eq!(lw_alloc(worker, 1025, ptr::null(), &mut word), status::INVALID);
        assert_eq!(
            lw_read_bytes(worker, object, 0, 1 << 40, (&raw mut word).cast()),
            status::INVALID
        );
        // Calls with invalid arguments do not reach the transaction, which stays open.
        assert_eq!(lw_write(worker, object, 0, 3), 0);
        assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
    }
    assert_eq!(setup.word(0), 3);
    setup.close();
}

extern "C" fn ignores(_: *mut c_void, _: c_int) {}

extern "C" fn adds(worker: *mut lw_worker, object: *mut c_void) -> c_int {
    let (object, mut word) = (object as u64, 0);
    // SAFETY: all pointers and handles are valid.
    unsafe {
        match lw_read(worker, object, 0, &mut word) {
            0 => lw_write(worker, object, 0, word + 1),
            wrong => wrong,
        }
    }
}

extern "C" fn is_stubborn(worker: *mut lw_worker, object: *mut c_void) -> c_int {
    // SAFETY: all pointers and handles are valid.
    unsafe {
        let _ = lw_write(worker, object as u64, 0, 99);
        let nested = [
            lw_begin(worker, 0),
            lw_commit(worker, ptr::null_mut()),
            lw_abort(worker),
            lw_worker_close(worker),
            lw_run(worker, 0, Some(adds), object, ptr::null_mut()),
        ];
        assert_eq!(nested, [status::NESTED; 5]);
    }
    42
}

extern "C" fn swallows(worker: *mut lw_worker, _: *mut c_void) -> c_int {
    // SAFETY: all pointers and handles are valid.
    assert_eq!(unsafe { lw_write(worker, 16, 0, 1) }, status::ADDRESS);
    0
}

#[test]
fn body_is_atomic() {
    let rolls_back = DesignInfo::ALL.iter().filter(|design| design.rolls_back);
    for design in rolls_back.filter_map(|design| design.number) {
        let setup = Setup::new(design);
        let Setup { worker, object, .. } = setup;
        let argument = object as *mut c_void;
        // SAFETY: all pointers and handles are valid.
        unsafe {
            let mut id = 0;
            assert_eq!(lw_run(worker, 0, Some(adds), argument, &mut id), 0);
            assert_eq!(lw_run(worker, 0, Some(is_stubborn), argument, &mut id), 42);
            assert_eq!(lw_run(worker, 0, Some(swallows), argument, &mut id), status::ADDRESS);
            assert_eq!(lw_run(worker, READ_ONLY, Some(adds), argument, &mut id), status::READ_ONLY);
            assert_eq!(lw_run(worker, 0, Some(adds), argument, &mut id), 0);
        }
        assert_eq!(setup.word(0), 2, "design {design}");
        setup.close();
    }
}

/// Two threads add to one word, with `lw_run` and with `lw_begin`.
#[test]
fn conflicts_lose_no_update() {
    const EACH: u64 = 2000;
    for (design, _) in designs().filter(|(_, is_durable)| *is_durable) {
        let setup = Setup::new(design);
        let mut conflicts = 0;
        let object = setup.object;
        std::thread::scope(|scope| {
            let setup = &setup;
            scope.spawn(move || {
                let mut worker = ptr::null_mut();
                // SAFETY: all pointers and handles are valid.
                unsafe {
                    assert_eq!(lw_worker_open(setup.pool, &mut worker), 0);
                    for _ in 0..EACH {
                        let object = setup.object as *mut c_void;
                        assert_eq!(lw_run(worker, 0, Some(adds), object, ptr::null_mut()), 0);
                    }
                    assert_eq!(lw_worker_close(worker), 0);
                }
            });
            let worker = setup.worker;
            let mut done = 0;
            while done < EACH {
                // SAFETY: all pointers and handles are valid.
                let status = unsafe {
                    assert_eq!(lw_begin(worker, 0), 0);
                    match adds(worker, object as *mut c_void) {
                        0 => lw_commit(worker, ptr::null_mut()),
                        wrong => wrong,
                    }
                };
                match status {
                    0 => done += 1,
                    _ => {
                        assert_eq!(status, status::CONFLICT);
                        conflicts += 1;
                        // SAFETY: the handle is valid.
                        assert_eq!(unsafe { lw_abort(worker) }, 0);
                    }
                }
            }
        });
        println!("design {design}: {conflicts} conflicts");
        assert_eq!(setup.word(0), 2 * EACH, "design {design}");
        setup.close();
    }
}

#[test]
fn message_describes_the_error() {
    let setup = Setup::new(0);
    let mut message = [1_u8; 60];
    let mut options = options(0);
    (options.message, options.message_bytes) = (message.as_mut_ptr().cast(), 60);
    let mut made = ptr::null_mut();
    // SAFETY: all pointers and handles are valid.
    unsafe {
        let path = path(&setup.dir, "pool");
        assert_eq!(lw_pool_open(path.as_ptr(), &options, &mut made), status::BUSY);
        let text = CStr::from_bytes_until_nul(&message).unwrap().to_str().unwrap();
        assert!(text.contains(setup.dir.path().to_str().unwrap()), "{text}");
        assert_eq!(text.len(), 59, "the message is cut to the buffer");
        let text = CStr::from_ptr(lw_strerror(status::BUSY)).to_str().unwrap();
        assert!(text.contains("close"), "{text}");
    }
    // An unknown medium also has a message.
    (options.design, options.medium) = (0, 9);
    // SAFETY: all pointers and handles are valid.
    unsafe {
        let path = path(&setup.dir, "new");
        assert_eq!(lw_pool_create(path.as_ptr(), &options, &mut made), status::INVALID);
        let text = CStr::from_bytes_until_nul(&message).unwrap().to_str().unwrap();
        assert!(text.contains("medium"), "{text}");
        // Programs of a later and of an earlier version have a longer and a shorter struct.
        let mut longer = [0_u8; 200];
        let known = size_of::<lw_options>();
        assert_eq!(lw_options_default(longer.as_mut_ptr().cast(), 200), 0);
        assert_eq!(lw_pool_create(path.as_ptr(), longer.as_ptr().cast(), &mut made), 0);
        assert_eq!(lw_pool_close(made), 0);
        longer[known] = 1;
        let refused = lw_pool_open(path.as_ptr(), longer.as_ptr().cast(), &mut made);
        assert_eq!(refused, status::INVALID, "the library does not know the field");
        let mut shorter = [0xff_u8; 200];
        let size = std::mem::offset_of!(lw_options, layout);
        assert_eq!(lw_options_default(shorter.as_mut_ptr().cast(), size as u64), 0);
        assert_eq!(lw_pool_open(path.as_ptr(), shorter.as_ptr().cast(), &mut made), 0);
        assert_eq!(lw_pool_close(made), 0);
    }
    assert_eq!(lw_version(), 0x0000_0100);
    setup.close();
}

/// Size of a message buffer.
const MESSAGE: usize = 1000;

#[test]
fn transaction_larger_than_ring_fits_a_larger_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = path(&dir, "pool");
    let mut options = options(0);
    options.ring_entries = 1 << 10;
    let (mut pool, mut worker, mut first) = (ptr::null_mut(), ptr::null_mut(), 0);
    let blocks = 64;
    // Writes all words of an array, and returns the last failed status.
    let write = |worker, first| {
        let place = |at: u64| (first + at / 256 * 272, at % 256);
        // SAFETY: the worker is valid.
        let mut statuses = (0..blocks * 32).map(|word| {
            let (object, offset) = place(8 * word);
            // SAFETY: the worker is valid.
            unsafe { lw_write(worker, object, offset, word) }
        });
        statuses.rfind(|status| *status != 0).unwrap_or(0)
    };
    // SAFETY: all pointers and handles are valid.
    unsafe {
        assert_eq!(lw_pool_create(path.as_ptr(), &options, &mut pool), 0);
        assert_eq!(lw_worker_open(pool, &mut worker), 0);
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(lw_array_reserve(worker, blocks, &mut first), 0);
        assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
        let mut left = 1;
        while left > 0 {
            assert_eq!(lw_begin(worker, 0), 0);
            assert_eq!(lw_array_prepare(worker, first, 8, &mut left), 0);
            assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
        }
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(write(worker, first), status::TOO_LARGE);
        assert_eq!(lw_abort(worker), 0);
        assert_eq!(lw_pool_close(pool), 0);
        let text = CStr::from_ptr(lw_strerror(status::TOO_LARGE)).to_str().unwrap();
        assert!(text.contains("options.ring_entries") && text.contains("options.log_bytes"));
        options.ring_entries = 1 << 14;
        assert_eq!(lw_pool_open(path.as_ptr(), &options, &mut pool), 0);
        assert_eq!(lw_worker_open(pool, &mut worker), 0);
        assert_eq!(lw_begin(worker, 0), 0);
        assert_eq!(write(worker, first), 0);
        assert_eq!(lw_commit(worker, ptr::null_mut()), 0);
        assert_eq!(lw_pool_close(pool), 0);
    }
}

#[test]
fn check_returns_status_of_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = path(&dir, "pool");
    let mut message = [0; MESSAGE];
    let mut options = options(0);
    (options.message, options.message_bytes) = (message.as_mut_ptr(), MESSAGE as u64);
    let (mut pool, mut opens) = (ptr::null_mut(), 1);
    // SAFETY: all pointers and handles are valid.
    let text = || unsafe { CStr::from_ptr(options.message) }.to_str().unwrap().to_owned();
    // SAFETY: all pointers and handles are valid.
    unsafe {
        assert_eq!(lw_pool_check(path.as_ptr(), &options, &mut opens), status::MISSING);
        assert_eq!(lw_pool_create(path.as_ptr(), &options, &mut pool), 0);
        let sound = lw_pool_check(path.as_ptr(), &options, &mut opens);
        assert_eq!((sound, opens, lw_pool_close(pool)), (0, status::BUSY, 0));
        assert_eq!(lw_pool_check(path.as_ptr(), &options, &mut opens), 0);
        assert_eq!((opens, text().as_str()), (0, ""));
        assert_eq!(lw_pool_check(ptr::null(), &options, &mut opens), status::INVALID);
        let other = lw_options { layout: c"shop".as_ptr(), ..options };
        assert_eq!(lw_pool_check(path.as_ptr(), &other, &mut opens), status::MISMATCH);
        assert_eq!(lw_pool_open(path.as_ptr(), &other, &mut pool), opens);
        // A pool that lost its log opens only on request.
        std::fs::remove_file(dir.path().join("pool.log")).unwrap();
        assert_eq!(lw_pool_check(path.as_ptr(), &options, &mut opens), status::DAMAGED);
        assert_eq!(opens, status::DAMAGED);
        assert!(text().contains("`without_log`"), "{}", text());
        assert_eq!(lw_pool_open(path.as_ptr(), &options, &mut pool), opens);
        let without = lw_options { without_log: 1, ..options };
        assert_eq!(lw_pool_check(path.as_ptr(), &without, &mut opens), status::DAMAGED);
        assert_eq!(opens, 0);
        assert_eq!(lw_pool_open(path.as_ptr(), &without, &mut pool), 0);
        assert_eq!(lw_pool_close(pool), 0);
        assert_eq!(lw_pool_check(path.as_ptr(), &options, ptr::null_mut()), 0);
    }
}
