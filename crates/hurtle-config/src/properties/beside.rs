//! The keys beside a key of certificates, dictionaries or authentication, without which it is not
//! valid.

use super::super::schema::Section;

/// A line of `[acme]`, `[[acme.authority]]` or the local authority with the keys it needs.
pub(super) fn with_acme(section: &Section, name: &str, line: &str) -> String {
    if name == "local_authority" {
        return with_local(line);
    }
    let acme = match (section.header, name) {
        ("", _) => line.to_owned(),
        ("[acme]", "accept_terms") => format!("[acme]\n{line}"),
        ("[acme]", name) => {
            let needs_hook = name.starts_with("dns_") || line.contains("dns-01");
            let hook = match needs_hook && name != "dns_hook" {
                true => "dns_hook = \"hook\"\n",
                false => "",
            };
            format!("[acme]\naccept_terms = true\n{hook}{line}")
        }
        (_, name) => {
            let directory = if name == "directory" { "" } else { "directory = \"https://a\"\n" };
            let beside = match name {
                "eab_id" => "eab_key = \"k\"\n",
                "eab_key" => "eab_id = \"i\"\n",
                _ => "",
            };
            format!("[acme]\naccept_terms = true\n[[acme.authority]]\n{directory}{beside}{line}")
        }
    };
    format!(
        "listen = \"[::]:80\"\nlisten_tls = \"[::]:443\"\n{acme}[[site]]\nhosts = \"a.example.org\"\n\
         [site.tls]\ncertificate = \"auto\"\n[[site.mount]]\nfiles = \".\""
    )
}

/// A line of `[site.tls]`, whose key has this name, with the keys it needs.
pub(super) fn with_tls(name: &str, line: &str) -> String {
    let certificate = if name == "certificate" { "" } else { "certificate = \"c.pem\"\n" };
    let beside = match name {
        "client_auth" if line.contains("required") => "client_ca = \"a.pem\"\n",
        "client_ca" => "client_auth = \"optional\"\n",
        "client_crl" => "client_auth = \"optional\"\nclient_ca = \"a.pem\"\n",
        _ => "",
    };
    format!(
        "listen_tls = \"[::]:443\"\n[[site]]\nhosts = \"a.example\"\n[site.tls]\n{certificate}{beside}{line}\
         [[site.mount]]\nfiles = \".\""
    )
}

/// The line of `client_auth` of a mount, with the keys it needs.
pub(super) fn with_client_auth(line: &str) -> String {
    let tls = with_tls("client_crl", "");
    format!("{tls}\n{line}")
}

/// A line of `[site.tls]` or of `on_demand`, whose key has this name, with the keys it needs.
pub(super) fn with_on_demand(name: &str, line: &str) -> String {
    let section = match name {
        "" => String::new(),
        "ask" => "[site.tls.on_demand]\n".to_owned(),
        _ => "[site.tls.on_demand]\nask = \"http://a\"\n".to_owned(),
    };
    format!(
        "acme = {{ accept_terms = true }}\nlisten_tls = \"[::]:443\"\n[[site]]\n\
         hosts = \"a.example.org\"\n[site.tls]\ncertificate = \"auto\"\n{section}{line}\
         [[site.mount]]\nfiles = \".\""
    )
}

/// A line of the local authority with a site that uses it.
fn with_local(line: &str) -> String {
    format!(
        "{line}listen_tls = \"[::]:443\"\n[[site]]\nhosts = \"a.lan\"\n[site.tls]\n\
         certificate = \"local\"\n[[site.mount]]\nfiles = \".\""
    )
}

/// A line of a dictionary with the mount and the pattern that it needs.
pub(super) fn with_dictionary(name: &str, line: &str) -> String {
    let pattern = if name == "match" { "" } else { "match = \"*.js\"\n" };
    format!("[[site.mount]]\nfiles = \".\"\n[[site.mount.dictionary]]\n{pattern}{line}")
}

/// `true` for a key that needs `auth`.
pub(super) fn is_of_auth(name: &str) -> bool {
    super::super::schema_mount::MOUNT.key(name).is_some_and(|key| key.with.first() == Some(&"auth"))
}

/// A line of a user setting with the keys it needs.
pub(super) fn basic(name: &str, line: &str) -> String {
    if matches!(name, "forward" | "copy_headers" | "auth_timeout" | "forward_tls") {
        let server = if name == "forward" { "" } else { "forward = \"https://a\"\n" };
        return format!("auth = \"forward\"\n{server}{line}");
    }
    if super::super::auth::is_of_tokens(name) {
        let keys = if name == "jwks" { "" } else { "jwks = \"keys.json\"\n" };
        return format!("auth = \"jwt\"\n{keys}{line}");
    }
    let users = if name == "users" { "" } else { "users = \"u\"\n" };
    format!("auth = \"basic\"\n{users}{line}")
}
