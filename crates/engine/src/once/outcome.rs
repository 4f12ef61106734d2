//! Typed outcomes: a value goes into a record and comes back as the same type, or not at all.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use semel_core::Outcome;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The codec of typed outcomes: JSON that names the type and the version of its value,
/// `{"type":"charge","version":1,"value":…}`. Codec 0 is raw bytes.
pub const TYPED_JSON: u16 = 1;

/// A value that can be the outcome of an operation.
///
/// Implement [`Typed`] for your own types. `()`, `bool`, numbers, `String`, and lists and options of
/// these are outcomes already, and so is [`Bytes`], which is kept raw.
///
/// # Guarantee   the value that comes back is the one that was kept, under the same type and
/// version, or an [`Unreadable`] says why not; never another value
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no outcome",
    label = "cannot be kept on a record",
    note = "derive `Serialize` and `Deserialize`, and declare its name and version: \
            `impl semel::Typed for {Self} {{ const TYPE: &'static str = \"…\"; const VERSION: u32 = 1; }}`"
)]
pub trait Remember: Sized {
    /// Returns the outcome as a record keeps it, [`Outcome::TooLarge`] beyond `limit_bytes`.
    fn to_outcome(&self, limit_bytes: usize) -> Outcome;

    /// Returns the value of an outcome.
    ///
    /// # Errors
    ///
    /// it was written as another type or version, was too large to keep, or cannot be read as its
    /// own type
    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable>;
}

/// A serde value with a name and a version of its own.
///
/// Change the version whenever a value that was written before would be read as something else, and
/// read the old ones in [`Typed::upgrade`] as long as records with them live: the window.
///
/// ```
/// use semel_engine::once::{Remember, Typed};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Charge {
///     cents: u64,
/// }
///
/// impl Typed for Charge {
///     const TYPE: &'static str = "charge";
///     const VERSION: u32 = 2;
///
///     fn upgrade(version: u32, json: &str) -> Option<Self> {
///         // Version 1 was a bare number of whole euros.
///         let euros: u64 = (version == 1).then(|| json.parse().ok())??;
///         Some(Self { cents: euros * 100 })
///     }
/// }
///
/// let outcome = Charge { cents: 1_200 }.to_outcome(1024);
/// assert_eq!(Charge::from_outcome(&outcome), Ok(Charge { cents: 1_200 }));
/// assert!(String::from_outcome(&outcome).is_err(), "another type");
/// ```
pub trait Typed: Serialize + DeserializeOwned {
    /// The name of the type, which stays the same when the Rust type is renamed or moved.
    const TYPE: &'static str;

    /// The version of the written form.
    const VERSION: u32;

    /// Reads the JSON of a value that was written under another version. `None` refuses it, which is
    /// the default.
    fn upgrade(version: u32, json: &str) -> Option<Self> {
        let (_, _) = (version, json);
        None
    }
}

impl<T: Typed> Remember for T {
    fn to_outcome(&self, limit_bytes: usize) -> Outcome {
        write(T::TYPE, T::VERSION, self, limit_bytes)
    }

    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable> {
        read(outcome, T::TYPE, T::VERSION, T::upgrade)
    }
}

impl<T: Typed> Remember for Vec<T> {
    fn to_outcome(&self, limit_bytes: usize) -> Outcome {
        write(&list_of(T::TYPE), T::VERSION, self, limit_bytes)
    }

    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable> {
        read(outcome, &list_of(T::TYPE), T::VERSION, |version, json| {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            items
                .into_iter()
                .map(|item| T::upgrade(version, item.get()))
                .collect()
        })
    }
}

impl<T: Typed> Remember for Option<T> {
    fn to_outcome(&self, limit_bytes: usize) -> Outcome {
        write(&option_of(T::TYPE), T::VERSION, self, limit_bytes)
    }

    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable> {
        read(outcome, &option_of(T::TYPE), T::VERSION, |version, json| {
            if json == "null" {
                return Some(None);
            }
            T::upgrade(version, json).map(Some)
        })
    }
}

impl Remember for Bytes {
    fn to_outcome(&self, limit_bytes: usize) -> Outcome {
        Outcome::raw(self.clone(), limit_bytes)
    }

    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable> {
        match outcome {
            Outcome::Kept { codec: 0, bytes } => Ok(bytes.clone()),
            Outcome::Kept { .. } => Err(other_than("raw bytes", outcome)),
            Outcome::TooLarge { .. } => Err(too_large(outcome)),
        }
    }
}

macro_rules! typed {
    ($($type:ty = $name:literal)+) => {
        $(impl Typed for $type {
            const TYPE: &'static str = $name;
            const VERSION: u32 = 1;
        })+
    };
}

// One name for all whole numbers: a number that does not fit cannot be read.
typed! {
    () = "null" bool = "bool" String = "string"
    u8 = "integer" u16 = "integer" u32 = "integer" u64 = "integer" u128 = "integer" usize = "integer"
    i8 = "integer" i16 = "integer" i32 = "integer" i64 = "integer" i128 = "integer" isize = "integer"
    f32 = "f32" f64 = "f64" serde_json::Value = "json"
}

