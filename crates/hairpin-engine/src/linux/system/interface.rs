//! Finds the interface with an address, and reads an interface's driver data (`linux/ethtool.h`).

use std::mem;
use std::net::IpAddr;
use std::ptr::null_mut;

use super::device::{ask, ethtool};
use crate::netlink::Netlink;

pub(crate) fn name_of(address: IpAddr) -> Option<String> {
    Netlink::open().ok()?.interface_with(address.to_canonical()).ok()?
}

/// Maximum packet size that the interface sends, in bytes.
pub(crate) fn mtu_bytes(device: &str) -> Option<u64> {
    // SAFETY: the operation takes no data, and the kernel writes this member of its answer.
    u64::try_from(unsafe { ask(device, libc::SIOCGIFMTU, null_mut()).ok()?.ifru_mtu }).ok()
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    /// Versions, bus name and lengths.
    rest: [u8; 160],
}

/// The name of the driver; `None` for devices without one, such as the loopback.
pub(crate) fn driver(device: &str) -> Option<String> {
    const GET: u32 = 0x03;
    let mut info = DriverInfo { command: GET, driver: [0; 32], rest: [0; 160] };
    ethtool(device, &mut info).ok()?;
    let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
}

/// Capacity for link modes, in 32-bit words: three masks of the maximum size that the kernel can report.
const MODE_WORDS: usize = 127;

/// `struct ethtool_link_settings`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LinkSettings {
    command: u32,
    speed: u32,
    duplex: u8,
    port: [u8; 6],
    mode_words: i8,
    rest: [u8; 4],
    reserved: [u32; 7],
    modes: [[u32; MODE_WORDS]; 3],
}

/// The speed of a device in Mbit/s and its duplex, `full` or `half`; `None` for an unreported value.
pub(crate) fn speed_and_duplex(device: &str) -> (Option<u64>, Option<&'static str>) {
    const GET: u32 = 0x4c;
    // SAFETY: plain numbers, for which all zeroes are valid values.
    let mut settings: LinkSettings = unsafe { mem::zeroed() };
    settings.command = GET;
    // The first answer is the size of the kernel's masks in words, as a negative number.
    if ethtool(device, &mut settings).is_err() {
        return (None, None);
    }
    let Some(mode_words) = settings.mode_words.checked_neg().filter(|words| *words > 0) else { return (None, None) };
    // SAFETY: as above.
    settings = unsafe { mem::zeroed() };
    (settings.command, settings.mode_words) = (GET, mode_words);
    match ethtool(device, &mut settings) {
        Ok(()) => (speed(settings.speed), duplex(settings.duplex)),
        Err(_) => (None, None),
    }
}

/// `SPEED_UNKNOWN` has all bits set. A device without a cable may report 0.
fn speed(value: u32) -> Option<u64> {
    (value != u32::MAX && value != 0).then_some(value.into())
}

fn duplex(value: u8) -> Option<&'static str> {
    match value {
        0 => Some("half"),
        1 => Some("full"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(mem::size_of::<DriverInfo>(), 196);
        assert_eq!(mem::offset_of!(LinkSettings, mode_words), 15);
        assert_eq!(mem::offset_of!(LinkSettings, modes), 48);
    }

    #[test]
    fn an_interface_is_found_by_its_address() {
        for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
            assert_eq!(name_of(address.parse().unwrap()).as_deref(), Some("lo"), "{address}");
        }
        assert_eq!(name_of("203.0.113.9".parse().unwrap()), None);
        let text = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
        if text.contains(" lo\n") {
            assert_eq!(name_of("::1".parse().unwrap()).as_deref(), Some("lo"));
        }
    }

    #[test]
    fn values_that_a_driver_does_not_report_are_absent() {
        assert!(mtu_bytes("lo").is_some_and(|bytes| bytes >= 1280));
        assert_eq!((driver("lo"), speed_and_duplex("lo")), (None, (None, None)));
        assert_eq!(
            (mtu_bytes("no-such"), driver("no-such"), speed_and_duplex("no-such")),
            (None, None, (None, None))
        );
        assert_eq!([u32::MAX, 0, 25_000].map(speed), [None, None, Some(25_000)]);
        assert_eq!([0, 1, 255].map(duplex), [Some("half"), Some("full"), None]);
    }
}
