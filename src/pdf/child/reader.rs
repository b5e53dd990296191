//! The other side: starts the process, gives it the file, and waits for the answer.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::original::Original;
use super::{ChildAnswer, Failure, Limits, PATIENCE, WORKER};

/// The size of the other data relative to the longest text: a line of one character takes thirty
/// times its size.
const AROUND: u64 = 40;
/// The interval for checking whether a process must end.
const LOOK: Duration = Duration::from_millis(50);
/// The most that a process may write about its own crash.
const MAX_WORDS: u64 = 8 << 10;

/// Reads PDF files in separate processes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    program: PathBuf,
    limits: Limits,
    /// Whether reading has stopped. Clones share it.
    is_closed: Arc<AtomicBool>,
}

impl Reader {
    /// Starts `program`, which must be this one.
    pub fn new(program: PathBuf, limits: Limits) -> Self {
        Self {
            program,
            limits,
            is_closed: Arc::default(),
        }
    }

    /// Uses the running program.
    pub fn of_this_program(limits: Limits) -> Self {
        // If the path is unknown, each file fails with an error.
        Self::new(std::env::current_exe().unwrap_or_default(), limits)
    }

    /// Ends the current readings within a moment; all later ones fail.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Failure`], also if its pages have no text.
    pub fn read(&self, bytes: &[u8]) -> Result<Original, Failure> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Failure::Ended);
        }
        let mut child = self.start(bytes).map_err(Failure::Start)?;
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let most = AROUND * (self.limits.text as u64 + (1 << 20));
        let child = Mutex::new(child);
        let is_late = AtomicBool::new(false);
        let (done, end) = channel::<()>();
        let deadline = Instant::now() + PATIENCE * self.limits.time;
        let (answer, status, words) = std::thread::scope(|scope| {
            let (child, is_late) = (&child, &is_late);
            scope.spawn(move || {
                while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    let late = Instant::now() > deadline;
                    if late || self.is_closed.load(Ordering::Acquire) {
                        is_late.store(late, Ordering::Release);
                        return kill(child);
                    }
                }
            });
            let mut answer = Vec::new();
            let read = out.map(|out| out.take(most).read_to_end(&mut answer));
            if !matches!(read, Some(Ok(_))) || answer.len() as u64 >= most {
                answer.clear();
                kill(child);
            }
            let status = wait(child, deadline);
            drop(done);
            let mut words = Vec::new();
            if let Some(errors) = errors {
                errors.take(MAX_WORDS).read_to_end(&mut words).ok();
            }
            (answer, status, String::from_utf8_lossy(&words).into_owned())
        });
        if is_late.load(Ordering::Acquire) {
            return Err(Failure::Timeout(self.limits.time));
        }
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Failure::Ended);
        }
        match status {
            Ok(status) if status.success() => self.understood(&answer),
            Ok(status) => Err(self.breakdown(status, &words)),
            Err(error) => Err(Failure::Crashed(error.to_string())),
        }
    }

    fn start(&self, bytes: &[u8]) -> io::Result<Child> {
        let limits = &self.limits;
        let mut command = Command::new(&self.program);
        command
            .arg(WORKER)
            .args(["--seconds", &limits.time.as_secs_f64().ceil().to_string()])
            .args(["--memory", &limits.memory.to_string()])
            .args(["--pages", &limits.pages.to_string()])
            .args(["--text", &limits.text.to_string()])
            .env_clear()
            .stdin(Stdio::from(file_with(bytes)?))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn()
    }

    fn understood(&self, answer: &[u8]) -> Result<Original, Failure> {
        let answer = serde_json::from_slice(answer);
        match answer.map_err(|error| Failure::Crashed(format!("its answer is {error}")))? {
            ChildAnswer::Read(original) if original.text.trim().is_empty() => Err(Failure::NoText),
            ChildAnswer::Read(original) if says_nothing(&original) => Err(Failure::NoText),
            ChildAnswer::Read(original) => Ok(*original),
            ChildAnswer::Encrypted => Err(Failure::Encrypted),
            ChildAnswer::Damaged => Err(Failure::Damaged),
        }
    }

    fn breakdown(&self, status: ExitStatus, words: &str) -> Failure {
        if crate::limit::is_of_memory(words) {
            return Failure::Memory(self.limits.memory >> 20);
        }
        #[cfg(unix)]
        {
            use std::os::unix::process::ExitStatusExt;
            // SIGXCPU, from the limit that it has set itself.
            if status.signal() == Some(24) {
                return Failure::Timeout(self.limits.time);
            }
        }
        let line = words.lines().find(|line| !line.trim().is_empty());
        let line: String = line.unwrap_or_default().chars().take(200).collect();
        let line = if line.is_empty() {
            line
        } else {
            format!(" ({line})")
        };
        Failure::Crashed(format!("{status}{line}"))
    }
}

/// Whether most characters are unknown.
fn says_nothing(original: &Original) -> bool {
    let letters = original
        .text
        .chars()
        .filter(|c| c.is_alphanumeric())
        .count();
    letters < original.unknown as usize
}

/// Kills the process, which may have ended already.
fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    child.kill().ok();
}

/// Waits for the end of a process that has closed its standard output, until the deadline.
fn wait(child: &Mutex<Child>, deadline: Instant) -> io::Result<ExitStatus> {
    loop {
        {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                child.kill()?;
                return child.wait();
            }
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// An open file without a name that contains these bytes. With a pipe, this process would be killed
/// if the other one died before reading everything (`SIGPIPE`, which printing commands keep).
#[cfg(target_os = "linux")]
fn file_with(bytes: &[u8]) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let file = memfd_create(c"spoor-pdf", MemfdFlags::CLOEXEC)?;
    filled(File::from(file), bytes)
}

#[cfg(not(target_os = "linux"))]
fn file_with(bytes: &[u8]) -> io::Result<File> {
    use std::sync::atomic::AtomicU64;
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("spoor-pdf-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    filled(file, bytes)
}

fn filled(mut file: File, bytes: &[u8]) -> io::Result<File> {
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
