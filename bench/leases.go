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
		s.Leases, s.TTL, s.Hold = 2000, 2*time.Second, time.Second
	}
	var all []*holding
	for _, s.Who = range []string{floor, lockbeat, peer} {
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
		s.Leases/renewMost, renewMost, all[0].alone)
	if !all[0].favoured {
		out.printf("\nThe servers ran without precedence over other processes, which needs root: " +
			"a script may seem slow because its server did" +
			" not have the processor.\n")
	}
	return leaseTargets(all[1], all[0], all[2], s, scripts), out.err
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
	const rssMost, cpuMost, goroutinesMost = 120 * mebibyte, 2500 * time.Millisecond, 10
	return []target{
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
			row + "peak RSS", fmt.Sprintf("%d MB (floor %d, %s %d)", ours.PeakRSS/mebibyte,
				floor.PeakRSS/mebibyte, peer.who, peer.PeakRSS/mebibyte),
			"≤ 120 MB", ours.PeakRSS <= rssMost,
		},
		{
			row + "client CPU, acquire + hold", fmt.Sprintf("%s s (floor %s, %s %s)",
				seconds(ours.cpu()), seconds(floor.cpu()), peer.who, seconds(peer.cpu())),
			"≤ 2.5 s", ours.cpu() <= cpuMost,
		},
		{row + "renewal scripts above 1 ms", fmt.Sprint(len(renewals)), "0", len(renewals) == 0},
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func ratio[T ~int64](a, b T) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }
