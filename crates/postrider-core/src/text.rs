//! Text that comes from outside and must be stored: error messages of handlers and receivers.
//!
//! How it fails: it does not; whatever comes in, something that PostgreSQL can store comes out.
//! Invariant: the result holds no NUL and is at most the given number of bytes.

/// The longest error text kept, in bytes: enough for a chain of causes, too little to fill a disk.
pub const ERROR_BYTES_MAX: usize = 4096;

/// Makes `text` safe to store: NUL becomes U+FFFD, and what is over [`ERROR_BYTES_MAX`] is cut at
/// a character boundary and marked with an ellipsis.
///
/// ```
/// assert_eq!(postrider_core::text::storable("bad\0byte"), "bad\u{FFFD}byte");
/// ```
#[must_use]
pub fn storable(text: &str) -> String {
    let clean = text.replace('\0', "\u{FFFD}");
    if clean.len() <= ERROR_BYTES_MAX {
        return clean;
    }
    let mut end = ERROR_BYTES_MAX - '…'.len_utf8();
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &clean[..end])
}

/// As [`storable`], for bytes that may not be UTF-8: what is not becomes U+FFFD.
#[must_use]
pub fn storable_bytes(bytes: &[u8]) -> String {
    storable(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_become_text_that_can_be_stored() {
        let text = storable_bytes(&[0x00, 0xFF, b'a', 0xE2, 0x82]);
        assert!(!text.contains('\0'));
        assert!(text.contains('a'));
    }

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        let text = storable(&"€".repeat(5000));
        assert!(text.len() <= ERROR_BYTES_MAX);
        assert!(text.ends_with('…'));
    }
}
