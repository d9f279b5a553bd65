//! One try of one delivery, and what it comes to.

use std::error::Error;
use std::time::Duration;

use penstock_config::Webhook;
use penstock_protocol::clock;
use penstock_store::{TaskRow, WebhookRow, WebhookSecrets, WebhookSettle};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::back_off::pause;
use crate::metrics::Outcome;
use crate::signature::{ID, SIGNATURE, TIMESTAMP, message_id, sign};
use crate::{Target, payload};

/// Tries that are remembered of one delivery.
const LOG_MAX: usize = 10;
/// Longest text of an error in the log.
const ERROR_CHARS_MAX: usize = 200;
/// An armed delivery is looked at again after as long as it is old, within these bounds.
const LOOK_MS_MIN: u64 = 60_000;
const LOOK_MS_MAX: u64 = 3_600_000;

/// One try, as the log of a delivery has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// When it ended, by the clock of the process that made it.
    pub at_ms: u64,
    /// How long it took.
    pub took_ms: u64,
    /// The target's status, if it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Try {
    /// The tries that a delivery remembers.
    #[must_use]
    pub fn read(log: Option<&str>) -> Vec<Self> {
        log.and_then(|log| serde_json::from_str(log).ok()).unwrap_or_default()
    }
}

/// How a target answered.
enum Answer {
    Taken,
    /// With the time that it asks for.
    NotNow(Option<Duration>),
    /// It wants nothing any more.
    Never,
}

/// What is to be done about a claimed delivery before anything is sent.
pub(crate) fn due(row: &WebhookRow, task: Option<&TaskRow>) -> Result<(), (WebhookSettle, Outcome)> {
    let Some(task) = task else {
        return Err((WebhookSettle::Done { state: "failed", log: None }, Outcome::Failed));
    };
    if !task.status.is_terminal() {
        let after_ms = row.now_ms.saturating_sub(row.created_ms).clamp(LOOK_MS_MIN, LOOK_MS_MAX);
        return Err((WebhookSettle::Armed { after_ms }, Outcome::Postponed));
    }
    if !row.events.split(',').any(|event| event == task.status.as_str()) {
        return Err((WebhookSettle::Done { state: "skipped", log: None }, Outcome::Skipped));
    }
    Ok(())
}

/// Sends a delivery once.
pub(crate) async fn deliver(
    client: &Client,
    settings: &Webhook,
    row: &WebhookRow,
    task: &TaskRow,
    secrets: Option<&WebhookSecrets>,
) -> (WebhookSettle, Outcome) {
    let began = Instant::now();
    let sent = send(client, settings, row, task, secrets).await;
    let (answer, status, error) = match sent {
        Ok(response) => (answer_of(&response), Some(response.status().as_u16()), None),
        Err(error) => (Answer::NotNow(None), None, Some(error)),
    };
    let mut tries = Try::read(row.log.as_deref());
    tries.push(Try {
        at_ms: clock::wall_ms(),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        status,
        error,
    });
    tries.drain(..tries.len().saturating_sub(LOG_MAX));
    let log = serde_json::to_string(&tries).unwrap_or_default();
    let spent_ms = row.now_ms.saturating_sub(row.first_try_ms.unwrap_or(row.now_ms));
    let is_over = row.tries + 1 >= settings.tries_max || u128::from(spent_ms) >= settings.give_up.as_millis();
    match answer {
        Answer::Taken => (WebhookSettle::Done { state: "delivered", log: Some(log) }, Outcome::Delivered),
        Answer::NotNow(asked) if !is_over => {
            let pause = pause(settings, row.tries, asked).as_millis();
            (WebhookSettle::Again { after_ms: u64::try_from(pause).unwrap_or(u64::MAX), log }, Outcome::Retried)
        }
        Answer::NotNow(_) | Answer::Never => {
            tracing::warn!(task.id = %row.key, tries = row.tries + 1, "a webhook delivery was given up");
            (WebhookSettle::Done { state: "failed", log: Some(log) }, Outcome::Failed)
        }
    }
}

/// The error's text names no secret: it is the target's or the network's.
async fn send(
    client: &Client,
    settings: &Webhook,
    row: &WebhookRow,
    task: &TaskRow,
    secrets: Option<&WebhookSecrets>,
) -> Result<Response, String> {
    let target = Target::parse(&row.url).map_err(|error| error.to_string())?;
    target.judge(settings).map_err(|error| error.to_string())?;
    let secrets = secrets.ok_or("the tenant has no webhook secret")?;
    let body = payload::of(task).map_err(|error| error.to_string())?;
    let id = message_id(row.id);
    // The moment is the database's: a receiver refuses what is minutes away from its own clock.
    let timestamp_s = row.now_ms / 1000;
    let signature = sign(secrets, &id, timestamp_s, &body);
    let request = client
        .post(target.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ID, &id)
        .header(TIMESTAMP, timestamp_s)
        .header(SIGNATURE, signature)
        .body(body);
    // The body of the answer is never read; dropping the answer closes the connection.
    request.send().await.map_err(|error| text_of(&error.without_url()))
}

fn answer_of(response: &Response) -> Answer {
    match response.status().as_u16() {
        200..300 => Answer::Taken,
        410 => Answer::Never,
        _ => {
            let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Answer::NotNow(asked.map(Duration::from_secs))
        }
    }
}

fn text_of(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(below) = cause {
        text = format!("{text}: {below}");
        cause = below.source();
    }
    text.chars().take(ERROR_CHARS_MAX).collect()
}
