//! Random words from the operating system: passwords, ports and names of directories.

use std::net::{Ipv4Addr, TcpListener};

/// Ports to choose from. They lie below the ranges from which operating systems take the local
/// ports of outgoing connections (from 32768 on Linux, from 49152 elsewhere). A client which keeps
/// dialling a stopped server on a port inside such a range may end up connected to itself, and then
/// the server cannot get its port back.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How many taken ports to pass over before giving up.
const PORT_TRIES: usize = 200;

/// A random word of `bytes` × 2 hexadecimal digits.
pub(crate) fn hex(bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    // Without randomness there is no safe password, and nothing a caller could do about it.
    getrandom::fill(&mut buffer).expect("the operating system gives random bytes");
    buffer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A port on 127.0.0.1 on which nobody listens now. Somebody may take it before the server does,
/// so callers try again when the server cannot bind it.
pub(crate) fn free_port() -> Option<u16> {
    (0..PORT_TRIES).map(|_| random_port()).find(|&port| is_free(port))
}

fn random_port() -> u16 {
    let mut two = [0; 2];
    getrandom::fill(&mut two).expect("the operating system gives random bytes");
    PORTS.start + u16::from_ne_bytes(two) % (PORTS.end - PORTS.start)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_asked_length_and_differ() {
        assert_eq!(hex(16).len(), 32);
        assert_ne!(hex(16), hex(16));
    }

    #[test]
    fn a_free_port_can_be_bound_and_a_bound_port_is_not_free() {
        let port = free_port().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(listener);
    }
}
