"""The seccomp filter of containers: which system calls the kernel refuses to their processes.

It allows and refuses what the container runtimes do for `RuntimeDefault` and a container without
added capabilities, and what a container could gain a namespace, a mount or a kernel interface with
is refused. A call that the tables do not know counts as missing (ENOSYS), so that programs fall
back to an older one. The filter is a program in classic BPF for `prctl`.
"""

from __future__ import annotations

import errno
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["MACHINES", "default_filter"]

_KILL_PROCESS: Final = 0x80000000
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_REFUSE: Final = _ERRNO | errno.EPERM
_MISSING: Final = _ERRNO | errno.ENOSYS

# The operations of classic BPF that the filter needs.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_AT_LEAST: Final = 0x35
_JUMP_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

# Offsets in `struct seccomp_data`. Of arguments only the lower half counts: the kernel takes those
# that are looked at as 32 bits wide, and a filter that compares all 64 can be passed by others.
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_FIRST_ARGUMENT: Final = 16
_SECOND_ARGUMENT: Final = 24

_NAMESPACE_FLAGS: Final = 0x7E020000
"""Every CLONE_NEW flag that `clone` takes."""
_TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into the terminal of whoever started the container."""
_FAMILIES: Final = (38, 40)
"""AF_ALG and AF_VSOCK: neither has a namespace."""
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux, 32 bits, the version 2.6, both, and the question which one is set."""

_REFUSED: Final = """
acct add_key bpf clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen
fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp
kexec_file_load kexec_load keyctl lookup_dcookie lsm_get_self_attr lsm_list_modules
lsm_set_self_attr migrate_pages mount mount_setattr move_mount move_pages open_by_handle_at
open_tree open_tree_attr perf_event_open pidfd_getfd pivot_root process_madvise quotactl
quotactl_fd reboot request_key set_mempolicy_home_node setdomainname sethostname setns
settimeofday swapoff swapon sysfs syslog umount2 unshare userfaultfd ustat vhangup
"""
"""Calls that need a capability which no container has, or that reach what has no namespace."""

