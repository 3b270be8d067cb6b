//! The figures that claims are about, in words.

use hairpin_model::FigureName;

pub(crate) fn figure_name(name: FigureName) -> &'static str {
    match name {
        FigureName::P50 => "p50",
        FigureName::P99 => "p99",
        FigureName::P999 => "p99.9",
        FigureName::Max => "maximum",
        FigureName::Mean => "mean",
        FigureName::ServiceP50 => "p50 from the actual send",
        FigureName::ServiceMean => "mean from the actual send",
        FigureName::First => "first exchange",
        FigureName::Rate => "rate",
        FigureName::BytesPerMs => "bytes/ms",
        FigureName::Segments => "segments per exchange",
        FigureName::PureAcks => "pure ACKs per exchange",
        FigureName::LostShare => "share of lost messages",
        FigureName::ReceivedShare => "share of received messages",
        FigureName::SentBytes => "rate sent",
        FigureName::ReceivedBytes => "rate received",
        FigureName::InFlight => "number of requests in flight",
        FigureName::Work => "work of the server in a median sampled round trip",
        FigureName::SendStack => "send calls up to the driver, both ends, in a median sampled round trip",
        FigureName::Scheduling => "waits for a CPU and wake-ups, both ends, in a median sampled round trip",
        FigureName::ReceivedPerS => "messages received per second",
        FigureName::SentPerS => "messages sent per second",
        FigureName::Goodput => "goodput",
        FigureName::ClientSystemCalls => "system calls of the client per message",
        FigureName::ServerSystemCalls => "system calls of the server per message",
        FigureName::ClientCpuPerMillion => "CPU time of the client per million messages",
        FigureName::ServerCpuPerMillion => "CPU time of the server per million messages",
        FigureName::ClientCpuPerGb => "CPU time of the client per GB",
        FigureName::ServerCpuPerGb => "CPU time of the server per GB",
        FigureName::Fairness => "fairness index of the connections",
        FigureName::BlockedShare => "share of messages that waited for another stream",
        FigureName::ReverseShare => "bytes of the reverse direction per byte of messages",
        FigureName::ReverseBytes => "rate of the reverse direction",
        FigureName::TimeInStates => "share of the time of traced exchanges in the states of the rule",
    }
}
