//! How jemalloc, the allocator of the program, is set up for long commands.
//!
//! By default it has four arenas per core, waits for ten seconds before it returns memory, and
//! returns at once only pieces from 8 MB. What the settings bring:
//!
//! - Two arenas, and memory returned 300 ms after its last use: a crawl of the zoo takes less
//!   than 300 MB instead of 430, and a replay of a 10 GB archive 195 instead of 240.
//! - Pieces of 1 MB returned at once: 160 MB of that replay instead of 177.
//! - Threads keep no freed pieces of more than 4 KB for themselves instead of 32 KB. This and
//!   the 300 ms make 143 MB of a crawl of 2,000 pages 125 MB.
//! - Threads keep at most 50 freed pieces of a size: 99 MB of such a crawl instead of 101.
//! - Threads return memory while they allocate. With a thread of the allocator's own for that,
//!   which looks ten times a second, such a crawl takes 116 MB instead of 106.
//!
//! None of them costs more than 2 % of the time.

/// The variable of the environment that jemalloc reads its settings from.
pub const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// The settings. jemalloc reads them only at the start of a process.
pub const SETTINGS: &str = "background_thread:false,narenas:2,dirty_decay_ms:300,\
    muzzy_decay_ms:0,tcache_max:4096,tcache_nslots_small_max:50,tcache_nslots_small_min:10,\
    lg_tcache_nslots_mul:0,oversize_threshold:1048576";
