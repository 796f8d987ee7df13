//! Parses addresses to listen on. `hurtle::server` binds them.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::bounds::SOCKET_PATH_BYTES_MAX;
use super::error::{ValueError, shown};
use super::types::Listen;

/// Prefix of a unix socket's path.
pub(super) const UNIX: &str = "unix:";

/// Parses `address:port`, `:port` for every IPv4 address as on the command line, or `unix:` and a
/// path, which `absolute` makes absolute.
pub(super) fn listen(
    text: &str,
    absolute: impl FnOnce(&str) -> Result<PathBuf, ValueError>,
) -> Result<Listen, ValueError> {
    if let Some(path) = text.strip_prefix(UNIX) {
        let path = absolute(path)?;
        if path.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
            return Err(ValueError::new(format!("the path of {} is too long", shown(text)))
                .hint(format!("a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes")));
        }
        return Ok(Listen::Unix(path));
    }
    if let Some(Ok(port)) = text.strip_prefix(':').map(str::parse::<u16>) {
        return Ok(Listen::Tcp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Listen::Tcp(address));
    }
    Err(ValueError::new(format!("{} is not an address and a port", shown(text))).hint(hint(text)))
}

fn hint(text: &str) -> String {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    match (host, port.parse::<u16>()) {
        ("", Ok(port)) => {
            format!("write \"127.0.0.1:{port}\", or \"0.0.0.0:{port}\" for every IPv4 address")
        }
        ("*", Ok(port)) => format!("write [\"0.0.0.0:{port}\", \"[::]:{port}\"]"),
        ("localhost", Ok(port)) => format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\""),
        _ if text.starts_with(['/', '.']) => format!("write \"{UNIX}{}\"", text.escape_debug()),
        _ => format!("write \"127.0.0.1:8080\", \"[::1]:8080\" or \"{UNIX}/run/hurtle.sock\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_addresses_are_refused_with_a_hint() {
        let tcp = |text: &str| Ok(Listen::Tcp(text.parse().expect("an address of this table")));
        let table = [
            ("IPv4", "127.0.0.1:80", tcp("127.0.0.1:80")),
            ("IPv6", "[::1]:80", tcp("[::1]:80")),
            ("any free port", "127.0.0.1:0", tcp("127.0.0.1:0")),
            ("a socket", "unix:/run/h.sock", Ok(Listen::Unix("/run/h.sock".into()))),
            ("a relative socket", "unix:h.sock", Ok(Listen::Unix("/etc/h.sock".into()))),
            (
                "a port alone",
                "8080",
                Err("write \"127.0.0.1:8080\", or \"0.0.0.0:8080\" for every IPv4 address"),
            ),
            ("a colon and a port, as on the command line", ":80", tcp("0.0.0.0:80")),
            (
                "a colon and no port",
                ":",
                Err("write \"127.0.0.1:8080\", \"[::1]:8080\" or \"unix:/run/hurtle.sock\""),
            ),
            ("a star", "*:80", Err("write [\"0.0.0.0:80\", \"[::]:80\"]")),
            ("a name", "localhost:80", Err("write \"127.0.0.1:80\" or \"[::1]:80\"")),
            ("a bare path", "/run/h.sock", Err("write \"unix:/run/h.sock\"")),
            (
                "a port too large",
                "127.0.0.1:65536",
                Err("write \"127.0.0.1:8080\", \"[::1]:8080\" or \"unix:/run/hurtle.sock\""),
            ),
        ];
        for (sentence, text, expected) in table {
            let found = listen(text, |path| Ok(PathBuf::from("/etc").join(path)));
            assert_eq!(
                found.map_err(|wrong| wrong.hint.unwrap_or_default()),
                expected.map_err(str::to_owned),
                "{sentence}"
            );
        }
        let long = format!("unix:/{}", "s".repeat(SOCKET_PATH_BYTES_MAX));
        assert!(listen(&long, |path| Ok(path.into())).is_err(), "more than sun_path holds");
    }
}
