//! The built-in profiles and the sources of their figures.
//!
//! A figure is published, derived from published figures, or our own choice; [`Builtin::because`] says which. Sources
//! give round-trip times, but a profile gives the delay of one direction, which is half of the published value.

use crate::profile::Profile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    /// The modelled path, in one line.
    pub summary: &'static str,
    /// The canonical line of the profile.
    pub line: &'static str,
    /// The source of each figure.
    pub because: &'static str,
}

impl Builtin {
    pub fn profile(&self) -> Profile {
        if self.line == hairpin_model::case::LOOPBACK {
            return Profile::loopback();
        }
        self.line.parse().expect("a test parses every built-in line")
    }
}

/// All built-in profiles, shortest path first.
pub const ALL: &[Builtin] = &[
    LOOPBACK,
    DATACENTER,
    LAN_GIGABIT,
    BRIDGED_VM,
    PLC,
    WIFI_BUSY,
    WAN_CROSS_CITY,
    HOME_UPLINK,
    SATELLITE_LEO,
    LTE,
    SATELLITE_GEO,
];

pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|builtin| builtin.name).collect()
}

const LOOPBACK: Builtin = Builtin {
    name: "loopback",
    summary: "the kernel's own loopback, without an emulator",
    line: "loopback",
    because: "No figures: packets take the kernel's own path, without Hairpin.",
};

const DATACENTER: Builtin = Builtin {
    name: "datacenter",
    summary: "two hosts of one data centre, round trip 0.2 ms",
    line: "loss=0.005% delay=100us±20us",
    because: "Delay: half of a round trip of 0.2 ms. Pingmesh (Guo et al., SIGCOMM 2015) gives a median of 0.268 ms \
              between pods. That time includes the kernels of both hosts; here both kernels are real and add their \
              own time. Loss: Pingmesh gives 1e-5 to 1e-4; 5e-5 is our choice in this range. Jitter: our choice. No \
              rate: an emulator on one machine is slower than such a network.",
};

const LAN_GIGABIT: Builtin = Builtin {
    name: "lan-gigabit",
    summary: "a switched gigabit network, round trip 0.6 ms",
    line: "rate=975mbit queue=512KiB delay=300us±50us",
    because: "Rate: 1 Gbit/s on the wire (IEEE 802.3). An IP packet of 1500 B takes 1538 B on the wire, with \
              preamble, Ethernet header, checksum and gap, which leaves 975 Mbit/s of IP. Delay: claim A12 gives \
              round trips of 0.5 to 2 ms for a LAN; 0.6 ms is our choice near the lower limit. Jitter and queue (the \
              memory of a small switch): our choice.",
};

const BRIDGED_VM: Builtin = Builtin {
    name: "bridged-vm",
    summary: "two virtual machines across a bridge, round trip 4 ms",
    line: "delay=2ms",
    because: "Delay: half of the average round trip that is published for the hosts of claims D (3.9 ms; 3.06 to \
              4.31), rounded to 4 ms. The delay is constant so that jitter does not hide the delay of Nagle's \
              algorithm: our choice. No rate is published.",
};

const PLC: Builtin = Builtin {
    name: "plc",
    summary: "an industrial controller (PLC) that answers after 2 to 20 ms",
    line: "delay=5.5ms±4.5ms",
    because: "Delay: claim A12 gives a round trip of 2 to 20 ms, so 1 to 10 ms each way. The uniform distribution is \
              our choice, as for a controller that serves its network once per cycle.",
};

const WIFI_BUSY: Builtin = Builtin {
    name: "wifi-busy",
    summary: "a busy wireless network: short delays with a long tail, and losses in bursts",
    line: "rate=30mbit queue=256KiB burst-loss=0.5%/50%/50%/0% delay=5ms±5ms jitter=pareto",
    because: "Delay: Sui et al. (MobiSys 2016) measured a wireless hop of 3 ms at the median, about 20 ms at p90 and \
              250 ms at p99 in a large network. Pareto jitter of 5 ms gives a round trip of about 8 ms at the median \
              and under 20 ms at p90; above p90, real networks have a longer tail. Rate, queue and losses are our \
              choice: 0.5 % on average, in bursts, because the link layer retransmits after collisions.",
};

