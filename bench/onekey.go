package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// crowdOf is a number of processes that want one key, with a number of goroutines each.
type crowdOf struct{ processes, goroutines int }

func (c crowdOf) String() string { return fmt.Sprintf("%d × %d", c.processes, c.goroutines) }

// scuffle is how one library did in all rounds of a crowd.
type scuffle struct {
	rate, commands, jain, longest, share, inverted sample
	overlaps, failed, hung, rounds                 int
}

// contendSlack is by how much a grant must have been asked for later
// to count as overtaking: requests that close cross on their way.
const contendSlack = time.Millisecond

// oneKey lets crowds contend for one key.
func oneKey(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	span, rounds := 2*time.Second, o.rounds
	crowds := []crowdOf{{1, 64}, {4, 16}, {50, 1}}
	if o.short {
		span, rounds, crowds[2].processes = 200*time.Millisecond, 1, 5
	}
	out := &printer{w: w}
	var targets []target
	for _, crowd := range crowds {
		all := make(map[string]*scuffle, len(contenders))
		for round := range rounds {
			for i := range contenders {
				who := contenders[(i+round)%len(contenders)]
				if all[who] == nil {
					all[who] = new(scuffle)
				}
				if err := all[who].round(ctx, server, who, crowd, span); err != nil &&
					ctx.Err() != nil {
					return nil, err
				}
			}
		}
		out.printf("\n## One key, processes × goroutines: %v (medians of %d rounds of %v)\n\n%s",
			crowd, rounds, span, scuffleTable(crowd, all))
		targets = append(targets, scuffleTargets(crowd, all)...)
		o.plots.add(fmt.Sprintf("one-key-%dx%d", crowd.processes, crowd.goroutines),
			fmt.Sprintf("One key, %v: hand-offs a second", crowd),
			"hand-offs/s", func(who string) float64 { return all[who].rate.median() })
	}
	return targets, out.err
}

// round runs a crowd once. What goes wrong is a figure too.
func (s *scuffle) round(
	ctx context.Context, server *redistest.Server, who string, crowd crowdOf, span time.Duration,
) (err error) {
	defer func() { s.rate.fail(err) }()
	ctx, cancel := context.WithTimeout(ctx, span+6*endWithin) // it kills what hangs
	defer cancel()
	children := make([]*childProcess, crowd.processes)
	s.rounds++
	spec := childSpec{
		// A key that was never locked before: some leave one behind when they are cancelled.
		Name: fmt.Sprintf("one:%v:%s:%d", crowd, who, s.rounds),
		Who:  who, Part: partContend, Addr: server.Addr(), TTL: cycleTTL,
		Goroutines: crowd.goroutines, Hold: span,
	}
	defer func() {
		for _, c := range children {
			if c != nil {
				_ = c.end(err) // its result is here already, or the error that counts
			}
		}
	}()
	err = together(len(children), func(i int) (err error) {
		if children[i], err = startChild(ctx, spec); err != nil {
			return err
		}
		return children[i].said.Decode(new(ready))
	})
	if err != nil {
		return fmt.Errorf("a child did not begin: %w", err)
	}
	if err := resetStats(server); err != nil {
		return err
	}
	results := make([]contended, len(children))
	err = together(len(children), func(i int) error {
		if _, err := io.WriteString(children[i].stdin, "go\n"); err != nil {
			return err
		}
		return children[i].said.Decode(&results[i])
	})
	if err != nil {
		return fmt.Errorf("a child said nothing: %w", err)
	}
	return s.judge(server, who, results, span)
}

