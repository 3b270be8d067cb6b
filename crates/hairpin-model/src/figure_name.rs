//! The figures that a claim can be about, by name.

use crate::words;

words! {
    /// A figure of a case, by name.
    pub enum FigureName: "figure" {
        /// Median latency.
        P50 = "p50",
        /// 99th percentile.
        P99 = "p99",
        /// 99.9th percentile.
        P999 = "p999",
        /// The greatest.
        Max = "max",
        /// The mean.
        Mean = "mean",
        /// Median of the service time, from the actual send; only in an open loop, where latency is from when a
        /// message was due.
        ServiceP50 = "service-p50",
        /// Mean of the service time.
        ServiceMean = "service-mean",
        /// The first exchange of a connection, or its first message.
        First = "first",
        /// Answers a second.
        Rate = "rate",
        /// Bytes of requests a millisecond.
        BytesPerMs = "bytes-per-ms",
        /// Segments with payload of an exchange.
        Segments = "segments",
        /// Segments without payload of an exchange.
        PureAcks = "pure-acks",
        /// Share of the messages that were never answered, 0 to 1.
        LostShare = "lost-share",
        /// Share of the messages of a one-way load that were received, or of others that were answered, 0 to 1.
        ReceivedShare = "received-share",
        /// Bytes of messages sent a second, over the time for which they were due.
        SentBytes = "sent-bytes-per-s",
        /// Bytes of messages received or answered a second, over that same time.
        ReceivedBytes = "received-bytes-per-s",
        /// Messages of a one-way load that were received a second, from the first arrival to the last.
        ReceivedPerS = "received-per-s",
        /// Messages of a one-way load that were sent a second, from the first send to the last.
        SentPerS = "sent-per-s",
        /// Bytes of a one-way load that were received a second, from the first arrival to the last.
        Goodput = "goodput-bytes-per-s",
        /// System calls of the client for each message of a one-way load.
        ClientSystemCalls = "client-system-calls-per-message",
        /// Those of the server.
        ServerSystemCalls = "server-system-calls-per-message",
        /// CPU time of the client for a million messages of a one-way load.
        ClientCpuPerMillion = "client-cpu-seconds-per-million",
        /// That of the server.
        ServerCpuPerMillion = "server-cpu-seconds-per-million",
        /// CPU time of the client for 10^9 bytes of a one-way load.
        ClientCpuPerGb = "client-cpu-seconds-per-gb",
        /// That of the server.
        ServerCpuPerGb = "server-cpu-seconds-per-gb",
        /// Jain's fairness index of the connections' bytes.
        Fairness = "fairness",
        /// Bytes of packets against the direction of a one-way load, for each byte of its messages: those that an emulated link
        /// carried, elsewhere those of the segments without payload that the receiver of a TCP load sent.
        ReverseShare = "reverse-share",
        /// Bytes of such packets a second: that share of the goodput.
        ReverseBytes = "reverse-bytes-per-s",
        /// Requests that are sent and not yet answered, on average over the round: rate times mean latency (Little 1961).
        /// It is 1 at most where each answer is read before the next request is sent.
        InFlight = "in-flight",
    }
}