# The names of the calls in the order of their numbers; a dash is a number without a call.
_NAMES_X86_64: Final = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction
rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield
mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm
setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind
listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit
wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync
fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink
symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo
times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid
setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid
setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend
sigaltstack utime mknod - personality ustat statfs fstatfs sysfs getpriority setpriority
sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max
sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup
modify_ldt pivot_root - prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount
umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm - init_module delete_module
- - quotactl - - - - - - gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr
fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex
sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit
io_cancel get_thread_area lookup_dcookie epoll_create - - remap_file_pages getdents64
set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime
timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_nanosleep
exit_group epoll_wait epoll_ctl tgkill utimes - mbind set_mempolicy get_mempolicy mq_open
mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key
request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch
migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat
symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list
splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create
eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3
pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init
fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns
getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr
renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd membarrier
mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents
rseq
"""
_NAMES_AARCH64: Final = """
io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr
lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd
lookup_dcookie eventfd2 epoll_create1 epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1
inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get flock mknodat mkdirat unlinkat
symlinkat linkat renameat umount2 mount pivot_root - statfs fstatfs truncate ftruncate fallocate
faccessat chdir fchdir chroot fchmod fchmodat fchownat fchown openat close vhangup pipe2
quotactl getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev sendfile
pselect6 ppoll signalfd4 vmsplice splice tee readlinkat newfstatat fstat sync fsync fdatasync
sync_file_range timerfd_create timerfd_settime timerfd_gettime utimensat acct capget capset
personality exit exit_group waitid set_tid_address unshare futex set_robust_list get_robust_list
nanosleep getitimer setitimer kexec_load init_module delete_module timer_create timer_gettime
timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres
clock_nanosleep syslog ptrace sched_setparam sched_setscheduler sched_getscheduler
sched_getparam sched_setaffinity sched_getaffinity sched_yield sched_get_priority_max
sched_get_priority_min sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack
rt_sigsuspend rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo
rt_sigreturn setpriority getpriority reboot setregid setgid setreuid setuid setresuid getresuid
setresgid getresgid setfsuid setfsgid times setpgid getpgid getsid setsid getgroups setgroups
uname sethostname setdomainname getrlimit setrlimit getrusage umask prctl getcpu gettimeofday
settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid sysinfo mq_open
mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd
semget semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen accept
connect getsockname getpeername sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg
readahead brk munmap mremap add_key request_key keyctl clone execve mmap fadvise64 swapon
swapoff mprotect msync mlock munlock mlockall munlockall mincore madvise remap_file_pages mbind
get_mempolicy set_mempolicy migrate_pages move_pages rt_tgsigqueueinfo perf_event_open accept4
recvmmsg - - - - - - - - - - - - - - - - wait4 prlimit64 fanotify_init fanotify_mark
name_to_handle_at open_by_handle_at clock_adjtime syncfs setns sendmmsg process_vm_readv
process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom
memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2
pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load
"""
_FIRST_COMMON: Final = 424
"""From this number on, calls have the same number on every machine."""
_NAMES_COMMON: Final = """
pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen
fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2
process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule
landlock_restrict_self memfd_secret process_mrelease futex_waitv set_mempolicy_home_node
cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat
removexattrat open_tree_attr
"""


@dataclass(frozen=True)
class _Machine:
    architecture: int
    """AUDIT_ARCH of its 64-bit calls; those of a 32-bit program have another."""
    names: str

    def names_by_number(self) -> Sequence[str]:
        own = self.names.split()
        return [*own, *(["-"] * (_FIRST_COMMON - len(own))), *_NAMES_COMMON.split()]


_REFUSED_NAMES: Final = frozenset(_REFUSED.split())
_MACHINES: Final[Mapping[str, _Machine]] = {
    "aarch64": _Machine(0xC00000B7, _NAMES_AARCH64),
    "x86_64": _Machine(0xC000003E, _NAMES_X86_64),
}
MACHINES: Final = tuple(_MACHINES)
"""The machines that have a filter, as `os.uname().machine` names them."""

Instruction = tuple[int, int, int, int]
"""The operation, how far to jump if it holds and if not, and a constant."""


def default_filter(machine: str) -> bytes:
    """Return the filter for a machine as an array of `struct sock_filter`.

    Raises LookupError for a machine whose calls are not known.
    """
    if machine not in _MACHINES:
        raise LookupError(f"there is no seccomp filter for {machine}; there is for {MACHINES}")
    return b"".join(struct.pack("=HBBI", *step) for step in _program(_MACHINES[machine]))


def _program(machine: _Machine) -> Iterator[Instruction]:
    """Compare the number of a call with the end of each run of calls that are treated alike."""
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_JUMP_IF_EQUAL, 1, 0, machine.architecture)
    yield (_RETURN, 0, 0, _KILL_PROCESS)
    yield (_LOAD, 0, 0, _NUMBER)
    end = 0
    for treatment, run in itertools.groupby(machine.names_by_number(), _treatment):
        end += len(list(run))
        body = treatment()
        yield (_JUMP_IF_AT_LEAST, len(body), 0, end)
        yield from body
    # Also for the calls of x32, whose numbers begin at 0x40000000.
    yield (_RETURN, 0, 0, _MISSING)


def _allow() -> Sequence[Instruction]:
    return [(_RETURN, 0, 0, _ALLOW)]


def _refuse() -> Sequence[Instruction]:
    return [(_RETURN, 0, 0, _REFUSE)]


def _miss() -> Sequence[Instruction]:
    return [(_RETURN, 0, 0, _MISSING)]


def _clone() -> Sequence[Instruction]:
    return [
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_ANY_BIT, 0, 1, _NAMESPACE_FLAGS),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _personality() -> Sequence[Instruction]:
    return _listed(_FIRST_ARGUMENT, _PERSONALITIES, _ALLOW, _REFUSE)


def _socket() -> Sequence[Instruction]:
    return _listed(_FIRST_ARGUMENT, _FAMILIES, _REFUSE, _ALLOW)


def _ioctl() -> Sequence[Instruction]:
    return _listed(_SECOND_ARGUMENT, _TERMINAL_INPUT, _REFUSE, _ALLOW)


def _listed(argument: int, values: Sequence[int], then: int, otherwise: int) -> list[Instruction]:
    """Return `then` where an argument is one of some values, and `otherwise` where it is not."""
    last = len(values) - 1
    return [
        (_LOAD, 0, 0, argument),
        *((_JUMP_IF_EQUAL, last - at + 1, 0, value) for at, value in enumerate(values)),
        (_RETURN, 0, 0, otherwise),
        (_RETURN, 0, 0, then),
    ]


_BY_ARGUMENT: Final[Mapping[str, Callable[[], Sequence[Instruction]]]] = {
    "clone": _clone,
    # Its flags are in memory, which a filter cannot read; the C libraries fall back to clone.
    "clone3": _miss,
    "ioctl": _ioctl,
    "personality": _personality,
    "socket": _socket,
    "-": _miss,
}


def _treatment(name: str) -> Callable[[], Sequence[Instruction]]:
    return _BY_ARGUMENT.get(name, _refuse if name in _REFUSED_NAMES else _allow)
