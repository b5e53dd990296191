//! Files on a web server, read in parts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use spoor::address::PageUrl;
use spoor::archive::lookup::shelf::{Parts, Shelf, beneath};
use spoor::fetch::part::Part;
use spoor::fetch::parts::PartFetcher;
use spoor::tool_error::{ToolError, with_causes};
use tokio::runtime::Runtime;

/// The number of bytes that are requested at a time when an index is searched.
const PIECE: u64 = 64 << 10;

/// The only client of a command, so that all requests to a server share one clock.
#[derive(Clone)]
pub struct Web(Arc<Mutex<Client>>);

/// The client, and its runtime.
struct Client {
    runtime: Runtime,
    fetcher: PartFetcher,
}

impl Web {
    /// `contact` is sent with every request.
    pub fn new(contact: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no thread can be started for the requests")?;
        let fetcher = PartFetcher::new(contact)?;
        Ok(Self(Arc::new(Mutex::new(Client { runtime, fetcher }))))
    }
}

/// A folder on a web server.
#[derive(Clone)]
pub struct Server {
    /// The address of a file in it, or its own address with a slash at the end.
    base: PageUrl,
    web: Web,
}

impl Server {
    /// The folder of the file at `url`, and the name of that file.
    pub fn of_file(url: &str, web: &Web) -> Result<(Self, String)> {
        let base = PageUrl::parse(url).with_context(|| format!("{url} is not an address"))?;
        let (_, name) = base.path().rsplit_once('/').unwrap_or_default();
        let name = name.to_owned();
        let web = web.clone();
        Ok((Self { base, web }, name))
    }

    /// The folder at `url`.
    pub fn at(url: &str, web: &Web) -> Result<Self> {
        let end = if url.ends_with('/') { "" } else { "/" };
        Ok(Self::of_file(&format!("{url}{end}"), web)?.0)
    }
}

impl Shelf for Server {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ToolError> {
        let url = beneath(&self.base, name)?;
        Ok(Box::new(Remote {
            name: PathBuf::from(url.as_str()),
            url,
            web: self.web.clone(),
            length: None,
            last: (0, Vec::new()),
        }))
    }

    fn name_of(&self, name: &str) -> String {
        let url = beneath(&self.base, name);
        url.map_or_else(|_| name.to_owned(), |url| url.as_str().to_owned())
    }
}

/// A file there.
struct Remote {
    name: PathBuf,
    url: PageUrl,
    web: Web,
    length: Option<u64>,
    /// The part that was read last, and its position.
    last: (u64, Vec<u8>),
}

impl Remote {
    fn fetch(&mut self, offset: u64, length: u64) -> Result<(), ToolError> {
        let mut client = self.web.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Client { runtime, fetcher } = &mut *client;
        let part = runtime.block_on(fetcher.part(&self.url, offset, length));
        let Part { bytes, total } = part.map_err(|error| ToolError::new(with_causes(&error)))?;
        self.length = self.length.or(total);
        self.last = (offset, bytes);
        Ok(())
    }
}

impl Parts for Remote {
    fn name(&self) -> &Path {
        &self.name
    }

    fn length(&mut self) -> Result<u64, ToolError> {
        if self.length.is_none() {
            self.fetch(0, PIECE)?;
        }
        // A server that does not state the length sends the whole file, which was refused.
        Ok(self.length.unwrap_or(0))
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError> {
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
