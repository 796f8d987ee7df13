//! A plan in a few words, from the command line.

use super::{Plan, PlanError};

/// Connections if none are named.
const CONNECTIONS: u32 = 50;

/// Largest file, in bytes.
const BYTES_MAX: u64 = 1 << 30;

impl Plan {
    /// The plan of works such as `10k:50` (a file of 10 KiB over 50 connections, as fast as they
    /// go) or `1m:10@200` (1 MiB at 200 requests a second over 10 connections), for these
    /// contenders, the reference first.
    ///
    /// # Errors
    /// The word that cannot be read.
    pub fn of_works(works: &[String], contenders: &[String]) -> Result<Plan, PlanError> {
        let works: Vec<ShortWork> = works.iter().map(|w| read(w)).collect::<Result<_, _>>()?;
        let reference = contenders.first().ok_or(PlanError("name a contender".to_owned()))?;
        let mut text = format!(
            "name = \"duel\"\ntitle = \"A duel\"\ndescription = \"All contenders alive, the load in \
             slices.\"\nreference = {reference:?}\nrounds = 6\nwarm_up_s = 0.5\nsample_s = 2\n\
             budget_s = 60\ncontenders = {contenders:?}\n"
        );
        let mut sizes: Vec<(&str, u64)> =
            works.iter().map(|w| (w.size.as_str(), w.bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for (size, bytes) in sizes {
            text += &format!("[[file]]\nname = \"{size}.bin\"\nbytes = {bytes}\n");
        }
        for ShortWork { size, connections, rate, .. } in &works {
            text += &format!("[[work]]\nfile = \"{size}.bin\"\n");
            text += &match rate {
                Some(rate) => {
                    format!("open = {{ requests = [{rate}], connections = {connections} }}\n")
                }
                None => format!("closed = {{ connections = [{connections}] }}\n"),
            };
        }
        Plan::read(&text)
    }
}

struct ShortWork {
    size: String,
    bytes: u64,
    connections: u32,
    rate: Option<u32>,
}

fn read(word: &str) -> Result<ShortWork, PlanError> {
    let bad = || {
        PlanError(format!(
            "--work {word}: write SIZE[:CONNECTIONS][@RATE], such as 10k:50 or 1m:10@200"
        ))
    };
    let (load, rate) = word.split_once('@').map_or((word, None), |(load, rate)| (load, Some(rate)));
    let (size, connections) =
        load.split_once(':').map_or((load, None), |(size, many)| (size, Some(many)));
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(bad);
    let size = size.to_ascii_lowercase();
    let (digits, unit) = match (size.strip_suffix('k'), size.strip_suffix('m')) {
        (Some(digits), _) => (digits, 1 << 10),
        (_, Some(digits)) => (digits, 1 << 20),
        _ => (size.as_str(), 1),
    };
    let bytes = u64::from(number(digits)?) * unit;
    if bytes > BYTES_MAX {
        return Err(PlanError(format!("--work {word}: a file has at most {BYTES_MAX} bytes")));
    }
    Ok(ShortWork {
        bytes,
        connections: connections.map_or(Ok(CONNECTIONS), number)?,
        rate: rate.map(number).transpose()?,
        size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Work;

    #[test]
    fn works_are_read_from_words() {
        let names = ["nginx".to_owned(), "hurtle".to_owned()];
        let plan = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Plan::of_works(&words, &names)
        };
        let read = plan(&["10k", "10K:400", "1m:10@200", "77:1"]).unwrap();
        assert_eq!(
            read.works.iter().map(Work::name).collect::<Vec<_>>(),
            [
                "10k.bin, 50 connections, as fast as they go",
                "10k.bin, 400 connections, as fast as they go",
                "1m.bin at 200/s over 10 connections",
                "77.bin, 1 connections, as fast as they go",
            ]
        );
        let bytes: Vec<u64> = read.files.iter().map(|file| file.bytes).collect();
        assert_eq!((bytes, read.reference.as_str()), (vec![10_240, 1 << 20, 77], "nginx"));
        assert!(read.works.iter().all(|work| read.slices(work)));
        for word in ["", "k", "10k:", "10k:0", "10k@0", "10k@x", "0", "-1", "10k:50:1", "4000m"] {
            assert!(plan(&[word]).unwrap_err().0.contains("--work"), "{word}");
        }
        assert!(plan(&["10k", "10k"]).is_err(), "one work twice");
    }
}
