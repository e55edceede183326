//! The instructions and system calls that a thread executes: tests compare them with the bytes that
//! must be durable.
//!
//! The crash explorer replaces the kernel and the processor, so it cannot notice that a call to
//! them lacks a flag or that a line is never written back. Here the real ones run:
//!
//! - [`instructions`]: the processor's trap flag raises SIGTRAP before each instruction, and the
//!   handler decodes those that matter for durability, with their addresses. x86-64 alone.
//! - [`calls`]: a seccomp filter stops a thread at each call on files, and another thread records
//!   the call and lets it continue. Linux 5.5.
//!
//! Alternatives that were rejected: `strace` sees no instructions, is another program to install,
//! and needs `ptrace`, which many containers forbid. `objdump` shows that an instruction is in the
//! program, not that a commit executes it. A FUSE file system that drops unsynced data needs root
//! and a kernel module, and no file system loses a cache line.
//!
//! Only builds with the feature `mutants` have this module.

use std::path::PathBuf;

/// An instruction that matters for durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Writes the line at this address back.
    WriteBack(usize),
    /// Stores a word past the cache, at this address.
    Stream(usize),
    /// A store fence.
    Fence,
}

/// A system call that writes, syncs or names a file, or gives advice about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number, such as `SYS_fdatasync`.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The file that it changes or syncs, by its descriptor.
    pub file: Option<PathBuf>,
}

/// Runs `run`, and returns its result with the thread's instructions; `None` where the processor is
/// another one, and then nothing runs. An instruction takes a microsecond. `run` starts no thread
/// and blocks no signal: a blocked SIGTRAP ends the process.
///
/// # Panics
/// When the handler of SIGTRAP cannot be installed, or there are too many instructions.
pub fn instructions<R>(run: impl FnOnce() -> R) -> Option<(R, Vec<Instruction>)> {
    #[cfg(target_arch = "x86_64")]
    return Some(trap::observe(run));
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = run;
        None
    }
}

/// Runs `run` in a thread of its own, and returns its result with its calls; `None` where the
/// system permits no such filter, and then nothing runs.
///
/// # Panics
/// When `run` does, or the system breaks its own rules.
pub fn calls<R: Send>(run: impl FnOnce() -> R + Send) -> Option<(R, Vec<Call>)> {
    filter::observe(run)
}

/// The flags of the write that the back end `file` submits to io_uring for a group. A queue is
/// memory shared with the kernel, so no call shows them.
pub fn queued_write_flags() -> u32 {
    crate::file::queued_write_flags()
}

#[cfg(target_arch = "x86_64")]
mod trap {
    use std::arch::asm;
    use std::cell::Cell;
    use std::ptr;
    use std::sync::OnceLock;

    use super::Instruction;

