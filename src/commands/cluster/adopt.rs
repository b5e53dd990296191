//! `spoor cluster adopt`: what one machine has crawled alone becomes the beginning of a cluster.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use spoor::crawl::node::adopt::{self, AdoptError, Adopted};

use super::Asked;
use crate::commands::print_json;

pub fn adopt(asked: &Asked, job: &Path, json: bool) -> Result<()> {
    let mut say = |text: &str| eprintln!("spoor: {text}");
    let adopted = adopt::adopt(
        &asked.broker,
        &asked.config,
        asked.runtime.handle(),
        &mut say,
    );
    let adopted = match adopted {
        // Its exit code says that another spoor uses the job.
        Err(AdoptError::Open(error)) => return Err(error.into()),
        adopted => adopted?,
    };
    let folder = asked.config.job_folder();
    if json {
        return print_json(&json!({"folder": folder, "adopted": adopted}));
    }
    print(&adopted);
    println!(
        "{} is not needed any more; keep it until `spoor cluster gather` has been run. \
         A crawl on this machine moves it aside",
        folder.display()
    );
    println!("next, on each machine: spoor crawl {}", job.display());
    Ok(())
}

fn print(adopted: &Adopted) {
    let Adopted {
        session,
        urls,
        hosts,
        cells,
        filled,
        documents,
        images,
        used,
        takedowns,
        paused,
        bytes,
        ..
    } = adopted;
    println!("{urls} addresses on {hosts} hosts are in {filled} of {cells} cells");
    println!(
        "{documents} pages and {images} images are done, by {} requests for pages",
        used.fetches
    );
    println!(
        "all of it is the session {session} in cluster.store, {:.1} MB",
        *bytes as f64 / 1e6
    );
    if *takedowns > 0 {
        println!("{takedowns} takedowns hold for all machines");
    }
    if *paused {
        println!("the job stays paused, until `spoor ctl JOB resume` on any machine");
    }
}
