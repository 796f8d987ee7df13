//! Linux: Landlock (landlock(7)) and a seccomp filter (seccomp(2)).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

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
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
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
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
