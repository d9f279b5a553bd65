//! The connection to Redis, and whether Redis is used at all just now.
//!
//! Law 10: a call waits 50 ms for Redis. One slow or failed call ends the use of Redis for the cool-down; then a probe in the
//! background, on a new connection, must be answered in the same 50 ms before calls go there again. So a silent Redis costs
//! the calls that were under way 50 ms once, and no other call anything. Nothing is ever sent twice: a take or settle whose
//! answer was lost may have worked.

use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value, cmd};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::library::LIBRARY;

/// Detail of the answer of a server that does not know the scripts.
const NO_FUNCTION: &str = "Function not found";

/// Address and patience.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    pub(crate) client: Client,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) cool_down: Duration,
}

/// Why Redis gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// It is not asked just now; this cost nothing.
    #[error("redis is left alone for now")]
    Resting,
    /// No answer in time.
    #[error("redis did not answer within {0:?}")]
    Slow(Duration),
    /// It answered an error, or the connection broke.
    #[error(transparent)]
    Failed(#[from] RedisError),
    /// It answered something that this script never answers.
    #[error("redis answered `{0}` with something else than the script says")]
    Answer(&'static str),
}

/// A handle on the connection; all clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: LinkSettings,
    state: watch::Sender<State>,
    /// 1 while limits are kept in this process.
    is_local: Gauge,
    trips: Counter,
}

#[derive(Clone)]
enum State {
    /// Nothing was asked yet, so nothing is connected.
    New,
    /// The first connection is being made.
    Opening,
    Up {
        generation: u64,
        connection: MultiplexedConnection,
    },
    /// Left alone; the number of the connection that failed.
    Down {
        generation: u64,
    },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::New => "New",
            Self::Opening => "Opening",
            Self::Up { .. } => "Up",
            Self::Down { .. } => "Down",
        })
    }
}

impl Link {
    /// Connects when it is first used.
    pub(crate) fn new(settings: LinkSettings, is_local: Gauge, trips: Counter) -> Self {
        Self { inner: Arc::new(Inner { settings, state: watch::Sender::new(State::New), is_local, trips }) }
    }

    /// Sends one command, once. Must not be dropped by a caller who needs to know whether it worked.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, LinkError> {
        let (generation, mut connection) = self.connection().await?;
        let answer = timeout(self.inner.settings.call_timeout, connection.req_packed_command(command)).await;
        self.judged(generation, answer.map(|answer| answer.and_then(Value::extract_error)))
    }

    /// Sends commands in one go; each answer stands in its place, errors too.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let (generation, mut connection) = self.connection().await?;
        let count = commands.len();
        let answer =
            timeout(self.inner.settings.call_timeout, connection.req_packed_commands(commands, 0, count)).await;
        self.judged(generation, answer)
    }

    /// Leaves Redis alone because of an answer that cannot be right.
    pub(crate) fn reject(&self, error: &LinkError) {
        if let State::Up { generation, .. } = *self.inner.state.borrow() {
            self.inner.trip(generation, error);
        }
    }

    /// Whether calls go to Redis now.
    #[cfg(test)]
    pub(crate) fn is_up(&self) -> bool {
        matches!(*self.inner.state.borrow(), State::Up { .. })
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), LinkError> {
        if let State::Up { generation, connection } = &*self.inner.state.borrow() {
            return Ok((*generation, connection.clone()));
        }
        let is_first = self.inner.state.send_if_modified(|state| {
            let is_new = matches!(state, State::New);
            if is_new {
                *state = State::Opening;
            }
            is_new
        });
        if is_first {
            tokio::spawn(mend(Arc::downgrade(&self.inner), Duration::ZERO));
        }
        let mut state = self.inner.state.subscribe();
        let opened = state.wait_for(|state| !matches!(state, State::New | State::Opening));
        match timeout(self.inner.settings.call_timeout, opened).await {
            Ok(Ok(state)) => match &*state {
                State::Up { generation, connection } => Ok((*generation, connection.clone())),
                _ => Err(LinkError::Resting),
            },
            Ok(Err(_)) => Err(LinkError::Resting),
            Err(_) => {
                let error = LinkError::Slow(self.inner.settings.call_timeout);
                self.inner.rest(&error, |state| {
                    let is_opening = matches!(state, State::Opening);
                    if is_opening {
                        *state = State::Down { generation: 0 };
                    }
                    is_opening
                });
                Err(error)
            }
        }
    }

    fn judged<T>(
        &self,
        generation: u64,
        answer: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, LinkError> {
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(cause)) => LinkError::Failed(cause),
            Err(_) => LinkError::Slow(self.inner.settings.call_timeout),
        };
        self.inner.trip(generation, &error);
        Err(error)
    }
}

