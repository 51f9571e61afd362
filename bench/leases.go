package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// holding is how one contestant held its leases.
type holding struct {
	who string
	taken
	kept
	lasted   time.Duration // the hold, as seen from outside
	redisCPU time.Duration // of the hold alone
	renewals int64
	keys     int64
	scripts  string
	slow     []slow
	ping     histogram
	favoured bool          // whether the server had precedence over other processes
	alone    time.Duration // the slowest renewal script when nothing else runs; of the floor only
}

const mebibyte = 1 << 20

// leases holds many leases in one process, for each contestant in a
// process and on a server of its own.
func leases(ctx context.Context, o options, w io.Writer) ([]target, error) {
	s := childSpec{
		Leases: 100_000, TTL: 10 * time.Second, Hold: 30 * time.Second,
		Profile: o.profile,
	}
	if o.short {
		s.Leases, s.TTL, s.Hold = 2000, 5*time.Second, 2*time.Second
	}
	var all []*holding
	for _, s.Who = range []string{floor, lockbeat, peer} {
		s.Way = holdingWay(s.Who)
		h, err := hold(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Who, err)
		}
		all = append(all, h)
	}
	out := &printer{w: w}
	out.printf("\n## %d leases held by one process, TTL %v, for %v\n\n%s", s.Leases, s.TTL, s.Hold,
		holdTable(all))
	scripts, err := loadScripts()
	if err != nil {
		return nil, err
	}
	out.printf("\n### What others of the server notice meanwhile\n\n%s", stallTable(all, scripts))
	out.printf("\nBy itself, with the machine's other work left out, the slowest of %d renewal "+
		"scripts of %d keys takes %v.\n",
		s.Leases/renewOurs, renewOurs, all[0].alone)
	if !all[0].favoured {
		out.printf("\nThe servers ran without precedence over other processes, which needs root: " +
			"a script may seem slow because its server did" +
			" not have the processor.\n")
	}
	return leaseTargets(all[1], all[0], all[2], s, scripts), out.err
}

// holdingWay is how a contestant connects to hold leases: the floor renews from one goroutine, for
// which nothing is faster than to write and to read by itself.
func holdingWay(who string) string {
	if who == floor {
		return synchronous
	}
	return ""
}

// hold runs one child.
func hold(ctx context.Context, s childSpec) (*holding, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	favoured := favour(server) == nil
	s.Addr = server.Addr()
	child, err := startChild(ctx, s)
	if err != nil {
		return nil, err
	}
	h, err := watch(ctx, server, s.Who, child.stdin, child.said)
	if err := child.end(err); err != nil {
		return nil, err
	}
	h.favoured = favoured
	if s.Who == floor {
		h.alone, err = scriptAlone(ctx, server, s)
	}
	return h, err
}

// watch measures from outside while the child holds.
func watch(
	ctx context.Context, server *redistest.Server, who string, stdin io.Writer, said *json.Decoder,
) (*holding, error) {
	h := &holding{who: who}
	if err := said.Decode(&h.taken); err != nil {
		return nil, fmt.Errorf("the child ended before it had acquired: %w", err)
	}
	before, err := serverCPU(server)
	if err != nil {
		return nil, err
	}
	if err := resetStats(server); err != nil {
		return nil, err
	}
	pinging, stop := context.WithCancel(ctx)
	defer stop()
	pings := make(chan error, 1)
	go func() { pings <- ping(pinging, server, &h.ping) }()
	begun := time.Now()
	if _, err := io.WriteString(stdin, "hold\n"); err != nil {
		return nil, err
	}
	if err := said.Decode(&h.kept); err != nil {
		return nil, fmt.Errorf("the child ended while it held: %w", err)
	}
	h.lasted = time.Since(begun)
	stop()
	if err := <-pings; err != nil {
		return nil, err
	}
	after, err := serverCPU(server)
	if err != nil {
		return nil, err
	}
	h.redisCPU = after - before
	err = h.read(server)
	return h, err
}

