//! Files on a web server, read in parts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use percent_encoding::percent_decode_str;
use spoor::address::PageUrl;
use spoor::archive::lookup::shelf::{Folder, Parts, Shelf, ShelfError};
use spoor::web::fetch::part::Part;
use spoor::web::parts::PartFetcher;
use tokio::runtime::Runtime;

/// How many bytes are asked for at a time where an index is searched.
const PIECE: u64 = 64 << 10;

/// The client, and what runs it.
struct Client {
    runtime: Runtime,
    fetcher: PartFetcher,
}

/// A folder on a web server.
#[derive(Clone)]
pub struct Server {
    base: PageUrl,
    client: Arc<Mutex<Client>>,
}

impl Server {
    /// The folder of the file at `url`, and the name of that file. `contact` is sent with
    /// every request.
    pub fn of(url: &str, contact: &str) -> Result<(Self, String)> {
        let base = PageUrl::parse(url).with_context(|| format!("{url} is no address"))?;
        let name = base
            .path()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no thread can be started for the requests")?;
        let announce = |host: &str, pause: Duration| {
            let seconds = pause.as_secs_f64().ceil();
            eprintln!("spoor: waiting for {seconds} s, the pause between two requests to {host}");
        };
        let fetcher = PartFetcher::new(contact, Box::new(announce))?;
        let client = Arc::new(Mutex::new(Client { runtime, fetcher }));
        Ok((Self { base, client }, name))
    }

    /// Another folder, with the same client.
    pub fn beside(&self, url: &str) -> Result<Self> {
        let url = if url.ends_with('/') {
            url.to_owned()
        } else {
            format!("{url}/")
        };
        Ok(Self {
            base: PageUrl::parse(&url).with_context(|| format!("{url} is no address"))?,
            client: self.client.clone(),
        })
    }
}

impl Shelf for Server {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ShelfError> {
        let url = beneath(&self.base, name).ok_or_else(|| ShelfError::Outside(name.to_owned()))?;
        Ok(Box::new(Remote {
            name: PathBuf::from(url.as_str()),
            url,
            client: self.client.clone(),
            length: None,
            last: (0, Vec::new()),
        }))
    }

    fn name_of(&self, name: &str) -> String {
        let url = self.base.join(name);
        url.map_or_else(|_| name.to_owned(), |url| url.as_str().to_owned())
    }
}

/// The address of a file by its name in an index, if it lies beneath the folder of `base`. The
/// name is the work of others: read as an address it may lead to another server, and decoded by
/// the server to another folder.
fn beneath(base: &PageUrl, name: &str) -> Option<PageUrl> {
    Folder(PathBuf::new()).path(name).ok()?;
    let folder = base.join(".").ok()?;
    let url = base.join(name).ok()?;
    let rest = url.as_str().strip_prefix(folder.as_str())?;
    let decoded = percent_decode_str(name).decode_utf8_lossy();
    let leads_away = decoded.contains('\\') || decoded.split('/').any(|part| part == "..");
    (!leads_away && !rest.is_empty()).then_some(url)
}

/// A file there.
struct Remote {
    name: PathBuf,
    url: PageUrl,
    client: Arc<Mutex<Client>>,
    length: Option<u64>,
    /// The part that was read last, and where it begins.
    last: (u64, Vec<u8>),
}

impl Remote {
    fn fetch(&mut self, offset: u64, length: u64) -> Result<(), ShelfError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let Client { runtime, fetcher } = &mut *client;
        let part = runtime.block_on(fetcher.part(&self.url, offset, length));
        let Part { bytes, total } = part.map_err(|error| ShelfError::Remote(Box::new(error)))?;
        self.length = self.length.or(total);
        self.last = (offset, bytes);
        Ok(())
    }
}

impl Parts for Remote {
    fn name(&self) -> &Path {
        &self.name
    }

    fn length(&mut self) -> Result<u64, ShelfError> {
        if self.length.is_none() {
            self.fetch(0, PIECE)?;
        }
        // A server that does not know the length sends the whole file, which was refused.
        Ok(self.length.unwrap_or(0))
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ShelfError> {
        let held = |(begin, bytes): &(u64, Vec<u8>)| {
            let from = usize::try_from(offset.checked_sub(*begin)?).ok()?;
            let to = from.checked_add(usize::try_from(length).ok()?)?;
            bytes.get(from..to).map(<[u8]>::to_vec)
        };
        if let Some(bytes) = held(&self.last) {
            return Ok(bytes);
        }
        if self.length.is_some_and(|all| offset >= all) || length == 0 {
            return Ok(Vec::new());
        }
        self.fetch(offset, length)?;
        Ok(self.last.1.clone())
    }

    fn piece(&self) -> u64 {
        PIECE
    }

    fn is_far(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_no_other_server_or_folder() {
        let base = PageUrl::parse("http://archives.test:8080/all/of/index.cdxj").unwrap();
        for (name, path) in [
            ("a.warc.gz", "a.warc.gz"),
            ("deep/er/a.warc.gz", "deep/er/a.warc.gz"),
            ("./a.warc", "a.warc"),
            ("a b.warc", "a%20b.warc"),
            ("a%20b.warc", "a%20b.warc"),
        ] {
            let url = beneath(&base, name).map(|url| url.as_str().to_owned());
            let expected = format!("http://archives.test:8080/all/of/{path}");
            assert_eq!(url, Some(expected), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../a.warc",
            "a/../../b.warc",
            "%2e%2e/a.warc",
            "%2E./a.warc",
            "a/%2e%2e%2f%2e%2e%2fb",
            "..%2fa",
            "..\\a",
            "a%5c..%5cb",
            "/a.warc",
            "//127.0.0.2/a",
            "\\\\127.0.0.2\\a",
            "/\\127.0.0.2/a",
            "http://127.0.0.2/a",
            "http:\\\\127.0.0.2\\a",
            "http:127.0.0.2/a",
            "https:a",
            "HTTP://127.0.0.2/a",
            "ht\ntp://127.0.0.2/a",
            " http://127.0.0.2/a",
            "\thttp://127.0.0.2/a",
            "http://user:word@archives.test:8080/all/of/a",
            "http://archives.test:8081/all/of/a",
            "https://archives.test:8080/all/of/a",
            "http://archives.test:8080/all/a",
            "file:///etc/passwd",
        ] {
            assert_eq!(beneath(&base, name), None, "{name}");
        }
    }
}
