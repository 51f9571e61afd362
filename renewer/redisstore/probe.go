package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// probeName is no lock's name in a key: a percent sign of a name
// would be escaped. Nor is probeElsewhere, in another slot.
const (
	probeName      = "%"
	probeElsewhere = "%%"
)

// prober asks the server what the store must know of it. Its questions change nothing there.
type prober struct {
	client   rueidis.Client
	topology *topology.Topology // of a cluster; nil otherwise
	errors   *refusal.Reader
	prefix   string
	replicas int
	line     *line.Line              // told if the server lets places stand in line
	server   *atomic.Pointer[string] // told its run ID
	log      *slog.Logger
}

// questions are all that a new store asks.
func (p *prober) questions() []question {
	if p.errors.ToInspect {
		return []question{p.probeLook}
	}
	all := []question{p.probe, p.warning("maxmemory-policy", warnOfEviction), p.askLines}
	if p.topology == nil {
		all = append(all, p.askRunID)
	}
	if p.client.Mode() == rueidis.ClientModeSentinel {
		all = append(all, p.warning("min-replicas-to-write", warnOfNoReplicas))
	}
	return all
}

// probe asks whether the server lets us do what locks need.
func (p *prober) probe(ctx context.Context) error {
	key := p.prefix + "{" + probeName + "}"
	keys := []string{key, key + schema.FenceSuffix}
	if p.topology == nil {
		// A node of a cluster refuses keys of two slots, whichever it serves.
		// So a client that does not know that there is one is found out: as
		// long as it is lucky with its locks' slots, all would seem well.
		keys = append(keys, p.prefix+"{"+probeElsewhere+"}")
	}
	// By text first, then by name: so that both rights are needed, and the name is known.
	for _, whole := range []bool{true, false} {
		r := wire.Do(ctx, p.client, script.Probe.Command(p.client.B(), whole, keys, p.mode()))
		reply, err := r.ToMessage()
		if err != nil {
			var answer *rueidis.RedisError
			if errors.As(err, &answer) && p.errors.Definite(answer.Error()) ||
				errors.Is(err, rueidis.ErrNoCache) {
				return p.refused(ctx, err)
			}
			return p.orLater(r)
		}
		denied, err := reply.ToArray()
		if err != nil || len(denied) == 0 {
			continue // an odd reply will be met by the locks' own scripts, which say so
		}
		if len(denied) == 2 {
			command, _ := denied[0].ToString()
			text, _ := denied[1].ToString()
			if p.errors.Definite(text) {
				return p.errors.Denied(schema.Part(command), text)
			}
			if p.errors.NotReady(text) {
				return errLater
			}
		}
		return nil
	}
	return p.probeWait(ctx)
}

// refused is the error for what the server definitely refuses. A Sentinel knows none of our
// commands, and would be taken for a server that has renamed them.
func (p *prober) refused(ctx context.Context, err error) error {
	if p.errors.NoCommand(err) {
		hello := wire.Do(ctx, p.client, p.client.B().Arbitrary("HELLO").Build())
		if server, err := hello.AsStrMap(); err == nil && server["mode"] == "sentinel" {
			return &refusal.Error{
				Op: "new", Text: "the server is a Sentinel",
				Hint: "let LOCKBEAT_SENTINEL_MASTER, ?sentinel_master= of the URL, or " +
					"Sentinel.MasterSet of rueidis.ClientOption name its primary",
				Mark: renewer.ErrConfig,
			}
		}
	}
	return p.errors.Wrap("new", err)
}

// mode is that of tell.lua in which the server would be used.
func (p *prober) mode() string {
	if p.topology != nil {
		return script.ModeShard
	}
	return script.ModeLine
}

// probeWait finds out whether the server would wait for replicas, if
// it will be asked to: for none of them, which takes no time.
func (p *prober) probeWait(ctx context.Context) error {
	if p.replicas == 0 {
		return nil
	}
	r := wire.Do(ctx, p.client, p.client.B().Wait().Numreplicas(0).Timeout(1).Build())
	if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.errors.Definite(answer.Error()) {
		return p.errors.Denied("WAIT", answer.Error())
	}
	return p.orLater(r)
}

