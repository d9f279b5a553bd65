//! Accepts connections, and drains them.
//!
//! The order of a stop: `/readyz` says no and nobody is let in, open requests end, sockets are told to come back
//! elsewhere (the hub), and after `api.drain_ms` the process goes whatever still runs. Nothing accepted is lost by that:
//! it stands in MySQL.
//!
//! An own accept loop, since it bounds what a ready-made one leaves open: connections, and the time to send a head.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::app::App;

/// A burst of a thousand clients connects while the accept loop is busy once.
const BACKLOG: i32 = 4096;
/// A connection whose next request has not come by then is closed; proxies keep idle ones for 60 s.
const IDLE_MAX: Duration = Duration::from_secs(75);
/// Pause after an accept that failed, since the usual reason is a full table of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens on `address`. Needs a runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until the app's shutdown, then drains. Returns whether everything ended within `api.drain_ms`.
pub async fn serve(app: &App, router: Router, listener: TcpListener) -> bool {
    let settings = app.settings.now();
    let places_max = settings.api.requests_max.saturating_add(settings.events.sockets_max);
    let places = Arc::new(Semaphore::new(places_max));
    let shutdown = app.shutdown.clone();
    // The listener is dropped with the loop, so that whoever connects now goes to another door.
    shutdown.run_until_cancelled(accept_all(app, router, listener, places)).await;
    app.tracker.close();
    let is_drained = timeout(app.settings.now().api.drain, app.tracker.wait()).await.is_ok();
    if !is_drained {
        tracing::warn!(open = app.tracker.len(), "the drain took longer than api.drain_ms; what is open is dropped");
    }
    is_drained
}

async fn accept_all(app: &App, router: Router, listener: TcpListener, places: Arc<Semaphore>) {
    let mut is_failing = false;
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                is_failing = false;
                app.tracker.spawn(converse(app.clone(), router.clone(), stream, place));
            }
            // One line a change of state.
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "connections cannot be accepted");
                }
                is_failing = true;
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the requests of one connection, until it ends or is upgraded to a socket.
async fn converse(app: App, router: Router, stream: TcpStream, _place: OwnedSemaphorePermit) {
    // Events are small and each counts; Nagle would hold them back.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection went before it was served");
        return;
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
