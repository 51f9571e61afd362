package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

const (
	workers = 8
	// usualSeed has workers fail, die and succeed.
	usualSeed = 7
)

// course is how it went.
type course struct {
	begun, succeeded, dead int
	answers                map[string]int
	without                []string // who has ended without an answer, and why
	killed                 map[string]bool
}

func tell(ctx context.Context, s *stage.Stage, seed uint64) error {
	s.Print("%d workers, each a process, want one report, which is to be written once. Redis: %s.",
		workers, s.Where())
	s.Print("An attempt succeeds with a chance of 15 %%; one in four or so kills its process. At "+
		"most %d. TTL of the lock: %v.", attempts, ttl)

	words := make(chan stage.Word)
	for i := range workers {
		if _, err := s.Join(ctx, fmt.Sprint("worker-", i+1), ttl, role{seed}, words); err != nil {
			return err
		}
	}
	s.Title("Attempt by attempt")
	c := &course{answers: make(map[string]int), killed: make(map[string]bool)}
	begun := time.Now()
	for c.ended() < workers {
		select {
		case w := <-words:
			if err := c.hear(s, w, time.Since(begun)); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.claim(s, seed)
	return nil
}

// ended counts the workers that have an answer, will have none, or are dead.
func (c *course) ended() (n int) {
	for _, m := range c.answers {
		n += m
	}
	return n + len(c.without) + c.dead
}

func (c *course) hear(s *stage.Stage, w stage.Word, at time.Duration) error {
	if w.Text == nil {
		if !c.killed[w.Node] {
			return fmt.Errorf("%s has ended", w.Node)
		}
		c.dead++
		return nil
	}
	var said word
	if err := json.Unmarshal(w.Text, &said); err != nil {
		return err
	}
	line := ""
	switch said.What {
	case begins:
		c.begun++
		line = fmt.Sprintf("attempt %d: %s begins", said.Attempt, w.Node)
		if said.Previous != "" {
			line = fmt.Sprintf("attempt %d: %s takes over from %s", said.Attempt, w.Node,
				said.Previous)
			if c.killed[said.Previous] {
				line += ", which was killed"
			}
		}
	case fails:
		line = "           fails"
	case dies:
		c.killed[w.Node] = true
		line = "           is killed"
	case succeeds:
		c.succeeded++
		line = "           succeeds"
	case hasAnswer:
		c.answers[said.Answer]++
	case hasNone:
		c.without = append(c.without, w.Node+": "+said.Answer)
	}
	if line != "" {
		s.Print("  %8s  %s", stage.Span(at), line)
	}
	return nil
}

// claim says what should have come of it: the dice are known.
func (c *course) claim(s *stage.Stage, seed uint64) {
	want, deaths := attempts, 0
	succeeded := false
	for n := 1; n <= attempts && !succeeded && deaths < workers; n++ {
		switch (role{seed}).luck(n) {
		case succeeds:
			want, succeeded = n, true
		case dies:
			deaths++
			want = n
		}
	}
	s.Title("In the end")
	for _, answer := range slices.Sorted(maps.Keys(c.answers)) {
		s.Print("  %d workers have the answer: %s", c.answers[answer], answer)
	}
	for _, why := range c.without {
		s.Print("  %s", why)
	}
	if !succeeded {
		s.Claim("nobody succeeded, and all who live were told",
			fmt.Sprintf("%d told, %d dead", len(c.without), c.dead),
			c.succeeded == 0 && len(c.without)+c.dead == workers)
		return
	}
	s.Claim("attempts, each counted, those that died too", fmt.Sprintf("%d of %d", c.begun, want),
		c.begun == want)
	s.Claim("it succeeded once", fmt.Sprint(c.succeeded), c.succeeded == 1)
	s.Claim("all who live have the same answer",
		fmt.Sprintf("%d different, %d without", len(c.answers), len(c.without)),
		len(c.answers) == 1 && len(c.without) == 0)
	s.Claim("workers killed, and taken over from", fmt.Sprint(c.dead), c.dead == deaths)
}
