package simtest_test

import "time"

// saved is what a copy of the server has of its tokens.
type saved struct {
	at   time.Duration
	mark int64
}

// disasters happen to the server now and then.
func (w *world) disasters(done <-chan struct{}) {
	d := newDice(w.plan.seed, "disasters")
	s := w.server
	var copied saved
	for {
		select {
		case <-done:
			return
		case <-time.After(d.between(0, 10*w.plan.cfg.TTL)):
		}
		roll := d.IntN(5)
		w.trace.note(w.now(), "disaster %d", roll)
		switch now := w.now(); roll {
		case 0:
			s.setBack(now)
		case 1:
			s.lose(now)
			w.tally.count(flushed)
		case 2: // with its data, and without
			if d.chance(.5) {
				s.lose(now)
			}
			w.reset(d)
			w.tally.count(restarted)
		case 3:
			copied = s.save(now)
		default: // to a copy that may lack the last writes, with a clock of its own
			if copied.at == 0 || d.chance(.5) {
				copied = s.save(now)
			}
			s.failOver(now, copied, d.between(-time.Second, time.Second))
			w.reset(d)
			w.tally.count(failedOver)
		}
	}
}

// massacres kill most of those who wait, at once, and let them come back later.
func (w *world) massacres(done <-chan struct{}) {
	d := newDice(w.plan.seed, "massacres")
	for {
		select {
		case <-done:
			return
		case <-time.After(d.between(time.Second/2, 3*time.Second)):
		}
		machines := d.chance(.5)
		var dead []*process
		for _, p := range w.processes[1:] {
			if d.chance(.7) {
				p.kill(machines)
				dead = append(dead, p)
			}
		}
		pass(d.between(0, w.plan.mostWait))
		for _, p := range dead {
			p.begin(p.newLink())
		}
		pass(2 * w.plan.mostWait) // a holder has died at most once while another waits
	}
}

// reset breaks all connections.
func (w *world) reset(d dice) {
	for _, p := range w.processes {
		p.life().link.reset(d.between(time.Millisecond, time.Second/2))
	}
}

// setBack sets the clock back by an hour, once.
func (s *server) setBack(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back >= time.Hour {
		return
	}
	s.settleAll(now)
	s.count(setBack)
	s.back += time.Hour
	s.clock.offset -= time.Hour
	s.beginEra(now)
}

// backBy is by how much the clock was set back.
func (s *server) backBy() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back
}

// settleAll ends what has lapsed by now.
func (s *server) settleAll(now time.Duration) {
	for name := range s.book {
		s.live(name, now)
	}
}

// save copies the tokens.
func (s *server) save(now time.Duration) saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return saved{max(now, 1), s.tokens.marks[0]}
}

// lose loses all data.
func (s *server) lose(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll(now)
	for name, t := range s.keys {
		t.end(now, false)
		t.disturbed = true
		delete(s.keys, name)
	}
	clear(s.lines)
	s.restore(now, s.micros(now), saved{})
}

// failOver goes on with a copy, whose clock differs. It may not have all
// leases, nor the last renewals of those that it has, and its clock may end
// them early.
func (s *server) failOver(now time.Duration, from saved, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll(now)
	for name, t := range s.keys {
		t.disturbed = true
		if t.from >= from.at {
			t.end(now, false)
			delete(s.keys, name)
		}
	}
	was := s.micros(now)
	s.clock.offset += by
	s.back = max(0, s.back-by)
	s.restore(now, was, from)
}

// restore goes on with the tokens that were saved. The clock was at was before.
// Tokens fall only where some were lost and the clock is behind them, now or
// later: that is a new era.
func (s *server) restore(now time.Duration, was int64, from saved) {
	if from.mark != s.tokens.marks[0] {
		s.forgotten = max(s.forgotten, s.tokens.marks[0], was)
	}
	s.tokens.marks[0] = from.mark
	s.beginEra(now)
}

// beginEra begins an era if tokens that were forgotten are above those to come.
func (s *server) beginEra(now time.Duration) {
	if s.forgotten >= s.micros(now) && s.forgotten > s.tokens.marks[0] {
		s.era++
		s.forgotten = 0
	}
}
