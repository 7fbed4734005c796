//! JSON that PostgreSQL can hold: a little less than all JSON.
//!
//! How it fails: [`Invalid`] for an escape that stands for no character that can be stored.
//! Invariant: nothing is decoded or written anew, so the text stays as it was.

use crate::Invalid;

/// Refuses the escapes that `jsonb` cannot hold: NUL, and halves of surrogate pairs. `text` is
/// JSON otherwise; an escape that is cut short is left for the parser to refuse.
pub(crate) fn check_json(field: &'static str, text: &str) -> Result<(), Invalid> {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        let Some(unit) = code_unit(rest) else {
            // The escaped character may itself be a backslash: both are done with.
            rest = rest.get(2..).unwrap_or_default();
            continue;
        };
        let escape = &rest[..6];
        rest = &rest[6..];
        match unit {
            0 => {
                let problem = format!("holds {escape}, the NUL character, which cannot be stored");
                return Err(Invalid::new(field, problem));
            }
            0xD800..=0xDBFF if matches!(code_unit(rest), Some(0xDC00..=0xDFFF)) => {
                rest = &rest[6..];
            }
            0xD800..=0xDFFF => {
                let problem =
                    format!("holds {escape}, half of a surrogate pair, which is no character");
                return Err(Invalid::new(field, problem));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The number in the escape `\uXXXX` with which `text` begins, if it does.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_that_cannot_be_stored_are_refused() {
        for (text, says) in [
            (r#""\u0000""#, "holds \\u0000, the NUL"),
            (r#"{"\u0000":1}"#, "NUL"),
            (r#""\ud800""#, "holds \\ud800, half"),
            (r#""\udc00\ud800""#, "holds \\udc00, half"),
            (r#""\ud800\ud800\udc00""#, "holds \\ud800, half"),
            (r#""\uD83Dx\uDE00""#, "holds \\uD83D, half"),
            (r#""\\\u0000""#, "NUL"),
        ] {
            let refused = check_json("data", text).expect_err(text);
            assert_eq!(refused.field(), "data");
            assert!(refused.to_string().contains(says), "{text}: {refused}");
        }
    }

    #[test]
    fn everything_else_passes() {
        for text in
            [r#""\\u0000""#, r#""\ud83d\ude00""#, r#""\u00e9é\n\"\\""#, "1e5", "\"\\", r#""\ué"#]
        {
            assert!(check_json("data", text).is_ok(), "{text}");
        }
    }
}
