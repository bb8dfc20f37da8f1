//! The types of entries as `FORMAT.md` writes them down, and reading values by them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What a name in the document stands for.
#[derive(Debug)]
enum Definition {
    /// Another type under this name.
    Same(String),
    /// Fields in order.
    Fields(Vec<(String, String)>),
    /// Variants by number.
    OneOf(Vec<Variant>),
}

#[derive(Debug)]
struct Variant {
    name: String,
    holds: Holds,
}

#[derive(Debug)]
enum Holds {
    Nothing,
    One(String),
    Fields(Vec<(String, String)>),
}

/// All types of the document.
#[derive(Debug)]
pub(crate) struct Schema(BTreeMap<String, Definition>);

fn fields(text: &str) -> Vec<(String, String)> {
    text.split(',')
        .map(|field| {
            let (name, of) = field.split_once(':').expect("a field is `name: type`");
            (name.trim().to_owned(), of.trim().to_owned())
        })
        .collect()
}

impl Schema {
    /// Reads the block that is marked `types`.
    pub(crate) fn of(document: &str) -> Self {
        let (_, block) = document.split_once("```types\n").expect("a block of types");
        let (block, _) = block.split_once("```").unwrap();
        let mut all = BTreeMap::new();
        let mut current = None;
        for line in block.lines().filter(|line| !line.trim().is_empty()) {
            if let Some((name, of)) = line.split_once(" = ") {
                let definition = match of {
                    "one of" => Definition::OneOf(Vec::new()),
                    of if of.contains(':') => Definition::Fields(fields(of)),
                    of => Definition::Same(of.to_owned()),
                };
                assert!(
                    all.insert(name.to_owned(), definition).is_none(),
                    "{name} twice"
                );
                current = Some(name.to_owned());
                continue;
            }
            let (number, variant) = line.trim().split_once(' ').expect("a variant has a number");
            let Some(Definition::OneOf(variants)) = current.as_ref().and_then(|it| all.get_mut(it))
            else {
                panic!("a variant outside of its type: {line}");
            };
            assert_eq!(number.parse(), Ok(variants.len()), "{line}");
            let (name, holds) = match variant.split_once(' ') {
                None => (variant, Holds::Nothing),
                Some((name, of)) if of.contains(':') => (name, Holds::Fields(fields(of))),
                Some((name, of)) => (name, Holds::One(of.to_owned())),
            };
            variants.push(Variant {
                name: name.to_owned(),
                holds,
            });
        }
        Self(all)
    }

    /// The number of variants of a type.
    pub(crate) fn variants(&self, name: &str) -> usize {
        match &self.0[name] {
            Definition::OneOf(variants) => variants.len(),
            other => panic!("{other:?}"),
        }
    }

    /// Reads a value of a type from exactly these bytes.
    pub(crate) fn read(&self, of: &str, bytes: &[u8]) -> Result<Value, String> {
        let mut rest = Bytes(bytes);
        let value = self.value(of, &mut rest)?;
        match rest.0.len() {
            0 => Ok(value),
            left => Err(format!("{left} bytes left over")),
        }
    }

    fn value(&self, of: &str, bytes: &mut Bytes<'_>) -> Result<Value, String> {
        if let Some(of) = of.strip_suffix('?') {
            return match bytes.byte()? {
                0 => Ok(Value::Null),
                1 => self.value(of, bytes),
                other => Err(format!("{other} where 0 or 1 should be")),
            };
        }
        if let Some(of) = of.strip_suffix("[]") {
            let count = bytes.number()?;
            return (0..count).map(|_| self.value(of, bytes)).collect();
        }
        match of {
            "bool" => match bytes.byte()? {
                0 => Ok(false.into()),
                1 => Ok(true.into()),
                other => Err(format!("{other} is no bool")),
            },
            "u8" => Ok(bytes.byte()?.into()),
            "u32" => Ok(u32::try_from(bytes.number()?)
                .map_err(|it| it.to_string())?
                .into()),
            "u64" => Ok(bytes.number()?.into()),
            "i64" => {
                // 0, -1, 1, -2, ...
                let number = bytes.number()?;
                let half = i64::try_from(number / 2).unwrap();
                Ok(if number % 2 == 0 { half } else { -half - 1 }.into())
            }
            "16 bytes" => Ok(bytes.take(16)?.to_vec().into()),
            "32 bytes" => Ok(bytes.take(32)?.to_vec().into()),
            "text" => {
                let length = usize::try_from(bytes.number()?).map_err(|it| it.to_string())?;
                let text = std::str::from_utf8(bytes.take(length)?);
                Ok(text.map_err(|it| it.to_string())?.into())
            }
            name => match self.0.get(name).ok_or(format!("no type {name:?}"))? {
                Definition::Same(of) => self.value(of, bytes),
                Definition::Fields(fields) => self.fields(fields, bytes),
                Definition::OneOf(variants) => {
                    let number = usize::try_from(bytes.number()?).map_err(|it| it.to_string())?;
                    let variant = variants
                        .get(number)
                        .ok_or(format!("{name} has no variant {number}"))?;
                    let held = match &variant.holds {
                        Holds::Nothing => return Ok(variant.name.clone().into()),
                        Holds::One(of) => self.value(of, bytes)?,
                        Holds::Fields(fields) => self.fields(fields, bytes)?,
                    };
                    Ok(Map::from_iter([(variant.name.clone(), held)]).into())
                }
            },
        }
    }

    fn fields(&self, fields: &[(String, String)], bytes: &mut Bytes<'_>) -> Result<Value, String> {
        let mut object = Map::new();
        for (name, of) in fields {
            let value = self
                .value(of, bytes)
                .map_err(|error| format!("{name}: {error}"))?;
            object.insert(name.clone(), value);
        }
        Ok(object.into())
    }
}

/// What is left to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("the bytes end here")?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// A number in variable length.
    fn number(&mut self) -> Result<u64, String> {
        let wide = match self.byte()? {
            small @ 0..=250 => return Ok(small.into()),
            251 => 2,
            252 => 4,
            253 => 8,
            other => return Err(format!("{other} begins no number")),
        };
        let mut bytes = [0; 8];
        bytes[..wide].copy_from_slice(self.take(wide)?);
        Ok(u64::from_le_bytes(bytes))
    }
}