const WAN_CROSS_CITY: Builtin = Builtin {
    name: "wan-cross-city",
    summary: "two cities 1000 km apart, round trip 21 ms",
    line: "rate=100mbit queue=256KiB loss=0.01% delay=10.5ms±500us",
    because: "Delay: 10.5 ms each way. Bozkurt et al. (Dissecting latency in the Internet's fiber infrastructure, \
              2018) give a rule of thumb: the distance (1000 km) times 2.1, divided by the speed of light in fibre \
              (200 km per ms). Claim A12 gives 10 to 100 ms for a WAN. Distance, rate, loss and jitter are our \
              choice; the queue is rate times round trip.",
};

const HOME_UPLINK: Builtin = Builtin {
    name: "home-uplink",
    summary: "the home connection of claims E: 5.5 Mbit/s up behind a deep queue, 87 down, round trip 47 ms",
    line: "up=5.5mbit down=87.16mbit up.queue=2752KiB down.queue=512KiB up.loss=0.015% delay=23.5ms±3ms jitter=normal",
    because: "All figures are from claims E, where MB means MiB. TCP over IPv4 with time stamps carries 1448 B in \
              each IP packet of 1500 B. Up: 100 MiB in 158 s is 0.633 MiB/s; times 1500 / 1448, this is 5.50 Mbit/s \
              of IP. Down: 10.03 MiB/s times 1500 / 1448 is 87.16 Mbit/s. Up queue: 74 899 datagrams of 1428 B (1400 \
              B and headers) were sent in 2.31 s, and 3086 of them (4.12 %) arrived. The line sent 1112 in this \
              time, so 1973 waited in the queue: 2752 KiB. Up loss: 0.015 % at a rate below that of the line. Delay: \
              half of the ICMP round trip of 47.3 ms, rounded. Jitter: 3 ms in each direction give the round trip a \
              standard deviation of 4.2 ms (published: 4.2 for TCP, 4.3 for UDP). Down queue: our choice, rate times \
              round trip. With these figures the line loses 18 % at 0.812 MiB/s and 43 % at 1.181 MiB/s; 20.9 % and \
              44.3 % are published. No single rate gives all published figures; this rate gives those of TCP.",
};

const SATELLITE_LEO: Builtin = Builtin {
    name: "satellite-leo",
    summary: "satellites in low orbit: 13.5 Mbit/s up, 87 down, round trip 50 ms, losses in bursts",
    line: "up=13.5mbit down=87mbit up.queue=128KiB down.queue=512KiB burst-loss=0.1%/20%/100%/0% delay=25ms±5ms \
           jitter=normal",
    because: "Delay: half of the median round trip of about 50 ms (quartiles 40 and 60) that Michel et al. (A first \
              look at Starlink performance, IMC 2022; APNIC blog, 28 November 2022) measured. Rates: the medians of \
              Ookla's tests, third quarter of 2021. Losses are frequent and coincide with handovers (A browser-side \
              view of Starlink connectivity, IMC 2022); 0.5 % on average and 5 packets per burst are our choice. \
              Jitter: our choice. Queues: our choice, about rate times round trip.",
};

const LTE: Builtin = Builtin {
    name: "lte",
    summary: "a 4G phone: 6 Mbit/s up, 13 down, round trip 70 ms, a deep queue",
    line: "up=6mbit down=13mbit queue=1MiB delay=35ms±5ms jitter=pareto",
    because: "Rates: the medians of Huang et al. (A close examination of performance and power characteristics of 4G \
              LTE networks, MobiSys 2012). Delay: half of a round trip of 70 ms, about their median. No loss: the \
              radio layer retransmits lost data. Queue: our choice, some tenths of a second or more, as in such \
              networks (Alfredsson et al., Impact of TCP congestion control on bufferbloat in cellular networks, \
              WoWMoM 2013). Jitter: our choice. For a line whose rate changes, replay a trace instead.",
};

