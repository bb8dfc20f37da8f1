//! Ed25519 keys in the text forms of C2SP signed notes.
//!
//! A key is known by its name and by the first four bytes of
//! SHA-256(name ‖ `\n` ‖ 1 ‖ public key).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

/// Signature type of Ed25519 in signed notes.
const ED25519: u8 = 1;
const SECRET_PREFIX: &str = "PRIVATE+KEY+";

/// Why a text is not a key. Says nothing of what the text held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadKey {
    /// The parts of the text are not those of a key.
    #[error("it does not read as NAME+ID+KEY")]
    Form,
    /// The name is empty, or holds spaces, control characters or `+`.
    #[error("its name is empty or holds a space or a +")]
    Name,
    /// A key of another algorithm, or of another length.
    #[error("it is no Ed25519 key")]
    Algorithm,
    /// The id does not belong to name and key.
    #[error("its id does not belong to its name and key: it was mistyped or altered")]
    Id,
}

/// True if a key may bear the name.
pub(super) fn name_is_valid(name: &str) -> bool {
    let bad = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '+';
    !name.is_empty() && !name.contains(bad)
}

/// The id of a key.
fn id_of(name: &str, key: &VerifyingKey) -> [u8; 4] {
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update(b"\n");
    hasher.update([ED25519]);
    hasher.update(key.as_bytes());
    let hash = hasher.finalize();
    [hash[0], hash[1], hash[2], hash[3]]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes `NAME+ID+BASE64` apart; the 32 bytes behind the algorithm's.
fn parts(text: &str) -> Result<(&str, &str, [u8; 32]), BadKey> {
    // Base64 may hold a plus sign, a name may not.
    let mut fields = text.splitn(3, '+');
    let (Some(name), Some(id), Some(key)) = (fields.next(), fields.next(), fields.next()) else {
        return Err(BadKey::Form);
    };
    if !name_is_valid(name) {
        return Err(BadKey::Name);
    }
    let key = STANDARD.decode(key).map_err(|_| BadKey::Form)?;
    match key.split_first() {
        Some((&ED25519, key)) => Ok((name, id, key.try_into().map_err(|_| BadKey::Algorithm)?)),
        _ => Err(BadKey::Algorithm),
    }
}

/// The public half of a key: what may be given away, and what checkpoints are checked with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verifier {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl Verifier {
    fn new(name: String, key: VerifyingKey) -> Self {
        let id = id_of(&name, &key);
        Self { name, id, key }
    }

    /// The key's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_named(&self, name: &str, id: [u8; 4]) -> bool {
        self.name == name && self.id == id
    }

    pub(super) fn holds(&self, text: &str, signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.key.verify_strict(text.as_bytes(), &signature).is_ok())
    }
}

/// As a C2SP verifier key (vkey): `NAME+ID+BASE64`.
impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![ED25519];
        key.extend_from_slice(self.key.as_bytes());
        let key = STANDARD.encode(key);
        write!(f, "{}+{}+{key}", self.name, hex(&self.id))
    }
}

impl FromStr for Verifier {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let (name, id, key) = parts(text)?;
        let key = VerifyingKey::from_bytes(&key).map_err(|_| BadKey::Algorithm)?;
        let verifier = Self::new(name.to_owned(), key);
        match hex(&verifier.id) == id {
            true => Ok(verifier),
            false => Err(BadKey::Id),
        }
    }
}

/// A key that signs. Its secret half is wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Signer {
    key: SigningKey,
    verifier: Verifier,
}

/// Shows the public half alone.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.verifier)
    }
}

impl Signer {
    /// A new key from the system's randomness, named by its own hash, so that no two share a name.
    ///
    /// # Errors
    /// The system's error if it has no randomness to give.
    pub fn generate() -> std::io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        let key = SigningKey::from_bytes(&seed);
        let hash = Sha256::digest(key.verifying_key().as_bytes());
        let name = format!("intendant/key/{}", hex(&hash[..8]));
        Ok(Self::new(name, key))
    }

    /// A key that everybody knows.
    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn of_seed(name: &str, seed: [u8; 32]) -> Self {
        Self::new(name.to_owned(), SigningKey::from_bytes(&seed))
    }

    fn new(name: String, key: SigningKey) -> Self {
        let verifier = Verifier::new(name, key.verifying_key());
        Self { key, verifier }
    }

    /// Reads the text form of a secret key, `PRIVATE+KEY+NAME+ID+BASE64`.
    ///
    /// # Errors
    /// [`BadKey`], which says nothing of what the text held.
    pub fn from_secret_text(text: &str) -> Result<Self, BadKey> {
        let text = text.strip_prefix(SECRET_PREFIX).ok_or(BadKey::Form)?;
        let (name, id, seed) = parts(text)?;
        let signer = Self::new(name.to_owned(), SigningKey::from_bytes(&seed));
        match hex(&signer.verifier.id) == id {
            true => Ok(signer),
            false => Err(BadKey::Id),
        }
    }

    /// The text form of the secret key, for its file alone.
    pub(super) fn secret_text(&self) -> String {
        let mut key = vec![ED25519];
        key.extend_from_slice(self.key.as_bytes());
        let (name, id) = (&self.verifier.name, hex(&self.verifier.id));
        format!("{SECRET_PREFIX}{name}+{id}+{}", STANDARD.encode(key))
    }

    /// The public half.
    #[must_use]
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    pub(super) fn id(&self) -> [u8; 4] {
        self.verifier.id
    }

    pub(super) fn sign(&self, text: &str) -> Vec<u8> {
        self.key.sign(text.as_bytes()).to_bytes().to_vec()
    }
}
