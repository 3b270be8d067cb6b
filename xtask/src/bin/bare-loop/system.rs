//! System calls that prepare both loops: sockets, pipes, shared memory, pinning and the kernel's clock.

use std::io::{self, Error};
use std::net::Ipv4Addr;
use std::ptr::null_mut;

use libc::{c_int, c_void};

pub(crate) fn checked(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

pub(crate) fn socket(kind: c_int) -> io::Result<c_int> {
    // SAFETY: plain integers.
    checked(unsafe { libc::socket(libc::AF_INET, kind, 0) })
}

/// Opens a socket bound to a free port at the IP address. Returns the socket and its address.
pub(crate) fn bind(kind: c_int, at: Ipv4Addr) -> io::Result<(c_int, libc::sockaddr_in)> {
    let socket = socket(kind)?;
    let address = internet_address(at);
    // SAFETY: the pointer and the length describe a live sockaddr_in.
    checked(unsafe { libc::bind(socket, (&raw const address).cast(), ADDRESS_LENGTH) })?;
    Ok((socket, address_of(socket)?))
}

/// Connects a TCP socket to a bound socket. Returns the accepted socket, and closes the bound socket.
pub(crate) fn connect_tcp(client: c_int, (listener, address): (c_int, libc::sockaddr_in)) -> io::Result<c_int> {
    // SAFETY: plain integers.
    checked(unsafe { libc::listen(listener, 1) })?;
    connect(client, &address)?;
    // SAFETY: null pointers are valid: the peer's address is not requested.
    let accepted = checked(unsafe { libc::accept(listener, null_mut(), null_mut()) })?;
    close(listener);
    Ok(accepted)
}

/// Opens a UDP socket, and connects it and a bound socket to each other. Returns both sockets, the new socket first.
pub(crate) fn udp_pair((server, address): (c_int, libc::sockaddr_in)) -> io::Result<(c_int, c_int)> {
    let client = socket(libc::SOCK_DGRAM)?;
    // The kernel chooses the local address by the route to the server.
    connect(client, &address)?;
    connect(server, &address_of(client)?)?;
    Ok((client, server))
}

pub(crate) fn unix_pair() -> io::Result<(c_int, c_int)> {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to two live integers.
    checked(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) })?;
    Ok((pair[0], pair[1]))
}

pub(crate) fn pipe() -> io::Result<(c_int, c_int)> {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to two live integers.
    checked(unsafe { libc::pipe(pair.as_mut_ptr()) })?;
    Ok((pair[0], pair[1]))
}

pub(crate) fn close(descriptor: c_int) {
    // SAFETY: a plain integer; the descriptor is not used afterwards.
    unsafe { libc::close(descriptor) };
}

/// Maps a page of zeroes that is shared with forked processes and never unmapped.
pub(crate) fn shared_page() -> io::Result<*mut c_void> {
    const PAGE: usize = 4096;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping; nothing is overwritten.
    let page = unsafe { libc::mmap(null_mut(), PAGE, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(page) }
}

fn address_of(socket: c_int) -> io::Result<libc::sockaddr_in> {
    let mut address = internet_address(Ipv4Addr::UNSPECIFIED);
    let mut length = ADDRESS_LENGTH;
    // SAFETY: the pointer and the length describe a live sockaddr_in, and the length is a live variable.
    checked(unsafe { libc::getsockname(socket, (&raw mut address).cast(), &raw mut length) })?;
    Ok(address)
}

fn internet_address(at: Ipv4Addr) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET.try_into().expect("AF_INET is 2"),
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(at.octets()) },
        sin_zero: [0; 8],
    }
}

#[expect(clippy::cast_possible_truncation, reason = "16 bytes")]
const ADDRESS_LENGTH: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

fn connect(socket: c_int, address: &libc::sockaddr_in) -> io::Result<()> {
    // SAFETY: the pointer and the length describe a live sockaddr_in.
    checked(unsafe { libc::connect(socket, std::ptr::from_ref(address).cast(), ADDRESS_LENGTH) })?;
    Ok(())
}

pub(crate) fn set(socket: c_int, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the pointer and the length describe a live slice.
    checked(unsafe { libc::setsockopt(socket, level, name, value.as_ptr().cast(), length) })?;
    Ok(())
}

pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= usize::try_from(libc::CPU_SETSIZE).expect("1024") {
        return Err(Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: an all-zero set is valid; the CPU is within it; pointer and length describe the live set.
    let answer = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    checked(answer).map(drop)
}

/// Forks a process that runs `child` and exits with its code; the kernel kills it when this process ends. SIGALRM ends both after
/// `limit_s`.
pub(crate) fn fork(limit_s: u32, child: impl FnOnce() -> c_int) -> io::Result<libc::pid_t> {
    // SAFETY: this process has one thread, so the child may call anything.
    let forked = checked(unsafe { libc::fork() })?;
    // SAFETY: plain integer; the default action of SIGALRM ends the process.
    unsafe { libc::alarm(limit_s) };
    if forked > 0 {
        return Ok(forked);
    }
    // SAFETY: plain integers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let code = child();
    // SAFETY: ends the process: the child must not return into the parent's code.
    unsafe { libc::_exit(code) }
}

pub(crate) fn kill(child: libc::pid_t) {
    // SAFETY: the child has not been waited for, so its id is not reused.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, null_mut(), 0);
    }
}

pub(crate) fn kernel_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; Linux has the clock.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
