//! What is missing or odd on this machine for a crawl, each with what to do.

use std::net::{Ipv4Addr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::config::Config;
use crate::crawl::pipeline::files_for;
use crate::fetch::FILES_TO_KEEP;
use crate::settings::Listen;

/// Less free space than this is odd, in bytes: some 20,000 pages with their images.
const LEAST_DISK: u64 = 5 << 30;

/// Less available memory than this is odd, in bytes.
const LEAST_MEMORY: u64 = 1 << 30;

/// How long a name may take to resolve.
const LONGEST_LOOKUP: Duration = Duration::from_secs(5);

/// The largest difference between the clocks of the disk and of this machine.
const CLOCKS: Duration = Duration::from_secs(2);

/// The requests at the same time of a job that names no number.
const CONCURRENCY: usize = 64;

/// What was looked at, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject: `open files`, `disk`, `memory`, `clock`, `names` or `dashboard`.
    pub subject: &'static str,
    /// What was found.
    pub found: String,
    /// What to do; `None` if all is well.
    pub advice: Option<String>,
}

impl Finding {
    fn good(subject: &'static str, found: String) -> Self {
        Self {
            subject,
            found,
            advice: None,
        }
    }

    fn odd(subject: &'static str, found: String, advice: &str) -> Self {
        Self {
            subject,
            found,
            advice: Some(advice.to_owned()),
        }
    }
}

/// Looks at this machine, for a crawl of a job in its folder, or of any job in `folder`.
pub fn examine(folder: &Path, config: Option<&Config>) -> Vec<Finding> {
    let folder = config.map_or_else(|| folder.to_owned(), |config| config.job_folder());
    let there = existing(&folder);
    let mut all = Vec::new();
    all.extend(open_files(config));
    all.extend(disk(&there));
    all.extend(memory());
    all.push(clock(&there));
    all.push(names(config));
    all.extend(dashboard(config));
    all
}

/// The nearest folder above a path that exists.
fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut above = path.ancestors();
    let found = above.find(|folder| folder.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}

fn open_files(config: Option<&Config>) -> Option<Finding> {
    let subject = "open files";
    let wanted = config.map_or(CONCURRENCY, |config| config.network.concurrency);
    let least = files_for(wanted);
    let Some(most) = most_files()? else {
        return Some(Finding::good(subject, "no limit".to_owned()));
    };
    if most >= FILES_TO_KEEP {
        return Some(Finding::good(subject, format!("at most {most}")));
    }
    let found = if most < least {
        format!("at most {most}, and {wanted} requests at the same time need {least}")
    } else {
        format!("at most {most}, so connections are not kept for the next request")
    };
    let raise = "raise the limit: `ulimit -n 65536`, or LimitNOFILE=65536 in the unit of systemd, or \
                 nofile in /etc/security/limits.conf";
    Some(Finding::odd(subject, found, raise))
}

/// The limit to which that of this process can be raised; `None` if it cannot be read.
#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps, reason = "as on other systems")]
#[allow(clippy::option_option, reason = "there may be no limit")]
fn most_files() -> Option<Option<u64>> {
    use rustix::process::{Resource, getrlimit};
    Some(getrlimit(Resource::Nofile).maximum)
}

#[cfg(not(target_os = "linux"))]
fn most_files() -> Option<Option<u64>> {
    None
}

fn disk(folder: &Path) -> Vec<Finding> {
    let subject = "disk";
    let mut all = Vec::new();
    let shown = folder.display();
    if let Err(error) = tempfile::tempfile_in(folder) {
        let found = format!("no file can be written in {shown}: {error}");
        let advice = "choose another folder (job.folder), or change its owner or its rights";
        all.push(Finding::odd(subject, found, advice));
    }
    #[cfg(target_os = "linux")]
    if let Ok(space) = rustix::fs::statvfs(folder) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let found = format!("{} free in {shown}", gigabytes(free));
        all.push(if free < LEAST_DISK {
            let advice =
                "choose another disk (job.folder): 20,000 pages with their images take 5 GB";
            Finding::odd(subject, found, advice)
        } else {
            Finding::good(subject, found)
        });
    }
    all
}

fn gigabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let gigabytes = bytes as f64 / 1e9;
    format!("{gigabytes:.1} GB")
}

