//! Where the end of a task is told: as the request says, else as the tenant's default says.

use penstock_config::Webhook;
use penstock_store::NewWebhook;
use penstock_webhook::{Target, TargetError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::Caller;
use crate::error::Problem;

/// The `webhook` of a request. What it leaves out comes from the tenant's default.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// Where the end is told: an absolute https:// URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<WebhookUrl>,
    /// The ends that are told; every one when absent, none when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<EndEvent>>,
}

/// A URL that can be a target, as far as its text tells.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, max_length = 2048)]
pub struct WebhookUrl(Target);

/// A way to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum EndEvent {
    /// It has a result.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed.
    Expired,
}

impl EndEvent {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::Cancelled, Self::Expired];

    /// The status's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The stored form of a list.
    #[must_use]
    pub fn list(events: &[Self]) -> String {
        let named = Self::ALL.into_iter().filter(|event| events.contains(event)).map(Self::as_str);
        named.collect::<Vec<_>>().join(",")
    }
}

impl TryFrom<String> for WebhookUrl {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        Target::parse(&text).map(Self)
    }
}

impl From<WebhookUrl> for String {
    fn from(url: WebhookUrl) -> Self {
        url.0.as_str().to_owned()
    }
}

impl WebhookUrl {
    /// Errors: a target that is not reached, as far as its text tells.
    pub fn judge(&self, settings: &Webhook) -> Result<(), TargetError> {
        self.0.judge(settings)
    }
}

/// What the row of a task says of its webhook. Errors: 422 for a target that is not reached, or without a secret.
pub(crate) fn resolve(
    settings: &Webhook,
    caller: &Caller,
    request: Option<&WebhookRequest>,
) -> Result<Option<NewWebhook>, Problem> {
    let default = caller.webhook.as_deref();
    let (asked_url, asked_events) = match request {
        Some(request) => (request.url.as_ref(), request.events.as_deref()),
        None => (None, None),
    };
    let events = match (asked_events, default.and_then(|default| default.events.as_deref())) {
        (Some([]), _) => return Ok(None),
        (Some(events), _) => EndEvent::list(events),
        (None, Some(events)) if asked_url.is_none() => events.to_owned(),
        (None, _) => EndEvent::list(&EndEvent::ALL),
    };
    let url = match (asked_url, default.and_then(|default| default.url.as_deref())) {
        (Some(url), _) => {
            url.judge(settings).map_err(|error| Problem::invalid("webhook.url", error.to_string()))?;
            url.0.as_str().to_owned()
        }
        (None, Some(url)) => url.to_owned(),
        (None, None) if request.is_some() => {
            return Err(Problem::invalid("webhook.url", "name a URL; the tenant has no default"));
        }
        (None, None) => return Ok(None),
    };
    if default.is_none() {
        let reason = "the tenant has no webhook secret yet; its operator makes one: penstock-api webhook secret";
        return Err(Problem::invalid("webhook", reason));
    }
    Ok(Some(NewWebhook { url, events }))
}
