//! Every combination of the values of the settings of a case.

use hairpin_model::case::Scheduling;
use hairpin_model::options::OptionName;
use hairpin_model::{
    AnsweredBy, Candidate, Card, Case, CpuIdle, EndKind, HostCapabilities, Options, Placement, Refused, RoundOrder,
    Waiting,
};

use crate::experiment::Planning;
use crate::knobs::Knobs;
use crate::links;
use crate::selection;
use crate::sequence::MAX_CASES;
use crate::shared;

/// Returns the variants of a case on a transport.
type Vary<'a> = Box<dyn Fn(&Case, &Card) -> Vec<Case> + 'a>;

/// Settings and their values. Every combination of the values is a case.
pub struct Combinations<'a> {
    steps: Vec<(usize, Vary<'a>)>,
    /// What `--waiting all` means.
    waitings: &'static [Waiting],
}

impl Default for Combinations<'_> {
    fn default() -> Self {
        Self::of_waitings(Waiting::BASIC)
    }
}

impl<'a> Combinations<'a> {
    /// Without settings. `--waiting all` means these.
    pub fn of_waitings(waitings: &'static [Waiting]) -> Self {
        Self { steps: Vec::new(), waitings }
    }

    /// Adds a setting with these values. Without values the setting stays as it is.
    pub fn each<V: Clone + 'a>(self, values: Vec<V>, set: impl Fn(&mut Case, V) + 'a) -> Self {
        self.each_on(values, move |case, value, _| set(case, value))
    }

    /// Like [`Self::each`] for a setting that depends on the transport.
    pub fn each_on<V: Clone + 'a>(self, values: Vec<V>, set: impl Fn(&mut Case, V, &Card) + 'a) -> Self {
        let with = move |case: &Case, value: &V, card: &Card| {
            let mut case = case.clone();
            set(&mut case, value.clone(), card);
            case
        };
        match values.len() {
            0 => self,
            count => self.vary(count, move |case, card| values.iter().map(|value| with(case, value, card)).collect()),
        }
    }

    /// Adds a step that makes up to `count` cases of a case.
    pub fn vary(mut self, count: usize, step: impl Fn(&Case, &Card) -> Vec<Case> + 'a) -> Self {
        self.steps.push((count, Box::new(step)));
        self
    }

    /// Adds the sizes of messages and of their answers.
    pub fn with_sizes(self, knobs: &Knobs) -> Self {
        self.each(knobs.values("size"), |case, size: u64| case.primary_mut().load.set_sizes(size, size)).each(
            knobs.values("reply-size"),
            |case, reply: u64| {
                let size = case.primary().load.size_bytes();
                case.primary_mut().load.set_sizes(size, reply);
            },
        )
    }

    /// Adds the scheduling and the timer slack of the ends' threads.
    pub fn with_threads(self, knobs: &Knobs) -> Self {
        self.each(knobs.choices("scheduling", Scheduling::ALL), |case, policy| case.ends.scheduling = policy)
            .each(knobs.values("timer-slack"), |case, slack_ns| case.ends.timer_slack_ns = Some(slack_ns))
    }

    /// Removes the default option of transports that lack it. Libraries send small messages at once.
    pub fn with_alike_options(self, knobs: &Knobs) -> Self {
        let is_default = !knobs.is_given("option");
        self.each_on(vec![()], move |case, (), card| {
            if is_default && !card.options.contains(&OptionName::Nodelay) {
                case.primary_mut().options = Options::default();
            }
        })
    }

    /// Adds link, kernel settings, options, waiting mode, placement and kind of ends, as the shared knobs request.
    /// `is_trial` selects the options that `--option all` tries one at a time.
    ///
    /// # Errors
    /// [`Refused`] for an invalid link, and for a kernel setting that cannot be changed for a single round.
    pub fn in_circumstances(
        self,
        knobs: &Knobs,
        capabilities: &'a HostCapabilities,
        is_trial: impl Fn(OptionName) -> bool,
    ) -> Result<Self, Refused> {
        shared::refuse_across_hosts(knobs, capabilities)?;
        let far = capabilities.far.as_ref();
        let mut all = self.each(links::asked(knobs, capabilities)?, move |case, link| links::set(case, link, far));
        for values in shared::sysctls(knobs, capabilities)? {
            all = all.each(values, |case, value| case.sysctls = case.sysctls.clone().and(value));
        }
        all = all.with_options(knobs, is_trial);
        let (waitings, placements) =
            (knobs.choices("waiting", all.waitings), shared::placements(knobs, capabilities)?);
        all = match waitings.is_empty() {
            true => all.each_on(vec![()], |case, (), card| case.ends.waiting = default_waiting(case, card)),
            false => all.each(waitings, |case, waiting| case.ends.waiting = waiting),
        };
        let is_placed = knobs.is_given("placement") || capabilities.given_cpus.is_some();
        all = all.vary(placements.len().max(1), move |case, card| placed(case, card, &placements, is_placed));
        let (mut ends, ends_given) = (knobs.choices("ends", EndKind::ALL), knobs.is_given("ends"));
        if ends.is_empty() {
            ends.push(EndKind::Processes);
        }
        Ok(all.each_on(ends, move |case, ends, card| case.ends.kind = selection::ends(card, ends, ends_given)))
    }

    /// Adds the given sets of options. `all` adds the empty set, and a set per trial option of the card.
    fn with_options(self, knobs: &Knobs, is_trial: impl Fn(OptionName) -> bool) -> Self {
        let sets: Vec<Options> = knobs.values("option");
        if !knobs.has_every("option") {
            return self.each(sets, |case, options| case.primary_mut().options = options);
        }
        let trial = |name: &OptionName| Some((*name, name.trial_value().filter(|_| is_trial(*name))?));
        let trials: Vec<(OptionName, &str)> = OptionName::ALL.iter().filter_map(trial).collect();
        self.vary(sets.len() + 1 + trials.len(), move |case, card| {
            let of_card = trials.iter().filter(|(name, _)| card.options.contains(name));
            let trials = of_card.map(|(name, value)| Options::default().with(*name, value));
            let sets = sets.iter().cloned().chain([Options::default()]).chain(trials);
            sets.map(|options| case.clone().with(|case| case.primary_mut().options = options)).collect()
        })
    }

    /// Adds every depth of CPU sleep, and after each case its replicate, if any.
    pub fn with_replicates(self, knobs: &'a Knobs) -> Self {
        let is_doubled = knobs.is_on("replicate") || knobs.is_given("replicate-fault");
        self.each(knobs.choices("cpu-idle", CpuIdle::ALL), |case, cpu_idle| case.ends.cpu_idle = cpu_idle).each(
            if is_doubled { vec![0, 1] } else { vec![0] },
            move |case, replicate| {
                case.replicate = replicate;
                case.injected_fault = shared::fault(knobs, replicate);
            },
        )
    }

    /// Returns every combination on one transport, including impossible ones.
    pub fn cases(&self, first: Case, card: &Card) -> Vec<Case> {
        let steps = self.steps.iter().map(|(_, step)| step);
        steps.fold(vec![first], |cases, step| cases.iter().flat_map(|case| step(case, card)).collect())
    }

    /// Plans every possible combination on each of these transports, from the case that `first` returns. Refuses too
    /// many before building them, so that a huge list cannot fill memory.
    ///
    /// # Errors
    /// [`Refused`] if there would be more than [`MAX_CASES`], or nothing is left to run.
    pub fn plan(
        &self,
        candidates: &[&Candidate],
        capabilities: &HostCapabilities,
        first: impl Fn(&Card) -> Case,
        order: impl Fn(Case, &Card) -> RoundOrder,
    ) -> Result<Planning, Refused> {
        let counts = self.steps.iter().map(|(count, _)| *count as u64);
        let combinations = counts.fold(candidates.len() as u64, u64::saturating_mul);
        if combinations > MAX_CASES {
            return Err(Refused::new(
                format!("the values combine to {combinations} cases, more than {MAX_CASES}"),
                "use fewer values at once",
            ));
        }
        selection::possible_cases(candidates, capabilities, |runnable| {
            let all = runnable.iter().map(|candidate| &candidate.card);
            let all = all.flat_map(|card| self.cases(first(card), card).into_iter().map(move |case| (case, card)));
            all.map(|(case, card)| order(case, card)).collect()
        })
    }
}

