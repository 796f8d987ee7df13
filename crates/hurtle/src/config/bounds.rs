//! The least and the most each number in a configuration may be, named once. `schema` puts them
//! beside their keys; what a value outside of them is told is `reader`'s business.

/// Worker threads: far beyond any machine's cores, far below what exhausts one.
pub(super) const WORKERS_MAX: u64 = 1_024;
/// `listen(2)` takes an int, the kernel keeps 16 bits of it on some systems.
pub(super) const BACKLOG_MAX: u64 = 65_535;
/// Threads that wait for disks.
pub(super) const DISK_THREADS_MAX: u64 = 256;
/// A day: a longer time is a slip of units.
pub(super) const TIME_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// The shortest timeout that lets anything happen at all.
pub(super) const TIMEOUT_MS_MIN: u64 = 1;
/// A tebibyte: more is a slip of units, and the sum of a few still fits 64 bits.
pub(super) const BYTES_MAX: u64 = 1 << 40;
/// A request line and a Host field must fit.
pub(super) const HEAD_BYTES_MIN: u64 = 256;
/// A head is held in memory for each connection that sends one.
pub(super) const HEAD_BYTES_MAX: u64 = 1 << 20;
/// Field lines in a head.
pub(super) const HEAD_FIELDS_MAX: u64 = 1_000;
/// Requests or connections: what a TOML integer holds.
pub(super) const COUNT_MAX: u64 = i64::MAX as u64;

/// Descriptors of a deployed application: what a small one needs, and what a kernel allows.
pub(super) const APP_FILES_MIN: u64 = 16;
pub(super) const APP_FILES_MAX: u64 = 1 << 20;
/// Its processes and threads: the most that Linux numbers.
pub(super) const APP_PROCESSES_MAX: u64 = 1 << 22;
/// A cache of answers: less has room for none.
pub(super) const CACHE_MEMORY_MIN: u64 = 64 << 10;

/// Interrupted uploads that are kept: they are counted whenever one is begun.
pub(super) const RESUMABLE_MAX: u64 = 10_000;

/// Idle connections to a FastCGI application, of each worker.
pub(super) const KEPT_MAX: u64 = 64;

/// CGI programs at once: each is a process.
pub(super) const PROGRAMS_MAX: u64 = 10_000;

/// Final statuses (RFC 9110, section 15: 1xx is interim, nothing above 599 is defined).
pub(super) const FINAL_STATUS_MIN: u64 = 200;
/// Error statuses begin here.
pub(super) const ERROR_STATUS_MIN: u64 = 400;
/// The last status that RFC 9110 knows a class for.
pub(super) const STATUS_MAX: u64 = 599;

/// A unix socket's path: `sun_path` holds 104 bytes with the closing NUL on macOS and FreeBSD, 108
/// on Linux; the least of them, so that a configuration moves between systems.
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 103;
/// A whole host name (RFC 1035, section 2.3.4, less the root's dot and the length byte).
pub(super) const HOST_BYTES_MAX: usize = 253;
/// One label of a host name (RFC 1035, section 2.3.4).
pub(super) const HOST_LABEL_BYTES_MAX: usize = 63;

/// The configuration file itself.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;
/// Problems shown at once; a person reads no more, and a binary file has one a byte.
pub(super) const PROBLEMS_MAX: usize = 100;
