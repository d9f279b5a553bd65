//! What a model may use and how it shall answer: tools, the choice among them, the format.

use serde_json::value::RawValue;

use crate::Fields;

/// A tool that a model may call.
#[derive(Clone, Debug)]
pub enum Tool {
    /// A function of the caller's.
    Function(FunctionTool),
    /// A tool of the vendor's own, passed through as it stands.
    Other(Box<RawValue>),
}

/// A function that a model may call.
#[derive(Clone, Debug, Default)]
pub struct FunctionTool {
    /// Name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON schema of its arguments; none: it takes no arguments.
    pub parameters: Option<Box<RawValue>>,
    /// Further members of the function (`strict`).
    pub fields: Fields,
    /// Members beside the function (`cache_control`).
    pub outer_fields: Fields,
}

/// Which tool a model must call.
#[derive(Clone, Debug)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// None.
    None,
    /// Any, but one.
    Required,
    /// This one.
    Function(String),
    /// A choice of the vendor's own, passed through as it stands.
    Other(Box<RawValue>),
}

/// The format of the answer.
#[derive(Clone, Debug)]
pub enum ResponseFormat {
    /// Text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// Name of the schema.
        name: String,
        /// The schema.
        schema: Box<RawValue>,
        /// Further members (`strict`, `description`).
        fields: Fields,
    },
    /// A format of the vendor's own, passed through as it stands.
    Other(Box<RawValue>),
}
