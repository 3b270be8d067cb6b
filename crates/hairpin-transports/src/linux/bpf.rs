//! Instructions of classic BPF programs (Documentation/networking/filter.rst).

use libc::{BPF_JMP, BPF_K, sock_filter};

/// Returns an instruction that is not a jump; `code` is a sum of constants in linux/bpf_common.h.
///
/// # Panics
/// `code` has more than 16 bits.
pub fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("the codes have one byte"), jt: 0, jf: 0, k }
}

/// Returns a jump that compares with `k` and skips `jt` instructions if true, `jf` if false.
pub fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..statement(BPF_JMP | condition | BPF_K, k) }
}
