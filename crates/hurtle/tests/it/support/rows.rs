//! Requests and the answers they must get, as rows of a table.

use super::{Response, Server};

/// A sentence; a GET as `Server::get` takes it; the status; `Field: value` for each field that must
/// be there, `!Field` for one that must not; the body, or `None` where it does not matter.
pub(crate) type Row<'a> = (&'a str, &'a str, u16, &'a [&'a str], Option<&'a str>);

/// Asks each row three times: GET from scratch, GET of what is then known, and HEAD, whose fields
/// must be those of GET (RFC 9110 9.3.2). All rows that fail are reported.
#[track_caller]
pub(crate) fn check(server: &Server, rows: &[Row<'_>]) {
    let mut failures = Vec::new();
    for row in rows {
        let (first, again, head) = (server.get(row.1), server.get(row.1), server.head(row.1));
        for response in [&first, &again] {
            if let Err(problem) = holds(row, response) {
                failures.push(format!("{}: {problem}\n    of {:?}: {response:?}", row.0, row.1));
                break;
            }
        }
        // RFC 9110 14.2: a Range means nothing in a HEAD.
        if !row.1.contains("\nRange:")
            && (head.status, head.stable_fields()) != (first.status, first.stable_fields())
        {
            failures.push(format!("{}: HEAD differs: {head:?}\n    {first:?}", row.0));
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

fn holds(row: &Row<'_>, response: &Response) -> Result<(), String> {
    let (_, _, status, fields, body) = row;
    if response.status != *status {
        return Err(format!("not {status}"));
    }
    for wanted in *fields {
        match wanted.strip_prefix('!') {
            Some(absent) if response.field(absent).is_some() => return Err(format!("a {absent}")),
            Some(_) => {}
            None => {
                let (name, value) = wanted.split_once(": ").unwrap();
                if response.field(name) != Some(value) {
                    return Err(format!("no {wanted}"));
                }
            }
        }
    }
    match body {
        Some(body) if body.as_bytes() != response.body => Err(format!("not the body {body:?}")),
        _ => Ok(()),
    }
}