// read asks the server how it was for it.
func (h *holding) read(server *redistest.Server) (err error) {
	// ours and theirs: one call a renewal
	for _, command := range []string{"pexpire", "pexpireat"} {
		calls, err := server.Calls(command)
		if err != nil {
			return err
		}
		h.renewals += calls
	}
	if h.keys, err = server.DBSize(); err != nil {
		return err
	}
	if h.scripts, err = scriptTimes(server); err != nil {
		return err
	}
	h.slow, err = slowlog(server)
	return err
}

func holdTable(all []*holding) table {
	base := all[0]
	t := table{{
		"", "not got", "lost", "client CPU s: hold", "÷ floor", "acquire + hold", "÷ floor",
		"Redis CPU s: hold",
		"peak RSS MB", "÷ floor", "goroutines of its own", "all goroutines, peak", "renewals/s",
		"acquired in s",
	}}
	for _, h := range all {
		total, baseTotal := h.cpu(), base.cpu()
		t.add(h.who, fmt.Sprint(h.Failed), fmt.Sprint(h.Lost),
			seconds(h.kept.CPU), ratio(h.kept.CPU, base.kept.CPU), seconds(total),
			ratio(total, baseTotal), seconds(h.redisCPU),
			fmt.Sprint(h.PeakRSS/mebibyte), ratio(h.PeakRSS, base.PeakRSS), fmt.Sprint(h.Own),
			fmt.Sprint(h.Goroutines),
			fmt.Sprintf("%.0f", h.rate()), seconds(h.Took))
	}
	return t
}

// cpu is the processor time of the holder, from the first acquire to the end of the hold.
func (h *holding) cpu() time.Duration { return h.taken.CPU + h.kept.CPU }

func (h *holding) rate() float64 { return float64(h.renewals) / h.lasted.Seconds() }

func leaseTargets(ours, floor, peer *holding, s childSpec, scripts scripts) []target {
	row := fmt.Sprintf("%d leases, ", s.Leases)
	renewals, _ := ours.stalls(scripts)
	const goroutinesMost, serverMost = 10, 1.2
	server := ours.serverCost() / max(floor.serverCost(), 1e-9)
	return append(holdTargets(row, ours, peer), []target{
		{
			row + "not got or lost",
			fmt.Sprintf("%d (%s: %d)", ours.Failed+ours.Lost, peer.who, peer.Failed+peer.Lost), "0",
			ours.Failed+ours.Lost == 0,
		},
		{
			row + "goroutines of ours", fmt.Sprintf("%d (%s: %d)", ours.Own, peer.who, peer.Own),
			"≤ 10", ours.Own <= goroutinesMost,
		},
		{
			row + "Redis CPU a renewal", fmt.Sprintf("%.2f × floor (%.1f µs)", server,
				floor.serverCost()),
			"≤ 1.20", floor.renewals > 0 && server <= serverMost,
		},
		{row + "renewal scripts above 1 ms", fmt.Sprint(len(renewals)), "0", len(renewals) == 0},
	}...)
}

// serverCost is the server's processor time for a renewal, in µs.
func (h *holding) serverCost() float64 {
	return float64(h.redisCPU.Microseconds()) / float64(max(h.renewals, 1))
}

// holdTargets are those beside rueidislock.
func holdTargets(row string, ours, theirs *holding) []target {
	const cpuMost, rssMost = 0.22, 0.08
	cpu := float64(ours.kept.CPU) / max(float64(theirs.kept.CPU), 1)
	rss := float64(ours.PeakRSS) / max(float64(theirs.PeakRSS), 1)
	return []target{
		{
			row + "client CPU of the hold", fmt.Sprintf("%.2f × %s", cpu, peer), "≤ 0.22",
			theirs.kept.CPU > 0 && cpu <= cpuMost,
		},
		{
			row + "peak RSS", fmt.Sprintf("%.2f × %s", rss, peer), "≤ 0.08",
			theirs.PeakRSS > 0 && rss <= rssMost,
		},
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func ratio[T ~int64](a, b T) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }
