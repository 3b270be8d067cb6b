//! Charts as inline SVG, without a chart library.
//!
//! These charts follow the reader's colour scheme (CSS variables). Their width follows the window while letters and
//! marks keep their size (positions are percentages of the plot, only curves are stretched), and each mark has its
//! figure as text. Static SVG has fixed colours and a fixed size; libraries that draw in the browser are larger than
//! the whole page may be.
//!
//! A chart turns figures into markup and escapes text from the run. Values that are not finite are not drawn, and a
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
