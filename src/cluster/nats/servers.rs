//! Which servers of a broker are off. A client that has reached one of them does not report the
//! others.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

/// How long a server may take to send its greeting.
const PATIENCE: Duration = Duration::from_secs(2);
/// The port, if an address has none.
const PORT: u16 = 4222;
/// What every server sends first, except at `tls://` addresses, where encryption may start first.
const GREETING: &[u8] = b"INFO";

/// The servers that do not answer, each with the reason.
pub async fn silent_servers(servers: &[String]) -> Vec<(String, String)> {
    silent_for(servers, PATIENCE).await
}

async fn silent_for(servers: &[String], patience: Duration) -> Vec<(String, String)> {
    let asked = servers.iter().map(async |server| {
        let why = match timeout(patience, greet(server)).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "nothing comes".to_owned(),
        };
        Some((server.clone(), why))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn greet(server: &str) -> std::io::Result<()> {
    let url = Url::parse(server).map_err(std::io::Error::other)?;
    let host = url.host_str().unwrap_or_default();
    // In a URL, an IPv6 address is in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = TcpStream::connect((host, url.port().unwrap_or(PORT))).await?;
    if url.scheme() == "tls" {
        return Ok(());
    }
    let mut first = [0; GREETING.len()];
    stream.read_exact(&mut first).await?;
    if first == *GREETING {
        Ok(())
    } else {
        Err(std::io::Error::other("this is no nats-server"))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// A server that sends this to every client, until the test ends.
    async fn saying(words: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("nats://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(words).await.unwrap();
                open.push(stream);
            }
        });
        address
    }

    #[tokio::test]
    async fn those_that_are_off_are_named_with_the_reason() {
        // Its port is reserved, so no other process gets it, but it does not listen.
        let deaf = TcpSocket::new_v4().unwrap();
        deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let off = format!("nats://{}", deaf.local_addr().unwrap());
        let well = saying(b"INFO {}\r\n").await;
        let other = saying(b"HTTP/1.1 400\r\n\r\n").await;
        let silent = silent_servers(&[well, off.clone(), other.clone()]).await;
        let names: Vec<_> = silent.iter().map(|(server, _)| server).collect();
        assert_eq!(names, [&off, &other]);
        let why: Vec<_> = silent.iter().map(|(_, why)| why.as_str()).collect();
        assert!(why[0].contains("refused"), "{why:?}");
        assert_eq!(why[1], "this is no nats-server");
        let frozen = saying(b"").await;
        let silent = silent_for(std::slice::from_ref(&frozen), Duration::from_millis(1)).await;
        assert_eq!(silent, [(frozen, "nothing comes".to_owned())]);
    }
}
