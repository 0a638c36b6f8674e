//! The seccomp filter of a jailed program.
//!
//! The filter is a list of denied system calls (in this file: calls). A list of allowed calls would need to include the
//! calls of every language runtime. A new version of a runtime could make other calls, and would then fail.
//!
//! The filter covers what Landlock does not: sockets, child processes, other processes, memory outside the limits, file
//! metadata, and parts of the kernel that a strategy never needs.

use crate::invocation::JailRules;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
const UNSUPPORTED: &str = "the system call filter supports only Linux on x86_64 and aarch64";

/// Fails, because the filter does not support this machine.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn install(_jail: &JailRules, _host_pid: u32, _keeper: Option<u32>) -> Result<(), String> {
    Err(UNSUPPORTED.to_owned())
}

#[cfg(all(target_os = "linux", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn allow_only_wait_and_kill() -> Result<(), String> {
    Err(UNSUPPORTED.to_owned())
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use linux::{allow_only_wait_and_kill, install};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use libc::{AF_INET, AF_INET6, CLONE_THREAD, EOPNOTSUPP, EPERM};
    use seccompiler::SeccompCmpOp::{Eq, Ge, MaskedEq, Ne};
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, sock_filter,
    };

    use super::JailRules;

    /// The first number of the x32 calls, which are aliases of the x86_64 calls.
    const FIRST_X32_CALL: u32 = 0x4000_0000;
    /// The number of calls with conditions that are compared one by one. The kernel runs a new filter once for every existing
    /// call, to find the calls that are always allowed. With one long list, that took half as long as a spawn.
    const GROUP_CALLS_MAX: usize = 6;
    /// The same for calls without conditions.
    const DENIED_GROUP_CALLS_MAX: usize = 10;
    /// The first version of the Landlock ABI that confines signals to the jail.
    const LANDLOCK_SIGNALS: u8 = 6;

    pub(crate) fn install(jail: &JailRules, host_pid: u32, keeper: Option<u32>) -> Result<(), String> {
        let protected: Vec<_> = [Some(host_pid), keeper].into_iter().flatten().collect();
        let program = program(jail, &protected, std::process::id())
            .map_err(|error| format!("failed to build the system call filter: {error}"))?;
        seccompiler::apply_filter(&program)
            .map_err(|error| format!("failed to install the system call filter: {error}"))
    }

    /// Installs the filter of the keeper, the process that kills the group when the host dies (`keeper.rs`).
    pub(crate) fn allow_only_wait_and_kill() -> Result<(), String> {
        let condition = |index, value| {
            SeccompCondition::new(index, SeccompCmpArgLen::Dword, Eq, value)
                .expect("a call has six arguments")
        };
        let kills_own_group = vec![condition(0, 0), condition(1, u64::from(libc::SIGKILL.cast_unsigned()))];
        let kill = SeccompRule::new(kills_own_group).expect("a rule with conditions is valid");
        let mut allowed = BTreeMap::from([(libc::SYS_kill, vec![kill])]);
        allowed.extend([libc::SYS_ppoll, libc::SYS_restart_syscall].map(|call| (call, Vec::new())));
        #[cfg(target_arch = "x86_64")]
        allowed.insert(libc::SYS_poll, Vec::new());
        let program = TargetArch::try_from(std::env::consts::ARCH).and_then(|architecture| {
            // Other calls fail instead of killing the keeper, because it should continue to wait.
            let (default_action, listed_action) =
                (SeccompAction::Errno(EPERM.cast_unsigned()), SeccompAction::Allow);
            BpfProgram::try_from(SeccompFilter::new(allowed, default_action, listed_action, architecture)?)
        });
        let program = program.map_err(|error| error.to_string())?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())
    }

    /// Builds the filter. Signals to the ids of `protected` are denied, even with grants.
    fn program(jail: &JailRules, protected: &[u32], pid: u32) -> Result<BpfProgram, seccompiler::Error> {
        let mut deny = DeniedCalls::default();
        deny.kernel_interfaces();
        deny.metadata();
        deny.preallocation();
        deny.other_processes(pid);
        deny.signals(jail, protected, pid);
        deny.processes(jail.subprocess);
        deny.sockets(jail.network);
        deny.descriptors(jail.network);
        deny.memory(jail.subprocess);
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let (always, with_conditions): (Vec<_>, Vec<_>) =
            deny.0.into_iter().partition(|(_, rules)| rules.is_empty());
        let mut program = guards(architecture)?;
        program.extend(deny_always(&always.into_iter().map(|(call, _)| call).collect::<Vec<_>>()));
        for group in with_conditions.chunks(GROUP_CALLS_MAX) {
            let rules = group.iter().cloned().collect();
            let denied = SeccompAction::Errno(EPERM.cast_unsigned());
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture)?;
            let group_program = BpfProgram::try_from(filter)?;
            // A call with a higher number than this group's last one jumps to the next group. The call number stays
            // loaded.
            let last = group.last().map_or(0, |(call, _)| call_number(*call));
            program.push(instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, last));
            program.push(jump(group_program.len()));
            program.extend(group_program);
        }
        program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
        Ok(program)
    }

    /// Denies calls, which must be sorted. A call that is not one of them continues after this program. The crate
    /// `seccompiler` would use five instructions for each call, and the kernel compiles a filter for each process.
    fn deny_always(calls: &[i64]) -> BpfProgram {
        let mut program = BpfProgram::new();
        let same_error = calls.chunk_by(|first, second| denied_error(*first) == denied_error(*second));
        let groups: Vec<&[i64]> = same_error.flat_map(|calls| calls.chunks(DENIED_GROUP_CALLS_MAX)).collect();
        for group in groups.into_iter().rev() {
            let (Some(last), Ok(length)) = (group.last(), u8::try_from(group.len())) else { continue };
            // A higher number continues with the next group.
            let mut block = vec![compare(libc::BPF_JGT, *last, length + 2)];
            block.extend(
                (1..=length).rev().zip(group).map(|(left, call)| compare(libc::BPF_JEQ, *call, left)),
            );
            block.push(jump(1 + program.len()));
            block.push(deny(denied_error(group[0])));
            block.append(&mut program);
            program = block;
        }
        program
    }

    /// Returns the error of a denied call. Programs that copy or list files fail if a read of extended attributes returns
    /// `EPERM`. For those calls, the error is the same as on a file system without extended attributes.
    fn denied_error(call: i64) -> i32 {
        if ATTRIBUTE_READS.contains(&call) { EOPNOTSUPP } else { EPERM }
    }

    fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
        sock_filter { code: code as u16, jt, jf, k }
    }

    /// Skips instructions if the comparison of the loaded number with the number of a call is true.
    fn compare(operator: u32, call: i64, skipped: u8) -> sock_filter {
        instruction(libc::BPF_JMP | operator | libc::BPF_K, skipped, 0, call_number(call))
    }

    fn jump(skipped: usize) -> sock_filter {
        let skipped = u32::try_from(skipped).expect("a filter is short");
        instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, skipped)
    }

    fn deny(errno: i32) -> sock_filter {
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
    }

    fn call_number(call: i64) -> u32 {
        u32::try_from(call).expect("system calls have small numbers")
    }

    /// Returns the checks that precede the list. A process that uses the call numbers of another architecture is killed. The
    /// x32 calls are denied, because they are other names of calls on the list. `clone3` has its flags in memory, which a
    /// filter cannot read. It fails with `ENOSYS`, so every C library falls back to `clone`.
    fn guards(architecture: TargetArch) -> Result<BpfProgram, seccompiler::Error> {
        let (allow, denied) = (SeccompAction::Allow, SeccompAction::Errno(EPERM.cast_unsigned()));
        // A filter without rules is the check of the architecture, and an instruction that allows every call.
        let mut program =
            BpfProgram::try_from(SeccompFilter::new(BTreeMap::new(), allow, denied, architecture)?)?;
        program.pop();
        program.extend([
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, FIRST_X32_CALL),
            deny(EPERM),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call_number(libc::SYS_clone3)),
            deny(libc::ENOSYS),
        ]);
        Ok(program)
    }

    /// The denied calls. A call without rules is always denied. A call with rules is denied if one of them matches.
    #[derive(Default)]
    struct DeniedCalls(BTreeMap<i64, Vec<SeccompRule>>);

    impl DeniedCalls {
        fn always(&mut self, calls: &[i64]) {
            self.0.extend(calls.iter().map(|call| (*call, Vec::new())));
        }

        /// Denies the call if all conditions match its arguments.
        fn when(&mut self, call: i64, arguments: &[(u8, SeccompCmpOp, u32)]) {
            let condition = |(index, test, value): &(u8, SeccompCmpOp, u32)| {
                // The kernel reads only the lower 32 bits of these arguments, so the filter must do the same.
                let length = SeccompCmpArgLen::Dword;
                SeccompCondition::new(*index, length, test.clone(), u64::from(*value))
                    .expect("a call has six arguments")
            };
            let rule = SeccompRule::new(arguments.iter().map(condition).collect())
                .expect("a rule with conditions is valid");
            // A call that is always denied stays so.
            match self.0.entry(call) {
                Entry::Vacant(entry) => drop(entry.insert(vec![rule])),
                Entry::Occupied(entry) if entry.get().is_empty() => {}
                Entry::Occupied(entry) => entry.into_mut().push(rule),
            }
        }

        /// Denies parts of the kernel that a strategy does not need, and calls that bypass Landlock.
        fn kernel_interfaces(&mut self) {
            self.always(&[
                libc::SYS_io_uring_setup,
                libc::SYS_io_uring_enter,
                libc::SYS_io_uring_register,
                libc::SYS_keyctl,
                libc::SYS_add_key,
                libc::SYS_request_key,
                libc::SYS_bpf,
                libc::SYS_perf_event_open,
                libc::SYS_userfaultfd,
                libc::SYS_syslog,
                libc::SYS_mount,
                libc::SYS_umount2,
                libc::SYS_pivot_root,
                libc::SYS_chroot,
                libc::SYS_move_mount,
                libc::SYS_open_tree,
                SYS_OPEN_TREE_ATTR,
                libc::SYS_fsopen,
                libc::SYS_fsconfig,
                libc::SYS_fsmount,
                libc::SYS_fspick,
                libc::SYS_mount_setattr,
                libc::SYS_setns,
                libc::SYS_unshare,
                libc::SYS_name_to_handle_at,
                libc::SYS_open_by_handle_at,
                SYS_STATMOUNT,
                SYS_LISTMOUNT,
                // These report changes of files that the program cannot open.
                libc::SYS_fanotify_init,
                libc::SYS_inotify_init1,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_inotify_init,
                // These use names that all processes of the machine share.
                libc::SYS_shmget,
                libc::SYS_shmat,
                libc::SYS_shmctl,
                libc::SYS_semget,
                libc::SYS_semctl,
                libc::SYS_semop,
                libc::SYS_semtimedop,
                libc::SYS_msgget,
                libc::SYS_msgctl,
                libc::SYS_msgsnd,
                libc::SYS_msgrcv,
                libc::SYS_mq_open,
                libc::SYS_mq_unlink,
                libc::SYS_reboot,
                libc::SYS_swapon,
                libc::SYS_swapoff,
                libc::SYS_acct,
                libc::SYS_quotactl,
                libc::SYS_init_module,
                libc::SYS_finit_module,
                libc::SYS_delete_module,
                libc::SYS_kexec_load,
                #[cfg(target_arch = "x86_64")]
                libc::SYS_kexec_file_load,
            ]);
        }

        /// Denies changes of metadata. Landlock allows a program to change modes, owners, times, and extended
        /// attributes of the user's files, such as the transcript, and to read the extended attributes of any file. Older
        /// versions of Landlock also allow truncation.
        fn metadata(&mut self) {
            self.always(&ATTRIBUTE_READS);
            self.always(&[
                libc::SYS_fchmod,
                libc::SYS_fchmodat,
                SYS_FCHMODAT2,
                libc::SYS_fchown,
                libc::SYS_fchownat,
                libc::SYS_utimensat,
                libc::SYS_setxattr,
                libc::SYS_lsetxattr,
                libc::SYS_fsetxattr,
                libc::SYS_removexattr,
                libc::SYS_lremovexattr,
                libc::SYS_fremovexattr,
                SYS_SETXATTRAT,
                SYS_REMOVEXATTRAT,
                SYS_FILE_SETATTR,
                libc::SYS_truncate,
            ]);
            #[cfg(target_arch = "x86_64")]
            self.always(&[
                libc::SYS_chmod,
                libc::SYS_chown,
                libc::SYS_lchown,
                libc::SYS_utime,
                libc::SYS_utimes,
                libc::SYS_futimesat,
            ]);
            // These set the flags of a file, for example immutable.
            for request in [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR] {
                self.when(libc::SYS_ioctl, &[(1, Eq, request)]);
            }
        }

        /// Denies disk space beyond the end of a file. The limit on file sizes does not count it.
        fn preallocation(&mut self) {
            // A hole frees space, and its mode includes `FALLOC_FL_KEEP_SIZE`.
            self.when(libc::SYS_fallocate, &[(1, MaskedEq(FALLOC_MODES), FALLOC_FL_KEEP_SIZE)]);
            for request in [FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE] {
                self.when(libc::SYS_ioctl, &[(1, Eq, request)]);
            }
        }

        /// Denies access to other processes. They belong to the same user, so the kernel would allow the access.
        fn other_processes(&mut self, pid: u32) {
            self.always(&[
                libc::SYS_ptrace,
                libc::SYS_process_vm_readv,
                libc::SYS_process_vm_writev,
                libc::SYS_process_madvise,
                libc::SYS_process_mrelease,
                libc::SYS_kcmp,
                // Its descriptor gives access to a process, and reports its end.
                libc::SYS_pidfd_open,
                libc::SYS_pidfd_getfd,
                libc::SYS_migrate_pages,
                libc::SYS_move_pages,
            ]);
            for call in [
                libc::SYS_prlimit64,
                libc::SYS_sched_setaffinity,
                libc::SYS_sched_setattr,
                libc::SYS_sched_setparam,
                libc::SYS_sched_setscheduler,
            ] {
                self.when(call, &[(0, Ne, 0), (0, Ne, pid)]);
            }
            for (call, whole_user) in
                [(libc::SYS_setpriority, PRIO_USER), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)]
            {
                self.when(call, &[(1, Ne, 0), (1, Ne, pid)]);
                self.when(call, &[(0, Eq, whole_user)]);
            }
        }

        /// Denies signals to other processes. The process id does not change with the exec. Without child processes, every
        /// other id belongs to another program.
        fn signals(&mut self, jail: &JailRules, protected: &[u32], pid: u32) {
            // A negative process id names a group.
            let (own_group, first_negative) = (pid.wrapping_neg(), 1 << 31);
            self.always(&[libc::SYS_pidfd_send_signal]);
            if !jail.subprocess {
                self.when(libc::SYS_kill, &[(0, Ne, 0), (0, Ne, pid), (0, Ne, own_group)]);
                for call in [libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
                    self.when(call, &[(0, Ne, pid)]);
                }
            } else if jail.landlock < LANDLOCK_SIGNALS {
                self.when(libc::SYS_kill, &[(0, Ge, first_negative), (0, Ne, own_group)]);
                for call in
                    [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo]
                {
                    for target in protected {
                        self.when(call, &[(0, Eq, *target)]);
                    }
                }
                // The keeper is in the group, and SIGSTOP would stop it, too.
                for group in [0, own_group] {
                    let sigstop = libc::SIGSTOP.cast_unsigned();
                    self.when(libc::SYS_kill, &[(0, Eq, group), (1, Eq, sigstop)]);
                }
            }
            // A thread id does not reveal the process that the thread belongs to.
            if jail.landlock < LANDLOCK_SIGNALS {
                self.when(libc::SYS_tkill, &[(0, Ne, pid)]);
            }
            // A file can be configured to send a signal to any process. A lease delays other programs that open the file.
            for command in [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG, libc::F_NOTIFY, libc::F_SETLEASE] {
                self.when(libc::SYS_fcntl, &[(1, Eq, command.cast_unsigned())]);
            }
            for request in [FIOSETOWN, SIOCSPGRP] {
                self.when(libc::SYS_ioctl, &[(1, Eq, request)]);
            }
            // The program must not cancel the signal at the host's death, or hide its open files from the host.
            for option in [libc::PR_SET_PDEATHSIG, libc::PR_SET_DUMPABLE] {
                self.when(libc::SYS_prctl, &[(0, Eq, option.cast_unsigned())]);
            }
        }

        /// Denies child processes, but not threads. With the grant `subprocess`, child processes are allowed. They stay in
        /// the group and its namespaces, so a signal to the group reaches all of them.
        fn processes(&mut self, granted: bool) {
            self.always(&[libc::SYS_setsid, libc::SYS_setpgid]);
            let [thread, files] = [CLONE_THREAD, libc::CLONE_FILES].map(i32::cast_unsigned);
            // A thread with descriptors of its own could hide removed files in them.
            self.when(libc::SYS_clone, &[(0, MaskedEq((thread | files).into()), thread)]);
            if granted {
                for flag in [
                    libc::CLONE_PARENT,
                    libc::CLONE_NEWNS,
                    libc::CLONE_NEWCGROUP,
                    libc::CLONE_NEWUTS,
                    libc::CLONE_NEWIPC,
                    libc::CLONE_NEWUSER,
                    libc::CLONE_NEWPID,
                    libc::CLONE_NEWNET,
                ] {
                    let flag = flag.cast_unsigned();
                    self.when(libc::SYS_clone, &[(0, MaskedEq(flag.into()), flag)]);
                }
            } else {
                self.when(libc::SYS_clone, &[(0, MaskedEq(thread.into()), 0)]);
                #[cfg(target_arch = "x86_64")]
                self.always(&[libc::SYS_fork, libc::SYS_vfork]);
            }
        }

        /// Denies sockets. With the grant `network`, Internet sockets can open connections but not accept them. Landlock
        /// covers only TCP ports that are bound explicitly. It covers neither the implicit bind of `listen` nor other
        /// protocols. `bind` stays allowed, because name resolution over UDP needs it. Socket pairs stay allowed, except for
        /// datagrams: a datagram pair can send to any other address.
        fn sockets(&mut self, granted: bool) {
            self.always(&[libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4]);
            if granted {
                let [v4, v6] = [AF_INET, AF_INET6].map(i32::cast_unsigned);
                self.when(libc::SYS_socket, &[(0, Ne, v4), (0, Ne, v6)]);
            } else {
                self.always(&[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind]);
            }
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                let kind = kind.cast_unsigned();
                self.when(libc::SYS_socketpair, &[(1, MaskedEq(SOCKET_KIND), kind)]);
            }
        }

        /// Denies sending of descriptors. A descriptor that is sent and not received belongs to no process. It would keep
        /// deleted files that the host cannot find. With the grant `network`, resolvers need these calls, and the host
        /// looks for sent descriptors (`open_files.rs`).
        fn descriptors(&mut self, network: bool) {
            if !network {
                self.always(&[libc::SYS_sendmsg, libc::SYS_sendmmsg]);
            }
        }

        /// Denies memory that does not count toward the data limit: memory files, growing stacks, and shared memory. Shared
        /// memory stays allowed for programs with child processes.
        fn memory(&mut self, subprocess: bool) {
            self.always(&[libc::SYS_memfd_create, libc::SYS_memfd_secret]);
            let [shared, anonymous, grows] =
                [libc::MAP_SHARED, libc::MAP_ANONYMOUS, libc::MAP_GROWSDOWN].map(i32::cast_unsigned);
            self.when(libc::SYS_mmap, &[(3, MaskedEq(grows.into()), grows)]);
            if !subprocess {
                let shared_anonymous = shared | anonymous;
                self.when(libc::SYS_mmap, &[(3, MaskedEq(shared_anonymous.into()), shared_anonymous)]);
            }
        }
    }

    // Constants that the crate `libc` lacks. These calls have the same number on all architectures.
    const SYS_FCHMODAT2: i64 = 452;
    const SYS_STATMOUNT: i64 = 457;
    const SYS_LISTMOUNT: i64 = 458;
    const SYS_SETXATTRAT: i64 = 463;
    const SYS_GETXATTRAT: i64 = 464;
    const SYS_LISTXATTRAT: i64 = 465;
    const SYS_REMOVEXATTRAT: i64 = 466;
    const SYS_OPEN_TREE_ATTR: i64 = 467;
    const SYS_FILE_SETATTR: i64 = 469;
    const ATTRIBUTE_READS: [i64; 8] = [
        libc::SYS_getxattr,
        libc::SYS_lgetxattr,
        libc::SYS_fgetxattr,
        libc::SYS_listxattr,
        libc::SYS_llistxattr,
        libc::SYS_flistxattr,
        SYS_GETXATTRAT,
        SYS_LISTXATTRAT,
    ];
    const F_SETSIG: i32 = 10;
    const F_SETOWN_EX: i32 = 15;
    const FIOSETOWN: u32 = 0x8901;
    const SIOCSPGRP: u32 = 0x8902;
    const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
    const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
    const FALLOC_FL_KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE.cast_unsigned();
    const FALLOC_MODES: u64 = (libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE).cast_unsigned() as u64;
    const FS_IOC_RESVSP: u32 = 0x4030_5828;
    const FS_IOC_RESVSP64: u32 = 0x4030_582a;
    const FS_IOC_ZERO_RANGE: u32 = 0x4030_5839;
    const PRIO_USER: u32 = 2;
    const IOPRIO_WHO_USER: u32 = 3;
    /// The bits of a socket's type without its flags.
    const SOCKET_KIND: u64 = 0xf;
}
