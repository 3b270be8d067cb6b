//! Sampled round trips whose parts are known.

use hairpin_model::{EndPoints, SampledTrip};

/// The durations of the eleven elementary parts in the order of the path, in ns.
pub type Parts = [i64; 11];

/// Parts of a round trip of 5.5 us without waits for a CPU.
pub const PLAIN: Parts = [100, 200, 300, 0, 500, 600, 700, 800, 900, 0, 1_400];

/// A round trip with these parts on one clock. Both ends sleep in their receive calls, which begin at the send call of
/// the other end.
pub fn trip(parts: Parts) -> SampledTrip {
    let mut at = 0;
    let mut after = |ns: i64| {
        at += ns;
        Some(at)
    };
    let [scheduled, driver, arrived] = [after(parts[0]), after(parts[1]), after(parts[2])];
    let read = after(parts[3] + parts[4]);
    let send_called = after(parts[5]);
    let [server_scheduled, server_driver, back] = [after(parts[6]), after(parts[7]), after(parts[8])];
    let client_read = after(parts[9] + parts[10]);
    let waits = |waited: i64| (Some(waited), Some(1));
    let (waited, switched_in) = waits(parts[3]);
    let server = EndPoints {
        send_called,
        scheduled: server_scheduled,
        driver: server_driver,
        send_returned: back,
        receive_called: Some(-1_000),
        arrived,
        read,
        waited,
        switched_in,
    };
    let (waited, switched_in) = waits(parts[9]);
    let client = EndPoints {
        send_called: Some(0),
        scheduled,
        driver,
        send_returned: driver,
        receive_called: driver,
        arrived: back,
        read: client_read,
        waited,
        switched_in,
    };
    SampledTrip { sequence: 0, client, server: Some(server) }
}

/// The same with the server's times on a clock of its own, from the return of its receive call.
pub fn on_two_clocks(mut trip: SampledTrip) -> SampledTrip {
    trip.server = trip.server.map(|server| server.since(server.read.unwrap()));
    trip
}
