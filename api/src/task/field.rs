//! Fields that are more than text or number: they cannot be wrong once read.

use serde::{Deserialize, Deserializer, Serialize};

/// Longest deadline and longest accepted wait: 30 days.
const MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// Longest name of an end user, in characters.
const USER_CHARS_MAX: usize = 128;

/// An end user of a tenant: 1 to 128 characters, none of them a control character or `|` (which separates fields in
/// Redis).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, min_length = 1, max_length = 128)]
pub struct UserName(String);

/// Head start in the tenant's own line: 0 (none) to 9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schema(value_type = u8, minimum = 0, maximum = 9)]
pub struct Priority(u8);

/// What becomes of a task when nobody watches it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Continue,
    /// It is cancelled once its last watcher has been gone for `events.disconnect_grace_ms`.
    Cancel,
}

impl OnDisconnect {
    /// Whether the task goes on.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::Continue
    }
}

/// What a task does whose thread is busy with another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBusyThread {
    /// It waits until the others have ended, in order of acceptance.
    #[default]
    Queue,
    /// It is not taken: 409 `thread_busy`.
    Reject,
    /// The others are cancelled, and it runs next.
    Interrupt,
}

impl OnBusyThread {
    /// Whether it is what is done without being asked for.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::Queue
    }
}

/// Why a field was not taken.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// Not a user name.
    #[error("a user is named by 1 to {USER_CHARS_MAX} characters, without control characters and `|`")]
    User,
    /// Not a priority.
    #[error("a priority is 0 to 9")]
    Priority,
}

impl UserName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl TryFrom<String> for UserName {
    type Error = FieldError;

    fn try_from(name: String) -> Result<Self, FieldError> {
        let is_name = (1..=USER_CHARS_MAX).contains(&name.chars().count())
            && !name.chars().any(|character| character.is_control() || character == '|');
        if is_name { Ok(Self(name)) } else { Err(FieldError::User) }
    }
}

impl From<UserName> for String {
    fn from(user: UserName) -> Self {
        user.0
    }
}

impl Priority {
    /// The number.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// Whether there is no head start.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0 == 0
    }
}

impl TryFrom<u8> for Priority {
    type Error = FieldError;

    fn try_from(number: u8) -> Result<Self, FieldError> {
        if number <= 9 { Ok(Self(number)) } else { Err(FieldError::Priority) }
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

/// Reads a time that a caller allows: 1 ms to 30 days.
pub(crate) fn allowed_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(from)? {
        Some(ms) if !(1..=MS_MAX).contains(&ms) => {
            Err(serde::de::Error::custom(format_args!("a time is 1 to {MS_MAX} ms")))
        }
        ms => Ok(ms),
    }
}
