//! What is made of what a crawl brought home.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `rank` | the images of a job in order, each picture once | topic |
//! | `annotate` | people judge images on a page | rank |
//! | `agreement` | how far these people agree | annotate |
//! | `export` | the best images, or the documents, as a data set | rank |
//! | `report` | what jobs found, as HTML and Markdown | annotate, crawl::frontier, topic |
//! | `takedown` | removes samples from a job for good | crawl::checkpoint, crawl::frontier, web::scope |
//!
//! These modules read and rewrite the outputs of a job. They know no running crawl, and
//! nothing here fetches anything.

pub mod agreement;
pub mod annotate;
pub mod export;
pub mod rank;
pub mod report;
pub mod takedown;
