//! The rules by which causes are named.

mod blocked_in_send;
mod client_idle;
mod congestion_window;
mod connection_per_request;
mod losses;
mod openings;
mod own_send_queue;
mod path_mtu;
mod receive_window;
mod sequences;
mod server;
mod slow_start_after_idle;
mod with_acks;

use super::rule::Rule;

/// All rules. Of causes with equal shares the first is named first.
pub(super) const ALL: &[Rule] = &[
    openings::ACCEPT_QUEUE_OVERFLOW,
    openings::CONNECT_DELAYED,
    path_mtu::RULE,
    blocked_in_send::RULE,
    with_acks::NAGLE_MEETS_DELAYED_ACK,
    with_acks::NAGLE_WAITS,
    with_acks::DELAYED_ACK,
    losses::RETRANSMISSION_TIME_OUT,
    losses::RETRANSMISSION,
    receive_window::SLOW_READER,
    own_send_queue::RULE,
    receive_window::RECEIVE_WINDOW,
    congestion_window::LINK_SATURATED,
    slow_start_after_idle::RULE,
    congestion_window::CONGESTION_WINDOW,
    connection_per_request::RULE,
    sequences::APPLICATION_WINDOW,
    sequences::ONE_REQUEST_PER_ROUND_TRIP,
    server::SERVER_STALLED,
    server::SERVER_WORK,
    client_idle::RULE,
];
