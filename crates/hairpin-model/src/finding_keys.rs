//! Keys of the figures and facts of findings, shared by the analysis and the report. Keys of a single file may be in
//! that file.

use crate::finding::Key;

macro_rules! keys {
    ($($name:ident = $word:literal in $unit:literal;)+) => {
        $(pub const $name: Key = Key { name: $word, unit: $unit };)+

        /// Every key.
        pub const ALL: &[Key] = &[$($name),+];
    };
}

keys! {
    P50 = "p50" in "ns";
    P50_OF_EXCHANGE = "p50-of-an-exchange" in "ns";
    P50_WITH = "p50-with" in "ns";
    P50_WITHOUT = "p50-without-the-cause" in "ns";
    P50_OVER = "p50-over" in "ratio";
    MEAN_LATENCY = "mean-latency" in "ns";
    IDLE_P50 = "p50-without-the-load" in "ns";
    LOADED_P50 = "p50-beside-the-load" in "ns";
    ADDED_P50 = "latency-added-p50" in "ns";
    IDLE_MEAN = "mean-latency-without-the-load" in "ns";
    LOADED_MEAN = "mean-latency-beside-the-load" in "ns";
    ADDED_MEAN = "latency-added-mean" in "ns";
    EXPLAINED = "explained" in "ns";
    VERDICT = "verdict" in "";
    TWO_HOSTS = "two-hosts" in "";
    ONE_WAY = "one-way" in "";
    OPEN_LOOP = "open-loop" in "";
    CAUSE = "cause" in "";
    ROUNDS = "rounds" in "count";
    // aa-differs
    AA_RATIO = "second-over-first" in "ratio";
    AA_CHANCE = "chance-of-so-many-pairs" in "share";
    AA_DIFFERENT = "different-pairs" in "count";
    AA_PAIRS = "pairs" in "count";
    // traced exchanges
    WRITES = "writes-per-request" in "count";
    SEGMENTS = "segments-per-request" in "count";
    PURE_ACKS = "pure-acks-per-exchange" in "count";
    NODELAY_ON = "nodelay-on" in "count";
    NODELAY_OFF = "nodelay-off" in "count";
    CORK_ON = "cork-on" in "count";
    AUTOCORKED = "autocorked" in "count";
    HELD = "time-held" in "ns";
    HELD_AT = "time-held-at" in "ns";
    ACK_DELAY = "ack-delay" in "ns";
    RELEASING_ACK = "delay-of-the-releasing-ack" in "ns";
    STALLED_EXCHANGES = "stalled-exchanges" in "share";
    WAITING_EXCHANGES = "waiting-exchanges" in "share";
    LATE_ACK_EXCHANGES = "exchanges-with-a-late-ack" in "share";
    SEEN = "exchanges-with-it" in "count";
    TRACED = "exchanges-traced" in "count";
    SHARE_OF_SEEN = "share-of-their-time" in "share";
    SHARE_OF_UNTRACED = "share-of-untraced-time" in "share";
    WAITED = "share-waited-for-acks" in "share";
    PIPELINE = "requests-in-flight" in "count";
    HELD_OF_CLIENT = "held-of-client" in "";
    HELD_OF_SERVER = "held-of-server" in "";
    PLACES_OF_CLIENT = "places-of-client" in "";
    PLACES_OF_SERVER = "places-of-server" in "";
    MIN_RTT = "minimum-round-trip" in "ns";
    COUNTED_SEGMENTS = "segments-per-exchange" in "count";
    NEEDED = "segments-that-the-bytes-need" in "count";
    // queues and loads
    QUEUE_BYTES = "bytes-in-the-queue" in "bytes";
    IN_FLIGHT_BYTES = "bytes-in-flight" in "bytes";
    LEAVING = "rate-at-which-they-leave" in "bytes/s";
    BYTES_OVER_RATE = "bytes-over-rate" in "ns";
    QUEUE_DELAY = "delay-of-all-queues" in "ns";
    UNSENT = "bytes-written-and-not-sent-yet" in "bytes";
    LOAD_RECEIVED = "rate-at-which-the-load-is-received" in "bytes/s";
    LONGER = "longer-than-on-a-connection-of-its-own" in "ns";
    BEFORE_FIRST_BYTE = "wait-before-the-first-byte" in "ns";
    UNSENT_WAIT = "wait-for-bytes-that-the-socket-has-not-sent-yet" in "ns";
    LONGER_WAITS = "longer-waits-beside-the-load" in "ns";
    WAITS_IDLE = "cpu-waits-without-the-load" in "ns";
    WAITS_LOADED = "cpu-waits-beside-the-load" in "ns";
    CPUS_USED = "cpus-used" in "CPUs";
    ELSEWHERE = "change-with-the-load-on-another-cpu" in "ns";
    // cold-start
    FIRST_TENTH = "first-tenth-of-the-round" in "ns";
    LAST_HALF = "last-half-of-the-round" in "ns";
    TENTH_OVER_HALF = "first-tenth-over-the-last-half" in "ratio";
    FIRST_MESSAGE = "first-message" in "ns";
    // congestion-control
    PACING = "pacing" in "";
    OTHER_CONTROL = "other-control" in "";
    DIFFERENCE = "difference" in "ns";
    TIME_OVER = "time-per-byte" in "ratio";
    GOODPUT_WITH = "goodput-with" in "bytes/s";
    // cpu-quota
    QUOTA = "cpu-quota" in "CPUs";
    THROTTLED = "throttled-share-of-the-time" in "share";
    THROTTLED_PERIODS = "throttled-periods" in "count";
    THROTTLED_ROUNDS = "throttled-rounds" in "count";
    // limited-cpu
    SCHEDULING = "scheduling" in "";
    FREQUENCY_LIMIT = "highest-frequency-over-that-of-the-hardware" in "ratio";
    // control loops
    TIMER_SLACK = "timer-slack" in "ns";
    RELEASE_JITTER = "release-jitter-p50" in "ns";
    RELEASE_JITTER_P99 = "release-jitter-p99" in "ns";
    RESPONSE_P99 = "response-time-p99" in "ns";
    MISSED = "missed-deadlines" in "share";
    MISSES = "missed-periods" in "count";
    MISS_RUN = "longest-run-of-misses" in "count";
    PERIODS = "periods" in "count";
    CPU_WAITS = "cpu-waits-per-cycle" in "ns";
    USED_BY_OTHERS = "cpu-time-used-by-other-programs" in "share";
    SHARE_OF_RESPONSES = "share-of-the-response-time" in "share";
    // drift
    CHANGE_OVER_RUN = "change-over-the-run" in "share";
    TREND_CHANCE = "chance-of-such-a-trend" in "share";
    CHANGE_WITHIN = "change-within-rounds" in "share";
    EMULATED = "emulated" in "";
    // echo-stalled
    STALLED = "stalled-messages" in "count";
    TIME_IN_STALLS = "time-in-stalls" in "ns";
    LONGEST_TURNAROUND = "longest-turnaround" in "ns";
    SHARE_OF_ROUND_TRIPS = "share-of-the-round-trip-time" in "share";
    MESSAGES = "messages" in "count";
    TYPICAL_TURNAROUND = "typical-turnaround" in "ns";
    // open loops
    LATENESS_MEAN = "lateness-mean" in "ns";
    LATENCY_MEAN = "latency-mean" in "ns";
    LATENESS_P99 = "lateness-p99" in "ns";
    LATENCY_P99 = "latency-p99" in "ns";
    RANKED_UP_TO = "ranked-up-to" in "share";
    ASKED = "messages-per-s-requested" in "per s";
    REACHED = "messages-per-s-reached" in "per s";
    LOAD_ASKED = "load-requested" in "bytes/s";
    LOAD_SENT = "load-sent" in "bytes/s";
    HELD_UP = "held-up" in "";
    FASTER_BY = "faster-by" in "";
    // losses
    SENT = "messages-sent" in "count";
    RECEIVED = "messages-received" in "count";
    ANSWERS = "answers-received" in "count";
    SHARE_OF_SENT = "share-of-the-messages-sent" in "share";
    LOST_BY_LINK = "messages-that-the-link-lost" in "count";
    LOST_IN_BUFFERS = "messages-lost-in-buffers-and-queues" in "count";
    LOST_FOR_ROOM = "messages-that-the-receive-buffer-had-no-room-for" in "count";
    LOST_AT_SENDER = "messages-lost-by-the-sender" in "count";
    STAGE_DROPS = "packets-dropped-by-the-stage" in "count";
    STAGE = "stage" in "";
    ENTERED = "packets-that-entered-the-stage" in "count";
    LINK = "link" in "";
    BELOW_HALF = "share-of-distances-below-half" in "share";
    BURST = "messages-in-a-burst" in "count";
    BUFFER_GRANTED = "receive-buffer-granted" in "bytes";
    RECEIVED_PER_S = "messages-received-a-second" in "per s";
    LOST_WITH_LARGE = "share-lost-with-4-mib" in "share";
    BUFFER_HELPS = "buffer-helps" in "";
    SAME_CPU = "same-cpu" in "";
    BY_QDISC = "dropped-by-the-queue-discipline" in "count";
    BY_MEMORY = "refused-for-lack-of-memory" in "count";
    SHARED_COUNTER = "shared-counter" in "";
    UNEXPLAINED = "without-a-cause" in "count";
    LOST = "lost" in "count";
    TRANSPORT = "transport" in "";
    SEGMENTS_IN_PACKET = "segments-in-a-packet" in "count";
    // links
    RELAY_P50 = "relay-lateness-p50" in "ns";
    RELAY_P99 = "relay-lateness-p99" in "ns";
    RELAY_SHARE = "relay-share-of-the-p50" in "share";
    RELAY_SHARE_OF_P99 = "p99-lateness-over-the-p99" in "share";
    RELAY_CPU = "relay-cpu-time-per-packet" in "ns";
    RELAY_FULL = "relay-memory-was-full" in "";
    ROUNDS_OUT = "rounds-left-out" in "count";
    WORST_OUT = "most-rounds-left-out" in "count";
    WORST_OF = "of-rounds" in "count";
    WORST_CASE = "case-with-most-rounds-left-out" in "";
    QUEUE_TIME = "mean-time-of-a-packet-in-the-queue" in "ns";
    QUEUE_MAX_BYTES = "maximum-bytes-in-the-queue" in "bytes";
    QUEUE_MAX_PACKETS = "maximum-packets-in-the-queue" in "count";
    QUEUE_ENTERED = "packets-that-entered-the-queue" in "count";
    QUEUE_DROPPED = "packets-that-the-queue-dropped" in "count";
    QUEUE_SHARE = "time-in-the-queue-over-the-mean-latency" in "share";
    BOTH_QUEUES_SHARE = "time-in-both-queues-over-the-mean-latency" in "share";
    STAGE_FIGURES = "figures-of-the-stage" in "";
    // machine
    PROBE = "probe-in-state" in "ns";
    SLOW_ROUNDS = "rounds-in-the-slower-state" in "share";
    STATE_CHANGES = "changes-of-state" in "count";
    DISTURBED = "rounds-disturbed" in "share";
    STEAL = "steal" in "ns";
    PREEMPTIONS = "involuntary-context-switches-of-both-ends" in "count";
    LOAD_AVERAGE = "load-average" in "tasks";
    NOISE_RATIO = "p50-of-disturbed-rounds-over-quiet-ones" in "ratio";
    NOISE_HELPED = "disturbed-rounds-were-faster" in "";
    NOISY_ROUNDS = "disturbed-rounds" in "count";
    BY_STEAL = "disturbed-by-steal" in "count";
    BY_OTHERS = "disturbed-by-other-programs" in "count";
    BY_RUNNABLE = "disturbed-by-runnable-tasks" in "count";
    BY_PREEMPTION = "disturbed-by-preemption" in "count";
    BY_WAITING = "disturbed-by-waiting-for-a-cpu" in "count";
    P50_SEEN = "p50-of-rounds-seen" in "ns";
    ROUNDS_SAME_CPU = "rounds-on-one-cpu" in "count";
    ROUNDS_TWO_CPUS = "rounds-on-two-cpus" in "count";
    ROUNDS_MOVED = "rounds-on-one-and-then-two-cpus" in "count";
    ROUND = "round" in "count";
    SILENT = "silent" in "ns";
    // streams
    MEAN_WAIT = "mean-wait-for-other-streams" in "ns";
    LONGEST_WAIT = "longest-wait-for-another-stream" in "ns";
    BLOCKED_SHARE = "messages-that-waited" in "share";
    STREAMS = "streams" in "count";
    // datagrams
    MESSAGE_BYTES = "message-size" in "bytes";
    PATH_MTU = "path-mtu" in "bytes";
    STRAYS = "strays" in "count";
    ICMP_ERRORS = "icmp-errors" in "count";
    // retransmission
    RESENT = "segments-sent-again" in "count";
    BY_FAST = "of-them-by-fast-retransmit" in "count";
    TIME_OUTS = "retransmission-time-outs" in "count";
    TO_RECOVER = "of-them-to-recover-from-a-time-out" in "count";
    LOSS_PROBES = "tail-loss-probes" in "count";
    RTO = "retransmission-time-out-in-force" in "ns";
    LINK_DROPPED = "packets-with-payload-that-the-link-dropped" in "count";
    IN_FLIGHT_THEN = "messages-in-flight-then" in "count";
    ADDED_SHARE = "additional-time-of-these" in "share";
    HIT_P50 = "p50-of-these" in "ns";
    OTHER_P50 = "p50-of-the-others" in "ns";
    SHARE_OF_TAIL = "these-among-the-slowest-percent" in "share";
    // wake-up-dominated
    SAVED = "saved" in "ns";
    SAVED_SHARE = "share-saved" in "share";
    IDLE_SAVED = "saved-by-cpus-kept-awake" in "ns";
    UNDECIDED = "undecided" in "";
    // from the latency budget
    SHARE_OF_SAMPLED = "share-of-sampled-round-trips" in "share";
    SHARE_OF_SLOWEST = "share-of-the-slowest-sampled-percent" in "share";
    MEAN_OF_PART = "mean-of-sampled-part" in "ns";
    ADVICE = "advice" in "";
}

