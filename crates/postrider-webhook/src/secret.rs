//! Secrets: read from their text, made from random bytes, used to sign and to check.
//!
//! How it fails: [`InvalidSecret`], which never repeats the text. Invariants: an HMAC key has 24 to
//! 64 bytes; the halves of an ed25519 key belong together; keys are wiped when dropped.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::Message;

/// Why a text is no secret, for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidSecret(&'static str);

impl fmt::Display for InvalidSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "secret: {}", self.0)
    }
}

impl std::error::Error for InvalidSecret {}

/// The bytes of an HMAC key.
type Bytes = Zeroizing<Vec<u8>>;

/// A secret that signs.
#[derive(Clone)]
pub struct SigningSecret(Signing);

#[derive(Clone)]
enum Signing {
    Hmac(Bytes),
    Ed25519(SigningKey),
}

/// A secret, or a public key, that verifies.
#[derive(Clone)]
pub struct VerifyingSecret(Verifying);

#[derive(Clone)]
enum Verifying {
    Hmac(Bytes),
    Ed25519(VerifyingKey),
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

impl fmt::Debug for VerifyingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerifyingSecret(…)")
    }
}

fn decoded(base64: &str) -> Result<Bytes, InvalidSecret> {
    let bytes =
        STANDARD.decode(base64).map_err(|_| InvalidSecret("what follows _ is no base64"))?;
    Ok(Zeroizing::new(bytes))
}

impl SigningSecret {
    /// An HMAC secret of these bytes, which should be random.
    ///
    /// # Errors
    ///
    /// Unless there are 24 to 64 bytes.
    pub fn hmac(bytes: &[u8]) -> Result<Self, InvalidSecret> {
        match bytes.len() {
            24..=64 => Ok(Self(Signing::Hmac(Zeroizing::new(bytes.to_vec())))),
            _ => Err(InvalidSecret("whsec_ holds 24 to 64 bytes")),
        }
    }

    /// Reads `whsec_…` or `whsk_…`.
    ///
    /// # Errors
    ///
    /// When the text is neither, no base64, or of the wrong length.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        if let Some(base64) = text.strip_prefix("whsec_") {
            return Self::hmac(&decoded(base64)?);
        }
        let Some(base64) = text.strip_prefix("whsk_") else {
            return Err(InvalidSecret("it begins with neither whsec_ nor whsk_"));
        };
        let bytes = decoded(base64)?;
        let pair = bytes.as_slice().try_into();
        let pair = pair.map_err(|_| InvalidSecret("whsk_ holds 64 bytes: seed and public key"))?;
        let key = SigningKey::from_keypair_bytes(pair);
        let key = key.map_err(|_| InvalidSecret("the public half of whsk_ is another key's"))?;
        Ok(Self(Signing::Ed25519(key)))
    }

    /// Signs: `v1,…` or `v1a,…`. During a rotation the header holds those of both secrets, with a
    /// space between.
    #[must_use]
    pub fn sign(&self, message: &Message<'_>) -> String {
        let signed = message.signed();
        match &self.0 {
            Signing::Hmac(key) => format!("v1,{}", STANDARD.encode(hmac(key, &signed))),
            Signing::Ed25519(key) => {
                format!("v1a,{}", STANDARD.encode(key.sign(&signed).to_bytes()))
            }
        }
    }

    /// What verifies its signatures.
    #[must_use]
    pub fn verifying(&self) -> VerifyingSecret {
        VerifyingSecret(match &self.0 {
            Signing::Hmac(key) => Verifying::Hmac(key.clone()),
            Signing::Ed25519(key) => Verifying::Ed25519(key.verifying_key()),
        })
    }
}

impl VerifyingSecret {
    /// Reads `whsec_…`, `whpk_…`, or `whsk_…`, of which the public half is kept.
    ///
    /// # Errors
    ///
    /// When the text is none of them, no base64, of the wrong length, or no key of the curve.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let Some(base64) = text.strip_prefix("whpk_") else {
            return match text.starts_with("whsec_") || text.starts_with("whsk_") {
                true => Ok(SigningSecret::parse(text)?.verifying()),
                false => Err(InvalidSecret("it begins with none of whsec_, whpk_ and whsk_")),
            };
        };
        let bytes = decoded(base64)?;
        let bytes = bytes.as_slice().try_into();
        let bytes = bytes.map_err(|_| InvalidSecret("whpk_ holds 32 bytes"))?;
        match VerifyingKey::from_bytes(bytes) {
            // A weak key verifies signatures that nobody made.
            Ok(key) if !key.is_weak() => Ok(Self(Verifying::Ed25519(key))),
            _ => Err(InvalidSecret("whpk_ holds no usable ed25519 key")),
        }
    }

    /// The version of the signatures that it verifies.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match &self.0 {
            Verifying::Hmac(_) => "v1",
            Verifying::Ed25519(_) => "v1a",
        }
    }

    /// Whether these bytes are a signature of `signed`; nothing when they cannot be one.
    pub(crate) fn matches(&self, signed: &[u8], base64: &str) -> Option<bool> {
        let signature = STANDARD.decode(base64).ok()?;
        match &self.0 {
            Verifying::Hmac(key) => (signature.len() == 32)
                .then(|| hmac(key, signed).as_slice().ct_eq(&signature).into()),
            Verifying::Ed25519(key) => {
                let signature = Signature::from_slice(&signature).ok()?;
                Some(key.verify_strict(signed, &signature).is_ok())
            }
        }
    }
}

fn hmac(key: &[u8], signed: &[u8]) -> [u8; 32] {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(signed);
    mac.finalize().into_bytes().into()
}
