//! Charts as inline SVG, without a chart library.
//!
//! Colours are CSS variables, so that charts follow the reader's colour scheme. Positions are percentages and only
//! curves are stretched, so that the width follows the window while text and marks keep their size. Each mark has its
//! figure as text. Chart libraries draw SVG with fixed size and colours, or exceed the size limit of the page.
//!
//! Charts escape text from the run, and do not draw values that are not finite.

pub mod axis;

pub(crate) mod exchange_bar;
pub(crate) mod full_rate;
pub(crate) mod goodput_over_time;
pub(crate) mod latency_budget;
pub(crate) mod latency_by_cpu;
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
pub(crate) mod rounds;
pub(crate) mod series;
pub(crate) mod svg;
pub(crate) mod time_sequence;
pub(crate) mod under_load;
