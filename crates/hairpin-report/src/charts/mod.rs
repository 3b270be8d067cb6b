//! Charts as inline SVG, made by hand.
//!
//! Why no chart library: the colours of these charts follow the reader's colour scheme (they are CSS variables), their
//! width follows the reader's window while letters and marks keep their size (places are percentages of the plot, only
//! the curves are stretched), and each mark says its figure in words. Ready-made SVG has fixed colours and a fixed
//! size; the libraries that draw in the browser weigh more than the whole page may.
//!
//! A chart gets figures and gives markup; what the run says is escaped here. What is not finite is not drawn, and a
//! chart without anything to draw says so in words.

pub mod axis;

pub(crate) mod exchange_bar;
pub(crate) mod goodput_by_write;
pub(crate) mod goodput_over_time;
pub(crate) mod latency_by_rate;
pub(crate) mod link_path;
pub(crate) mod load_curve;
pub(crate) mod losses;
pub(crate) mod over_time;
pub(crate) mod packet_fates;
pub(crate) mod packet_rates;
pub(crate) mod percentiles;
pub(crate) mod plot;
pub(crate) mod quantity;
pub(crate) mod queue_depth;
pub(crate) mod ranking;
pub(crate) mod rate_by_batch;
pub(crate) mod rounds;
pub(crate) mod series;
pub(crate) mod svg;
pub(crate) mod time_sequence;
pub(crate) mod under_load;