const SATELLITE_GEO: Builtin = Builtin {
    name: "satellite-geo",
    summary: "a geostationary satellite: 10 Mbit/s up, 100 down, round trip 600 ms",
    line: "up=10mbit down=100mbit up.queue=768KiB down.queue=8MiB delay=300ms",
    because: "Delay: light takes up to 279 ms from the ground to such a satellite and back to the ground (RFC 2488, \
              section 2); round trips start at about 600 ms (Michel et al., IMC 2022). Rates: the subscription of \
              the geostationary link in that article. Queues: our choice, about rate times round trip.",
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hairpin_model::link::Direction;

    use super::*;
    use crate::fixture::{SEED, packets};
    use crate::link::Link;
    use crate::simulate::simulate;

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn every_line_parses_and_is_displayed_unchanged() {
        for builtin in ALL {
            let parsed: Profile = builtin.name.parse().unwrap();
            assert_eq!(parsed, builtin.profile());
            assert_eq!(parsed.to_string(), builtin.line, "{}", builtin.name);
            assert!(!builtin.summary.ends_with('.') && builtin.because.ends_with('.'), "{}", builtin.name);
        }
        let distinct: BTreeSet<_> = ALL.iter().map(|builtin| builtin.name).collect();
        assert_eq!(distinct.len(), ALL.len());
    }

    #[test]
    fn the_links_page_shows_every_profile_and_its_sources() {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = plain(include_str!("../../../docs/links.md"));
        for builtin in ALL {
            for text in [builtin.name, builtin.summary, builtin.line, builtin.because] {
                assert!(page.contains(&plain(text)), "docs/links.md does not contain: {text}");
            }
        }
    }

    /// TCP goodput at the profile's rate, in MiB/s: 1448 of 1500 bytes are payload.
    fn goodput_mib_per_s(direction: Direction) -> f64 {
        let profile = HOME_UPLINK.profile();
        let rate = profile.path(direction).bottleneck.rate_bits_per_s.unwrap();
        rate as f64 / 8.0 * 1448.0 / 1500.0 / MIB
    }

    #[test]
    fn the_home_uplink_carries_the_published_tcp_goodput() {
        let up = goodput_mib_per_s(Direction::Up);
        assert!((100.0 / up - 158.0).abs() < 0.5, "{up}");
        assert!((goodput_mib_per_s(Direction::Down) - 10.03).abs() < 0.005);
    }

    /// Loss of 74 899 datagrams of 1400 B sent at this rate, in percent.
    // The casts are exact: the numbers are small.
    fn lost_percent(mib_per_s: f64) -> f64 {
        let gap_ns = 1400.0 / MIB / mib_per_s * 1e9;
        let mut link = Link::new(&HOME_UPLINK.profile(), SEED, &[]).unwrap();
        let _ = simulate(&mut link, &packets((0..74_899).map(|number| ((number as f64 * gap_ns) as u64, 1428))));
        let counts = link.path(Direction::Up).packets();
        counts.dropped.values().sum::<u64>() as f64 / 74_899.0 * 100.0
    }

    #[test]
    fn the_home_uplink_has_the_published_loss_of_a_blast_and_of_a_paced_stream() {
        assert!((lost_percent(43.28) - 95.88).abs() < 0.02, "{}", lost_percent(43.28));
        assert!((lost_percent(0.623) - 0.015).abs() < 0.015, "{}", lost_percent(0.623));
        // These losses are only near the published 20.93 % and 44.29 %, as the profile's text states.
        assert!((lost_percent(0.812) - 18.2).abs() < 0.1, "{}", lost_percent(0.812));
        assert!((lost_percent(1.181) - 42.9).abs() < 0.1, "{}", lost_percent(1.181));
    }
}
