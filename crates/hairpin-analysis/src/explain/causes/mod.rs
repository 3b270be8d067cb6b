//! The rules by which causes are named, a file each.

mod accept_queue_overflow;
mod application_window;
mod blocked_in_send;
mod client_idle;
mod congestion_window;
mod connect_delayed;
mod connection_per_request;
mod delayed_ack;
mod link_saturated;
mod nagle_meets_delayed_ack;
mod nagle_waits;
mod one_request_per_round_trip;
mod own_send_queue;
mod path_mtu;
mod receive_window;
mod retransmission;
mod retransmission_time_out;
mod sequences;
mod server_stalled;
mod server_work;
mod slow_reader;
mod slow_start_after_idle;
mod with_acks;

use super::rule::Rule;

/// All rules. Of causes with equal shares the first is named first.
pub(super) const ALL: &[Rule] = &[
    accept_queue_overflow::RULE,
    connect_delayed::RULE,
    path_mtu::RULE,
    blocked_in_send::RULE,
    nagle_meets_delayed_ack::RULE,
    nagle_waits::RULE,
    delayed_ack::RULE,
    retransmission_time_out::RULE,
    retransmission::RULE,
    slow_reader::RULE,
    own_send_queue::RULE,
    receive_window::RULE,
    link_saturated::RULE,
    slow_start_after_idle::RULE,
    congestion_window::RULE,
    connection_per_request::RULE,
    application_window::RULE,
    one_request_per_round_trip::RULE,
    server_stalled::RULE,
    server_work::RULE,
    client_idle::RULE,
];
