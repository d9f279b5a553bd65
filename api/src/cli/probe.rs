//! `penstock-api probe URL`: what a container's health check needs, without another program in the image.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, bail};

const TIME_MAX: Duration = Duration::from_secs(5);
/// Longest status line that is read.
const HEAD_BYTES_MAX: u64 = 256;

/// Sends a GET. Errors: no answer in 5 s, or one that is not 2xx.
pub(super) fn run(url: &str) -> anyhow::Result<()> {
    let rest = url.strip_prefix("http://").context("only http:// URLs can be probed")?;
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let target = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    let address = target.to_socket_addrs()?.next().with_context(|| format!("{target} has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, TIME_MAX)?;
    stream.set_read_timeout(Some(TIME_MAX))?;
    stream.set_write_timeout(Some(TIME_MAX))?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    stream.take(HEAD_BYTES_MAX).read_to_end(&mut head)?;
    let head = String::from_utf8_lossy(&head);
    let status = head.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    if status.len() == 3 && status.starts_with('2') { Ok(()) } else { bail!("{url} answered `{status}`") }
}
