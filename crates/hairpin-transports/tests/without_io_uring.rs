//! A system that refuses io_uring. A filter of system calls belongs to one thread, so the test needs a thread of its own.
#![allow(unsafe_code, reason = "the test installs a filter of system calls")]

use hairpin_transports::bpf::{jump, statement};
use hairpin_transports::may_use_io_uring;
use libc::{BPF_ABS, BPF_JEQ, BPF_K, BPF_LD, BPF_RET, BPF_W};

#[test]
fn a_refused_io_uring_is_named_with_what_may_refuse_it() {
    let call = u32::try_from(libc::SYS_io_uring_setup).expect("numbers of calls are small");
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    // The number of a call is at offset 0 (seccomp(2)).
    let mut filter = [
        statement(BPF_LD | BPF_W | BPF_ABS, 0),
        jump(BPF_JEQ, call, 0, 1),
        statement(BPF_RET | BPF_K, refused),
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: a live program of the stated length, which the kernel copies.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    let why = may_use_io_uring().unwrap_err();
    assert_eq!(why.reason, "cannot set up an io_uring: Operation not permitted (os error 1)");
    assert!(why.hint.contains("kernel.io_uring_disabled, a seccomp filter or RLIMIT_MEMLOCK"), "{}", why.hint);
}
