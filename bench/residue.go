package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// left is what names that were locked and freed once have left at the servers.
type left struct{ keys, bytes int64 }

// residue locks and frees many names, each of them once.
func residue(ctx context.Context, o options, w io.Writer) (targets []target, err error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	cluster, err := redistest.OpenCluster(3, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cluster.Close() }() // as above
	names := 200_000
	if o.short {
		names = 2000
	}
	one := deployment{addr: server.Addr()}
	alone, err := leave(ctx, one, []*redistest.Server{server}, names)
	if err != nil {
		return nil, err
	}
	three := deployment{addr: cluster.Masters[0].Addr(), cluster: true}
	spread, err := leave(ctx, three, cluster.Masters, names)
	if err != nil {
		return nil, err
	}
	slots := make(map[int]bool)
	for i := range names {
		slots[redistest.Slot("{"+onceName(i)+"}")] = true
	}
	t := table{{"", "keys left", "bytes left", "bytes a name", "keys a slot touched"}}
	t.add(lockbeat, fmt.Sprint(alone.keys), fmt.Sprint(alone.bytes),
		fmt.Sprintf("%.1f", float64(alone.bytes)/float64(names)), "")
	aSlot := float64(spread.keys) / float64(len(slots))
	t.add(onCluster, fmt.Sprint(spread.keys), fmt.Sprint(spread.bytes),
		fmt.Sprintf("%.1f", float64(spread.bytes)/float64(names)), fmt.Sprintf("%.2f", aSlot))
	out := &printer{w: w}
	out.printf("\n## %d names, locked and freed once\n\n"+
		"Bytes of data: without scripts, the Lua heap, histograms and the slow log.\n\n%s",
		names, t)
	const keysMost, bytesMost = 64, 64 << 10
	row := fmt.Sprintf("%d names, locked and freed once, ", names)
	return []target{
		{row + "keys left", fmt.Sprint(alone.keys), "≤ 64", alone.keys <= keysMost},
		{row + "bytes left", fmt.Sprint(alone.bytes), "≤ 65536", alone.bytes <= bytesMost},
		atMost(row+"cluster, keys left ÷ slots touched", aSlot, 1),
	}, out.err
}

func onceName(i int) string { return "once:" + strconv.Itoa(i) }

// leave returns what the names have left. What a server keeps once for all, the mark of tokens and
// its tables, is there before: a few other names were locked by then.
func leave(
	ctx context.Context, d deployment, servers []*redistest.Server, names int,
) (left, error) {
	const warm = 100
	err := lockOnce(ctx, d, warm, func(i int) string { return "warm:" + onceName(i) })
	if err != nil {
		return left{}, err
	}
	before, err := leftAt(servers)
	if err != nil {
		return left{}, err
	}
	if err := lockOnce(ctx, d, names, onceName); err != nil {
		return left{}, err
	}
	after, err := leftAt(servers)
	return left{after.keys - before.keys, after.bytes - before.bytes}, err
}

// leftAt is what servers have, once they have noticed that the clients are gone.
// It leaves out what a server keeps of the work and not of the names: its scripts,
// and the heap of its Lua interpreter, which is up to 100 kB larger before it
// collects than after; 25 kB for the histogram of each command; and the slow log.
func leftAt(servers []*redistest.Server) (sum left, err error) {
	time.Sleep(500 * time.Millisecond)
	for _, s := range servers {
		if err := resetStats(s); err != nil {
			return sum, err
		}
		if err := s.Do("SCRIPT", "FLUSH", "SYNC").Error(); err != nil {
			return sum, fmt.Errorf("SCRIPT FLUSH: %w", err)
		}
		keys, err := s.DBSize()
		if err != nil {
			return sum, fmt.Errorf("DBSIZE: %w", err)
		}
		info, err := s.Do("INFO", "memory").ToString()
		if err != nil {
			return sum, fmt.Errorf("INFO memory: %w", err)
		}
		used, err := strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
		if err != nil {
			return sum, fmt.Errorf("INFO memory: %w", err)
		}
		sum.keys += keys
		sum.bytes += used
	}
	return sum, nil
}

// lockOnce locks and frees each name once, by a keeper of its own.
func lockOnce(ctx context.Context, d deployment, names int, name func(int) string) error {
	keeper, client, err := connectKeeperOn(d, cycleTTL)
	if err != nil {
		return err
	}
	defer client.Close()
	numbers := make(chan int)
	failures := make([]error, acquirers)
	var wg sync.WaitGroup
	for worker := range acquirers {
		wg.Go(func() {
			for i := range numbers {
				if failures[worker] != nil {
					continue
				}
				lease, err := keeper.Acquire(ctx, name(i))
				if err == nil {
					err = lease.Release(ctx)
				}
				failures[worker] = err
			}
		})
	}
	for i := range names {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	return errors.Join(errors.Join(failures...), keeper.Shutdown(ending))
}
