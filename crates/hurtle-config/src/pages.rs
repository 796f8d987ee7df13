//! Finds pages of `errors` and `spa` that do not exist, and sites that are down for maintenance.
//! The server starts all the same.

use super::files::Files;
use super::types::{Config, MountHandler, Site};

/// Returns a warning for each page that no client would get, and each site that is down.
pub fn page_warnings(config: &Config) -> Vec<String> {
    let sites = config.sites.iter().enumerate();
    let has_apps = config.apps.is_some();
    sites.flat_map(|(n, site)| page_warnings_of(site, &format!("site[{n}]"), has_apps)).collect()
}

fn page_warnings_of(site: &Site, key: &str, has_apps: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(file) = site.maintenance.as_deref().filter(|file| file.exists()) {
        let file = file.display();
        warnings.push(format!("{key}.maintenance: there is {file}, so all requests get 503"));
    }
    let of_mounts = site.mounts.iter().enumerate().flat_map(|(number, mount)| {
        let of_mount = move |(status, page)| (format!("{key}.mount[{number}]"), status, page);
        mount.error_pages.iter().map(of_mount)
    });
    let of_site = site.error_pages.iter().map(|(status, page)| (key.to_owned(), status, page));
    for (place, status, page) in of_site.chain(of_mounts) {
        let Some(page) = page.path() else { continue };
        let key = format!("{place}.errors.{}", status.as_u16());
        match site.mount_of(page).map(|mount| (mount, &mount.handler)) {
            Some((mount, MountHandler::Files(files))) => {
                let missing = missing(files, mount.rest(page));
                warnings.extend(missing.map(|missing| format!("{key}: {missing}")));
            }
            // An application responds.
            Some((
                _,
                MountHandler::Proxy(_)
                | MountHandler::FastCgi(_)
                | MountHandler::Uwsgi(_)
                | MountHandler::Cgi(_)
                | MountHandler::Wasm(_)
                | MountHandler::Fixed { .. },
            )) => {}
            // One may be deployed there.
            None if has_apps => {}
            _ => {
                warnings.push(format!(
                    "{key}: {page} is in no mount of files or of an application, so it is not shown"
                ));
            }
        }
    }
    for (number, mount) in site.mounts.iter().enumerate() {
        let MountHandler::Files(files) = &mount.handler else { continue };
        let missing = files.spa.as_deref().and_then(|page| missing(files, page));
        warnings.extend(missing.map(|missing| format!("{key}.mount[{number}].spa: {missing}")));
    }
    warnings
}

/// The problem with a page of a mount; `None`: it exists, or only the server's user can see it.
fn missing(files: &Files, page: &str) -> Option<String> {
    if files.objects.is_some() {
        return None;
    }
    let path = files.root.join(page.trim_start_matches('/'));
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Some(format!("{} is a directory", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some(format!("there is no {}, so it is not shown", path.display()))
        }
        Ok(_) | Err(_) => None,
    }
}
