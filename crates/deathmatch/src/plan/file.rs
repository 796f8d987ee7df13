//! Files that a plan's contenders serve, of given sizes, and responses of an application.

use serde::Deserialize;

use super::PlanError;
use crate::random::SplitMix;

/// Largest number of files of one kind; more would take longer to write than to serve.
const FILES_MAX: u32 = 1_000_000;

/// Seed of sizes, for files that differ in size.
const SIZES_SEED: u64 = 0x7369_7a65;

/// One or more files that every contender serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name below the document root; of several, with `{}` for their number.
    pub name: String,
    /// The size of each file, in bytes.
    pub bytes: u64,
    /// The largest size, in bytes, if the files differ in size; `bytes` is then the smallest.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// `true`: as many files have 1 to 2 KB as 100 to 200 KB, and likewise for every factor, as on
    /// the web. Otherwise all sizes are equally likely.
    #[serde(default)]
    pub log_uniform: bool,
    /// Number of files that it stands for.
    #[serde(default = "one")]
    pub count: u32,
    /// The text an application returns under this name. The file has the same content, for
    /// checking; contenders that only serve files take no part.
    #[serde(default)]
    pub app: Option<String>,
}

fn one() -> u32 {
    1
}

impl File {
    /// Returns the name of each file.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|number| self.nth(number))
    }

    /// The name of the file of this number.
    pub fn nth(&self, number: u32) -> String {
        self.name.replace("{}", &number.to_string())
    }

    /// The size of the file of this number, in bytes: the same in every run.
    pub fn size(&self, number: u32) -> u64 {
        let span = self.bytes_max.unwrap_or(self.bytes).saturating_sub(self.bytes);
        let sizes = usize::try_from(span).unwrap_or(usize::MAX).saturating_add(1);
        let mut random = SplitMix(SIZES_SEED ^ u64::from(number));
        if self.log_uniform {
            let (least, most) = (self.bytes as f64, (self.bytes + span) as f64);
            return (least * (most / least).powf(random.unit())) as u64;
        }
        self.bytes + random.below(sizes) as u64
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let name = &self.name;
        let beneath = !name.is_empty() && !name.starts_with('/') && !name.contains("..");
        if !beneath {
            return Err(PlanError(format!("file {name:?}: write a name below the document root")));
        }
        if self.count == 0 || self.count > FILES_MAX {
            return Err(PlanError(format!("file {name:?}: count: write 1 to {FILES_MAX}")));
        }
        if (self.count > 1) != name.contains("{}") {
            let why = "`{}` in its name stands for the number of one of many (count)";
            return Err(PlanError(format!("file {name:?}: {why}")));
        }
        if self.bytes_max.is_some_and(|most| self.count == 1 || most < self.bytes) {
            let why = "bytes_max: write the largest size of many, not below bytes";
            return Err(PlanError(format!("file {name:?}: {why}")));
        }
        if self.log_uniform && (self.bytes_max.is_none() || self.bytes == 0) {
            let why = "log_uniform: write bytes, above 0, and bytes_max";
            return Err(PlanError(format!("file {name:?}: {why}")));
        }
        if self.app.as_ref().is_some_and(|text| self.count > 1 || text.len() as u64 != self.bytes) {
            let why = "app: write one text, of as many bytes as the file has";
            return Err(PlanError(format!("file {name:?}: {why}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_page_are_as_often_small_as_large() {
        let file = File {
            name: "{}".to_owned(),
            bytes: 300,
            bytes_max: Some(300_000),
            log_uniform: true,
            count: 1_000,
            app: None,
        };
        let sizes: Vec<u64> = (0..file.count).map(|number| file.size(number)).collect();
        assert!(sizes.iter().all(|size| (300..=300_000).contains(size)));
        for (from, to) in [(300, 3_000), (3_000, 30_000), (30_000, 300_000)] {
            let within = sizes.iter().filter(|size| (from..to).contains(*size)).count();
            assert!((280..=390).contains(&within), "{within} of {from} to {to} bytes");
        }
        assert_eq!(file.size(7), file.size(7), "the same in every run");
    }
}
