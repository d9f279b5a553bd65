//! Where processes tell each other about breakers: orders of operators, trips, and what each process sees.
//!
//! Everything here expires by itself in Redis, so no clocks are compared (law 11) and nothing is left behind: an order ends
//! when its time is over, a trip when it is due, and a process that is gone is not listed. Nobody waits for the board: it is
//! read once a second, beside the calls.
//!
//! Keys, in one hash slot, prefix `{<deployment>:board}:`
//! | key | kind | what |
//! | --- | --- | --- |
//! | `order:<name>` | string, PX | `tripped` or `closed`: every process holds the breakers of this name so |
//! | `trip:<name>` | string, PX | `1`: a process found this out of order, for as long as the key lives |
//! | `process:<id>` | string, PX | what this process sees, as JSON |
//! | `processes` | set | ids that may have such a key |

use std::time::Duration;

use penstock_config::Settings;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, Pipeline, RedisError, pipe};
use secrecy::ExposeSecret;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Why the board could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// No answer in time.
    #[error("redis did not answer within {} ms", .limit.as_millis())]
    Slow {
        /// The time.
        limit: Duration,
    },
    /// It answered an error, or the connection broke.
    #[error(transparent)]
    Failed(#[from] RedisError),
}

/// What an operator orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// No call passes; else all pass.
    pub is_tripped: bool,
    /// How long it still holds.
    pub left: Duration,
}

/// What the board says about one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The order in force.
    pub order: Option<Order>,
    /// How long a trip that some process told still holds.
    pub trip: Option<Duration>,
}

/// The board of a deployment. One call at a time.
#[derive(Debug)]
pub struct Board {
    client: Client,
    prefix: String,
    connect_timeout: Duration,
    /// Longest wait for an answer.
    limit: Duration,
    /// Made when it is needed, and made anew after an error.
    connection: Mutex<Option<MultiplexedConnection>>,
}

const TRIPPED: &str = "tripped";
const CLOSED: &str = "closed";

impl Board {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// When the Redis URL cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, BoardError> {
        Ok(Self {
            client: Client::open(settings.redis.url.expose_secret())?,
            prefix: format!("{{{}:board}}:", settings.deployment.id),
            connect_timeout: settings.redis.connect_timeout,
            limit: settings.redis.script_timeout,
            connection: Mutex::default(),
        })
    }

    /// What it says about each of `names`, in their order.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn read(&self, names: &[String]) -> Result<Vec<Notice>, BoardError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = pipe();
        for name in names {
            let (order, trip) = (self.key("order", name), self.key("trip", name));
            pipeline.get(&order).cmd("PTTL").arg(&order).cmd("PTTL").arg(&trip);
        }
        let answers: Vec<redis::Value> = self.send(&pipeline).await?;
        answers.chunks(3).map(Notice::read).collect::<Result<_, _>>().map_err(Into::into)
    }

    /// Holds the breakers of `name` in a state, in every process, within about a second and for `hold`.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn order(&self, name: &str, is_tripped: bool, hold: Duration) -> Result<(), BoardError> {
        let word = if is_tripped { TRIPPED } else { CLOSED };
        self.send(pipe().pset_ex(self.key("order", name), word, whole_ms(hold)).ignore()).await
    }

    /// Takes an order back, and what trips were told: every process goes by its own state again. Whether there was an order.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn release(&self, name: &str) -> Result<bool, BoardError> {
        let (removed,): (u64,) = self.send(pipe().del(self.key("order", name))).await?;
        Ok(removed > 0)
    }

    /// Tells every process of a trip that this one found out.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn tell_trip(&self, name: &str, left: Duration) -> Result<(), BoardError> {
        self.send(pipe().pset_ex(self.key("trip", name), 1, whole_ms(left)).ignore()).await
    }

    /// Shows what this process sees, for `keep`.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn show(&self, process: &str, json: &str, keep: Duration) -> Result<(), BoardError> {
        let mut pipeline = pipe();
        pipeline.pset_ex(self.key("process", process), json, whole_ms(keep)).ignore();
        pipeline.sadd(self.processes(), process).ignore();
        self.send(&pipeline).await
    }

    /// What each living process sees: its id and its JSON.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn shown(&self) -> Result<Vec<(String, String)>, BoardError> {
        let (mut ids,): (Vec<String>,) = self.send(pipe().smembers(self.processes())).await?;
        ids.sort();
        let mut pipeline = pipe();
        for id in &ids {
            pipeline.get(self.key("process", id));
        }
        let shown: Vec<Option<String>> = if ids.is_empty() { Vec::new() } else { self.send(&pipeline).await? };
        let (living, gone): (Vec<_>, Vec<_>) = ids.into_iter().zip(shown).partition(|(_, json)| json.is_some());
        if !gone.is_empty() {
            let gone: Vec<_> = gone.into_iter().map(|(id, _)| id).collect();
            let () = self.send(pipe().srem(self.processes(), gone).ignore()).await?;
        }
        Ok(living.into_iter().filter_map(|(id, json)| Some((id, json?))).collect())
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}:{name}", self.prefix)
    }

    fn processes(&self) -> String {
        format!("{}processes", self.prefix)
    }

    async fn send<T: FromRedisValue>(&self, pipeline: &Pipeline) -> Result<T, BoardError> {
        let mut held = self.connection.lock().await;
        // Taken, so that a call that is given up or fails leaves no connection in an unknown state behind.
        let connection = held.take();
        let work = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let answer = pipeline.query_async(&mut connection).await?;
            Ok::<_, RedisError>((connection, answer))
        };
        let (connection, answer) =
            timeout(self.limit, work).await.map_err(|_| BoardError::Slow { limit: self.limit })??;
        *held = Some(connection);
        Ok(answer)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.limit));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}

impl Notice {
    /// Reads the answers to GET and PTTL of an order and PTTL of a trip.
    fn read(answers: &[redis::Value]) -> Result<Self, RedisError> {
        let [word, order_left, trip_left] = answers else { return Ok(Self::default()) };
        let word: Option<String> = redis::from_redis_value_ref(word)?;
        let left = |value: &redis::Value| -> Result<Option<Duration>, RedisError> {
            let ms: i64 = redis::from_redis_value_ref(value)?;
            // Negative: no such key.
            Ok(u64::try_from(ms).ok().map(Duration::from_millis))
        };
        let order = word.zip(left(order_left)?).map(|(word, left)| Order { is_tripped: word == TRIPPED, left });
        Ok(Self { order, trip: left(trip_left)? })
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}
