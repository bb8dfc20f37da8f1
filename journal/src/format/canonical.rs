//! Canonical JSON: the one text of a value, over which digests are made.
//!
//! The text equals RFC 8785 (JCS) wherever that is exact: keys sorted by UTF-16 code units, numbers
//! in the form of ECMAScript, the fewest string escapes, no white space. It goes beyond it in one
//! point: integers of 64 bits keep all their digits, where RFC 8785 would round them to a double.
//!
//! Invariants:
//! - [`parse`] gives a value only for text that means exactly one thing: a duplicate key, a lone
//!   surrogate or a number that would change by being read is refused, never repaired.
//! - A decimal number is kept only if it is the shortest text of its double, as ECMAScript prints
//!   it (zeros and the place of the point aside): `0.10` is, a sum of money with 20 digits is not.
//! - Canonical text is a fixed point: what [`to_text`] writes, [`parse`] reads back to a value with
//!   the same text; for a value that came from [`parse`], to the same value.

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

use super::entry::Digest;

/// Deepest nesting of arrays and objects that is read or written.
pub const DEPTH_MAX: usize = 128;

/// Longest part of the input that an error quotes, in characters.
const QUOTED_MAX: usize = 40;

/// Why a text or value has no canonical form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// The input is not UTF-8.
    #[error("the JSON is not UTF-8: byte {offset} begins no character; write it as UTF-8")]
    NotUtf8 {
        /// Byte offset of the first bad byte.
        offset: usize,
    },
    /// The input is not JSON.
    #[error("not JSON at byte {offset}: {what}")]
    Syntax {
        /// Byte offset in the input.
        offset: usize,
        /// What was found, or what is missing.
        what: String,
    },
    /// An object names a key twice.
    #[error("the key {key:?} at byte {offset} is there twice; keep one of them")]
    DuplicateKey {
        /// Byte offset of the second one.
        offset: usize,
        /// The key.
        key: String,
    },
    /// A number would change by being read.
    #[error(
        "the number {token} at byte {offset} cannot be kept exactly: integers fit 64 bits, others are doubles; write it as a string"
    )]
    Inexact {
        /// Byte offset of the number.
        offset: usize,
        /// The number as written (its beginning, if it is long).
        token: String,
    },
    /// Arrays and objects are nested too deeply.
    #[error("arrays and objects are nested deeper than {DEPTH_MAX} levels; make the value flatter")]
    TooDeep,
}

/// Reads JSON strictly: everything that RFC 8259 leaves open is refused.
///
/// # Errors
/// [`CanonicalError`], naming the place, for text that is not JSON or means more than one thing.
pub fn parse(text: &[u8]) -> Result<Value, CanonicalError> {
    let text = std::str::from_utf8(text).map_err(|error| CanonicalError::NotUtf8 {
        offset: error.valid_up_to(),
    })?;
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let value = reader.value(0)?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.syntax("more follows after the end of the value")),
    }
}

/// The canonical text of a value.
///
/// # Errors
/// [`CanonicalError::TooDeep`] for a value nested deeper than [`DEPTH_MAX`].
pub fn to_text(value: &Value) -> Result<String, CanonicalError> {
    let mut text = String::new();
    write_value(value, 0, &mut text)?;
    Ok(text)
}

/// SHA-256 over a domain tag and a text. The tag is preceded by its length, so that no other
/// division into tag and text has the same digest.
#[must_use]
pub fn digest(domain: &str, text: &str) -> Digest {
    let mut hash = Sha256::new();
    hash.update((domain.len() as u64).to_le_bytes());
    hash.update(domain.as_bytes());
    hash.update(text.as_bytes());
    Digest(hash.finalize().into())
}