impl Inner {
    /// Ends the use of the connection `generation`; later reports of it change nothing.
    fn trip(self: &Arc<Self>, generation: u64, error: &LinkError) {
        let is_news = self.rest(error, |state| {
            let is_live = matches!(state, State::Up { generation: live, .. } if *live == generation);
            if is_live {
                *state = State::Down { generation };
            }
            is_live
        });
        if !is_news {
            return;
        }
        // A server that lost the scripts (it was replaced), or that closed an idle connection, is asked again at once.
        let is_mended_at_once = matches!(error, LinkError::Failed(cause)
            if cause.detail() == Some(NO_FUNCTION) || cause.is_unrecoverable_error());
        let pause = if is_mended_at_once { Duration::ZERO } else { self.settings.cool_down };
        tokio::spawn(mend(Arc::downgrade(self), pause));
    }

    /// Leaves Redis alone if `change` says that this is news; one line in the log for it.
    fn rest(&self, error: &LinkError, change: impl FnOnce(&mut State) -> bool) -> bool {
        let is_news = self.state.send_if_modified(change);
        if is_news {
            self.trips.inc();
            self.is_local.set(1);
            tracing::warn!(%error, "redis is in trouble: limits are kept in this process");
        }
        is_news
    }
}

/// Makes a new connection after `pause`, and again after each cool-down until one is good. Ends with its link.
async fn mend(link: Weak<Inner>, mut pause: Duration) {
    loop {
        sleep(pause).await;
        let Some(inner) = link.upgrade() else { return };
        let generation = match &*inner.state.borrow() {
            State::Down { generation } => generation + 1,
            _ => 0,
        };
        match open(&inner.settings).await {
            Ok(connection) => {
                let before = inner.state.send_replace(State::Up { generation, connection });
                inner.is_local.set(0);
                if matches!(before, State::Down { .. }) {
                    tracing::info!("redis answers again: limits are shared by all processes");
                }
                return;
            }
            Err(error) => {
                // Only the first connection is news; any other one was down before.
                inner.rest(&error, |state| {
                    let is_first = matches!(state, State::Opening);
                    *state = State::Down { generation };
                    is_first
                });
                pause = inner.settings.cool_down;
            }
        }
    }
}

/// A connection whose server knows the scripts and answers in time.
async fn open(settings: &LinkSettings) -> Result<MultiplexedConnection, LinkError> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(settings.connect_timeout)).set_response_timeout(None);
    let opening = async {
        let mut connection = settings.client.get_multiplexed_async_connection_with_config(&config).await?;
        if let Err(cause) = probe(&mut connection).await {
            if cause.detail() != Some(NO_FUNCTION) {
                return Err(cause);
            }
            let mut load = cmd("FUNCTION");
            load.arg("LOAD").arg("REPLACE").arg(&LIBRARY.source);
            connection.req_packed_command(&load).await?.extract_error()?;
        }
        Ok(connection)
    };
    // The first answers bear the connection and the scripts; what counts is how fast the next one is.
    let mut connection = timeout(settings.connect_timeout * 2, opening)
        .await
        .map_err(|_| LinkError::Slow(settings.connect_timeout * 2))??;
    timeout(settings.call_timeout, probe(&mut connection))
        .await
        .map_err(|_| LinkError::Slow(settings.call_timeout))??;
    Ok(connection)
}

async fn probe(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let mut probe = cmd("FCALL");
    probe.arg(&LIBRARY.probe).arg(0);
    connection.req_packed_command(&probe).await?.extract_error().map(drop)
}
