//! The official vectors both ways, and everything that must be refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

use postrider_webhook::{Message, Now, Refusal, SigningSecret, Verified, VerifyingSecret, verify};

/// Secret that signs, secret that verifies, id, timestamp, body, signature.
type Vector = [&'static str; 6];

const FIRST: Vector = [
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "1614265330",
    r#"{"test": 2432232314}"#,
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
];
const SECOND: Vector = [
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
    "1649367553",
    r#"{"email":"test@example.com","username":"test_user"}"#,
    "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
];
const THIRD: Vector = [
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==",
    "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
    FIRST[2],
    FIRST[3],
    FIRST[4],
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
];

/// The first vector's message under other signatures.
fn first(signatures: &str) -> Result<Verified, Refusal> {
    check(FIRST[1], FIRST[2], FIRST[3], signatures, FIRST[4], Now::AnyTime)
}

fn check(
    secret: &str,
    id: &str,
    at: &str,
    signatures: &str,
    body: &str,
    now: Now,
) -> Result<Verified, Refusal> {
    verify(&[VerifyingSecret::parse(secret).unwrap()], id, at, signatures, body.as_bytes(), now)
}

#[test]
fn the_official_vectors_are_made_and_verified() {
    for [signing, verifying, id, at, body, signature] in [FIRST, SECOND, THIRD] {
        let message = Message::new(id, at.parse().unwrap(), body.as_bytes()).unwrap();
        assert_eq!(SigningSecret::parse(signing).unwrap().sign(&message), signature);
        for secret in [signing, verifying] {
            let verified = check(secret, id, at, signature, body, Now::AnyTime).unwrap();
            assert_eq!(verified.version, signature.split_once(',').unwrap().0);
        }
    }
}

#[test]
fn one_right_signature_among_junk_is_enough() {
    let junk = "v2,abc v1 v1, v1,g0hM v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= v1a,!";
    assert_eq!(first(junk), Err(Refusal::Mismatch));
    assert!(first(&format!("{junk} {}", FIRST[5])).is_ok());
    assert!(first(&format!("{} {junk}", FIRST[5])).is_ok());
}

#[test]
fn during_a_rotation_either_secret_verifies() {
    let secrets = [SECOND[1], THIRD[1], FIRST[1]].map(|text| VerifyingSecret::parse(text).unwrap());
    let body = FIRST[4].as_bytes();
    for (signature, secret) in [(FIRST[5], 2), (THIRD[5], 1)] {
        let verified = verify(&secrets, FIRST[2], FIRST[3], signature, body, Now::AnyTime);
        assert_eq!(verified.unwrap().secret, secret);
    }
}

#[test]
fn whatever_was_changed_is_refused() {
    let [_, secret, id, at, body, signature] = FIRST;
    let refusal = |secret: &str, id: &str, at: &str, signature: &str, body: &str| {
        check(secret, id, at, signature, body, Now::AnyTime).unwrap_err()
    };
    assert_eq!(refusal(SECOND[1], id, at, signature, body), Refusal::Mismatch);
    assert_eq!(refusal(secret, SECOND[2], at, signature, body), Refusal::Mismatch);
    assert_eq!(refusal(secret, id, "1614265331", signature, body), Refusal::Mismatch);
    assert_eq!(refusal(secret, id, at, signature, r#"{"test":2432232314}"#), Refusal::Mismatch);
    for line_end in ["\n", "\r\n"] {
        let body = format!("{body}{line_end}");
        assert_eq!(refusal(secret, id, at, signature, &body), Refusal::TrailingNewline);
    }
    let [_, public, .., ed25519] = THIRD;
    assert_eq!(refusal(public, id, at, ed25519, "{}"), Refusal::Mismatch);
}

#[test]
fn a_changed_cut_or_missing_signature_is_refused_with_its_reason() {
    let changed = FIRST[5].replace("OLJ1OE=", "OLJ1OA=");
    assert_eq!(first(&changed), Err(Refusal::Mismatch));
    for cut in [&FIRST[5][..40], &FIRST[5][..FIRST[5].len() - 1], "v1,"] {
        assert_eq!(first(cut), Err(Refusal::MalformedSignature), "{cut}");
    }
    for empty in ["", "  "] {
        assert_eq!(first(empty), Err(Refusal::NoSignature));
    }
    for other in [THIRD[5], "v2,abc", "v1", &FIRST[5][3..]] {
        assert_eq!(first(other), Err(Refusal::OtherVersion { wanted: "v1" }), "{other}");
    }
}

#[test]
fn a_timestamp_may_be_300_seconds_off_either_way_and_no_more() {
    let [_, secret, id, at, body, signature] = FIRST;
    let seen_at = |now| check(secret, id, at, signature, body, Now::At(now)).map(|_| ());
    let sent: u64 = at.parse().unwrap();
    assert_eq!(seen_at(sent), Ok(()));
    assert_eq!(seen_at(sent + 300), Ok(()));
    assert_eq!(seen_at(sent - 300), Ok(()));
    assert_eq!(seen_at(sent + 301), Err(Refusal::TooOld(301)));
    assert_eq!(seen_at(sent - 301), Err(Refusal::TooNew(301)));
}

#[test]
fn an_id_or_timestamp_that_cannot_be_is_refused() {
    let with = |id, at| check(FIRST[1], id, at, FIRST[5], FIRST[4], Now::AnyTime).unwrap_err();
    for id in ["", "a.b", "a b", "é", "a\n"] {
        assert_eq!(with(id, FIRST[3]), Refusal::MalformedId, "{id:?}");
    }
    for at in ["", "x", "-1", "+1614265330", "01614265330", "1614265330.0", "1e9", " 1"] {
        assert_eq!(with(FIRST[2], at), Refusal::MalformedTimestamp, "{at:?}");
    }
}

#[test]
fn a_secret_that_cannot_be_is_refused_and_never_repeated() {
    let short = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="; // 23 bytes
    let foreign = THIRD[0].replace("6Xb/", "7Xb/");
    // The neutral point of the curve, under which anybody can sign.
    let weak = "whpk_AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let wrong = ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", "whsk_AAAA", "whpk_"];
    for text in [short, &foreign, weak].into_iter().chain(wrong) {
        let told = VerifyingSecret::parse(text).unwrap_err().to_string();
        assert!(told.starts_with("secret: "), "{told}");
        assert!(text.len() < 8 || !told.contains(text), "{told}");
    }
    assert!(SigningSecret::parse(THIRD[1]).is_err(), "a public key signs nothing");
    for (bytes, good) in [(23, false), (24, true), (64, true), (65, false)] {
        assert_eq!(SigningSecret::hmac(&vec![7; bytes]).is_ok(), good, "{bytes}");
    }
    assert_eq!(format!("{:?}", SigningSecret::parse(FIRST[0]).unwrap()), "SigningSecret(…)");
}