/// Reads one text from left to right.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn syntax(&self, what: &str) -> CanonicalError {
        CanonicalError::Syntax {
            offset: self.at,
            what: what.to_owned(),
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over `byte` if it comes next.
    fn took(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// `depth` arrays and objects are open around the value.
    fn value(&mut self, depth: usize) -> Result<Value, CanonicalError> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => Err(self.syntax("no value begins like this")),
            None => Err(self.syntax("the text ends where a value should be")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, CanonicalError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.syntax("no value begins like this"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Value, CanonicalError> {
        if depth > DEPTH_MAX {
            return Err(CanonicalError::TooDeep);
        }
        self.at += 1;
        let mut members = Map::new();
        self.skip_space();
        if self.took(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let offset = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key in double quotes should be here"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.took(b':') {
                return Err(self.syntax("a colon should be here"));
            }
            self.skip_space();
            let value = self.value(depth)?;
            if members.contains_key(&key) {
                return Err(CanonicalError::DuplicateKey { offset, key });
            }
            members.insert(key, value);
            self.skip_space();
            if self.took(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.took(b',') {
                return Err(self.syntax("a comma or the object's end should be here"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, CanonicalError> {
        if depth > DEPTH_MAX {
            return Err(CanonicalError::TooDeep);
        }
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.took(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth)?);
            self.skip_space();
            if self.took(b']') {
                return Ok(Value::Array(items));
            }
            if !self.took(b',') {
                return Err(self.syntax("a comma or the array's end should be here"));
            }
        }
    }

    /// Finds the end of the string; what is inside (escapes, surrogates, control characters) is
    /// left to `serde_json`, which refuses lone surrogates.
    fn string(&mut self) -> Result<String, CanonicalError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.syntax("the string that begins here has no end")),
            }
        }
        let string = serde_json::from_slice(&bytes[start..=end]).map_err(|error| {
            CanonicalError::Syntax {
                offset: start,
                what: format!("bad string: {error}"),
            }
        })?;
        self.at = end + 1;
        Ok(string)
    }

    fn number(&mut self) -> Result<Number, CanonicalError> {
        let start = self.at;
        let integer_digits = {
            self.took(b'-');
            self.digits()
        };
        let leading_zero = self.text[start..].trim_start_matches('-').starts_with('0');
        if integer_digits == 0 || (leading_zero && integer_digits > 1) {
            return Err(self.syntax("bad number: an integer part without leading zeros is needed"));
        }
        let mut integer = true;
        if self.took(b'.') {
            integer = false;
            if self.digits() == 0 {
                return Err(self.syntax("bad number: digits should follow the point"));
            }
        }
        if self.took(b'e') || self.took(b'E') {
            integer = false;
            if !self.took(b'+') {
                self.took(b'-');
            }
            if self.digits() == 0 {
                return Err(self.syntax("bad number: digits should follow the exponent"));
            }
        }
        let token = &self.text[start..self.at];
        exact_number(token, integer).ok_or_else(|| CanonicalError::Inexact {
            offset: start,
            token: quoted(token),
        })
    }

    /// Steps over digits and counts them.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }
}

fn quoted(token: &str) -> String {
    // A number token is ASCII, so any byte is a character boundary.
    match token.get(..QUOTED_MAX) {
        Some(beginning) if token.len() > QUOTED_MAX => format!("{beginning}..."),
        _ => token.to_owned(),
    }
}

/// The number that a token means, or `None` if it would change by being read.
///
/// A double is kept as the integer that its canonical text shows wherever that fits 64 bits, so
/// that reading the canonical text again gives the same value.
fn exact_number(token: &str, integer: bool) -> Option<Number> {
    if integer && let Some(number) = integer_number(token) {
        return Some(number);
    }
    let double: f64 = token.parse().ok()?;
    if !double.is_finite() {
        return None;
    }
    let mut buffer = ryu_js::Buffer::new();
    let shortest = buffer.format_finite(double);
    if Decimal::of(token)? != Decimal::of(shortest)? {
        return None;
    }
    integer_number(shortest).or_else(|| Number::from_f64(double))
}

fn integer_number(token: &str) -> Option<Number> {
    // A negative zero is the number zero.
    match token.parse::<i64>() {
        Ok(number) => Some(Number::from(number)),
        Err(_) => token.parse::<u64>().ok().map(Number::from),
    }
}

/// A decimal number: sign, digits without outer zeros, and the power of ten of the last digit.
/// Equal exactly when the numbers are.
#[derive(PartialEq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Takes a token apart; `None` if its exponent is beyond any double.
    fn of(token: &str) -> Option<Self> {
        let (negative, token) = match token.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, token),
        };
        let (mantissa, exponent) = match token.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()),
            None => (token, Some(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_matches('0').to_owned();
        if digits.is_empty() {
            // Zero, whatever its exponent and sign.
            return Some(Self {
                negative: false,
                digits,
                exponent: 0,
            });
        }
        let zeros_last = all.len() - all.trim_end_matches('0').len();
        let exponent = exponent?
            .checked_add(i64::try_from(zeros_last).ok()?)?
            .checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Some(Self {
            negative,
            digits,
            exponent,
        })
    }
}

/// `depth` arrays and objects are open around the value.
fn write_value(value: &Value, depth: usize, text: &mut String) -> Result<(), CanonicalError> {
    if (value.is_array() || value.is_object()) && depth >= DEPTH_MAX {
        return Err(CanonicalError::TooDeep);
    }
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, depth + 1, text)?;
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by(|(left, _), (right, _)| {
                left.encode_utf16().cmp(right.encode_utf16())
            });
            text.push('{');
            for (index, (key, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(key, text);
                text.push(':');
                write_value(member, depth + 1, text)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

fn write_number(number: &Number, text: &mut String) {
    match number.as_f64() {
        Some(double) if number.is_f64() => {
            text.push_str(ryu_js::Buffer::new().format_finite(double));
        }
        // An integer, which keeps all its digits.
        _ => text.push_str(&number.to_string()),
    }
}

/// The escapes of RFC 8785 are those of `serde_json`: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t` and
/// lowercase `\u00xx` for the other control characters; nothing else.
fn write_string(string: &str, text: &mut String) {
    text.push_str(&Value::from(string).to_string());
}

#[cfg(test)]
mod tests;