/// The memory that this process may still take: of the machine, or of its control group.
fn memory() -> Option<Finding> {
    let text = crate::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    let own = |name: &str| {
        let text = crate::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let group =
        own("memory.max").map(|most| most.saturating_sub(own("memory.current").unwrap_or(0)));
    let left = (kib * 1024).min(group.unwrap_or(u64::MAX));
    let found = format!("{} available", gigabytes(left));
    Some(if left < LEAST_MEMORY {
        let advice = "end other programs, or lower network.concurrency: a crawl takes about half a GB, \
                      and training more";
        Finding::odd("memory", found, advice)
    } else {
        Finding::good("memory", found)
    })
}

/// A wrong clock makes certificates invalid, and dates of a crawl wrong.
fn clock(folder: &Path) -> Finding {
    let subject = "clock";
    let now = SystemTime::now();
    let shown = crate::clock::timestamp(crate::clock::now());
    let built = std::env::current_exe().and_then(|exe| exe.metadata()?.modified());
    if built.is_ok_and(|built| built > now + CLOCKS) {
        let found = format!("{shown}, which is earlier than the file of this program");
        return Finding::odd(subject, found, "set the clock: `timedatectl set-ntp true`");
    }
    let written = tempfile::tempfile_in(folder).and_then(|file| file.metadata()?.modified());
    let between = written.ok().map(|written| {
        let later = written.duration_since(now);
        later
            .or_else(|_| now.duration_since(written))
            .unwrap_or_default()
    });
    match between {
        Some(between) if between > CLOCKS => {
            let found = format!(
                "{shown}; that of the disk differs by {} s",
                between.as_secs()
            );
            let advice = "set the clock of the machine that has the disk";
            Finding::odd(subject, found, advice)
        }
        _ => Finding::good(subject, format!("{shown}; compare it with another clock")),
    }
}

/// Resolves the hosts of a job's first seeds.
fn names(config: Option<&Config>) -> Finding {
    let subject = "names";
    if config.is_some_and(|config| config.network.proxy.is_some()) {
        return Finding::good(subject, "the proxy resolves them".to_owned());
    }
    let seeds = config.map(|config| config.seeds.urls.iter().take(3));
    let mut hosts: Vec<String> = seeds
        .into_iter()
        .flatten()
        .map(|seed| seed.host().to_owned())
        .collect();
    hosts.dedup();
    if hosts.is_empty() {
        hosts.push("example.org".to_owned());
    }
    let (sender, found) = channel();
    let asked = hosts.clone();
    // A lookup cannot be cancelled; its thread ends with this process.
    std::thread::spawn(move || {
        for host in asked {
            let addresses = (host.trim_matches(['[', ']']), 443).to_socket_addrs();
            let count = addresses
                .map(Iterator::count)
                .map_err(|error| error.to_string());
            sender.send((host, count)).ok();
        }
    });
    let advice = "check the name and the network: `getent hosts NAME` asks the same resolver, which \
                  /etc/resolv.conf sets";
    for host in &hosts {
        match found.recv_timeout(LONGEST_LOOKUP) {
            Ok((_, Ok(count))) if count > 0 => {}
            Ok((host, Ok(_))) => {
                return Finding::odd(subject, format!("{host} has no address"), advice);
            }
            Ok((host, Err(why))) => return Finding::odd(subject, format!("{host}: {why}"), advice),
            Err(_) => {
                let seconds = LONGEST_LOOKUP.as_secs();
                let found = format!("{host} was not resolved within {seconds} s");
                return Finding::odd(subject, found, advice);
            }
        }
    }
    Finding::good(subject, format!("{} resolved", hosts.join(", ")))
}

fn dashboard(config: Option<&Config>) -> Option<Finding> {
    let subject = "dashboard";
    let listen = config.map_or(&Listen::Auto, |config| &config.control.listen);
    let (address, is_chosen) = match listen {
        Listen::Off => return None,
        Listen::At(address) => (*address, true),
        Listen::Auto => ((Ipv4Addr::LOCALHOST, super::control::PORT).into(), false),
    };
    Some(match TcpListener::bind(address) {
        Ok(_) => Finding::good(subject, format!("{address} is free")),
        Err(error) if is_chosen => {
            let advice = "set control.listen to another address, or end the program that has this one \
                          (`ss -ltnp` lists them); a crawl of this job that runs has it rightly";
            Finding::odd(subject, format!("{address}: {error}"), advice)
        }
        Err(_) => Finding::good(
            subject,
            format!("{address} is taken; the next free port is used"),
        ),
    })
}
