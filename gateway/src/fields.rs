//! Members of a JSON object that pass through unread: order, names and the bytes of each value are kept.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// Members of a JSON object, in order.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// No members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a member last, in place of any of that name.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON.
    pub fn set(&mut self, name: impl Into<String>, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let (name, value) = (name.into(), serde_json::value::to_raw_value(value)?);
        self.0.retain(|(held, _)| *held != name);
        self.0.push((name, value));
        Ok(())
    }

    /// Puts a member last as it stands, in place of any of that name.
    pub fn set_raw(&mut self, name: impl Into<String>, value: Box<RawValue>) {
        let name = name.into();
        self.0.retain(|(held, _)| *held != name);
        self.0.push((name, value));
    }

    /// Takes a member out; `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let position = self.0.iter().position(|(held, _)| held == name)?;
        Some(self.0.remove(position).1).filter(|value| value.get() != "null")
    }

    /// Drops members.
    pub fn remove(&mut self, names: &[&str]) {
        self.0.retain(|(held, _)| !names.contains(&held.as_str()));
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A member read as `T`; `None` when it is absent, `null` or something else.
    #[must_use]
    pub fn read<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str::<Option<T>>(self.get(name)?.get()).ok().flatten()
    }

    /// The bytes of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.iter().find(|(held, _)| *held == name).map(|(_, value)| value)
    }

    /// Name and bytes of every member.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }
}

/// Equal by names, order and bytes.
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.iter().zip(other.iter()).all(|((a, one), (b, two))| a == b && one.get() == two.get())
    }
}

impl Eq for Fields {}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(member) = map.next_entry()? {
                    fields.push(member);
                }
                Ok(Fields(fields))
            }
        }

        from.deserialize_map(Members)
    }
}
