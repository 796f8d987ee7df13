//! `--target` and `--pid`: servers that run already.

use deathmatch::arena::Remote;
use deathmatch::cli::RunArgs;
use deathmatch::target::Url;

/// The servers, by name.
pub(super) fn targets(args: &RunArgs) -> Result<Vec<(String, Remote)>, String> {
    let mut found: Vec<(String, Remote)> = Vec::new();
    for words in &args.targets {
        let (name, at) = named(words);
        let bad = |why: String| format!("--target {words}: {why}");
        if found.iter().any(|(other, _)| other == name) || args.only.iter().any(|n| n == name) {
            return Err(bad(format!(
                "there is another {name:?}; write NAME=URL with another name"
            )));
        }
        let text = if at.contains("://") { at.to_owned() } else { format!("http://{at}") };
        let url: Url = text.parse().map_err(|e| bad(format!("write HOST:PORT or a URL ({e})")))?;
        let remote = Remote::folder(&url);
        let remote = remote.map_err(|e| bad(format!("{e}; write HOST:PORT or a URL")))?;
        found.push((name.to_owned(), remote));
    }
    for words in &args.pids {
        let bad = |why: &str| format!("--pid {words}: {why}");
        let (name, pid) = words.rsplit_once('=').map_or((None, &**words), |(n, p)| (Some(n), p));
        let pid: u32 = pid.parse().map_err(|_| bad("write NAME=PID with the target's name"))?;
        let at = match name {
            Some(name) => found.iter().position(|(own, _)| own == name),
            None if found.len() == 1 => Some(0),
            None => None,
        };
        let (_, remote) = at
            .and_then(|at| found.get_mut(at))
            .ok_or_else(|| bad("there is no such target; write NAME=PID with the target's name"))?;
        *remote = remote.clone().with_pid(pid).map_err(|e| bad(&e))?;
    }
    Ok(found)
}

/// Name and address of `NAME=URL`; without a name, the address is one.
pub(super) fn named(words: &str) -> (&str, &str) {
    match words.split_once('=') {
        Some((name, at)) if !name.contains(['/', ':', '?']) => (name, at),
        _ => (words, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_have_a_name_and_a_query() {
        for (words, name, at) in [
            ("a=http://h/?b=c", "a", "http://h/?b=c"),
            ("http://h/?b=c", "http://h/?b=c", "http://h/?b=c"),
            ("h:80", "h:80", "h:80"),
            ("mine=h:80", "mine", "h:80"),
        ] {
            assert_eq!(named(words), (name, at));
        }
    }
}
