//! The smallest and largest allowed value of each number in a configuration. `schema` refers to
//! them; `value` reports a value outside of them.

/// Worker threads: more than any machine has cores, and few enough not to exhaust it.
pub(super) const WORKERS_MAX: u64 = 1_024;
/// `listen(2)` takes an int, the kernel keeps 16 bits of it on some systems.
pub(super) const BACKLOG_MAX: u64 = 65_535;
/// Threads that wait for disks.
pub(super) const DISK_THREADS_MAX: u64 = 256;
/// A day, in ms: a longer time is a mistaken unit.
pub(super) const TIME_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// The shortest timeout, in ms; 0 would always expire.
pub(super) const TIMEOUT_MS_MIN: u64 = 1;
/// A tebibyte: more is a mistaken unit, and the sum of a few still fits 64 bits.
pub(super) const BYTES_MAX: u64 = 1 << 40;
/// A request line and a Host field must fit.
pub(super) const HEAD_BYTES_MIN: u64 = 256;
/// Each connection that sends a head holds it in memory.
pub(super) const HEAD_BYTES_MAX: u64 = 1 << 20;
/// Field lines in a head.
pub(super) const HEAD_FIELDS_MAX: u64 = 1_000;
/// Requests or connections: the largest TOML integer.
pub(super) const COUNT_MAX: u64 = i64::MAX as u64;

/// Descriptors of a deployed application: enough for a small one, and the kernel's maximum.
pub(super) const APP_FILES_MIN: u64 = 16;
pub(super) const APP_FILES_MAX: u64 = 1 << 20;
/// Processes and threads of a deployed application: Linux's largest process id.
pub(super) const APP_PROCESSES_MAX: u64 = 1 << 22;
/// Memory of a response cache: less has no room for one response.
pub(super) const CACHE_MEMORY_MIN: u64 = 64 << 10;

/// Entries of an archive: the list of them is in memory while it is sent.
pub(super) const ARCHIVE_ENTRIES_MAX: u64 = 500_000;

/// Interrupted uploads kept: all are counted whenever a new one begins.
pub(super) const RESUMABLE_MAX: u64 = 10_000;

/// Difference of clocks, in ms: a larger one makes the lifetime of tokens meaningless.
pub(super) const LEEWAY_MS_MAX: u64 = 10 * 60 * 1_000;

/// Requests of a rate in one period, or in a burst: more is no limit.
pub(super) const RATE_REQUESTS_MAX: u64 = 1_000_000;
/// Requests of a mount at once, or in its queue: each is a connection or a stream.
pub(super) const CONCURRENCY_MAX: u64 = 1_000_000;

/// Idle connections to a FastCGI application that each worker keeps.
pub(super) const KEPT_MAX: u64 = 64;

/// CGI programs at once: each is a process.
pub(super) const PROGRAMS_MAX: u64 = 10_000;

/// Memory of an instance of WebAssembly: a few pages, and all that 32-bit addresses reach.
pub(super) const WASM_MEMORY_MIN: u64 = 1 << 20;
pub(super) const WASM_MEMORY_MAX: u64 = 4 << 30;
/// Instances of WebAssembly at once: each reserves 16 GiB of addresses, of 128 TiB.
pub(super) const WASM_INSTANCES_MAX: u64 = 1_000;

/// The largest file that may be compressed: encoders hold it, or much of it, in memory.
pub(super) const COMPRESSED_FILE_MAX: u64 = 256 << 20;

/// Final statuses (RFC 9110, section 15: 1xx is interim, nothing above 599 is defined).
pub(super) const FINAL_STATUS_MIN: u64 = 200;
/// The first error status.
pub(super) const ERROR_STATUS_MIN: u64 = 400;
/// The last status of a class that RFC 9110 defines.
pub(super) const STATUS_MAX: u64 = 599;

/// A unix socket's path: `sun_path` holds 104 bytes with the closing NUL on macOS and FreeBSD, 108
/// on Linux. The smallest holds everywhere, so that a configuration is portable.
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 103;
/// A whole host name (RFC 1035 section 2.3.4, without the root's dot and the length byte).
pub(super) const HOST_BYTES_MAX: usize = 253;
/// One label of a host name (RFC 1035, section 2.3.4).
pub(super) const HOST_LABEL_BYTES_MAX: usize = 63;

/// Size of the configuration file.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;
/// Problems reported at once; a binary file would have one for each byte.
pub(super) const PROBLEMS_MAX: usize = 100;

/// Health checks in a row: more would take minutes to notice.
pub(super) const CHECKS_MAX: u64 = 100;
