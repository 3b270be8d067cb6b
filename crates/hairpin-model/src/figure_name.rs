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
        /// Maximum latency.
        Max = "max",
        /// Mean latency.
        Mean = "mean",
        /// Median of the service time, which counts from the actual send. Only in an open loop, whose latency counts
        /// from the time at which a message was due.
        ServiceP50 = "service-p50",
        /// Mean of the service time.
        ServiceMean = "service-mean",
        /// Latency of a connection's first exchange or message.
        First = "first",
        /// Answers per second.
        Rate = "rate",
        /// Request bytes per millisecond.
        BytesPerMs = "bytes-per-ms",
        /// Segments with payload per exchange.
        Segments = "segments",
        /// Segments without payload per exchange.
        PureAcks = "pure-acks",
        /// Share of messages never answered, 0 to 1.
        LostShare = "lost-share",
        /// Share of messages received (one-way loads) or answered, 0 to 1.
        ReceivedShare = "received-share",
        /// Message bytes sent per second, over the time in which the messages were due.
        SentBytes = "sent-bytes-per-s",
        /// Message bytes received or answered per second, over the time in which the messages were due.
        ReceivedBytes = "received-bytes-per-s",
        /// Messages of a one-way load received per second, from the first arrival to the last.
        ReceivedPerS = "received-per-s",
        /// Messages of a one-way load sent per second, from the first send to the last.
        SentPerS = "sent-per-s",
        /// Bytes of a one-way load received per second, from the first arrival to the last.
        Goodput = "goodput-bytes-per-s",
        /// System calls of the client per message of a one-way load.
        ClientSystemCalls = "client-system-calls-per-message",
        /// System calls of the server per message of a one-way load.
        ServerSystemCalls = "server-system-calls-per-message",
        /// CPU time of the client per million messages of a one-way load.
        ClientCpuPerMillion = "client-cpu-seconds-per-million",
        /// CPU time of the server per million messages of a one-way load.
        ServerCpuPerMillion = "server-cpu-seconds-per-million",
        /// CPU time of the client per 10^9 bytes of a one-way load.
        ClientCpuPerGb = "client-cpu-seconds-per-gb",
        /// CPU time of the server per 10^9 bytes of a one-way load.
        ServerCpuPerGb = "server-cpu-seconds-per-gb",
        /// Jain's fairness index of the connections' bytes.
        Fairness = "fairness",
        /// Share of the messages of a load on several streams that waited for another stream's data, 0 to 1.
        BlockedShare = "blocked-share",
        /// Bytes of packets in the opposite direction of a one-way load, per message byte. On an emulated link, all
        /// packets that it carried; else the segments without payload from the receiver of a TCP load.
        ReverseShare = "reverse-share",
        /// Bytes per second of packets in the opposite direction of a one-way load: `ReverseShare` * goodput.
        ReverseBytes = "reverse-bytes-per-s",
        /// Requests sent and not yet answered, averaged over the round: rate times mean latency (Little's law). At
        /// most 1 if each answer is read before the next request is sent.
        InFlight = "in-flight",
        /// Of a median sampled round trip: the time between the server's calls.
        Work = "work",
        /// Of a median sampled round trip: the send calls of both ends up to the driver.
        SendStack = "send-stack",
        /// Of a median sampled round trip: from the arrival of the message at each end to the return of its receive call.
        Scheduling = "scheduling",
        /// Median time from a release of a control loop until the loop was awake. Without devices, by how much a wait was too
        /// long.
        ReleaseJitterP50 = "release-jitter-p50",
        /// Times that the client slept, per period of a control loop.
        WakeUpsPerPeriod = "wake-ups-per-period",
        /// CPU time of the client per period of a control loop.
        ClientCpuPerPeriod = "client-cpu-time-per-period",
        /// The shortest period that a search found. Its interval begins at the longest period that misses too many deadlines.
        SmallestPeriod = "smallest-period",
        /// Probability that a message takes longer than the bound of the run, 0 to 1.
        Exceeds = "exceeds",
        /// Share of the time of traced exchanges in the states that a rule names, 0 to 1.
        TimeInStates = "time-in-states",
    }
}
