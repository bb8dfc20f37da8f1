//! Signed notes: a text, a blank line, and signature lines `— NAME BASE64(id ‖ signature)`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::key::{Signer, Verifier, name_is_valid};

/// Longest note that is read, in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;
/// Most signature lines that are read.
const MAX_SIGNATURES: usize = 100;
/// Em dash and space.
const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// Why a text is not a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadNote {
    /// Longer than a note may be.
    #[error("it is longer than {MAX_BYTES} bytes or has more than {MAX_SIGNATURES} signatures")]
    Long,
    /// Not UTF-8, or with control characters.
    #[error("it is not plain UTF-8 text")]
    Text,
    /// No text that ends with a newline.
    #[error("its text is empty or does not end with a newline")]
    End,
    /// A line behind the blank one is not a signature.
    #[error("signature line {line} is not one")]
    Signature {
        /// Which one, from 1.
        line: usize,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct SignatureLine {
    name: String,
    id: [u8; 4],
    signature: Vec<u8>,
}

/// A note, as it was read: nothing of it is believed before its [`Standing`] is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    text: String,
    signatures: Vec<SignatureLine>,
}

/// What the signatures of a note are worth to somebody who has these keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// A signature by the key of this name holds, and none by a known key does not.
    Signed(String),
    /// A signature that claims to be by the known key of this name does not hold.
    Broken(String),
    /// It is signed, by keys that are not known.
    UnknownKey(Vec<String>),
    /// It bears no signature.
    Unsigned,
}

impl Note {
    /// Signs a text, which ends with a newline and has no empty lines.
    pub(super) fn sign(text: String, signer: &Signer) -> Self {
        let line = SignatureLine {
            name: signer.verifier().name().to_owned(),
            id: signer.id(),
            signature: signer.sign(&text),
        };
        Self {
            text,
            signatures: vec![line],
        }
    }

    /// Reads a note; a text without blank line is one that bears no signature.
    ///
    /// # Errors
    /// [`BadNote`] if it is not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadNote> {
        if bytes.len() > MAX_BYTES {
            return Err(BadNote::Long);
        }
        let all = std::str::from_utf8(bytes).map_err(|_| BadNote::Text)?;
        if all.bytes().any(|byte| byte < b' ' && byte != b'\n') {
            return Err(BadNote::Text);
        }
        if all.is_empty() || !all.ends_with('\n') {
            return Err(BadNote::End);
        }
        let Some(blank) = all.rfind("\n\n") else {
            return Ok(Self {
                text: all.to_owned(),
                signatures: Vec::new(),
            });
        };
        let (text, lines) = (&all[..=blank], &all[blank + 2..]);
        if lines.is_empty() {
            return Err(BadNote::Signature { line: 1 });
        }
        let signatures = lines
            .split_terminator('\n')
            .enumerate()
            .map(|(at, line)| signature_line(line).ok_or(BadNote::Signature { line: at + 1 }))
            .take(MAX_SIGNATURES + 1)
            .collect::<Result<Vec<_>, _>>()?;
        if signatures.len() > MAX_SIGNATURES {
            return Err(BadNote::Long);
        }
        Ok(Self {
            text: text.to_owned(),
            signatures,
        })
    }

    /// What was signed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What its signatures are worth. Those of unknown keys are ignored; one of a known key that
    /// does not hold spoils the note.
    #[must_use]
    pub fn standing(&self, keys: &[Verifier]) -> Standing {
        let mut signed = None;
        for line in &self.signatures {
            for key in keys.iter().filter(|key| key.is_named(&line.name, line.id)) {
                if !key.holds(&self.text, &line.signature) {
                    return Standing::Broken(line.name.clone());
                }
                signed = Some(line.name.clone());
            }
        }
        match signed {
            Some(name) => Standing::Signed(name),
            None if self.signatures.is_empty() => Standing::Unsigned,
            None => {
                let names = self.signatures.iter().map(|line| line.name.clone());
                Standing::UnknownKey(names.collect())
            }
        }
    }
}

fn signature_line(line: &str) -> Option<SignatureLine> {
    let (name, signature) = line.strip_prefix(SIGNATURE_PREFIX)?.split_once(' ')?;
    let bytes = STANDARD.decode(signature).ok()?;
    let (id, signature) = bytes.split_first_chunk::<4>()?;
    (name_is_valid(name) && !signature.is_empty()).then(|| SignatureLine {
        name: name.to_owned(),
        id: *id,
        signature: signature.to_vec(),
    })
}

/// Byte for byte as it is stored and given away.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if !self.signatures.is_empty() {
            f.write_str("\n")?;
        }
        for line in &self.signatures {
            let mut bytes = line.id.to_vec();
            bytes.extend_from_slice(&line.signature);
            let signature = STANDARD.encode(bytes);
            writeln!(f, "{SIGNATURE_PREFIX}{} {signature}", line.name)?;
        }
        Ok(())
    }
}
