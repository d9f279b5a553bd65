//! The operator: changes weights, caps and rates, pauses and lets go on; and whoever brings Redis in line with it.

use penstock_queue::{BookId, Terms};

use crate::world::{AGENTS, Law, World};

impl World {
    /// An operator changes something in MySQL; Redis hears of it with the next look.
    pub(crate) fn operate(&mut self) {
        let pick = self.random.below(3);
        let number = u32::try_from(self.random.below(4)).unwrap();
        match self.random.below(6) {
            0 => self.terms.tenants[pick].weight = 1 + number,
            1 => self.terms.tenants[pick].running_max = (number > 0).then_some(number),
            2 => self.terms.tenants[pick].starts_per_minute = (number > 0).then_some(number * 60),
            3 => self.terms.tenants[pick].is_paused = number == 0,
            4 => self.terms.is_paused = number == 0,
            _ => {
                let chosen = AGENTS.iter().filter(|_| self.random.chance(30));
                self.terms.agents_paused = chosen.map(ToString::to_string).collect();
            }
        }
        self.terms.revision += 1;
        self.note(format!("operator: {:?}", self.terms));
    }

    /// Nothing is paused any more, so that everything can come to its end.
    pub(crate) fn let_go_on(&mut self) {
        let tenants = self.terms.tenants.clone();
        let tenants = tenants.into_iter().map(|tenant| penstock_queue::TenantTerms { is_paused: false, ..tenant });
        self.terms =
            Terms { revision: self.terms.revision + 1, tenants: tenants.collect(), running_max: 0, ..Terms::default() };
    }

    /// Brings Redis in line, if its terms are of another revision.
    pub(crate) async fn bring_in_line(&mut self) -> Law {
        let census = self.test.queue.census().await.unwrap();
        if census.terms_revision != Some(self.terms.revision) && !self.is_broken {
            self.set_terms(&census.book).await;
        }
        Ok(())
    }

    pub(crate) async fn set_terms(&mut self, book: &BookId) {
        let applied = self.test.queue.apply(book, &self.terms).await.unwrap();
        self.note(format!("terms of revision {}: {applied}", self.terms.revision));
    }
}
