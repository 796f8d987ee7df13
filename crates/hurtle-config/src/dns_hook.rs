//! Settings of the program that writes the records of `dns-01` (RFC 8555 section 8.4).
//! `hurtle::lifecycle::dns_hooks` runs it.

use std::io::ErrorKind::{NotADirectory, NotFound};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{User, geteuid};

use super::error::{ValueError, shown};
use super::print;
use super::reader::Reader;
use super::schema::Kind::{List, Time};
use super::settings::settings;
use super::table::Table;
use super::value::Value;

/// The key of the program.
const HOOK: &[&str] = &["dns_hook"];

/// Longest time limit of the hook, in milliseconds. Authorizations are pending for days.
const HOOK_MS_MAX: u64 = 60 * 60 * 1_000;

/// Port of resolvers without one.
const DNS_PORT: u16 = 53;

/// Most resolvers, because each is asked for each record.
const RESOLVERS_MAX: usize = 16;

/// Bits of a mode that let the group or others write.
const WRITABLE_MODE: u32 = 0o022;

/// Bit of a directory's mode by which only the owner of a file may remove it.
const STICKY_MODE: u32 = 0o1000;

/// Bits of a mode that let somebody execute.
const EXECUTABLE_MODE: u32 = 0o111;

settings! {
    /// A program that writes and removes records, and the servers that must have them.
    #[derive(Eq)]
    pub struct DnsHook: HOOK_KEYS with HOOK {
        /// Time limit of one call of the hook, and of the wait for a record at the zone's servers.
        #[serde(serialize_with = "print::duration")]
        timeout ("dns_timeout"): Duration = Duration::from_secs(120), Time(1_000, HOOK_MS_MAX), "\"10m\"";
        /// Resolvers that are asked for the records in place of the system's and of the zone's
        /// servers; port 53 by default.
        #[serde(serialize_with = "print::texts", skip_serializing_if = "Vec::is_empty")]
        resolvers ("dns_resolvers"): Vec<SocketAddr> = Vec::new(), List("addresses"),
            "[\"192.0.2.53\", \"[2001:db8::53]:5353\"]", or "the system's, and the zone's servers",
            by resolvers;
    }
    beside {
        /// Path of the program.
        #[serde(rename = "dns_hook", serialize_with = "print::path")]
        program: PathBuf = PathBuf::new();
    }
}

/// Reads the keys of the hook in `[acme]`.
pub(super) fn dns_hook(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<DnsHook> {
    let written = table.get("dns_hook")?;
    let program = written.path(reader)?;
    reader.programs.push((written.spot.clone(), program.clone()));
    Some(DnsHook { program, ..DnsHook::read(table, reader) })
}

fn resolvers(written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<SocketAddr>> {
    let resolvers = written.parse_list(reader, resolver)?;
    if written.is_empty_list() {
        let hint = "leave the key out for the zone's own servers";
        written.report(reader, ValueError::new("no resolver").hint(hint));
    } else if resolvers.len() > RESOLVERS_MAX {
        let wrong = ValueError::new("too many resolvers");
        written.report(reader, wrong.hint(format!("at most {RESOLVERS_MAX}")));
    }
    Some(resolvers)
}

/// Parses the address of a resolver.
fn resolver(text: &str) -> Result<SocketAddr, ValueError> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let address = bare.map(|address| SocketAddr::new(address, DNS_PORT));
    address.or_else(|_| text.parse()).map_err(|_| {
        ValueError::new(format!("{} is not an address", shown(text)))
            .hint("write for example \"192.0.2.53\" or \"[2001:db8::53]:5353\"")
    })
}

/// The problem with a program that the server starts as `user`; `None`: it may be started, or only
/// the server's user can see it. Who can change the program can have the server run any other.
pub(super) fn not_a_program(path: &Path, user: Option<&str>) -> Option<ValueError> {
    let shown = path.display();
    let metadata = match path.metadata() {
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => {
            return Some(
                ValueError::new(format!("{shown}: {e}"))
                    .hint("relative paths are relative to the configuration file"),
            );
        }
        Err(_) => return None,
        Ok(metadata) => metadata,
    };
    let wrong = |what: String| ValueError::new(format!("{shown} {what}"));
    let mode = metadata.mode() & 0o7777;
    let user = user.and_then(|name| User::from_name(name).ok().flatten());
    let owners = [Some(0), Some(geteuid().as_raw()), user.map(|user| user.uid.as_raw())];
    if !metadata.is_file() {
        Some(wrong("is not a file".to_owned()).hint("name a program"))
    } else if mode & EXECUTABLE_MODE == 0 {
        Some(wrong("is not executable".to_owned()).hint(format!("chmod +x {shown}")))
    } else if mode & WRITABLE_MODE != 0 {
        let what = format!("is writable by others (mode {mode:04o})");
        Some(wrong(what).hint(format!("chmod go-w {shown}")))
    } else if !owners.contains(&Some(metadata.uid())) {
        let what = format!("belongs to the user {}", metadata.uid());
        Some(wrong(what).hint("it must belong to root or to the server's user"))
    } else {
        not_a_safe_directory(path)
    }
}

/// The problem with the directory of a program; `None`: others can replace nothing in it.
fn not_a_safe_directory(path: &Path) -> Option<ValueError> {
    let directory = path.parent()?;
    let mode = directory.metadata().ok()?.mode() & 0o7777;
    let is_open = mode & WRITABLE_MODE != 0 && mode & STICKY_MODE == 0;
    let shown = directory.display();
    is_open.then(|| {
        let what = format!(
            "{} can be replaced by others: {shown} has the mode {mode:04o}",
            path.display()
        );
        ValueError::new(what).hint(format!("chmod go-w {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn addresses_of_resolvers_have_a_port() {
        let table = [
            ("192.0.2.53", Some("192.0.2.53:53")),
            ("192.0.2.53:5353", Some("192.0.2.53:5353")),
            ("2001:db8::53", Some("[2001:db8::53]:53")),
            ("[2001:db8::53]", Some("[2001:db8::53]:53")),
            ("[2001:db8::53]:5353", Some("[2001:db8::53]:5353")),
            ("dns.example", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = resolver(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn programs_that_others_can_change_are_refused() {
        let dir = std::env::temp_dir().join(format!("hurtle-{}-hook", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("hook");
        let problem = |path: &Path| not_a_program(path, None).map(|wrong| wrong.what);
        assert!(problem(&path).is_some_and(|what| what.contains("No such file")));
        assert!(problem(&dir).is_some_and(|what| what.contains("is not a file")));
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let table = [
            (0o600, Some("is not executable")),
            (0o755, None),
            (0o700, None),
            (0o775, Some("is writable by others (mode 0775)")),
            (0o757, Some("is writable by others (mode 0757)")),
        ];
        for (mode, expected) in table {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let expected = expected.map(|what| format!("{} {what}", path.display()));
            assert_eq!(problem(&path), expected, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        for (mode, is_safe) in [(0o755, true), (0o777, false), (0o775, false), (0o1777, true)] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(problem(&path).is_none(), is_safe, "the directory has {mode:o}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