// asked are the commands by which clients of any library ask; what
// their scripts call in turn is not counted.
var asked = []string{"evalsha", "eval", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"}

func (s *scuffle) judge(
	server *redistest.Server, who string, results []contended, span time.Duration,
) error {
	commands := asked
	if who == redsyncRueidis || who == redsyncGoRedis {
		commands = slices.Concat(asked, []string{"set"}) // which none of its scripts calls
	}
	var calls int64
	for _, command := range commands {
		n, err := server.Calls(command)
		if err != nil {
			return err
		}
		calls += n
	}
	var sum contended
	var least, most int
	for i, r := range results {
		n := r.total()
		if i == 0 {
			least = n
		}
		least, most = min(least, n), max(most, n)
		sum.add(r)
	}
	total := sum.total()
	s.overlaps += sum.Overlaps
	s.failed += sum.Failed
	s.hung += sum.Hung
	s.rate.add(float64(total) / span.Seconds())
	s.commands.add(float64(calls) / float64(max(total, 1)))
	s.jain.add(jain(sum.Counts))
	s.longest.add(ms(sum.Longest))
	s.share.add(float64(most) / float64(max(least, 1)))
	s.inverted.add(100 * inverted(sum.Grants, contendSlack))
	if sum.Err != "" {
		s.rate.failed = brief(sum.Err)
	}
	return nil
}

func scuffleTable(crowd crowdOf, all map[string]*scuffle) table {
	t := table{{
		"", "hand-offs/s", "× rueidislock", "commands each", "Jain index", "longest wait",
		"worst round", "most ÷ least of a process",
		"overtaken", "overlaps", "failed", "hung", "",
	}}
	base := all[peer].rate.median()
	for _, who := range contenders {
		s, overtaken := all[who], "-"
		if crowd.goroutines == 1 { // who notes each grant
			overtaken = fmt.Sprintf("%.1f %%", s.inverted.median())
		}
		t.add(who, fmt.Sprintf("%.0f", s.rate.median()), times(s.rate.median(), base),
			fmt.Sprintf("%.2f", s.commands.median()),
			fmt.Sprintf("%.3f", s.jain.median()), msOf(s.longest.median()), msOf(s.longest.worst()),
			fmt.Sprintf("%.2f", s.share.median()),
			overtaken, fmt.Sprint(s.overlaps), fmt.Sprint(s.failed), fmt.Sprint(
				s.hung,
			), s.rate.failed)
	}
	return t
}

// What the issue asks of each crowd.
func scuffleTargets(crowd crowdOf, all map[string]*scuffle) []target {
	ours, row := all[lockbeat], fmt.Sprintf("one key, %v, ", crowd)
	speed := func(least float64) target {
		reached := ours.rate.median() / max(all[peer].rate.median(), 1)
		return target{
			row + "hand-offs/s", fmt.Sprintf("%.1f × %s", reached, peer),
			fmt.Sprintf("≥ %.0f", least), reached >= least,
		}
	}
	wait := func(most float64) target {
		return target{
			row + "longest wait", msOf(ours.longest.median()), "≤ " + msOf(most),
			ours.longest.median() <= most,
		}
	}
	whole := target{
		row + "overlaps, failed, hung",
		fmt.Sprintf("%d, %d, %d", ours.overlaps, ours.failed, ours.hung), "0, 0, 0",
		ours.overlaps+ours.failed+ours.hung == 0 && len(ours.rate.values) > 0,
	}
	switch crowd.processes {
	case 1:
		const least = 0.98
		return []target{whole, speed(100), wait(50), {
			row + "Jain index", fmt.Sprintf("%.3f", ours.jain.median()), "≥ 0.98",
			ours.jain.median() >= least,
		}}
	case 4:
		const most = 1.5
		return []target{whole, speed(20), wait(100), {
			row + "most ÷ least of a process", fmt.Sprintf("%.2f", ours.share.median()), "≤ 1.5",
			ours.share.median() <= most,
		}}
	default:
		return []target{
			whole,
			{
				row + "commands a handover", fmt.Sprintf("%.2f", ours.commands.median()), "≤ 4",
				ours.commands.median() <= 4,
			},
			{
				row + "overtaken", fmt.Sprintf("%.1f %%", ours.inverted.median()), "≤ 1 %",
				ours.inverted.median() <= 1,
			},
		}
	}
}
