//! A proxy before a server, which cuts or holds up a connection at a chosen point.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// All bytes pass.
pub(crate) const PASS: u8 = 0;
/// The reply to a publish ends its connection, and is lost.
pub(crate) const CUT_REPLY: u8 = 1;
/// Publishes, and all after them, wait until the mode changes.
pub(crate) const HOLD: u8 = 2;

/// A proxy of one server. Its threads end with the process.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let shared = Arc::clone(&mode);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (mode, other) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || copy(from, to, b"HPUB lastword.", HOLD, &mode));
                thread::spawn(move || copy(server, client, b"\"seq\":", CUT_REPLY, &other));
            }
        });
        Proxy { port, mode }
    }

    pub(crate) fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

/// Copies bytes until either side ends, or until a pattern meets its mode.
fn copy(mut from: TcpStream, mut to: TcpStream, pattern: &[u8], stop: u8, mode: &AtomicU8) {
    let mut buffer = [0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let is_met = buffer[..count].windows(pattern.len()).any(|bytes| bytes == pattern);
        if is_met && stop == CUT_REPLY && mode.load(Ordering::SeqCst) == CUT_REPLY {
            break;
        }
        while is_met && stop == HOLD && mode.load(Ordering::SeqCst) == HOLD {
            thread::sleep(Duration::from_millis(1));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)); // They may be closed.
}
