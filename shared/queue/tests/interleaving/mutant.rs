//! Broken verbs, each by one change of the text. The laws must notice every one of them, else they are no proof.

use penstock_queue::{Library, library_source};

/// What is changed, and into what.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    from: &'static str,
    into: &'static str,
}

impl Mutant {
    /// The library with the change; the text to change must be there exactly once.
    pub(crate) fn library(&self) -> Library {
        let source = library_source();
        assert_eq!(source.matches(self.from).count(), 1, "{}: `{}` is not there once", self.name, self.from);
        Library::new(&source.replace(self.from, self.into))
    }
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant { name: "admission forgets `admitted`", from: "s.admitted + s.lined + s.held", into: "s.lined + s.held" },
    Mutant { name: "the end is not sealed", from: "  call('XSETID', K[EV], SEAL)\n", into: "" },
    Mutant {
        name: "reap does not fence",
        from: "closing = not fence(id, attempt, 'recovered', 'worker_lost') or closing",
        into: "",
    },
    Mutant {
        name: "retry does not fence",
        from: "  if not fence(id, attempt, cause, cause) then return 2 end",
        into: "",
    },
    Mutant {
        name: "beat extends any lease",
        from: "r.status == 'X' and r.owner == worker and r.attempt == tonumber(args[4 + 2 * i])",
        into: "r.status == 'X'",
    },
    Mutant {
        name: "a registration stays when its task is queued",
        from: "    call('ZREM', K[ADMITTED], id)\n    if r.place ~= '' then\n      count_later(t, -1)\n      due",
        into: "    if r.place ~= '' then\n      count_later(t, -1)\n      due",
    },
    Mutant {
        name: "nobody wakes the next task of a thread",
        from: "      if heir and heir.status == 'H' then",
        into: "      if false then",
    },
    Mutant { name: "a second attempt opens the run again", from: "    if not paused then", into: "    if false then" },
    Mutant {
        name: "a cap does not count",
        from: "return t.hold == 0 and (cap == 0 or t.running < cap)",
        into: "return t.hold == 0",
    },
    Mutant {
        name: "an ended task keeps its slot",
        from: "    call('ZREM', K[LEASES], id)\n    leave_slot(id, r, t)",
        into: "    call('ZREM', K[LEASES], id)",
    },
    Mutant {
        name: "a purged registration keeps its user",
        from: "(r) then leave_thread(no, r, t) end\n  leave_user(no, r)\n  call('HDEL', K[TASKS], id)",
        into: "(r) then leave_thread(no, r, t) end\n  call('HDEL', K[TASKS], id)",
    },
    Mutant {
        name: "a rebuild that was overtaken opens",
        from: "if call('GET', K[META]) or call('HGET', K[STATS], 'token') ~= args[2] then",
        into: "if call('GET', K[META]) then",
    },
    Mutant {
        name: "a task that has ended is queued again",
        from: "if r and r.status ~= 'A' then return { 2, r.status } end",
        into: "if r and r.status ~= 'A' and r.status ~= 'F' then return { 2, r.status } end",
    },
    Mutant {
        name: "the quarantine lane has no bound",
        from: "    and #lane_without('') < s.lane_max and dispatch_quarantined() do",
        into: "    and dispatch_quarantined() do",
    },
    Mutant {
        name: "nobody leaves the quarantine lane",
        from: "  if r.lane == 'q' then s.lane = concat(lane_without(id), ' ') end",
        into: "",
    },
    Mutant { name: "a lost task is not quarantined", from: "  if args[8] == '1' then r.lane = 'q' end\n", into: "" },
    Mutant {
        name: "a tenant at its cap blocks the quarantine lane",
        from: "      if no == first then return false end",
        into: "      if first then return false end",
    },
    Mutant {
        name: "the end takes the number of the last event",
        from: "  seq = max(length, seq) + 1",
        into: "  seq = max(length, seq)",
    },
    Mutant {
        name: "a paused tenant is served",
        from: "return t.hold == 0 and (cap == 0 or t.running < cap)",
        into: "return cap == 0 or t.running < cap",
    },
    Mutant {
        name: "a tenant at its rate is forgotten",
        from: "    call('ZADD', K[PACED], int(due), no)",
        into: "    local _ = due",
    },
    Mutant {
        name: "a walk brings nothing back",
        from: "      leave_home(no, id, r, t)\n      t.waiting = t.waiting + 1\n      queue_up(no, id, r, t)",
        into: "      leave_home(no, id, r, t)\n      t.waiting = t.waiting + 1\n      park(no, id, r)",
    },
    Mutant {
        name: "a registration that goes keeps its thread",
        from: "  if has_thread(r) then leave_thread(no, r, t) end\n  leave_user(no, r)\n  call('HDEL', K[TASKS], id)",
        into: "  leave_user(no, r)\n  call('HDEL', K[TASKS], id)",
    },
    Mutant { name: "a task for later is queued at once", from: "  if due > 0 then", into: "  if false then" },
    Mutant {
        name: "a registration for later is never counted off",
        from: "    if r.place ~= '' then\n      count_later(t, -1)\n    else",
        into: "    if r.place ~= '' then\n      local _ = 1\n    else",
    },
    Mutant {
        name: "the bound of delayed tasks forgets those registered",
        from: "call('ZCARD', K[DELAYED]) + s.later, tonumber(args[15])",
        into: "call('ZCARD', K[DELAYED]), tonumber(args[15])",
    },
];
