//! Linux: Landlock (landlock(7)) and a seccomp filter (seccomp(2)).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, sock_filter};

/// The first version of Landlock that covers renames between directories and truncation (Linux
/// 6.2).
const REQUIRED: ABI = ABI::V3;

/// The latest version whose rights are used where the kernel has them.
const LATEST: ABI = ABI::V5;

/// System calls that start a program, look into other processes, or change the machine.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_personality,
    libc::SYS_open_by_handle_at,
];

/// See the contract in `sys`.
pub fn restrict_files(readable: &[PathBuf], writable: &[PathBuf]) -> io::Result<()> {
    let all = AccessFs::from_all(LATEST);
    let written = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        .and_then(|ruleset| ruleset.handle_access(all))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(readable, read)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(writable, written)))
        .and_then(landlock::RulesetCreated::restrict_self);
    restricted.map(drop).map_err(|e| io::Error::new(io::ErrorKind::Unsupported, e))
}

/// See the contract in `sys`.
pub fn restrict_calls() -> io::Result<()> {
    let unsupported = |e: seccompiler::Error| io::Error::new(io::ErrorKind::Unsupported, e);
    let program = call_filter().map_err(unsupported)?;
    seccompiler::apply_filter(&program).map_err(unsupported)
}

/// Compiles the filter. It looks at no argument of a call, so that the kernel (5.11 and later) runs
/// it once for each call's number and then allows the call without it (`seccomp_cache_prepare`).
fn call_filter() -> Result<BpfProgram, seccompiler::Error> {
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules: BTreeMap<i64, _> = FORBIDDEN.iter().map(|call| (*call, vec![])).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let mut program: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?.try_into()?;
    if cfg!(target_arch = "x86_64") {
        program.splice(..0, refuse_x32());
    }
    Ok(program)
}

/// Refuses the calls of the x32 ABI, whose numbers are others while their architecture is x86-64
/// (see the notes of seccomp(2)).
fn refuse_x32() -> [sock_filter; 3] {
    /// The bit that all of their numbers have.
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, k, jf| sock_filter { code: code as u16, jt: 0, jf, k };
    [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter (bpf(4)) for a call's number. Returns whether it is refused.
    fn is_refused(program: &BpfProgram, number: u32) -> bool {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => 0xC000_003E,
            "aarch64" => 0xC000_00B7,
            other => panic!("{other}"),
        };
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            let holds = match code & 0xf0 {
                libc::BPF_JGE => value >= k,
                libc::BPF_JA => true,
                _ => value == k,
            };
            at += 1;
            match code & 0x07 {
                libc::BPF_LD => value = if k == 0 { number } else { architecture },
                libc::BPF_RET => return k != libc::SECCOMP_RET_ALLOW,
                _ if code & 0xf0 == libc::BPF_JA => at += k as usize,
                _ => at += usize::from(if holds { jt } else { jf }),
            }
        }
    }

    #[test]
    fn calls_are_refused_by_their_number() {
        let program = call_filter().unwrap();
        for call in FORBIDDEN {
            assert!(is_refused(&program, *call as u32), "{call}");
        }
        for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_sendfile] {
            assert!(!is_refused(&program, call as u32), "{call}");
        }
        if cfg!(target_arch = "x86_64") {
            assert!(is_refused(&program, 0x4000_0000 + 520), "execve of x32");
        }
    }

    #[test]
    fn the_kernel_can_remember_that_a_call_is_allowed() {
        /// Offset of the architecture in seccomp_data(2); that of the number is 0, and arguments
        /// come later.
        const ARCHITECTURE: u32 = 4;
        let loads = |code: u16| code & 0x07 == libc::BPF_LD as u16;
        for instruction in call_filter().unwrap() {
            let is_constant = !loads(instruction.code) || instruction.k <= ARCHITECTURE;
            assert!(is_constant, "{instruction:?} depends on an argument");
        }
    }
}
