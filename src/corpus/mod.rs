//! Work on the results of a crawl.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `rank` | the images of a job in order, each picture once | nothing |
//! | `annotate` | a page on which people judge images | rank |
//! | `agreement` | the agreement of the annotators | annotate |
//! | `columns` | columns of data sets: name, kind, meaning and value | nothing |
//! | `export` | the best images as a data set | columns, rank |
//! | `report` | what jobs found, as HTML | annotate, crawl::figures, crawl::frontier |
//! | `stored` | the stored pages of archives in figures | report, crawl::figures |
//! | `ruled` | rules over stored pages: files, and the responses of archives | nothing |
//! | `before` | what an earlier crawl kept, beside what a replay keeps | crawl::figures |
//! | `copies` | near copies of texts, proved by the passages that are the same | nothing |
//! | `grammar` | tokens with stems, lemmas and parts of speech | nothing |
//! | `entities` | a list of names, found in texts | nothing |
//! | `pipeline` | a corpus from a plan: sources, steps, formats; work on stored documents | columns, copies, entities, grammar, export, report, ruled, crawl::figures, outputs |
//! | `search` | a full-text index of documents, and a page to search it | pipeline, entities, report |
//! | `takedown` | removes samples from a job permanently | pipeline, search, crawl::checkpoint, crawl::frontier, crawl::saved |
//! | `gather` | one job folder of those of several machines | takedown, crawl::checkpoint |
//!
//! These modules read and rewrite the outputs of a job. They do not know running crawls,
//! and nothing here fetches anything; `pipeline` sends a corpus to a store where its plan names
//! one.

pub mod agreement;
pub mod annotate;
pub mod before;
mod columns;
pub mod copies;
pub mod entities;
pub mod export;
pub mod gather;
pub mod grammar;
pub mod pipeline;
pub mod rank;
pub mod report;
pub mod ruled;
pub mod search;
pub mod stored;
pub mod takedown;
