package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// Redis is a server for locks. Nodes reach it by links that can be cut.
type Redis struct {
	Addr   string
	Direct rueidis.Client // has no part in the story: it looks on, and cleans up

	option rueidis.ClientOption
	links  []*proxy.Proxy
}

// openServers connects to the user's servers, or starts servers inside the
// program.
func (d *Demo) openServers() error {
	addrs := strings.Split(d.setting.Redis, ",")
	if d.setting.Redis == "" {
		addrs = make([]string, max(1, d.setting.Servers))
	}
	for _, addr := range addrs {
		r := &Redis{
			Addr: addr,
			// A link leads to one address: the client must not find others by
			// itself.
			option: rueidis.ClientOption{ForceSingleClient: true, DisableCache: true},
		}
		if addr == "" {
			inside, err := embedded.Start()
			if err != nil {
				return err
			}
			d.AtEnd(func(context.Context) error { inside.Close(); return nil })
			r.Addr, r.option = inside.Addr(), inside.ClientOption()
		}
		r.option.InitAddress = []string{r.Addr}
		var err error
		if r.Direct, err = rueidis.NewClient(r.option); err != nil {
			return fmt.Errorf("connect to Redis at %s: %w", r.Addr, err)
		}
		d.Servers = append(d.Servers, r)
		d.AtEnd(func(context.Context) error { r.Direct.Close(); return nil })
		d.AtEnd(func(ctx context.Context) error { return r.clean(ctx, d.Name) })
	}
	return nil
}

// Where says which Redis it is.
func (d *Demo) Where() string {
	if d.setting.Redis == "" {
		return "inside the program"
	}
	return "at " + d.setting.Redis
}

// Link returns the options of a client that reaches server i by a link of its
// own.
func (d *Demo) Link(i int) (rueidis.ClientOption, *proxy.Proxy, error) {
	r := d.Servers[i]
	link, err := proxy.New(r.Addr)
	if err != nil {
		return r.option, nil, err
	}
	r.links = append(r.links, link)
	d.AtEnd(func(context.Context) error { link.Close(); return nil })
	option := r.option
	option.InitAddress = []string{link.Addr()}
	return option, link, nil
}

// Stop cuts all nodes off from the first n servers, as if those had been
// stopped. Servers of the user's go on.
func (d *Demo) Stop(n int) {
	for _, r := range d.Servers[:n] {
		for _, link := range r.links {
			link.Refuse(true)
			link.Reset()
		}
	}
	d.Print("  Redis is stopped (%d of %d): connections break, and new ones are refused.", n,
		len(d.Servers))
}

// Resume heals all links.
func (d *Demo) Resume() {
	for _, r := range d.Servers {
		for _, link := range r.links {
			link.Refuse(false)
			link.Heal()
		}
	}
}

// claimNothingLeft claims that no lock and no slot of a limit is held in the
// end. One that was lost while its server was gone lapses by itself within its
// TTL.
func (d *Demo) claimNothingLeft(ctx context.Context) {
	for late := time.Now().Add(2 * TTL); ; <-time.After(20 * time.Millisecond) {
		var left []string
		for _, r := range d.Servers {
			for _, pattern := range []string{"*:{*}", "*:{*}:slots*"} {
				keys, err := r.keys(ctx, d.Name+pattern)
				if err != nil {
					keys = []string{err.Error()} // unknown is not none
				}
				left = append(left, keys...)
			}
		}
		if len(left) == 0 || time.Now().After(late) {
			d.Claim("locks left behind", len(left) == 0, "%d %s", len(left),
				strings.Join(left, " "))
			return
		}
	}
}

// clean deletes what the run has left: the counters of the fencing tokens.
func (r *Redis) clean(ctx context.Context, name string) error {
	keys, err := r.keys(ctx, "*"+name+"*")
	if err != nil || len(keys) == 0 {
		return err
	}
	return r.Direct.Do(ctx, r.Direct.B().Del().Key(keys...).Build()).Error()
}

// keys returns those that match a pattern.
func (r *Redis) keys(ctx context.Context, pattern string) ([]string, error) {
	scanner := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
		scan := r.Direct.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()
		return r.Direct.Do(ctx, scan).AsScanEntry()
	})
	return slices.Collect(scanner.Iter()), scanner.Err()
}

// TTL is that of the locks. It is short, so that a loss shows within seconds.
// renewer.DefaultTTL (15 s) suits most programs better.
const TTL = 2 * time.Second

// Keeper returns a keeper for a node, on a connection of its own. o may be nil.
func (d *Demo) Keeper(node string, o renewer.Observer) (*renewer.Keeper, error) {
	store, err := d.Store(0, node)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", node, err)
	}
	k, err := renewer.New(store, renewer.Config{
		TTL: TTL, Node: node, Observer: o, Log: renewer.Silent, // the demo tells it
	})
	if err != nil {
		return nil, err
	}
	d.AtEnd(k.Shutdown)
	return k, nil
}

// Store returns a store on server i for a node.
func (d *Demo) Store(i int, node string) (*redisstore.Store, error) {
	option, _, err := d.Link(i)
	if err != nil {
		return nil, err
	}
	store, err := connect(redisstore.Deployment{
		Option: option, Prefix: d.Prefix(node), TTL: TTL,
	})
	if err != nil {
		return nil, err
	}
	d.AtEnd(func(context.Context) error { store.Close(); return nil })
	return store, nil
}

// Prefix is that of a node's keys.
func (d *Demo) Prefix(node string) string {
	if d.setting.Apart {
		return d.Name + "-" + node + ":"
	}
	return d.Name + ":"
}

// connect makes a store as a program would when it starts.
func connect(redis redisstore.Deployment) (*redisstore.Store, error) {
	// A machine on which many processes start at once may need more than one
	// attempt.
	for late := time.Now().Add(20 * time.Second); ; <-time.After(50 * time.Millisecond) {
		store, err := redisstore.Open(context.Background(), redis,
			redisstore.Log(renewer.Silent))
		if !errors.Is(err, renewer.ErrUnavailable) || time.Now().After(late) {
			return store, err
		}
	}
}

// Serve runs a server on a loopback port of its own until the demo ends, and
// returns its address.
func (d *Demo) Serve(
	serve func(net.Listener) error, stop func(context.Context) error,
) (addr string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- serve(listener) }()
	d.AtEnd(func(ctx context.Context) error {
		err := stop(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return listener.Addr().String(), nil
}

// Wait waits for c and returns nil, or for the end of ctx and returns its
// cause.
func Wait[T any](ctx context.Context, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}