// askLines asks whether the server lets waiters stand in line on it. If not, and until that is
// known, they are all woken when a lock is free.
func (p *prober) askLines(ctx context.Context) error {
	keys := []string{p.prefix + "{" + probeName + "}"}
	r := wire.Do(ctx, p.client, script.Probe.Command(p.client.B(), true, keys, p.mode(), "line"))
	denied, err := r.ToArray()
	if err == nil && len(denied) == 2 {
		text, _ := denied[1].ToString()
		if p.errors.NotReady(text) {
			return errLater
		}
		if strings.Contains(text, "syntax error") { // at GT
			return &refusal.Error{
				Op: "new",
				Text: "the server is older than Redis 6.2: " +
					p.errors.Secrets.Printable(text),
				Hint: "run Redis 6.2 or later, or Valkey", Mark: renewer.ErrRejected,
				Err: refusal.ErrDenied,
			}
		}
	}
	if err == nil && len(denied) == 0 {
		p.line.Enable()
	}
	return p.orLater(r)
}

// askRunID asks the server for its run ID, which it may keep from us.
func (p *prober) askRunID(ctx context.Context) error {
	r := wire.Do(ctx, p.client, p.client.B().Info().Section("server").Build())
	text, err := r.ToString()
	if err != nil {
		return p.orLater(r)
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			id = strings.TrimSpace(id)
			p.server.Store(&id)
		}
	}
	return nil
}

// warning makes a question about one of the server's settings, which it may keep from us. If warn
// has something to say about the value, it is logged.
func (p *prober) warning(setting string, warn func(value string) string) question {
	return func(ctx context.Context) error {
		r := wire.Do(ctx, p.client, p.client.B().ConfigGet().Parameter(setting).Build())
		config, err := r.AsStrMap()
		if err != nil {
			return p.orLater(r)
		}
		if value := config[setting]; value != "" {
			if text := warn(value); text != "" {
				p.log.LogAttrs(ctx, slog.LevelWarn, "lockbeat: "+text, slog.String(setting, value))
			}
		}
		return nil
	}
}

// warnOfEviction warns of a server that may throw locks away before their time.
func warnOfEviction(policy string) string {
	if policy == "noeviction" {
		return ""
	}
	return "this Redis server may evict locks when its memory is full, and then two owners may " +
		"hold one; " +
		"keep locks on a server with maxmemory-policy noeviction"
}

// warnOfNoReplicas warns of a server that goes on without a replica: after a
// fail-over, clients that reach no Sentinel may go on with the former primary.
// The setting bounds that, and does not exclude it: see docs/redis.md.
func warnOfNoReplicas(least string) string {
	if least != "0" {
		return ""
	}
	return "this Redis server would go on to grant locks after a fail-over that it has not heard " +
		"of, to clients that have not heard of it either, without end; to end that some seconds " +
		"later, set min-replicas-to-write 1 and min-replicas-max-lag on all servers behind Sentinel"
}

// orLater is errLater if the server has not answered, or will answer differently in a moment; and
// otherwise nil: to ask again would be of no use.
func (p *prober) orLater(r rueidis.RedisResult) error {
	if r.NonRedisError() != nil {
		return errLater
	}
	if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.errors.NotReady(answer.Error()) {
		return errLater
	}
	return nil
}

const (
	// probeTimeout bounds what New spends on asking the server, and each round of questions later.
	probeTimeout = time.Second
	// Between these the pause doubles before what was not answered is asked again.
	firstProbePause = 100 * time.Millisecond
	lastProbePause  = 5 * time.Second
)

// question asks the server something about itself, and notes the answer. It returns errLater if
// there was none yet, and any other error if the server definitely refuses what locks need.
type question func(ctx context.Context) error

