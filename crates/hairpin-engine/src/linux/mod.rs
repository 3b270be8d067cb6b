//! Linux-only code: system calls, and everything based on descriptors, `/proc`, `/sys` and namespaces.

pub mod capture;
pub(crate) mod cgroup;
pub mod channel;
pub mod child;
pub(crate) mod cpu_quota;
pub(crate) mod cpu_time_line;
pub(crate) mod drops;
pub mod environment;
pub mod keep_awake;
pub mod links;
pub(crate) mod netlink;
pub(crate) mod netstat;
pub(crate) mod noise;
pub(crate) mod scheduling;
pub mod socket_passing;
pub(crate) mod sysctl;
pub(crate) mod system;
pub(crate) mod topology;
pub mod tuning;
pub(crate) mod usage;
pub mod wait;
pub mod watching;
