//! A wire between a door and a server that can be frozen and cut, as networks are. The server behind it is real.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Open,
    /// Nothing passes.
    Frozen,
    /// The server hears everything and its answers do not pass.
    Unanswered,
}

/// One wire; it ends with the test.
pub(crate) struct Pipe {
    address: SocketAddr,
    flow: watch::Sender<Flow>,
    cut: watch::Sender<CancellationToken>,
    bytes: Arc<AtomicUsize>,
}

impl Pipe {
    /// A wire to the server of `url`; returns it with the URL that leads through it.
    pub(crate) async fn to(url: &str) -> (Self, String) {
        let rest = url.split("://").nth(1).unwrap();
        let authority = rest.split('/').next().unwrap();
        let target = authority.rsplit('@').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let through = url.replace(&target, &address.to_string());
        let (flow, flowing) = watch::channel(Flow::Open);
        let (cut, cutting) = watch::channel(CancellationToken::new());
        let bytes = Arc::new(AtomicUsize::new(0));
        tokio::spawn({
            let bytes = Arc::clone(&bytes);
            async move {
                while let Ok((near, _)) = listener.accept().await {
                    let (flowing, cut, bytes) = (flowing.clone(), cutting.borrow().clone(), Arc::clone(&bytes));
                    let target = target.clone();
                    tokio::spawn(async move {
                        let Ok(far) = TcpStream::connect(target).await else { return };
                        let (near_reads, near_writes) = near.into_split();
                        let (far_reads, far_writes) = far.into_split();
                        let there = carry(near_reads, far_writes, flowing.clone(), Flow::Frozen, Arc::clone(&bytes));
                        let back = carry(far_reads, near_writes, flowing, Flow::Unanswered, bytes);
                        tokio::select! {
                            () = cut.cancelled() => {}
                            () = there => {}
                            () = back => {}
                        }
                    });
                }
            }
        });
        (Self { address, flow, cut, bytes }, through)
    }

    /// Nothing passes any more, and no connection breaks: the server is silent.
    pub(crate) fn freeze(&self) {
        self.flow.send_replace(Flow::Frozen);
    }

    /// What the server is told passes, and its answers do not.
    pub(crate) fn hold_answers(&self) {
        self.flow.send_replace(Flow::Unanswered);
    }

    /// What was held passes.
    pub(crate) fn thaw(&self) {
        self.flow.send_replace(Flow::Open);
    }

    /// Breaks every connection; new ones are made.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(CancellationToken::new()).cancel();
    }

    /// Bytes that passed, both ways.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
    held_by: Flow,
    bytes: Arc<AtomicUsize>,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if flow.wait_for(|flow| *flow != Flow::Frozen && *flow != held_by).await.is_err() {
            return;
        }
        bytes.fetch_add(length, Ordering::Relaxed);
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
