//! Routes and status classes as labels: a closed list, whatever clients send.

use axum::http::StatusCode;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

macro_rules! routes {
    ($($name:ident = $path:literal,)+) => {
        /// A route of the door.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each stands beside its path")]
        pub enum Route {
            $($name,)+
            Other,
        }

        impl Route {
            /// The route that was matched; `Other` for what no route matched.
            #[must_use]
            pub fn of(matched: Option<&str>) -> Self {
                match matched {
                    $(Some($path) => Self::$name,)+
                    _ => Self::Other,
                }
            }

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $path,)+
                    Self::Other => "other",
                }
            }
        }
    };
}

routes! {
    Tasks = "/api/task",
    Task = "/api/task/{id}",
    TaskWebSocket = "/api/task/{id}/ws",
    TaskEvents = "/api/task/{id}/events",
    WebSocket = "/api/ws",
    Ticket = "/api/ticket",
    Agui = "/api/agui/{agent}",
    Replay = "/api/task/{id}/replay",
    Dead = "/api/dead",
    DeadReplay = "/api/dead/replay",
    Queue = "/api/queue",
    OpenApi = "/openapi.json",
    Health = "/healthz",
    Ready = "/readyz",
    Metrics = "/metrics",
}

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        super::write_label(self.as_str(), encoder)
    }
}

/// The first digit of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusClass {
    /// 101: a socket was opened.
    Informational,
    /// 2xx.
    Success,
    /// 3xx.
    Redirect,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
}

impl From<StatusCode> for StatusClass {
    fn from(status: StatusCode) -> Self {
        match status.as_u16() {
            0..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirect,
            400..500 => Self::ClientError,
            500.. => Self::ServerError,
        }
    }
}

impl EncodeLabelValue for StatusClass {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let text = match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirect => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
        };
        super::write_label(text, encoder)
    }
}
