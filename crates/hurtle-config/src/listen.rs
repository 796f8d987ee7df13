//! Parses addresses to listen on. `hurtle::server` binds them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::bounds::SOCKET_PATH_BYTES_MAX;
use super::config::Config;
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

impl Config {
    /// Removes IPv6 addresses where their IPv4 counterpart stands beside them: `[::]:80` beside
    /// `0.0.0.0:80`, and `[::1]:80` beside `127.0.0.1:80`, if `is_missing` says that the system has
    /// none such. Returns those of listeners. Others remain and are reported when they cannot be
    /// bound, also one that a site or the PROXY protocol has alone.
    pub fn remove_ipv6_beside_ipv4(
        &mut self,
        is_missing: impl Fn(Ipv6Addr) -> bool,
    ) -> Vec<Listen> {
        let on = self.proxy_protocol.iter_mut().map(|proxied| &mut proxied.on);
        let mut alone = Vec::new();
        for listed in self.sites.iter_mut().map(|site| &mut site.listen).chain(on) {
            remove_beside(listed, &[], &is_missing);
            alone.extend(listed.iter().cloned());
        }
        let metrics = self.metrics.iter_mut().map(|metrics| &mut metrics.listen);
        let listeners = [&mut self.listen, &mut self.listen_tls].into_iter().chain(metrics);
        listeners.flat_map(|listed| remove_beside(listed, &alone, &is_missing)).collect()
    }
}

fn remove_beside(
    listed: &mut Vec<Listen>,
    kept: &[Listen],
    is_missing: &impl Fn(Ipv6Addr) -> bool,
) -> Vec<Listen> {
    let all = listed.clone();
    let is_beside = |one: &mut Listen| {
        matches!(one, Listen::Tcp(SocketAddr::V6(v6)) if is_missing(*v6.ip()))
            && !kept.contains(one)
            && all.iter().any(|other| is_counterpart(one, other))
    };
    listed.extract_if(.., is_beside).collect()
}

/// Returns whether an IPv6 address means the same as an IPv4 one, of the other family.
fn is_counterpart(one: &Listen, other: &Listen) -> bool {
    let (Listen::Tcp(SocketAddr::V6(one)), Listen::Tcp(SocketAddr::V4(other))) = (one, other)
    else {
        return false;
    };
    let (ipv6, ipv4) = (one.ip(), other.ip());
    one.port() == other.port()
        && (ipv6.is_unspecified() && ipv4.is_unspecified()
            || ipv6.is_loopback() && *ipv4 == Ipv4Addr::LOCALHOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;

    /// Regression: a packaged configuration did not start where the kernel has no IPv6.
    #[test]
    fn without_ipv6_its_addresses_beside_ipv4_are_removed() {
        let mount = "[[site.mount]]\nrespond = \"\"\n";
        let text = format!(
            "listen = [\"0.0.0.0:80\", \"[::]:80\", \"0.0.0.0:81\", \"[::]:81\", \"[::1]:82\"]\n\
             metrics = {{ listen = [\"127.0.0.1:9100\", \"[::1]:9100\"] }}\n\
             proxy_protocol = {{ from = \"10.0.0.0/8\", on = \"[::1]:82\" }}\n\
             [[site]]\nhosts = \"a.example\"\nlisten = [\"0.0.0.0:80\", \"[::]:80\"]\n{mount}\
             [[site]]\nhosts = \"b.example\"\nlisten = \"[::]:81\"\n{mount}"
        );
        let mut config = check(&text, std::path::Path::new("/etc/hurtle.toml")).unwrap();
        let secure = ["[::1]:443", "127.0.0.1:443", "10.0.0.1:444", "[::]:444"];
        config.listen_tls =
            secure.map(|text| Listen::Tcp(text.parse().expect("an address"))).to_vec();
        let texts = |listed: &[Listen]| listed.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(config.remove_ipv6_beside_ipv4(|_| false), []);
        assert_eq!(
            texts(&config.clone().remove_ipv6_beside_ipv4(|ip| ip.is_loopback())),
            ["[::1]:443", "[::1]:9100"]
        );
        let removed = config.remove_ipv6_beside_ipv4(|_| true);
        assert_eq!(texts(&removed), ["[::]:80", "[::1]:443", "[::1]:9100"]);
        assert_eq!(texts(&config.listen), ["0.0.0.0:80", "0.0.0.0:81", "[::]:81", "[::1]:82"]);
        assert_eq!(texts(&config.listen_tls), ["127.0.0.1:443", "10.0.0.1:444", "[::]:444"]);
        assert_eq!(texts(&config.metrics.unwrap().listen), ["127.0.0.1:9100"]);
        assert_eq!(texts(&config.sites[0].listen), ["0.0.0.0:80"]);
        assert_eq!(texts(&config.sites[1].listen), ["[::]:81"], "empty would be every address");
        assert_eq!(texts(&config.proxy_protocol.unwrap().on), ["[::1]:82"], "likewise");
    }

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
