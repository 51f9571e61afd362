package simtest_test

import (
	"strconv"
	"strings"
)

// engineFault is a fault that can be planted in the engine.
type engineFault struct {
	name  string
	found []kind // at least one of these is to be found
	edits []edit // PLANTED stands for whether this fault is asked for
}

// untrue is what a belief that outlasts the truth is found as.
var untrue = []kind{outside, twoBelieve, lateNotice}

// engineFaults are in the build of engine_test.go, each dormant unless it is asked for by name.
var engineFaults = []engineFault{
	{"a grant's deadline is counted from the reply", untrue, []edit{
		{
			"leasestate.go", "l.state, l.acquired = held, now",
			"l.state, l.acquired = held, now; if PLANTED { sent = now }",
		},
	}},
	{"a renewal's deadline is counted from the reply", untrue, []edit{
		{
			"renewal.go", "lag := b.sent.Sub(l.due)",
			"lag := b.sent.Sub(l.due); if PLANTED { b.sent = now }",
		},
	}},
	{"the context ends a quarter of the TTL late", untrue, []edit{
		{
			"books.go", "if l.state == held && instant(l.until.Load()) <= now {",
			"until := instant(l.until.Load()); if PLANTED { until = until.Add(l.k.cfg.TTL / 4) }; " +
				"if l.state == held && until <= now {",
		},
		{
			"books.go", "b.bounds[s] = min(b.bounds[s], instant(l.until.Load()))",
			"until := instant(l.until.Load()); if PLANTED { until = until.Add(l.k.cfg.TTL / 4) }; " +
				"b.bounds[s] = min(b.bounds[s], until)",
		},
	}},
	{"each question has an owner token of its own", []kind{lapsed, falseLoss}, []edit{
		{
			"contend.go", "Owner: l.owner.String(), TTL: l.ttl()",
			"Owner: func(fresh ownerToken) string { if PLANTED { return fresh.String() }; " +
				"return l.owner.String() }(newOwner()), TTL: l.ttl()",
		},
	}},
	{"the owner token is the place", []kind{outside, twoBelieve, falseLoss}, []edit{
		{
			"contend.go", "	c.attempts++\n",
			"	c.attempts++; if PLANTED && place != 0 { l.owner = simulatedPlace(place) }\n",
		},
	}},
	{"a rank is lost with its head", []kind{starved, wasted}, []edit{
		{
			"waitqueue.go", "next = q.first\n\tq.remove(next)",
			"next = q.first\n\tq.remove(next); if PLANTED { q.place, q.queued = 0, false }",
		},
	}},
	{"a place is not given up", []kind{leftover, wasted}, []edit{
		{
			"keeper.go", "	if over.queued {",
			"	if over.queued && !PLANTED {",
		},
	}},
	{"a late answer revives", []kind{revived}, []edit{
		{
			"renewal.go", "if l.state != held {",
			"if l.state != held && !(PLANTED && l.state == lost) {",
		},
		{
			"renewal.go", "case now >= instant(l.until.Load()):",
			"case now >= instant(l.until.Load()) && !PLANTED:",
		},
	}},
	{"a hand-off does not raise the token", []kind{tokens}, []edit{
		{
			"leasestate.go", "next.owner, next.fence = l.owner, fence",
			"next.owner, next.fence = l.owner, fence; if PLANTED { next.fence = l.fence }",
		},
	}},
	{"tokens that are left are not given back", []kind{tokens}, []edit{
		{"lease.go", "if l.tokens() != nil {", "if l.tokens() != nil && !PLANTED {"},
	}},
	{"a hand-off begins a deadline of its own", untrue, []edit{
		{
			"leasestate.go", "next.setUntil()",
			"if PLANTED { next.deadline = l.k.deadlineOf(now, l.ttl()) }; next.setUntil()",
		},
	}},
	{"the clock drift is forgotten", untrue, []edit{
		{
			"config.go", "return time.Duration(float64(ttl)*(1-drift)/(1+drift))",
			"if PLANTED { drift = 0 }; return time.Duration(float64(ttl)*(1-drift)/(1+drift))",
		},
	}},
	{"the server's rounding is forgotten", untrue, []edit{
		{
			"config.go", "(1-drift)/(1+drift)) - time.Millisecond",
			"(1-drift)/(1+drift)) - map[bool]time.Duration{false: time.Millisecond}[PLANTED]",
		},
	}},
	{"an unanswered acquire is not freed", []kind{lapsed, leftover, wasted}, []edit{
		{
			"acquire.go", "if c.unsettled != 0 || place != 0 {",
			"if (c.unsettled != 0 || place != 0) && !PLANTED {",
		},
	}},
	{"an unanswered acquire is freed only once", []kind{lapsed, leftover}, []edit{
		{
			"cleaner.go", "unsettled != 0 && settle > 0 {",
			"unsettled != 0 && settle > 0 && !PLANTED {",
		},
	}},
	{"a release without an answer is not repeated", []kind{lapsed}, []edit{
		{
			"release.go", "default:\n\t\tk.cleaner.disown(l.orphan(hold), 0)",
			"default:\n\t\tif !PLANTED { k.cleaner.disown(l.orphan(hold), 0) }",
		},
	}},
	{"a failed heartbeat is not repeated", []kind{falseLoss}, []edit{
		{
			"renewal.go", "again := now.Add(pause/2 + jitter(pause/2))",
			"again := now.Add(pause/2 + jitter(pause/2)); if PLANTED { again = " +
				"now.Add(k.cfg.TTL) }",
		},
	}},
	{"a failed heartbeat counts", untrue, []edit{
		{
			"renewal.go", "case a.Status == StatusHeld:\n\t\tl.renewed",
			"case a.Status == StatusHeld || PLANTED:\n\t\tl.renewed",
		},
	}},
	{"heartbeats come twice an interval", []kind{heartbeats}, []edit{
		{
			"renewal.go", "l.due = l.due.Add(k.cfg.Heartbeat)",
			"l.due = l.due.Add(k.cfg.Heartbeat); if PLANTED { l.due = l.due.Add(-k.cfg.Heartbeat " +
				"/ 2) }",
		},
	}},
	{"the next in line is not told", []kind{hang, starved}, []edit{
		{
			"keeper.go", "next.answer <- nil",
			"if PLANTED { return nothing, 0 }; next.answer <- nil",
		},
	}},
	{"a shutdown frees without telling", untrue, []edit{
		{
			"finish.go", "if l.state == lost && l.lost().Reason != ReasonTaken && l.noticed()",
			"if l.state == held && PLANTED || l.state == lost && l.lost().Reason != ReasonTaken && " +
				"l.noticed()",
		},
		{"shutdown.go", "\t\t\tk.tell()", "if !PLANTED { k.tell() }"},
	}},
	{"a shutdown frees what it has just told", []kind{lateNotice}, []edit{
		{
			"finish.go", "at := l.extras.lostAt.Add(l.k.cfg.Margin)",
			"at := l.extras.lostAt.Add(l.k.cfg.Margin); if PLANTED { at = l.extras.lostAt }",
		},
		{
			"finish.go", "left := min(k.cfg.Margin, k.drainTime(ctx))",
			"left := min(k.cfg.Margin, k.drainTime(ctx)); if PLANTED { return 0 }",
		},
	}},
	{"an acquire that panics keeps its place", []kind{hang, leftover, lapsed}, []edit{
		{"acquire.go", "if c.over {", "if c.over || PLANTED {"},
	}},
	{"a lease of an acquire that panics is not freed", []kind{lapsed}, []edit{
		{
			"release.go", "if l.owner.String() != \"\" && (lost == nil",
			"if !PLANTED && l.owner.String() != \"\" && (lost == nil",
		},
	}},
}

// switched are the edits of a fault, to be made together with those of all others.
func (f engineFault) switched() []edit {
	var edits []edit
	for _, e := range f.edits {
		e.to = strings.ReplaceAll(e.to, "PLANTED", "planted("+strconv.Quote(f.name)+")")
		edits = append(edits, e)
	}
	return edits
}
