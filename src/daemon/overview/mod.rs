//! All jobs of a folder on one local page: which are running, which have ended and how,
//! their results and their reports.
//!
//! Nothing here changes a job. The only file that is written is a report, at the request
//! of a user of the page, as `spoor report` would write it.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page; its parts are `/ui.css`, `/ui.js` and `/ui.svg` |
//! | `GET /api/jobs` | a [`Shelf`]: every job as a [`Card`] |
//! | `GET /job/NAME/file` | the job file as used by the last run |
//! | `GET /job/NAME/image/ID` | one of the newest images, re-encoded |
//! | `GET /job/NAME/report` | the job's report, if there is one |
//! | `POST /job/NAME/report` | creates it |
//!
//! Requests need the token of the link that `spoor ui` prints, because the page links to
//! the dashboards of running crawls, where these can be controlled.
//!
//! Reading order: this file, `shelf` (the list of jobs), `server`.

mod server;
mod shelf;

pub use server::{MakeReport, serve};
pub use shelf::{Card, JobStanding, Shelf, Texts};