/// The reason why an outcome on record is not the value that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It was written as another type or version.
    Other {
        /// The form on record: a type and its version, or a codec.
        found: Box<str>,
        /// The form that was asked for.
        wanted: Box<str>,
    },
    /// Its record names this type and version, but it cannot be read as such: the type was changed
    /// without a new version, or the value could not be written in the first place.
    Broken {
        /// The type and its version.
        wanted: Box<str>,
        /// The reason why it cannot be read.
        why: Box<str>,
    },
    /// It was larger than the limit when it was recorded, so only its length and digest were kept.
    TooLarge {
        /// Its length in bytes.
        len_bytes: u64,
        /// Its BLAKE3-256.
        digest: [u8; 32],
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { found, wanted } => {
                write!(f, "the outcome on record is {found}, not {wanted}")
            }
            Self::Broken { wanted, why } => {
                write!(f, "the outcome on record does not read as {wanted}: {why}")
            }
            Self::TooLarge { len_bytes, .. } => {
                write!(
                    f,
                    "the outcome was not kept: {len_bytes} bytes were over the limit"
                )
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// The written form of a typed outcome. Without a value: it could not be written.
#[derive(Serialize)]
struct Written<'a, T> {
    r#type: &'a str,
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a T>,
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    version: u32,
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'a RawValue>,
}

/// Reads a value, and counts `null` as one.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

fn write<T: Serialize>(name: &str, version: u32, value: &T, limit_bytes: usize) -> Outcome {
    let written = |value| {
        let r#type = name;
        serde_json::to_vec(&Written {
            r#type,
            version,
            value,
        })
    };
    // The effect happened, so an outcome without a value is better than none.
    let bytes = written(Some(value))
        .or_else(|_| written(None))
        .unwrap_or_default();
    match Outcome::raw(bytes.into(), limit_bytes) {
        Outcome::Kept { bytes, .. } => Outcome::Kept {
            codec: TYPED_JSON,
            bytes,
        },
        too_large @ Outcome::TooLarge { .. } => too_large,
    }
}

fn read<T: DeserializeOwned>(
    outcome: &Outcome,
    name: &str,
    version: u32,
    upgrade: impl FnOnce(u32, &str) -> Option<T>,
) -> Result<T, Unreadable> {
    let wanted = || named(name, version);
    let broken = |why: String| Unreadable::Broken {
        wanted: wanted(),
        why: why.into(),
    };
    let bytes = match outcome {
        Outcome::Kept {
            codec: TYPED_JSON,
            bytes,
        } => bytes,
        Outcome::Kept { bytes, .. } if semel_core::planted("O02") => {
            return serde_json::from_slice(bytes).map_err(|why| broken(why.to_string()));
        }
        Outcome::Kept { .. } => return Err(other_than(&wanted(), outcome)),
        Outcome::TooLarge { .. } => return Err(too_large(outcome)),
    };
    let read: Read<'_> = serde_json::from_slice(bytes).map_err(|why| broken(why.to_string()))?;
    let refused = || Unreadable::Other {
        found: named(&read.r#type, read.version),
        wanted: wanted(),
    };
    if read.r#type != name && !semel_core::planted("O02") {
        return Err(refused());
    }
    let Some(value) = read.value else {
        return Err(broken("the value could not be written".to_owned()));
    };
    if read.version != version && !semel_core::planted("O02") {
        return upgrade(read.version, value.get()).ok_or_else(refused);
    }
    serde_json::from_str(value.get()).map_err(|why| broken(why.to_string()))
}

fn other_than(wanted: &str, outcome: &Outcome) -> Unreadable {
    let found = match outcome {
        Outcome::Kept { codec: 0, .. } => "raw bytes".into(),
        Outcome::Kept {
            codec: TYPED_JSON,
            bytes,
        } => match serde_json::from_slice::<Read<'_>>(bytes) {
            Ok(read) => named(&read.r#type, read.version),
            Err(_) => "damaged JSON".into(),
        },
        Outcome::Kept { codec, .. } => format!("of codec {codec}").into(),
        Outcome::TooLarge { .. } => "too large to be kept".into(),
    };
    Unreadable::Other {
        found,
        wanted: wanted.into(),
    }
}

fn too_large(outcome: &Outcome) -> Unreadable {
    match outcome {
        Outcome::TooLarge { len_bytes, digest } => Unreadable::TooLarge {
            len_bytes: *len_bytes,
            digest: *digest,
        },
        Outcome::Kept { .. } => other_than("a kept outcome", outcome),
    }
}

fn named(name: &str, version: u32) -> Box<str> {
    format!("`{name}` version {version}").into()
}

fn list_of(name: &str) -> String {
    format!("[{name}]")
}

fn option_of(name: &str) -> String {
    format!("{name}?")
}

#[cfg(test)]
mod tests;
