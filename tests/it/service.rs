//! The unit file for systemd: systemd accepts it and rates its isolation (both skipped with a
//! message without `systemd-analyze`), and a crawl notifies the service manager.

use std::path::{Path, PathBuf};
use std::process::Command;

use spoor_lab::Lab;

use crate::support::process::{GUARD, Live};
use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Wire};

/// The highest accepted exposure, in tenths: `systemd-analyze` calls less than 2.0 "OK". A service
/// that connects to the internet always has some.
const EXPOSURE: &str = "--threshold=15";

fn analyze(arguments: &[&str], unit: &Path) -> Option<(bool, String)> {
    let ran = Command::new("systemd-analyze")
        .args(arguments)
        .arg(unit)
        .output();
    let Ok(ran) = ran else {
        eprintln!("SKIPPED: no systemd-analyze on this machine");
        return None;
    };
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    // systemd 250 introduced the option.
    if said.contains("unrecognized option") {
        eprintln!("SKIPPED: this systemd-analyze is too old: {said}");
        return None;
    }
    Some((ran.status.success(), said))
}

/// The shipped unit, with the tested program in place of the installed one.
fn unit(folder: &Path) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/spoor@.service");
    let text = std::fs::read_to_string(shipped).unwrap();
    let installed = "ExecStart=/usr/local/bin/spoor crawl ";
    let ours = format!("ExecStart={} crawl ", env!("CARGO_BIN_EXE_spoor"));
    assert_eq!(text.matches(installed).count(), 1);
    let path = folder.join("spoor@cats.service");
    std::fs::write(&path, text.replace(installed, &ours)).unwrap();
    path
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit(folder.path());
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    if let Some((good, said)) = analyze(&verify, &unit) {
        assert!(good, "{said}");
        assert!(!said.contains("spoor@"), "{said}");
    }
}

#[test]
fn the_service_is_isolated() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit(folder.path());
    let security = ["security", "--offline=true", "--no-pager", EXPOSURE];
    if let Some((good, said)) = analyze(&security, &unit) {
        let level = said.lines().find(|l| l.contains("Overall exposure level"));
        let level = level.unwrap_or(&said);
        eprintln!("{level}");
        assert!(good && level.contains(" OK "), "{said}");
    }
}

/// The notifications to the service manager, over the test's own socket: `NOTIFY_SOCKET` as in
/// sd_notify(3).
#[cfg(target_os = "linux")]
#[test]
fn the_service_manager_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(GUARD)).unwrap();
    let pages = [("one.test/", plain(&[], &[]))];
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let text = JobText {
        seeds: &["http://one.test/"],
        // A crawl that revisits pages does not end by itself.
        rest: "[recrawl]\nafter = \"30d\"\nmin = \"30d\"",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let mut crawl = job.crawl();
    crawl.env("NOTIFY_SOCKET", &path);
    crawl.env("WATCHDOG_USEC", "100000");
    let crawl = Live::start(&mut crawl);
    let wait_for_notice = |wanted: &str| {
        let mut buffer = [0; 512];
        loop {
            let length = manager.recv(&mut buffer).unwrap();
            let said = std::str::from_utf8(&buffer[..length]).unwrap();
            if said.lines().any(|line| line.starts_with(wanted)) {
                return said.trim().to_owned();
            }
        }
    };
    wait_for_notice("READY=1");
    wait_for_notice("STATUS=");
    wire.wait_for("one.test/");
    wait_for_notice("WATCHDOG=1");
    wait_for_notice("WATCHDOG=1");
    crawl.signal(nix::sys::signal::Signal::SIGTERM);
    wait_for_notice("STOPPING=1");
    crawl.ended().stopped();
}
