//! Facts that a result depends on besides the servers: the processor, the kernel and the settings
//! the deck tuned. Kept with every run; `doctor` judges them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// The settings below /proc/sys that the deck tuned, and those that matter on loopback.
pub const SYSCTLS: [&str; 29] = [
    "fs.file-max",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fack",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_rfc1337",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "vm.min_free_kbytes",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
];

/// The machine, its kernel and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Name of the processor's model.
    pub cpu: String,
    /// Processors the kernel runs.
    pub cpus: u32,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// Default congestion control of TCP connections; a server may choose another.
    pub congestion_control: String,
    /// Settings by name, without those this kernel lacks.
    pub sysctls: BTreeMap<String, String>,
    /// Soft and hard limit of this process's open descriptors; `None` is no limit.
    pub open_files: (Option<u64>, Option<u64>),
    /// Transparent huge pages: the selected word.
    pub huge_pages: Option<String>,
    /// Sign of a virtual machine; `None` if there is none.
    pub virtualisation: Option<String>,
}

impl Fingerprint {
    /// Reads this machine's; unreadable values stay empty.
    pub fn take() -> Fingerprint {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let limit = getrlimit(Resource::Nofile);
        let vendor = ["sys_vendor", "product_name"]
            .map(|name| read(&format!("/sys/class/dmi/id/{name}")).trim().to_owned());
        let memory_kib = super::process::line(&read("/proc/meminfo"), "MemTotal:");
        Fingerprint {
            cpu: cpu(&cpuinfo),
            cpus: super::counters::stat(&read("/proc/stat")).cpus,
            memory_bytes: memory_kib.unwrap_or(0) * 1024,
            kernel: format!(
                "{} {}",
                read("/proc/sys/kernel/ostype").trim(),
                read("/proc/sys/kernel/osrelease").trim()
            ),
            congestion_control: sysctl("net.ipv4.tcp_congestion_control").unwrap_or_default(),
            sysctls: SYSCTLS
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), sysctl(name)?)))
                .collect(),
            open_files: (limit.current, limit.maximum),
            huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            virtualisation: virtualisation(&cpuinfo, &vendor.join(" ")),
        }
    }

    /// Differences to another machine, a line each: results of the two compare only with a warning.
    pub fn differences(&self, other: &Fingerprint) -> Vec<String> {
        let mut lines = Vec::new();
        let mut compare = |what: &str, one: &str, two: &str| {
            if one != two {
                lines.push(format!("{what}: {one}, then {two}"));
            }
        };
        compare("processor", &self.cpu, &other.cpu);
        compare("processors", &self.cpus.to_string(), &other.cpus.to_string());
        compare("kernel", &self.kernel, &other.kernel);
        compare("congestion control", &self.congestion_control, &other.congestion_control);
        for name in SYSCTLS.iter().filter(|name| **name != "net.ipv4.tcp_congestion_control") {
            let of = |print: &Fingerprint| {
                print.sysctls.get(*name).cloned().unwrap_or_else(|| "none".to_owned())
            };
            compare(name, &of(self), &of(other));
        }
        lines
    }
}

/// A setting by its dotted name, with single blanks.
pub fn sysctl(name: &str) -> Option<String> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// The processor's name in /proc/cpuinfo; the field's name differs between architectures.
fn cpu(cpuinfo: &str) -> String {
    let names = ["model name", "Model", "cpu model", "CPU part"];
    let value = |name: &&str| field(cpuinfo, name);
    names.iter().find_map(value).unwrap_or("unknown").to_owned()
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The word in brackets, as the kernel marks a choice: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Hypervisors set the processor's `hypervisor` flag (x86 CPUID leaf 1, bit 31 of ECX, reserved to
/// them); on other architectures only the firmware's vendor is a sign.
fn virtualisation(cpuinfo: &str, vendor: &str) -> Option<String> {
    const VENDORS: [&str; 8] =
        ["QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Amazon EC2", "Google", "Microsoft"];
    let vendor = vendor.trim();
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") {
        let named = if vendor.is_empty() { "unnamed" } else { vendor };
        return Some(format!("hypervisor ({named})"));
    }
    VENDORS.iter().any(|name| vendor.contains(name)).then(|| vendor.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_a_name_on_every_architecture() {
        let rows = [
            ("processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n", "AMD EPYC", "x86"),
            ("processor\t: 0\nCPU part\t: 0xd0c\n", "0xd0c", "64-bit ARM"),
            ("Model\t\t: Raspberry Pi 5\n", "Raspberry Pi 5", "a board that names itself"),
            ("", "unknown", "nothing"),
        ];
        for (text, right, sentence) in rows {
            assert_eq!(cpu(text), right, "{sentence}");
        }
    }

    #[test]
    fn a_virtual_machine_is_hinted_at() {
        let rows = [
            ("flags\t: fpu hypervisor lahf_lm\n", "", Some("hypervisor (unnamed)"), "the flag"),
            (
                "flags\t: fpu hypervisor\n",
                "QEMU Standard PC",
                Some("hypervisor (QEMU Standard PC)"),
                "both",
            ),
            ("flags\t: fpu\n", "Dell Inc. R640", None, "metal"),
            ("", "Amazon EC2 c7g", Some("Amazon EC2 c7g"), "no such flag on ARM"),
            ("flags\t: hypervisors\n", "", None, "another word"),
        ];
        for (cpuinfo, vendor, right, sentence) in rows {
            assert_eq!(virtualisation(cpuinfo, vendor).as_deref(), right, "{sentence}");
        }
    }

    #[test]
    fn the_kernels_choice_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always\n"), None);
    }

    #[test]
    fn it_is_written_and_read_and_differs_from_itself_in_nothing() {
        let here = Fingerprint::take();
        assert!(here.cpus > 0 && here.memory_bytes > 0 && here.sysctls.len() > 5, "{here:?}");
        let text = serde_json::to_string(&here).unwrap();
        let mut read: Fingerprint = serde_json::from_str(&text).unwrap();
        assert_eq!(here.differences(&read), Vec::<String>::new());
        read.congestion_control = "bbr2".into();
        read.sysctls.remove("net.core.somaxconn");
        assert_eq!(here.differences(&read).len(), 2);
    }
}
