//! The demo's web: the responses of an archive within the program, served on loopback.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use spoor::address::PageUrl;
use spoor::archive::http::Response as Stored;
use spoor::archive::reader::{Item, Reader};
use spoor::archive::record::Kind;

/// Some six hundred pages on some sixty hosts, as `spoor-lab demo` writes them.
const ARCHIVE: &[u8] = include_bytes!("../../../seeds/demo.warc.zst");

/// More than any body of the archive.
const MAX_BYTES: usize = 1 << 20;

/// The web and the facts about it.
pub struct DemoWeb {
    responses: HashMap<PageUrl, Stored>,
    /// The pages on topic.
    pub on_topic: HashSet<String>,
    /// How many pages there are.
    pub pages: usize,
    /// Training texts by their paths, as `positive/lighthouses-01.txt`.
    pub texts: Vec<(String, Vec<u8>)>,
}

impl DemoWeb {
    /// Reads the archive. `topic` is a topic as the labels name it.
    pub fn read(topic: &str) -> Result<Self> {
        let mut web = Self {
            responses: HashMap::new(),
            on_topic: HashSet::new(),
            pages: 0,
            texts: Vec::new(),
        };
        let mut reader = Reader::new(ARCHIVE, Path::new("seeds/demo.warc.zst"));
        while let Some(item) = reader.next_item()? {
            let Item::Record(mut entry) = item else {
                continue;
            };
            let uri = entry.record.uri.clone().unwrap_or_default();
            if entry.record.kind == Kind::Response {
                let response = Stored::read(&mut entry, MAX_BYTES);
                let response = response.with_context(|| format!("reading {uri}"))?;
                web.responses.insert(PageUrl::parse(&uri)?, response);
                continue;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            match uri.strip_prefix("file:///") {
                Some("labels.tsv") => web.label(&String::from_utf8_lossy(&bytes), topic)?,
                Some(name) => web.texts.push((name.to_owned(), bytes)),
                None => {}
            }
        }
        Ok(web)
    }

    fn label(&mut self, table: &str, topic: &str) -> Result<()> {
        let on_topic = format!("{topic}:2");
        for (url, topics) in table.lines().skip(1).filter_map(|row| row.split_once('\t')) {
            self.pages += 1;
            if topics.split(',').any(|given| given == on_topic) {
                self.on_topic.insert(PageUrl::parse(url)?.to_string());
            }
        }
        Ok(())
    }

    /// The address on which to serve it: the host is that of each request.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    fn find(&self, request: &Request) -> Option<&Stored> {
        let host = request.headers().get(header::HOST)?.to_str().ok()?;
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let target = request.uri().path_and_query()?;
        let url = PageUrl::parse(&format!("http://{host}{target}")).ok()?;
        self.responses.get(&url)
    }
}

async fn answer(State(web): State<Arc<DemoWeb>>, request: Request) -> Response {
    let response = web.find(&request).and_then(|stored| {
        let headers = stored.headers.iter();
        headers
            .filter(|(name, _)| !name.eq_ignore_ascii_case("content-length"))
            .fold(
                Response::builder().status(stored.status),
                |all, (name, value)| all.header(name, value.as_slice()),
            )
            .body(Body::from(stored.body.clone()))
            .ok()
    });
    response.unwrap_or_else(|| {
        let mut missing = Response::new(Body::from("There is no such page.\n"));
        *missing.status_mut() = StatusCode::NOT_FOUND;
        missing
    })
}
