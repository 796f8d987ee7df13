//! Sends the same requests to Apache with a .htaccess file and to hurtle with its import, and
//! compares status, Location, fields and body.

use hurtle::import::htaccess::Options;

use crate::apache::{Case, compare, program};
use crate::servers::Seen;
use crate::{htaccess_guards, htaccess_responses, htaccess_rows};

/// `true` for a difference that a remark of the import has.
pub(super) fn is_remarked(request: &str, apache: &Seen, ours: &Seen, text: &str) -> bool {
    let text = text.replace("\n#  ", "");
    let pair = (apache.status.as_str(), ours.status.as_str());
    let is_same = apache.location == ours.location && apache.body == ours.body;
    let is_redirect = |seen: &Seen| seen.status.starts_with('3');
    let is_dot = request.split('?').next().is_some_and(|path| path.contains("/."));
    (is_dot && pair.1 == "404" && text.contains("begin with a dot are 404"))
        || (pair == ("403", "404") && text.contains("A directory without an index"))
        || (request.starts_with("POST") && pair.1 == "405" && text.contains("POST /a.txt gets 405"))
        || (request.starts_with("OPTIONS") && pair.1.starts_with('2'))
        || (is_redirect(apache)
            && pair.0 == pair.1
            && is_same
            && text.contains("have the fields of `Header`"))
        || (pair == ("301", "308")
            && apache.location == ours.location
            && text.contains("has the status 308"))
        || (is_same && pair == ("404", "404") && text.contains("Pages of ErrorDocument have"))
        || (pair == ("404", "502") && text.contains("PHP-FPM"))
}

#[test]
fn both_servers_answer_alike() {
    let Some(apache) = program() else {
        panic!("apache2 is missing; `cargo xtask test --only packages` installs it");
    };
    let mut faults = Vec::new();
    let rows = htaccess_rows::ROWS.iter().chain(htaccess_responses::ROWS);
    for row in rows.chain(htaccess_guards::ROWS) {
        let hosts = row.hosts.iter().map(|host| (*host).to_owned()).collect();
        let options = Options { hosts, fastcgi: None };
        let case = Case {
            sentence: row.sentence,
            text: row.text,
            options,
            requests: row.requests,
            files: &[],
        };
        faults.extend(compare(&apache, &case, is_remarked));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
