package stage

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/proxy"
)

// redis is the server for the locks. All keys of a run carry its name, so that a server of yours
// is not disturbed. Nodes reach it by a link that can be cut, as if the server were stopped.
type redis struct {
	name   string
	addr   string
	option rueidis.ClientOption
	direct rueidis.Client  // has no part in the story: it looks on, and cleans up
	inside *embedded.Redis // nil for a server of yours
	link   *proxy.Proxy
}

// openRedis connects to the server at addr, or starts one inside the program if that is "".
func openRedis(program, addr string) (r *redis, err error) {
	r = &redis{
		name: program + "-" + strings.ToLower(rand.Text()[:10]),
		addr: addr,
		// The link is one to one address: the client must not find others by itself.
		option: rueidis.ClientOption{ForceSingleClient: true, DisableCache: true},
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if addr == "" {
		if r.inside, err = embedded.Start(); err != nil {
			return r, err
		}
		r.addr, r.option = r.inside.Addr(), r.inside.ClientOption()
	}
	r.option.InitAddress = []string{r.addr}
	if r.direct, err = rueidis.NewClient(r.option); err != nil {
		return r, fmt.Errorf("connect to Redis at %s: %w", r.addr, err)
	}
	if r.link, err = proxy.New(r.addr); err != nil {
		return r, err
	}
	r.option.InitAddress = []string{r.link.Addr()}
	return r, nil
}

// stop makes the server be gone for the nodes: their connections break, and new ones are refused.
func (r *redis) stop() {
	r.link.Refuse(true)
	r.link.Reset()
}

// resume ends a stop.
func (r *redis) resume() { r.link.Refuse(false) }

// where tells a reader which server it is.
func (r *redis) where() string {
	if r.inside != nil {
		return "embedded"
	}
	return "at " + r.addr
}

// held returns the locks that somebody has, once they are none or have not become
// so for a while: a lock that was lost while its server was gone lapses by itself.
func (r *redis) held(ctx context.Context) ([]string, error) {
	ctx = context.WithoutCancel(ctx) // also of a story that was interrupted
	late := time.After(2 * TTL)
	for {
		keys, err := r.keys(ctx, r.name+"*:{*}")
		if err != nil || len(keys) == 0 {
			return nil, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			return keys, nil
		}
	}
}

// clean deletes what the run has left: the counters of the fencing tokens.
func (r *redis) clean(ctx context.Context) error {
	keys, err := r.keys(ctx, r.name+"*")
	if err != nil || len(keys) == 0 {
		return err
	}
	if err := r.direct.Do(ctx, r.direct.B().Del().Key(keys...).Build()).Error(); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// keys returns those that match a pattern.
func (r *redis) keys(ctx context.Context, pattern string) (keys []string, err error) {
	for cursor := uint64(0); ; {
		page, err := r.direct.Do(ctx,
			r.direct.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", pattern, err)
		}
		keys = append(keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			return keys, nil
		}
	}
}

func (r *redis) close() {
	if r.link != nil {
		r.link.Close()
	}
	if r.direct != nil {
		r.direct.Close()
	}
	if r.inside != nil {
		r.inside.Close()
	}
}