    const TRAP_FLAG: i64 = 0x100;
    /// Instructions for which there is memory: the handler must not allocate at most instructions.
    const STEPS_MAX: usize = 1 << 16;
    /// Saved registers in the order of their numbers in instructions.
    const NUMBERED: [i32; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    thread_local!(static STEPS: Cell<*mut Vec<Instruction>> = const { Cell::new(ptr::null_mut()) });

    pub(super) fn observe<R>(run: impl FnOnce() -> R) -> (R, Vec<Instruction>) {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        assert!(*INSTALLED.get_or_init(install), "SIGTRAP can be handled");
        let mut steps = Vec::with_capacity(STEPS_MAX);
        STEPS.set(&raw mut steps);
        let ends = EndOnDrop;
        // SAFETY: the handler is installed, and changes nothing but `steps`.
        unsafe {
            asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        }
        let result = run();
        drop(ends);
        assert!(steps.len() < STEPS_MAX, "there is memory for every step");
        (result, steps)
    }

    /// Ends the observation, also when it unwinds.
    struct EndOnDrop;

    impl Drop for EndOnDrop {
        fn drop(&mut self) {
            // SAFETY: clears the trap flag.
            unsafe {
                asm!("pushfq", "and qword ptr [rsp], -257", "popfq");
            }
            STEPS.set(ptr::null_mut());
        }
    }

    fn install() -> bool {
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_trap;
        // SAFETY: all zeros are a valid `sigaction`, whose fields follow.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for.
        unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()) == 0 }
    }

    extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's context.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        let registers = &mut context.uc_mcontext.gregs;
        let steps = STEPS.get();
        if steps.is_null() {
            // Of a thread that is no longer observed.
            registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
            return;
        }
        let at = registers[libc::REG_RIP as usize] as usize;
        if let Some(step) = next_step(at, registers) {
            // SAFETY: `observe` of this thread has the vector, and does not touch it meanwhile.
            let steps = unsafe { &mut *steps };
            if steps.len() < STEPS_MAX {
                steps.push(step);
            }
        }
    }

    /// Bytes of an instruction.
    struct Code(*const u8);

    impl Code {
        fn next(&mut self) -> u8 {
            // SAFETY: the bytes of the instruction that the thread executes next, up to the length
            // that its own bytes give.
            let byte = unsafe { self.0.read() };
            self.0 = self.0.wrapping_add(1);
            byte
        }

        fn offset(&mut self, bytes: u32) -> i64 {
            let value = (0..bytes).fold(0, |value, at| value | i64::from(self.next()) << (8 * at));
            let unused = 64 - 8 * bytes;
            if bytes == 0 { 0 } else { value << unused >> unused }
        }
    }

    /// Decodes the instruction at `at`.
    fn next_step(at: usize, registers: &[i64; 23]) -> Option<Instruction> {
        let mut code = Code(at as *const u8);
        let (mut byte, mut is_wide, mut rex) = (code.next(), false, 0);
        while matches!(byte, 0x66 | 0x3e) {
            is_wide |= byte == 0x66;
            byte = code.next();
        }
        if byte & 0xf0 == 0x40 {
            rex = byte;
            byte = code.next();
        }
        if byte != 0x0f {
            return None;
        }
        match code.next() {
            0xc3 => {
                let mode = code.next();
                Some(Instruction::Stream(address(&mut code, mode, rex, registers)))
            }
            0xae => {
                let mode = code.next();
                match (mode >> 6, mode >> 3 & 7, is_wide) {
                    (3, 7, _) => Some(Instruction::Fence),
                    // CLWB and CLFLUSHOPT; CLFLUSH.
                    (0..=2, 6 | 7, true) | (0..=2, 7, false) => {
                        Some(Instruction::WriteBack(address(&mut code, mode, rex, registers)))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the address of an instruction's operand in memory.
    fn address(code: &mut Code, mode: u8, rex: u8, registers: &[i64; 23]) -> usize {
        let of = |low: u8, bit: u8| {
            let number = low & 7 | (rex & bit).min(1) << 3;
            registers[NUMBERED[usize::from(number)] as usize]
        };
        let (kind, low) = (mode >> 6, mode & 7);
        let mut base = 0;
        let mut bytes = [0, 1, 4][usize::from(kind)];
        if low == 4 {
            let scaled = code.next();
            if scaled >> 3 & 7 != 4 || rex & 2 != 0 {
                base = of(scaled >> 3, 2) << (scaled >> 6);
            }
            if scaled & 7 == 5 && kind == 0 {
                bytes = 4;
            } else {
                base += of(scaled, 1);
            }
        } else if low == 5 && kind == 0 {
            // Relative to the next instruction.
            base = code.0 as i64 + 4;
            bytes = 4;
        } else {
            base = of(low, 1);
        }
        (base + code.offset(bytes)) as usize
    }
}

mod filter {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::Call;

    /// Calls that an observed thread stops at: all that carry data to a file, change its length,
    /// sync, name or remove it, or advise the kernel about it.
    const OBSERVED: &[i64] = &[
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_copy_file_range,
        libc::SYS_io_uring_enter,
        libc::SYS_io_submit,
        libc::SYS_ftruncate,
        libc::SYS_truncate,
        libc::SYS_fallocate,
        libc::SYS_fdatasync,
        libc::SYS_fsync,
        libc::SYS_syncfs,
        libc::SYS_sync,
        libc::SYS_sync_file_range,
        libc::SYS_msync,
        libc::SYS_fadvise64,
        libc::SYS_linkat,
        libc::SYS_renameat2,
        libc::SYS_unlinkat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink,
        #[cfg(not(target_arch = "riscv64"))]
        libc::SYS_renameat,
    ];
    /// Milliseconds after which the observer looks whether the thread has ended.
    const LOOK: i32 = 5;

    pub(super) fn observe<R: Send>(run: impl FnOnce() -> R + Send) -> Option<(R, Vec<Call>)> {
        let (send, receive) = channel();
        thread::scope(|scope| {
            let observed = scope.spawn(move || stops(&send).then(run));
            let listener: OwnedFd = receive.recv().ok()?;
            let mut calls = Vec::new();
            while let Some(is_there) = wait(&listener, || observed.is_finished()) {
                if is_there {
                    calls.extend(next(&listener));
                }
            }
            let result = observed.join().expect("the observed thread does not panic");
            result.map(|result| (result, calls))
        })
    }

    /// Installs the filter in this thread, and sends the descriptor that its calls arrive at.
    /// Returns whether it did.
    fn stops(send: &Sender<OwnedFd>) -> bool {
        let word = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
        let load = word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0); // the call's number
        let mut filter = vec![load];
        for number in OBSERVED {
            let test = word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *number as u32);
            filter.push(libc::sock_filter { jf: 1, ..test });
            filter.push(word(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF));
        }
        filter.push(word(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: the program and its filter outlive the calls, which concern this thread alone.
        let listener = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
        };
        if listener < 0 {
            return false;
        }
        // SAFETY: a new descriptor, which nothing else owns.
        send.send(unsafe { OwnedFd::from_raw_fd(listener as i32) }).is_ok()
    }

    /// Waits for a call. Returns whether one has arrived; `None` once the thread has ended.
    fn wait(listener: &OwnedFd, has_ended: impl Fn() -> bool) -> Option<bool> {
        let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives on.
        let ready = unsafe { libc::poll(&raw mut poll, 1, LOOK) };
        let is_there = ready > 0 && poll.revents & libc::POLLIN != 0;
        (is_there || !has_ended()).then_some(is_there)
    }

    /// Takes the next call, and lets it continue. A call that a signal interrupts before it
    /// continues arrives again.
    fn next(listener: &OwnedFd) -> Option<Call> {
        loop {
            let (call, continued) = take(listener)?;
            if continued {
                return Some(call);
            }
        }
    }

    /// Takes the next call. Returns it, and whether it continues.
    fn take(listener: &OwnedFd) -> Option<(Call, bool)> {
        // SAFETY: all zeros are valid values of both, and the first must be.
        let (mut call, mut answer): (libc::seccomp_notif, libc::seccomp_notif_resp) =
            unsafe { std::mem::zeroed() };
        let descriptor = listener.as_raw_fd();
        // SAFETY: the kernel fills in the structure.
        if unsafe { libc::ioctl(descriptor, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } != 0 {
            return None;
        }
        let arguments = call.data.args;
        let changes = match i64::from(call.data.nr) {
            libc::SYS_splice | libc::SYS_copy_file_range => arguments[2],
            _ => arguments[0],
        };
        let file = std::fs::read_link(format!("/proc/self/fd/{}", changes as i32)).ok();
        answer.id = call.id;
        answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        // SAFETY: the kernel reads the structure.
        let sent =
            unsafe { libc::ioctl(descriptor, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
        let error = std::io::Error::last_os_error().raw_os_error();
        assert!(sent == 0 || error == Some(libc::ENOENT), "the stopped call continues: {error:?}");
        Some((Call { number: i64::from(call.data.nr), arguments, file }, sent == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::or_skip;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_write_back_and_fence_is_seen() {
        use crate::cpu::{self, LineWriteBack};
        use crate::sync::AtomicU64;

        let words: Vec<AtomicU64> = (0..512).map(AtomicU64::new).collect();
        let at = |word: usize| words[word].as_ptr() as usize;
        for way in LineWriteBack::every() {
            let run = || (0..512).for_each(|word| way.line(&words, word));
            let ((), found) = instructions(run).unwrap();
            let expected: Vec<_> = (0..512).map(|word| Instruction::WriteBack(at(word))).collect();
            assert!(found == expected, "{way:?}");
        }
        let ((), found) = instructions(|| cpu::stream(&words[8..24], &[7; 16])).unwrap();
        let streamed: Vec<_> = (8..24).map(|word| Instruction::Stream(at(word))).collect();
        assert!(found[..16] == streamed && found[16..] == [Instruction::Fence], "{found:?}");
    }

    #[test]
    fn every_call_is_seen_and_has_its_effect() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let run = || {
            use std::io::Write;
            use std::os::unix::fs::FileExt;

            let other = &file.path().with_extension("moved");
            file.as_file().write_all_at(&[7; 99], 4000).unwrap();
            file.as_file().sync_data().unwrap();
            let mut written = file.as_file();
            written.write_all(&[8]).unwrap();
            std::fs::rename(file.path(), other).unwrap();
            std::fs::rename(other, file.path()).unwrap();
            file.as_file().metadata().unwrap().len()
        };
        let observed = calls(run).ok_or("the system permits no filter");
        let is_required = std::env::var("LASTWORD_REQUIRE").is_ok_and(|it| it == "seam");
        assert!(observed.is_ok() || !is_required, "LASTWORD_REQUIRE=seam: {observed:?}");
        let Some((length, found)) = or_skip(observed, "seccomp") else { return };
        assert_eq!(length, 4099);
        let numbers: Vec<i64> = found.iter().map(|call| call.number).collect();
        let (calls, names) = numbers.split_at(3);
        assert_eq!(calls, [libc::SYS_pwrite64, libc::SYS_fdatasync, libc::SYS_write]);
        assert_eq!(found[0].arguments[2..4], [99, 4000]);
        assert!(found[..3].iter().all(|call| call.file.as_deref() == Some(file.path())));
        assert_eq!(names.len(), 2);
    }
}