// errLater means that the server is down, slow or not ready, so that it must be asked again.
var errLater = errors.New("redisstore: the server has not answered yet")

// ask asks questions once, and returns those that were not answered, and the first refusal.
func ask(ctx context.Context, questions []question) (left []question, err error) {
	for _, q := range questions {
		switch err := q(ctx); {
		case errors.Is(err, errLater):
			left = append(left, q)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// askLater asks what was not answered until it is, until life ends, or until the client is closed.
func askLater(
	life context.Context, questions []question, closed func(context.Context) bool, log *slog.Logger,
) {
	for pause := firstProbePause; len(questions) > 0; pause = min(2*pause, lastProbePause) {
		// lest all processes ask a restarted server at once
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(life, probeTimeout)
		left, err := ask(ctx, questions)
		cancel()
		if len(left) > 0 {
			ctx, cancel = context.WithTimeout(life, probeTimeout) // there may be nothing left of it
			if closed(ctx) {
				left = nil
			}
			cancel()
		}
		if err != nil { // New has returned: every request will say so as well
			log.LogAttrs(life, slog.LevelWarn,
				"lockbeat: this Redis server refuses what locks need", slog.Any("error", err))
			return
		}
		questions = left
	}
}

// probeLook asks whether the server lets us do what List and Show need.
func (p *prober) probeLook(ctx context.Context) error {
	b, key := p.client.B(), schema.MarkKey(p.prefix, probeName)+":look" // which nobody has
	all := []rueidis.Completed{
		b.Scan().Cursor(0).Match(schema.Pattern(p.prefix)).Count(1).Build(),
		b.Time().Build(),
		b.Pttl().Key(key).Build(),
		b.Zscan().Key(key).Cursor(0).Build(),
		b.Zcard().Key(key).Build(),
		b.Zrange().Key(key).Min("0").Max("0").Build(),
		b.Hmget().Key(key).Field("x").Build(),
	}
	// A client that takes a node of a cluster for a single server would show that one's locks
	// alone. The node sends it elsewhere for the slots that it has not.
	for slot := range uint16(topology.Slots / 1024) {
		key := schema.MarkKey(p.prefix, topology.TagOf(slot*1024)) + ":look"
		all = append(all, b.Getrange().Key(key).Start(0).End(0).Build())
	}
	for _, command := range all {
		r := wire.Do(ctx, p.client, command)
		if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.errors.Definite(answer.Error()) {
			return p.refused(ctx, r.Error())
		}
		if err := p.orLater(r); err != nil {
			return err
		}
	}
	return nil
}

// unnamed is what a node of a cluster is called that is to be known by its host name and has none.
const unnamed = "?"

// nodesTimeout leaves time for the other questions of New where a node does not answer.
const nodesTimeout = 300 * time.Millisecond

// nodesHaveNames returns an error if a primary of the cluster has no address. The client leaves
// such a node out, and each request to it would wait until its deadline. What can't be asked now,
// later requests show.
func nodesHaveNames(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	rows, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	for _, row := range rows {
		fields, err := row.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		node, err := fields[2].ToArray()
		if err != nil || len(node) == 0 {
			continue
		}
		if host, err := node[0].ToString(); err == nil && host == unnamed {
			return fmt.Errorf("redisstore: new: %w: a node of the cluster calls itself %q, so "+
				"that no client finds it: set cluster-announce-hostname on each node, or "+
				"cluster-preferred-endpoint-type to ip", renewer.ErrRejected, unnamed)
		}
	}
	return nil
}

// tryWrite sends a write that changes nothing and returns an error if a replica has refused it.
// Other errors are not its matter.
func tryWrite(
	ctx context.Context, conn rueidis.DedicatedClient, faults *refusal.Reader,
) error {
	err := conn.Do(ctx, conn.B().Del().Key(schema.NoKey(faults.Prefix)).Build()).Error()
	if faults.Replica(err) {
		return faults.Wrap("watch", err)
	}
	return nil
}
