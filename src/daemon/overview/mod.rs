//! All jobs of a folder on one page of this machine: which run, which have ended and how,
//! what they brought, and their reports.
//!
//! Nothing here changes a job. The one thing that is written is a report, where somebody
//! on the page asks for it, as `spoor report` would write it.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page; its parts are `/ui.css`, `/ui.js` and `/ui.svg` |
//! | `GET /api/jobs` | a [`Shelf`]: every job as a [`Card`] |
//! | `GET /job/NAME/file` | the job file as the last run followed it |
//! | `GET /job/NAME/image/ID` | one of the newest images, decoded and encoded anew |
//! | `GET /job/NAME/report` | the job's report, where there is one |
//! | `POST /job/NAME/report` | makes it |
//!
//! Whoever asks brings the token of the link that `spoor ui` prints: the page links to the
//! dashboards of running crawls, which can be steered there.
//!
//! Reading order: this file, `shelf` (which jobs there are), `tally` (what a log says),
//! `server`.

mod server;
mod shelf;
mod tally;

pub use server::{MakeReport, serve};
pub use shelf::{Card, Shelf, Standing, Texts};
