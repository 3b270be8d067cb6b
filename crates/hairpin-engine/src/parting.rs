//! How a round ends: who goes first, and where what is still on its way is accounted for.

use std::time::Duration;

use hairpin_model::card::Card;
use hairpin_model::fact::Fact;
use hairpin_model::round::{EndReport, Failure, RoundOrder};
use hairpin_transports::Wire;
use hairpin_transports::giving_up::has_given_up;

use crate::clock::{Clock, RealClock};
use crate::ends::{EchoEnd, far};
use crate::halves::Journey;
use crate::links::LinkEnd;
use crate::path::Link;
use crate::tracing::round::{Watch, Watched};

/// How long one look for late answers waits.
const LOOK: Duration = Duration::from_millis(1);
/// What a packet takes on its way besides the link, at most, in ns.
const MARGIN_NS: u64 = 20_000_000;
/// How long the far end may take to end once it is released, in ns; then it is asked for its report and fails.
const LONGEST_NS: u64 = 60_000_000_000;

/// Both ends of a round after its last message, and what is between them.
pub(crate) struct Parting<'a> {
    pub(crate) clock: &'a RealClock,
    pub(crate) order: &'a RoundOrder,
    pub(crate) card: &'a Card,
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) echo: Option<&'a mut (dyn EchoEnd + 'static)>,
    pub(crate) link: &'a mut Option<Link>,
    pub(crate) watch: Option<Watch>,
}

/// What they leave.
pub(crate) struct Parted {
    /// What the near end's kernel counted.
    pub(crate) facts: Vec<Fact>,
    pub(crate) echo: Option<EndReport>,
    pub(crate) watched: Option<Watched>,
    pub(crate) link: Option<LinkEnd>,
}

impl Parting<'_> {
    /// Closes the wire, which tells the echo half to end. A failed round has no more to say.
    pub(crate) fn close(self) {
        drop(self.wire);
        if let Some(echo) = self.echo {
            echo.release();
        }
    }

    /// Ends the round: the wire, the echo half, what watched, the link.
    ///
    /// # Errors
    /// The echo half or the link failed, or what came late is garbage.
    pub(crate) fn part(self, journey: &mut Journey) -> Result<Parted, Failure> {
        if let Some(link) = self.link.take_if(|_| !self.card.lossless) {
            return self.part_with_stragglers(link, journey);
        }
        let facts = self.facts();
        drop(self.wire);
        let echo = self.echo.map(|echo| {
            echo.release();
            echo.report()
        });
        let echo = echo.transpose()?;
        let watched = self.watch.map(Watch::end);
        let link = self.link.take().map(Link::finish).transpose()?;
        Ok(Parted { facts, echo, watched, link })
    }

    /// The way of a transport that may lose messages, across a link. The near end listens until nothing can come any
    /// more: until the far end is done, and then the link. So each answer either came or is still inside the link.
    fn part_with_stragglers(mut self, link: Link, journey: &mut Journey) -> Result<Parted, Failure> {
        let began_ns = self.clock.now_ns();
        let echo = if self.echo.is_some() {
            // A farewell that overtook a message would end the far end too early.
            self.listen(journey, |_, now_ns| now_ns - began_ns >= link.overtaken_by_ns())?;
            self.wire.farewell();
            let said_ns = self.clock.now_ns();
            let arrives_ns = link.round_trip_ns().saturating_add(MARGIN_NS);
            self.listen(journey, |this, now_ns| {
                let Some(echo) = this.echo.as_deref_mut() else { return true };
                // It may have been lost: then silence tells the far end. Not before the last message must be there.
                if now_ns - said_ns >= arrives_ns {
                    echo.release();
                }
                echo.has_word() || now_ns - said_ns >= arrives_ns.saturating_add(LONGEST_NS)
            })?;
            self.echo.as_deref_mut().map(<dyn EchoEnd>::report).transpose()?
        } else {
            let until_ns = journey.stragglers.last_sent_ns().unwrap_or(began_ns);
            let until_ns = until_ns.saturating_add(link.round_trip_ns()).saturating_add(MARGIN_NS);
            let has_ended = |_: &mut Self, now_ns: u64| now_ns >= until_ns;
            if !journey.stragglers.is_empty() {
                self.listen(journey, has_ended)?;
            }
            None
        };
        let watched = self.watch.take().map(Watch::end);
        let end = link.finish()?;
        journey.take_stragglers(self.clock, &mut *self.wire)?;
        let facts = self.facts();
        self.close();
        Ok(Parted { facts, echo, watched, link: Some(end) })
    }

    /// Takes late answers as they come, until `is_over` says so.
    fn listen(
        &mut self,
        journey: &mut Journey,
        mut is_over: impl FnMut(&mut Self, u64) -> bool,
    ) -> Result<(), Failure> {
        loop {
            let open = journey.take_stragglers(self.clock, &mut *self.wire)?;
            if is_over(self, self.clock.now_ns()) || has_given_up() {
                return Ok(());
            }
            // What is gone is always ready to say so.
            if !open || self.wire.wait(LOOK).is_err() {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn facts(&self) -> Vec<Fact> {
        far::facts(&self.order.case, self.card, &*self.wire)
    }
}
