//! The sources of captures, and the selection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use spoor::archive::files;
use spoor::archive::find::{Source, in_wacz};
use spoor::archive::index::{INDEX, small_index_of};
use spoor::archive::lookup::BLOCKS;
use spoor::archive::lookup::shelf::{AnyShelf, Folder};
use spoor::archive::select::Selection;

use super::remote::{Server, Web};

const SELECTION: &str = "Selection: of several addresses, types or statuses each counts";
/// The extension of a WACZ.
const WACZ: &str = ".wacz";
const PLACES: &str = "Where the files are";

/// Sources and a selection.
#[derive(Debug, Args)]
pub struct WantedCaptures {
    /// Archives, folders of them, WACZ files, or indexes named *.cdxj or *.idx. A WACZ or an
    /// index may be on a web server.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Only captures of this address.
    #[arg(long, value_name = "URL", help_heading = SELECTION)]
    url: Vec<String>,
    /// Only those of addresses with this prefix: https://example.org/folder/ or, as SURT,
    /// org,example)/folder/.
    #[arg(long, value_name = "BEGINNING", help_heading = SELECTION)]
    prefix: Vec<String>,
    /// Only those of a host.
    #[arg(long, help_heading = SELECTION)]
    host: Vec<String>,
    /// Only those of a host and of its subdomains.
    #[arg(long, value_name = "HOST", help_heading = SELECTION)]
    domain: Vec<String>,
    /// None before this date: 2026, 2026-01-02 or 20260102030405.
    #[arg(long, value_name = "DATE", help_heading = SELECTION)]
    from: Option<String>,
    /// None after this date; a year, a month or a day counts to its end.
    #[arg(long, value_name = "DATE", help_heading = SELECTION)]
    to: Option<String>,
    /// Only those of a media type: text/html, or image/* for all that begin with image/.
    #[arg(long, value_name = "TYPE", help_heading = SELECTION)]
    mime: Vec<String>,
    /// Only those with a status: 200, or 3xx for all that begin with 3.
    #[arg(long, help_heading = SELECTION)]
    status: Vec<String>,
    /// The folder, or its address, of the files that an index names; by default that of the
    /// index.
    #[arg(long, value_name = "FOLDER", help_heading = PLACES)]
    archives: Option<String>,
    /// For a web server: your web or mail address, which is sent with each request.
    #[arg(long, value_name = "ADDRESS", help_heading = PLACES)]
    contact: Option<String>,
}

fn is_web(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

impl WantedCaptures {
    /// The selection.
    pub fn selection(&self) -> Result<Selection> {
        let mut selection = Selection::default();
        self.url.iter().for_each(|url| selection.url(url));
        for prefix in &self.prefix {
            selection.prefix(prefix)?;
        }
        for host in &self.host {
            selection.host(host, false)?;
        }
        for domain in &self.domain {
            selection.host(domain, true)?;
        }
        if let Some(from) = &self.from {
            selection.from(from)?;
        }
        if let Some(to) = &self.to {
            selection.to(to)?;
        }
        self.mime.iter().for_each(|mime| selection.mime(mime));
        for status in &self.status {
            selection.status(status)?;
        }
        Ok(selection)
    }

    /// The sources.
    pub fn sources(&self) -> Result<Vec<Source>> {
        let mut all = Vec::new();
        let web = &mut None;
        for source in &self.sources {
            if is_web(source) {
                all.push(self.on_server(source, web)?);
                continue;
            }
            let path = PathBuf::from(source);
            if source.ends_with(WACZ) {
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                all.push(in_wacz(Arc::new(Folder(folder)), &name)?);
                continue;
            }
            if source.ends_with(INDEX) || source.ends_with(BLOCKS) {
                all.push(self.index(&path, web)?);
                continue;
            }
            if let Some(small) = small_index_of(&path) {
                if !small.exists() {
                    bail!(
                        "{source}: beside this index of blocks there is no {}; make both with \
                         `spoor archive index`",
                        small.display()
                    );
                }
                all.push(self.index(&small, web)?);
                continue;
            }
            let files = files::listed(&[path])?;
            all.extend(files.iter().map(|file| Source::of_file(file)));
        }
        Ok(all)
    }

    fn index(&self, path: &Path, web: &mut Option<Web>) -> Result<Source> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let name = path.file_name().unwrap_or_default();
        let archives: AnyShelf = match &self.archives {
            None => Arc::new(Folder(folder.clone())),
            Some(url) if is_web(url) => Arc::new(Server::at(url, &self.web(url, web)?)?),
            Some(other) => Arc::new(Folder(PathBuf::from(other))),
        };
        Ok(Source::Index {
            shelf: Arc::new(Folder(folder)),
            name: name.to_string_lossy().into_owned(),
            archives,
        })
    }

    fn on_server(&self, url: &str, web: &mut Option<Web>) -> Result<Source> {
        let is_index = [INDEX, BLOCKS, WACZ]
            .iter()
            .any(|ending| url.ends_with(ending));
        if !is_index {
            bail!(
                "{url}: on a web server only a file named *{INDEX}, *{BLOCKS} or *{WACZ} can be \
                 searched"
            );
        }
        let web = self.web(url, web)?;
        let (server, name) = Server::of_file(url, &web)?;
        if url.ends_with(WACZ) {
            return Ok(in_wacz(Arc::new(server), &name)?);
        }
        let archives: AnyShelf = match &self.archives {
            None => Arc::new(server.clone()),
            Some(url) if is_web(url) => Arc::new(Server::at(url, &web)?),
            Some(other) => Arc::new(Folder(PathBuf::from(other))),
        };
        Ok(Source::Index {
            shelf: Arc::new(server),
            name,
            archives,
        })
    }

    /// The client, which is created once.
    fn web(&self, url: &str, web: &mut Option<Web>) -> Result<Web> {
        let Some(contact) = &self.contact else {
            bail!(
                "{url}: add --contact with your web or mail address, because every request names \
                 its operator"
            );
        };
        if let Some(web) = web {
            return Ok(web.clone());
        }
        Ok(web.insert(Web::new(contact)?).clone())
    }
}
