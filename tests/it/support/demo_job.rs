//! The demo's job in this process, without output.

use std::net::SocketAddr;
use std::path::Path;

use spoor::crawl::pipeline::RunStatus;
use spoor::daemon::Observer;
use spoor::frontier::Cells;
use spoor::outputs::Row;

/// An observer that ignores everything.
pub struct Silent;

impl Observer for Silent {
    fn say(&mut self, _text: &str) {}
    fn crawl(&mut self, _frontier: &Cells, _row: Option<&Row<'_>>, _standing: &RunStatus) {}
}

/// The demo's job file for a web at `web`: with this name, everything in `folder`, this budget, and
/// as fast as the hosts allow. Images are switched off, because they would double the requests.
pub fn demo_job(folder: &Path, name: &str, fetches: u32, web: SocketAddr) -> String {
    include_str!("../../../config/demo.toml")
        .replace("127.0.0.1:8080", &web.to_string())
        .replace(
            "models/demo-texts",
            &folder.join("texts").display().to_string(),
        )
        .replace(
            "name = \"lighthouses\"",
            &format!("name = \"{name}\"\nfolder = {folder:?}"),
        )
        .replace("requests_per_second = 40.0", "")
        .replace("fetches = 150", &format!("fetches = {fetches}"))
        .replace("[images]", "[images]\nenabled = false")
}
