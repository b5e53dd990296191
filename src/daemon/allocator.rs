//! The settings of jemalloc, the program's allocator, for long commands.
//!
//! By default it has four arenas per core, waits ten seconds before it returns memory, and returns
//! only pieces of 8 MB or more at once. What the settings change:
//!
//! - Two arenas, and memory returned 300 ms after its last use: a crawl of the zoo takes less than
//!   300 MB instead of 430, and a replay of a 10 GB archive 195 instead of 240.
//! - Pieces of 1 MB returned at once: 160 MB for that replay instead of 177.
//! - Threads cache no freed pieces of more than 4 KB, instead of 32 KB. Together with the 300 ms,
//!   this takes a crawl of 2,000 pages from 143 MB to 125.
//! - Threads cache at most 50 freed pieces of a size: 99 MB for that crawl instead of 101.
//! - Threads return memory while they allocate. If instead a background thread of the allocator
//!   does it ten times a second, that crawl takes 116 MB instead of 106.
//!
//! None of them costs more than 2 % of the time.

/// The environment variable that jemalloc reads its settings from.
pub const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// The settings. jemalloc reads them only at the start of a process.
pub const SETTINGS: &str = "background_thread:false,narenas:2,dirty_decay_ms:300,\
    muzzy_decay_ms:0,tcache_max:4096,tcache_nslots_small_max:50,tcache_nslots_small_min:10,\
    lg_tcache_nslots_mul:0,oversize_threshold:1048576";