/// Returns the case with every placement. Without a given placement, both ends share a CPU if no default suits.
fn placed(case: &Case, card: &Card, placements: &[Placement], is_given: bool) -> Vec<Case> {
    let at = |placement: Placement| case.clone().with(|case| case.ends.placement = placement);
    if !is_given && case.primary().threads > 1 {
        return vec![at(Placement::Unpinned)];
    }
    let mut placed: Vec<Case> = placements.iter().map(|placement| at(*placement)).collect();
    placed.retain(|case| is_given || has_default_placement(case, card));
    if placed.is_empty() { vec![at(Placement::SameCpu)] } else { placed }
}

/// Returns how the ends of a case wait without `--waiting`: one connection blocks, several are polled, and a
/// transport without a file descriptor spins.
fn default_waiting(case: &Case, card: &Card) -> Waiting {
    if !card.waitings.contains(&Waiting::Poll) {
        Waiting::Spin
    } else if case.primary().wires() > 1 {
        Waiting::Poll
    } else {
        Waiting::Block
    }
}

/// Whether a default placement suits the case: spinning needs two CPUs, the kernel answers on one CPU, and over a
/// link two CPUs make hardly any difference.
fn has_default_placement(case: &Case, card: &Card) -> bool {
    let by_kernel = card.answered_by == AnsweredBy::Kernel;
    match case.ends.placement {
        Placement::SameCpu => !case.ends.waiting.spins() || by_kernel,
        Placement::CrossCpu => !by_kernel && (!case.crosses_a_network() || case.ends.waiting == Waiting::Spin),
        _ => true,
    }
}
