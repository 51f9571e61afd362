package fault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/testutil/proxy"
)

// duplicates are requests that reach a server twice, at once or late, as from a client that
// repeats what was not answered. The second reply is dropped: on a connection replies
// have no names, and one too many would be taken for the answer to another question.
func duplicates() []Kind {
	return []Kind{{
		Name: "requests-twice", Apart: true,
		New: func(f *Field, dice *rand.Rand) Fault {
			i, who := f.worker(dice)
			//nolint:gosec // moments, not secrets
			e := &echo{most: f.TTL / 2, dice: rand.New(rand.NewPCG(dice.Uint64(), 0))}
			return Fault{
				What: "requests of " + who + " arrive twice",
				Inject: func() error {
					e.open(f, i)
					return nil
				},
				Heal: e.close,
			}
		},
	}}
}

// echo repeats requests.
type echo struct {
	most  time.Duration // by which a repetition is late
	links []*proxy.Proxy
	late  sync.WaitGroup
	ctx   context.Context //nolint:containedctx // ends with close
	end   context.CancelFunc

	mu     sync.Mutex // guards what follows
	dice   *rand.Rand
	closed bool
}

// open listens in on a worker's links.
func (e *echo) open(f *Field, worker int) {
	e.ctx, e.end = context.WithCancel(context.Background())
	for i, s := range f.Deployment.Servers {
		link, addr := f.Links[worker][i], s.Addr()
		e.links = append(e.links, link)
		// A rule for replies sees every request; this one drops none.
		link.DropReplyTo(func(request []byte) bool {
			e.hear(addr, request)
			return false
		}, 1, proxy.ThenReset)
	}
}

// close stops listening; what is still to be repeated is not.
func (e *echo) close() error {
	for _, l := range e.links {
		l.DropReply(0, proxy.ThenReset)
	}
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end()
	e.late.Wait()
	return nil
}

// hear picks requests to be repeated, and repeats them in a while.
func (e *echo) hear(addr string, request []byte) {
	if !bytes.Contains(request[:min(len(request), 32)], []byte("EVAL")) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.dice.IntN(3) > 0 {
		return
	}
	wait := time.Duration(0)
	if e.dice.IntN(2) == 0 {
		wait = time.Duration(e.dice.Int64N(int64(e.most)))
	}
	request = bytes.Clone(request)
	e.late.Go(func() {
		select {
		case <-time.After(wait):
			repeat(e.ctx, addr, request) // a server that can't be reached has been spared
		case <-e.ctx.Done():
		}
	})
}

// repeat sends a request on a connection of its own and waits for the reply.
func repeat(ctx context.Context, addr string, request []byte) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, "AUTH %s %s\r\n%sQUIT\r\n", deploy.User, deploy.Password,
		request); err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}
