//! A TCP proxy between two parts, which can be cut or stalled: the network as a fault.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Bytes pass.
    Up,
    /// Connections are closed, and new ones at once.
    Cut,
    /// Connections stay open and nothing passes: packets are dropped, not refused.
    Stalled,
}

/// A proxy on a free port.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Port to connect to.
    pub(crate) port: u16,
    link: Arc<watch::Sender<Link>>,
}

impl Proxy {
    /// Listens on a free port and passes everything to `target`.
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let link = Arc::new(watch::Sender::new(Link::Up));
        let set = Arc::clone(&link);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, target, set.subscribe()));
            }
        });
        Self { port, link }
    }

    /// Cuts, stalls or mends the link.
    pub(crate) fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

async fn pass(client: TcpStream, target: u16, link: watch::Receiver<Link>) {
    if *link.borrow() == Link::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    // Errors of socket options change nothing that a test looks at.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((client_read, client_write), (server_read, server_write)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(client_read, server_write, link.clone()) => {}
        () = copy(server_read, client_write, link) => {}
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = tokio::select! {
            cut = link.wait_for(|link| *link == Link::Cut) => { drop(cut); return }
            read = from.read(&mut buffer) => read,
        };
        let Ok(count @ 1..) = read else { return };
        match link.wait_for(|link| *link != Link::Stalled).await.map(|link| *link) {
            Ok(Link::Up) => {}
            _ => return,
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