/// What a check changes.
pub mod check {
    pub const BUSY_POLL: &str = "busy-poll";
    pub const CODEL: &str = "codel";
    pub const CORK_REQUESTS: &str = "cork-requests";
    pub const CPU_EACH: &str = "cpu-for-each-end";
    pub const EVEN: &str = "even-spacing";
    pub const FIFO: &str = "real-time-policy";
    pub const HALF_RATE: &str = "half-the-rate";
    pub const KEEP_AWAKE: &str = "keep-the-cpus-awake";
    pub const LARGER_BUFFER: &str = "larger-receive-buffer";
    pub const LOAD_BELOW_GOODPUT: &str = "load-below-its-goodput";
    pub const LOAD_ELSEWHERE: &str = "load-on-another-cpu";
    pub const LONGER: &str = "measure-for-longer";
    pub const LONGER_PERIOD: &str = "longer-period";
    pub const LONGER_WARM_UP: &str = "longer-warm-up";
    pub const LOWER_RATE: &str = "lower-rate";
    pub const NODELAY: &str = "nodelay";
    pub const NO_TIMER_SLACK: &str = "no-timer-slack";
    pub const NOTSENT_LOWAT: &str = "notsent-lowat";
    pub const NO_AUTOCORKING: &str = "no-autocorking";
    pub const ONE_WRITE: &str = "one-write";
    pub const OTHER_CPUS: &str = "other-cpus";
    pub const OTHER_CONTROL: &str = "other-congestion-control";
    pub const OTHER_CONTROL_BY_GOODPUT: &str = "other-congestion-control-by-goodput";
    pub const OWN_CONNECTION: &str = "own-connection";
    pub const SEPARATE_CHANNELS: &str = "separate-channels";
    pub const PINNED: &str = "pinned-ends";
    pub const QUICK_ACKS: &str = "quick-acks";
    pub const RELEASE_CORK: &str = "release-the-cork";
    pub const SHORTER_PATH: &str = "shorter-path";
    pub const WITHIN_QUOTA: &str = "within-the-quota";
    pub const WITHOUT_WORK: &str = "without-the-work";
    pub const WITHOUT_STAGE: &str = "without-the-stage";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let distinct: std::collections::BTreeSet<&str> = ALL.iter().map(|key| key.name).collect();
        assert_eq!(distinct.len(), ALL.len());
    }
}
