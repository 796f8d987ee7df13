//! Directories with difficult names: a listing shows every name and its link leads to the file,
//! whatever its bytes and however many there are.

use std::collections::HashSet;
use std::fs::File;
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::child::{Child, PATIENCE};
use crate::support::{Client, Dir, Response};

/// Files in the large directory: a million with `HURTLE_TEST_FULL=1` (creating them takes minutes),
/// else enough to show the same.
const MANY: usize = 100_000;
const MANY_FULL: usize = 1_000_000;

/// Limit of the server's growth by a listing, in KiB.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Time limit of a cached file meanwhile, in an unoptimised build.
const HOT_WAIT_MAX: Duration = Duration::from_secs(1);

#[test]
fn a_name_of_any_bytes_is_listed_with_a_link_that_leads_to_it() {
    let dir = Dir::new(&[]);
    let mut names = HashSet::new();
    for byte in (1..=255u8).filter(|byte| *byte != b'/') {
        // A single byte is a row only if it is a valid and visible name.
        let mut rows = vec![vec![b'a', byte], vec![byte, b'a'], vec![b'<', byte, b'%', b'"', byte]];
        rows.retain(|name| name[0] != b'.');
        for name in rows {
            dir.write(&name, &name);
            names.insert(name);
        }
    }
    let child = Child::serve(&dir, &[]);
    let mut client = child.connect();
    for accept in ["application/json", "text/html"] {
        let page = client.request("GET", &format!("/\nAccept: {accept}"));
        let hrefs =
            if accept == "text/html" { html_links(page.text()) } else { links(page.text()) };
        let mut found = HashSet::new();
        for href in hrefs {
            let answer = client.request("GET", &format!("/{}", href.trim_start_matches("./")));
            assert_eq!(answer.status, 200, "{accept}: {href}");
            assert!(found.insert(answer.body), "{accept}: {href} is there twice");
        }
        // Each file contains its own name, so a wrong link shows.
        assert_eq!(found, names, "{accept}");
    }
}

#[test]
fn a_huge_directory_is_paged_through_in_bounded_memory_while_others_are_served() {
    let many = if env::var_os("HURTLE_TEST_FULL").is_some() { MANY_FULL } else { MANY };
    let dir = Dir::new(&[("../root/hot.txt", "hot\n"), ("many/", "")]);
    let begun = Instant::now();
    for number in 0..many {
        File::create(dir.path(format!("many/{number:07}"))).unwrap();
    }
    println!("{many} files made in {:?}", begun.elapsed());
    let child = Child::serve(&dir, &[]);
    let mut hot = child.connect();
    assert_eq!(hot.request("GET", "/hot.txt").status, 200);
    // Lets one-time allocations happen first.
    assert_eq!(child.get("/\nAccept: application/json").status, 200);
    let before_kib = child.resident_kib();

    let address = child.address();
    let begun = Instant::now();
    let pager = thread::spawn(move || page_through(&mut Client::connect(address)));
    let (mut waits, mut peak_kib) = (Vec::new(), 0);
    while !pager.is_finished() {
        let begun = Instant::now();
        assert_eq!(hot.request("GET", "/hot.txt").text(), "hot\n");
        waits.push(begun.elapsed());
        peak_kib = child.resident_kib().max(peak_kib);
        thread::sleep(Duration::from_millis(1));
    }
    let names = pager.join().unwrap();
    let growth_kib = peak_kib - before_kib;
    waits.sort();
    let (p99, slowest) = (waits[waits.len() * 99 / 100], waits[waits.len() - 1]);
    println!(
        "{many} names in {:?}, {growth_kib} KiB more; beside it {} hot answers, p99 {p99:?}, \
         slowest {slowest:?}",
        begun.elapsed(),
        waits.len()
    );
    assert_eq!(names.len(), many, "names listed, each once");
    assert!(growth_kib <= GROWTH_KIB_MAX, "{growth_kib} KiB for {many} names");
    assert!(waits.len() >= 10, "the listing was over before anything could wait for it");
    assert!(slowest < HOT_WAIT_MAX, "a hot file took {slowest:?}");
}

/// The names on all pages; fails if a name is repeated.
fn page_through(client: &mut Client) -> HashSet<String> {
    // The first page of a large directory is slow on a slow disk.
    client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut names = HashSet::new();
    for page in 1.. {
        let answer = listed(client, page);
        assert_eq!(answer.status, 200, "page {page}");
        let listing: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(listing["truncated"], false);
        for entry in listing["entries"].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} twice");
        }
        if listing["pages"] == page {
            break;
        }
    }
    names
}

/// Requests a page of the listing, again while it takes the server longer than a disk may take.
fn listed(client: &mut Client, page: u64) -> Response {
    let target = format!("/many/?page={page}\nAccept: application/json");
    let begun = Instant::now();
    loop {
        let answer = client.request("GET", &target);
        if answer.status != 503 || begun.elapsed() > PATIENCE {
            return answer;
        }
    }
}

fn links(json: &str) -> Vec<String> {
    let listing: serde_json::Value = serde_json::from_str(json).unwrap();
    let entries = listing["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["href"].as_str().unwrap().to_owned()).collect()
}

/// Links of an HTML listing that lead into the directory.
fn html_links(html: &str) -> Vec<String> {
    let hrefs = html.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    hrefs.filter(|href| href.starts_with("./")).map(str::to_owned).collect()
}
